"""Reading the dates of messages without dateutil, whose parser and time zones are a seventeenth of a worker's start."""

from __future__ import annotations

import importlib
import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from sentinel_kernel.worker import late_module

if TYPE_CHECKING:
    from collections.abc import Callable

_PARSER, _ZONES = "dateutil.parser", "dateutil.tz"


def install() -> None:
    """Let jupyter_client get these functions in place of dateutil's; to be called before its first import."""
    # datetime reads all of ISO 8601 that dates of messages use from 3.11 on, the final Z among it.
    if sys.version_info >= (3, 11):
        late_module.install(_PARSER, known={"isoparse": _read_date})
        late_module.install(_ZONES, known={"tzlocal": _local_zone})


def finish() -> None:
    """Give everybody else dateutil's own."""
    late_module.forget(_PARSER, "isoparse")
    late_module.forget(_ZONES, "tzlocal")


def _read_date(text: str) -> datetime:
    """Return a date as dateutil.parser.isoparse does, which is asked where the standard library can't tell."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        parse: Callable[[str], datetime] = importlib.import_module(_PARSER).isoparse
        return parse(text)


def _local_zone() -> tzinfo:
    """Return dateutil's zone of this machine: only for a date that has none."""
    zone: tzinfo = importlib.import_module(_ZONES).tzlocal()
    return zone
