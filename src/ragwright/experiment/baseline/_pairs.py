"""Sets of questions and answers with their vectors and distances, as stored in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import Row, Score, make_plain
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
        return {name: value for name, value in make_plain(self).items() if name != "sources"}


@dataclass(frozen=True, slots=True)
class DistanceSet:
    """The distances of one set of answers, with the null baselines.

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
    """The comparison of answers with a baseline of pairs.

    Attributes:
        run: Run that holds every pair with its vectors.
        testset: Testset that holds the pairs.
        embedder: Embedding model of all vectors.
        changed: What the experiment changes of the project, as ``key=value``.
        sets: The baseline first.
        shift: The experiment against the baseline.
        context: Answers with the chunk against those without it; None if it was not requested.
        notes: Remarks on the numbers.
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
        """The experiment's label: its name, or else what it changes."""
        return self.name or ", ".join(self.changed) or "the project as it is"

    @property
    def way(self) -> float | None:
        """Distance of S_e from S_b, as a share of the distance from S_b to shuffled answers.

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
        return tuple(pair for group in self.sets for pair in group.pairs)


def read_kept_pairs(name: str, rows: Sequence[Row], distances: QADistances) -> tuple[KeptPair, ...]:
    """The pairs behind distances, with their texts and vectors."""
    by_id: Mapping[str, Row] = {row.id: row for row in rows}
    pairs = []
    for at, key in enumerate(distances.row_ids):
        row = by_id[key]
        pairs.append(
            KeptPair(
                name,
                key,
                row.user_input,
                row.response_text,
                row.retrieved_contexts,
                tuple(distances.questions[at].round(6).tolist()),
                tuple(distances.answers[at].round(6).tolist()),
                distances.own[at],
                _source_documents(row),
                distances.shuffled[at],
                distances.echoed[at],
                distances.chunk[at] if distances.chunk else None,
                distances.ranks[at],
            )
        )
    return tuple(pairs)


def _source_documents(row: Row) -> tuple[str, ...]:
    gold = [span.document_id for span in row.reference_spans]
    return tuple(dict.fromkeys((*gold, *row.reference_ids, *row.retrieved_context_ids)))
