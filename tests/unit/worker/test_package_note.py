"""What is said behind the magics that install packages, and where nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.magics import packaging

from sentinel_kernel.worker.package_note import noted


class _Shell:
    """As much of IPython's as the magics use; commands do nothing, and end with ``status``."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {}
        self.status = 0
        self._magics: Any = packaging.PackagingMagics(shell=self)

    def system(self, _command: str) -> None:
        self.user_ns["_exit_code"] = self.status

    def run(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        noted(self, rest, lambda: getattr(self._magics, name)(rest))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> _Shell:
    """Return a shell whose magics say what stays."""
    monkeypatch.setitem(vars(packaging), "print", print)
    monkeypatch.setenv("SENTINEL_LANG", "en")
    return _Shell()


@pytest.mark.parametrize("line", ["pip install rivers", "pip install -U rivers", "uv pip install rivers"])
def test_what_was_installed_is_said_to_go_with_the_sandbox(
    shell: _Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    shell.run(line)
    assert capsys.readouterr().out.startswith("Note: what was installed can be used at once; it goes with")
    monkeypatch.setenv("SENTINEL_LANG", "zh")
    shell.run(line)
    assert capsys.readouterr().out.startswith("注意：")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("pip install rivers", 1),
        ("pip list", 0),
        ("pip uninstall -y rivers", 0),
        ("pip install --target=kept rivers", 0),
    ],
)
def test_nothing_is_said_where_nothing_was_installed_or_it_stays(
    shell: _Shell, capsys: pytest.CaptureFixture[str], line: str, status: int
) -> None:
    shell.status = status
    shell.run(line)
    assert capsys.readouterr().out == ""
