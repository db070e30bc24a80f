"""Completes a violation: its words in both languages, and remedies that were checked to work."""

from __future__ import annotations

from functools import lru_cache

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.host_commands import is_secret
from sentinel_kernel.policy.host_remedy import ALLOW_AFRESH
from sentinel_kernel.policy.leeway import DEFAULT_CEILING, Leeway
from sentinel_kernel.policy.mapping import load_mappings
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.remedy import remedies_for
from sentinel_kernel.policy.remedy_words import remedy_hint
from sentinel_kernel.policy.removal import as_removal, is_removal
from sentinel_kernel.policy.showing_remedy import SHOW, SHOWN, showing_of, shown_read_only
from sentinel_kernel.policy.violation import Text
from sentinel_kernel.policy.word_values import MAGIC
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.mapping import Mappings
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.showing_remedy import Showing
    from sentinel_kernel.policy.violation import Remedy, Violation

__all__ = ["DEFAULT_CEILING", "complete"]

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
    *,
    leeway: Leeway | None = None,
    code: str | None = None,
) -> Violation:
    """Return ``violation`` with message, hint and remedies.

    ``mappings`` default to the shipped ones. What helps is looked for within ``leeway``; without one, among
    ``profiles`` (the shipped ones) up to the profile ``ceiling`` (None: no ceiling). ``code`` is the cell's source.

    Raises:
        MappingError: the shipped words can't be read.

    """
    if leeway is None:
        leeway = Leeway(_shipped_profiles() if profiles is None else tuple(profiles), ceiling)
    violation = as_removal(violation, code)
    remedies = () if is_removal(violation) else remedies_for(violation, code=code, leeway=leeway)
    known = mappings if mappings is not None else _shipped_mappings()
    shown = showing_of(violation, code, leeway), shown_read_only(violation, leeway)
    words = known.words(_as_done(violation, remedies, *shown, asks=leeway.asks))
    message, hint = Text(words.message_en, words.message_zh), Text(words.hint_en, words.hint_zh)
    if leeway.rung != "full":
        from sentinel_kernel.policy.rung_hints import words_on_rung  # noqa: PLC0415 - few kernels are on a lesser one

        on_rung = words_on_rung(violation, leeway)
        if on_rung is not None:
            return replace(violation, message=on_rung[0], hint=on_rung[1], remedies=())
    answer = _ANSWERS.get(violation.values.get("answer", ""))
    if answer is not None:
        # Of what the profile refuses by itself nothing is said: it leaves this to the person.
        message = _joined(_left_to_the_person(violation), Text(answer[0], answer[1]))
        hint = _joined(Text(answer[2], answer[3]), hint)
    if violation.outcome == "killed" and violation.cause == "call":
        message = _joined(message, _ENDED)
    helps = remedy_hint(violation, remedies, code=code, leeway=leeway)
    if answer is not None and not remedies:
        helps = Text("", "")  # that no profile allows it is not why it was refused
    if not helps.en and violation.limit is not None and "machine" not in violation.values:
        helps = _set_limit(violation.limit.name)
    # A slip of the keys is to be seen to first; and a host that can be allowed is what was wanted.
    first = (violation.cause == "package_absent" and not remedies) or (
        bool(remedies) and remedies[0].why == ALLOW_AFRESH
    )
    if violation.loses_variables:
        helps, remedies = unpromised(helps), tuple(map(_unpromised_remedy, remedies))
    hint = _joined(helps, hint) if first else _joined(hint, helps)
    return replace(violation, message=message, hint=hint, remedies=remedies)


def _as_done(
    violation: Violation,
    remedies: tuple[Remedy, ...],
    showing: Showing | None,
    read_only: dict[str, str],
    *,
    asks: bool,
) -> Violation:
    """Return the violation as words are looked up for it: what writes to a hidden path is told nothing of reading.

    ``showing`` says where it can be read, ``read_only`` where what is shown read-only can be written; ``asks`` whether
    somebody can be asked for more.
    """
    subject = violation.subject
    first = remedies[0] if remedies else None
    if violation.cause == "package_absent" and first is not None and first.kind == "magic":
        return replace(violation, values={**violation.values, "does": "inside"})
    if violation.cause == "path_read_only" and read_only:
        return replace(violation, values={**violation.values, **read_only})
    plain = not violation.values.get("does")
    if violation.cause == "path_denied" and plain and subject is not None and is_secret(subject.text):
        return replace(violation, values={**violation.values, "does": "secret"})
    if violation.cause != "path_hidden":
        return violation
    does = violation.values.get("does", "")
    if first is not None and first.kind == "code" and first.why not in (SHOW, SHOWN):
        does = "write"
    elif does != "write" and subject is not None and is_secret(subject.text):
        does = "secret"
    if does == "" and showing is not None:
        told = {
            "does": "shown" if showing.mounted else "named",
            "folder": showing.folder,
            "inside": showing.inside,
        }
        return replace(violation, values={**violation.values, **told})
    if does == "" and not asks:
        # Where another profile shows it, no person's word is needed, and that line follows.
        does = "profile" if first is not None and first.kind == "magic" else "unasked"
    return replace(violation, values={**violation.values, "does": does}) if does else violation


_PROMISES = (
    (" (variables stay)", "（变量会保留）"),
    (", and the variables stay", "，变量会保留"),
    ("; the variables stay", "；变量会保留"),
    (" The variables stay.", "变量会保留。"),
    ("; variables that can be pickled come along", "；可序列化的变量会一并带入"),
)
"""What no words say where the variables are lost, in English and Chinese."""


def unpromised(words: Text) -> Text:
    """Return ``words`` without the promise that variables stay or come along: what ended the sandbox has taken them."""
    for english, chinese in _PROMISES:
        words = Text(words.en.replace(english, ""), words.zh.replace(chinese, ""))
    return words


def _unpromised_remedy(remedy: Remedy) -> Remedy:
    return remedy if remedy.why is None else replace(remedy, why=unpromised(remedy.why))


_ENDED = Text("The sandbox was ended for it.", "沙箱因此被终止。")


def _set_limit(name: str) -> Text:
    """Return what to type for more of a limit, where it is not known how much helps."""
    if name not in MAGIC:
        return Text("", "")
    return Text(
        f"`%sentinel_limit` at a cell's top shows what is in force ({MAGIC[name]}), how far it can be set, and how.",
        f"在单元格首行写 `%sentinel_limit`，可查看当前限制（{MAGIC[name]}）、可设定的范围和写法。",
    )


def _left_to_the_person(violation: Violation) -> Text:
    name, profile = violation.syscall or violation.cause, violation.profile
    return Text(
        f"The profile '{profile}' lets the call {name} through only if the person agrees.",
        f"在配置“{profile}”下，调用 {name} 只有在用户同意后才会放行。",
    )


def _joined(first: Text, second: Text) -> Text:
    return Text(f"{first.en} {second.en}".strip(), first.zh + second.zh)


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
