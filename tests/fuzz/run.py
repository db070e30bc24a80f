"""Long random runs of one target or of all: by coverage (atheris), or a million generated inputs with their memory.

    python tests/fuzz/run.py                      every target for a minute, then the long forms of the tests
    python tests/fuzz/run.py dns 1800             one target for so many seconds
    python tests/fuzz/run.py million messages     10^6 messages (or notifications), memory printed

An input that fails is kept as a file below tests/fuzz/corpus, where a test replays it for good.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parents[1]), str(_HERE.parent / "support")]


_LONGEST = 16384
_SECONDS = 60


def _fuzz(name: str, seconds: int, folder: str) -> None:
    """Fuzz one target in this process until its time is over; never returns."""
    try:
        import atheris
    except ImportError:
        _by_chance(name, seconds)
        return

    # Ours alone are instrumented: the standard library would drown what they do.
    with atheris.instrument_imports(include=["sentinel_kernel", "h11"]):
        from fuzz_targets import TARGETS, seeds

        if name in ("messages", "requests"):
            import fuzz_host  # noqa: F401
    start = Path(folder) / "corpus"
    start.mkdir(exist_ok=True)
    for index, seed in enumerate(seeds(name)):
        (start / f"seed-{index}").write_bytes(seed)
    options = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={_LONGEST}",
        f"-artifact_prefix={folder}/",
        "-rss_limit_mb=3000",
        "-timeout=30",
        "-print_final_stats=1",
        str(start),
    ]
    atheris.Setup(options, TARGETS[name])
    atheris.Fuzz()


def _by_chance(name: str, seconds: int) -> None:
    """Run a target on generated inputs: there is no atheris for this Python."""
    import random

    from fuzz_mutation import by_chance
    from fuzz_targets import TARGETS, seeds

    chance, right, executed = random.Random(), seeds(name), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = by_chance(chance, right)
        try:
            TARGETS[name](data)
        except BaseException:
            (Path(sys.argv[4]) / "crash-found").write_bytes(data)
            raise
        executed += 1
    print(f"number_of_executed_units: {executed}")


def _run(name: str, seconds: int) -> bool:
    """Fuzz one target in a process of its own; tell whether nothing was found."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, __file__, "--inside", name, str(seconds), folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env={**os.environ, "XDG_STATE_HOME": folder, "XDG_DATA_HOME": folder, "XDG_RUNTIME_DIR": folder},
        )
        took = time.monotonic() - began
        text = done.stdout.decode("utf-8", "replace")
        found = re.search(r"number_of_executed_units: (\d+)", text)
        cover = re.findall(r"cov: (\d+)", text)
        peak = re.search(r"peak_rss_mb: +(\d+)", text)
        executed = found.group(1) if found else "?"
        print(
            f"{name:14} {took / 60:6.1f} min {executed:>10} executions, coverage {cover[-1] if cover else '?'}, "
            f"peak {peak.group(1) if peak else '?'} MiB, {'nothing found' if not done.returncode else 'FOUND:'}",
            flush=True,
        )
        if done.returncode:
            print(text[-6000:])
            for path in Path(folder).glob("*-*"):
                if path.is_file():
                    kept = _HERE / "corpus" / name / hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_bytes(path.read_bytes())
                    print(f"kept as {kept}")
        return not done.returncode


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if arguments[:1] == ["--inside"]:
        _fuzz(arguments[1], int(arguments[2]), arguments[3])
        return 0
    if arguments[:1] == ["million"]:
        import fuzz_million

        return fuzz_million.main(arguments[1:])
    from fuzz_targets import TARGETS

    names = [arguments[0]] if arguments and arguments[0] in TARGETS else list(TARGETS)
    if arguments and arguments[0] not in (*TARGETS, "all"):
        print(f"Targets are {', '.join(TARGETS)}, and all.", file=sys.stderr)
        return 2
    seconds = int(arguments[1]) if len(arguments) > 1 else _SECONDS
    clean = [_run(name, seconds) for name in names]
    if not arguments:
        clean.append(
            not subprocess.run(
                [sys.executable, "-m", "pytest", "-m", "fuzz", "--timeout=0"], check=False
            ).returncode
        )
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
