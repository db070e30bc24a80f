"""What waits at a worker's start is found whole by who asks for it, and dates of messages are read as by dateutil."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from dateutil.parser import isoparse

DATES = [
    "2026-01-02T03:04:05.123456Z",
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.123456+05:30",
    "2026-01-02T03:04:05.1-08:00",
    "2026-12-31T23:59:59.999999+00:00",
]
PROBE = """
import json, sys
from sentinel_kernel.worker import warm
warm.import_all()
waiting = [name for name in ("ssl", "asyncio.sslproto", "ipaddress", "dateutil.parser", "dateutil.tz")
           if type(sys.modules[name]).__name__ == "LateModule" and len(vars(sys.modules[name])) < 12]
from jupyter_client.jsonutil import parse_date
dates = [parse_date(text).isoformat() for text in json.loads(sys.argv[1])]
import asyncio, ssl
import dateutil.parser
from dateutil.tz import tzlocal
print(json.dumps([waiting, dates, parse_date("2026-01-02T03:04:05.5").tzinfo is not None, parse_date("no date"),
    dateutil.parser.isoparse.__module__, tzlocal.__module__, issubclass(asyncio.sslproto.SSLProtocol, object),
    asyncio.sslproto.ssl is ssl is asyncio.base_events.ssl, ssl.SSLWantReadError.__name__]))
"""


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="older ones read fewer forms: dateutil is used at once"
)
def test_what_waits_is_whole_when_it_is_asked_for() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(DATES)], capture_output=True, text=True, check=True
    )
    waiting, dates, has_zone, unread, parser, zones, protocol, same, error = json.loads(ran.stdout)
    assert waiting == ["ssl", "asyncio.sslproto", "ipaddress", "dateutil.parser", "dateutil.tz"]
    assert dates == [isoparse(text).isoformat() for text in DATES]
    assert has_zone
    assert unread == "no date"
    assert (parser, zones) == ("dateutil.parser.isoparser", "dateutil.tz.tz")
    assert protocol
    assert same
    assert error == "SSLWantReadError"
