"""Which variables name what can't be used (a folder, a profile, a language), and what is in force instead."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.setting_values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sentinel_kernel.kernel.settings import Settings

    Notice = tuple[str, str]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_AUDIT = frozenset({"SENTINEL_AUDIT_DAYS", "SENTINEL_AUDIT_BYTES", "SENTINEL_AUDIT_ALERT"})
_SHOWN = 3
"""So many folders or names are told of one variable."""


def unusable_settings(settings: Settings, environment: Mapping[str, str]) -> list[Notice]:
    """Return what is to be told of those that their words tell, or a file of the user's own, in English and Chinese.

    Others are told where they are used: a profile or an interpreter that there is not is no sandbox, and the audit
    and the words of one's own say themselves what they can't take.
    """
    found = [*_language(environment), *_names(environment), *_ceiling(settings, environment)]
    found += _folders([path for path in _writable(environment) if not os.path.isabs(path)])
    if not _OF_AUDIT.isdisjoint(environment):
        from sentinel_kernel.audit.chinese import chinese  # noqa: PLC0415 - few set one
        from sentinel_kernel.audit.place import read_audit_settings  # noqa: PLC0415

        found += [(doubt, chinese(doubt)) for doubt in read_audit_settings(environment).doubts]
    if _names_a_store(environment):
        from sentinel_kernel.workspace.store import read_store_settings  # noqa: PLC0415 - few set one

        found += read_store_settings(environment).problems
    return found


def names_places(environment: Mapping[str, str]) -> bool:
    """Tell whether any of them names a place that has to be looked at."""
    return any(map(os.path.isabs, _writable(environment))) or bool(_store_url(environment))


def unusable_places(environment: Mapping[str, str]) -> Iterator[Notice]:
    """Yield what is to be told of such places; it asks disks and imports, which may take long, or for ever."""
    yield from _folders(
        [path for path in _writable(environment) if os.path.isabs(path) and not os.path.isdir(path)]
    )
    # The last one: whatever an import of others' packages does, the rest was told.
    if url := _store_url(environment):
        from sentinel_kernel.workspace.uploading import obstacle  # noqa: PLC0415 - few set one

        why = obstacle(url)
        if why is not None:
            yield why


def _names_a_store(environment: Mapping[str, str]) -> bool:
    return any(name.startswith("SENTINEL_ARTIFACTS") for name in environment)


def _store_url(environment: Mapping[str, str]) -> str:
    if not _names_a_store(environment):
        return ""
    from sentinel_kernel.workspace.store import read_store_settings  # noqa: PLC0415 - few set one

    return read_store_settings(environment).url


def _writable(environment: Mapping[str, str]) -> list[str]:
    return [path for path in environment.get("SENTINEL_WRITABLE", "").split(":") if path]


def _language(environment: Mapping[str, str]) -> Iterator[Notice]:
    chosen = environment.get("SENTINEL_LANG", "")
    if chosen and not chosen.lower().startswith(("en", "zh")):
        told = printable(chosen)
        yield (
            f"SENTINEL_LANG is {told!r}, which it can't be (en, zh): en is in force.",
            f"SENTINEL_LANG 的值“{told}”无效（可用：en、zh），现按 en 处理。",
        )


def _folders(unusable: list[str]) -> Iterator[Notice]:
    if unusable:
        told = ", ".join(repr(printable(path)) for path in unusable[:_SHOWN])
        yield (
            f"SENTINEL_WRITABLE names what is no folder by its absolute path ({told}): you agreed to nothing there.",
            f"SENTINEL_WRITABLE 中的 {told} 不是文件夹的绝对路径：该处不视为已获您同意。",
        )


def _names(environment: Mapping[str, str]) -> Iterator[Notice]:
    names = environment.get("SENTINEL_PASS_ENVIRONMENT", "").replace(",", " ").split()
    unusable = [name for name in names if name not in environment and not _VARIABLE.fullmatch(name)]
    if unusable:
        told = ", ".join(repr(printable(name)) for name in unusable[:_SHOWN])
        yield (
            f"SENTINEL_PASS_ENVIRONMENT names what is no variable ({told}): nothing is passed for it.",
            f"SENTINEL_PASS_ENVIRONMENT 中的 {told} 不是变量名：不会为其传递任何内容。",
        )


def _ceiling(settings: Settings, environment: Mapping[str, str]) -> Iterator[Notice]:
    # Under a lab the variable does not count, which is told already.
    if (
        settings.lab is not None
        or not settings.ceiling
        or settings.ceiling != environment.get("SENTINEL_CEILING")
    ):
        return
    from sentinel_kernel.kernel.chinese import in_chinese  # noqa: PLC0415 - few set one
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

    try:
        load_profile(settings.ceiling, settings.profile_directories)
    except (SentinelError, OSError) as error:
        told, why = printable(settings.ceiling), str(error)
        yield (
            f"SENTINEL_CEILING is {told!r}, which can't be used: {why} Beyond the first profile you are asked.",
            f"SENTINEL_CEILING 的值“{told}”无法使用：{in_chinese(why)}超出启动时配置的切换都会先询问您。",
        )
