"""The database's tables, and the numbered steps that bring an older file to them."""

from __future__ import annotations

import contextlib
import os
import stat

from sentinel_kernel.errors import SentinelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53454E54
"""Marks the file as ours (SQLite's "PRAGMA application_id"): "SENT"."""

BUSY_SECONDS = 5.0
_PAGES_KIB = 512

Columns = tuple[tuple[str, str], ...]

RUNS: Columns = (
    ("id", "TEXT"),
    ("started_ts", "INTEGER"),
    ("kernel", "TEXT"),
    ("workspace", "TEXT"),
    ("os_user", "TEXT"),
    ("uid", "INTEGER"),
    ("hub_user", "TEXT"),
    ("client", "TEXT"),
    ("sentinel_version", "TEXT"),
    ("python_version", "TEXT"),
    ("worker_python", "TEXT"),
    ("linux_version", "TEXT"),
    ("machine", "TEXT"),
)
EXECUTION_BEGIN: Columns = (
    ("id", "INTEGER"),
    ("profile", "TEXT"),
    ("pid", "INTEGER"),
    ("command", "TEXT"),
    ("start_ts", "INTEGER"),
    ("run_id", "TEXT"),
    ("actor", "TEXT"),
    ("msg_id", "TEXT"),
    ("cell_id", "TEXT"),
    ("lines", "INTEGER"),
    ("source_sha256", "TEXT"),
    ("silent", "INTEGER"),
    ("generation", "INTEGER"),
    ("rung", "TEXT"),
    ("backend", "TEXT"),
    ("limits", "TEXT"),
)
EXECUTION_END: Columns = (
    ("id", "INTEGER"),
    ("end_ts", "INTEGER"),
    ("status", "TEXT"),
    ("result", "TEXT"),
    ("refusals", "INTEGER"),
    ("mem_peak_bytes", "INTEGER"),
    ("cpu_seconds", "REAL"),
)
EVENTS: Columns = (
    ("id", "INTEGER"),
    ("exec_id", "INTEGER"),
    ("ts", "INTEGER"),
    ("pid", "INTEGER"),
    ("syscall_nr", "INTEGER"),
    ("syscall_name", "TEXT"),
    ("action", "TEXT"),
    ("errno", "INTEGER"),
    ("signal_name", "TEXT"),
    ("path", "TEXT"),
    ("semantic_msg", "TEXT"),
    ("run_id", "TEXT"),
    ("violation_id", "TEXT"),
    ("count", "INTEGER"),
    ("last_ts", "INTEGER"),
    ("result", "TEXT"),
    ("resource", "TEXT"),
    ("arguments", "TEXT"),
    ("process", "TEXT"),
    ("cell_id", "TEXT"),
    ("line", "INTEGER"),
    ("source_sha256", "TEXT"),
    ("profile", "TEXT"),
    ("rule", "TEXT"),
    ("origin", "TEXT"),
    ("hint", "TEXT"),
    ("remedy", "TEXT"),
    ("semantic_msg_zh", "TEXT"),
    ("hint_zh", "TEXT"),
    ("rung", "TEXT"),
    ("function", "TEXT"),
    ("cause", "TEXT"),
)
SAMPLES: Columns = (
    ("id", "INTEGER"),
    ("exec_id", "INTEGER"),
    ("ts", "INTEGER"),
    ("mem_bytes", "INTEGER"),
    ("cpu_usec", "INTEGER"),
    ("cpu_pct", "REAL"),
    ("run_id", "TEXT"),
    ("mem_peak_bytes", "INTEGER"),
    ("pids", "INTEGER"),
    ("disk_bytes", "INTEGER"),
)
NOTES: Columns = (
    ("id", "INTEGER"),
    ("run_id", "TEXT"),
    ("exec_id", "INTEGER"),
    ("ts", "INTEGER"),
    ("kind", "TEXT"),
    ("name", "TEXT"),
    ("detail", "TEXT"),
)

CONNECTIONS: Columns = (
    ("id", "INTEGER"),
    ("run_id", "TEXT"),
    ("exec_id", "INTEGER"),
    ("ts", "INTEGER"),
    ("end_ts", "INTEGER"),
    ("host", "TEXT"),
    ("address", "TEXT"),
    ("port", "INTEGER"),
    ("verdict", "TEXT"),
    ("rule", "TEXT"),
    ("errno", "INTEGER"),
    ("bytes_out", "INTEGER"),
    ("bytes_in", "INTEGER"),
    ("count", "INTEGER"),
)

PARTS: dict[str, tuple[str, Columns, str, str]] = {
    "runs": ("runs", RUNS, "seq", "hash"),
    "executions.begin": ("executions", EXECUTION_BEGIN, "begin_seq", "begin_hash"),
    "executions.end": ("executions", EXECUTION_END, "end_seq", "end_hash"),
    "syscall_events": ("syscall_events", EVENTS, "seq", "hash"),
    "resource_samples": ("resource_samples", SAMPLES, "seq", "hash"),
    "session_events": ("session_events", NOTES, "seq", "hash"),
    "connections": ("connections", CONNECTIONS, "seq", "hash"),
}
"""What the chain runs over: part → table, the columns that are hashed, and where its number and its hash are kept."""

ADDED = {"syscall_events": 2}
"""How many columns at a part's end came by a later step: where they are NULL, rows have the hash of before it."""

TABLES = ("runs", "executions", "syscall_events", "resource_samples", "session_events", "connections")

# Step 1 is SentinelBox's own schema; a step is never changed once it was released, only followed by another.
_STEPS = (
    """
    CREATE TABLE executions (
        id INTEGER PRIMARY KEY, profile TEXT, pid INTEGER, command TEXT,
        start_ts INTEGER NOT NULL, end_ts INTEGER, status TEXT);
    CREATE TABLE syscall_events (
        id INTEGER PRIMARY KEY, exec_id INTEGER REFERENCES executions(id), ts INTEGER NOT NULL, pid INTEGER,
        syscall_nr INTEGER, syscall_name TEXT, action TEXT, errno INTEGER, signal_name TEXT, path TEXT,
        semantic_msg TEXT);
    CREATE TABLE resource_samples (
        id INTEGER PRIMARY KEY, exec_id INTEGER REFERENCES executions(id), ts INTEGER NOT NULL,
        mem_bytes INTEGER, cpu_usec INTEGER, cpu_pct REAL);
    CREATE INDEX syscall_events_exec ON syscall_events(exec_id);
    CREATE INDEX resource_samples_exec ON resource_samples(exec_id);
    CREATE INDEX executions_start ON executions(start_ts);
    """,
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, started_ts INTEGER NOT NULL, kernel TEXT, workspace TEXT, os_user TEXT, uid INTEGER,
        hub_user TEXT, client TEXT, sentinel_version TEXT, python_version TEXT, worker_python TEXT,
        linux_version TEXT, machine TEXT, seq INTEGER, hash BLOB);
    ALTER TABLE executions ADD COLUMN run_id TEXT REFERENCES runs(id);
    ALTER TABLE executions ADD COLUMN actor TEXT;
    ALTER TABLE executions ADD COLUMN msg_id TEXT;
    ALTER TABLE executions ADD COLUMN cell_id TEXT;
    ALTER TABLE executions ADD COLUMN lines INTEGER;
    ALTER TABLE executions ADD COLUMN source_sha256 TEXT;
    ALTER TABLE executions ADD COLUMN silent INTEGER;
    ALTER TABLE executions ADD COLUMN generation INTEGER;
    ALTER TABLE executions ADD COLUMN rung TEXT;
    ALTER TABLE executions ADD COLUMN backend TEXT;
    ALTER TABLE executions ADD COLUMN limits TEXT;
    ALTER TABLE executions ADD COLUMN result TEXT;
    ALTER TABLE executions ADD COLUMN refusals INTEGER;
    ALTER TABLE executions ADD COLUMN mem_peak_bytes INTEGER;
    ALTER TABLE executions ADD COLUMN cpu_seconds REAL;
    ALTER TABLE executions ADD COLUMN begin_seq INTEGER;
    ALTER TABLE executions ADD COLUMN begin_hash BLOB;
    ALTER TABLE executions ADD COLUMN end_seq INTEGER;
    ALTER TABLE executions ADD COLUMN end_hash BLOB;
    ALTER TABLE syscall_events ADD COLUMN run_id TEXT REFERENCES runs(id);
    ALTER TABLE syscall_events ADD COLUMN violation_id TEXT;
    ALTER TABLE syscall_events ADD COLUMN count INTEGER;
    ALTER TABLE syscall_events ADD COLUMN last_ts INTEGER;
    ALTER TABLE syscall_events ADD COLUMN result TEXT;
    ALTER TABLE syscall_events ADD COLUMN resource TEXT;
    ALTER TABLE syscall_events ADD COLUMN arguments TEXT;
    ALTER TABLE syscall_events ADD COLUMN process TEXT;
    ALTER TABLE syscall_events ADD COLUMN cell_id TEXT;
    ALTER TABLE syscall_events ADD COLUMN line INTEGER;
    ALTER TABLE syscall_events ADD COLUMN source_sha256 TEXT;
    ALTER TABLE syscall_events ADD COLUMN profile TEXT;
    ALTER TABLE syscall_events ADD COLUMN rule TEXT;
    ALTER TABLE syscall_events ADD COLUMN origin TEXT;
    ALTER TABLE syscall_events ADD COLUMN hint TEXT;
    ALTER TABLE syscall_events ADD COLUMN remedy TEXT;
    ALTER TABLE syscall_events ADD COLUMN semantic_msg_zh TEXT;
    ALTER TABLE syscall_events ADD COLUMN hint_zh TEXT;
    ALTER TABLE syscall_events ADD COLUMN rung TEXT;
    ALTER TABLE syscall_events ADD COLUMN seq INTEGER;
    ALTER TABLE syscall_events ADD COLUMN hash BLOB;
    ALTER TABLE resource_samples ADD COLUMN run_id TEXT REFERENCES runs(id);
    ALTER TABLE resource_samples ADD COLUMN mem_peak_bytes INTEGER;
    ALTER TABLE resource_samples ADD COLUMN pids INTEGER;
    ALTER TABLE resource_samples ADD COLUMN disk_bytes INTEGER;
    ALTER TABLE resource_samples ADD COLUMN seq INTEGER;
    ALTER TABLE resource_samples ADD COLUMN hash BLOB;
    CREATE TABLE session_events (
        id INTEGER PRIMARY KEY, run_id TEXT REFERENCES runs(id), exec_id INTEGER REFERENCES executions(id),
        ts INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT, detail TEXT, seq INTEGER, hash BLOB);
    CREATE INDEX executions_run ON executions(run_id);
    CREATE INDEX syscall_events_run ON syscall_events(run_id);
    CREATE TABLE chain (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, hash BLOB NOT NULL,
        pruned_ts INTEGER NOT NULL DEFAULT 0);
    """,
    """
    ALTER TABLE syscall_events ADD COLUMN function TEXT;
    ALTER TABLE syscall_events ADD COLUMN cause TEXT;
    """,
    """
    CREATE TABLE connections (
        id INTEGER PRIMARY KEY, run_id TEXT REFERENCES runs(id), exec_id INTEGER REFERENCES executions(id),
        ts INTEGER NOT NULL, end_ts INTEGER, host TEXT, address TEXT, port INTEGER, verdict TEXT, rule TEXT,
        errno INTEGER, bytes_out INTEGER, bytes_in INTEGER, count INTEGER, seq INTEGER, hash BLOB);
    CREATE INDEX connections_exec ON connections(exec_id);
    """,
)
VERSION = len(_STEPS)
"""The number of the newest step; the file's own is SQLite's "PRAGMA user_version"."""


def open_for_writing(path: str, steps: int = VERSION) -> sqlite3.Connection:
    """Open the database, made or brought up to date where needed (by the first ``steps`` steps).

    Raises:
        SentinelError: the file is not an audit database, or one of a newer program.
        OSError: the file can't be made, or is another user's.
        sqlite3.Error: it can't be opened or changed.

    """
    import sqlite3  # noqa: PLC0415 - the supervisor never needs it, and its pages are many

    # SQLite would make it as the umask says. It gives the files beside it (-wal, -shm) the same mode.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        status = os.fstat(file)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise SentinelError(f"{path} is not a file of yours.", "Set SENTINEL_AUDIT to another path.")
        if status.st_mode & 0o077:
            os.fchmod(file, 0o600)
    finally:
        os.close(file)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute(f"PRAGMA cache_size = -{_PAGES_KIB}")
        _check(connection, path)
        if connection.execute("PRAGMA user_version").fetchone()[0] < steps:
            _migrate(connection, path, steps)
        # On file systems without shared memory it stays what it was; the audit is then slower, and no less safe.
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 8388608")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: str) -> sqlite3.Connection:
    """Open a database that is there.

    Raises:
        SentinelError: there is none, it is not an audit database, or of another version of the program.

    """
    import sqlite3  # noqa: PLC0415 - as above

    if not os.path.exists(path):
        raise SentinelError(
            f"There is no audit database at {path}.",
            "Run a cell under the Sentinel kernel first, or name another file with --database.",
        )
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        _check(connection, path)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise SentinelError(f"{path} can't be read as an audit database: {error}.") from error
    except SentinelError:
        if connection is not None:
            connection.close()
        raise
    if version < VERSION:
        connection.close()
        raise SentinelError(
            f"{path} was written by an older version (its schema is {version}, not {VERSION}).",
            "A kernel that uses it brings it up to date; or run: sentinel-kernel audit prune",
        )
    return connection


def _check(connection: sqlite3.Connection, path: str) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if version > VERSION and application == APPLICATION_ID:
        raise SentinelError(
            f"{path} was written by a newer Sentinel Kernel (its schema is {version}, this program's {VERSION}).",
            "Update Sentinel Kernel, or set SENTINEL_AUDIT to another path.",
        )
    if application != APPLICATION_ID and not (empty and version == 0):
        raise SentinelError(f"{path} is a database of something else.", "Set SENTINEL_AUDIT to another path.")


def _migrate(connection: sqlite3.Connection, path: str, steps: int) -> None:
    """Carry out the steps that the file lacks, each whole or not at all."""
    from sentinel_kernel.audit import chain  # noqa: PLC0415 - it imports this module

    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded in a database without tables only
    for number in range(1, steps + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Looked at under the lock: another kernel may have been first.
            if connection.execute("PRAGMA user_version").fetchone()[0] < number:
                for statement in _STEPS[number - 1].split(";"):
                    connection.execute(statement)
                if number == 2:
                    chain.adopt(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                connection.execute("ROLLBACK")
            raise
    _check(connection, path)
