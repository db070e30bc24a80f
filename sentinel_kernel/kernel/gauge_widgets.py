"""The gauge's widget models: the picture, a selector of profiles, and the buttons; changed together, clicked apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.widgets import BASE, CONTROLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.widgets import HostWidgets
    from sentinel_kernel.kernel.wire import Json, Part

    Clicked = Callable[[str, object], None]

_LAYOUT: Json = {**BASE, "_model_name": "LayoutModel", "_view_name": "LayoutView"}
_STYLE: Json = {"_view_module": "@jupyter-widgets/base", "_view_name": "StyleView"}


class GaugeWidgets:
    """Owns the models. ``clicked`` gets a button's name (stop, kill, close), or profile and the one chosen."""

    def __init__(self, widgets: HostWidgets, clicked: Clicked, *, chinese: bool) -> None:
        self._widgets = widgets
        self._clicked = clicked
        self._chinese = chinese
        self._ids: dict[str, str] = {}
        self._all: list[str] = []
        self.profiles: list[tuple[str, bool]] = []
        """The profiles in the selector, and whether each can be chosen."""

    @property
    def there(self) -> bool:
        """Whether clients have the models."""
        return bool(self._ids) and self._widgets.is_open(self._ids["root"])

    @property
    def root(self) -> str:
        """The id of the model to show."""
        return self._ids["root"]

    def open(self, state: Json, parent: Part) -> None:
        """Open every model; ``state`` is as for ``update``."""
        self._all = []
        ids = self._ids = {}
        layouts: tuple[tuple[str, Json], ...] = (
            ("box", {}),
            ("row", {"flex_flow": "row wrap", "align_items": "center"}),
            ("field", {"width": "auto", "min_width": "240px"}),
            ("button", {"width": "auto"}),
            ("kill_layout", {"width": "auto", "display": "none"}),
        )
        for name, attributes in layouts:
            ids[name] = self._open({**_LAYOUT, **attributes}, parent)
        for name, model in (
            ("html_style", "HTMLStyleModel"),
            ("description", "DescriptionStyleModel"),
            ("button_style", "ButtonStyleModel"),
        ):
            ids[name] = self._open({**CONTROLS, **_STYLE, "_model_name": model}, parent)
        ids["html"] = self._control("HTML", "box", "html_style", {"value": state["html"]}, parent)
        fields = self._fields(state)
        description = {"description": self._say("profile", "配置")}
        ids["profile"] = self._control(
            "Dropdown", "field", "description", {**description, **fields["profile"]}, parent
        )
        for button, text in (
            ("stop", self._say("Stop the cell", "停止单元格")),
            ("kill", self._say("End the worker (variables are lost)", "终止进程（变量会丢失）")),
            ("close", self._say("Close the gauge", "关闭仪表")),
        ):
            layout = "kill_layout" if button == "kill" else "button"
            ids[button] = self._control(
                "Button", layout, "button_style", {"description": text, **fields.get(button, {})}, parent
            )
            self._widgets.listen(ids[button], self._button(button))
        self._widgets.listen(ids["profile"], self._chosen)
        row = [f"IPY_MODEL_{ids[name]}" for name in ("profile", "stop", "kill", "close")]
        ids["controls"] = self._control("HBox", "row", "", {"children": row}, parent)
        children = [f"IPY_MODEL_{ids[name]}" for name in ("html", "controls")]
        ids["root"] = self._control("VBox", "box", "", {"children": children}, parent)

    def update(self, state: Json, parent: Part) -> bool:
        """Make the models like ``state`` (html, profile, running, kill_offered, switching); tell whether it changed."""
        changed = False
        for name, fields in self._fields(state).items():
            changed |= self._widgets.update(self._ids[name], fields, parent)
        return changed

    def repeat(self, parent: Part) -> None:
        """Send again what changes, for clients that it did not reach."""
        for name in ("html", "profile", "stop", "kill_layout"):
            self._widgets.repeat(self._ids[name], parent)

    def close(self, parent: Part) -> None:
        """Close every model."""
        for comm_id in reversed(self._all):
            if self._widgets.is_open(comm_id):
                self._widgets.close(comm_id, parent)
        self._all = []
        self._ids = {}

    def _fields(self, state: Json) -> dict[str, Json]:
        """Return the attributes that change, for each model."""
        names = [name for name, _ in self.profiles]
        return {
            "html": {"value": state["html"]},
            "profile": {
                "_options_labels": [self._label(name, allowed=allowed) for name, allowed in self.profiles],
                "index": names.index(state["profile"]) if state["profile"] in names else None,
                "disabled": state["switching"],
            },
            "stop": {"disabled": not state["running"]},
            "kill_layout": {"display": "" if state["kill_offered"] else "none"},
        }

    def _label(self, name: str, *, allowed: bool) -> str:
        return name if allowed else name + self._say(" (beyond the ceiling)", "（超出上限）")

    def _button(self, name: str) -> Callable[[Json], None]:
        def heard(data: Json) -> None:
            content = data.get("content")
            if (
                data.get("method") == "custom"
                and isinstance(content, dict)
                and content.get("event") == "click"
            ):
                self._clicked(name, None)

        return heard

    def _chosen(self, data: Json) -> None:
        state = data.get("state")
        index = state.get("index") if isinstance(state, dict) and data.get("method") == "update" else None
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self.profiles):
            self._clicked("profile", self.profiles[index][0])

    def _control(self, kind: str, layout: str, style: str, state: Json, parent: Part) -> str:
        model = {
            **CONTROLS,
            "_model_name": f"{kind}Model",
            "_view_name": f"{kind}View",
            "layout": f"IPY_MODEL_{self._ids[layout]}",
            **({"style": f"IPY_MODEL_{self._ids[style]}"} if style else {}),
            **state,
        }
        return self._open(model, parent)

    def _open(self, state: Json, parent: Part) -> str:
        comm_id = self._widgets.open(state, parent)
        self._all.append(comm_id)
        return comm_id

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english
