"""No false alarm on code that runs: the standard library's and pandas' own modules, and the tour."""

from __future__ import annotations

import json
import sysconfig
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from sentinel_kernel.kernel.preflight_facts import gather
from sentinel_kernel.kernel.scan import scan_notebook
from sentinel_kernel.policy.dangerous import check_dangerous
from sentinel_kernel.policy.preflight import Notebook, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[3]
STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_ONE_IN = 40
_MOST_BYTES = 60_000


def _sources(root: Path) -> list[Path]:
    found = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.relative_to(root).parts)
    return [path for path in found if path.stat().st_size <= _MOST_BYTES]


def _measured(paths: Iterable[Path]) -> Counter[str]:
    """Return how many findings there are in modules, each of which runs whole when it is imported."""
    figures: Counter[str] = Counter()
    facts = {profile: gather(profile, (), "/home/ada/notebooks") for profile in ("strict", "datascience")}
    for path in paths:
        try:
            code = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        figures["modules"] += 1
        for profile, known in facts.items():
            for finding in Notebook(known).read(code):
                figures[f"{profile}: {finding.confidence}"] += 1
                print(profile, path, finding.line, finding.what, finding.confidence)
        for finding in check_dangerous(code):
            figures[f"dangerous: {finding.cause}"] += 1
    return figures


def _text(figures: Counter[str]) -> str:
    alarms = sum(count for name, count in figures.items() if "certain" in name or "likely" in name)
    rest = ", ".join(f"{name} {count}" for name, count in sorted(figures.items()) if name != "modules")
    return f"{figures['modules']} modules, {alarms} false alarms ({rest or 'nothing dangerous'})"


@pytest.mark.parametrize("root", [STANDARD_LIBRARY, Path(pd.__file__).parent], ids=["stdlib", "pandas"])
def test_libraries_raise_no_false_alarm(root: Path, record_property: Callable[[str, object], None]) -> None:
    figures = _measured(_sources(root)[::_ONE_IN])
    record_property("figures", f"preflight on one in {_ONE_IN} modules of {root.name}: {_text(figures)}")
    assert figures["modules"] > 20
    assert sum(count for name, count in figures.items() if "certain" in name) == 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("root", [STANDARD_LIBRARY, Path(pd.__file__).parent], ids=["stdlib", "pandas"])
def test_whole_libraries_raise_no_false_alarm(
    root: Path, record_property: Callable[[str, object], None]
) -> None:
    figures = _measured(_sources(root))
    record_property("figures", f"preflight on all modules of {root.name}: {_text(figures)}")
    assert sum(count for name, count in figures.items() if "certain" in name) == 0


def test_the_tour_is_told_of_what_it_means_to_be_refused_alone() -> None:
    found = scan_notebook(ROOT / "notebooks" / "tour.ipynb")
    assert [(one["what"], one["profile"], one["kills"]) for one in found] == [
        ("socket.create_connection", "strict", False),
        ("ctypes: mount", found[-1]["profile"], True),
    ]


def test_the_tour_s_own_refusals_are_in_its_outputs() -> None:
    """The positive control: each finding is of a cell that shows a refusal when it is run."""
    cells = json.loads((ROOT / "notebooks" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    for one in scan_notebook(ROOT / "notebooks" / "tour.ipynb"):
        assert one["source"] in "".join(cells[one["notebook_cell"] - 1]["source"])


def test_the_corpus_of_honest_programs_raises_no_false_alarm(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "explained"))
    import corpus

    facts = {
        profile: gather(profile, (), "/home/ada/notebooks") for profile in ("strict", "datascience", "web")
    }
    figures: Counter[str] = Counter()
    for program in corpus.programs():
        if program.profile not in facts:
            continue
        code = program.code.replace("{outside}", "/srv/data").replace("{home}", "/home/ada")
        setup = [program.setup] if program.setup else []
        found = [one for one in check(code, facts[program.profile], setup) if one.confidence == "certain"]
        kind = "honest" if program.owned else "refused"
        figures[kind] += 1
        figures[f"{kind} found"] += bool(found)
        if program.owned:
            assert found == [], program.name
        elif found:
            figures["right line"] += found[0].line in program.lines
    record_property(
        "figures",
        f"preflight on the corpus: {figures['honest']} honest programs, {figures['honest found']} false alarms; of "
        f"{figures['refused']} refused ones {figures['refused found']} are told before, {figures['right line']} with "
        "the line that is refused first",
    )
    assert figures["refused found"] >= 20
