"""Baselines in the run store: sets of questions and answers, their distances and shifts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from ...core import MeasureError, Row, Score, StoreError, make_plain
from ...flow import Run, Runs
from ...measure import (
    QADistances,
    Summary,
    aggregate,
    compare_rows,
    parse_measure,
)
from ...project import Project, ProjectFolder
from ..evaluations import (
    BASELINE,
    KnownRun,
    RowResult,
    distance_row,
    find_known_run,
    find_run,
    read_plain,
)

T = TypeVar("T")


def load_baseline(runs: Runs, name: str) -> BaselineResult:
    """A baseline that was run before, from its stored pairs alone.

    Raises:
        StoreError: No such run exists, it is not a baseline, or its pairs were forgotten.
    """
    run = runs.get(name if runs.holds(name) else find_run(runs, name))
    if run.kind != BASELINE:
        raise StoreError(f"the run {run.id} is not a baseline", hint="it is of `ragwright eval`")
    by_set: dict[str, list[KeptPair]] = {BASELINE: []}
    for row in runs.rows(run.id):
        pair = read_plain(KeptPair, row.body)
        by_set.setdefault(pair.set, []).append(pair)
    if len(by_set) < 2 or not by_set[BASELINE]:
        raise StoreError(
            f"the baseline {run.id} has no answers that can be compared",
            hint="run `ragwright baseline` again",
        )
    # Of a pair that the experiment did not answer, the null baselines are not known.
    compared = [pair for pair in by_set[BASELINE] if pair.shuffled is not None]
    by_set[BASELINE] = compared or by_set[BASELINE]
    manifest = run.manifest
    sets = tuple(_set_of(each, pairs, manifest) for each, pairs in by_set.items())
    shift, context = _shifts_of(sets, manifest["margin"], manifest["seed"])
    return BaselineResult(
        run.id,
        manifest["testset"],
        manifest["embedder"],
        tuple(manifest["changed"]),
        sets,
        shift,
        context,
        tuple(manifest["notes"]),
        manifest["name"],
        run.started,
    )


def load_baselines(runs: Runs, most: int | None = None) -> tuple[BaselineResult, ...]:
    """Baselines of a project, newest first; those that cannot be compared are left out.

    Args:
        runs: The run store.
        most: Read only this many, the newest ones; None for all.
    """
    results: list[BaselineResult] = []
    for run in reversed(baseline_runs(runs)):
        if most is not None and len(results) == most:
            break
        try:
            results.append(load_baseline(runs, run.id))
        except StoreError:  # all its pairs are forgotten
            continue
    return tuple(results)


def list_baselines(folder: str | Path) -> tuple[KnownRun, ...]:
    """Return every stored baseline of a project folder as an entry of a list, newest first."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return tuple(map(find_known_run, reversed(baseline_runs(project.runs))))


def open_baselines(folder: str | Path, names: Sequence[str]) -> tuple[BaselineResult, ...]:
    """Baselines of a project folder by their names; raises as :func:`load_baseline`."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return tuple(load_baseline(project.runs, name) for name in names)


def baseline_runs(runs: Runs) -> list[Run]:
    """Runs of baselines that are complete, oldest first."""
    return [run for run in runs.list(BASELINE) if run.state == "complete"]


def _shifts_of(
    sets: Sequence[DistanceSet], share: float, seed: int
) -> tuple[DistanceShift, DistanceShift | None]:
    """The experiment against the baseline, and answers with the chunk against those without it.

    Args:
        sets: The baseline first, then the experiment.
        share: Largest mean change that counts as equal, as a share of the way from the baseline's
            own answers to shuffled ones.
        seed: Seed of intervals and tests.
    """
    known = sets[0].distances
    margin = 0.0
    if known is not None:
        own, other = (sum(values) / len(values) for values in (known.own, known.shuffled))
        margin = share * (other - own)
    shift = distance_shift(sets[0].own, sets[1].own, margin, seed=seed)
    by_name = {group.name: group.own for group in sets}
    if not {"with_chunk", "without_chunk"} <= by_name.keys():
        return shift, None
    context = distance_shift(by_name["without_chunk"], by_name["with_chunk"], margin, seed=seed)
    return shift, context


def _set_of(name: str, pairs: Sequence[KeptPair], manifest: Mapping[str, Any]) -> DistanceSet:
    questions, abstained = manifest["asked"][name]
    run = manifest["runs"].get(name, "")
    if len(pairs) < 2:
        return DistanceSet(name, questions, abstained, None, tuple(pairs), run)
    distances = QADistances(
        tuple(pair.id for pair in pairs),
        tuple(pair.distance for pair in pairs),
        _drop_unknown(pair.shuffled for pair in pairs),
        _drop_unknown(pair.echoed for pair in pairs),
        _drop_unknown(pair.random_chunk for pair in pairs),
        _drop_unknown(pair.rank for pair in pairs),
        np.array([pair.question_vector for pair in pairs]),
        np.array([pair.answer_vector for pair in pairs]),
    )
    return DistanceSet(name, questions, abstained, distances, tuple(pairs), run)


def _drop_unknown(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(value for value in values if value is not None)


BaselineOutcome: TypeAlias = Literal["smaller", "about equal", "larger", "undecided"]

_DISTANCE = "QADistance"
_LEVEL = 0.05
_SETTLED = 0.9
"""Share of the remaining margin that the interval may fill, when pairs are estimated."""


@dataclass(frozen=True, slots=True)
class DistanceShift:
    """The difference between two sets of distances, pair by pair.

    Attributes:
        outcome: ``about equal`` where the interval lies within the margin; else ``smaller`` or
            ``larger`` where the paired test shows it at 5 %; else ``undecided``.
        n: Pairs that both sets have an answer to.
        difference: Mean of the second distance minus the first, None without pairs.
        low: Lower end of its 95 % interval, ``high`` its upper end; None below two pairs.
        p: Two-sided p-value of the paired permutation test.
        margin: Largest difference that counts as equal, in units of the distance.
        more: About how many more pairs would show that the two are equal; None where they differ
            by more than the margin, or it is shown already.
        rare: The test shows a difference that pairs of a kind too rare to be among these could
            reverse: true of most small sets.
        reason: Why it is undecided although there are pairs enough; empty else.
    """

    outcome: BaselineOutcome
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    margin: float
    more: int | None = None
    rare: bool = False
    reason: str = ""


def distance_shift(
    before: Mapping[str, float], after: Mapping[str, float], margin: float, *, seed: int = 0
) -> DistanceShift:
    """Compare two sets of distances over the pairs that both hold (SPEC C3).

    Args:
        before: Row id -> distance of the baseline.
        after: Likewise of the experiment.
        margin: Largest mean difference that counts as equal, in units of the distance. At 0 or
            less the baseline's own answers are no nearer than shuffled ones, and there is no
            outcome.
        seed: Seed of the interval and of the test.
    """
    shared = [name for name in before if name in after]
    differences = [round(after[name] - before[name], 6) for name in shared]
    summary = aggregate([Score("difference", "scored", value) for value in differences], seed)
    low, high = summary.low, summary.high
    if len(differences) > 1 and len(set(differences)) == 1:
        low = high = differences[0]
    try:
        compared = compare_rows(_distance_scores(before), _distance_scores(after), seed=seed)[
            _DISTANCE
        ]
    except MeasureError:
        return DistanceShift("undecided", 0, None, None, None, None, margin)
    outcome: BaselineOutcome = "undecided"
    reason = ""
    if margin <= 0:
        reason = (
            "the baseline's own answers are no nearer to their questions than shuffled answers, so "
            "these distances say nothing: use another embedding model"
        )
    elif low is not None and high is not None and -margin <= low and high <= margin:
        outcome = "about equal"
    elif summary.mean and compared.p is not None and compared.p <= _LEVEL:
        outcome = "smaller" if summary.mean < 0 else "larger"
    rare = outcome in ("smaller", "larger") and compared.verdict == "no change proven"
    more = _more_pairs(differences, margin) if outcome == "undecided" and not reason else None
    return DistanceShift(
        outcome,
        len(differences),
        summary.mean,
        low,
        high,
        compared.p,
        max(margin, 0.0),
        more,
        rare,
        reason,
    )


def _more_pairs(differences: Sequence[float], margin: float) -> int | None:
    """Estimate how many more pairs of this spread put the interval within the margin."""
    if len(differences) < 2:
        return None
    mean = sum(differences) / len(differences)
    room = _SETTLED * (margin - abs(mean))
    if room <= 0:
        return None
    spread = math.sqrt(sum((value - mean) ** 2 for value in differences) / (len(differences) - 1))
    return max(1, math.ceil((1.96 * spread / room) ** 2) - len(differences))


def _distance_scores(distances: Mapping[str, float]) -> dict[str, tuple[Score, ...]]:
    return {name: (Score(_DISTANCE, "scored", value),) for name, value in distances.items()}


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
        return replace(aggregate(scores), scale=parse_measure("QADistance").known_scale)

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
                tuple(
                    dict.fromkeys(
                        (
                            *(span.document_id for span in row.reference_spans),
                            *row.reference_ids,
                            *row.retrieved_context_ids,
                        )
                    )
                ),
                distances.shuffled[at],
                distances.echoed[at],
                distances.chunk[at] if distances.chunk else None,
                distances.ranks[at],
            )
        )
    return tuple(pairs)
