"""What a lab or an administrator has laid down for every kernel of the machine; a user's own settings end there.

One JSON file that belongs to root alone: ``/etc/sentinel-kernel/config.json``, or the same below the ``etc`` of the
environment that the kernel was installed into. A file that is there and can't be trusted stops every sandbox.
"""

from __future__ import annotations

import os
import stat
import sys

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.record import Record

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = os.path.join("etc", "sentinel-kernel")
_FILE = "config.json"
_PROFILES = "profiles"
_MOST_BYTES = 64 * 1024
_HIGHEST_SECONDS = 3600


class LabConfig(Record):
    """The configuration of a lab.

    ``ceiling`` is the widest profile of all, whoever asks; ``locked`` keeps every kernel under ``profile``.
    ``ask_seconds`` is None where the lab leaves it to the user, 0 where nobody is ever asked. ``profiles`` is the lab's
    own folder of profiles ("": none); ``own_profiles`` tells whether users' own count too, behind all others.
    ``pythons`` are the interpreters, beside the host's own, that may run cells.
    """

    path: str
    profile: str
    ceiling: str
    locked: bool
    ask_seconds: float | None
    profiles: str
    own_profiles: bool
    pythons: tuple[str, ...]
    audit: bool = False
    """The audit is kept whatever the user's settings say, and ``audit_alert`` is told of what it is told."""
    audit_alert: str = ""
    preflight: str = ""
    """The least that preflight does, and ``dangerous`` about dangerous code ("": as the user likes)."""
    dangerous: str = ""


def lab_places() -> tuple[str, ...]:
    """Return the folders where the configuration may lie: the machine's comes before the environment's."""
    return tuple(dict.fromkeys((os.path.join("/", _FOLDER), os.path.join(sys.prefix, _FOLDER))))


def read_lab_config(places: Sequence[str] | None = None) -> LabConfig | None:
    """Return the first configuration among ``places``; None where there is none.

    Raises:
        SentinelError: there is one that can't be read, is not root's alone, or is not understood.

    """
    for folder in lab_places() if places is None else places:
        path = os.path.join(folder, _FILE)
        try:
            text = _read(folder, path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _distrusted(path, f"can't be read ({error.strerror})") from None
        return _parse(text, path, folder)
    return None


def _read(folder: str, path: str) -> bytes:
    """Return the file's content. Raises SentinelError where it is not root's alone."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = os.open(
            _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
        try:
            _check(os.fstat(directory), folder)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _distrusted(path, "is no plain file")
            _check(status, path)
            if status.st_size > _MOST_BYTES:
                raise _distrusted(path, f"is longer than {_MOST_BYTES} bytes")
            return os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
    finally:
        os.close(directory)


def _check(status: os.stat_result, path: str) -> None:
    if status.st_uid != 0:
        raise _distrusted(path, f"belongs to user {status.st_uid}, not to root")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise _distrusted(path, "can be changed by others than root")


def _distrusted(path: str, why: str) -> SentinelError:
    return SentinelError(
        f"The lab's configuration {path} {why}, so that no sandbox is started.",
        f"The administrator repairs it: chown root:root {path}; chmod 644 {path} (755 for a folder).",
    )


def _parse(text: bytes, path: str, folder: str) -> LabConfig:
    # A machine without a lab's configuration does not pay for reading one.
    from sentinel_kernel.policy.json_document import Reader, parse  # noqa: PLC0415

    try:
        reader = Reader(parse(text), "$", free_prefixes=("_", "comment", "$"))
        profile = reader.text("profile", "strict")
        locked = reader.flag("locked", default=False)
        ceiling = reader.text("ceiling", profile)
        ask = reader.choice("ask", ("person", "never"), "person")
        seconds = reader.integer("ask_seconds", 1, _HIGHEST_SECONDS)
        own = reader.flag("own_profiles", default=False)
        pythons = reader.list_of_texts("pythons", 4000)
        audit = reader.choice("audit", ("user", "on"), "user")
        alert = reader.text("audit_alert", "")
        preflight = reader.choice("preflight", ("", "advise", "refuse"), "")
        dangerous = reader.choice("dangerous", ("", "advise", "refuse"), "")
        reader.finish()
    except SentinelError as error:
        raise SentinelError(
            f"The lab's configuration {path} is not understood, so that no sandbox is started: {error}",
            "The administrator corrects it there.",
        ) from None
    profiles = os.path.join(folder, _PROFILES)
    if os.path.lexists(profiles):
        _check(os.lstat(profiles), profiles)
    else:
        profiles = ""
    return LabConfig(
        path=path,
        profile=profile,
        ceiling=profile if locked else ceiling,
        locked=locked,
        ask_seconds=0.0 if ask == "never" else seconds,
        profiles=profiles,
        own_profiles=own,
        pythons=tuple(pythons),
        audit=audit == "on",
        audit_alert=alert,
        preflight=preflight,
        dangerous=dangerous,
    )
