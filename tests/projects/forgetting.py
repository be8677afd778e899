"""Forgets in a ledger alone, as ``ragwright forget`` does in each of a project."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from ragwright.ledger import Ledger, Place, forget


def forget_at(place: Place, **named: str) -> Mapping[str, int]:
    """Purge a document (``source``) or a ``scope``; returns the counts."""
    with closing(Ledger(place)) as ledger:
        return forget(ledger.database, **named)
