"""Near duplicates: tags that occur together, names that differ only in spelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..declared import Tags, spelling_key
from ._report import Fault, TagOverlap

_OVERLAPS = 20
_KINDS = {"ask_type": "ask type", "topic": "topic", "tone": "tone"}


def same_but_for_writing(
    clients: Sequence[str | None],
) -> list[tuple[tuple[str, int], ...]]:
    """Names that a rollup treats as one, with their rows, the most frequent first."""
    several: dict[str, list[tuple[str, int]]] = {}
    for name, count in Counter(name for name in clients if name).items():
        several.setdefault(spelling_key(name), []).append((name, count))
    return [
        tuple(sorted(names, key=lambda found: (-found[1], found[0])))
        for names in several.values()
        if len(names) > 1
    ]


def merged_tags(tags: Tags) -> tuple[Fault, ...]:
    """Notes on tags that give the same value of a field without being declared so."""
    found = []
    for group in tags.merged():
        first, *others = group
        told = ", ".join(f"{tag.name!r} ({tag.where})" for tag in others)
        found.append(
            Fault(
                f"{first.name!r} and {told} give the same {_KINDS[first.kind]}: {first.display!r}",
                first.where,
                "keep one of them, or give them different `display` names; if this is intended, "
                "write the same `display` under each",
            )
        )
    return tuple(found)


def overlaps(names: tuple[str, ...], carried: NDArray[np.bool_]) -> tuple[TagOverlap, ...]:
    """Pairs of tags that occur together on at least three rows and mostly together, the closest
    first.

    Mostly means on half of the rows with either (Jaccard), or on 80 % of those with the rarer one.
    """
    counted = carried.astype(np.int64)
    both = counted.T @ counted
    found = []
    for one in range(len(names)):
        for two in range(one + 1, len(names)):
            shared, rows = int(both[one, two]), (int(both[one, one]), int(both[two, two]))
            if shared < 3:
                continue
            jaccard = round(shared / (sum(rows) - shared), 4)
            contained = round(shared / min(rows), 4)
            if jaccard >= 0.5 or contained >= 0.8:
                pair = (names[one], names[two])
                found.append(TagOverlap(pair, rows, shared, jaccard, contained))
    return tuple(sorted(found, key=lambda o: (-o.jaccard, -o.contained, o.tags))[:_OVERLAPS])
