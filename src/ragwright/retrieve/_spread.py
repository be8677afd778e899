"""The distribution of hits over documents, sections or the values of a field.

The right words from the wrong section, or only one side of a debate, look like a good answer.
Without a model ragwright can show where the hits come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import FilterError, Hit


@dataclass(frozen=True, slots=True)
class Spread:
    """Number of hits with each value of a field.

    Attributes:
        field: The field, as in :func:`values_of`.
        counts: (value, hits), most first, then by value; a hit with several values counts for
            each.
        missing: Hits that hold no value.
        hits: Hits in all.
    """

    field: str
    counts: tuple[tuple[str, int], ...]
    missing: int
    hits: int

    @property
    def largest(self) -> float:
        """Share of the hits that hold the most frequent value, 0 to 1."""
        return self.counts[0][1] / self.hits if self.counts else 0.0


def values_of(hit: Hit, field: str) -> tuple[str, ...]:
    """The values of a hit for a field, as text; empty if it has none.

    ``document_id``, ``source``, ``title`` and ``page`` are the hit's own; ``section`` are its
    headings, as an index knows them, ``section:2`` is the path of them down to the second
    level, as one value; all others are metadata.

    Raises:
        FilterError: ``section:`` is not followed by a level of at least 1.
    """
    name, colon, level = field.partition(":")
    if name == "section" and field not in hit.metadata:
        if colon and not (level.isascii() and level.isdigit() and int(level)):
            raise FilterError(
                f"{field!r} does not name a level of headings", hint="write section:1, …"
            )
        if not colon:
            return tuple(dict.fromkeys(hit.headings))
        path = hit.headings[: int(level)]
        return (" › ".join(path),) if path else ()
    if field in ("document_id", "source", "title", "page"):
        value_of_hit = getattr(hit, field)
        return () if value_of_hit is None or value_of_hit == "" else (str(value_of_hit),)
    value = hit.metadata.get(field)
    if value is None or value == "":
        return ()
    return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else (str(value),)


def spread(hits: Sequence[Hit], field: str) -> Spread:
    """Distribution of hits over the values of a field (see :func:`values_of`)."""
    values_by_hit = [values_of(hit, field) for hit in hits]
    counts = Counter(value for values in values_by_hit for value in values)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return Spread(field, tuple(ordered), sum(not values for values in values_by_hit), len(hits))


def one_sided(hits: Sequence[Hit], pool: Sequence[Hit], field: str) -> str:
    """A note if all hits have the same value of a field but the pool has others; else empty.

    Args:
        hits: Two or more hits that were kept.
        pool: All that were found, the hits among them.
        field: As in :func:`values_of`.
    """
    if len(hits) < 2:
        return ""
    value_sets = [set(values_of(hit, field)) for hit in hits]
    around = [values for hit in pool if (values := values_of(hit, field))]
    # For a field with several values, such as section, only values that others lack count.
    sides = sorted(
        value
        for value in set.intersection(*value_sets)
        if any(value not in values for values in around)
    )
    if not sides:
        return ""
    elsewhere = [values for values in around if not set(sides) & set(values)]
    present = set.union(*value_sets)
    counts = Counter(value for values in elsewhere for value in values if value not in present)
    others = [value for value, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    examples = ", ".join(repr(value) for value in others[:3]) or "hits without it"
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return (
        f"one-sided: all {len(hits)} hits have {field} {' and '.join(map(repr, sides))}, while "
        f"the search also found {examples}{more} (balance {field}, or set a filter)"
    )
