"""Whatever the host stumbles over while a sandbox ends, the cells that it had are answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.deaths import death_words
from sentinel_kernel.kernel.faults import Faults
from sentinel_kernel.kernel.host import Host


def stumbles(*_arguments: object) -> None:
    raise ZeroDivisionError


def host(sent: list[tuple[str, str]], cells: list[Any]) -> Any:
    return SimpleNamespace(
        settings=SimpleNamespace(language="en"),
        faults=Faults(),
        execution=SimpleNamespace(
            clear=lambda **_: (cells, []), last_count=1, running=cells, newest=lambda: cells[0]
        ),
        questions=SimpleNamespace(worker_gone=lambda: None, left_open=stumbles),
        displays=SimpleNamespace(bring_up_to_date=stumbles, violation=stumbles, last_violations={}),
        lifecycle=SimpleNamespace(profile="strict"),
        outbox=SimpleNamespace(
            told=SimpleNamespace(newest=lambda _count: []),
            error=lambda _content, header: sent.append(("error", header)),
            reply=lambda request, content, _metadata: sent.append((content["ename"], request.header)),
            status=lambda state, header: sent.append((state, header)),
        ),
    )


@pytest.mark.usefixtures("capsys")
def test_cells_are_answered_though_what_was_to_be_shown_in_them_is_not() -> None:
    cells = [
        SimpleNamespace(
            silent=False, replied=False, idle=False, execution_count=2, request=SimpleNamespace(header=name)
        )
        for name in ("first", "second")
    ]
    sent: list[tuple[str, str]] = []
    fake = host(sent, cells)
    told = death_words(fake, {"kind": "exit", "status": 3})
    assert told.message("en")
    assert Host._end_running(cast("Host", fake), "SandboxDied", told, abort_waiting=False)
    assert sent == [(kind, name) for name in ("first", "second") for kind in ("error", "SandboxDied", "idle")]
    assert fake.faults.count == 3
    assert isinstance(told, words.Words)


def test_what_ends_the_process_is_not_survived() -> None:
    faults = Faults()
    with pytest.raises(KeyboardInterrupt), faults.survived("It was tried"):
        raise KeyboardInterrupt
    assert faults.count == 0
