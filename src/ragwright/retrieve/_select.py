"""Selection: keeps varied hits if the best ones repeat each other; the most dissimilar texts."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ChannelScore, FilterError, Hit
from ..flow import Vector
from ..models import TokenSource
from ._options import SelectOptions


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


Matrix: TypeAlias = NDArray[np.float64]


def select_hits(
    hits: Sequence[Hit], k: int, options: SelectOptions
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Up to ``k`` of the hits in the order they were chosen, ranks from 1, and notes.

    ``max_per`` excludes hits whose values are used up, then ``balance`` lets the values of a field
    take turns. Scores stay the search's; ``channels["select"]`` holds the rank. Notes report hits
    excluded by a cap, and one-sided ``watch`` or ``balance`` fields.

    Args:
        hits: Best first.
        k: Most hits to keep.
        options: Settings; with the defaults the first ``k`` hits are kept.
    """
    notes: list[str] = []
    chosen = _hits_within_caps(hits, options.max_per)
    if len(chosen) < min(k, len(hits)):
        caps_text = ", ".join(f"{name}: {most}" for name, most in options.max_per.items())
        notes.append(f"{len(chosen)} of {k} hits: max_per ({caps_text}) excludes the others")
    if options.balance:
        chosen = _take_turns(chosen, options.balance)
    selected = chosen[:k]
    if options.active:
        selected = [
            replace(
                hit,
                rank=rank,
                channels={**hit.channels, "select": ChannelScore(rank, round(hit.score, 6))},
            )
            for rank, hit in enumerate(selected, 1)
        ]
    watched = dict.fromkeys((*options.watch, options.balance))
    notes += [note for name in watched if name and (note := one_sided(selected, hits, name))]
    return tuple(selected), tuple(notes)


def _hits_within_caps(hits: Sequence[Hit], caps: Mapping[str, int]) -> list[Hit]:
    """The hits without those of which a value of a capped field is used up."""
    taken: Counter[tuple[str, str]] = Counter()
    kept = []
    for hit in hits:
        labels = [(field, value) for field in caps for value in values_of(hit, field)]
        if all(taken[label] < caps[label[0]] for label in labels):
            taken.update(labels)
            kept.append(hit)
    return kept


def _take_turns(hits: Sequence[Hit], name: str) -> list[Hit]:
    """The same hits, each value of a field giving its next best one in turn.

    Values are in the order of their best hit; hits without a value count as one value.
    """
    queues: dict[str, deque[Hit]] = {}
    for hit in hits:
        for value in values_of(hit, name) or ("",):
            queues.setdefault(value, deque()).append(hit)
    order: dict[str, Hit] = {}
    while any(queues.values()):
        for queue in queues.values():
            while queue and queue[0].chunk_id in order:
                queue.popleft()
            if queue:
                hit = queue.popleft()
                order[hit.chunk_id] = hit
    return list(order.values())


def dissimilar(similarity: Matrix, k: int, seed: int = 0) -> list[int]:
    """Positions of up to ``k`` items that are mutually most dissimilar, in the order chosen.

    The items are shuffled by the seed; the first is taken, then each time the one whose
    greatest similarity to those taken is smallest (farthest-first traversal; Gonzalez 1985).
    Another seed gives another set.
    """
    remaining = list(range(len(similarity)))
    random.Random(seed).shuffle(remaining)  # noqa: S311 - a sample, not a secret
    nearest = np.zeros(len(similarity))
    chosen: list[int] = []
    while remaining and len(chosen) < k:
        best = remaining.pop(int(np.argmin(np.round(nearest[remaining], 6))))
        nearest = np.maximum(nearest, similarity[best]) if chosen else similarity[best]
        chosen.append(best)
    return chosen


def similarities(vectors: Vector | Matrix) -> Matrix:
    """Cosines of all pairs of rows, shape (rows, rows); a zero row has similarity 0."""
    rows = np.nan_to_num(np.asarray(vectors, dtype=np.float64), posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    cosines: Matrix = rows @ rows.T
    return cosines


def word_similarities(texts: Sequence[str], analyzer: TokenSource) -> Matrix:
    """Cosines of the counts of the texts' words, shape (texts, texts)."""
    counts = [Counter(analyzer.tokens(text)) for text in texts]
    place = {token: at for at, token in enumerate(sorted(set().union(*counts)))}
    rows = np.zeros((len(texts), max(1, len(place))))
    for at, count in enumerate(counts):
        for token, number in count.items():
            rows[at, place[token]] = number
    return similarities(rows)
