"""`%sentinel_export`: one file of the sandbox as a link to download, however large; and pictures for differences.

A small file is in the link itself. A larger one is copied to a new file below the notebook's folder, which the
server gives out: after a question, unless it is data that would be saved by itself. Where nobody is there to ask or
to click it is copied to a private folder, of a few files, and the page says where; not at all where nothing gets out
unasked.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from sentinel_kernel.kernel import files_words, rendering
from sentinel_kernel.policy.committable import by_itself, form_of
from sentinel_kernel.policy.disk_reserve import room
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.files import Files, Turn
    from sentinel_kernel.kernel.files_diff import Pictures
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json

INLINE_BYTES = 256 * 1024
"""So large a file is within the link, and so in the notebook once that is saved."""

FOLDER = "sentinel-exports"
_UNASKED_BYTES = 1 << 30
"""A larger file may be mostly holes (policy/committable.py, SPARSE): the person is asked."""
PRIVATE_FILES, PRIVATE_BYTES = 20, 1 << 30
"""What the private folder holds at most: a cell's line fills it, and nobody is asked."""
_MOST_PICTURES, _PICTURE_BYTES = 8, 512 * 1024
_NAME_CHARACTERS = 120
_PLACE_CHARACTERS = 300
_TRIES = 1000


class FilesExport:
    """One export; the file is fetched in parts and never held as a whole where it is large."""

    def __init__(self, host: Host, files: Files, turn: Turn) -> None:
        self._host = host
        self._files = files
        self._turn = turn
        self._path = turn.wanted.paths[0]
        self._chinese = host.settings.language == "zh"
        self._data = bytearray()
        self._copy: _Copy | None = None
        self._here = True
        self._first: Json = {}

    def begin(self) -> None:
        """Fetch the first part, which says how large the file is."""
        self._files.request(self._turn, {"do": "export", "paths": [self._path]}, self._began)

    def _offer(self, told: Json) -> None:
        """Give out the file itself where nothing of it is held: then it is on this machine already."""

        def answered(listed: Json) -> None:
            if listed.get("count") != 0:
                self._began(told, offered=True)
                return
            path = str(told.get("path"))
            place = os.path.join(self._host.settings.workspace, path)
            here = self._host.questions.reaches(self._turn.cell)
            href = f"{quote(path)}?download=1" if here and _has_no_surrogate(path) else ""
            self._turn.done(
                _page(_name(path), told.get("size"), href, place, copy=False, chinese=self._chinese)
            )

        self._files.request(self._turn, {"do": "list", "paths": [self._path]}, answered)

    def _began(self, told: Json, *, offered: bool = False) -> None:
        self._first = told
        size = told.get("size")
        here = self._host.questions.reaches(self._turn.cell)
        if isinstance(size, int) and size <= INLINE_BYTES and here:
            self._took(told)
        elif told.get("layer") == "workspace" and not offered:
            self._offer(told)
        elif here and not self._is_saved_by_itself(size):
            need = {"what": "new", "paths": [f"{FOLDER}/{_name(self._path)}"], "count": 1}
            self._files.ask(self._turn, need, lambda: self._open(told, here=True))
        elif not here and self._host.settings.commit == "none":
            self._turn.refuse(files_words.nobody("export", chinese=self._chinese))
        else:
            self._open(told, here=here)

    def _is_saved_by_itself(self, size: object) -> bool:
        """Tell whether the copy is data of the kind that gets out unasked; what may hold settings is asked about."""
        path = f"{FOLDER}/{_name(self._path)}"
        small = isinstance(size, int) and size <= _UNASKED_BYTES
        return small and by_itself(path) and not form_of(path) and self._files.commits_new()

    def __del__(self) -> None:
        """Leave no half file of an export whose cell was interrupted."""
        self._drop()

    def _open(self, told: Json, *, here: bool) -> None:
        self._here = here
        try:
            told_size = told.get("size")
            size = told_size if isinstance(told_size, int) else 0
            parent = self._host.settings.workspace if here else _private_folder()
            if not here and _is_full(os.path.join(parent, FOLDER), size):
                place = rendering.printable(os.path.join(parent, FOLDER), _PLACE_CHARACTERS)
                self._turn.refuse(
                    files_words.too_many_exports(place, PRIVATE_FILES, PRIVATE_BYTES, chinese=self._chinese)
                )
                return
            self._copy = _Copy(parent, size)
        except OSError as error:
            self._fail(error)
            return
        self._took(told)

    def _took(self, told: Json) -> None:
        """Take one part, and ask for the next."""
        try:
            part = base64.b64decode(str(told.get("data") or ""), validate=True)
            if self._copy is None:
                self._data += part
            else:
                self._copy.write(part)
        except (OSError, binascii.Error) as error:
            self._fail(error)
            return
        if any(told.get(name) != self._first.get(name) for name in ("size", "mtime_ns")):
            self._give_up("changed_meanwhile")
            return
        following = told.get("next")
        if isinstance(following, int):
            fields = {"do": "export", "paths": [self._path], "offset": following}
            self._files.request(self._turn, fields, self._took)
        else:
            self._finish()

    def _finish(self) -> None:
        size = self._first.get("size")
        name = _name(self._path)
        place = ""
        if self._copy is None:
            encoded = base64.b64encode(bytes(self._data)).decode("ascii")
            href = f"data:application/octet-stream;base64,{encoded}"
        else:
            try:
                place = self._copy.finish(name)
            except OSError as error:
                self._fail(error)
                return
            self._copy = None
            href = f"{FOLDER}/{quote(os.path.basename(place))}?download=1" if self._here else ""
        self._turn.done(_page(name, size, href, place, copy=True, chinese=self._chinese))

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"导出失败：{reason}" if self._chinese else f"The file could not be exported: {reason}"
        hint = (
            "请在可写入且有空间的文件夹中打开笔记本。"
            if self._chinese
            else "Open the notebook from a folder that can be written to and has room."
        )
        self._drop()
        self._turn.refuse(f"{text[:300]}. HINT → {hint}")

    def _give_up(self, code: str) -> None:
        self._drop()
        from sentinel_kernel.kernel.files_page import failure_text  # noqa: PLC0415 - seldom

        self._turn.refuse(failure_text({"code": code}, chinese=self._chinese))

    def _drop(self) -> None:
        if self._copy is not None:
            self._copy.drop()
            self._copy = None


class _Copy:
    """A file that grows under another name until it is whole. Raises OSError, also where the folder is a link.

    Where root started the kernel, the folder and the file are the parent folder's owner's. Of the disk as much stays
    free as after a commit.
    """

    def __init__(self, parent: str, size: int) -> None:
        self._folder = os.path.join(parent, FOLDER)
        made = False
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o755)
            made = True
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._directory = os.open(self._folder, flags)
        owner = os.stat(parent)
        try:
            if made and os.geteuid() == 0:
                os.fchown(self._directory, owner.st_uid, owner.st_gid)
            _refuse_without_room(self._directory, size)
        except OSError:
            os.close(self._directory)
            raise
        self._part = f".{os.urandom(8).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(self._part, flags, 0o644, dir_fd=self._directory)
        except OSError:
            os.close(self._directory)
            raise
        if os.geteuid() == 0:
            os.fchown(self._fd, owner.st_uid, owner.st_gid)

    def write(self, data: bytes) -> None:
        """Add to the file."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def finish(self, name: str) -> str:
        """Give it its name, or that with a number where there is one; return its path."""
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (ending, "")
        for number in range(_TRIES):
            tried = f"{stem} ({number}){ending}" if number else name
            with suppress(FileExistsError):
                os.link(
                    self._part,
                    tried,
                    src_dir_fd=self._directory,
                    dst_dir_fd=self._directory,
                    follow_symlinks=False,
                )
                self.drop()
                return os.path.join(self._folder, tried)
        raise FileExistsError(errno.EEXIST, "There are too many copies of that name.")

    def drop(self) -> None:
        """Take the growing name away."""
        with suppress(OSError):
            os.unlink(self._part, dir_fd=self._directory)
        os.close(self._fd)
        os.close(self._directory)


def fetch_pictures(
    files: Files, turn: Turn, wanted: Sequence[tuple[str, str, str]], done: Callable[[Pictures], None]
) -> None:
    """Fetch the first of the wanted pictures, each in parts; one that has become too large meanwhile is left out."""
    pictures: Pictures = {}
    waiting = list(wanted[:_MOST_PICTURES])

    def following() -> None:
        if not waiting:
            done(pictures)
            return
        key = waiting.pop(0)
        data = bytearray()

        def took(told: Json) -> None:
            with suppress(binascii.Error):
                data.extend(base64.b64decode(str(told.get("data") or ""), validate=True))
            offset = told.get("next")
            if isinstance(offset, int) and len(data) <= _PICTURE_BYTES:
                ask(offset)
                return
            if len(data) <= _PICTURE_BYTES:
                pictures[key] = bytes(data)
            following()

        def ask(offset: int) -> None:
            fields = {"do": "export", "paths": [key[1]], "offset": offset, "side": key[2]}
            files.request(turn, fields, took)

        ask(0)

    following()


def _page(name: str, size: object, href: str, place: str, *, copy: bool, chinese: bool) -> Json:
    title = "Sentinel：导出" if chinese else "Sentinel: export"
    shown = f"{name} ({size_text(size)})"
    parts = []
    notes = []
    if href:
        # JupyterLab opens a click on a link to a file in a tab of its own; this one is to be downloaded.
        link = (
            f'<a href="{rendering.escape(href, len(href))}" download="{rendering.escape(name)}" '
            f'onclick="event.stopPropagation()" style="color:var(--jp-content-link-color,#1565c0)">'
            f"{'下载' if chinese else 'Download'} {rendering.escape(shown)}</a>"
        )
        parts.append((rendering.paragraph(link), [f"  {shown}"]))
    if place:
        rows = [("文件" if chinese else "file", shown), ("位置" if chinese else "place", place)]
        parts.append(rendering.rows_part(rows))
        notes += (
            []
            if not copy
            else [
                "这是一份副本，可以移动或删除。"
                if chinese
                else "It is a copy, which can be moved or deleted."
            ]
        )
    return rendering.page_bundle(title, parts, notes)


def _refuse_without_room(folder: int, size: int) -> None:
    """Raise OSError (ENOSPC) where a file of ``size`` bytes would leave too little free for others."""
    space = os.fstatvfs(folder)
    if room(space) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_full(folder: str, size: int) -> bool:
    """Tell whether a file of ``size`` bytes is more than the private folder may hold. Raises OSError."""
    count = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            count += 1
            with suppress(FileNotFoundError):  # another kernel's, finished by now
                size += entry.stat(follow_symlinks=False).st_size
    return count >= PRIVATE_FILES or size > PRIVATE_BYTES


def _has_no_surrogate(path: str) -> bool:
    """Tell whether a path is text: no link can name another."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def _name(path: str) -> str:
    """Return a name for the copy: the file's own, with what can't be seen replaced, never hidden, never an option."""
    name = path.rstrip("/").rpartition("/")[2]
    plain = "".join(one if one.isprintable() and one not in "/\\" else "_" for one in name)
    return plain[-_NAME_CHARACTERS:].lstrip(".-~ ").rstrip() or "file"


def _private_folder() -> str:
    """Return the folder of the user's own where copies go that nobody can click at (XDG base directories)."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.environ.get("HOME") or "/", ".local", "share")
    folder = os.path.join(data, "sentinel-kernel")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
