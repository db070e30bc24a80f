"""The audit of real kernels: what is in it, who sees it, and that a KILL's row outlives its supervisor."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import platform
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leaks
import pytest
from audit_rows import looked_into
from conversation import Conversation
from live_kernel import notebook
from supervised import Supervised, own_folder
from waiting import wait_until

from sentinel_kernel.audit import chain, reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook, Result
    from ordinary_user import Identity

VICTIM = Path(__file__).parent / "drivers" / "refused.py"


def shown(result: Result) -> str:
    return "\n".join(content["data"]["text/plain"] for _, content in result.outputs if "data" in content)


def as_html(result: Result) -> str:
    return "\n".join(
        content["data"].get("text/html", "") for _, content in result.outputs if "data" in content
    )


@contextlib.contextmanager
def audited(folder: Path, **environment: str) -> Iterator[tuple[Notebook, Path]]:
    state = folder / "state"
    with notebook(folder, "sentinel", XDG_STATE_HOME=str(state), **environment) as book:
        yield book, state / "sentinel-kernel" / "audit.db"


def written(book: Notebook) -> str:
    """Return the page, which is made once all is written."""
    return shown(book.run("%sentinel_audit"))


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with looked_into(path) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.sandbox
def test_a_kernels_session_can_be_looked_up(tmp_path: Path) -> None:
    with audited(tmp_path, SENTINEL_CLIENT="an assistant", JUPYTERHUB_USER="ada", SENTINEL_SPARE="off") as (
        book,
        path,
    ):
        book.run("x = 1")
        count = 3000
        book.run(
            "import socket\n"
            f"for _ in range({count}):\n"
            "    try:\n"
            "        socket.socket()\n"
            "    except PermissionError:\n"
            "        pass\n"
            "1/0"
        )
        book.run(
            "y = bytearray(30 << 20); import time\nend = time.time() + 0.5\nwhile time.time() < end: pass"
        )
        page = book.run("%sentinel_audit")
        text, html = shown(page), as_html(page)
        assert f"3 executions, 1 failed, 0 killed; {count:,} calls refused" in text
        assert "ZeroDivisionError" in text
        assert "line 4" in text
        assert "<svg" in html
        assert "<polyline" in html
        assert "<script" not in html
        assert str(path) in shown(book.run("%sentinel_status"))
        book.run("%sentinel_profile datascience")
        book.run("%sentinel_profile nosuch\nx = 2")
        written(book)
        [failed] = rows(path, "SELECT status, result, lines FROM executions WHERE command LIKE '%nosuch%'")
        assert failed == ("error", "UsageError", 2)  # which the host answers itself
        first, second, third, *_ = rows(
            path,
            "SELECT command, status, result, refusals, profile, rung, actor, lines FROM executions ORDER BY id",
        )
        assert first == ("x = 1", "completed", "ok", 0, "strict", "full", f"{first[6]}", 1)
        assert first[6].endswith("hub:ada via an assistant")
        assert second[1:4] == ("error", "ZeroDivisionError", count)
        assert third[1:3] == ("completed", "ok")
        [refused] = rows(
            path,
            "SELECT sum(count), max(syscall_name), max(line), max(semantic_msg), max(hint), max(rule), max(action), "
            "max(signal_name), max(source_sha256), max(semantic_msg_zh) FROM syscall_events",
        )
        assert refused[:3] == (count, "socket", 4)
        assert "no network" in refused[3]
        assert refused[4]
        assert refused[5:8] == ("NOTIFY by default", "NOTIFY", "EPERM")
        assert len(refused[8]) == 64
        assert "网络" in refused[9]
        [(samples, peak)] = rows(
            path, "SELECT count(*), max(mem_bytes) FROM resource_samples WHERE exec_id NOT NULL"
        )
        assert samples >= 3
        assert peak > 30 << 20
        kinds = {kind for (kind,) in rows(path, "SELECT kind FROM session_events")}
        assert {"sandbox", "profile"} <= kinds
        [(user, version, linux)] = rows(path, "SELECT os_user, sentinel_version, linux_version FROM runs")
        assert (bool(user), bool(version), linux) == (True, True, platform.release())
    with looked_into(path) as connection:
        assert chain.verify(connection).faults == ()
        assert all(row["end_ts"] for row in reading.executions(connection))


@pytest.mark.sandbox
def test_a_cell_has_the_status_that_its_reply_has(tmp_path: Path) -> None:
    shows = "try:\n    1/0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()"
    cells = {
        "x = 1\n%nosuch": ("error", "UsageError"),  # which IPython prints
        "x = 2\n%sentinel_status": ("error", "UsageError"),
        shows: ("completed", "ok"),  # an error that is shown and was caught
        "1/0": ("error", "ZeroDivisionError"),
        "x = 3": ("completed", "ok"),
    }
    with audited(tmp_path, SENTINEL_SPARE="off") as (book, path):
        for code, (status, _) in cells.items():
            assert book.run(code).reply["status"] == ("ok" if status == "completed" else "error"), code
        book.run("%sentinel_limit", store_history=False)  # as clients fetch it for themselves
        assert f"{len(cells)} executions, 3 failed" in written(book)
        found = rows(path, "SELECT command, status, result FROM executions ORDER BY id")
        assert {code: (status, result) for code, status, result in found if code in cells} == cells


@pytest.mark.sandbox
def test_what_no_call_was_refused_for_is_in_it_and_not_counted_as_refused(tmp_path: Path) -> None:
    with audited(tmp_path, SENTINEL_SPARE="off") as (book, path):
        book.run("import no_such_module_of_anybody")
        book.run("def look():\n    open('/usr/share/forbidden', 'w')\nlook()")
        book.run("import socket\nsocket.create_connection(('203.0.113.9', 80))")
        text = written(book)
        found = rows(
            path,
            "SELECT max(cause), max(function), max(line), max(path), max(arguments), max(syscall_name), max(action), "
            "sum(count), max(semantic_msg) FROM syscall_events GROUP BY violation_id ORDER BY min(id)",
        )
    assert [row[:4] for row in found] == [
        ("package_absent", "<module>", 1, None),
        ("path_read_only", "look", 2, "/usr/share/forbidden"),
        ("call", "<module>", 2, None),
    ]
    assert found[0][4:8] == ("package=no_such_module_of_anybody", None, "ABSENT", 1)
    assert found[1][5:8] == (None, "PATH", 1)
    assert found[2][5:8] == ("socket", "NOTIFY", 1)
    assert all(row[8] for row in found)
    assert "1 calls refused" in text or "1 call refused" in text


@pytest.mark.sandbox
def test_a_kill_is_in_it_with_its_words_and_told_to_a_webhook(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/hook"
        with audited(tmp_path, SENTINEL_AUDIT_ALERT=address, SENTINEL_SPARE="off") as (book, path):
            book.run("x = 1")
            number = {"x86_64": 101, "aarch64": 117}[platform.machine()]
            result = book.run(f"import ctypes\nctypes.CDLL(None).syscall({number}, 0, 0, 0, 0)")
            assert result.reply["ename"] == "SandboxDied"
            wait_until(lambda: told, "the webhook is told", 60)
            page = written(book)
            assert "1 killed" in page
            [(status, result_)] = rows(
                path, "SELECT status, result FROM executions WHERE command LIKE '%ctypes%'"
            )
            assert (status, result_) == ("killed", "rule_kill ptrace")
            [kill] = rows(
                path,
                "SELECT sum(count), max(signal_name), max(result), max(semantic_msg) <> '' FROM syscall_events "
                "WHERE action = 'KILL' GROUP BY violation_id",
            )
            assert kill == (1, "SIGKILL", "killed", 1)
            with looked_into(path) as connection:
                assert chain.hash_at(connection, told[0]["seq"]).hex() == told[0]["hash"]
        assert [(alert["action"], alert["syscall_name"]) for alert in told] == [("KILL", "ptrace")]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.sandbox
def test_every_answer_to_a_question_is_in_it_before_the_call_goes_on(tmp_path: Path) -> None:
    profiles = tmp_path / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    asking = {"extends": "strict", "syscall_rules": [{"name": "socket", "action": "ASK", "comment": "why"}]}
    (profiles / "asking.json").write_text(json.dumps(asking))
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "SENTINEL_PROFILE": "asking",
        "SENTINEL_SPARE": "off",
    }
    asked = (
        "SELECT result, sum(count) FROM syscall_events WHERE action = 'ASK' GROUP BY result ORDER BY min(id)"
    )
    open_one = "import socket\ntry:\n    socket.socket().close(); print('open')\nexcept OSError: print('no')"
    with audited(tmp_path, **environment) as (book, path):
        talk = Conversation(book.client)
        for answer, outcome in (("y", "open"), ("n", "no"), ("s", "open")):
            cell = talk.execute(open_one, allow_stdin=True)
            talk.wait_for_prompt()
            book.client.input(answer)
            talk.wait_for_output(cell, "stream")
            # The row is there although the cell may still run and nothing was asked to be written.
            words = {"y": "once", "n": "no", "s": "session"}[answer]
            assert f"asked: {words}" in [result for result, _ in rows(path, asked)]
            assert talk.finish(cell).text == f"{outcome}\n"
        many = "import socket\nfor _ in range(500): socket.socket().close()"
        assert talk.run(many).content["status"] == "ok"  # allowed for the session: counted, not asked
        talk.run("%sentinel_audit")
        assert rows(path, asked) == [("asked: once", 1), ("asked: no", 1), ("asked: session", 501)]
        [(kinds,)] = rows(path, "SELECT count(*) FROM syscall_events WHERE result = 'asked: session'")
        assert kinds <= 20


@pytest.mark.sandbox
def test_alerts_that_nobody_takes_are_counted_and_shown(tmp_path: Path) -> None:
    with audited(tmp_path, SENTINEL_AUDIT_ALERT="http://127.0.0.1:9/none", SENTINEL_SPARE="off") as (
        book,
        path,
    ):
        number = {"x86_64": 101, "aarch64": 117}[platform.machine()]
        book.run(f"import ctypes\nctypes.CDLL(None).syscall({number}, 0, 0, 0, 0)")
        texts: list[str] = []

        def counted() -> bool:
            texts.append(shown(book.run("%sentinel_status")))
            return "1 alerts of the audit could not be delivered" in texts[-1]

        wait_until(counted, "the failure is on the status page", 60)
        assert rows(path, "SELECT count(*) FROM syscall_events WHERE action = 'KILL' AND count = 1") == [(1,)]


@pytest.mark.sandbox
def test_cells_do_not_see_the_database_even_in_the_notebooks_folder(tmp_path: Path) -> None:
    place = tmp_path / "work" / "records"
    place.mkdir(parents=True)
    with audited(tmp_path, SENTINEL_AUDIT=str(place / "audit.db")) as (book, _):
        book.run("x = 'secret of the first cell'")
        written(book)
        assert (place / "audit.db").stat().st_size > 0  # the control: outside it is there
        seen = book.run(
            "import os\nprint(os.path.isdir('records') and os.listdir('records'))\n"
            "try:\n    print(open('records/audit.db', 'rb').read(16))\n"
            "except OSError as error:\n    print(type(error).__name__)"
        )
        text = "".join(content["text"] for kind, content in seen.outputs if kind == "stream")
        assert text in (
            "[]\nFileNotFoundError\n",
            "False\nFileNotFoundError\n",
            "False\nPermissionError\n",
        ), text


@pytest.mark.sandbox
def test_off_is_off_and_a_word_that_is_not_understood_is_said(tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    with audited(tmp_path / "off", SENTINEL_AUDIT="off") as (book, path):
        book.run("x = 1")
        assert "audit" in written(book)
        assert not path.exists()
    (tmp_path / "bad").mkdir()
    with audited(tmp_path / "bad", SENTINEL_AUDIT="relative.db") as (book, path):
        told = book.run("x = 1")
        assert "The audit trail can't be written" in shown(told)
        assert "absolute path" in shown(told)
        assert "can't be written" not in shown(book.run("x = 2")), "it is said once"
        assert not path.exists()


def kill_supervisors(identity: Identity, folder: Path, times: int) -> None:
    """Kill the supervisor at random moments; look for the row of every KILL that was answered.

    The first one is killed as soon as it has answered a KILL, so that there is one at least.
    """
    workspace = own_folder(identity, folder / "workspace")
    shutil.copy(VICTIM, workspace)
    state = folder / "state"
    path = state / "state" / "sentinel-kernel" / "audit.db"
    chance = random.Random(20_000 + times)
    acknowledged: set[str] = set()
    refused = 0
    for number in range(times):
        before = leaks.descendants()
        supervised = Supervised(identity, state)
        victim = [supervised.python, "-I", str(workspace / VICTIM.name), str(chance.randint(0, 300))]
        supervised.start(
            workspace, payload=[*victim, platform.machine()], kernel=f"k{number}", run=f"run-{number}"
        )
        supervised.wait("ready")
        supervised.reply(
            supervised.request("begin_cell", msg_id=f"m{number}", code=f"cell {number}", lines=1)
        )
        end = time.monotonic() + chance.random() * 0.8
        if number == 0:
            wait_until(lambda supervised=supervised: heard_of_a_kill(supervised), "a KILL is answered", 60)
        while number and (rest := end - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                supervised.receive(rest)
        # root's own child, or sudo's: whoever has the control socket is the one.
        for pid in leaks.descendants(supervised.process.pid) | {supervised.process.pid}:
            if supervisor(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while supervised.receive(5.0) is not None:
                pass
        acknowledged |= killed(supervised)
        refused += len(supervised.violations())
        supervised.close()
        wait_until(lambda before=before: not leaks.descendants() - before, "the writer has ended", 60)
    with looked_into(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert chain.verify(connection).faults == ()
        kept = connection.execute("SELECT violation_id FROM syscall_events WHERE action = 'KILL'").fetchall()
        ends = connection.execute("SELECT count(*), count(end_ts) FROM executions").fetchone()
    print(
        f"{times} supervisors killed, {len(acknowledged)} KILLs answered, {len(kept)} kept, {refused} told, {ends}"
    )
    assert acknowledged
    assert acknowledged <= {identifier for (identifier,) in kept}
    assert ends[0] == ends[1] > 0


def killed(supervised: Supervised) -> set[str]:
    """Return the ids of the KILLs that were answered."""
    return {row["id"] for row in supervised.violations() if row["outcome"] == "killed"}


def heard_of_a_kill(supervised: Supervised) -> bool:
    """Take what the supervisor has said and tell whether it has answered a KILL."""
    with contextlib.suppress(TimeoutError):
        supervised.receive(0.01)
    return bool(killed(supervised))


def supervisor(pid: int) -> bool:
    """Tell whether a process is a supervisor, not its writer: that one has the null device for its errors."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        errors = str(Path(f"/proc/{pid}/fd/2").readlink())
        return b"supervisor/__main__.py" in command and errors != "/dev/null"
    return False


@pytest.mark.sandbox
def test_no_answered_kill_is_lost_with_its_supervisor(own_user: Identity, tmp_path: Path) -> None:
    kill_supervisors(own_user, tmp_path, 8)


@pytest.mark.sandbox
def test_no_answered_kill_is_lost_as_an_ordinary_user(ordinary_user: Identity) -> None:
    folder = own_folder(ordinary_user, Path(tempfile.mkdtemp(dir=ordinary_user.home)))
    try:
        kill_supervisors(ordinary_user, folder, 3)
    finally:
        shutil.rmtree(folder)


@pytest.mark.soak
@pytest.mark.sandbox
def test_fifty_supervisors_killed_at_random_moments(own_user: Identity, tmp_path: Path) -> None:
    kill_supervisors(own_user, tmp_path, 50)
