"""Excluding filters that exclude nothing: no error, but told, since a slip looks the same."""

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

    Looked for among the chunks that all other hard filters leave: what those hide is as unknown
    as what is nowhere. A range is not judged. To be asked where a search under these filters was
    answered, so that nothing else is wrong with them.
    """
    hard = [(one, [*filters[:at], *filters[at + 1 :]]) for at, one in enumerate(filters)]
    wished = [(one.condition, list(filters)) for one in soft]
    notes = []
    for one, others in (*hard, *wished):
        if not (one.exclude and one.values):
            continue
        asked = (*others, replace(one, exclude=False))
        try:
            yield from send(Search(target.snapshot, "keyword", 0, filters=asked), SearchReply)
        except FilterError as error:
            among = " of what the other filters leave" if others else ""
            hint = f" ({error.hint})" if error.hint else ""
            notes.append(f"{one} excludes nothing{among}: {error.what}{hint}")
    return tuple(notes)
