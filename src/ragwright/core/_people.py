"""The name of the user, and the hash that replaces the name of an erased person."""

from __future__ import annotations

import getpass
import hashlib


def current_user() -> str:
    """Name of the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a user entry
        return "unknown"


def erased_name(name: str) -> str:
    """The hash that stands for an erased name where a fact is kept and the name must not be."""
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def person_source(name: str) -> str:
    """The source of replies to what a person asked, under which they are forgotten."""
    return f"ragwright:person:{erased_name(name)}"
