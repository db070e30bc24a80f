"""Which folders are somebody's home, whoever's, and what of them no cell is shown; names alone, pure.

A list of secret names is never whole. In a home all that is hidden is settings, histories and credentials of programs,
so that all of it is covered, save what the kernel's own Python lies in.
"""

from __future__ import annotations

import re

from sentinel_kernel.policy.plan import is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Final

MARKS: Final = (
    ".bashrc",
    ".bash_history",
    ".bash_profile",
    ".profile",
    ".ssh",
    ".zshrc",
    ".zsh_history",
    ".gnupg",
)
"""A folder with one of these is a home."""

_TOGETHER: Final = frozenset({".cache", ".config", ".local"})
"""Any two of these make one as well; a project may have a single one."""

HOME_NAMES: Final = (*MARKS, *sorted(_TOGETHER))
"""No other names have a say in whether a folder is a home."""

_TELLING: Final = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519)\Z|\.(?:pem|key|p12|pfx|jks|kdbx|keystore|asc|ovpn|ppk)\Z|"
    r"(?:^|[._-])(?:token|secrets?|credentials?|passwords?|passwd|api[_-]?keys?|auth)(?=[._-]|\Z)|"
    r"\A(?:wallet\.dat|shadow|gshadow|kernel-.*\.json|\.netrc|\.pgpass|\.htpasswd|\.git-credentials|\.env(?:\..*)?)\Z",
    re.IGNORECASE,
)
_CERTIFICATES: Final = re.compile(
    r"(?:^|[._-])(?:ca|cacert|cert|certs|bundle|chain|public|pub)(?=[._-])", re.IGNORECASE
)


def is_home(names: Collection[str]) -> bool:
    """Tell whether a folder with these entries is somebody's home."""
    return any(name in names for name in MARKS) or len(_TOGETHER.intersection(names)) > 1


def sounds_secret(name: str) -> bool:
    """Tell whether a file's or folder's name says that it holds keys, tokens or passwords."""
    return _TELLING.search(name) is not None and _CERTIFICATES.search(name) is None


def to_cover(
    folder: str, names: Iterable[str], kept: Collection[str], *, everything: bool = False
) -> tuple[list[str], list[str]]:
    """Return which hidden entries of a home are covered, and those in which something is ``kept``; absolute paths.

    In the latter ``everything`` is covered beside what is kept.
    """
    covered: list[str] = []
    opened: list[str] = []
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        if not (everything or name.startswith(".")) or any(is_within(path, one) for one in kept):
            continue
        (opened if any(is_within(one, path) for one in kept) else covered).append(path)
    return covered, opened
