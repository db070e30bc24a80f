"""Runs the corpus of refused, limited and dying programs, and says what of it was explained and repaired.

python tests/explained/run.py [--only NAME ...] [--control] [--report FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "support"))

from corpus import Program, programs
from corpus_kernel import host
from corpus_run import Kernels, run_all, run_tidied, works
from corpus_verdict import failures, table, totals


def control(chosen: list[Program]) -> int:
    """Show that each program fails as it is and works with the fix that is known; return how many do not."""
    wrong = 0
    with host() as place, contextlib.ExitStack() as stack:
        kernels = Kernels(place, stack)
        for program in chosen:
            running = kernels.of(program)
            started = time.monotonic()
            first = run_tidied(running, program, program.code)
            said = f"{first.ename}: {first.evalue[:110]}"
            if program.owned:
                print(f"{program.name}: {said}", flush=True)
                continue
            fixed = run_tidied(running, program, f"{program.fix}\n{program.code}") if program.fix else None
            bad = works(program, first) or (fixed is not None and not works(program, fixed))
            wrong += bad
            print(
                f"{'BAD ' if bad else ''}{program.name} ({time.monotonic() - started:.1f} s): {said}",
                flush=True,
            )
            if bad and fixed is not None:
                print(f"    fixed: {fixed.ename} {fixed.evalue[:300]} {fixed.text[-200:]!r}", flush=True)
    return wrong


def main() -> int:
    """Run what was asked for; the exit status tells whether all of it is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="*", metavar="NAME", help="programs or files of programs; all, if none"
    )
    parser.add_argument(
        "--control", action="store_true", help="only show that each fails, and works with its fix"
    )
    parser.add_argument("--report", type=Path, help="a file for what was not as expected")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whoever ends it early leaves no kernels and files
    wanted = set(arguments.only or ())
    chosen = [one for one in programs() if not wanted or {one.name, one.group} & wanted]
    if arguments.control:
        return control(chosen)
    verdicts = []
    for verdict in run_all(chosen):
        verdicts.append(verdict)
        print(verdict.row(), flush=True)
        if arguments.report:
            arguments.report.write_text(f"{totals(verdicts)}\n\n{failures(verdicts)}\n")
    print(table(verdicts))
    print(totals(verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
