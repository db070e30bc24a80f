"""Amounts as a person reads them: bytes in a unit that suits them, seconds, counts."""

from __future__ import annotations


def size_text(value: object) -> str:
    """Return a number of bytes in a binary unit that suits it; other values as they are."""
    if not isinstance(value, int):
        return str(value)
    amount, units = float(value), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if amount < 1024 or unit == units[-1]:
            return f"{amount:.0f} {unit}" if amount >= 10 or amount == int(amount) else f"{amount:.1f} {unit}"
        amount /= 1024
    return str(value)


def counted(number: int, thing: str) -> str:
    """Return so many of a ``thing``, whose plural takes an s: ``1 file``, ``2 files``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def amount(value: object, unit: str, *, chinese: bool = False) -> str:
    """Return ``value`` with its ``unit``: bytes, seconds or count."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "无限制" if chinese else "no limit"
    if unit == "bytes":
        return size_text(int(value))
    number = f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if unit != "seconds":
        return number
    if chinese:
        return f"{number} 秒"
    return f"{number} second" if number == "1" else f"{number} seconds"
