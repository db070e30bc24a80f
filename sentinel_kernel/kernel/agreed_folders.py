"""The folders to whose writing the person has agreed beforehand, found beside the loop: a disk may never answer."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.kernel.loop import Loop

VARIABLE = "SENTINEL_WRITABLE"
"""Names them: the person, who alone sets this host's environment, has agreed, as pipelines ask nobody."""

SECONDS = 5.0
"""How long a cell waits to hear where they lead; what is not known by then was not agreed to."""


class AgreedFolders:
    """Tells of a folder whether it is one of them. Paths are resolved where none is the folder's own already."""

    def __init__(self, loop: Loop, environment: Mapping[str, str]) -> None:
        self._loop = loop
        self._named = [path for path in environment.get(VARIABLE, "").split(":") if path.startswith("/")]
        self._found: deque[str] = deque()
        self._asked: list[tuple[str, Callable[[bool], None]]] = []
        self._descriptors: tuple[int, ...] = ()
        self._heard = 0
        self._over = not self._named
        """Whether nobody waits for a path any more."""

    def ask(self, path: str, answered: Callable[[bool], None]) -> None:
        """Have ``answered`` told, now or before long, whether the person has agreed to ``path``, which is real."""
        agreed = self._contains(path)
        if agreed or self._over:
            answered(agreed)
            return
        self._asked.append((path, answered))
        if not self._descriptors:
            self._look()

    def _contains(self, path: str) -> bool:
        # As it stands there; `..` behind a link leads elsewhere than it reads.
        return path in self._found or any(path == (named.rstrip("/") or "/") for named in self._named)

    def _look(self) -> None:
        """Have each resolved by a thread of its own: one that never answers keeps no other from being known."""
        reader, writer = self._descriptors = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._loop.watch(reader, self._woken)
        self._loop.call_later(SECONDS, self._answer_all)

        def resolve(path: str) -> None:
            self._found.append(os.path.realpath(path))
            os.write(writer, b".")

        for path in self._named:
            # Nobody waits for it, at the end either: the process is gone with the loop (__main__.py).
            threading.Thread(target=resolve, args=(path,), name="agreed folder", daemon=True).start()

    def _woken(self, _events: int) -> None:
        reader, writer = self._descriptors
        self._heard += len(os.read(reader, 4096))
        if self._heard == len(self._named):
            self._loop.forget(reader)
            os.close(reader)
            os.close(writer)
            self._answer_all()
            return
        asked, self._asked = self._asked, []
        for path, answered in asked:
            if self._contains(path):
                answered(True)
            else:
                self._asked.append((path, answered))

    def _answer_all(self) -> None:
        self._over = True
        asked, self._asked = self._asked, []
        for path, answered in asked:
            answered(self._contains(path))
