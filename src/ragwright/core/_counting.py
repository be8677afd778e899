"""Numbers of things in messages."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 row``, ``2 rows``, ``1,200 rows``.

    Args:
        count: How many.
        one: The noun for 1, with what follows it where that changes too: ``row has``.
        many: The same for any other number; by default ``one`` with an s.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
