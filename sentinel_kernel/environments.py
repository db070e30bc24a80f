"""What is known to keep a sandbox from being made, or from the full rung: how it is recognized, and what repairs it.

Nothing here is a guess at what works: that the probes try. It names why a probe failed, by what the machine says of
itself.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SETTINGS: Final = {
    "apparmor_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "yama": "/proc/sys/kernel/yama/ptrace_scope",
    "release": "/proc/sys/kernel/osrelease",
    "lsm": "/sys/kernel/security/lsm",
}
_PLACES: Final = {
    "docker": "/.dockerenv",
    "podman": "/run/.containerenv",
    "kubernetes": "/var/run/secrets/kubernetes.io",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a machine says of itself: settings by name, files that are there, its own status, mounts and variables."""

    settings: Mapping[str, str]
    places: frozenset[str]
    filtered: bool
    """Whether a seccomp filter of somebody else's is on this process."""
    covered: tuple[str, ...]
    """What is mounted over parts of /proc."""
    options: Mapping[str, str]
    """Options of the mount that TMPDIR lies on, by "tmp"."""
    in_kubernetes: bool
    uid: int

    @property
    def version(self) -> tuple[int, int]:
        """Version of the Linux kernel."""
        found = re.match(r"(\d+)\.(\d+)", self.settings.get("release", ""))
        return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True, slots=True)
class Environment:
    """A known hindrance: which probes it makes fail, and cause and repair in English and Chinese."""

    name: str
    title: str
    probes: tuple[str, ...]
    """It is told where one of these failed; none: always."""
    applies: Callable[[Facts], bool]
    cause_en: str
    cause_zh: str
    repair_en: str
    repair_zh: str

    def told(self) -> dict[str, Any]:
        """Return it as JSON."""
        names = ("name", "title", "cause_en", "cause_zh", "repair_en", "repair_zh")
        return {name: getattr(self, name) for name in names}


def read_facts(root: str = "", environment: Mapping[str, str] | None = None) -> Facts:
    """Look at this machine; ``root`` goes before each path, for a copy of what another one has."""
    variables = os.environ if environment is None else environment
    mounts = [line.split() for line in _text(f"{root}/proc/self/mountinfo").splitlines()]
    places = {fields[4]: fields[5] for fields in mounts if len(fields) > 5}
    temporary = variables.get("TMPDIR") or "/tmp"
    holder = max((place for place in places if _is_within(temporary, place)), key=len, default="")
    return Facts(
        settings={name: _text(root + path).strip() for name, path in _SETTINGS.items()},
        places=frozenset(name for name, path in _PLACES.items() if os.path.exists(root + path)),
        filtered=bool(re.search(r"^Seccomp:\s+2$", _text(f"{root}/proc/self/status"), re.MULTILINE)),
        covered=tuple(sorted(place for place in places if place.startswith("/proc/"))),
        options={"tmp": places.get(holder, "")},
        in_kubernetes="KUBERNETES_SERVICE_HOST" in variables,
        uid=os.geteuid(),
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _older(major: int, minor: int) -> Callable[[Facts], bool]:
    return lambda facts: (0, 0) < facts.version < (major, minor)


def _in_container(facts: Facts) -> bool:
    return bool(facts.places) or facts.in_kubernetes


def _is_wsl(facts: Facts) -> bool:
    return "microsoft" in facts.settings.get("release", "").lower()


def _has_no_landlock(facts: Facts) -> bool:
    switched_off = "landlock" not in (facts.settings.get("lsm") or "landlock")
    return not _is_wsl(facts) and (switched_off or (0, 0) < facts.version < (5, 13))


_NAMESPACES: Final = ("user_namespaces", "overlay", "fresh_proc")

ENVIRONMENTS: Final = (
    Environment(
        "apparmor_userns",
        "Ubuntu: AppArmor's rule for user namespaces",
        _NAMESPACES,
        lambda facts: facts.settings.get("apparmor_userns") == "1" and facts.uid != 0,
        "AppArmor takes the rights of new user namespaces away (Ubuntu's default since 23.10).",
        "AppArmor 剥夺了新用户命名空间的权限（Ubuntu 23.10 起的默认设置）。",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (to stay: a file in /etc/sysctl.d), or an "
        "AppArmor profile for this Python with the line `userns,`.",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0（如需永久生效，请写入 /etc/sysctl.d），"
        "或为此 Python 编写含有 `userns,` 一行的 AppArmor 配置。",
    ),
    Environment(
        "userns_clone",
        "Debian's older setting for user namespaces",
        _NAMESPACES,
        lambda facts: facts.settings.get("userns_clone") == "0" and facts.uid != 0,
        "User namespaces are root's alone here (kernel.unprivileged_userns_clone is 0).",
        "此处只有 root 能创建用户命名空间（kernel.unprivileged_userns_clone 为 0）。",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    Environment(
        "max_user_namespaces",
        "user.max_user_namespaces is 0",
        _NAMESPACES,
        lambda facts: facts.settings.get("max_user_namespaces") == "0",
        "No user namespace may be made here (user.max_user_namespaces is 0).",
        "此处不允许创建用户命名空间（user.max_user_namespaces 为 0）。",
        "sudo sysctl -w user.max_user_namespaces=10000",
        "sudo sysctl -w user.max_user_namespaces=10000",
    ),
    Environment(
        "container_filter",
        "Docker's, Podman's or a pod's system call filter",
        _NAMESPACES,
        lambda facts: facts.filtered and facts.settings.get("max_user_namespaces") != "0",
        "A filter around this process refuses namespaces and mounts, as containers' default ones do.",
        "此进程外层的系统调用过滤器拒绝命名空间和挂载，容器的默认过滤器即是如此。",
        "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …   podman run "
        "--security-opt seccomp=unconfined --security-opt unmask=ALL …",
        "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …   podman run "
        "--security-opt seccomp=unconfined --security-opt unmask=ALL …",
    ),
    Environment(
        "kubernetes",
        "a Kubernetes pod",
        _NAMESPACES,
        lambda facts: facts.in_kubernetes or "kubernetes" in facts.places,
        "The pod's security refuses namespaces, or a fresh /proc.",
        "Pod 的安全设置拒绝命名空间或新的 /proc。",
        "In the pod's specification: securityContext: {seccompProfile: {type: Unconfined}, procMount: Unmasked}, "
        "hostUsers: false. Where the cluster's pod security forbids that, the landlock rung is what there is.",
        "在 Pod 规格中设置：securityContext: {seccompProfile: {type: Unconfined}, procMount: Unmasked}，"
        "hostUsers: false。若集群的 Pod 安全策略不允许，则只能使用 landlock 级别。",
    ),
    Environment(
        "covered_proc",
        "a covered /proc",
        ("fresh_proc",),
        lambda facts: bool(facts.covered),
        "A fresh /proc is refused because parts of this machine's /proc are covered, as in a container.",
        "无法挂载新的 /proc，因为本机的 /proc 有一部分被遮盖（通常是在容器中）。",
        "docker run --security-opt systempaths=unconfined …   podman run --security-opt unmask=ALL …   Kubernetes: "
        "procMount: Unmasked",
        "docker run --security-opt systempaths=unconfined …   podman run --security-opt unmask=ALL …   Kubernetes："
        "procMount: Unmasked",
    ),
    Environment(
        "wsl1",
        "WSL 1",
        _NAMESPACES,
        lambda facts: _is_wsl(facts) and facts.version < (4, 19),
        "This is WSL 1, which has no Linux kernel of its own.",
        "这是 WSL 1，它没有自己的 Linux 内核。",
        "In PowerShell: wsl --set-version DISTRIBUTION 2",
        "在 PowerShell 中执行：wsl --set-version 发行版名称 2",
    ),
    Environment(
        "wsl2",
        "WSL 2",
        ("landlock", "notifications", "overlay"),
        lambda facts: _is_wsl(facts) and facts.version >= (4, 19),
        "The Linux kernel of WSL 2 is older than what is needed, or was built without it.",
        "WSL 2 的 Linux 内核版本过旧，或构建时未包含所需功能。",
        "In PowerShell: wsl --update   (Landlock: kernelCommandLine = lsm=landlock in .wslconfig)",
        "在 PowerShell 中执行：wsl --update（Landlock：在 .wslconfig 中设置 kernelCommandLine = lsm=landlock）",
    ),
    Environment(
        "no_addfd",
        "Linux before 5.9",
        ("notifications",),
        _older(5, 9),
        "This Linux kernel can't give a held program a file (SECCOMP_IOCTL_NOTIF_ADDFD, 5.9).",
        "此 Linux 内核无法向被暂停的程序传递文件（SECCOMP_IOCTL_NOTIF_ADDFD，5.9）。",
        "Update the Linux kernel to 5.19 or newer.",
        "请将 Linux 内核升级到 5.19 或更新版本。",
    ),
    Environment(
        "no_killable_wait",
        "Linux before 5.19",
        ("notifications",),
        lambda facts: (5, 9) <= facts.version < (5, 19),
        "Held calls can't be interrupted safely on this Linux kernel (WAIT_KILLABLE_RECV, 5.19).",
        "在此 Linux 内核上，被暂停的调用无法安全中断（WAIT_KILLABLE_RECV，5.19）。",
        "Update the Linux kernel to 5.19 or newer.",
        "请将 Linux 内核升级到 5.19 或更新版本。",
    ),
    Environment(
        "no_overlay_in_userns",
        "Linux before 5.11",
        ("overlay",),
        _older(5, 11),
        "Overlays can't be made in a user namespace on this Linux kernel (5.11).",
        "此 Linux 内核不能在用户命名空间中创建 overlay（5.11）。",
        "Update the Linux kernel to 5.19 or newer.",
        "请将 Linux 内核升级到 5.19 或更新版本。",
    ),
    Environment(
        "no_idmapped_mounts",
        "Linux before 5.12",
        ("idmapped_mounts",),
        _older(5, 12),
        "Root's folders can't be shown to another id on this Linux kernel (idmapped mounts, 5.12).",
        "此 Linux 内核无法将 root 的文件夹映射给其他用户（idmapped mounts，5.12）。",
        "Start JupyterLab as an ordinary user.",
        "请以普通用户身份启动 JupyterLab。",
    ),
    Environment(
        "no_landlock",
        "no Landlock",
        ("landlock",),
        _has_no_landlock,
        "The Linux kernel has Landlock switched off, or none (5.13).",
        "此 Linux 内核未启用 Landlock，或不包含它（5.13）。",
        "Add landlock to the boot parameter lsm=, as in lsm=landlock,yama,apparmor,bpf (GRUB_CMDLINE_LINUX in "
        "/etc/default/grub, then sudo update-grub).",
        "在启动参数 lsm= 中加入 landlock，例如 lsm=landlock,yama,apparmor,bpf（/etc/default/grub 中的 "
        "GRUB_CMDLINE_LINUX，然后执行 sudo update-grub）。",
    ),
    Environment(
        "old_landlock",
        "Linux before 6.7",
        ("landlock_rung",),
        _older(6, 7),
        "Landlock knows no network before version 4 (Linux 6.7): there is no landlock rung here.",
        "Landlock 第 4 版（Linux 6.7）之前无法限制网络，因此这里没有 landlock 级别。",
        "Update the Linux kernel to 6.7 or newer, or repair what the full rung lacks.",
        "请将 Linux 内核升级到 6.7 或更新版本，或修复完整级别所缺的部分。",
    ),
    Environment(
        "yama",
        "Yama: no tracing",
        ("memory",),
        lambda facts: facts.settings.get("yama", "") in ("2", "3"),
        "Yama lets nobody look into processes (kernel.yama.ptrace_scope): held calls can't be explained.",
        "Yama 禁止查看其他进程（kernel.yama.ptrace_scope），因此无法解释被暂停的调用。",
        "sudo sysctl -w kernel.yama.ptrace_scope=1   (3 stays until the machine is started anew)",
        "sudo sysctl -w kernel.yama.ptrace_scope=1（值为 3 时需重启机器）",
    ),
    Environment(
        "noexec",
        "TMPDIR on a disk without programs",
        (),
        lambda facts: "noexec" in facts.options.get("tmp", "").split(","),
        "TMPDIR lies on a file system that runs no programs (noexec): on the landlock rung cells can't run any there.",
        "TMPDIR 所在的文件系统不允许执行程序（noexec）：在 landlock 级别，单元格无法在其中运行程序。",
        "export TMPDIR=FOLDER   before JupyterLab starts, a folder on another file system",
        "在启动 JupyterLab 之前执行 export TMPDIR=其他文件系统上的文件夹",
    ),
)


def known_environments(facts: Facts, failed: Sequence[str]) -> list[Environment]:
    """Return those that explain why the probes named in ``failed`` have failed, the surest first."""
    return [
        one
        for one in ENVIRONMENTS
        if (not one.probes or any(name in failed for name in one.probes)) and one.applies(facts)
    ]


def where(facts: Facts) -> str:
    """Return in a few words what kind of machine this is."""
    kinds = [name.capitalize() for name in ("docker", "podman", "kubernetes") if name in facts.places]
    if facts.in_kubernetes and "Kubernetes" not in kinds:
        kinds.append("Kubernetes")
    if _is_wsl(facts):
        kinds.append("WSL")
    return ", ".join(kinds) or platform.system()
