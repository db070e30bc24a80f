"""What one cell gave, gathered from its messages: bounded, cleaned, and apart from what the sandbox's owner says."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from sentinel_kernel.mcp.plain_text import Excerpt, clean_json, shortened
from sentinel_kernel.policy.mime import FILES_TYPE, LIMITS_TYPE, NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.record import MutableRecord, fresh

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

OUTPUTS = ["stdout", "stderr", "result", "displays", "error"]
"""The fields that are the cell's own."""

OF_VIOLATION = [
    "arguments", "error.ename", "function", "library", "process.command", "remedies[].code", "remedies[].text",
    "source", "subject", "thread",
]  # fmt: skip
"""What a record of the sandbox's owner holds in the words of the code in it, or made of them."""

UNTRUSTED = [
    *OUTPUTS, "files.files[].path", "findings[].source", "findings[].subject", "notices", "questions",
    *(f"violations[].{name}" for name in OF_VIOLATION),
]  # fmt: skip
"""The fields that the code in the sandbox has worded, or that name what it has named."""

_TEXT_CHARACTERS = 20_000
_ERROR_CHARACTERS = 8_000
_NAME_CHARACTERS = 200
_VALUE_CHARACTERS = 4_000
_DISPLAY_CHARACTERS = 8_000
_MOST_DISPLAYS = 30
_MOST_VIOLATIONS = 100
_MOST_NOTICES = 20
_MOST_FILES = 50
_MOST_IMAGES = 4
_IMAGE_BYTES = 1 << 20
_IMAGES_BYTES = 2 << 20
_IMAGES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
"""The kinds of pictures that are handed on, and what their bytes begin with."""


class Image(MutableRecord):
    """A picture that a cell showed; ``data`` is base64."""

    mime_type: str
    data: str


class CellOutputs(MutableRecord):
    """What came from one cell so far."""

    stdout: Excerpt = fresh(default_factory=lambda: Excerpt(_TEXT_CHARACTERS))
    stderr: Excerpt = fresh(default_factory=lambda: Excerpt(_TEXT_CHARACTERS))
    result: str | None = None
    error: Json | None = None
    displays: dict[str, str] = fresh(default_factory=dict)
    violations: dict[str, Json] = fresh(default_factory=dict)
    notices: dict[str, Json] = fresh(default_factory=dict)
    limits: Json | None = None
    files: Json | None = None
    """What its cells wrote and is held, where the cell asked for it."""

    begun: bool = False
    """Whether its execute_input has come."""

    images: list[Image] = fresh(default_factory=list)
    left_out: dict[str, int] = fresh(default_factory=dict)
    """What was not kept: name → characters or pieces."""

    clear_next: bool = False

    def take(self, msg_type: str, content: Mapping[str, Any]) -> None:
        """Take one message of IOPub that belongs to the cell; what has no known form is passed over."""
        if self.clear_next and msg_type in ("stream", "display_data", "execute_result", "error"):
            self._clear()
        if msg_type == "stream":
            self._stream(content)
        elif msg_type in ("display_data", "update_display_data", "execute_result"):
            self._bundle(msg_type, content)
        elif msg_type == "error":
            self.fail(content)
        elif msg_type == "execute_input":
            self.begun = True
        elif msg_type == "clear_output":
            if content.get("wait"):
                self.clear_next = True
            else:
                self._clear()

    def fail(self, content: Mapping[str, Any]) -> None:
        """Take an error, from IOPub or from the reply of the cell."""
        lines = content.get("traceback")
        traceback = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
        text, left_out = shortened(traceback, _ERROR_CHARACTERS)
        value, cut = shortened(str(content.get("evalue") or ""), _VALUE_CHARACTERS)
        self.error = {
            "ename": shortened(str(content.get("ename") or "Error"), _NAME_CHARACTERS)[0],
            "evalue": value,
            "traceback": text,
        }
        self._count("error", left_out + cut)

    def _clear(self) -> None:
        """Forget what the cell has cleared; refusals stay."""
        self.clear_next = False
        self.stdout, self.stderr = Excerpt(_TEXT_CHARACTERS), Excerpt(_TEXT_CHARACTERS)
        self.displays.clear()
        self.images.clear()

    def _stream(self, content: Mapping[str, Any]) -> None:
        text = content.get("text")
        if isinstance(text, str):
            (self.stderr if content.get("name") == "stderr" else self.stdout).add(text)

    def _bundle(self, msg_type: str, content: Mapping[str, Any]) -> None:
        data, transient = content.get("data"), content.get("transient")
        if not isinstance(data, dict):
            return
        if isinstance(violation := data.get(VIOLATION_TYPE), dict):
            self._keep(self.violations, str(violation.get("id")), violation, _MOST_VIOLATIONS, "violations")
        if isinstance(limits := data.get(LIMITS_TYPE), dict):
            self.limits = clean_json(limits)
        identifier = str((transient if isinstance(transient, dict) else {}).get("display_id") or "")
        if isinstance(files := data.get(FILES_TYPE), dict):
            self.files = held_files(files)
            return
        if isinstance(notice := data.get(NOTICE_TYPE), dict):
            name = identifier or f"notice {len(self.notices)}"
            self._keep(self.notices, name, notice, _MOST_NOTICES, "notices")
        if VIOLATION_TYPE in data or NOTICE_TYPE in data:
            return
        self._display(msg_type, data, identifier)

    def _display(self, msg_type: str, data: Mapping[str, Any], identifier: str) -> None:
        """Take what a cell shows: its plain text, and a picture."""
        text = data.get("text/plain")
        shown, left_out = shortened(text if isinstance(text, str) else "", _DISPLAY_CHARACTERS)
        self._count("displays", left_out)
        pictures = [kind for kind in _IMAGES if isinstance(data.get(kind), str)]
        for kind in pictures[:1]:
            self._picture(kind, data[kind])
        if msg_type == "execute_result":
            self.result = shown
        elif msg_type == "update_display_data":
            if identifier in self.displays:
                self.displays[identifier] = shown
        elif len(self.displays) < _MOST_DISPLAYS:
            self.displays[identifier or f"display {len(self.displays)}"] = shown
        else:
            self._count("displays", len(shown))

    def _keep(self, place: dict[str, Json], name: str, value: Json, most: int, what: str) -> None:
        if name in place or len(place) < most:
            place[name] = clean_json(value)
        else:
            self._count(what, 1)

    def _picture(self, kind: str, text: str) -> None:
        try:
            data = base64.b64decode(text, validate=False) if len(text) < 2 * _IMAGE_BYTES else b""
        except (binascii.Error, ValueError):
            data = b""
        held = sum(len(image.data) for image in self.images) * 3 // 4
        fits = len(data) <= _IMAGE_BYTES and held + len(data) <= _IMAGES_BYTES
        if data.startswith(_IMAGES[kind]) and fits and len(self.images) < _MOST_IMAGES:
            self.images.append(Image(kind, base64.b64encode(data).decode("ascii")))
        else:
            self._count("images", 1)

    def _count(self, what: str, number: int) -> None:
        if number:
            self.left_out[what] = self.left_out.get(what, 0) + number

    def to_json(self) -> Json:
        """Return the outputs as the fields of a tool's result."""
        left_out = dict(self.left_out)
        for name, excerpt in (("stdout", self.stdout), ("stderr", self.stderr)):
            if excerpt.left_out:
                left_out[name] = excerpt.left_out
        return {
            "stdout": self.stdout.text(),
            "stderr": self.stderr.text(),
            "result": self.result,
            "displays": [text for text in self.displays.values() if text],
            "images": len(self.images),
            "error": self.error,
            "violations": list(self.violations.values()),
            "notices": list(self.notices.values()),
            "left_out": left_out,
            "untrusted_fields": UNTRUSTED,
        }


def _path(entry: Mapping[str, Any]) -> str:
    """Return a path as it is typed: of the notebook's folder from there, of any other in full."""
    path, folder = str(entry.get("path")), entry.get("folder")
    if entry.get("layer") in (None, "workspace") or not isinstance(folder, str):
        return path
    return f"{folder.rstrip('/')}/{path}"


def held_files(told: Mapping[str, Any]) -> Json:
    """Return how many files are held, and the first of them; their paths are the cell's own words."""
    files = [
        {
            "path": shortened(_path(entry), _NAME_CHARACTERS)[0],
            "kind": entry.get("kind"),
            "size": entry.get("size"),
            "conflict": entry.get("conflict") is True,
        }
        for entry in (told.get("files") or ())[:_MOST_FILES]
    ]
    return {"held": told.get("count"), "bytes": told.get("bytes"), "files": files}
