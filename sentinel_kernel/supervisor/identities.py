"""Who the sandbox runs as: the caller's own id, or for root an unprivileged id that nobody else has."""

from __future__ import annotations

import os

from sentinel_kernel.errors import BootError
from sentinel_kernel.linux.locks import try_lock_byte, unlock_byte
from sentinel_kernel.policy.plan import Identity

# Above nobody (65534) and 16-bit -1, below 100000 where subordinate ids usually begin, and in none of the ranges
# that systemd hands out (its UIDS-GIDS document).
_FIRST_ID = 70000
_LAST_ID = 98999
_INSIDE_ID = 1000
_LOCK_DIRECTORY = "/run/sentinel-kernel"


def is_leased(user: int) -> bool:
    """Tell whether root's sandboxes run as such ids."""
    return _FIRST_ID <= user <= _LAST_ID


class IdentityLease:
    """One sandbox's identity; for root, an id kept from every other sandbox until :meth:`close`."""

    def __init__(self, identity: Identity, descriptor: int = -1) -> None:
        """Take over the lock that ``descriptor`` holds on the byte of the host id."""
        self.identity = identity
        self._descriptor = descriptor

    def close(self) -> None:
        """Give the id back."""
        if self._descriptor >= 0:
            unlock_byte(self._descriptor, self.identity.host_uid)
            self._descriptor = -1


class Identities:
    """Hands out identities; one object a supervisor, because record locks belong to the process."""

    def __init__(self) -> None:
        """Start without the lock file; only root needs it."""
        self._file = -1

    def lease(self) -> IdentityLease:
        """Return the identity for one sandbox.

        Raises:
            BootError: started by root, and no id is free or the lock file can't be made.

        """
        uid, gid = os.geteuid(), os.getegid()
        if uid != 0:
            return IdentityLease(Identity(uid, gid, uid, gid, _user_name(uid)))
        if self._file < 0:
            try:
                os.makedirs(_LOCK_DIRECTORY, 0o700, exist_ok=True)
                self._file = os.open(f"{_LOCK_DIRECTORY}/ids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise BootError(
                    "choose_identity",
                    error.errno or 0,
                    f"The lock file {_LOCK_DIRECTORY}/ids can't be used: {error.strerror}.",
                    "Make /run writable for root, or start JupyterLab as an ordinary user.",
                ) from None
        taken = _reserved_ranges()
        for candidate in range(_FIRST_ID, _LAST_ID + 1):
            if any(first <= candidate < first + count for first, count in taken):
                continue
            if try_lock_byte(self._file, candidate):
                identity = Identity(candidate, candidate, _INSIDE_ID, _INSIDE_ID, "sentinel")
                return IdentityLease(identity, self._file)
        raise BootError(
            "choose_identity",
            11,
            f"Every user id from {_FIRST_ID} to {_LAST_ID} is taken by a sandbox or reserved in /etc/subuid.",
            "Stop some kernels, or start JupyterLab as an ordinary user.",
        )


def _user_name(uid: int) -> str:
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(":")
                if len(fields) > 2 and fields[2] == str(uid):
                    return fields[0]
    except OSError:
        pass  # no file: a user from a directory service, or none; any name does inside
    return "user"


def _reserved_ranges() -> list[tuple[int, int]]:
    """Return (first, count) of every range that /etc/subuid, /etc/subgid and /etc/passwd give to somebody."""
    ranges: list[tuple[int, int]] = []
    for path, position, counted in (
        ("/etc/subuid", 1, True),
        ("/etc/subgid", 1, True),
        ("/etc/passwd", 2, False),
    ):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            fields = line.split(":")
            try:
                ranges.append((int(fields[position]), int(fields[position + 1]) if counted else 1))
            except (IndexError, ValueError):
                continue
    return ranges
