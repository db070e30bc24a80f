"""Tells in microseconds that there is nothing to find in a cell; the rest of preflight is not imported for it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS = (
    '"/',
    "'/",
    "://",
    "> /",
    ">/",
    "apk ",
    "apt",
    "chroot",
    "clock_settime",
    "conda",
    "ctypes",
    "curl",
    "dnf ",
    "ftplib",
    "gdb",
    "getaddrinfo",
    "gethostbyname",
    "git ",
    "http",
    "imaplib",
    "mamba",
    "name_to_handle_at",
    "npm ",
    "nsenter",
    "open_connection",
    "ping",
    "pip",
    "poplib",
    "requests",
    "setgroups",
    "sethostname",
    "setns",
    "smtplib",
    "socket",
    "ssh",
    "strace",
    "sudo",
    "tee /",
    "telnetlib",
    "unshare",
    "urllib",
    "wget",
    "writefile /",
    "xmlrpc",
    "yum ",
)
"""Nothing is found in a cell that has none of these in it, nor a name that one with them has bound."""

DANGEROUS_TOKENS = (
    "__",
    "Popen",
    "base64",
    "chmod",
    "chown",
    "ctypes",
    "curl",
    "dd ",
    "eval",
    "exec",
    "find ",
    "fork",
    "gc.",
    "getattr",
    "joblib",
    "load",
    "mkfs",
    "pickle",
    "popen",
    "rm",
    "setattr",
    "shell",
    "subprocess",
    "system",
    "types",
    "wget",
    "while",
    "/dev/",
    "()",
)
"""As above, for the dangerous rules."""


def may_matter(code: str, tokens: Iterable[str]) -> bool:
    """Tell whether one of ``tokens`` is in ``code``."""
    return any(token in code for token in tokens)
