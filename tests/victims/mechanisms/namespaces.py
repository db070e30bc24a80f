"""Namespaces, mounts and control groups: new walls, other walls, and what the walls stand on."""

import ctypes
import os
import signal

from attacking import LIBC, TARGETS, attack, call, read, write

_NEW = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "network": 0x40000000, "uts": 0x4000000,
        "ipc": 0x8000000, "control group": 0x2000000, "time": 0x80}  # fmt: skip


def _unshares(name, flag):
    def made():
        call("unshare", flag)

    made.__name__ = f"unshare {name}"
    attack("namespaces", "EPERM", ("ok", "ok" if name == "user" else "EPERM"))(made)


for _name, _flag in _NEW.items():
    _unshares(_name, _flag)


def _clones(name, flag):
    def made():
        child = call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    made.__name__ = f"clone {name}"
    attack("namespaces", "EPERM", ("ok", "ok" if "user" in name else "EPERM"))(made)


_clones("user", _NEW["user"])
_clones("mount", _NEW["mount"])
_clones("network with user", _NEW["network"] | _NEW["user"])
_clones("pid below high bits with user", 1 << 40 | _NEW["pid"] | _NEW["user"])


def _enters(name):
    def made():
        descriptor = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
        call("setns", descriptor, 0)

    made.__name__ = f"setns of process 1's {name}"
    attack("namespaces", "EACCES", None)(made)


for _name in ("user", "mnt", "pid", "net"):
    _enters(_name)


@attack("namespaces", "EPERM", None)
def setns_by_a_pidfd_of_process_1():
    """All namespaces at once, Linux 5.8."""
    call("setns", os.pidfd_open(1), _NEW["mount"])


@attack("namespaces", "EACCES", None)
def descriptor_of_a_parent_namespace():
    """NS_GET_PARENT of process 1's user namespace."""
    import fcntl

    fcntl.ioctl(os.open("/proc/1/ns/user", os.O_RDONLY), 0xB702)


@attack("namespaces", "EPERM", None)
def parent_of_its_own_user_namespace():
    """NS_GET_PARENT: a descriptor of the namespace outside, which could be entered."""
    import fcntl

    fcntl.ioctl(os.open("/proc/self/ns/user", os.O_RDONLY), 0xB702)


@attack("namespaces", "EPERM", None)
def parent_of_its_own_process_namespace():
    """NS_GET_PARENT of the namespace of process ids."""
    import fcntl

    fcntl.ioctl(os.open("/proc/self/ns/pid", os.O_RDONLY), 0xB702)


@attack("namespaces", "EPERM", None)
def map_more_users():
    """A second mapping of user ids, say of root."""
    write("/proc/self/uid_map", b"0 0 1")


@attack("namespaces", "EACCES|EPERM", None)
def allow_setgroups_again():
    """The switch that keeps supplementary groups."""
    write("/proc/self/setgroups", b"allow")


@attack("namespaces", "EACCES|EROFS", None)
def raise_the_number_of_user_namespaces():
    """The boot has set it to 0."""
    write("/proc/sys/user/max_user_namespaces", b"100")


def _mounts(name, source, target, kind, flags, data=None):
    def made():
        to = [one.encode() if one is not None else None for one in (source, target, kind)]
        ctypes.set_errno(0)
        if LIBC.mount(*to, ctypes.c_ulong(flags), data) < 0:
            raise OSError(ctypes.get_errno(), name)

    made.__name__ = f"mount {name}"
    attack("mounts", "EPERM", None)(made)


_mounts("a file system in memory", "none", "/tmp", "tmpfs", 0)
_mounts("processes", "proc", "/tmp", "proc", 0)
_mounts("system", "sysfs", "/tmp", "sysfs", 0)
_mounts("control groups", "none", "/tmp", "cgroup2", 0)
_mounts("a bind", "/usr", "/tmp", None, 4096)
_mounts("the root writable", None, "/", None, 32 | 4096)
_mounts("shared again", None, "/", None, 1 << 20)
_mounts("an overlay", "none", "/tmp", "overlay", 0, b"lowerdir=/usr,upperdir=/tmp,workdir=/tmp")
_mounts("FUSE", "none", "/tmp", "fuse", 0, b"fd=0,rootmode=40000,user_id=0,group_id=0")


@attack("mounts", "EPERM", None)
def take_the_mask_off_proc():
    """Umount what covers a part of /proc."""
    call("umount2", ctypes.c_char_p(b"/proc/keys"), 2)


@attack("mounts", "EPERM", None)
def take_the_workspace_away():
    """Umount the overlay: below it is the host's own folder."""
    call("umount2", ctypes.c_char_p(os.getcwd().encode()), 2)


@attack("mounts", "EPERM", None)
def chroot_to_get_out():
    """chroot(2) into a folder, with the old root still open."""
    call("chroot", ctypes.c_char_p(b"/tmp"))


@attack("mounts", "another", None)
def folders_above_the_root():
    """A chain of '..' that a root of another mount might not stop."""
    os.chdir("/")
    for _ in range(64):
        os.chdir("..")
    return "ok" if os.path.exists("." + TARGETS["outside"]) else "another"


@attack("mounts", "EROFS", ("ok", "EACCES"))
def write_into_the_root():
    """A file directly in /."""
    descriptor = os.open("/sentinel-escape", os.O_WRONLY | os.O_CREAT)
    os.unlink("/sentinel-escape")
    os.close(descriptor)


@attack("mounts", "EROFS", ("ok", "EACCES"))
def write_into_system_folders():
    """A file in /usr/bin."""
    descriptor = os.open("/usr/bin/sentinel-escape", os.O_WRONLY | os.O_CREAT)
    os.unlink("/usr/bin/sentinel-escape")
    os.close(descriptor)


@attack("mounts", "EROFS", ("ok", "EACCES"))
def change_the_times_of_a_system_file():
    """utime(2) needs no open file."""
    os.utime("/usr/bin/env")


@attack("mounts", "EROFS", ("ok", "EACCES"))
def write_into_etc():
    """A file in /etc."""
    descriptor = os.open("/etc/sentinel-escape", os.O_WRONLY | os.O_CREAT)
    os.unlink("/etc/sentinel-escape")
    os.close(descriptor)


@attack("mounts", "EROFS", ("ok", "EPERM"))
def change_modes_of_system_files():
    """chmod(2) to what it is."""
    os.chmod("/usr/bin/env", os.stat("/usr/bin/env").st_mode & 0o777)


@attack("mounts", "EROFS", ("ok", "EACCES"))
def attributes_of_system_files():
    """A user attribute of a program."""
    os.setxattr("/usr/bin/env", "user.sentinel", b"1")
    os.removexattr("/usr/bin/env", "user.sentinel")


@attack("mounts", "EPERM", None)
def attributes_of_the_overlay():
    """trusted.overlay.*: an opaque folder or a redirect to another place of the lower layer."""
    os.mkdir("redirected")
    os.setxattr("redirected", "trusted.overlay.redirect", b"/../../..")


@attack("mounts", "nothing", None)
def attributes_of_the_overlay_as_a_user():
    """user.overlay.*, which a rootless overlay reads."""
    os.mkdir("redirected-by-user")
    os.setxattr("redirected-by-user", "user.overlay.redirect", b"/../../..")
    return "ok" if os.listdir("redirected-by-user") else "nothing"


@attack("control groups", "ENOENT", None)
def join_another_control_group():
    """Write itself into the top group."""
    write("/sys/fs/cgroup/cgroup.procs", b"0")


@attack("control groups", "hidden", "ok")
def name_of_its_control_group():
    """The names of the groups tell of the host's users and services."""
    groups = read("/proc/self/cgroup").decode().split()
    inside = all(one.endswith(":/") for one in groups)
    return "hidden" if inside else "ok"


@attack("control groups", "ENOENT", None)
def release_agent():
    """The program that version 1 runs outside when a group is empty (CVE-2022-0492)."""
    write("/sys/fs/cgroup/release_agent", b"/tmp/x")
