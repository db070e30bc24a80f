"""`make suites`: other projects' tests of kernels, first on plain ipykernel, then on Sentinel, side by side.

Fails where a test passes on plain ipykernel and not on Sentinel, unless `suites.py` names it with the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from environment import KERNELS, PROFILE, Environment
from suites import SUITES, Suite

Outcomes = dict[str, str]


def outcomes(report: Path) -> Outcomes:
    """Return what became of each test, from pytest's report in JUnit's format."""
    found: Outcomes = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def run(environment: Environment, suite: Suite, kernel: str, profile: str, selected: str) -> Outcomes:
    """Run one suite on one kernel; what pytest prints is kept in ``pytest.log`` beside the suite."""
    folder = environment.place(suite, kernel)
    command = [environment.python, "-m", "pytest", *suite.files, "-q", "-p", "no:cacheprovider", "-ra"]
    command += ["--timeout=120", f"--junitxml={folder / 'report.xml'}", *suite.options]
    command += ["-k", selected] if selected else []
    with (folder / "pytest.log").open("wb") as log:
        subprocess.run(
            command,
            cwd=folder,
            env=environment.variables(folder, kernel, profile),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return outcomes(folder / "report.xml")


def lost(suite: Suite, plain: Outcomes, ours: Outcomes) -> tuple[dict[str, str], list[str]]:
    """Return the tests that pass on plain ipykernel alone: those with a known reason, and all others."""
    names = [name for name, outcome in plain.items() if outcome == "passed" and ours.get(name) != "passed"]
    known = {name: suite.impossible.get(name.rpartition("::")[2], "") for name in names}
    return {name: why for name, why in known.items() if why}, [name for name in names if not known[name]]


def main() -> int:
    """Run, print, and return 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="only these")
    parser.add_argument(
        "--profile", default=PROFILE, help="for Sentinel (default: datascience with a shared folder)"
    )
    parser.add_argument("-k", dest="selected", default="", help="only tests that match, as pytest's -k")
    arguments = parser.parse_args()
    environment = Environment(SUITES.values())
    every_lost: list[str] = []
    for suite in [SUITES[name] for name in arguments.suites or SUITES]:
        results = []
        for kernel in KERNELS:
            results.append(run(environment, suite, kernel, arguments.profile, arguments.selected))
            counts = Counter(results[-1].values())
            numbers = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped"))
            version = environment.version(suite.package)
            print(f"{suite.package} {version} on {kernel:9}: {len(results[-1])} tests, {numbers}", flush=True)
        known, unknown = lost(suite, *results)
        for name, reason in known.items():
            print(f"  can't pass by design: {name}: {reason}")
        for name in unknown:
            print(f"  LOST: {name}")
        if not results[0]:
            print("  LOST: no test was found")
            unknown.append(suite.package)
        every_lost += unknown
    print("pass on plain ipykernel and not here:", ", ".join(every_lost) or "none that could")
    return 1 if every_lost else 0


if __name__ == "__main__":
    sys.exit(main())
