"""Other processes and this one's rights: signals, memory, privileges, descriptors, terminals, limits."""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct

from attacking import LIBC, TARGETS, attack, call

_HOST = TARGETS["pid"]


def _prctl(*arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(one & (1 << 64) - 1) if isinstance(one, int) else one for one in arguments[1:]]
    result = LIBC.prctl(arguments[0], *words, *[ctypes.c_ulong(0)] * (4 - len(words)))
    if result < 0:
        raise OSError(ctypes.get_errno(), "prctl")
    return result


@attack("signals", "ESRCH", "ok")
def signal_a_process_of_the_host():
    """By its number, as ps shows it outside."""
    os.kill(_HOST, 0)


@attack("signals", "ESRCH", "ok")
def signal_a_thread_of_the_host():
    """tgkill(2)."""
    call("tgkill", _HOST, _HOST, 0)


@attack("signals", "ESRCH", "ok")
def queue_a_signal_for_a_process_of_the_host():
    """rt_sigqueueinfo(2) with a sender of its own making."""
    told = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1), 128)
    call("rt_sigqueueinfo", _HOST, 0, ctypes.byref(told))


@attack("signals", "ESRCH", "ok")
def hold_on_to_a_process_of_the_host():
    """pidfd_open(2)."""
    os.close(os.pidfd_open(_HOST))


@attack("signals", "ESRCH", "ok")
def signals_of_a_socket_for_a_process_of_the_host():
    """F_SETOWN: the Linux kernel sends SIGIO on its behalf."""
    reader, _ = socket.socketpair()
    fcntl.fcntl(reader, fcntl.F_SETOWN, _HOST)


@attack("signals", "it lives", None)
def end_process_1():
    """SIGKILL and SIGTERM from inside its namespace are ignored."""
    os.kill(1, signal.SIGKILL)
    os.kill(1, signal.SIGTERM)
    os.kill(1, 0)
    return "it lives"


@attack("signals", "EPERM", None)
def stop_process_1_by_a_limit():
    """prlimit(2): a CPU limit that is used up already."""
    resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))


@attack("memory of others", "EPERM", None)
def trace_process_1():
    """PTRACE_ATTACH."""
    call("ptrace", 16, 1, 0, 0)


@attack("memory of others", "EPERM", None)
def seize_process_1():
    """PTRACE_SEIZE."""
    call("ptrace", 0x4206, 1, 0, 0)


@attack("memory of others", "EPERM", None)
def be_traced_by_the_parent():
    """PTRACE_TRACEME: who starts a program with rights would trace it."""
    call("ptrace", 0, 0, 0, 0)


@attack("memory of others", "EPERM", None)
def read_memory_of_process_1():
    """process_vm_readv(2)."""
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_size_t * 2)(0x400000, 16)
    call("process_vm_readv", 1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


@attack("memory of others", "EPERM", None)
def write_memory_of_process_1():
    """process_vm_writev(2)."""
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_size_t * 2)(0x400000, 16)
    call("process_vm_writev", 1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


@attack("memory of others", "EPERM", None)
def take_a_descriptor_of_process_1():
    """pidfd_getfd(2)."""
    call("pidfd_getfd", os.pidfd_open(1), 0, 0)


@attack("memory of others", "EPERM", None)
def compare_itself_with_process_1():
    """kcmp(2) tells of addresses in the Linux kernel."""
    call("kcmp", os.getpid(), 1, 0, 0, 0)


@attack("memory of others", "EPERM", None)
def advise_on_memory_of_process_1():
    """process_madvise(2)."""
    call("process_madvise", os.pidfd_open(1), 0, 0, 21, 0)


@attack("memory of others", "EPERM", None)
def robust_list_of_process_1():
    """get_robust_list(2): an address in another process."""
    head, size = ctypes.c_size_t(), ctypes.c_size_t()
    call("get_robust_list", 1, ctypes.byref(head), ctypes.byref(size))


@attack("memory of others", "EINVAL", None)
def memory_of_the_host_s_processes_by_system_v():
    """A segment by its number: there are none of the host's in a namespace of its own."""
    call("shmat", 0, 0, 0)


def _capability(name, raise_it, inside="EPERM"):
    made = raise_it
    made.__name__ = name
    attack("privileges", inside, None)(made)


_capability("become root", lambda: os.setuid(0 if os.getuid() else 1), "EINVAL")
_capability("become roots group", lambda: os.setgid(0 if os.getgid() else 1), "EINVAL")
_capability("join other groups", lambda: call("setgroups", 1, ctypes.byref(ctypes.c_uint(0))))
_capability("raise its ambient capabilities", lambda: _prctl(47, 2, 21, 0, 0) and None)
_capability("raise its bounding set", lambda: _prctl(24, 0) and None)
_capability("switch the securebits", lambda: _prctl(28, 0) and None)
_capability("change names in its memory", lambda: _prctl(35, 9, 0, 0) and None)
_capability("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
_capability("deadline", lambda: call("sched_setattr", 0, ctypes.create_string_buffer(
    struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**6, 10**7, 10**7)), 0) and None)  # fmt: skip
_capability("hostname", lambda: call("sethostname", ctypes.c_char_p(b"owned"), 5) and None)


@attack("privileges", "EPERM", None)
def give_itself_capabilities():
    """capset(2) with every bit."""
    header = struct.pack("Ii", 0x20080522, 0)
    call("capset", ctypes.c_char_p(header), ctypes.c_char_p(b"\xff" * 24))


@attack("privileges", "EINVAL", None)
def take_back_no_new_privileges():
    """prctl(2): the bit can't be taken back."""
    _prctl(38, 0)


@attack("privileges", "0", None)
def capabilities_that_it_has():
    """The five sets of /proc/self/status, together."""
    with open("/proc/self/status") as file:
        sets = [int(line.split()[1], 16) for line in file if line.startswith("Cap")]
    return str(sum(sets))


@attack("privileges", "the same", None)
def program_of_root_that_anybody_may_run():
    """A set-user-ID program gains nothing."""
    import subprocess

    done = subprocess.run(
        ["/usr/bin/su", "-c", "id -u"], capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    return "ok" if done.stdout.strip() == b"0" and os.getuid() else "the same"


@attack("privileges", "EACCES", ("ok", "EACCES"))
def go_before_all_others():
    """A negative nice value."""
    os.setpriority(os.PRIO_PROCESS, 0, -20)


@attack("privileges", "EPERM", ("ok", "EPERM"))
def go_before_all_others_at_the_disk():
    """The real time class of ioprio_set(2)."""
    call("ioprio_set", 1, 0, 1 << 13)


@attack("privileges", "EPERM")
def go_before_others_of_ones_class_at_the_disk():
    """The highest level of the class that all have, which takes no rights."""
    call("ioprio_set", 1, 0, 2 << 13)


@attack("privileges", "EPERM")
def go_before_others_at_the_disk_by_a_class_below_high_bits():
    """The same, with bits that the Linux kernel doesn't read in the word of 64."""
    call("ioprio_set", 1, 0, 1 << 32 | 2 << 13)


@attack("privileges", "EPERM")
def be_as_others_again_at_the_disk():
    """No class of its own, which is above the idle one that a kernel may have been started with."""
    call("ioprio_set", 1, 0, 0)


def _raises(name, which):
    def made():
        now = resource.getrlimit(which)[1]
        wanted = struct.pack("QQ", now + 1, now + 1)
        call("prlimit64", 0, which, ctypes.c_char_p(wanted), 0)

    made.__name__ = f"raise {name}"
    attack("limits", "EPERM", None)(made)


for _name, _which in {
    "the number of processes": resource.RLIMIT_NPROC,
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "message queues": resource.RLIMIT_MSGQUEUE,
    "waiting signals": resource.RLIMIT_SIGPENDING,
}.items():
    _raises(_name, _which)


@attack("limits", "EPERM", None)
def raise_limits_of_process_1():
    """Every later worker is forked from it."""
    resource.prlimit(1, resource.RLIMIT_NOFILE, (10, 10))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _load_filter(answer, flags=0):
    """Answer unshare(2) in another way, and allow all the rest."""
    code = struct.pack(
        "HBBIHBBIHBBIHBBI",
        *(0x20, 0, 0, 0),
        *(0x15, 0, 1, TARGETS["numbers"]["unshare"]),
        *(6, 0, 0, answer),
        *(6, 0, 0, 0x7FFF0000),
    )
    memory = ctypes.create_string_buffer(code)
    _prctl(38, 1)
    call("seccomp", 1, flags, ctypes.byref(_Program(4, ctypes.addressof(memory))))


@attack("filter", "EBUSY", None)
def a_supervisor_of_its_own():
    """A second listener would answer in the place of the first."""
    _load_filter(0x7FC00000, 8)


@attack("filter", "EPERM", None)
def a_filter_that_allows_what_is_refused():
    """The strictest answer of all filters counts."""
    _load_filter(0x7FFF0000)
    call("unshare", 0x10000000)


@attack("filter", "EPERM", None)
def a_filter_that_lets_a_tracer_answer():
    """RET_TRACE stands behind the listener's answer."""
    _load_filter(0x7FF00000)
    call("unshare", 0x10000000)


@attack("filter", "EPERM", None)
def a_filter_that_only_notes():
    """RET_LOG lets the call through, where nothing stricter speaks."""
    _load_filter(0x7FFC0000)
    call("unshare", 0x10000000)


@attack("filter", "none", None)
def the_listener_among_its_descriptors():
    """Whoever has it may answer its own calls."""
    for entry in os.listdir("/proc/self/fd"):
        try:
            if "seccomp" in os.readlink(f"/proc/self/fd/{entry}"):
                return "ok"
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
    return "none"


@attack("descriptors", "none", None)
def descriptors_that_were_left_open():
    """Beside the streams, and what the payload's test gave it."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            where = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            continue
        if int(entry) > 2 and not where.startswith(("/proc/", "pipe:", "anon_inode:[pidfd]")):
            found.append(f"{entry} {where}")
    return " ".join(found) or "none"


@attack("descriptors", "ENOTDIR", None)
def a_folder_of_the_host_behind_a_stream():
    """fchdir(2) to each standard stream."""
    os.fchdir(0)


@attack("descriptors", "nothing", None)
def secrets_in_the_environment():
    """Tokens of the server and of the person."""
    return "ok" if any(TARGETS["canary"] in value for value in os.environ.values()) else "nothing"


def _terminal(name, request, argument=b"x"):
    def made():
        _, second = os.openpty()
        fcntl.ioctl(second, request, argument)

    made.__name__ = name
    attack("terminals", "EPERM", None)(made)


_terminal("type into a terminal", 0x5412)
_terminal("paste into a virtual console", 0x541C)
_terminal("take the console's output", 0x541D)


@attack("terminals", "ENXIO", None)
def terminal_that_the_server_runs_in():
    """/dev/tty is the controlling terminal."""
    os.close(os.open("/dev/tty", os.O_RDWR))
