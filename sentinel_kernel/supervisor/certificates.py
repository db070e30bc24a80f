"""Certificates that the person's environment names: those of a company's proxy, without which no TLS reaches a host.

They are copied into the sandbox's root, read-only, and the variables name the copies. Nothing is mounted for them, as
a folder of the host may hold sockets, and of a file nothing but its certificates goes in: one that holds a key as well
keeps it.
"""

from __future__ import annotations

import os
import re
import stat

from sentinel_kernel.policy.plan import MountKind, is_within
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from sentinel_kernel.policy.plan import BootPlan

PLACE: Final = "/run/sentinel/certificates"
"""Where the copies lie inside."""

FILES: Final = (
    "SSL_CERT_FILE",  # OpenSSL, and with it Python's ssl; httpx, uv
    "REQUESTS_CA_BUNDLE",  # requests, pip
    "CURL_CA_BUNDLE",  # curl, requests
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
FOLDER: Final = "SSL_CERT_DIR"
"""Folders of certificates under the hashes of their names (openssl-rehash(1)), with ``:`` between them."""

_MOST_BYTES, _MOST_FILES = 4 << 20, 500
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE|X509 CRL)-----\s[A-Za-z0-9+/=\s]+-----END \1-----"
)
_SHOWN: Final = (MountKind.BIND, MountKind.BIND_WRITABLE, MountKind.OVERLAY)


def with_certificates(plan: BootPlan, environment: Mapping[str, str]) -> BootPlan:
    """Return the plan with what ``environment``, the supervisor's own, names as certificates.

    What the sandbox shows anyway stays where it is; what can't be read, or holds none, is as if it were not named.
    """
    files: dict[str, bytes] = {}
    variables: dict[str, str] = {}
    for name in FILES:
        path = environment.get(name, "")
        if path.startswith("/") and (place := _file_place(plan, path, f"{PLACE}/{name.lower()}.pem", files)):
            variables[name] = place
    named = [path for path in environment.get(FOLDER, "").split(":") if path.startswith("/")]
    folders = [
        _folder_place(plan, path, f"{PLACE}/folder{number}", files) for number, path in enumerate(named)
    ]
    if any(folders):
        variables[FOLDER] = ":".join(filter(None, folders))
    if not variables or sum(map(len, files.values())) > _MOST_BYTES:
        return plan
    return replace(plan, files=(*plan.files, *files.items()), environment={**plan.environment, **variables})


def leads_there(value: str) -> bool:
    """Tell whether a variable of cells leads to certificates that are put into the sandbox's own root."""
    return any(path.startswith(f"{PLACE}/") for path in value.split(":"))


def _file_place(plan: BootPlan, path: str, place: str, files: dict[str, bytes]) -> str:
    """Return where cells find the certificates of a file, put into ``files`` if need be; empty: nowhere."""
    if _is_shown(plan, path):
        return path
    if certificates := _certificates(path):
        files[place] = certificates
        return place
    return ""


def _folder_place(plan: BootPlan, path: str, place: str, files: dict[str, bytes]) -> str:
    """Do as :func:`_file_place` for a folder."""
    if _is_shown(plan, path):
        return path
    found = _folder(path)
    files |= {f"{place}/{name}": content for name, content in found.items()}
    return place if found else ""


def _is_shown(plan: BootPlan, path: str) -> bool:
    """Tell whether cells see ``path``, and what it leads to, at its own place."""
    return all(_lies_in_shown(plan, one) for one in (os.path.normpath(path), os.path.realpath(path)))


def _lies_in_shown(plan: BootPlan, path: str) -> bool:
    # The last of the same depth wins, as masks stand behind the tree that they cover.
    holders = [entry for entry in plan.mounts if is_within(path, entry.target)]
    holder = max(holders, key=lambda entry: len(entry.target), default=None)
    if holder is None or holder.kind not in _SHOWN:
        return False
    return not any(is_within(path, f"{holder.target}/{name}") for name in holder.hidden)


def _certificates(path: str) -> bytes:
    """Return the certificates in a file; none where it is no file, can't be read, is too long, or has none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return b""
        content = os.read(file, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(file)
    return b"".join(found.group() + b"\n" for found in _CERTIFICATE.finditer(content))


def _folder(path: str) -> dict[str, bytes]:
    """Return the certificates in a folder, by the names of their files."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for _, entry in zip(range(_MOST_FILES), entries, strict=False))
    except OSError:
        return {}
    found = {name: _certificates(f"{path}/{name}") for name in names}
    return {name: content for name, content in found.items() if content}
