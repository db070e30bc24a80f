"""Lists, compares, exports, saves, commits and discards a tree of many small files, as the files process does.

FOLDER FOLDERS: a thousand files in each of so many folders. Prints what came of it, the seconds that each step took
and the most memory, as one JSON line.
"""

import json
import os
import resource
import sys
import time

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.supervisor.files_process import MEMORY_BYTES
from sentinel_kernel.workspace.answering import Workspace, answer
from sentinel_kernel.workspace.bounds import Bounds
from sentinel_kernel.workspace.commit import Outcome, commit
from sentinel_kernel.workspace.journal import Journal
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.listing import changes
from sentinel_kernel.workspace.request import FilesRequest
from sentinel_kernel.workspace.saving import Source, new_name, save
from sentinel_kernel.workspace.store import StoreSettings

IN_EACH = 1000


def peak_bytes():
    """Return the most memory that this program has had: getrusage(2) counts who started it as well."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def main():
    """Do it."""
    place, folders = sys.argv[1], int(sys.argv[2])
    opened = {}
    for name in ("upper", "lower", "store", "history", "parked", "away"):
        os.mkdir(os.path.join(place, name))
        opened[name] = os.open(os.path.join(place, name), os.O_PATH | os.O_DIRECTORY)
    for number in range(folders):
        folder = os.path.join(place, "upper", str(number))
        os.mkdir(folder)
        for file in range(IN_EACH):
            with open(f"{folder}/{file}.csv", "w") as made:
                made.write("x")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    layer = Layer(
        "workspace", place, opened["upper"], opened["upper"], opened["lower"], parked=opened["parked"]
    )
    settings = StoreSettings(os.path.join(place, "store"))
    history = os.open(os.path.join(place, "history"), os.O_RDONLY | os.O_DIRECTORY)
    workspace = Workspace({"workspace": layer}, Surroundings(), Journal(history, None), settings)
    seconds, began = {}, time.monotonic()

    def took(step):
        nonlocal began
        seconds[step], began = round(time.monotonic() - began, 1), time.monotonic()

    def ask(do, *paths):
        told = answer(workspace, FilesRequest(do, paths), lambda *_: None)
        took(do)
        return told

    bounds = Bounds()
    listed = sum(1 for _ in changes(layer, Surroundings(), bounds))
    took("walk")
    told, diffs = ask("list"), ask("diff")["diffs"]
    exported = ask("export", "0/0.csv")["size"]
    saved = save([Source("workspace", place, opened["upper"], opened["lower"])], settings, "", new_name())
    took("save")
    outcome = Outcome()
    commit(layer, changes(layer, Surroundings(), Bounds()), frozenset(), outcome=outcome, by_itself=True)
    took("commit")
    there = sum(len(names) for _, _, names in os.walk(os.path.join(place, "lower")))
    for name in os.listdir(os.path.join(place, "lower")):  # so that all of it is held again
        os.rename(os.path.join(place, "lower", name), os.path.join(place, "away", name))
    began = time.monotonic()
    discarded = ask("discard")
    print(
        json.dumps(
            {
                "listed": listed,
                "answered": told["count"],
                "compared": len(diffs),
                "exported": exported,
                "discarded": discarded["discarded"]["count"],
                "held": discarded["held"],
                "seconds": seconds,
                "left_out": bounds.left_out,
                "saved": saved.files,
                "not_saved": saved.left_out,
                "told_of": len(saved.skipped),
                "committed": outcome.count,
                "failed": outcome.failed_count,
                "there": there,
                "peak_bytes": peak_bytes(),
            }
        )
    )


main()
