"""What is typed behind `%sentinel_mount`."""

from __future__ import annotations

from sentinel_kernel.record import Record

MOUNT = "sentinel_mount"
USAGE = " [PATH [ro|rw] | --remove NAME]"
_MODES = ("ro", "rw")
_PATH_CHARACTERS = 4096
_MOST_WORDS = 2


class MountWanted(Record):
    """What a line asks for: a folder to show, one to take away, or with neither the list."""

    path: str = ""
    mode: str = "ro"
    remove: str = ""


def read_line(text: str) -> MountWanted | None:
    """Return what the line asks for, None where it is not understood; a path with spaces stands in quotes."""
    import shlex  # noqa: PLC0415 - not on the start path

    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is not closed
        return None
    if (
        any(not word or "\0" in word or len(word) > _PATH_CHARACTERS for word in words)
        or len(words) > _MOST_WORDS
    ):
        return None
    if not words:
        return MountWanted()
    if words[0] == "--remove":
        return MountWanted(remove=words[1]) if len(words) == _MOST_WORDS else None
    if words[0].startswith("-") or (len(words) > 1 and words[1] not in _MODES):
        return None
    return MountWanted(words[0], "".join(words[1:]) or "ro")
