"""Fetches the secrets of a profile where the host keeps them; they stay in the proxy's memory, and are never logged."""

from __future__ import annotations

import asyncio

from sentinel_kernel.proxy.wanted import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.http_rules import Secret

_KEYRING_SECONDS = 10.0
_MOST_BYTES = 1 << 20


class SecretValues:
    """The values, fetched when they are first needed and kept as long as the process lives."""

    def __init__(self, host_pid: int) -> None:
        """Read variables from the environment that the host process ``host_pid`` was started with.

        The supervisor, whose fork this is, was started without them.
        """
        self._host_pid = host_pid
        self._known: dict[str, str] = {}

    async def header(self, secret: Secret) -> tuple[bytes, bytes]:
        """Return the header to add.

        Raises:
            Refused: the secret is not to be had; the message names its source, never a part of its value.

        """
        value = self._known.get(secret.source)
        if value is None:
            value = await self._fetch(secret.source)
            if not value.isascii() or not value.isprintable():
                raise Refused(
                    502, "secret", f"The secret {secret.source} can't be a header: it is not printable ASCII."
                )
            self._known[secret.source] = value
        return secret.header.encode("ascii"), (secret.prefix + value).encode("ascii")

    async def _fetch(self, source: str) -> str:
        kind, _, name = source.partition(":")
        try:
            if kind == "env":
                value = self._variable(name)
            else:
                # A locked keyring asks its owner, who may be away.
                value = await asyncio.wait_for(asyncio.to_thread(_entry, name), _KEYRING_SECONDS)
        except ImportError:
            raise Refused(
                502, "secret", "Secrets from a keyring need: pip install sentinel-jupyter-kernel[keyring]"
            ) from None
        except TimeoutError:
            raise Refused(
                504, "secret", f"The host's keyring did not answer about {source}: unlock it."
            ) from None
        except OSError as error:
            raise Refused(502, "secret", f"The secret {source} can't be read: {error.strerror}.") from None
        if not value:
            raise Refused(
                502, "secret", f"The secret {source} is not there: set it on the host, and start anew."
            )
        return value

    def _variable(self, name: str) -> str:
        with open(f"/proc/{self._host_pid}/environ", "rb") as file:
            entries = file.read(_MOST_BYTES).split(b"\0")
        wanted = name.encode() + b"="
        found = next((entry[len(wanted) :] for entry in entries if entry.startswith(wanted)), b"")
        return found.decode("utf-8", "replace").strip()


def _entry(name: str) -> str:
    """Return an entry of the host's keyring, empty where there is none."""
    import keyring  # noqa: PLC0415 - an extra, and slow to import
    from keyring.errors import KeyringError  # noqa: PLC0415 - as above

    service, _, user = name.partition("/")
    try:
        return keyring.get_password(service, user) or ""
    except KeyringError:
        raise OSError(5, "the keyring refused") from None
