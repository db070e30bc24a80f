"""The arguments of system calls: their names, and how each is read (man 2 of each call)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

# "name:kind" for each argument; without a kind it is a signed 32-bit number; decode.py reads the kinds. path,
# address and bytes point to what is copied; of the latter two, the next argument is the length.
_SIGNATURES: Final[Mapping[str, str]] = {
    "socket": "family:family type:socket_type protocol",
    "socketpair": "family:family type:socket_type protocol pair:pointer",
    "connect": "fd:fd address:address length",
    "bind": "fd:fd address:address length",
    "listen": "fd:fd backlog",
    "accept": "fd:fd address:pointer length:pointer",
    "accept4": "fd:fd address:pointer length:pointer flags:hex",
    "sendto": "fd:fd data:pointer size:size flags:hex address:address length",
    "sendmmsg": "fd:fd messages:pointer count flags:hex",
    "recvmmsg": "fd:fd messages:pointer count flags:hex timeout:pointer",
    "setsockopt": "fd:fd level option value:pointer length",
    "getsockopt": "fd:fd level option value:pointer length:pointer",
    "ioctl": "fd:fd request:ioctl argument:pointer",
    "clone": "flags:clone_flags stack:pointer",
    "unshare": "flags:clone_flags",
    "setns": "fd:fd type:clone_flags",
    "ptrace": "request:ptrace pid address:pointer data:pointer",
    "process_vm_readv": "pid local:pointer local_count:size remote:pointer remote_count:size flags:hex",
    "process_vm_writev": "pid local:pointer local_count:size remote:pointer remote_count:size flags:hex",
    "process_madvise": "pidfd:fd vectors:pointer count:size advice flags:hex",
    "pidfd_getfd": "pidfd:fd target:fd flags:hex",
    "kcmp": "pid1 pid2 type index1:size index2:size",
    "kill": "pid signal:signal",
    "tkill": "tid signal:signal",
    "tgkill": "pid tid signal:signal",
    "mount": "source:path target:path type:path flags:mount_flags data:pointer",
    "umount2": "target:path flags:hex",
    "pivot_root": "new_root:path put_old:path",
    "chroot": "path:path",
    "fsopen": "type:path flags:hex",
    "fsmount": "fd:fd flags:hex attributes:hex",
    "fsconfig": "fd:fd command key:path value:pointer auxiliary",
    "fspick": "directory:fd path:path flags:hex",
    "move_mount": "from_directory:fd from:path to_directory:fd to:path flags:hex",
    "open_tree": "directory:fd path:path flags:hex",
    "open_tree_attr": "directory:fd path:path flags:hex attributes:pointer size:size",
    "mount_setattr": "directory:fd path:path flags:hex attributes:pointer size:size",
    "mknod": "path:path mode:mode device:hex",
    "mknodat": "directory:fd path:path mode:mode device:hex",
    "name_to_handle_at": "directory:fd path:path handle:pointer mount:pointer flags:hex",
    "open_by_handle_at": "mount:fd handle:pointer flags:hex",
    "fanotify_init": "flags:hex event_flags:hex",
    "fanotify_mark": "fd:fd flags:hex mask:hex directory:fd path:path",
    "swapon": "path:path flags:hex",
    "swapoff": "path:path",
    "acct": "path:path",
    "quotactl": "command:hex special:path id address:pointer",
    "quotactl_fd": "fd:fd command:hex id address:pointer",
    "reboot": "magic:hex magic2:hex command:hex argument:pointer",
    "kexec_load": "entry:pointer count:size segments:pointer flags:hex",
    "kexec_file_load": "kernel:fd initrd:fd length:size command_line:pointer flags:hex",
    "init_module": "image:pointer size:size parameters:path",
    "finit_module": "fd:fd parameters:path flags:hex",
    "delete_module": "name:path flags:hex",
    "create_module": "name:path size:size",
    "query_module": "name:path which buffer:pointer size:size result:pointer",
    "get_kernel_syms": "table:pointer",
    "uselib": "path:path",
    "bpf": "command:bpf attributes:pointer size:size",
    "perf_event_open": "attributes:pointer pid cpu group:fd flags:hex",
    "userfaultfd": "flags:hex",
    "iopl": "level",
    "ioperm": "from:hex count:size on",
    "syslog": "type buffer:pointer length",
    "vhangup": "",
    "personality": "persona:hex",
    "add_key": "type:path description:path payload:pointer size:size keyring",
    "request_key": "type:path description:path info:path keyring",
    "keyctl": "operation argument2:hex argument3:hex argument4:hex argument5:hex",
    "setgroups": "count:size list:pointer",
    "setuid": "uid",
    "setgid": "gid",
    "sethostname": "name:bytes length",
    "setdomainname": "name:bytes length",
    "settimeofday": "time:pointer zone:pointer",
    "clock_settime": "clock time:pointer",
    "clock_adjtime": "clock change:pointer",
    "adjtimex": "change:pointer",
    "memfd_secret": "flags:hex",
    "modify_ldt": "function address:pointer size:size",
    "move_pages": "pid count:size pages:pointer nodes:pointer status:pointer flags:hex",
    "migrate_pages": "pid maximum:size old:pointer new:pointer",
    "lookup_dcookie": "cookie:hex buffer:pointer size:size",
    "nfsservctl": "command argument:pointer result:pointer",
    "prctl": "option:prctl argument2:hex argument3:hex argument4:hex argument5:hex",
    "seccomp": "operation flags:hex argument:pointer",
    "prlimit64": "pid resource new:pointer old:pointer",
    "sched_setaffinity": "pid size:size mask:pointer",
    "openat": "directory:fd path:path flags:hex mode:mode",
    "open": "path:path flags:hex mode:mode",
    "creat": "path:path mode:mode",
    "unlink": "path:path",
    "unlinkat": "directory:fd path:path flags:hex",
    "rmdir": "path:path",
    "mkdir": "path:path mode:mode",
    "mkdirat": "directory:fd path:path mode:mode",
    "rename": "from:path to:path",
    "renameat": "from_directory:fd from:path to_directory:fd to:path",
    "renameat2": "from_directory:fd from:path to_directory:fd to:path flags:hex",
    "link": "from:path to:path",
    "linkat": "from_directory:fd from:path to_directory:fd to:path flags:hex",
    "symlink": "target:path path:path",
    "symlinkat": "target:path directory:fd path:path",
    "chmod": "path:path mode:mode",
    "fchmodat": "directory:fd path:path mode:mode",
    "chown": "path:path uid gid",
    "fchownat": "directory:fd path:path uid gid flags:hex",
    "truncate": "path:path length:size",
    "chdir": "path:path",
    "memfd_create": "name:path flags:hex",
    "inotify_add_watch": "fd:fd path:path mask:hex",
}

_UNKNOWN: Final = tuple((f"arg{index}", "hex") for index in range(6))


def signature(syscall: str) -> tuple[tuple[str, str], ...]:
    """Return (name, kind) of each argument of ``syscall``; six plain ones for an undescribed call."""
    described = _SIGNATURES.get(syscall)
    if described is None:
        return _UNKNOWN
    arguments = []
    for argument in described.split():
        name, _, kind = argument.partition(":")
        arguments.append((name, kind or "int"))
    return tuple(arguments)


def is_described(syscall: str) -> bool:
    """Tell whether the arguments of ``syscall`` have names here."""
    return syscall in _SIGNATURES
