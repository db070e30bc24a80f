"""What a report says of an error, by what the error is made of."""

from __future__ import annotations

import pytest

from sentinel_kernel.worker.failure import report_of

TRACE = (
    '\n"""\nTraceback (most recent call last):\n  File "{}", line 3, in check\n    {}\n'
    'PermissionError: [Errno 1] no\n"""'
)


class _RemoteTraceback(Exception):
    def __init__(self, tb: str) -> None:
        self.tb = tb


@pytest.mark.parametrize(
    ("file", "statement", "by"),
    [
        ("/work/river.py", "raise PermissionError(1, 'no')", "raise"),
        ("/work/river.py", "raise", "raise"),
        ("/work/river.py", "raised = socket.socket()", "remote"),
        ("/work/river.py", "raise OSError(ctypes.get_errno(), 'no')", "remote"),
        ("/usr/lib/python3.11/subprocess.py", "raise child_exception_type(number, text)", "remote"),
    ],
)
def test_what_a_program_raises_in_another_process_is_its_own(file: str, statement: str, by: str) -> None:
    error = PermissionError(1, "no")
    error.__cause__ = _RemoteTraceback(TRACE.format(file, statement))
    report = report_of(error)
    assert report is not None
    assert report["chain"][0]["by"] == by
