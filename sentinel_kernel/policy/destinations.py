"""Tells from a cell's source whether its network leads outside, or stays within the sandbox."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.policy.cell_source import CellSource, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.violation import Frame

OUTSIDE, INSIDE, CLIENT, UNKNOWN = "outside", "inside", "client", "unknown"

_DEPTH, _MOST_SOURCES = 1, 16
_CALLS = frozenset(("connect", "connect_ex", "sendto", "create_connection", "open_connection", "urlopen"))
_CLIENT_CALLS = re.compile(
    r"(?:requests|httpx|urllib|aiohttp|ftplib|smtplib|imaplib|poplib|paramiko|urllib3)\."
)
_CLIENT_FUNCTIONS = frozenset(
    (
        "create_connection",
        "getaddrinfo",
        "gethostbyname",
        "gethostbyname_ex",
        "open_connection",
        "sock_connect",
    )
)
_CLIENT_FILES = (
    "requests/", "urllib3/", "http/client.py", "urllib/request.py", "httpx/", "httpcore/", "aiohttp/client",
    "smtplib.py", "ftplib.py", "imaplib.py", "poplib.py", "botocore/", "pip/", "paramiko/", "xmlrpc/client.py",
    "websocket/",
)  # fmt: skip

_URL = re.compile(
    r"\b(?:https?|ftps?|wss?|s3|gs|tcp|redis|postgres(?:ql)?|mysql|mongodb|git|ssh)(?:\+\w+)?://([^\s/'\"{}?#]*)"
)
_ADDRESS = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w.])")
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)+[a-z]{2,24}", re.IGNORECASE)
_LOOPBACK = re.compile(r"\blocalhost\b|::1\b")
_LOCAL_NAMES = frozenset(
    ("localhost", "sentinel", "::1", "::", "0.0.0.0", "", "ip6-localhost", "*")  # noqa: S104 - as cells write it
)
_FETCHES = re.compile(
    r"\b(?:pip3?\s+(?:install|download)|conda\s+install|git\s+(?:clone|fetch|pull|push)|curl|wget|ssh|scp|rsync|"
    r"apt(?:-get)?\s+(?:install|update)|npm\s+install|ping|nslookup|dig|traceroute|telnet)\b"
)
_FETCHING_MODULES = words(
    "boto3 openai anthropic yfinance huggingface_hub wandb kaggle gdown tweepy praw slack_sdk twilio "
    "stripe google.cloud azure"
)
_FETCHING_CALLS = re.compile(
    r"(?:\.|^)(?:fetch_\w+|load_dataset|from_pretrained|urlretrieve|get_data_home|nltk\.download|"
    r"hub\.load|hf_hub_download|snapshot_download)$"
)
_TAKES_HOST = words(
    "socket.create_connection socket.gethostbyname socket.getaddrinfo socket.gethostbyname_ex "
    "http.client.HTTPConnection http.client.HTTPSConnection smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP "
    "ftplib.FTP_TLS imaplib.IMAP4 imaplib.IMAP4_SSL poplib.POP3 telnetlib.Telnet asyncio.open_connection "
    "ssl.get_server_certificate paramiko.Transport"
)
_SERVES = words(
    "bind listen create_server start_server create_datagram_endpoint HTTPServer ThreadingHTTPServer "
    "TCPServer UDPServer ThreadingTCPServer ThreadingUDPServer SimpleXMLRPCServer WSGIServer make_server "
    "Listener Manager SyncManager BaseManager LocalCluster Dash Flask run_server find_free_port "
    "socketpair serve_forever TestServer test_server"
)


def destination_of(code: str | None) -> str:
    """Return where the network of the cell leads.

    OUTSIDE: it names what lies beyond the sandbox; INSIDE: it speaks with itself alone; CLIENT: it calls somebody whom
    it does not name; UNKNOWN: nothing of that is seen, or there is no ``code``.
    """
    return _destination(code, 0) if code else UNKNOWN


def _destination(code: str, depth: int) -> str:
    cell = CellSource(code)
    inner = [_destination(text, depth + 1) for text in _sources(cell)] if depth < _DEPTH else []
    hosts = list(_hosts(cell))
    if OUTSIDE in inner or any(not is_local(host) for host in hosts) or _fetches(cell):
        return OUTSIDE
    names = [name for _, name in cell.calls()]
    if hosts or INSIDE in inner or any(name.rpartition(".")[2] in _SERVES for name in names):
        return INSIDE
    if CLIENT in inner or any(
        name.rpartition(".")[2] in _CALLS or _CLIENT_CALLS.match(name) for name in names
    ):
        return CLIENT
    return UNKNOWN


def is_client(library: Frame | None) -> bool:
    """Tell whether the library that opened a socket calls others with it."""
    return library is not None and (
        library.function in _CLIENT_FUNCTIONS or any(part in library.file for part in _CLIENT_FILES)
    )


def _sources(cell: CellSource) -> list[str]:
    """Return the texts of the cell that are code themselves: for exec, for a child."""
    return [
        node.value
        for node in cell.nodes()
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "(" in node.value
        and not isinstance(cell.parents.get(node), ast.Expr)
    ][:_MOST_SOURCES]


def is_local(host: str) -> bool:
    """Tell whether ``host`` is the sandbox itself."""
    name = host.rpartition("@")[2].strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name in _LOCAL_NAMES or name.startswith("127.") or name.endswith(".localhost")


def _hosts(cell: CellSource) -> Iterator[str]:
    """Yield the hosts that the source names."""
    lines = cell.text.splitlines()
    for number in sorted(cell.masked):
        line = lines[number - 1] if number <= len(lines) else ""
        yield from _in_text(line)
        if _LOOPBACK.search(line):
            yield "localhost"
    if cell.shell:
        yield from _in_text(cell.text)
    for node in cell.nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if isinstance(cell.parents.get(node), ast.Expr):
                continue
            yield from _in_text(node.value)
            if (
                _is_host(cell, node) and (node.value.lower() in _LOCAL_NAMES or _HOST.fullmatch(node.value))
            ) or node.value.lower() in ("localhost", "::1"):
                yield node.value


def _in_text(text: str) -> Iterator[str]:
    yield from (found for found in _URL.findall(text) if found)
    for found in _ADDRESS.findall(text):
        if all(int(part) < 256 for part in found.split(".")):
            yield found


def _is_host(cell: CellSource, node: ast.Constant) -> bool:
    """Tell whether a text stands where a host does: in an address, or as an argument of what takes one."""
    parent = cell.parents.get(node)
    if isinstance(parent, ast.Tuple) and len(parent.elts) in (2, 4) and parent.elts[0] is node:
        around = cell.parents.get(parent)
        second = parent.elts[1]
        return isinstance(around, ast.Call | ast.keyword | ast.Assign) and not (
            isinstance(second, ast.Constant) and not isinstance(second.value, int)
        )
    if isinstance(parent, ast.keyword):
        return parent.arg in ("host", "hostname", "server", "address")
    if isinstance(parent, ast.Call) and node in parent.args:
        name = cell.name_of(parent.func)
        return name in _TAKES_HOST and parent.args[0] is node
    return isinstance(parent, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id.lower() in ("host", "hostname", "server", "addr", "ip")
        for target in parent.targets
    )


def _fetches(cell: CellSource) -> bool:
    """Tell whether the cell calls what fetches from hosts that it does not name."""
    if any(
        _FETCHES.search(cell.text, start, end) and not _local_only(cell.text[start:end])
        for start, end in cell.shell_lines()
    ):
        return True
    lines = cell.text.splitlines()
    for number in cell.masked:
        line = lines[number - 1] if number <= len(lines) else ""
        if re.match(r"\s*%(?:pip|conda|mamba)\s+install", line):
            return True
    modules = {name.partition(".")[0] for name in cell.imports.values()} | set(cell.imports.values())
    if modules & _FETCHING_MODULES:
        return True
    return any(_FETCHING_CALLS.search(name) for _, name in cell.calls() if name)


def _local_only(text: str) -> bool:
    hosts = list(_in_text(text))
    return bool(re.search(r"\blocalhost\b", text)) or (bool(hosts) and all(map(is_local, hosts)))
