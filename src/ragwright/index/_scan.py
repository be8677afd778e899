"""The slow exact answer: every stored row is gone through, and nothing else is needed.

No view, no segment, no posting list, no approximate index: where any of these fails, this
answers from the rows of the store, with the same scores, order and rungs as the read view.
Keyword searches take two passes, since BM25 needs the number of chunks that hold a word
before it can score the first; all others take one, or two with filters, so that a filter
nobody meets is told from one that nobody carries. Memory does not grow with the corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, RagwrightError, RetrieveError, Term, listed
from ..flow import Search, SearchReply
from ._fields import ALWAYS, in_range, spelling
from ._filters import must_be_held
from ._ladder import Ladder
from ._postings import bonus, gains, length_norms, weighed
from ._stored import Scalar, StoredChunk, StoredDocument, StoredState, fields_of
from ._tokens import token_numbers, unpack_terms

_BLOCK = 512
"""Rows that are scored at once."""

_VALUES = 2_000
"""Most values of a field that are remembered, to name the nearest to a slip."""

Row = tuple[StoredDocument, int, StoredChunk]
Floats = NDArray[np.float64]


def scan(reading: StoredState, requests: Sequence[Search]) -> list[SearchReply | RagwrightError]:
    """Replies to searches of one pair, in their order, each equal to what its view would say.

    A request that is wrong in itself (an unknown field, a vector that does not fit) gets its
    error; the others are answered.

    Raises:
        StoreError: The rows cannot be read.
    """
    asked: list[_Asked | RagwrightError] = []
    for request in requests:
        try:
            asked.append(_Asked(request, reading))
        except RagwrightError as error:
            asked.append(error)
    sound = [one for one in asked if isinstance(one, _Asked)]
    census = _Census(sound)
    if census.needed:
        for rows in blocks(reading.documents()):
            census.add(rows)
    for one in sound:
        one.learn(census)
    open_ = [one for one in sound if one.error is None]
    if open_:
        for rows in blocks(reading.documents()):
            _Block(rows, reading, census).offer(open_)
    return [one if isinstance(one, RagwrightError) else one.reply() for one in asked]


def blocks(documents: Iterable[StoredDocument]) -> Iterator[list[Row]]:
    """Rows, some hundred at a time; a row is a document, its chunk's number and the chunk."""
    rows: list[Row] = []
    for document in documents:
        for number, chunk in enumerate(document.chunks):
            rows.append((document, number, chunk))
            if len(rows) >= _BLOCK:
                yield rows
                rows = []
    if rows:
        yield rows


def _query_vector(request: Search, dimensions: int) -> Floats:
    """The query vector of a request.

    Raises:
        RetrieveError: The pair has no vectors, or the vector is not one of its length and finite.
    """
    if not dimensions:
        raise RetrieveError(
            "this index has no vectors",
            hint="search by keyword, or configure an embedding model and ingest again",
        )
    if len(request.vector) != 4 * dimensions:
        raise RetrieveError(
            f"query vector of {len(request.vector)} bytes, the index has float32 vectors of "
            f"{dimensions} dimensions",
            hint="embed the query with the model of the index",
        )
    vector = np.frombuffer(request.vector, np.float32)
    if not np.isfinite(vector).all():
        raise RetrieveError(
            "the query vector holds NaN or infinity",
            hint="the embedding model failed on this text",
        )
    return vector.astype(np.float64)


class _Asked:
    """One search under way: what it looks for, and the best it has met so far."""

    def __init__(self, request: Search, reading: StoredState) -> None:
        self.request = request
        self.error: RagwrightError | None = None
        self.ladder = None if request.relax is None else Ladder.of(request.relax)
        self.counts: Counter[str] = Counter()
        self.vector: Floats | None = None
        if request.channel == "keyword":
            self.counts = Counter(reading.analyzer.query_tokens(request.text))
        elif request.channel == "dense":
            self.vector = _query_vector(request, reading.dimensions)
        self.numbers = token_numbers(self.counts)
        self.bonuses = [bonus(token) for token in self.counts]
        self.factors: list[float] = []
        self.terms: tuple[Term, ...] = ()
        self.after: tuple[str, int] | None = None
        self._steps: Counter[int] = Counter()
        self._best: list[tuple[Any, str, float, int]] = []

    @property
    def conditions(self) -> tuple[Filter, ...]:
        """All filters, hard ones first."""
        soft = self.ladder.conditions if self.ladder else ()
        return (*self.request.filters, *soft)

    def learn(self, census: _Census) -> None:
        """Take what the first pass found out: rarities of words, wrong filters."""
        try:
            census.check(self)
        except RagwrightError as error:
            self.error = error
            return
        if self.counts:
            frequency = census.frequencies(self.numbers)
            shown = census.shown(self, frequency)
            self.factors, self.terms = weighed(self.counts, frequency, census.rows, shown)

    def take(self, rows: Sequence[Row], scores: Floats, met: NDArray[np.int64]) -> None:
        """Offer rows that meet all hard filters, with scores and the soft filters they meet."""
        rounded = np.rint(scores * 1e6) / 1e6 + 0.0
        relax = self.request.relax
        allowed = np.ones(len(rows), np.bool_)
        if self.request.channel == "keyword":
            allowed &= rounded > 0
        if relax is not None and relax.threshold is not None:
            allowed &= rounded >= relax.threshold
        if relax is not None and relax.soft and not relax.unfiltered:
            allowed &= met > 0
        self._steps.update(met[allowed].tolist())
        weights = self.ladder.totals(met).tolist() if self.ladder else [0] * len(rows)
        for at in np.flatnonzero(allowed).tolist():
            document, number, chunk = rows[at]
            key: Any = (-weights[at], -rounded[at], chunk.id)
            if self.request.channel == "all":
                key = (document.id, number)
                if self.after is not None and key <= self.after:
                    continue
            self._best.append((key, chunk.id, float(rounded[at]), int(met[at])))
        if len(self._best) > 4 * _BLOCK + self.request.k:
            self._cut()

    def _cut(self) -> None:
        self._best.sort(key=lambda one: one[0])
        del self._best[max(0, self.request.k) :]

    def reply(self) -> SearchReply | RagwrightError:
        """What was found, or what was wrong with the question."""
        if self.error is not None:
            return self.error
        self._cut()
        candidates = tuple((name, score) for _, name, score, _ in self._best)
        if self.ladder is None:
            return SearchReply(candidates, terms=self.terms)
        found = np.array([step for *_, step in self._best], np.int64)
        rungs = tuple(self.ladder.all_asked(found))
        steps = np.array(list(self._steps), np.int64)
        order = sorted(
            zip(self.ladder.totals(steps).tolist(), steps.tolist(), strict=True), key=_by_weight
        )
        full = 0 < self.request.k == len(self._best)
        least = self.ladder.totals(found[-1:])[0] if full else 0
        held = [step for weight, step in order if weight >= least]
        names = self.ladder.all_asked(np.array(held, np.int64))
        ladder = tuple(zip(names, (self._steps[step] for step in held), strict=True))
        return SearchReply(candidates, rungs, ladder, self.terms)


def _by_weight(row: tuple[int, int]) -> tuple[int, int, int]:
    """Of equal weight: first what meets more, then the filters asked for first."""
    weight, step = row
    return -weight, -step.bit_count(), step


@dataclass(slots=True)
class _Seen:
    """What the first pass knows of one filter, among the rows that the ones before it leave."""

    rows: bool = False
    met: bool = False
    values: set[str] = field(default_factory=set)


class _Census:
    """What must be known of all rows before the first is scored."""

    def __init__(self, asked: Sequence[_Asked]) -> None:
        numbers = [one.numbers for one in asked if len(one.numbers)]
        self.numbers = np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.uint64)
        self._frequency = np.zeros(len(self.numbers), np.int64)
        self._asked = [one for one in asked if one.conditions]
        self._seen = {id(one): [_Seen() for _ in one.conditions] for one in self._asked}
        self._after: dict[str, tuple[str, int] | None] = {
            one.request.after: None for one in asked if one.request.after
        }
        self._shown = {id(one): np.zeros(len(one.numbers)) for one in asked if one.request.filters}
        self._fields: set[str] = set()
        self.rows = 0
        self.tokens = 0

    @property
    def needed(self) -> bool:
        """False where nothing has to be known beforehand."""
        return bool(len(self.numbers) or self._asked or self._after)

    @property
    def average(self) -> float:
        """Mean number of tokens of a chunk."""
        return self.tokens / self.rows if self.rows else 0.0

    def frequencies(self, numbers: NDArray[np.uint64]) -> Floats:
        """In how many chunks each of these terms stands."""
        return self._frequency[np.searchsorted(self.numbers, numbers)].astype(np.float64)

    def shown(self, asked: _Asked, frequency: Floats) -> Floats:
        """In how many chunks that its hard filters leave each term of a search stands."""
        return self._shown.get(id(asked), frequency)

    def add(self, rows: Sequence[Row]) -> None:
        """Count rows."""
        self.rows += len(rows)
        held: NDArray[np.bool_] | None = None
        if len(self.numbers):
            counts, lengths = term_counts([chunk for *_, chunk in rows], self.numbers)
            held = counts > 0
            self._frequency += held.sum(axis=0)
            self.tokens += int(lengths.sum())
        for at, (document, number, chunk) in enumerate(rows):
            if chunk.id in self._after:
                self._after[chunk.id] = (document.id, number)
            if self._asked:
                self._see(document, chunk, None if held is None else held[at])

    def _see(
        self, document: StoredDocument, chunk: StoredChunk, held: NDArray[np.bool_] | None
    ) -> None:
        fields = fields_of(document, chunk)
        self._fields.update(fields)
        for one in self._asked:
            hard = len(one.request.filters)
            met = [meets(fields, condition) for condition in one.conditions]
            if held is not None and len(one.numbers) and hard and all(met[:hard]):
                self._shown[id(one)] += held[np.searchsorted(self.numbers, one.numbers)]
            for at, (condition, seen) in enumerate(
                zip(one.conditions, self._seen[id(one)], strict=True)
            ):
                left = all(met[: min(at, hard)])
                seen.rows = seen.rows or left
                seen.met = seen.met or (left and met[at])
                # What the other hard filters hide (another tenant's values) is never named.
                if len(seen.values) < _VALUES and all(met[: min(at, hard)] + met[at + 1 : hard]):
                    seen.values.update(map(spelling, fields.get(condition.field, ())))

    def check(self, asked: _Asked) -> None:
        """Refuse filters that no chunk can meet, as the view refuses them.

        Raises:
            FilterError: A field that no chunk carries, or values that no chunk holds which the
                hard filters before leave.
            RetrieveError: The chunk to go on behind is not stored.
        """
        known = zip(asked.conditions, self._seen.get(id(asked), ()), strict=True)
        for condition, seen in known if self.rows else ():
            if condition.field not in self._fields and condition.field not in ALWAYS:
                raise FilterError(
                    f"no chunk carries the field {condition.field!r}",
                    hint=_nearest([condition.field], {*self._fields, *ALWAYS}),
                    field=condition.field,
                )
            if must_be_held(condition) and seen.rows and not seen.met:
                wanted = [spelling(value) for value in condition.values]
                raise FilterError(
                    f"no chunk has {condition.field} = {' or '.join(map(repr, wanted))}",
                    hint=_nearest(wanted, seen.values),
                    field=condition.field,
                    values=wanted,
                )
        request = asked.request
        if request.after:
            asked.after = self._after[request.after]
            if asked.after is None:
                raise RetrieveError(
                    f"no chunk has the id {request.after!r}",
                    where=f"snapshot {request.snapshot}",
                    hint="search and look up in one snapshot",
                )


class _Block:
    """Some hundred rows, with what several searches ask of them worked out once."""

    def __init__(self, rows: Sequence[Row], reading: StoredState, census: _Census) -> None:
        self._rows = rows
        self._numbers = census.numbers
        self._met: dict[str, NDArray[np.bool_]] = {}
        self._fields: list[dict[str, tuple[Scalar, ...]]] = []
        chunks = [chunk for *_, chunk in rows]
        if len(census.numbers):
            counts, lengths = term_counts(chunks, census.numbers)
            norms = length_norms(lengths, census.average, reading.k1, reading.b)
            # The view keeps its impacts as float32: so must this, to round to the same digits.
            self._impacts = (counts / (counts + norms[:, None])).astype(np.float32)
        self._vectors: Floats | None = None
        self._chunks = chunks

    def offer(self, asked: Sequence[_Asked]) -> None:
        """Show the rows to every search."""
        for one in asked:
            allowed = np.ones(len(self._rows), np.bool_)
            for condition in one.request.filters:
                allowed &= self._meeting(condition)
            met = np.zeros(len(self._rows), np.int64)
            for place, condition in enumerate(one.ladder.conditions if one.ladder else ()):
                met |= self._meeting(condition).astype(np.int64) << place
            chosen = np.flatnonzero(allowed)
            if len(chosen):
                scores = self._scores(one)[chosen]
                one.take([self._rows[at] for at in chosen.tolist()], scores, met[chosen])

    def _scores(self, one: _Asked) -> Floats:
        scores = np.zeros(len(self._rows))
        if one.vector is not None:
            if self._vectors is None:
                stacked = np.stack(
                    [chunk.vector for chunk in self._chunks if chunk.vector is not None]
                )
                self._vectors = stacked.astype(np.float64)
            return np.asarray(np.vecdot(self._vectors, one.vector), np.float64)
        columns = np.searchsorted(self._numbers, one.numbers).tolist()
        for column, factor, more in zip(columns, one.factors, one.bonuses, strict=True):
            scores += gains(self._impacts[:, column], factor, more)
        return scores

    def _meeting(self, condition: Filter) -> NDArray[np.bool_]:
        key = repr(condition)
        if key not in self._met:
            if not self._fields:
                self._fields = [fields_of(document, chunk) for document, _, chunk in self._rows]
            self._met[key] = np.array([meets(fields, condition) for fields in self._fields])
        return self._met[key]


def meets(fields: Mapping[str, tuple[Scalar, ...]], condition: Filter) -> bool:
    """True where a chunk with these fields meets a filter."""
    held = [spelling(value) for value in fields.get(condition.field, ())]
    if condition.values:
        holds = any(spelling(value) in held for value in condition.values)
    else:
        holds = bool(in_range(held, condition.low, condition.high))
    return holds != condition.exclude


def term_counts(
    chunks: Sequence[StoredChunk], numbers: NDArray[np.uint64]
) -> tuple[Floats, NDArray[np.int64]]:
    """How often each chunk holds each of some terms (ascending numbers), and its length."""
    terms = [unpack_terms(chunk.terms) for chunk in chunks]
    lengths = np.array([int(counts.sum()) for _, counts in terms], np.int64)
    owners = np.repeat(np.arange(len(terms)), [len(found) for found, _ in terms])
    flat = np.concatenate([found for found, _ in terms])
    amounts = np.concatenate([counts for _, counts in terms])
    at = np.minimum(np.searchsorted(numbers, flat), len(numbers) - 1)
    there = numbers[at] == flat
    counts = np.zeros((len(chunks), len(numbers)))
    counts[owners[there], at[there]] = amounts[there]
    return counts, lengths


def _nearest(wanted: Sequence[str], known: Iterable[str]) -> str | None:
    folded = {name.casefold(): name for name in sorted(known)}
    near = [
        folded[match]
        for name in wanted
        for match in get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    ]
    if near:
        return f"did you mean {', '.join(dict.fromkeys(near))}?"
    return f"one of {listed(sorted(known), 20)}" if folded else None
