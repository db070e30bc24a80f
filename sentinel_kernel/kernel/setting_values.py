"""The values that a setting of the kernel's may have; what is none of them means the strictest, and is told."""

from __future__ import annotations

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFLIGHT_MODES = ("off", "advise", "refuse")
"""What is done about lines that will be refused, or are dangerous: from the least on (kernel/preflight.py)."""

ASK_SECONDS = 120.0
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
_VALUE_CHARACTERS = 40


def printable(value: str) -> str:
    """Return a value as it may be told: it may be anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in value[:_VALUE_CHARACTERS])


class Chosen:
    """What was chosen by arguments and by the environment, and which of it can't be."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.rest = list(arguments)
        """The arguments that chose nothing."""

        self.mistyped: list[tuple[str, str]] = []
        """What is said about values that there are not, in English and Chinese."""

        self._environment = environment

    def text(self, name: str, *, by_argument: bool = True) -> str:
        """Return what ``--SentinelKernel.NAME=`` says, else what SENTINEL_NAME does, else nothing."""
        chosen = self._environment.get(f"SENTINEL_{name.upper()}", "")
        if by_argument:
            option = f"--SentinelKernel.{name}="
            for argument in self.rest:
                if argument.startswith(option):
                    chosen = argument.removeprefix(option)
            self.rest = [argument for argument in self.rest if not argument.startswith(option)]
        return chosen

    def mode(self, name: str, default: str) -> str:
        """Return one of PREFLIGHT_MODES."""
        chosen = self.text(name).strip()
        if not chosen:
            return default
        return self._known(name, chosen, PREFLIGHT_MODES, "refuse")

    def commit(self) -> str:
        """Return "none" where new files have to wait for the person, else nothing."""
        chosen = self.text("commit").strip()
        return self._known("commit", chosen, ("none",), "none") if chosen else ""

    def switch(self, name: str, *, default: bool, by_argument: bool = True) -> bool:
        """Return whether something is wanted: on or off."""
        chosen = self.text(name, by_argument=by_argument).strip().lower()
        if not chosen:
            return default
        if chosen not in (*_ON, *_OFF):
            self._tell(name, chosen, ("on", "off"), "on" if default else "off")
            return default
        return chosen in _ON

    def ask_seconds(self) -> float:
        """Return how long a question to the person stands: SENTINEL_ASK is never, person, or a number of seconds."""
        chosen = self.text("ask", by_argument=False).strip()
        if not chosen:
            return ASK_SECONDS
        if chosen.isdecimal() and len(chosen) < len("100000"):
            return float(chosen)
        if chosen.lower() not in ("never", "person"):
            self._tell("ask", chosen, ("never", "0 … 99999"), "never")
        return ASK_SECONDS if chosen.lower() == "person" else 0.0

    def _known(self, name: str, chosen: str, known: Sequence[str], strictest: str) -> str:
        if chosen.lower() in known:
            return chosen.lower()
        self._tell(name, chosen, known, strictest)
        return strictest

    def _tell(self, name: str, chosen: str, known: Sequence[str], in_force: str) -> None:
        told = printable(chosen)
        variable = f"SENTINEL_{name.upper()}"
        english = f"{variable} is {told!r}, which it can't be ({', '.join(known)}): {in_force} is in force."
        chinese = f"{variable} 的值“{told}”无效（可用：{'、'.join(known)}），现按 {in_force} 处理。"
        self.mistyped.append((english, chinese))
