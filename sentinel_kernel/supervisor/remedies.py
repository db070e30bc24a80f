"""Words for a sandbox that can't be set up: cause and repair of each failed step, in English and Chinese."""

from __future__ import annotations

import errno as errno_numbers

from sentinel_kernel.errors import BootError, ProfileError, SentinelError
from sentinel_kernel.policy.profile import NoProfileError
from sentinel_kernel.workspace.store import artifact_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNPRIVILEGED = "/proc/sys/kernel/unprivileged_userns_clone"
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_MAXIMUM = "/proc/sys/user/max_user_namespaces"

_NO_NAMESPACES_EN = "This machine refuses new user namespaces, which the sandbox is made of."
_NO_NAMESPACES_ZH = "这台机器不允许创建新的用户命名空间，而沙箱正是由它构成的。"


def describe(error: SentinelError) -> dict[str, Any]:
    """Return the ``unavailable`` event's fields for a set-up that failed with ``error``."""
    step = getattr(error, "step", "prepare")
    number = getattr(error, "errno", None) or None
    cause_en, cause_zh, remedy_en, remedy_zh = _words(step, number, error)
    if isinstance(error, BootError) and error.lesser is not None:
        lesser_en, lesser_zh = _lesser_words(error.lesser)
        cause_en += f" Nor could a lesser sandbox be made, on the landlock rung: {lesser_en}"
        cause_zh += f" 较低的 landlock 级别也无法建立：{lesser_zh}"
    return {
        "step": step,
        "errno": number,
        "cause_en": cause_en,
        "cause_zh": cause_zh,
        "remedy_en": remedy_en,
        "remedy_zh": remedy_zh,
    }


def _words(  # noqa: PLR0911 - one return a kind of failure
    step: str, number: int | None, error: SentinelError
) -> tuple[str, str, str, str]:
    if isinstance(error, ProfileError):
        return _profile_words(error)
    if step == "clone":
        return _clone_words(number)
    if (
        step == "map_identity"
        and number in (errno_numbers.EPERM, errno_numbers.EACCES)
        and _setting(_APPARMOR) == "1"
    ):
        return _apparmor_words()
    if step in ("make_mounts_private", "stage_root") and _setting(_APPARMOR) == "1":
        return _apparmor_words()
    if step == "mount_proc" and number == errno_numbers.EPERM:
        return (
            "A fresh /proc is refused because parts of this machine's /proc are covered, as in a container.",
            "无法挂载新的 /proc，因为本机的 /proc 有一部分被遮盖（通常是在容器中）。",
            (
                "Docker: add --security-opt systempaths=unconfined. Podman: --security-opt unmask=ALL. Kubernetes: "
                "procMount: Unmasked."
            ),
            (
                "Docker：加上 --security-opt systempaths=unconfined；Podman：--security-opt unmask=ALL；"
                "Kubernetes：procMount: Unmasked。"
            ),
        )
    if step == "load_filter" and number == errno_numbers.EINVAL:
        return (
            "This Linux kernel is too old for seccomp's WAIT_KILLABLE_RECV (Linux 5.19).",
            "此 Linux 内核过旧，不支持 seccomp 的 WAIT_KILLABLE_RECV（需要 5.19 或更新版本）。",
            "Update the Linux kernel to 5.19 or newer.",
            "请将 Linux 内核升级到 5.19 或更新版本。",
        )
    if step == "audit":
        from sentinel_kernel.audit.chinese import chinese  # noqa: PLC0415 - only where a lab's audit can't be

        return error.message, chinese(error.message), error.remedy, chinese(error.remedy)
    if step == "artifacts":
        return (
            error.message,
            f"笔记本所在文件夹位于 {artifact_store()} 之内：该处保存已结束沙箱的文件，任何单元格都不得看到。",
            error.remedy,
            (
                "请将 SENTINEL_ARTIFACTS 设为一个专用文件夹（可以是笔记本所在文件夹下的新文件夹），或取消设置，"
                "或在其他文件夹中打开笔记本；然后重启内核。"
            ),
        )
    if step == "mount_tree":
        return (
            f"A folder could not be mounted: {error.message}",
            f"有文件夹无法挂载：{error.message}",
            error.remedy
            or "Move the notebook to a local disk (some network and FUSE file systems carry no overlay), then run "
            "`sentinel-kernel doctor`.",
            (
                "请把笔记本移到本地磁盘（某些网络或 FUSE 文件系统不支持 overlay），"
                "然后运行 `sentinel-kernel doctor`。"
            ),
        )
    return (
        error.message,
        f"步骤 {step} 失败：{error.message}",
        error.remedy or "Run `sentinel-kernel doctor`: it tries each mechanism and prints the repair.",
        # A repair that names the very place is better in another language than none.
        error.remedy or "请运行 `sentinel-kernel doctor`：它会逐项检查并给出修复方法。",
    )


def _lesser_words(error: BootError) -> tuple[str, str]:
    """Return in both languages why the landlock rung could not be had, and what to do about that."""
    english = f"{error.message} {error.remedy}".strip()
    if error.step == "see_processes":
        return english, (
            "/proc 以 hidepid 方式挂载，连内核自身也看不到沙箱的进程，因此任何限制都无法得到保证。"
            "请以 root 身份执行：mount -o remount,hidepid=0 /proc（或用 gid= 指定您所在的组）；"
            "或者允许用户命名空间，那样沙箱就有自己的 /proc。"
        )
    return english, english  # words for the very failure are better in another language than none


def _profile_words(error: ProfileError) -> tuple[str, str, str, str]:
    if isinstance(error, NoProfileError):
        return (
            error.message,
            f"没有该名称的配置：{error.message}",
            f"{error.remedy} Correct the name where it stands (the variable SENTINEL_PROFILE, the kernel's start file, "
            'or "extends" in a profile), then restart the kernel.'.strip(),
            f"{error.remedy} 请在写有该名称之处修正它（环境变量 SENTINEL_PROFILE、内核的启动文件，"
            "或某个配置中的 extends），然后重启内核。".strip(),
        )
    known = error.json_path not in ("", "$")
    return (
        f"The profile has a mistake{f' at {error.json_path}' if known else ''}: {error.message}",
        f"配置有误{f'（{error.json_path}）' if known else ''}：{error.message}",
        f"{error.remedy} Correct the profile's file, then restart the kernel.".strip(),
        f"{error.remedy} 请修正该配置文件，然后重启内核。".strip(),
    )


def _clone_words(number: int | None) -> tuple[str, str, str, str]:
    if number == errno_numbers.ENOSPC:
        return (
            f"{_NO_NAMESPACES_EN} ({_MAXIMUM} is {_setting(_MAXIMUM) or 'used up'})",
            f"{_NO_NAMESPACES_ZH}（{_MAXIMUM} 的上限已到）",
            "As root: sysctl -w user.max_user_namespaces=10000",
            "以 root 身份执行：sysctl -w user.max_user_namespaces=10000",
        )
    if _setting(_UNPRIVILEGED) == "0":
        return (
            f"{_NO_NAMESPACES_EN} ({_UNPRIVILEGED} is 0)",
            f"{_NO_NAMESPACES_ZH}（{_UNPRIVILEGED} 为 0）",
            "As root: sysctl -w kernel.unprivileged_userns_clone=1",
            "以 root 身份执行：sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _setting(_APPARMOR) == "1":
        return _apparmor_words()
    name = errno_numbers.errorcode.get(number or 0, "an error")
    return (
        f"{_NO_NAMESPACES_EN} (clone failed with {name})",
        f"{_NO_NAMESPACES_ZH}（clone 失败：{name}）",
        (
            "In Docker or Podman: --security-opt seccomp=unconfined, or a seccomp profile that allows clone with "
            "namespace flags. Elsewhere run `sentinel-kernel doctor`."
        ),
        (
            "在 Docker 或 Podman 中：加上 --security-opt seccomp=unconfined，"
            "或使用允许带命名空间标志的 clone 的 seccomp 配置；其他环境请运行 `sentinel-kernel doctor`。"
        ),
    )


def _apparmor_words() -> tuple[str, str, str, str]:
    return (
        "AppArmor takes the rights of new user namespaces away (Ubuntu's default since 23.10).",
        "AppArmor 剥夺了新用户命名空间的权限（Ubuntu 23.10 起的默认设置）。",
        (
            "As root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give this Python an "
            "AppArmor profile with the line `userns,`."
        ),
        (
            "以 root 身份执行：sysctl -w kernel.apparmor_restrict_unprivileged_userns=0，"
            "或为此 Python 编写含有 `userns,` 一行的 AppArmor 配置。"
        ),
    )


def _setting(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
