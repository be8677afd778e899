"""Sets of questions and answers with their vectors and distances, as a run keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import Row, Score, plain
from ...measure import QADistances, Summary, aggregate, parse_measure
from ..evaluations import RowResult, distance_row
from ._outcome import DistanceShift


@dataclass(frozen=True, slots=True)
class KeptPair:
    """A question with its answer: texts, vectors and distance.

    Attributes:
        set: Set it belongs to.
        id: Row id.
        passages: Texts that the answer was written from: the chunk of a pair of the baseline.
        question_vector: Unit vector of the question, E(Q); likewise ``answer_vector``, E(A).
        distance: 1 - cosine of the two, 0 to 2.
        sources: Ids of the documents whose text it holds.
        shuffled: Distance of the question and the answer of another pair; likewise ``echoed``, of
            the question and itself, and ``random_chunk``. None where it was not computed.
        rank: Rank of its own answer among the answers of its set, from 1.
    """

    set: str
    id: str
    question: str
    answer: str
    passages: tuple[str, ...]
    question_vector: tuple[float, ...]
    answer_vector: tuple[float, ...]
    distance: float
    sources: tuple[str, ...] = field(default=(), repr=False)
    shuffled: float | None = None
    echoed: float | None = None
    random_chunk: float | None = None
    rank: int | None = None

    def body(self) -> dict[str, Any]:
        """The pair as JSON; vectors keep six digits."""
        return {name: value for name, value in plain(self).items() if name != "sources"}


@dataclass(frozen=True, slots=True)
class DistanceSet:
    """The distances of one set of answers beside those that mean nothing.

    Attributes:
        name: ``baseline``, ``experiment``, ``with_chunk`` or ``without_chunk``.
        asked: Questions; those without an answer are ``abstained``, ``failed`` or lack one.
        abstained: Questions that were declined.
        distances: Own distances, ranks and null baselines; None where fewer than two answers.
        pairs: Every pair with its vectors.
        run: Run that holds the answers, empty for the baseline.
    """

    name: str
    asked: int
    abstained: int
    distances: QADistances | None
    pairs: tuple[KeptPair, ...] = field(default=(), repr=False)
    run: str = ""

    @property
    def own(self) -> dict[str, float]:
        """Row id -> distance."""
        return {pair.id: pair.distance for pair in self.pairs}

    @property
    def mean(self) -> float | None:
        """Mean distance, None without pairs."""
        return sum(self.own.values()) / len(self.pairs) if self.pairs else None

    @property
    def summary(self) -> Summary:
        """Mean distance with its interval."""
        scores = [Score("QADistance", "scored", pair.distance) for pair in self.pairs]
        scale = parse_measure("QADistance").known_scale
        return replace(aggregate(scores), scale=scale)

    def results(self) -> tuple[RowResult, ...]:
        """Its pairs as rows scored by ``QADistance``."""
        return tuple(distance_row(pair.body()) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """What comparing answers with a baseline of pairs came to.

    Attributes:
        run: Run that holds every pair with its vectors.
        testset: Where the pairs come from.
        embedder: Embedding model of all vectors.
        changed: What the experiment changes of the project, as ``key=value``.
        sets: The baseline first.
        shift: The experiment against the baseline.
        context: Answers with the chunk against those without it; None where it was not asked.
        notes: What to know of the numbers.
        name: Name of the experiment's run, empty if it has none.
        started: When it was run, seconds since 1970.
    """

    run: str
    testset: str
    embedder: str
    changed: tuple[str, ...]
    sets: tuple[DistanceSet, ...]
    shift: DistanceShift
    context: DistanceShift | None = None
    notes: tuple[str, ...] = ()
    name: str = ""
    started: float = 0.0

    @property
    def label(self) -> str:
        """What to call the experiment: its name, else what it changes."""
        return self.name or ", ".join(self.changed) or "the project as it is"

    @property
    def way(self) -> float | None:
        """How far S_e is from S_b, as a share of the way from S_b to shuffled answers.

        It has no unit, so that experiments with different embedding models can be compared by it.
        """
        known = self.sets[0].distances
        own, answered = self.sets[0].mean, self.sets[1].mean
        if known is None or own is None or answered is None:
            return None
        room = sum(known.shuffled) / len(known.shuffled) - own
        return (answered - own) / room if room > 0 else None

    @property
    def pairs(self) -> tuple[KeptPair, ...]:
        """Every pair of every set."""
        return tuple(pair for one in self.sets for pair in one.pairs)


def kept_pairs(name: str, rows: Sequence[Row], found: QADistances) -> tuple[KeptPair, ...]:
    """The pairs behind distances, with their texts and vectors."""
    by_id: Mapping[str, Row] = {row.id: row for row in rows}
    made = []
    for at, key in enumerate(found.row_ids):
        row = by_id[key]
        made.append(
            KeptPair(
                name,
                key,
                row.user_input,
                row.said,
                row.retrieved_contexts,
                tuple(found.questions[at].round(6).tolist()),
                tuple(found.answers[at].round(6).tolist()),
                found.own[at],
                _sources(row),
                found.shuffled[at],
                found.echoed[at],
                found.chunk[at] if found.chunk else None,
                found.ranks[at],
            )
        )
    return tuple(made)


def _sources(row: Row) -> tuple[str, ...]:
    gold = [span.document_id for span in row.reference_spans]
    return tuple(dict.fromkeys((*gold, *row.reference_ids, *row.retrieved_context_ids)))
