"""A stand-in becomes the real module when something is asked of it, and not before."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.worker import late_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTE = "import late_log\nlate_log.names.append(__name__)\n"
PACKAGE = {
    "late_one/__init__.py": f"{NOTE}from late_one.parts import Part\nvalue = 1\n",
    "late_one/parts.py": f"{NOTE}class Part: pass\n",
    "late_one/more.py": f"{NOTE}import late_one\nvalue = late_one.value + 1\n",
    "late_broken.py": f"{NOTE}raise RuntimeError(len(late_log.names))\n",
    "late_log.py": "import threading\nnames = []\nclient, outer = threading.Event(), threading.Event()\n",
    "late_outer.py": f"{NOTE}late_log.outer.set()\nlate_log.client.wait(10)\nimport late_client\nvalue = 1\n",
    "late_client.py": f"{NOTE}late_log.client.set()\nlate_log.outer.wait(10)\nfrom late_one import value\n",
}


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Put modules on the path that note their execution; return the notes."""
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: list[str] = importlib.import_module("late_log").names
    yield names
    for name in [name for name in sys.modules if name.startswith("late_")]:
        del sys.modules[name]


def test_importing_a_stand_in_executes_nothing(executed: list[str]) -> None:
    assert late_module.install("late_one")
    import late_one  # type: ignore[import-not-found]

    assert executed == []
    assert late_one.__file__.endswith("late_one/__init__.py")
    assert late_one.value == 1
    assert executed == ["late_one", "late_one.parts"]
    assert late_one.value == 1
    assert executed == ["late_one", "late_one.parts"]


def test_names_may_be_had_from_a_submodule_without_the_package(executed: list[str]) -> None:
    late_module.install("late_one", sources={"Part": "late_one.parts"}, known={"number": 5})
    from late_one import Part, number

    assert executed == ["late_one.parts"]
    assert number == 5
    assert sys.modules["late_one"].value == 1
    assert sys.modules["late_one"].Part is Part


def test_a_companion_is_imported_when_asked_for_before_and_after(executed: list[str]) -> None:
    late_module.install("late_one", companions=("more",))
    import late_one

    assert "more" in dir(late_one)
    assert late_one.more.value == 2
    assert sorted(executed) == ["late_one", "late_one.more", "late_one.parts"]


def test_submodules_find_their_package_while_it_waits(executed: list[str]) -> None:
    late_module.install("late_one")
    import late_one.more

    assert late_one.more.value == 2
    assert executed[0] == "late_one.more"


def test_a_missing_attribute_is_an_attribute_error(executed: list[str]) -> None:
    late_module.install("late_one")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sys.modules["late_one"].nothing
    with pytest.raises(ImportError):
        from late_one import nothing  # noqa: F401
    assert executed == ["late_one", "late_one.parts"]


def test_a_module_that_fails_fails_for_each_who_asks(executed: list[str]) -> None:
    late_module.install("late_broken")
    for attempt in (1, 2):
        with pytest.raises(RuntimeError, match=str(attempt)):
            _ = sys.modules["late_broken"].value
    assert executed == ["late_broken", "late_broken"]


def test_two_threads_may_need_what_the_other_imports(executed: list[str]) -> None:
    late_module.install("late_outer")
    late_module.install("late_one")
    done = []
    threads = [
        threading.Thread(target=lambda: done.append(sys.modules["late_outer"].value), daemon=True),
        threading.Thread(
            target=lambda: done.append(importlib.import_module("late_client").value), daemon=True
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert done == [1, 1]
    assert sorted(executed) == ["late_client", "late_one", "late_one.parts", "late_outer"]


def test_an_importing_thread_never_sees_the_finders_change(executed: list[str]) -> None:
    before = sys.meta_path
    finders = list(before)
    late_module.install("late_one")
    assert sys.modules["late_one"].value == 1
    assert sys.meta_path == finders == before
    assert executed


def test_what_is_loaded_or_absent_is_left_alone() -> None:
    assert not late_module.install("json")
    assert not late_module.install("no_such_module_anywhere")
    assert "no_such_module_anywhere" not in sys.modules


def test_a_late_import_does_not_look_into_the_notebooks_folder(
    executed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "late_log.py").write_text("raise RuntimeError('planted')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    late_module.install("late_one")
    del sys.modules["late_log"]
    assert sys.modules["late_one"].value == 1
    assert executed == []  # the notes are another late_log's now: not the planted one, and not the first
    assert sys.modules["late_log"].names == ["late_one", "late_one.parts"]
