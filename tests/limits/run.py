"""Runs the limit suite on this machine and prints one JSON line a case; needs no more than the kernel and a client.

python tests/limits/run.py [--profile hasty] [--profile-dir FOLDER] [--list] [NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from cases import BY_NAME, CASES, Case
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SECONDS = float(os.environ.get("LIMIT_SUITE_SECONDS", "120"))
NOTICE = "application/vnd.sentinel.notice+json"
NAMES = "memory cpu pids disk tmp shm open_files file_size output wall cpu_seconds"
TAKE_BACK = "%sentinel_limit " + " ".join(f"{name}=profile" for name in NAMES.split())


class Outcome:
    """What a cell gave."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.text = ""
        self.cards: list[dict[str, Any]] = []
        self.words: list[str] = []

    def limits(self) -> list[tuple[str, str]]:
        """Return (limit, stage) of each card about a limit."""
        return [
            (card["limit"]["name"], card["limit"]["stage"])
            for card in self.cards
            if isinstance(card.get("limit"), dict)
        ]


def run_cell(client: Any, code: str, *, drop_output: bool = True) -> Outcome:
    """Run one cell to its end."""
    return collect(client, client.execute(code), drop_output=drop_output)


def collect(client: Any, msg_id: str, *, drop_output: bool = True) -> Outcome:
    """Return what the cell ``msg_id`` gives, once it is idle and answered."""
    outcome, idle, deadline = Outcome(), False, time.monotonic() + SECONDS
    while not (idle and outcome.reply):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end within {SECONDS:.0f} s")
        with contextlib.suppress(queue.Empty):
            message = client.get_iopub_msg(timeout=0.05 if idle else 1)
            if message["parent_header"].get("msg_id") == msg_id:
                idle |= take(outcome, message["msg_type"], message["content"], drop_output=drop_output)
        with contextlib.suppress(queue.Empty):
            message = client.get_shell_msg(timeout=0.05)
            if message["parent_header"].get("msg_id") == msg_id:
                outcome.reply = message["content"]
    outcome.words.append(str(outcome.reply.get("evalue", "")))
    return outcome


def take(outcome: Outcome, kind: str, content: dict[str, Any], *, drop_output: bool) -> bool:
    """Add one message to the outcome; tell whether it was the cell's idle."""
    if kind == "stream" and not (drop_output and len(outcome.text) > 10_000):
        outcome.text += content["text"]
    if kind in ("display_data", "update_display_data") and NOTICE in content["data"]:
        outcome.cards.append(content["data"][NOTICE])
        outcome.words.append(content["data"]["text/plain"])
    return kind == "status" and content["execution_state"] == "idle"


@contextlib.contextmanager
def kernel(profile: str, profiles: Path) -> Iterator[Any]:
    """Start a kernel of a folder of its own, and yield its client."""
    with tempfile.TemporaryDirectory(prefix="sentinel-tests-limits-") as folder:
        place = Path(folder) / "kernels" / "sentinel"
        place.mkdir(parents=True)
        spec = {
            "argv": [sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"],
            "display_name": "Sentinel",
            "language": "python",
            "interrupt_mode": "message",
        }
        (place / "kernel.json").write_text(json.dumps(spec))
        shutil.copytree(profiles, Path(folder) / "config" / "sentinel-kernel" / "profiles")
        work = Path(folder) / "work"
        work.mkdir()
        specs = KernelSpecManager(kernel_dirs=[str(place.parent)], ensure_native_kernel=False)
        manager = KernelManager(kernel_name="sentinel", kernel_spec_manager=specs, transport="ipc")
        manager.connection_file = str(Path(folder) / "kernel.json")
        manager.start_kernel(
            cwd=str(work),
            env={
                **os.environ,
                "SENTINEL_LANG": "en",
                "SENTINEL_PROFILE": profile,
                "SENTINEL_SPARE": "off",
                "XDG_CONFIG_HOME": str(Path(folder) / "config"),
            },
        )
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=SECONDS)
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            manager.cleanup_resources()


ON = "b'on\\n'\n"
USABLE = f"{TAKE_BACK}\nimport subprocess\nprint(subprocess.check_output(['echo', 'on']))"


def try_case(client: Any, case: Case) -> dict[str, Any]:
    """Run one case; "problems" is empty where all was as it must be."""
    started = time.monotonic()
    problems: list[str] = []
    prepared = run_cell(client, f"%sentinel_limit {case.limits}\nkept = 41")
    if prepared.reply["status"] != "ok":
        problems.append(f"not prepared: {prepared.reply.get('evalue')}")
    outcome = run_cell(client, (HERE / "programs" / f"{case.program}.py").read_text())
    if outcome.reply.get("ename", "") != case.ename:
        problems.append(f"ended with {outcome.reply.get('ename')!r}: {outcome.reply.get('evalue')}")
    problems += [f"no card for {one}" for one in case.told if one not in outcome.limits()]
    if case.says and not any(case.says in words for words in outcome.words):
        problems.append(f"nothing says {case.says!r}: {outcome.words}")
    after = run_cell(client, "print(kept + 1)")
    if case.survives and "42" not in after.text:  # IPython may say that it can write no history
        problems.append(f"the variables are lost: {after.reply.get('ename')}: {after.reply.get('evalue')}")
    if not case.survives and after.reply.get("ename") != "NameError":
        problems.append(f"the next cell gave {after.reply}")
    cleaned = run_cell(client, "%sentinel_reset" if case.clean == "reset" else case.clean or "pass")
    # A program can be started again: nothing is used up any more.
    usable = run_cell(client, USABLE)
    later = [*outcome.limits(), *after.limits(), *cleaned.limits(), *usable.limits()]
    problems += [f"no later card for {one}" for one in case.later if one not in later]
    if cleaned.reply["status"] != "ok" or usable.text != ON:
        problems.append(
            f"not usable: {cleaned.reply.get('evalue', '')} {usable.text} {usable.reply.get('evalue', '')}"
        )
    return {
        "case": case.name,
        "ok": not problems,
        "seconds": round(time.monotonic() - started, 2),
        "ename": outcome.reply.get("ename", ""),
        "limits": outcome.limits(),
        "backends": sorted(
            {card["limit"]["backend"] for card in outcome.cards if isinstance(card.get("limit"), dict)}
        ),
        "kept": "42" in after.text,
        "problems": problems,
    }


def main() -> int:
    """Run the cases that were named, or all; the exit status is the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; all, if none is named")
    parser.add_argument("--profile", default="hasty", help="the profile to start with")
    parser.add_argument("--profile-dir", type=Path, default=HERE / "profiles", help="a folder of profiles")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(BY_NAME))
        return 0
    failed = 0
    with kernel(arguments.profile, arguments.profile_dir) as client:
        for case in [BY_NAME[name] for name in arguments.names] or CASES:
            try:
                told = try_case(client, case)
            except TimeoutError as error:
                told = {"case": case.name, "ok": False, "problems": [str(error)]}
                failed += 1
                print(json.dumps(told), flush=True)
                break  # the kernel does not answer any more
            failed += not told["ok"]
            print(json.dumps(told), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
