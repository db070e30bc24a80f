"""Files of the host and of the person: by path, by link, by descriptor, by what a commit would follow."""

import contextlib
import os
import stat

from attacking import TARGETS, attack, call, gets_canary, read


def _secret(name, path):
    def made():
        return gets_canary(path)

    made.__name__ = f"read {name}"
    attack("files", "ENOENT", "ok")(made)


for _name, _path in TARGETS["secrets"].items():
    _secret(_name, _path)


def _machine(name, path, inside, outside=None):
    def made():
        return "ok" if read(path) else "nothing"

    made.__name__ = f"read {name}"
    attack("files", inside, outside)(made)


_machine("passwords of the machine", "/etc/shadow", "ENOENT", ("ok", "EACCES"))
_machine("rules of sudo", "/etc/sudoers", "ENOENT", None)
_machine("keys of the machine's ssh", "/etc/ssh/sshd_config", "ENOENT", None)
_machine("identity of the machine", "/etc/machine-id", "ENOENT", None)
_machine("who is logged in", "/var/run/utmp", "ENOENT", None)
_machine("journals of the machine", "/var/log/dpkg.log", "ENOENT", None)


@attack("files", "ENOENT", "ok")
def symbolic_link_to_a_secret():
    """Followed by whoever opens it, as this process itself does."""
    os.symlink(TARGETS["outside"], "link-to-secret")
    try:
        return gets_canary("link-to-secret")
    finally:
        os.unlink("link-to-secret")


@attack("files", "ENOENT", "ok")
def hard_link_to_a_secret():
    """A second name in the workspace."""
    os.link(TARGETS["outside"], "hard-link")
    try:
        return gets_canary("hard-link")
    finally:
        os.unlink("hard-link")


@attack("files", "ENOENT", "ok")
def path_above_the_workspace():
    """The folder beside the notebook's."""
    return gets_canary(os.path.join("..", os.path.basename(os.path.dirname(TARGETS["outside"])), "secret"))


@attack("files", "ENOENT", "ok")
def path_through_its_own_root():
    """A magic link of /proc."""
    return gets_canary("/proc/self/root" + TARGETS["outside"])


@attack("files", "ENOENT", "ok")
def path_through_a_thread():
    """A magic link of another kind."""
    return gets_canary(f"/proc/thread-self/root{TARGETS['outside']}")


@attack("files", "EPERM", "ok")
def handle_instead_of_a_path():
    """name_to_handle_at(2): the first half of the Docker escape named shocker."""
    import ctypes

    handle = ctypes.create_string_buffer(b"\x80\0\0\0" + bytes(140))
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, ctypes.c_char_p(b"/"), ctypes.byref(handle), ctypes.byref(mount), 0)


@attack("files", "EPERM", ("ok", "EPERM"))
def device_of_a_disk():
    """A node of the first SCSI disk."""
    os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
    os.unlink("disk")


@attack("files", "EPERM", ("ok", "EPERM"))
def device_of_memory():
    """A node of /dev/mem."""
    os.mknod("memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))
    os.unlink("memory")


@attack("files", "EPERM", "ok")
def a_whiteout_as_overlays_have_it():
    """A character device 0/0, which hides a name of the layer below."""
    os.mknod("whiteout", stat.S_IFCHR | 0o600, 0)
    os.unlink("whiteout")


@attack("files", "EPERM", "ok")
def program_that_runs_as_its_owner():
    """A copy with the set-user-ID bit: on the host it would run as the folder's owner."""
    os.close(os.open("own", os.O_WRONLY | os.O_CREAT, 0o755))
    try:
        os.chmod("own", 0o4755)
    finally:
        os.unlink("own")


@attack("files", "EPERM", "ok")
def program_that_is_made_to_run_as_its_owner():
    """The bit in the mode that a file is made with."""
    mask = os.umask(0)
    try:
        os.close(os.open("own-at-once", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o4755))
        os.unlink("own-at-once")
    finally:
        os.umask(mask)


@attack("files", "EPERM", None)
def capabilities_of_a_file():
    """security.capability: what runs it has rights of the machine."""
    os.close(os.open("able", os.O_WRONLY | os.O_CREAT, 0o755))
    os.setxattr("able", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))


@attack("files", "EINVAL", ("ok", "EPERM"))
def give_a_file_to_root():
    """chown(2) to a user that is not mapped."""
    os.close(os.open("given", os.O_WRONLY | os.O_CREAT, 0o644))
    try:
        os.chown("given", 1, 1)
    finally:
        os.unlink("given")


@attack("files", "EPERM", ("ok", "EPERM"))
def a_file_that_nobody_can_remove():
    """FS_IMMUTABLE_FL would stay behind in a folder that is written directly."""
    import fcntl

    descriptor = os.open("immutable", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.ioctl(descriptor, 0x40086602, (0x10).to_bytes(8, "little"))
        fcntl.ioctl(descriptor, 0x40086602, bytes(8))
    finally:
        os.close(descriptor)
        os.unlink("immutable")


@attack("files", "the copy", "ok")
def change_a_file_of_the_workspace():
    """Without a word from the person, the host's file stays as it was: the test looks at it."""
    with open("given.txt", "a") as file:
        file.write("changed by a cell")
    return "the copy" if os.path.exists("/run/sentinel") else "ok"


@attack("files", "ENOENT", "ok")
def notebook_server_s_key_to_this_kernel():
    """The connection file holds the key of every message."""
    return gets_canary(TARGETS["connection"])


@attack("files", "nothing", None)
def sockets_that_are_shown_by_path():
    """Any unix socket in any folder that is shown would be a way to a service of the host."""
    waiting = ["/"]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if entry.path not in ("/proc", "/usr", os.getcwd()) else []
                elif not entry.is_file(follow_symlinks=False) and stat.S_ISSOCK(
                    entry.stat(follow_symlinks=False).st_mode
                ):
                    return entry.path
    return "nothing"


@attack("files", "nothing", None)
def files_of_others_that_it_can_write():
    """Every mount but its own places is read-only, or an overlay whose upper layer is its own."""
    own = (os.getcwd(), "/tmp", "/var/tmp", "/dev", "/proc/self", os.environ["HOME"])
    with open("/proc/self/mountinfo") as file:
        places = [line.split(" - ")[0].split()[4] + " " + line.split(" - ")[1].split()[0] for line in file]
    for place, kind in (one.rsplit(" ", 1) for one in places):
        if kind in ("overlay", "proc") or place.startswith(own) or stat.S_ISCHR(os.stat(place).st_mode):
            continue  # a mask is the null device
        if os.access(place, os.W_OK):
            return place
    return "nothing"
