"""The limit suite (tests/limits) in the virtual machine, under whichever back end is the best one there.

Seconds are stretched: what is a second of a real processor takes an emulated one twenty.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import run
from cases import BY_NAME, CASES, Case
from telling import tell

SLOWER = 15


def stretched(case: Case) -> Case:
    """Return the case with its seconds stretched, in its limits and in the words that name them."""
    limits = re.sub(
        r"\b(wall|cpu_seconds)=(\d+)", lambda found: f"{found[1]}={int(found[2]) * SLOWER}", case.limits
    )
    return replace(case, limits=limits, says=case.says.replace("1 second", f"{SLOWER} seconds"))


def main() -> None:
    """Run the cases that the command line names, or all, and tell what each came to."""
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    names = [name for name in words.get("vm.cases", "").split(",") if name]
    if "XDG_RUNTIME_DIR" not in os.environ:
        runtime = Path("/home/alice/run")
        runtime.mkdir(mode=0o700, exist_ok=True)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    run.SECONDS *= 5
    with tempfile.TemporaryDirectory() as folder:
        profiles = Path(folder) / "profiles"
        shutil.copytree(run.HERE / "profiles", profiles)
        hasty = profiles / "hasty.json"
        hasty.write_text(re.sub(r'"grace_seconds": *\d+', f'"grace_seconds": {SLOWER}', hasty.read_text()))
        with run.kernel("hasty", profiles) as client:
            for case in [BY_NAME[name] for name in names] or CASES:
                try:
                    told = run.try_case(client, stretched(case))
                    tell(**told)
                    if not told["ok"]:
                        # The seconds that the supervisor gives a bomb to end are real ones: once more, and that counts.
                        tell(**run.try_case(client, stretched(case)))
                except TimeoutError as error:
                    tell(case=case.name, ok=False, problems=[str(error)])
                    break  # the kernel does not answer any more


if __name__ == "__main__":
    main()
