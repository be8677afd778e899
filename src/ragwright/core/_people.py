"""Who works here."""

from __future__ import annotations

import getpass


def current_user() -> str:
    """Who works on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a user entry
        return "unknown"
