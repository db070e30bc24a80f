"""Widget models that the host owns: opened, updated and answered by hand-written messages, out of the worker's reach.

The messages are those of Jupyter widgets, protocol 2.1.0: a model is a comm of the target ``jupyter.widget``
(ipywidgets, packages/schema/messages.md). Nothing here is sent on a timer's own account: servers take any message
for activity, and would never end an idle kernel.

Who owns a model is told what a client did to it: that came signed, on the client's own sockets. A worker's
comm message never gets there.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.wire import CONTENT, decode, encode, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sentinel_kernel.kernel.outbox import Outbox
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part

COMM_TYPES = frozenset({"comm_open", "comm_msg", "comm_close"})
VIEW_TYPE = "application/vnd.jupyter.widget-view+json"
TARGET = "jupyter.widget"

_CONTROL_TARGET = "jupyter.widget.control"
_PROTOCOL: Json = {"version": "2.1.0"}
_WORKER_BYTES = 512 * 1024 * 1024
_REMEMBERED = 300
"""How many comm ids stay the host's own after their models are gone, and how many control comms are followed."""

_HIDDEN_ASCII = re.compile(rb"\\u00(?:[2-6]|7[0-9a-eA-E])")

BASE = {
    "_model_module": "@jupyter-widgets/base",
    "_model_module_version": "2.0.0",
    "_view_module": "@jupyter-widgets/base",
    "_view_module_version": "2.0.0",
}
CONTROLS = {
    "_model_module": "@jupyter-widgets/controls",
    "_model_module_version": "2.0.0",
    "_view_module": "@jupyter-widgets/controls",
    "_view_module_version": "2.0.0",
}


class _Control:
    """A client's control comm: through it a page that was loaded anew asks for every model's state at once."""

    __slots__ = ("asked", "closed")

    def __init__(self) -> None:
        self.asked: Part | None = None
        """The header of the request for states that the worker has not answered."""
        self.closed = False
        """The worker knows no such target: ipywidgets was never imported there."""


class HostWidgets:
    """Owns the host's models. ``ids`` are the comm ids that nobody else may use, or even mention in a comm."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._states: dict[str, Json] = {}
        self._listeners: dict[str, Callable[[Json], None]] = {}
        self._controls: dict[str, _Control] = {}
        self.ids: dict[str, None] = {}

    # --- what the host does with its models

    def open(self, state: Json, parent: Part) -> str:
        """Open a model and return its comm id."""
        comm_id = os.urandom(16).hex()
        self._states[comm_id] = state
        self.ids[comm_id] = None
        if len(self.ids) > _REMEMBERED:
            oldest = next(iter(self.ids))
            del self.ids[oldest]
            self._states.pop(oldest, None)
            self._listeners.pop(oldest, None)
        content = {"comm_id": comm_id, "target_name": TARGET, "data": {"state": state, "buffer_paths": []}}
        self._outbox.publish("comm_open", content, parent, metadata=_PROTOCOL)
        return comm_id

    def open_html(self, html: str, parent: Part) -> str:
        """Open a model that shows ``html``, with its layout and style, and return its comm id."""
        layout = self.open({**BASE, "_model_name": "LayoutModel", "_view_name": "LayoutView"}, parent)
        style_view = {"_view_module": "@jupyter-widgets/base", "_view_name": "StyleView"}
        style = self.open({**CONTROLS, "_model_name": "HTMLStyleModel", **style_view}, parent)
        state = {
            **CONTROLS,
            "_model_name": "HTMLModel",
            "_view_name": "HTMLView",
            "layout": f"IPY_MODEL_{layout}",
            "style": f"IPY_MODEL_{style}",
            "value": html,
        }
        return self.open(state, parent)

    def listen(self, comm_id: str, listener: Callable[[Json], None]) -> None:
        """Call ``listener`` with what a client's message about the model says (its ``data``)."""
        self._listeners[comm_id] = listener

    def update(self, comm_id: str, changes: Json, parent: Part) -> bool:
        """Change an open model's state, and tell whether it did: what is the same already is not sent again."""
        state = self._states[comm_id]
        changed = {key: value for key, value in changes.items() if state.get(key) != value}
        if changed:
            state.update(changed)
            self._update(comm_id, changed, parent)
        return bool(changed)

    def repeat(self, comm_id: str, parent: Part) -> None:
        """Send an open model's state again, for clients that an earlier message did not reach."""
        self._update(comm_id, self._states[comm_id], parent)

    def close(self, comm_id: str, parent: Part) -> None:
        """Close a model: clients take its views away. Its id stays the host's."""
        del self._states[comm_id]
        self._listeners.pop(comm_id, None)
        self._outbox.publish("comm_close", {"comm_id": comm_id, "data": {}}, parent)

    def forget(self) -> None:
        """Forget every model: clients have, as they do when a worker has died. Its last view stays as it is."""
        self._states.clear()
        self._listeners.clear()
        self._controls.clear()

    def is_open(self, comm_id: str) -> bool:
        """Tell whether the model is there."""
        return comm_id in self._states

    # --- what clients send

    def takes(self, request: Request) -> bool:
        """Answer a client's comm message if it is about a model of the host's; else leave it to the worker.

        Raises ProtocolError for a content that can't be read.
        """
        if not self.ids:
            return False
        content = request.content()
        comm_id = text_of(content, "comm_id")
        if comm_id not in self.ids:
            return self._follow_control(request, comm_id, content)
        self._outbox.status("busy", request.header)
        data = content.get("data")
        # Whatever else a client wants to change, the host's state is what it gets back.
        if (
            comm_id in self._states
            and isinstance(data, dict)
            and data.get("method") in ("request_state", "update")
        ):
            self._update(comm_id, self._states[comm_id], request.header)
        listener = self._listeners.get(comm_id)
        if listener is not None and isinstance(data, dict) and request.msg_type == "comm_msg":
            listener(data)
        self._outbox.status("idle", request.header)
        return True

    def comm_info(self, request: Request, comms: Json) -> Json:
        """Return the comms of an answer to a client's ``comm_info_request``: the worker's and the host's."""
        target = request.content().get("target_name")
        shown = self._states if target in (None, "", TARGET) else ()
        ours = {comm_id: {"target_name": TARGET} for comm_id in shown}
        return {**{key: value for key, value in comms.items() if key not in self.ids}, **ours}

    # --- what the worker sends

    def forges(self, content: Part) -> bool:
        """Tell whether a worker's comm message names a model of the host's, anywhere and however it is written.

        Not as its target alone: a link from a widget of its own, say, would make clients change the host's.
        Raises ProtocolError for a content that can't be read.
        """
        return bool(self.ids) and mentions(content, self.ids)

    def worker_message(self, msg_type: str, parts: list[Part]) -> bool:
        """Complete a worker's message on a control comm with the host's models; False where it is to be dropped."""
        if not self._controls or not self._states:
            return True
        content = decode(parts[CONTENT], _WORKER_BYTES)
        comm_id = text_of(content, "comm_id")
        control = self._controls.get(comm_id)
        if control is None:
            return True
        if msg_type == "comm_close":
            # A frontend would give up the control comm, and ask for each model after some seconds.
            control.closed = True
            self._answer_control(comm_id, control)
            return False
        data = content.get("data")
        states = data.get("states") if isinstance(data, dict) else None
        if isinstance(data, dict) and isinstance(states, dict) and data.get("method") == "update_states":
            control.asked = None
            parts[CONTENT] = encode(
                {**content, "data": {**data, "states": {**states, **self._model_states()}}}
            )
        return True

    # --- small parts

    def _update(self, comm_id: str, state: Json, parent: Part) -> None:
        data = {"method": "update", "state": state, "buffer_paths": []}
        self._outbox.publish("comm_msg", {"comm_id": comm_id, "data": data}, parent)

    def _follow_control(self, request: Request, comm_id: str, content: Json) -> bool:
        """Follow what a client says on a control comm; True where the worker has none at its end."""
        control = self._controls.get(comm_id)
        if request.msg_type == "comm_open":
            if content.get("target_name") == _CONTROL_TARGET and comm_id and self._states:
                self._controls[comm_id] = _Control()
                if len(self._controls) > _REMEMBERED:
                    del self._controls[next(iter(self._controls))]
            return False
        if control is None:
            return False
        if request.msg_type == "comm_close":
            del self._controls[comm_id]
        else:
            control.asked = request.header
        if not control.closed:
            return False
        self._outbox.status("busy", request.header)
        self._answer_control(comm_id, control)
        self._outbox.status("idle", request.header)
        return True

    def _answer_control(self, comm_id: str, control: _Control) -> None:
        """Send the host's states where they were asked for and the worker has nothing to add."""
        if control.asked is not None and control.closed and comm_id in self._controls:
            parent, control.asked = control.asked, None
            data = {"method": "update_states", "states": self._model_states(), "buffer_paths": []}
            self._outbox.publish("comm_msg", {"comm_id": comm_id, "data": data}, parent)

    def _model_states(self) -> dict[str, Any]:
        """Return every model as a control comm tells of it."""
        return {
            comm_id: {
                "model_name": state["_model_name"],
                "model_module": state["_model_module"],
                "model_module_version": state["_model_module_version"],
                "state": state,
            }
            for comm_id, state in self._states.items()
        }


def view_bundle(comm_id: str, fallback: Json) -> Json:
    """Return the bundle that shows a model; ``fallback`` is for clients, and saved notebooks, without widgets."""
    return {**fallback, VIEW_TYPE: {"version_major": 2, "version_minor": 0, "model_id": comm_id}}


def mentions(content: Part, ids: Collection[str]) -> bool:
    """Tell whether one of the ASCII ``ids`` is in a string of the JSON in ``content``. Raises ProtocolError."""
    raw = bytes(content)
    if any(identifier.encode("ascii") in raw for identifier in ids):
        return True
    if not hides_ascii(raw):
        return False
    text = json.dumps(decode(raw, _WORKER_BYTES))
    return any(identifier in text for identifier in ids)


def hides_ascii(raw: bytes) -> bool:
    """Tell whether JSON may write a letter, digit, hyphen or underscore of ASCII otherwise than as it is.

    That is by its number. By theirs encoders write controls and what is beyond ASCII (:func:`wire.encode` all of it):
    who read whatever holds one of these would read nearly all that the host has changed once more.
    """
    return _HIDDEN_ASCII.search(raw) is not None
