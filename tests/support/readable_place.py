"""A folder that everyone may enter, for who runs commands: root's sandbox on the landlock rung has an id of its own."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ordinary_user import Identity, ordinary_identity
from supervised import own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def readable_place(*, root: bool) -> Iterator[tuple[Identity, Path]]:
    """Give an ordinary user, or root with that one's interpreter, and a folder of theirs; it is gone afterwards."""
    with ordinary_identity() as ordinary:
        someone = replace(ordinary, name="root", uid=0, prefix=()) if root else ordinary
        place = own_folder(someone, Path(tempfile.mkdtemp(prefix="place-", dir=someone.home)))
        for folder in (someone.home, place):
            folder.chmod(0o755)
        yield someone, place
