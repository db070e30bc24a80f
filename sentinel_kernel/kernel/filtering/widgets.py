"""Widgets of the worker's: which models may be opened, and what their state may hold.

Pages make a model's view from names in its state, and some views put a string of it into the page as HTML. What a
model is, is remembered by its comm's id as long as its sandbox lives: an id that was HTML once stays so, and one that
is not known is held to all rules. Links that pages follow themselves (jslink) could carry a text into such a
model unseen.
"""

from __future__ import annotations

import re
from typing import Any

from sentinel_kernel.kernel.filtering import addresses, css, held, recordings, typeset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.filtering.work import Work
    from sentinel_kernel.kernel.wire import Part
    from sentinel_kernel.policy.profile import Outputs

TARGET = "jupyter.widget"
TARGETS = frozenset({TARGET, "jupyter.widget.control", "jupyter.widget.version"})

_CORE = frozenset({"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"})
_KNOWN = frozenset({"jupyter-matplotlib", "jupyter-leaflet", "k3d"})
_NAMES = ("_model_module", "_model_name", "_view_module", "_view_name")
_MODULES = ("_model_module", "_view_module")
_CODE = ("_esm", "_css", "_anywidget_id")
_HTML = re.compile(r"HTML(?:Math)?(?:Model|View)")
_STYLE = re.compile(r".*(?:Style|Layout)(?:Model|View)")
_LINK = re.compile(r"(?:Directional)?Link(?:Model|View)")
_MEDIA = re.compile(r"(?:Image|Audio|Video)(?:Model|View)")
_TYPED = re.compile(r"(?:Text|Textarea|Password|Combobox)(?:Model|View)")
"""What their ``value`` holds a person may type; all other texts pages may typeset."""

_TELLING = re.compile(r"[\\(<&:/?#{]")
"""Without one of these a text is no HTML, no LaTeX, no address and no part of one, and no style that loads."""

_SHOWN = frozenset({"value", "placeholder", "description"})
_LINKED = frozenset({"value", "index", "selected_index", "max", "min", "disabled", "step"})
_REFERENCE = "IPY_MODEL_"
_MOST, _LONGEST_ID, _LONGEST_NAME = 20_000, 128, 100
"""Of models, and of comms held back, that are remembered; the oldest go, and are held to all rules again."""


class _Model:
    """What is known of one model."""

    __slots__ = ("foreign", "html", "link", "names", "plays", "style", "styles_page", "typed")

    def __init__(self, names: tuple[Any, ...]) -> None:
        self.names = names
        self.foreign = names[0] not in _CORE or names[2] not in _CORE | {None}
        both = [name for name in (names[1], names[3]) if isinstance(name, str)]
        self.html = any(_HTML.fullmatch(name) for name in both)
        self.style = any(_STYLE.fullmatch(name) for name in both)
        self.styles_page = any(
            isinstance(name, str) and _STYLE.fullmatch(name) and (module is None or module in _CORE)
            for module, name in (names[:2], names[2:])
        )
        self.link = any(_LINK.fullmatch(name) for name in both)
        self.plays = recordings.plays(both)
        self.typed = bool(both) and all(_TYPED.fullmatch(name) for name in both)

    def holds_text(self, key: str) -> bool:
        """Tell whether pages put what is at ``key`` into themselves as HTML or as a style, a text or not."""
        return self.styles_page or (self.html and key in _SHOWN)


class Models:
    """Remembers the worker's models, and judges what is said of them."""

    def __init__(self) -> None:
        self._models: dict[str, _Model] = {}
        self._comms: dict[str, None] = {}
        """Comms of other targets that were held back."""

    def opens(
        self, content: dict[str, Any], rules: Outputs, work: Work, buffers: Sequence[Part] = ()
    ) -> tuple[bool, bool, set[str]]:
        """Judge a ``comm_open``; return whether it was changed, whether it is to be dropped, and what was held back."""
        target, comm_id = str(content.get("target_name")), str(content.get("comm_id"))
        if target not in TARGETS:
            if target in rules.comm_targets:
                return False, False, set()
            if len(comm_id) <= _LONGEST_ID:
                self._comms[comm_id] = None
            if len(self._comms) > _MOST:
                del self._comms[next(iter(self._comms))]
            return False, True, {held.COMM}
        self._comms.pop(comm_id, None)
        data = content.get("data")
        state = data.get("state") if isinstance(data, dict) else None
        if target != TARGET or not isinstance(data, dict) or not isinstance(state, dict):
            return False, False, set()
        if why := self._refusal(comm_id, state, rules):
            return False, True, why
        if not self._may_play(comm_id, data, buffers):
            return False, True, {held.RECORDING}
        changed, kinds = self._state(self._models.get(comm_id), state, rules, work)
        return changed, False, kinds

    def says(
        self, content: dict[str, Any], rules: Outputs, work: Work, buffers: Sequence[Part] = ()
    ) -> tuple[bool, bool, set[str]]:
        """Judge a ``comm_msg``; return whether it was changed, whether it is to be dropped, and what was held back."""
        comm_id, data = str(content.get("comm_id")), content.get("data")
        if comm_id in self._comms:
            return False, True, set()
        if not isinstance(data, dict):
            return False, False, set()
        changed = False
        kinds: set[str] = set()
        state = data.get("state")
        if isinstance(state, dict):
            model = self._models.get(comm_id)
            for name in (*_NAMES, *_CODE):
                if name in state and (
                    name in _CODE or model is None or state[name] != self._name(model, name)
                ):
                    del state[name]
                    changed = True
                    kinds.add(held.WIDGET)
            more, why = self._state(model, state, rules, work)
            changed, kinds = changed | more, kinds | why
        if isinstance(data.get("states"), dict):
            more, why = self._all_states(data["states"], rules, work)
            changed, kinds = changed | more, kinds | why
        if not self._may_play(comm_id, data, buffers):
            return False, True, kinds | {held.RECORDING}
        return changed, False, kinds

    def _all_states(self, states: dict[str, Any], rules: Outputs, work: Work) -> tuple[bool, set[str]]:
        """Judge the states of all models, as a control comm tells them."""
        changed = False
        kinds: set[str] = set()
        for one in list(states):
            told = states[one]
            inner = told.get("state") if isinstance(told, dict) else None
            if not isinstance(inner, dict):
                continue
            named = {f"_{key}": told[key] for key in ("model_module", "model_name") if key in told}
            why = {held.WIDGET} if any(inner.get(key, named[key]) != named[key] for key in named) else set()
            why = why or self._refusal(one, {**named, **inner}, rules)
            if why:
                kinds |= why
                changed = True
                del states[one]
                continue
            more, why = self._state(self._models.get(one), inner, rules, work)
            changed, kinds = changed | more, kinds | why
        return changed, kinds

    def _may_play(self, comm_id: str, data: dict[str, Any], buffers: Sequence[Part]) -> bool:
        """Tell whether every buffer that a page may play is a recording."""
        if all(map(recordings.is_recording, buffers)):
            return True
        own = [comm_id] if "state" in data else []
        # A page puts a buffer where its path leads: in the states of all models into that one's.
        return not any(
            self._plays(one)
            for path, buffer in zip(data.get("buffer_paths") or (), buffers, strict=False)
            if not recordings.is_recording(buffer)
            for one in (*own, *([str(path[0])] if "states" in data else ()))
        )

    def _plays(self, comm_id: str) -> bool:
        model = self._models.get(comm_id)
        return model is None or model.plays

    def _name(self, model: _Model, name: str) -> Any:  # noqa: ANN401 - what JSON holds
        return model.names[_NAMES.index(name)]

    def _refusal(self, comm_id: str, state: dict[str, Any], rules: Outputs) -> set[str]:
        """Take note of a model; what is returned is why it may not be."""
        names = tuple(state.get(name) for name in _NAMES)
        if (
            not all(map(_is_name, names))
            or len(comm_id) > _LONGEST_ID
            or any(name in state for name in _CODE)
        ):
            return {held.WIDGET}
        for module in (names[0], names[2]):
            if module is not None and module not in _CORE | _KNOWN and module not in rules.widget_modules:
                return {held.WIDGET}
        known = self._models.get(comm_id)
        if known is not None and known.names != names:
            return {held.WIDGET}
        if (
            any(name and _MEDIA.fullmatch(name) for name in names)
            and str(state.get("format")).lower() == "url"
        ):
            return {held.REMOTE}
        self._models[comm_id] = _Model(names)
        if len(self._models) > _MOST:
            del self._models[next(iter(self._models))]
        return set()

    def _state(
        self, model: _Model | None, state: dict[str, Any], rules: Outputs, work: Work
    ) -> tuple[bool, set[str]]:
        """Make a state harmless in place; tell whether it was changed, and what was held back."""
        kinds: set[str] = set()
        changed = self._settings(model, state, kinds)
        if model is not None and model.plays and state.get("value") is not None:
            state["value"] = None  # what is no buffer is played as well
            changed = True
            kinds.add(held.RECORDING)
        foreign = model is None or model.foreign
        for key, value in list(state.items()):
            if isinstance(value, str):
                made = self._string(model, key, value, rules, kinds, work)
                if made != value:
                    state[key] = made
                    changed = True
            elif isinstance(value, dict | list) and model is not None and model.holds_text(key):
                state[key] = ""  # a page makes one text of all that a list holds
                changed = True
                kinds.add(held.ACTIVE)
            elif foreign or isinstance(value, list):
                changed |= self._deep(model, key, value, rules, kinds, work)
        return changed, kinds

    def _settings(self, model: _Model | None, state: dict[str, Any], kinds: set[str]) -> bool:
        """Take out of a state what would have a page load, link or look otherwise; tell whether there was any."""
        changed = False
        for key in ("source", "target") if model is None or model.link else ():
            if key in state and not self._may_link(state[key]):
                state[key] = None
                changed = True
                kinds.add(held.ACTIVE)
        if str(state.get("format")).lower() == "url":
            del state["format"]
            changed = True
            kinds.add(held.REMOTE)
        if state.get("description_allow_html"):
            state["description_allow_html"] = False
            changed = True
        classes = state.get("_dom_classes")
        if isinstance(classes, list):
            harmless = [one for one in classes if isinstance(one, str) and not _is_page_class(one)]
            if harmless != classes:
                state["_dom_classes"] = harmless
                changed = True
                kinds.add(held.ACTIVE)
        return changed

    def _string(
        self, model: _Model | None, key: str, value: str, rules: Outputs, kinds: set[str], work: Work
    ) -> str:
        """Return what stands for one text of a state."""
        if (model is None or model.style) and "(" in value:
            if not work.takes("application/json", value):
                kinds.add(held.TOO_LONG)
                return ""
            if not css.is_value(value):
                kinds |= held.remote(value)
                return ""
        foreign = model is None or model.foreign
        if foreign and addresses.is_part(key) and addresses.ends_host(value):
            kinds.add(held.REMOTE)
            return ""
        if foreign or (model is not None and model.html and key in _SHOWN):
            return self._text(value, rules, kinds, work, foreign=foreign)
        return (
            value
            if model is not None and model.typed and key == "value"
            else typeset.label(value, kinds, work)
        )

    def _deep(
        self,
        model: _Model | None,
        key: str,
        value: Any,  # noqa: ANN401 - what JSON holds
        rules: Outputs,
        kinds: set[str],
        work: Work,
    ) -> bool:
        """Judge all texts in a value as one text; tell whether any was changed.

        Of ipywidgets' own models those in lists alone: what lies in objects is no text there, but outputs.
        """
        foreign = model is None or model.foreign
        seen = dict | list if foreign else list
        changed, spelled, waiting = False, False, [(key, value)]
        while waiting:
            about, current = waiting.pop()
            if not isinstance(current, seen):
                continue
            # Values are replaced where they stand: a list of all pairs is many times as long as the JSON.
            for place, inner in current.items() if isinstance(current, dict) else enumerate(current):
                if isinstance(inner, str):
                    if _TELLING.search(inner) is None:
                        continue
                    spelled |= "\\" in inner or "&" in inner
                    name = place if isinstance(place, str) and addresses.is_part(place) else about
                    made = self._string(model, name, inner, rules, kinds, work)
                    if made != inner:
                        current[place] = made
                        changed = True
                elif isinstance(inner, dict | list):
                    name = place if isinstance(place, str) and addresses.is_part(place) else about
                    waiting.append((name, inner))
        typed = model is not None and model.typed and key == "value"
        return (
            spelled and not typed and typeset.part_commands(value, seen, work, foreign=foreign)
        ) or changed

    def _text(self, value: str, rules: Outputs, kinds: set[str], work: Work, *, foreign: bool) -> str:
        is_text = not any(mark in value for mark in "<\\&")
        if not work.takes("application/json" if is_text else "text/markdown", value):
            kinds.add(held.TOO_LONG)
            return ""
        if foreign and addresses.loads(value, rules.hosts):
            kinds |= held.remote(value)
            return ""
        if is_text:
            return value
        from sentinel_kernel.kernel.filtering import html, markdown, plain_html  # noqa: PLC0415 - when it is first needed

        if plain_html.is_plain(value):
            made = markdown.latex_in_html(value)
        elif html.is_quickly_read(value) and work.takes_cleaning():
            made, why = html.cleaned(value, rules.hosts)
            kinds |= why
        else:
            kinds.add(held.TOO_LONG)
            return ""
        # It may be an address now: references are resolved, and what stood between its letters is left out.
        if foreign and addresses.loads(made, rules.hosts):
            kinds |= held.remote(made)
            return ""
        return made

    def _may_link(self, end: Any) -> bool:  # noqa: ANN401 - what JSON holds
        """Tell whether a page may copy a value to or from this end by itself."""
        if end is None:
            return True
        if not isinstance(end, list) or len(end) != 2 or not all(isinstance(one, str) for one in end):
            return False
        model = self._models.get(end[0].removeprefix(_REFERENCE))
        return (
            model is not None
            and not model.html
            and not model.style
            and not model.foreign
            and not model.plays
            and end[1] in _LINKED
        )


def _is_name(value: object) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isascii())


def _is_page_class(one: str) -> bool:
    from sentinel_kernel.kernel.filtering.plain_html import is_page_class  # noqa: PLC0415 - when it is first needed

    return is_page_class(one)
