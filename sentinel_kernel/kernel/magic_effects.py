"""What the magics above a refused line have done already, which stays: said with the refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.rendering import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.worker.leading_block import MagicLine

_ALWAYS = frozenset({"sentinel_commit", "sentinel_discard", "sentinel_reset", "sentinel_undo"})
_WITH_ARGUMENTS = frozenset(
    {
        "sentinel_allow",
        "sentinel_limit",
        "sentinel_mount",
        "sentinel_preflight",
        "sentinel_profile",
        "sentinel_trust_output",
    }
)
"""Magics that change something, at all or where something follows them; the others show pages."""

_LINE_CHARACTERS = 80


def in_effect(above: Iterable[MagicLine], *, chinese: bool) -> str:
    """Return the sentence to put behind a refusal, where lines ``above`` have changed something; else ""."""
    lines = [
        f"`{printable(f'%{line.name} {line.argument_text}'.strip(), _LINE_CHARACTERS)}`"
        for line in above
        if line.name in _ALWAYS or (line.name in _WITH_ARGUMENTS and line.argument_text.strip())
    ]
    if not lines:
        return ""
    if chinese:
        return f"但其上方的行已经生效，并会保持：{'、'.join(lines)}。"
    what = "line above it has" if len(lines) == 1 else "lines above it have"
    return f" But the {what} taken effect, which stays: {', '.join(lines)}."
