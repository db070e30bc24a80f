"""The files of /proc and /sys: the machine's switches, and other processes."""

import os

from attacking import TARGETS, attack, gets_canary, read, write

_SWITCHES = {
    "core_pattern": ("/proc/sys/kernel/core_pattern", "EACCES|EROFS"),
    "modprobe": ("/proc/sys/kernel/modprobe", "EACCES|EROFS|ENOENT"),
    "hostname": ("/proc/sys/kernel/hostname", "EACCES|EROFS"),
    "overcommit": ("/proc/sys/vm/overcommit_memory", "EACCES|EROFS"),
    "address space randomisation": ("/proc/sys/kernel/randomize_va_space", "EACCES|EROFS"),
    "ptrace scope of others": ("/proc/sys/fs/suid_dumpable", "EACCES|EROFS"),
    "drop caches": ("/proc/sys/vm/drop_caches", "EACCES|EROFS"),
    "sysrq trigger": ("/proc/sysrq-trigger", "EACCES|ENOENT"),
    "interrupts": ("/proc/irq/default_smp_affinity", "EACCES|EROFS"),
    "power": ("/sys/power/state", "ENOENT"),
    "uevent helper": ("/sys/kernel/uevent_helper", "ENOENT"),
    "processors off": ("/sys/devices/system/cpu/cpu1/online", "EACCES|EROFS|ENOENT"),
    "kernel tracing": ("/sys/kernel/tracing/tracing_on", "ENOENT"),
    "kernel debugging": ("/sys/kernel/debug/x", "ENOENT"),
    "security modules": ("/sys/kernel/security/lockdown", "ENOENT"),
    "memory of the machine": ("/dev/mem", "ENOENT"),
    "ports of the machine": ("/dev/port", "ENOENT"),
    "words of the Linux kernel": ("/dev/kmsg", "ENOENT"),
    "virtual machines": ("/dev/kvm", "ENOENT"),
    "FUSE": ("/dev/fuse", "ENOENT"),
    "tunnels": ("/dev/net/tun", "ENOENT"),
    "loop devices": ("/dev/loop-control", "ENOENT"),
    "its own console": ("/dev/console", "ENOENT"),
    "first virtual console": ("/dev/tty1", "ENOENT"),
    "first disk": ("/dev/vda", "ENOENT"),
    "userfaultfd device": ("/dev/userfaultfd", "ENOENT"),
    "io memory of vfio": ("/dev/vfio/vfio", "ENOENT"),
    "virtual sockets": ("/dev/vsock", "ENOENT"),
}


def _switch(name, path, inside):
    def made():
        write(path)

    made.__name__ = f"write {name}"
    attack("proc and sys", inside, None)(made)


for _name, (_path, _inside) in _SWITCHES.items():
    _switch(_name, _path, _inside)

_READ = {
    "memory of the Linux kernel": ("/proc/kcore", "ENOENT"),
    "messages of the Linux kernel": ("/proc/kmsg", "EACCES"),
    "keys": ("/proc/keys", "nothing"),
    "timers": ("/proc/timer_list", "nothing"),
    "symbols": ("/proc/kallsyms", "nothing"),
    "pages of the machine": ("/proc/kpagecount", "EACCES"),
    "slabs": ("/proc/slabinfo", "EACCES"),
    "environment of process 1": ("/proc/1/environ", "EACCES"),
    "maps of process 1": ("/proc/1/maps", "EACCES"),
    "memory of process 1": ("/proc/1/mem", "EACCES"),
    "system call of process 1": ("/proc/1/syscall", "EACCES"),
    "kernel stack of process 1": ("/proc/1/stack", "EACCES"),
    "descriptors of process 1": ("/proc/1/fdinfo/0", "EACCES"),
    "files that process 1 has mapped": ("/proc/1/map_files/x", "EACCES"),
    "auxiliary vector of process 1": ("/proc/1/auxv", "EACCES"),
}


def _reads(name, path, inside):
    def made():
        return "ok" if read(path) else "nothing"

    made.__name__ = f"read {name}"
    attack("proc and sys", inside, None)(made)


for _name, (_path, _inside) in _READ.items():
    _reads(_name, _path, _inside)


@attack("proc and sys", "EACCES", None)
def root_of_process_1():
    """A path through another process's root."""
    return gets_canary("/proc/1/root" + TARGETS["outside"])


@attack("proc and sys", "EACCES", None)
def working_folder_of_process_1():
    """A path through another process's working folder."""
    return gets_canary("/proc/1/cwd" + TARGETS["outside"])


@attack("proc and sys", "EACCES", None)
def write_over_the_program_of_process_1():
    """The interpreter of the host by its running image (CVE-2019-5736)."""
    os.close(os.open("/proc/1/exe", os.O_WRONLY))


@attack("proc and sys", "ETXTBSY|EACCES", None)
def write_over_its_own_program():
    """The host's interpreter by this process's own image."""
    os.close(os.open("/proc/self/exe", os.O_WRONLY))


@attack("proc and sys", "EACCES", None)
def to_be_killed_last():
    """A lower oom_score_adj than it was given."""
    write("/proc/self/oom_score_adj", b"-1000")


@attack("proc and sys", "another", "ok")
def a_process_of_the_host_by_its_number():
    """The command line of the canary's process."""
    try:
        return "ok" if TARGETS["canary"].encode() in read(f"/proc/{TARGETS['pid']}/cmdline") else "another"
    except FileNotFoundError:
        return "another"


@attack("proc and sys", "another", "ok")
def a_process_of_the_host_by_looking_at_all():
    """The command lines of all processes that there are."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and os.path.exists(f"/proc/{entry}/cmdline"):
            try:
                line = read(f"/proc/{entry}/cmdline")
            except OSError:
                continue
            if TARGETS["canary"].encode() in line and b"mechanisms" not in line:
                return "ok"
    return "another"


@attack("proc and sys", "another", None)
def folders_of_the_host_in_the_list_of_mounts():
    """Where the host keeps the upper layers would be seen in mountinfo."""
    return "ok" if TARGETS["state"] in read("/proc/self/mountinfo", 1 << 20).decode() else "another"


@attack("proc and sys", "zeros", None)
def physical_memory():
    """Where the Linux kernel lies."""
    lines = read("/proc/iomem").decode().splitlines()
    return "zeros" if all(set(line.split(" : ")[0].strip()) <= set("0-") for line in lines) else "ok"
