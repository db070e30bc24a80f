"""The limits of a profile: as written, and resolved against one machine."""

from __future__ import annotations

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.record import Record, field_names, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.json_document import Reader

_HIGHEST = 1 << 50
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE_REMEDY = 'Write bytes (1073741824), a size ("1GiB") or a share of the available memory ("50%").'
_PERIOD_MICROSECONDS = 100_000  # the default of the Linux kernel for cpu.max
_SIZES = ("memory_bytes", "disk_bytes", "tmp_bytes", "shm_bytes")
_COUNTS = (
    "cpu_count",
    "pids",
    "open_files",
    "file_size_bytes",
    "output_bytes",
    "wall_seconds",
    "cpu_seconds",
    "grace_seconds",
)
_FOREIGN = ("mem_limit_bytes", "cpu_max_quota", "cpu_max_period", "pids_max", "io_max_rbps", "io_max_wbps")

Size = int | str | None
"""Bytes, a share of the available memory such as "50%", or None for no limit."""


class Resources(Record):
    """Limits as a profile writes them; None is no limit of the profile's own.

    ``cpu_quota`` is a share of processor time (1.0 is one processor), ``io_*`` are bytes a second. ``grace_seconds``
    is how long a cell that used up its seconds may go on after its interrupt, before it is killed.
    """

    memory_bytes: Size = None
    cpu_count: int | None = None
    pids: int | None = None
    disk_bytes: Size = None
    tmp_bytes: Size = None
    shm_bytes: Size = None
    open_files: int | None = None
    file_size_bytes: int | None = None
    output_bytes: int | None = None
    wall_seconds: int | None = None
    cpu_seconds: int | None = None
    grace_seconds: int | None = None
    cpu_quota: float | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None

    def resolve(self, available_bytes: int, cpus: int) -> ResolvedResources:
        """Return the limits on a machine with ``available_bytes`` of free memory and ``cpus`` processors."""
        count = self.cpu_count
        if count is None and self.cpu_quota is not None:
            count = max(1, -int(-self.cpu_quota // 1))
        count = None if count is None else min(count, cpus)
        quota = self.cpu_quota
        return ResolvedResources(
            memory_bytes=_bytes(self.memory_bytes, available_bytes),
            cpu_count=count,
            cpu_quota=None if quota is None or quota >= (count or cpus) else quota,
            pids=self.pids,
            disk_bytes=_bytes(self.disk_bytes, available_bytes),
            tmp_bytes=_bytes(self.tmp_bytes, available_bytes),
            shm_bytes=_bytes(self.shm_bytes, available_bytes),
            open_files=self.open_files,
            file_size_bytes=self.file_size_bytes,
            output_bytes=self.output_bytes,
            wall_seconds=self.wall_seconds,
            cpu_seconds=self.cpu_seconds,
            grace_seconds=self.grace_seconds,
            io_read_bytes=self.io_read_bytes,
            io_write_bytes=self.io_write_bytes,
        )


class ResolvedResources(Record):
    """Limits on one machine, in bytes, counts and seconds; None is no limit.

    ``cpu_quota`` is there only where it is less than the processors of ``cpu_count``: a fraction of one.
    """

    memory_bytes: int | None
    cpu_count: int | None
    cpu_quota: float | None
    pids: int | None
    disk_bytes: int | None
    tmp_bytes: int | None
    shm_bytes: int | None
    open_files: int | None
    file_size_bytes: int | None
    output_bytes: int | None
    wall_seconds: int | None
    cpu_seconds: int | None
    grace_seconds: int | None
    io_read_bytes: int | None
    io_write_bytes: int | None


def _bytes(size: Size, available_bytes: int) -> int | None:
    return available_bytes * int(size[:-1]) // 100 if isinstance(size, str) else size


def read_resources(reader: Reader, base: Resources) -> Resources:
    """Return ``base`` with the limits that the object of ``reader`` sets; null takes a limit away.

    Raises:
        ProfileError: a limit is not one, or is unknown.

    """
    changes: dict[str, Size | float] = {}
    for name in _SIZES:
        if reader.has(name):
            changes[name] = _size(reader.take(name), reader.place(name))
    for name in _COUNTS:
        if reader.has(name):
            changes[name] = reader.integer(name, 1, _HIGHEST)
    _read_foreign(reader, changes)
    reader.finish()
    return replace(base, **changes)


def _read_foreign(reader: Reader, changes: dict[str, Size | float]) -> None:
    """Read the limits by the names that SentinelBox gives them."""
    present = [name for name in _FOREIGN if reader.has(name)]
    if not present:
        return
    if changes:
        raise ProfileError(
            f"{present[0]!r} and {min(changes)!r} are names of two different forms.",
            reader.place(present[0]),
            "Use the names of one form: memory_bytes, cpu_count, pids.",
        )
    numbers = {name: reader.integer(name, 1, _HIGHEST) for name in present}
    quota = numbers.get("cpu_max_quota")
    renamed = {"mem_limit_bytes": "memory_bytes", "pids_max": "pids", "io_max_rbps": "io_read_bytes"}
    renamed["io_max_wbps"] = "io_write_bytes"
    changes.update({renamed[name]: value for name, value in numbers.items() if name in renamed})
    if quota is not None:
        changes["cpu_quota"] = quota / (numbers.get("cpu_max_period") or _PERIOD_MICROSECONDS)


def _size(value: object, place: str) -> Size:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _HIGHEST):
        return value
    if isinstance(value, str):
        if value.endswith("%") and _is_number(value[:-1]) and 1 <= int(value[:-1]) <= 100:
            return value
        unit = _UNITS.get(value[-3:])
        number = value[:-3].strip()
        if unit and _is_number(number) and 1 <= int(number) * unit <= _HIGHEST:
            return int(number) * unit
    raise ProfileError("This is no size.", place, _SIZE_REMEDY)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def limit_names() -> tuple[str, ...]:
    """Return the names of all limits, in their order."""
    return tuple(field_names(Resources))
