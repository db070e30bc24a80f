"""Completes a violation: its words in both languages, and remedies that were checked to work."""

from __future__ import annotations

from functools import lru_cache

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.abi.socket import FAMILIES
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.cause import CALL
from sentinel_kernel.policy.compare import compiled, is_within, least_first, lets_through
from sentinel_kernel.policy.mapping import load_mappings
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.resource import NETWORK, OUTSIDE_NETWORK
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.policy.violation import Remedy, Text
from sentinel_kernel.policy.word_values import MAGIC
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.mapping import Mappings
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.violation import Violation

_SOCK_STREAM = 1
_NOWHERE = (OUTSIDE_NETWORK, NAME_LOOKUP)
"""What no profile gives: the words of these say so themselves."""

DEFAULT_CEILING = "datascience"
"""How far a kernel may switch where nobody set another ceiling."""

_SWITCH_EN = "The profile {0} allows it: start a cell with `%sentinel_profile {0}` (variables stay)."
_SWITCH_ZH = "配置 {0} 允许此操作：在单元格首行写 `%sentinel_profile {0}`（变量会保留）。"
_NONE_EN = "No profile that this kernel may switch to allows it."
_NONE_ZH = "此内核可切换的配置都不允许此操作。"
_LOOPBACK_EN = (
    "No profile of this version reaches the outside. Only for a server that runs inside the sandbox itself: "
    "`%sentinel_profile {0}` at the top of a cell opens the sandbox's own loopback (variables stay)."
)
_LOOPBACK_ZH = (
    "此版本的任何配置都不能访问外部网络。仅当服务运行在沙箱内部时：在单元格首行写 `%sentinel_profile {0}` "
    "可打开沙箱自身的回环接口（变量会保留）。"
)


_ANSWERS = {
    "no": (
        "The person was asked, and the answer was no.",
        "已询问用户，回答为否。",
        "Run the cell again and answer y if the call should take effect.",
        "若应允许此调用，请重新运行单元格并回答 y。",
    ),
    "timeout": (
        "The person was asked, and there was no answer in time.",
        "已询问用户，但未在时限内得到回答。",
        "Run the cell again and answer the question below it.",
        "请重新运行单元格，并回答其下方的问题。",
    ),
    "nobody": (
        "The rule asks the person, and nobody could be asked.",
        "该规则需要询问用户，但无人可以询问。",
        "Run it in a cell of a frontend that takes input, and answer the question below it.",
        "请在支持输入的前端的单元格中运行，并回答其下方的问题。",
    ),
    "unrecorded": (
        "The person agreed, but the audit could not note it, so that nothing was let through.",
        "用户已同意，但审计无法记录，因此未放行。",
        "See why the audit can't be written: `%sentinel_audit` at the top of a cell.",
        "请查看审计无法写入的原因：在单元格首行写 `%sentinel_audit`。",
    ),
    "crowd": (
        "The rule asks the person, and too many questions were open already.",
        "该规则需要询问用户，但未回答的问题已经过多。",
        "Answer the questions that are open, or do less at once.",
        "请先回答已有的问题，或减少同时进行的操作。",
    ),
}
"""What became of a question -> message and hint, in English and Chinese."""


def complete(
    violation: Violation,
    mappings: Mappings | None = None,
    profiles: Iterable[Profile] | None = None,
    ceiling: str | None = DEFAULT_CEILING,
) -> Violation:
    """Return ``violation`` with message, hint and remedies.

    ``mappings`` and ``profiles`` default to the shipped ones. A profile is named only if it lies within the
    profile ``ceiling`` (None: no ceiling) and would let this very call through; of several, the one that
    gives least.

    Raises:
        MappingError: the shipped words can't be read.

    """
    words = (mappings if mappings is not None else _shipped_mappings()).words(violation)
    hint_en, hint_zh = words.hint_en, words.hint_zh
    message_en, message_zh = words.message_en, words.message_zh
    answer = _ANSWERS.get(violation.values.get("answer", ""))
    if answer is not None:
        message_en, message_zh = f"{message_en} {answer[0]}", message_zh + answer[1]
        hint_en, hint_zh = f"{answer[2]} {hint_en}".strip(), answer[3] + hint_zh
    if violation.cause != CALL:
        return _of_occurrence(violation, Text(message_en, message_zh), Text(hint_en, hint_zh))
    available = _shipped_profiles() if profiles is None else tuple(profiles)
    found = _remedy_profile(violation, available, ceiling)
    remedies: tuple[Remedy, ...] = ()
    if found is not None and violation.resource == NETWORK and violation.syscall == "socket":
        # The socket itself would be allowed, but what most programs open it for would fail all the same: no remedy.
        hint_en = f"{hint_en} {_LOOPBACK_EN.format(found.name)}".strip()
        hint_zh = f"{hint_zh}{_LOOPBACK_ZH.format(found.name)}"
    elif found is not None:
        hint_en = f"{hint_en} {_SWITCH_EN.format(found.name)}".strip()
        hint_zh = f"{hint_zh}{_SWITCH_ZH.format(found.name)}"
        remedies = (Remedy("magic", f"%sentinel_profile {found.name}"),)
    elif violation.outcome != "continued" and violation.resource not in _NOWHERE:
        hint_en, hint_zh = f"{hint_en} {_NONE_EN}".strip(), hint_zh + _NONE_ZH
    return replace(
        violation,
        message=Text(message_en, message_zh),
        hint=Text(hint_en, hint_zh),
        remedies=remedies,
    )


_SAID = Text(
    "The cell says so, and what was measured does not show it: ",
    "这是单元格自己的说法，测量结果未能证实：",
)
_SET_LIMIT = Text(
    " %sentinel_limit shows what is in force, %sentinel_limit {0}=... at a cell's top sets it.",
    "%sentinel_limit 可查看当前限制，在单元格开头用 %sentinel_limit {0}=... 可以调整。",
)


def _of_occurrence(violation: Violation, message: Text, hint: Text) -> Violation:
    """Return a violation that no call was held for with its words, and what to type for more of a limit."""
    limit = violation.limit
    if limit is not None and violation.confidence == "likely":
        message = Text(_SAID.en + message.en, _SAID.zh + message.zh)
    if limit is not None and limit.name in MAGIC and "machine" not in violation.values:
        more = MAGIC[limit.name]
        hint = Text(hint.en + _SET_LIMIT.en.format(more), hint.zh + _SET_LIMIT.zh.format(more))
    return replace(violation, message=message, hint=hint)


def _remedy_profile(violation: Violation, profiles: Sequence[Profile], ceiling: str | None) -> Profile | None:
    """Return the profile that gives least among those that would let the call through, None if none does."""
    machine = violation.architecture
    if violation.outcome == "continued" or violation.resource in _NOWHERE:
        return None
    if machine not in [known.machine for known in ARCHITECTURES]:
        return None
    arguments = _registers(violation)
    limit = next((profile for profile in profiles if profile.name == ceiling), None)
    if ceiling is not None and limit is None:
        return None
    allowing = [
        profile
        for profile in profiles
        if profile.name != violation.profile
        and _would_help(compiled(profile, machine), violation, arguments)
        and (limit is None or is_within(profile, limit, machine))
    ]
    return next(iter(least_first(allowing, machine)), None)


def _would_help(policy: CompiledPolicy, violation: Violation, arguments: tuple[int, ...]) -> bool:
    """Tell whether the call would take effect under ``policy``, with the socket that it is made on."""
    if violation.number is None:
        return False
    tested = [test.index for rule in policy.rules.get(violation.number, ()) for test in rule.tests]
    if max(tested, default=-1) >= len(violation.arguments):
        return False  # a register that the violation does not hold
    if not lets_through(policy, violation.number, arguments):
        return False
    if violation.syscall not in ("connect", "bind"):
        return True
    family = next(
        (number for number, name in FAMILIES.items() if name == violation.values.get("family")), None
    )
    number = policy.architecture.syscalls["socket"]
    return family is not None and lets_through(policy, number, (family, _SOCK_STREAM, 0, 0, 0, 0))


def _registers(violation: Violation) -> tuple[int, ...]:
    """Return the call's registers, 0 for those that its signature leaves out."""
    values = [argument.value & (1 << 64) - 1 for argument in violation.arguments][:6]
    return (*values, *(0,) * (6 - len(values)))


@lru_cache(maxsize=1)
def _shipped_mappings() -> Mappings:
    return load_mappings()


@lru_cache(maxsize=1)
def _shipped_profiles() -> tuple[Profile, ...]:
    profiles = []
    for name in list_profiles():
        try:
            profiles.append(load_profile(name))
        except SentinelError:
            continue  # a broken one can't be a remedy, and must not cost the others theirs
    return tuple(profiles)
