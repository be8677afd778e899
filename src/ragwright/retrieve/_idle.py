"""Notes on excluding filters that exclude nothing, since a misspelt one looks the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core import Filter, FilterError, SoftFilter
from ..flow import Flow, Search, SearchReply, send
from ._target import Target


def idle_exclusions(
    target: Target, filters: Sequence[Filter], soft: Sequence[SoftFilter] = ()
) -> Flow[tuple[str, ...]]:
    """A note for each excluding filter whose values no chunk holds.

    Values are looked up among the chunks under all other hard filters, so that hidden values count
    as unknown. Ranges are not checked. Call it after a search under these filters succeeded, so
    that they have no other fault.
    """
    hard = [
        (condition, [*filters[:at], *filters[at + 1 :]]) for at, condition in enumerate(filters)
    ]
    soft_conditions = [(condition.condition, list(filters)) for condition in soft]
    notes = []
    for condition, others in (*hard, *soft_conditions):
        if not (condition.exclude and condition.values):
            continue
        positive = (*others, replace(condition, exclude=False))
        try:
            yield from send(Search(target.snapshot, "keyword", 0, filters=positive), SearchReply)
        except FilterError as error:
            among = " among the chunks that the other filters allow" if others else ""
            hint = f" ({error.hint})" if error.hint else ""
            notes.append(f"{condition} excludes nothing{among}: {error.what}{hint}")
    return tuple(notes)
