"""Selection: keeps varied hits if the best ones repeat each other."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ChannelScore, FilterError, Hit
from ..flow import Flow, Lookup, LookupReply, Vector, send
from ..models import AnalyzerOptions, TokenSource, make_analyzer
from ._options import SelectOptions
from ._target import Target


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
Selected: TypeAlias = tuple[tuple[Hit, ...], tuple[str, ...]]


def diversify(
    hits: Sequence[Hit], k: int, target: Target, options: SelectOptions
) -> Flow[Selected]:
    """:func:`select_hits` with the vectors of the index, if the method compares hits.

    Hits are compared by the text that was indexed, so select before expanding them.
    """
    vectors: Vector | None = None
    lookup_notes: tuple[str, ...] = ()
    if options.method and target.model and hits:
        request = Lookup(target.snapshot, tuple(hit.chunk_id for hit in hits), vectors=True)
        reply = yield from send(request, LookupReply)
        vectors, lookup_notes = reply.vectors, reply.notes
    selected, notes = select_hits(hits, k, options, vectors, target.analyzer)
    return selected, (*lookup_notes, *notes)


def select_hits(
    hits: Sequence[Hit],
    k: int,
    options: SelectOptions,
    vectors: Vector | None = None,
    analyzer: TokenSource | None = None,
) -> Selected:
    """Up to ``k`` of the hits in the order they were chosen, ranks from 1, and notes.

    The method chooses hits one by one, ``max_per`` excludes those whose values are used up, then
    ``balance`` lets the values of a field take turns. Scores stay the search's;
    ``channels["select"]`` holds the rank, and the value by which a method chose the hit. Notes
    report hits excluded by a cap, how texts were compared, and one-sided ``watch`` or ``balance``
    fields.

    Args:
        hits: Best first.
        k: Most hits to keep.
        options: Settings; with the defaults the first ``k`` hits are kept.
        vectors: One row per hit, for the methods; else texts are compared by their words.
        analyzer: Cuts texts into words if there are no vectors.
    """
    notes: list[str] = []
    caps = _Caps(hits, options.max_per)
    most = len(hits) if options.balance else k
    if options.method and hits:
        if vectors is not None and len(vectors) == len(hits):
            similarity = similarities(vectors)
        else:
            texts = [hit.text for hit in hits]
            similarity = word_similarities(texts, analyzer or make_analyzer(AnalyzerOptions()))
            notes.append(
                f"{options.method} compared the hits by their words: the index has no vectors"
            )
        if options.method == "dissimilar":
            chosen = _most_dissimilar(similarity, most, 0, caps)
        else:
            base = 0.5 * _scaled_relevance(hits)
            chosen = _greedy_choice(base, similarity, most, 0.5, caps)
    else:
        chosen = [(at, hits[at].score) for at in range(len(hits)) if caps.take(at)][:most]
    if len(chosen) < min(k, len(hits)):
        caps_text = ", ".join(f"{name}: {most}" for name, most in options.max_per.items())
        notes.append(f"{len(chosen)} of {k} hits: max_per ({caps_text}) excludes the others")
    if options.balance:
        chosen = _take_turns(hits, chosen, options.balance)
    selected = []
    for rank, (at, value) in enumerate(chosen[:k], 1):
        hit = hits[at]
        if options.active:
            channels = {**hit.channels, "select": ChannelScore(rank, round(value, 6))}
            hit = replace(hit, rank=rank, channels=channels)
        selected.append(hit)
    watched = dict.fromkeys((*options.watch, options.balance))
    notes += [note for name in watched if name and (note := one_sided(selected, hits, name))]
    return tuple(selected), tuple(notes)


def mmr(
    relevance: Sequence[float], similarity: Matrix, k: int, share: float = 0.5
) -> list[tuple[int, float]]:
    """Maximal marginal relevance: up to ``k`` (position, value), in the order chosen.

    Each time the item with the largest ``share * relevance - (1 - share) * s`` is taken, s its
    greatest similarity to the items already taken, 0 at first (Carbonell and Goldstein, SIGIR
    1998). Values are rounded to 6 digits, ties go to the first.

    Args:
        relevance: One value per item, on the scale of the similarities.
        similarity: Shape (items, items), symmetric.
        k: Most items to take.
        share: Lambda, 0 to 1; 1 ranks by relevance alone.
    """
    base = share * np.asarray(relevance, dtype=np.float64)
    return _greedy_choice(base, similarity, k, 1 - share, _Caps((), {}))


def dissimilar(similarity: Matrix, k: int, seed: int = 0) -> list[int]:
    """Positions of up to ``k`` items that are mutually most dissimilar, in the order chosen.

    The items are shuffled by the seed; the first is taken, then each time the one whose
    greatest similarity to those taken is smallest (farthest-first traversal; Gonzalez 1985).
    Another seed gives another set.
    """
    return [at for at, _ in _most_dissimilar(similarity, k, seed, _Caps((), {}))]


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


class _Caps:
    """Remaining number of items for each value of each capped field."""

    def __init__(self, hits: Sequence[Hit], most: Mapping[str, int]) -> None:
        self._most = most
        self._labels = [[(f, v) for f in most for v in values_of(hit, f)] for hit in hits]
        self._taken: Counter[tuple[str, str]] = Counter()

    def open(self, at: int) -> bool:
        """True if no value of the item is used up; always for items without a value."""
        return not self._most or all(
            self._taken[label] < self._most[label[0]] for label in self._labels[at]
        )

    def take(self, at: int) -> bool:
        """Count the item; False if it is excluded."""
        free = self.open(at)
        if free and self._most:
            self._taken.update(self._labels[at])
        return free


def _most_dissimilar(similarity: Matrix, k: int, seed: int, caps: _Caps) -> list[tuple[int, float]]:
    order = list(range(len(similarity)))
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    return _greedy_choice(np.zeros(len(order)), similarity, k, 1.0, caps, order)


def _greedy_choice(
    base: Matrix,
    similarity: Matrix,
    k: int,
    penalty: float,
    caps: _Caps,
    order: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Up to k (position, value), each time the largest ``base - penalty * nearest``.

    ``nearest`` is the greatest similarity to the items taken; ties go to the first in order.
    """
    remaining = list(range(len(base)) if order is None else order)
    nearest = np.zeros(len(base))
    chosen: list[tuple[int, float]] = []
    while len(chosen) < k and (remaining := [at for at in remaining if caps.open(at)]):
        values = np.round(base[remaining] - penalty * nearest[remaining], 6)
        place = int(np.argmax(values))
        best = remaining.pop(place)
        caps.take(best)
        nearest = np.maximum(nearest, similarity[best]) if chosen else similarity[best]
        chosen.append((best, float(values[place])))
    return chosen


def _scaled_relevance(hits: Sequence[Hit]) -> Matrix:
    """Scores between 0 and 1; with relaxation levels the position, since levels come first."""
    scores = np.array([hit.score for hit in hits], dtype=np.float64)
    if any(hit.rung is not None for hit in hits):
        scores = np.arange(len(hits), 0, -1, dtype=np.float64) / len(hits)
    low, high = scores.min(), scores.max()
    scaled: Matrix = (scores - low) / (high - low) if high > low else np.ones(len(hits))
    return scaled


def _take_turns(
    hits: Sequence[Hit], chosen: Sequence[tuple[int, float]], name: str
) -> list[tuple[int, float]]:
    """The same items, each value of a field giving its next best one in turn.

    Values are in the order of their best item; items without a value count as one value.
    """
    queues: dict[str, deque[tuple[int, float]]] = {}
    for item in chosen:
        for value in values_of(hits[item[0]], name) or ("",):
            queues.setdefault(value, deque()).append(item)
    order: dict[tuple[int, float], None] = {}
    while any(queues.values()):
        for queue in queues.values():
            while queue and queue[0] in order:
                queue.popleft()
            if queue:
                order[queue.popleft()] = None
    return list(order)
