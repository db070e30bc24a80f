"""The table of calls: each by name, in a form that does no harm where it is made, and what it answers there."""

import ctypes
import os

from attacking import LIBC, attack, call

# All are refused before they are begun; the arguments do no harm where a call is made all the same.
_REFUSED = {
    "reboot": (0, 0, 0),
    "kexec_load": (0, 0, 0, 1 << 30),
    "kexec_file_load": (-1, -1, 0, 0, 1 << 30),
    "init_module": (0, 0, 0),
    "finit_module": (-1, 0, 0),
    "delete_module": (0, 0),
    "swapon": (0, -1),
    "swapoff": (0,),
    "acct": (1,),
    "quotactl": (0x7FFFFF00, 0, 0, 0),
    "quotactl_fd": (-1, 0, 0, 0),
    "settimeofday": (1, 0),
    "clock_settime": (77, 0),
    "adjtimex": (0,),
    "clock_adjtime": (0, 0),
    "syslog": (77, 0, 0),
    "sethostname": (0, -1),
    "setdomainname": (0, -1),
    "bpf": (0, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 0),
    "userfaultfd": (1 << 20,),
    "fanotify_init": (1 << 30, 0),
    "fanotify_mark": (-1, 0, 0, -1, 0),
    "name_to_handle_at": (-1, 0, 0, 0, 1 << 30),
    "open_by_handle_at": (-1, 0, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 1 << 30),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "fsopen": (0, 1 << 30),
    "fsconfig": (-1, 0, 0, 0, 0),
    "fsmount": (-1, 1 << 30, 0),
    "fspick": (-1, 0, 1 << 30),
    "move_mount": (-1, 0, -1, 0, 1 << 30),
    "open_tree": (-1, 0, 1 << 30),
    "mount_setattr": (-1, 0, 1 << 30, 0, 0),
    "setns": (-1, 0),
    "unshare": (1 << 30,),
    "pidfd_getfd": (-1, 0, 0),
    "ptrace": (77, 0, 0, 0),
    "process_vm_readv": (0, 0, 0, 0, 0, 1),
    "process_vm_writev": (0, 0, 0, 0, 0, 1),
    "process_madvise": (-1, 0, 0, 0, 0),
    "kcmp": (0, 0, 77, 0, 0),
    "migrate_pages": (-1, 0, 0, 0),
    "move_pages": (-1, 0, 0, 0, 0, 0),
    "personality": (0x0040000,),
    "memfd_secret": (1 << 20,),
    "vhangup": (),
    "setgroups": (0, 0),
    "lookup_dcookie": (0, 0, 0),
    "nfsservctl": (),
    "iopl": (9,),
    "ioperm": (1 << 40, 1, 0),
    "uselib": (0,),
    "sysfs": (77,),
    "modify_ldt": (77, 0, 0),
}
# Answered as a Linux kernel without the call does, so that programs fall back.
_ABSENT = {
    "lsm_set_self_attr": (0, 0, 0, 1),
    "listmount": (0, 0, 0, 0),
    "statmount": (0, 0, 0, 0),
    "io_uring_setup": (8, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 77, 0, 0),
    "clone3": (0, 0),
    "openat2": (-100, 0, 0, 0),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "keyctl": (7777, 0, 0, 0, 0),
    "io_setup": (0, 0),
    "vmsplice": (-1, 0, 0, 1 << 30),
}


_HARMFUL = ("vhangup",)


def _register(name, arguments, refused):
    def made():
        call(name, *arguments)

    made.__name__ = name
    # As root it is reached; whether an ordinary user may have it is the Linux kernel's affair.
    attack("calls", refused, None if name in _HARMFUL else ("reached", "any"))(made)


for _name, _arguments in _REFUSED.items():
    _register(_name, _arguments, "EPERM")
for _name, _arguments in _ABSENT.items():
    _register(_name, _arguments, "ENOSYS")


@attack("calls", "ENOSYS", "ENOSYS")
def a_number_that_no_call_has():
    """Outside of every table: as on a Linux kernel that has not heard of it."""
    ctypes.set_errno(0)
    if LIBC.syscall(ctypes.c_long(4000), 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
