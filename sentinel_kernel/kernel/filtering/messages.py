"""Whole messages of the worker's: which parts of them pages show, and what is done with each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import bundle, held, replies, terminal
from sentinel_kernel.kernel.filtering.widgets import Models
from sentinel_kernel.kernel.filtering.work import Work
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sentinel_kernel.kernel.wire import Part
    from sentinel_kernel.policy.profile import Outputs

BUNDLES = frozenset({"display_data", "execute_result", "update_display_data"})
_MOST_CODE = 100_000


class Filtered(Record):
    """What became of a content that was changed in place, and the kinds of what was held back."""

    changed: bool = False
    drop: bool = False
    kinds: frozenset[str] = frozenset()


_SAME = Filtered()


class Messages:
    """Makes the contents of one worker's messages harmless."""

    def __init__(self) -> None:
        self._models = Models()

    def filter(
        self,
        msg_type: str,
        content: dict[str, Any],
        rules: Outputs,
        asked: dict[str, Any] | None = None,
        buffers: Sequence[Part] = (),
    ) -> Filtered:
        """Change ``content`` in place; ``asked`` is that of the request that it answers."""
        work, kinds = Work(), set[str]()
        if msg_type in BUNDLES:
            return _bundle(content, rules, work)
        if msg_type in ("stream", "error"):
            changed = _texts(content, work, kinds)
            return Filtered(changed, bool(kinds) and msg_type == "stream", frozenset(kinds))
        if msg_type in ("comm_open", "comm_msg"):
            judge = self._models.opens if msg_type == "comm_open" else self._models.says
            changed, drop, told = judge(content, rules, work, buffers)
            more = not drop and _comm_data(content.get("data"), rules, told, work)
            return Filtered(changed or more, drop, frozenset(told))
        if msg_type == "execute_reply":
            return _reply(content, rules, work)
        if msg_type in replies.KINDS:
            linked = msg_type == "kernel_info_reply" and _help_links(content)
            return Filtered(replies.clean(msg_type, content, asked or {}) or linked)
        changed = _deep(content, rules, kinds, work)
        return Filtered(changed, kinds=frozenset(kinds))


def _bundle(content: dict[str, Any], rules: Outputs, work: Work) -> Filtered:
    data, metadata = content["data"], content.get("metadata")
    changed, kinds = bundle.clean(data, rules, work)
    if isinstance(metadata, dict) and metadata:
        more, why = bundle.clean_metadata(metadata, rules)
        changed, kinds = changed | more, kinds | why
    if not changed:
        return _SAME
    return Filtered(changed, not data, frozenset(kinds))


def _texts(content: dict[str, Any], work: Work, kinds: set[str]) -> bool:
    """Take escapes out of the texts of a stream or an error; tell whether there were any."""
    changed = False

    def plain(text: str) -> str:
        if work.takes_text(text):
            return terminal.plain(text)
        kinds.add(held.TOO_LONG)
        return ""

    for key in ("name", "text", "ename", "evalue"):
        value = content.get(key)
        if isinstance(value, str) and (made := plain(value)) is not value:
            content[key] = made
            changed |= made != value
    traceback = content.get("traceback")
    if isinstance(traceback, list):
        made_lines = [plain(line) if isinstance(line, str) else line for line in traceback]
        changed |= made_lines != traceback
        content["traceback"] = made_lines
    return changed


def _comm_data(data: Any, rules: Outputs, kinds: set[str], work: Work) -> bool:  # noqa: ANN401 - what JSON holds
    """Make every bundle in a comm's data harmless; tell whether any was changed."""
    changed = False
    for one in _of_widgets(data):
        # No bundle: clients rely on what else is in it. No model has a trait of such a name.
        for key in [key for key in one if bundle.is_bundle({key: None})]:
            del one[key]
            changed = True
            kinds.add(held.WIDGET)
    return _deep(data, rules, kinds, work) or changed


def _of_widgets(data: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - what JSON holds
    """Yield the objects that the protocol of widgets is made of: a message's data, and states."""
    states = data.get("states") if isinstance(data, dict) else None
    told = [one for one in states.values() if isinstance(one, dict)] if isinstance(states, dict) else []
    if isinstance(data, dict) and ("state" in data or "states" in data):
        yield from (data, *([states] if told else ()), *told)
        yield from (one for at in (data, *told) if isinstance(one := at.get("state"), dict))


def _deep(value: Any, rules: Outputs, kinds: set[str], work: Work) -> bool:  # noqa: ANN401 - what JSON holds
    """Make every bundle within ``value`` harmless; tell whether any was changed."""
    changed, waiting = False, [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            if bundle.is_bundle(current):
                more, why = bundle.clean(current, rules, work)
                changed |= more
                kinds |= why
                continue
            metadata, data = current.get("metadata"), current.get("data")
            if isinstance(metadata, dict) and (bundle.is_bundle(metadata) or _holds_bundle(data)):
                more, why = bundle.clean_metadata(metadata, rules)
                changed |= more
                kinds |= why
            else:
                metadata = None
            if current.get("output_type") in ("stream", "error"):
                changed |= _texts(current, work, kinds)
            waiting.extend(
                one for one in current.values() if isinstance(one, dict | list) and one is not metadata
            )
        elif isinstance(current, list):
            waiting.extend(one for one in current if isinstance(one, dict | list))
    return changed


def _holds_bundle(data: Any) -> bool:  # noqa: ANN401 - what JSON holds
    return isinstance(data, dict) and bundle.is_bundle(data)


def _reply(content: dict[str, Any], rules: Outputs, work: Work) -> Filtered:
    """Judge a cell's reply: payloads act in the page, expressions of the client's are bundles."""
    kinds: set[str] = set()
    changed = False
    payloads = content.get("payload")
    if isinstance(payloads, list) and payloads:
        kept = [one for one in payloads if _is_harmless_payload(one, kinds)]
        changed |= kept != payloads
        content["payload"] = kept
    for key in ("payload", "user_expressions"):
        changed |= _deep(content.get(key), rules, kinds, work)
    changed |= _texts(content, work, kinds)
    return Filtered(changed, kinds=frozenset(kinds))


def _is_harmless_payload(payload: Any, kinds: set[str]) -> bool:  # noqa: ANN401 - what JSON holds
    source = payload.get("source") if isinstance(payload, dict) else None
    if source in ("page", "ask_exit"):
        return True
    if source == "set_next_input":
        text = payload.get("text")
        # Lines of ours are the person's to type; what looks otherwise than it reads is nobody's.
        if isinstance(text, str) and len(text) <= _MOST_CODE and "sentinel" not in text.lower():
            made = terminal.line(text)
            if made == text:
                return True
    kinds.add(held.PAYLOAD)
    return False


def _help_links(content: dict[str, Any]) -> bool:
    """Keep the links of a help menu that lead to documentation by https."""
    links = content.get("help_links")
    if links is None:
        return False
    kept = [
        {"text": terminal.line(str(one.get("text")))[:100], "url": one["url"][:500]}
        for one in (links if isinstance(links, list) else [])
        if isinstance(one, dict) and isinstance(one.get("url"), str) and one["url"].startswith("https://")
    ]
    content["help_links"] = kept
    return bool(kept != links)
