"""The user's name."""

from __future__ import annotations

import getpass


def current_user() -> str:
    """Name of the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a user entry
        return "unknown"
