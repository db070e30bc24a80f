"""The undo journal's file: written whole or not at all, with room set aside for the next one beforehand."""

from __future__ import annotations

import contextlib
import json
import os

from sentinel_kernel.linux.acting import acting_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MOST_BYTES = 16 << 20
"""Of a file: reading it takes several times of that, of what a files process may have in all."""

RESERVE = "reserve"
_FILE = "journal.json"
_LEAST_BYTES = 128 * 1024
_CHARACTERS_AT_ONCE = 1 << 20


class UnreadableError(Exception):
    """There is a journal, and nobody can tell what it says."""


class JournalFile:
    """The file in the folder ``folder`` (a descriptor), which is the writer's (as a Layer has it)."""

    def __init__(self, folder: int, writer: tuple[int, int] | None) -> None:
        """Read and write nothing yet."""
        self._folder = folder
        self._writer = writer
        self.wanted_bytes = 0
        """How much room the last one wanted that could not be written; 0: it was written."""

    def read(self) -> dict[str, Any] | None:
        """Return what was written last; None where nothing was. Raises UnreadableError."""
        try:
            reader = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnreadableError from error
        try:
            with os.fdopen(reader, encoding="ascii") as file:
                document = json.loads(file.read(MOST_BYTES + 1))
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            raise UnreadableError from error
        if not isinstance(document, dict):
            raise UnreadableError
        return document

    def write(self, parts: list[str]) -> bool:
        """Put ``parts`` (ASCII) in the place of what was written before; False, and that stays, where it can't be."""
        size = sum(map(len, parts))
        written = self._write(parts)
        if not written:
            with contextlib.suppress(OSError):
                os.unlink(RESERVE, dir_fd=self._folder)
            written = self._write(parts)
        room = max(_LEAST_BYTES, 2 * size)
        self.wanted_bytes = 0 if written else room + size
        self._set_aside(room)
        return written

    def drop(self) -> None:
        """Leave nothing of what was written before, which is older than what was told of it. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FILE, dir_fd=self._folder)

    def _write(self, parts: Iterable[str]) -> bool:
        name, flags = _FILE + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with acting_as(self._writer):
            try:
                writer = os.open(name, flags, 0o600, dir_fd=self._folder)
                with os.fdopen(writer, "w", encoding="ascii", buffering=_CHARACTERS_AT_ONCE) as file:
                    file.writelines(parts)
                os.rename(name, _FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)
                return False
        return True

    def _set_aside(self, size: int) -> None:
        """Take room for the next one while there is some: a cell may fill the layers' file system."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError), acting_as(self._writer):
            writer = os.open(RESERVE, flags, 0o600, dir_fd=self._folder)
            try:
                if os.fstat(writer).st_size < size:
                    os.posix_fallocate(writer, 0, size)
            finally:
                os.close(writer)
