"""The root disk of the virtual machine: files of installed packages, and an environment on Debian's interpreter.

It is made once for what this file and the versions of the packages say, and kept in .cache/vm/.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from commands import CannotBuild, compile_modules, make_image, run

_SEEDS = (
    *("bash", "coreutils", "dash", "dbus", "dbus-user-session", "findutils", "grep", "hostname", "libc-bin"),
    *("libpam-runtime", "libpam-systemd", "libseccomp2", "libstdc++6", "login", "mount", "passwd", "procps"),
    *("python3", "sed", "systemd", "systemd-sysv", "tzdata", "util-linux"),
)
_UNNEEDED = re.compile(
    r"/usr/share/(doc|doc-base|man|locale|info|lintian|i18n|bash-completion)/|/__pycache__/"
)
_GENERATED = ("alternatives", "ld.so.cache", "nsswitch.conf", "pam.d", "localtime")
"""What maintainer scripts have made in /etc: no package lists it."""

_PYTHON_PACKAGES = (
    *("ipykernel", "ipywidgets", "jupyter-client", "pyseccomp", "pyzmq"),
    *("numpy", "pandas", "psutil"),  # what the limit suite fills memory with
    *("hypothesis", "pytest", "pytest-timeout"),
)
_FOLDERS = (
    *(
        "boot",
        "dev",
        "etc",
        "home/alice",
        "media",
        "mnt",
        "opt",
        "proc",
        "project",
        "root",
        "run",
        "srv",
        "sys",
    ),
    *("tmp", "usr", "var/lib", "var/log", "var/tmp"),
)
_ORDINARY = 1000
_FILES = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/bash\n"
        "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        "messagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n"
        "alice:x:1000:1000::/home/alice:/bin/bash\n"
    ),
    "etc/group": (
        "root:x:0:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nkmem:x:15:\ndialout:x:20:\ncdrom:x:24:\ntape:x:26:\n"
        "audio:x:29:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\nmessagebus:x:100:\nkvm:x:104:\nrender:x:105:\n"
        "input:x:106:\nsgx:x:107:\nsystemd-journal:x:999:\nalice:x:1000:\nnogroup:x:65534:\n"
    ),
    "etc/shadow": "root:*:19000:0:99999:7:::\nalice:*:19000:0:99999:7:::\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/hostname": "vm\n",
    "etc/hosts": "127.0.0.1 localhost vm\n",
    "etc/fstab": "",
    "etc/systemd/system/vm.service": (
        "[Unit]\nDescription=The program that the command line names\n"
        "Requires=user@1000.service dbus.service\nAfter=user@1000.service dbus.service\n"
        "SuccessAction=poweroff-force\nFailureAction=poweroff-force\n\n"
        "[Service]\nType=exec\nUser=alice\nWorkingDirectory=/home/alice\n"
        "Environment=XDG_RUNTIME_DIR=/run/user/1000 LANG=C.UTF-8 HOME=/home/alice USER=alice\n"
        "Environment=PYTHONPATH=/project/tests/support:/project/tests/limits\n"
        "StandardOutput=file:/dev/ttyS0\nStandardError=file:/dev/ttyS0\n"
        "ExecStart=/bin/sh -c 'exec /opt/venv/bin/python -u "
        '"/project/tests/vm/inside/$(sed -n s/.*vm.run=//p /proc/cmdline | cut -d" " -f1).py"\'\n'
    ),
}
_LINKS = {
    "var/run": "/run",
    **{name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")},
    "etc/systemd/system/multi-user.target.wants/vm.service": "/etc/systemd/system/vm.service",
    "etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target",
    # A getty on the console would mix its words with those of the program.
    "etc/systemd/system/serial-getty@ttyS0.service": "/dev/null",
}


def root_disk(cache: Path) -> Path:
    """Return the image, made where the one in ``cache`` is of something else.

    Raises:
        CannotBuild: a package that it is made of is not installed.

    """
    packages = _closure()
    versions = run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages)
    digest = hashlib.sha256((versions + Path(__file__).read_text()).encode()).hexdigest()[:12]
    target = cache / f"root-{digest}.ext4"
    if target.exists():
        return target
    for old in cache.glob("root-*"):
        old.unlink()
    environment = _environment(cache)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        top = Path(scratch)
        top.chmod(0o755)
        _skeleton(top)
        _copy(run("dpkg-query", "-L", *packages).splitlines(), top)
        for name in _GENERATED:
            if os.path.lexists(f"/etc/{name}"):
                run("cp", "-a", f"/etc/{name}", str(top / "etc"))
        for name, text in _FILES.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        for name, place in _LINKS.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).unlink(missing_ok=True)
            (top / name).symlink_to(place)
        run("cp", "-a", str(environment), str(top / "opt" / "venv"))
        for folder in (top / "usr" / "lib").glob("python3.*"):
            compile_modules(folder, top)
        # Room for what the guest writes; a hole until then.
        make_image(top, target, int(run("du", "-sm", scratch).split()[0]) * 5 // 4 + 600)
    return target


def _copy(listed: list[str], top: Path) -> None:
    names = dict.fromkeys(_place(name) for name in listed if _wanted(name))
    pack = ["tar", "-C", "/", "--no-recursion", "--null", "-T", "-", "-cf", "-"]
    archive = subprocess.run(pack, input="\0".join(names).encode(), capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", str(top), "-xpf", "-"], input=archive, check=True)


def _wanted(name: str) -> bool:
    if not name.startswith("/") or _UNNEEDED.search(name):
        return False
    return os.path.lexists(name) and (os.path.islink(name) or not os.path.isdir(name))


def _place(name: str) -> str:
    """Return where a listed file lies once the links of a merged /usr are followed, without the first slash."""
    return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))[1:]


def _skeleton(top: Path) -> None:
    for name in _FOLDERS:
        (top / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (top / name).chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (top / "usr" / name).mkdir()
        (top / name).symlink_to(f"usr/{name}")
    os.chown(top / "home" / "alice", _ORDINARY, _ORDINARY)


def _environment(cache: Path) -> Path:
    """Return a virtual environment on Debian's interpreter with what the kernel needs; the kernel is the tree's."""
    folder = cache / f"venv-{hashlib.sha256(repr(_PYTHON_PACKAGES).encode()).hexdigest()[:12]}"
    if not folder.exists():
        for old in cache.glob("venv-*"):
            shutil.rmtree(old)
        partial = cache / "venv.partial"
        shutil.rmtree(partial, ignore_errors=True)
        run("/usr/bin/python3", "-m", "venv", str(partial))
        pip = (str(partial / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install")
        run(*pip, *_PYTHON_PACKAGES)
        site = next(partial.glob("lib/python3*/site-packages"))
        (site / "project.pth").write_text("/project\n")
        partial.rename(folder)
    return folder


def _closure() -> list[str]:
    """Return the seeds and all that they depend on, as installed on this machine (/var/lib/dpkg/status)."""
    installed: dict[str, dict[str, str]] = {}
    provided: dict[str, str] = {}
    for block in Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        lines = (line for line in block.split("\n") if ": " in line and not line.startswith(" "))
        fields = dict(line.split(": ", 1) for line in lines)
        # What waits for a trigger, as beside another apt-get, is there.
        if fields.get("Status", "").endswith((" installed", " triggers-pending", " triggers-awaited")):
            installed.setdefault(fields["Package"], fields)
            for name in re.findall(r"(?:^|, )([^ ,]+)", fields.get("Provides", "")):
                provided.setdefault(name, fields["Package"])
    missing = [seed for seed in _SEEDS if seed not in installed]
    if missing:
        raise CannotBuild(f"the root disk is made of installed packages: apt-get install {' '.join(missing)}")
    found: set[str] = set()
    waiting = list(_SEEDS)
    while waiting:
        name = waiting.pop()
        name = name if name in installed else provided.get(name, "")
        if not name or name in found:
            continue
        found.add(name)
        for field in ("Depends", "Pre-Depends"):
            for alternatives in installed[name].get(field, "").split(", "):
                names = (re.split(r"[ :(]", one.strip())[0] for one in alternatives.split("|"))
                waiting += [one for one in names if one in installed or one in provided][:1]
    return sorted(found)
