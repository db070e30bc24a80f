"""The errors Sentinel raises, each with the remedy a person can act on."""

from __future__ import annotations


class SentinelError(Exception):
    """Base of every error that Sentinel raises on purpose.

    ``remedy`` is one sentence that says what to do; it is shown after the message.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        """Store what went wrong and what to do about it."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the message followed by the remedy."""
        return f"{self.message} {self.remedy}".strip()


class ProfileError(SentinelError):
    """A profile file can't be used; ``json_path`` names the place, e.g. ``$.syscall_rules[3].action``."""

    def __init__(self, message: str, json_path: str = "$", remedy: str = "") -> None:
        """Store the message, its place in the JSON document and the remedy."""
        super().__init__(message, remedy)
        self.json_path = json_path

    def __str__(self) -> str:
        """Return path, message and remedy; the path only where it is a place inside the document."""
        text = super().__str__()
        return text if self.json_path in ("", "$") else f"{self.json_path}: {text}"


class MappingError(ProfileError):
    """A mapping file (the words for violations) can't be used; ``json_path`` names the place."""


class UnsupportedHost(SentinelError):
    """This machine lacks something that the sandbox can't do without."""


class BootError(SentinelError):
    """A step of the sandbox's set-up failed; nothing of the host was changed.

    ``step`` is the name of the boot step, ``errno`` the Linux error number (0 where there is none).
    """

    def __init__(self, step: str, errno: int, message: str, remedy: str = "") -> None:
        """Store the failed step, its errno, the message and the remedy."""
        super().__init__(message, remedy)
        self.step = step
        self.errno = errno
        self.lesser: BootError | None = None
        """Why a lesser rung of the isolation ladder could not be had either, where it was tried."""


class ProtocolError(SentinelError):
    """A peer sent something that its protocol does not allow."""


class TooLargeError(ProtocolError):
    """A peer sent more in one message than is read."""
