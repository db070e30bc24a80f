"""Plays the supervisor for the audit: the real recorder, its writer process, and reports by the thousand.

Prints one JSON object: what was reported, and what was said of it. Modes are the functions below.
"""

import json
import os
import subprocess
import sys
import time

from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.violation import Process, Violation
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.recorder import Recorder


class Played:
    """A recorder with a ledger before it, as in a session."""

    def __init__(self, path, run="run-1", **environment):
        self.states = []
        self.sample = {}
        self.recorder = Recorder(
            lambda _name, fields: self.states.append(fields["audit"]), lambda: self.sample
        )
        self.ledger = Ledger(self.report)
        audit = {"SENTINEL_AUDIT": path, **environment}
        self.recorder.configure({"run": run, "workspace": "/nowhere/work", "kernel": "k", "audit": audit})

    def report(self, violation):
        self.recorder.violation(violation)
        return True

    def begin(self, name, code="x"):
        self.ledger.begin_cell()
        self.recorder.begin_cell({"msg_id": name, "code": code, "code_sha256": "00", "lines": 1})

    def end(self, name):
        self.ledger.flush()
        self.recorder.end_cell({"msg_id": name, "status": "ok"})

    def turn(self):
        if self.ledger.next_flush_seconds() == 0.0:
            self.ledger.flush()
        self.recorder.serve(dict.fromkeys(self.recorder.descriptors(), 1))
        self.recorder.catch_up()

    def until(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.states[-3:]
            self.turn()
            time.sleep(0.005)

    def synced(self):
        done = []
        self.recorder.sync(done.append)
        self.until(lambda: done)
        return done[0]


def violation(number, outcome="refused", action="NOTIFY"):
    now = int(time.time() * 1000)
    return Violation(
        id=os.urandom(8).hex(),
        version=2,
        syscall="socket",
        number=41,
        architecture="x86_64",
        arguments=(Argument("family", number, f"family {number}", False),),
        values={},
        resource="network",
        profile="strict",
        rule="NOTIFY by default",
        origin="default",
        action=action,
        errno=1,
        errno_name="EPERM",
        outcome=outcome,
        process=Process(os.getpid(), "python", is_worker=True),
        count=1,
        first_time_ms=now,
        last_time_ms=now,
    )


def flood(path, seconds, kinds):
    """Report 10,000 calls a second and more, of so many kinds, for so long and no shorter, in one cell."""
    played = Played(path)
    played.begin("cell")
    events, began = 0, time.monotonic()
    end = began + float(seconds)
    while (now := time.monotonic()) < end or events < 10_000 * float(seconds):
        for kind in range(int(kinds)):
            for _ in range(20):
                if not played.ledger.repeat((kind,)):
                    played.ledger.record(violation(kind), (kind,))
                events += 1
        played.turn()
        # No faster than 20,000 a second: the writer's share of the processors is part of what is tried.
        time.sleep(max(0.0, began + events / 20_000 - now))
    took = time.monotonic() - began
    played.end("cell")
    played.recorder.close()
    return {"events": events, "rate": events / took, "states": played.states}


def cells(path, number, run):
    """Run so many cells with refusals, a sample and a KILL in each tenth."""
    played = Played(path, run)
    late = 0
    for cell in range(int(number)):
        name = f"cell-{cell}"
        played.begin(name)
        for kind in range(5):
            played.ledger.record(violation(kind))
        played.sample = {"ms": int(time.time() * 1000), "memory_bytes": 1 << 20, "running": True}
        played.turn()
        if cell % 10 == 0:
            played.ledger.record(violation(99, "killed", "KILL"))
            played.recorder.sandbox_gone({"kind": "rule_kill", "detail": "socket"})
        else:
            played.end(name)
        if cell % 7 == 0:
            played.synced()
    late = played.synced()["late"]
    played.recorder.close()
    return {"late": late, "states": played.states}


def full(path, folder):
    """Fill a small disk; see what is said, what KILL and ASK get, and what comes back with the space."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], check=True)
    played = Played(path)
    number = 0
    while not any(state["state"] == "failing" for state in played.states):
        number += 1
        played.begin(f"cell-{number}", "x" * 30_000)
        played.end(f"cell-{number}")
        played.synced()
        assert number < 200, "the disk is not full"
    failing = next(state for state in played.states if state["state"] == "failing")
    played.begin("asked")
    began = time.monotonic()
    allowed = played.recorder.answering(violation(1, "asked", "ASK"), "once")
    played.ledger.record(violation(99, "killed", "KILL"))
    waited = time.monotonic() - began
    played.recorder.sandbox_gone({"kind": "rule_kill", "detail": "socket"})
    late = played.recorder._delivery.late
    subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
    played.until(lambda: played.states[-1]["state"] == "on")
    played.begin("after")
    again = played.recorder.answering(violation(2, "asked", "ASK"), "once")
    played.end("after")
    played.synced()
    played.recorder.close()
    told = [state["reason"] for state in played.states if state["state"] == "failing"]
    found = look(path)
    return {
        "failing": failing,
        "told": told,
        "allowed": allowed,
        "late": late,
        "waited": waited,
        "again": again,
        "number": number,
        **found,
    }


def readonly(path, folder):
    """Try a folder on a disk that takes no writes."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,ro", "tmpfs", folder], check=True)
    played = Played(path)
    played.begin("cell")
    played.end("cell")
    played.until(lambda: played.states)
    allowed = played.recorder.answering(violation(1, "asked", "ASK"), "once")
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    played.until(lambda: played.states[-1]["state"] == "on")
    played.recorder.close()
    return {"states": played.states, "allowed": allowed, **look(path)}


def look(path):
    """Return what the database holds."""
    import sqlite3

    from sentinel_kernel.audit import chain

    connection = sqlite3.connect(path, isolation_level=None)
    return {
        "integrity": connection.execute("PRAGMA integrity_check").fetchone()[0],
        "faults": [fault.what for fault in chain.verify(connection).faults],
        "executions": connection.execute("SELECT count(*), count(end_ts) FROM executions").fetchone(),
        "kills": connection.execute("SELECT count(*) FROM syscall_events WHERE action = 'KILL'").fetchone()[
            0
        ],
        "asks": connection.execute("SELECT result FROM syscall_events WHERE action = 'ASK'").fetchall(),
        "notes": connection.execute("SELECT kind FROM session_events").fetchall(),
    }


def rest(path, _unused):
    """Let a writer come, go where nothing runs, and come again."""
    played = Played(path)
    counts = []
    for name in ("first", "second"):
        played.begin(name)
        played.turn()
        played.until(lambda: list(played.recorder.descriptors()))
        played.end(name)
        played.until(lambda: not list(played.recorder.descriptors()))
        played.until(lambda: not played.recorder._delivery._ended)
        counts.append(look(path)["executions"])
    played.begin("open")
    played.until(lambda: list(played.recorder.descriptors()))
    played.recorder.sandbox_gone({})
    played.recorder.close()
    return {"counts": counts, **look(path), "states": played.states}


def killed_writer(path, _unused):
    """Kill the writer under a running cell: it is told, replaced, and the cell's end finds its row."""
    played = Played(path)
    played.begin("cell")
    played.synced()
    os.kill(played.recorder._delivery._writer.pid, 9)
    played.until(lambda: played.states)
    played.end("cell")
    played.until(lambda: played.states[-1]["state"] == "on")
    played.synced()
    played.recorder.close()
    return {"states": played.states, **look(path)}


def moved(path, other):
    """Move the database away under a writer."""
    played = Played(path)
    played.begin("before")
    played.end("before")
    played.begin("under way")
    played.synced()
    for end in ("", "-wal", "-shm"):
        os.rename(path + end, other + end)
    played.end("under way")
    played.begin("behind")
    played.end("behind")
    played.synced()
    played.recorder.close()
    return {"states": played.states, **look(path)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
