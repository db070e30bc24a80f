"""Which language the person reads: the variables that say so reach the worker (kernel/settings.py, language)."""

from __future__ import annotations

import os


def is_chinese() -> bool:
    """Tell whether words are Chinese: by SENTINEL_LANG, else by the locale; else they are English."""
    names = ("SENTINEL_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((os.environ[name] for name in names if os.environ.get(name)), "")
    return chosen.lower().startswith("zh")
