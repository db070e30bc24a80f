"""Changes a cell so that it writes where it may: same file name, in the notebook's folder or in /tmp."""

from __future__ import annotations

import os.path
import re

from sentinel_kernel.policy.cell_source import Edit, words
from sentinel_kernel.policy.change import Change
from sentinel_kernel.policy.path_uses import CREATE, READ, UNKNOWN, WRITING, literals, uses, with_value
from sentinel_kernel.policy.path_values import expressions_of
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.cell_source import CellSource
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.path_uses import Literal, Use
    from sentinel_kernel.policy.violation import Violation

_ALWAYS_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/dev/pts")
_NEVER_WRITABLE = (
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/media", "/opt", "/root", "/run", "/sbin", "/srv", "/usr",
    "/var", "/data",
)  # fmt: skip
_NOT_FILES = ("/proc", "/sys", "/dev")
_SETTINGS = words(
    "hosts resolv.conf passwd shadow group gshadow sudoers fstab nsswitch.conf hostname ld.so.conf ld.so.preload "
    "environment profile crontab sysctl.conf timezone localtime shells"
)
_SETTING_FOLDERS = words(
    "/etc/cron.d /etc/cron.daily /etc/systemd/system /etc/sudoers.d /etc/profile.d /etc/ld.so.conf.d /etc/sysctl.d "
    "/etc/udev/rules.d /etc/ssh /etc/apt /etc/apt/sources.list.d /usr/lib/systemd/system"
)
_SHELL_TARGET = re.compile(
    r"(?:>{1,2}\s*|\b(?:touch|mkdir|tee)\s++(?:-\w++\s++){0,8}+|\bof=|\s-o\s*|\b(?:cp|mv|ln|install)\s[^;&|\n]{0,120}\s)"
    r"(/[\w./+@=,:-]+)"
)
_MOST_MOVED = 10
"""Paths that are moved in one cell: each is looked for in all of it. What is left is moved after the next refusal."""

_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]{0,63}", re.ASCII)
_SHELL_COMMAND = re.compile(r"\s")


def moved_writes(cell: CellSource, violation: Violation, leeway: Leeway) -> Change | None:
    """Return the change that has the cell write its files in its own place, None where there is none."""
    failing = _subject(violation)
    if failing.startswith(_NOT_FILES) and not failing.startswith(_ALWAYS_WRITABLE):
        return None
    plan = _Plan(cell, leeway, violation)
    texts = list(literals(cell))
    if failing.startswith("/"):
        plan.move(failing, texts, certain=violation.cause == "path_read_only")
    elif failing and any(name in ("os.chdir", "contextlib.chdir") for _, name in cell.calls()):
        plan.move_relative(failing, texts)
    for path in _written(cell, texts, plan):
        if plan.full:
            break
        plan.move(path, texts, certain=True)
    for start, end in cell.shell_lines():
        if plan.full:
            break
        for found in _SHELL_TARGET.finditer(cell.text, start, end):
            if plan.unwritable(found[1]) and not plan.full:
                plan.move(found[1], texts, certain=True, made=True)
    return plan.change()


def copied_reads(cell: CellSource, violation: Violation, leeway: Leeway) -> tuple[str, str] | None:
    """Return (the path, the cell's text that reads a copy of it in the notebook's folder), None if it can't be.

    Only a path that stands in the source is taken: what the person sees there, nothing that the sandbox says.
    """
    name = os.path.basename(_subject(violation).rstrip("/"))
    return redirected_reads(
        cell, violation, leeway, f"./{name}" if violation.cause == "program_absent" else name
    )


def redirected_reads(
    cell: CellSource, violation: Violation, leeway: Leeway, place: str
) -> tuple[str, str] | None:
    """Return (the path, the cell's text that reads it at ``place``), None if it can't be; as copied_reads()."""
    failing = _subject(violation)
    if not failing.startswith("/") or failing.startswith(_NOT_FILES) or not leeway.workspace:
        return None
    named = expressions_of(cell, failing, leeway.workspace)
    if any(use.kind in WRITING for node, _ in named for use in uses(cell, node)):
        return None
    name = repr(place)
    edits = [cell.replace(node, f"{value.path}({name})" if value.path else name) for node, value in named]
    return (_normal(failing), cell.changed(edits)) if edits else None


def copied_program(cell: CellSource, name: str) -> str | None:
    """Return the cell's text that runs a copy of the program ``name`` in the notebook's folder; None if it can't."""
    if not _PROGRAM.fullmatch(name):
        return None
    edits = []
    command = re.compile(
        rf"(?:(?<=[!;&|(])|^|(?<=\bsudo)|(?<=\benv))([^\S\n]*+){re.escape(name)}(?![\w./-])", re.MULTILINE
    )
    for text in literals(cell):
        if (text.value == name and not text.partial) or text.value.startswith(f"{name} "):
            written = with_value(cell, text, name, f"./{name}")
            edits += [] if written is None else [cell.replace(text.node, written)]
    for start, end in cell.shell_lines():
        for found in command.finditer(cell.text[start:end]):
            edits.append(Edit(start + found.end() - len(name), start + found.end(), f"./{name}"))
    return cell.changed(edits) if edits else None


class _Plan:
    """Collects the edits that move paths."""

    def __init__(self, cell: CellSource, leeway: Leeway, violation: Violation) -> None:
        self._cell = cell
        self._leeway = leeway
        profile = leeway.profile(violation.profile)
        held = profile is None or profile.filesystem.allow_write_overlay
        leaves = any(name in ("os.chdir", "contextlib.chdir") for _, name in cell.calls())
        self.folder = (leeway.workspace or "/tmp") if held and leaves else "" if held else "/tmp"
        """Where files go; "" is the notebook's folder, in which cells run."""
        self.edits: list[Edit] = []
        self.refused = False
        """Whether the cell changes what the system reads: a copy would change nothing for it."""
        self.copies: dict[str, str] = {}
        self.folders: dict[str, None] = {}
        self._moved: set[str] = set()
        self._normals: dict[str, str] = {}

    @property
    def full(self) -> bool:
        """Whether no more paths are moved."""
        return len(self._moved) >= _MOST_MOVED or self.refused

    def _normal(self, path: str) -> str:
        """Return ``path`` in its shortest form; each is brought into it once."""
        if path not in self._normals:
            self._normals[path] = _normal(path)
        return self._normals[path]

    def place(self, name: str) -> str:
        """Return the new path of what is called ``name``."""
        return os.path.join(self.folder, name) if self.folder else name

    def unwritable(self, path: str) -> bool:
        """Tell whether ``path`` lies where cells can't write, as far as that is known."""
        writable = [*_ALWAYS_WRITABLE, self._leeway.workspace, self._leeway.home]
        if any(root and _is_below(path, root) for root in writable):
            return False
        return any(_is_below(path, root) for root in _NEVER_WRITABLE) and (
            bool(self._leeway.workspace) or not _is_below(path, "/home")
        )

    def move(self, failing: str, texts: list[Literal], *, certain: bool, made: bool = False) -> None:
        """Move ``failing`` into the new place, and what is named after it; ``made``: a command makes it anew."""
        failing = _normal(failing)
        if failing in self._moved:
            return
        whole = [
            text
            for text in texts
            if _is_below(self._normal(text.value), failing) and text.value.startswith("/")
        ]
        nodes = [text.node for text in whole] or [node for node, _ in expressions_of(self._cell, failing)]
        nodes = nodes or [text.node for text in texts if text.value[1:] and failing.startswith(text.value)]
        done = sorted((use for node in nodes for use in uses(self._cell, node)), key=lambda use: use.line)
        if not certain and done and not any(use.kind in WRITING for use in done):
            return
        self._moved.add(failing)
        if _is_setting(failing) and not any(use.kind == READ for use in done):
            self.refused = True
            return
        name = os.path.basename(failing)
        if whole:
            if not self.folder and any(self._normal(text.value) in (name, f"./{name}") for text in texts):
                self.folder = "/tmp"  # the cell has another file of that name in the notebook's folder
            for text in whole:
                self._replace(
                    text, self.place(name) + self._normal(text.value)[len(failing) :], len(text.value)
                )
            if not made:
                self._keep_content(failing, name, done)
            self._follow_folder(os.path.dirname(failing), texts, min(text.node.lineno for text in whole))  # type: ignore[attr-defined]
        else:
            self._move_beginnings(failing, texts)
        self._move_in_commands(failing, texts)

    def move_relative(self, failing: str, texts: list[Literal]) -> None:
        """Move a file that is written relative to a folder that the cell has gone to."""
        for text in texts:
            if not text.partial and text.value == failing:
                self._replace(text, self.place(os.path.basename(failing)), len(failing))

    def change(self) -> Change | None:
        """Return what was collected."""
        if not self.edits or self.refused:
            return None
        lines = [f"os.makedirs({folder!r}, exist_ok=True)" for folder in self.folders]
        lines += [
            f"if os.path.isfile({source!r}):\n    shutil.copyfile({source!r}, {name!r})"
            for source, name in self.copies.items()
        ]
        if lines:
            imports = "import os\n" + ("import shutil\n" if self.copies else "")
            top = self._cell.top()
            self.edits.append(Edit(top, top, imports + "\n".join(lines) + "\n"))
        where_en = "the notebook's folder" if not self.folder else self.folder
        where_zh = "笔记本所在文件夹" if not self.folder else self.folder
        return Change(
            self._cell.changed(self.edits),
            f"Write the file in {where_en}",
            Text(
                f"System folders are read-only in the sandbox; files of the same name in {where_en} can be written.",
                f"沙箱中的系统文件夹是只读的；同名文件可以写入{where_zh}。",
            ),
        )

    def _replace(self, text: Literal, new: str, length: int) -> None:
        written = with_value(self._cell, text, text.value[:length], new or ".")
        if written is not None:
            self.edits.append(self._cell.replace(text.node, written))

    def _keep_content(self, failing: str, name: str, done: list[Use]) -> None:
        """Copy what is there first, where the cell does more than to make it anew."""
        known = [use.kind for use in done if use.kind != UNKNOWN]
        if known and known[0] != CREATE:
            self.copies[failing] = self.place(name)

    def _follow_folder(self, folder: str, texts: list[Literal], line: int) -> None:
        """Have later looks into the folder look into the new one."""
        for text in texts:
            later = getattr(text.node, "lineno", 0) > line
            if later and not text.partial and self._normal(text.value) == folder and folder != "/":
                self._replace(text, self.folder or ".", len(text.value))

    def _move_beginnings(self, failing: str, texts: list[Literal]) -> None:
        """Move the texts that the path begins with: a folder that names are joined to, an f-string."""
        folder = os.path.dirname(failing)
        beginnings = [text for text in texts if len(text.value) > 1 and failing.startswith(text.value)]
        longest = max((len(text.value) for text in beginnings if text.value.startswith("/")), default=0)
        for text in beginnings:
            value = text.value
            if len(value) != longest:
                continue
            if not text.partial and failing[longest : longest + 1] == "/":
                rest = failing[longest:].lstrip("/")
                self._replace(text, self.folder or ".", longest)
            else:
                # up to the last slash that is in both: what follows stays
                cut = min(value.rfind("/") + 1, len(folder) + 1)
                rest = failing[cut:]
                self._replace_beginning(text, cut)
            if os.path.dirname(rest):
                self.folders[self.place(os.path.dirname(rest))] = None

    def _replace_beginning(self, text: Literal, cut: int) -> None:
        new = f"{self.folder}/" if self.folder else "" if len(text.value) > cut or text.partial else "./"
        written = with_value(self._cell, text, text.value[:cut], new)
        if written is not None:
            self.edits.append(self._cell.replace(text.node, written))

    def _move_in_commands(self, failing: str, texts: list[Literal]) -> None:
        """Move the path where it stands inside a command or another longer text."""
        token = re.compile(rf"(?<![\w./-]){re.escape(failing)}(?![\w-]|\.\w)")
        new = self.place(os.path.basename(failing))
        for text in texts:
            inside = _SHELL_COMMAND.search(text.value) and not text.value.startswith("/")
            if inside and token.search(text.value):
                start, end = self._cell.span(text.node)
                for found in token.finditer(self._cell.text, start, end):
                    self.edits.append(Edit(found.start(), found.end(), new))
        for start, end in self._cell.shell_lines():
            for found in token.finditer(self._cell.text, start, end):
                self.edits.append(Edit(found.start(), found.end(), new))


def _written(cell: CellSource, texts: list[Literal], plan: _Plan) -> Iterator[str]:
    """Yield the paths that the cell writes where it can't."""
    for text in texts:
        if text.value.startswith("/") and not text.partial and plan.unwritable(text.value):
            kinds = [use.kind for use in uses(cell, text.node)]
            if any(kind in WRITING for kind in kinds):
                yield text.value
        elif _SHELL_COMMAND.search(text.value):
            for found in _SHELL_TARGET.finditer(text.value):
                if plan.unwritable(found[1]):
                    yield found[1]


def _is_setting(path: str) -> bool:
    """Tell whether the system itself reads ``path``."""
    folder, name = os.path.split(path)
    return (folder == "/etc" and name in _SETTINGS) or folder in _SETTING_FOLDERS


def _subject(violation: Violation) -> str:
    subject = violation.subject
    return subject.text if subject is not None and subject.kind in ("path", "program") else ""


def _normal(path: str) -> str:
    return os.path.normpath(path) if path.startswith("/") else path


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
