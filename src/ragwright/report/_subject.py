"""The subject of a report: entries with their rows, findings, and correlations.

All of it comes from stored runs, so clearing a cache never changes a report.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..experiment import (
    Ablation,
    AnswerCounts,
    BaselineResult,
    Curve,
    Diagnosis,
    RowResult,
    StudyVerdict,
)
from ..measure import MeasureScale, Summary
from ._text import is_numeric, value_text

SubjectKind: TypeAlias = Literal["run", "pair", "study"]

FACT_NAMES = {"cost": "cost", "seconds": "seconds", "context_tokens": "context tokens"}
"""Facts of an answer -> their names; less is better for all."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """Rows with scores: an evaluation, or a trial of a study.

    Attributes:
        id: Name, also used in links: ``T007``, or the name of a run.
        summaries: One per measure.
        label: Display name; the id if empty.
        values: Swept key -> value; empty for the current settings.
        current: Swept key -> value in the current settings, where it is known.
        state: How it ended; ``done`` if there are results.
        rows: Rows it was measured on.
        facts: Mean per answer of ``cost``, ``seconds`` and ``context_tokens``, those known.
        reason: Why it has no result.
        run: Run that holds its rows.
        judge: Key of its judge; scores of different judges are never ranked together.
        read: Reads its rows.
        counts: What became of its questions; of an evaluation.
    """

    id: str
    summaries: tuple[Summary, ...] = ()
    label: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    state: str = "done"
    rows: int = 0
    facts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    run: str = ""
    judge: str = ""
    read: Callable[[], Iterable[RowResult]] = tuple
    current: Mapping[str, Any] = field(default_factory=dict)
    counts: AnswerCounts = field(default_factory=AnswerCounts)

    @property
    def shown(self) -> Mapping[str, Any]:
        """Swept key -> value, also in the current settings."""
        return self.values or self.current

    def value(self, name: str) -> float | None:
        """Return a fact, or the mean of a measure with abstentions at its worst value."""
        if name in FACT_NAMES:
            return self.facts.get(name)
        return next((s.deciding[0] for s in self.summaries if s.measure == name), None)

    def summary(self, measure: str) -> Summary | None:
        """Return the summary of a measure."""
        return next((s for s in self.summaries if s.measure == measure), None)


@dataclass(frozen=True, slots=True)
class Board:
    """Entries that can be ranked together, because they have the same judge.

    Attributes:
        entries: Their ids, best first.
        judge: Description of this judge; empty if there is only one.
    """

    entries: tuple[str, ...]
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """The content of a report.

    Attributes:
        title: Its heading.
        kind: ``run`` (one entry), ``pair`` (the second against the first), or ``study``.
        entries: Every entry; boards hold their order.
        boards: One per judge, that of the current settings first.
        goal: The measure that orders the trials of a study.
        measures: Measures in order.
        facts: Its evidence, label -> text: testset, run, time, settings.
        incumbent: Id of the entry of the current settings, empty if there is none.
        verdict: Results of the best trial on the tune split, and on the confirm split if it was
            opened.
        openings: Number of openings of the testset's confirm split, None if unknown.
        stopped: Why the run is incomplete, empty if it is complete.
        ablation: Effects of the parts of the prompt.
        curves: Curves of capability suites.
        diagnosis: Diagnosis of lost points.
        notes: Limits and warnings for the reader.
        clusters: Row id -> cluster of rows that are not independent; empty if all are.
        baselines: Baselines that the report is about, then the other experiments of the project.
        questions: What the rows are if a program made them: ``generated questions``.
        about: Number of baselines that the report is about.
    """

    title: str
    kind: SubjectKind
    entries: tuple[ScoredRun, ...]
    boards: tuple[Board, ...] = ()
    goal: str = ""
    measures: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    incumbent: str = ""
    verdict: StudyVerdict | None = None
    openings: int | None = None
    stopped: str = ""
    ablation: Ablation | None = None
    curves: tuple[Curve, ...] = ()
    diagnosis: Diagnosis | None = None
    notes: tuple[str, ...] = ()
    clusters: Mapping[str, Hashable] = field(default_factory=dict)
    baselines: tuple[BaselineResult, ...] = ()
    about: int = 1
    questions: str = ""

    def entry(self, name: str) -> ScoredRun | None:
        """Return the entry with an id."""
        return next((entry for entry in self.entries if entry.id == name), None)

    def ranked(self, board: Board) -> list[ScoredRun]:
        """Return the entries of a leaderboard, best first."""
        entries = {entry.id: entry for entry in self.entries}
        return [entries[name] for name in board.entries if name in entries]

    @property
    def best(self) -> ScoredRun | None:
        """The first entry of the first board."""
        return next(iter(self.ranked(self.boards[0])), None) if self.boards else None

    @property
    def keys(self) -> tuple[str, ...]:
        """Swept keys in order."""
        return tuple(dict.fromkeys(key for entry in self.entries for key in entry.values))

    @property
    def focus(self) -> tuple[ScoredRun, ...]:
        """Entries shown in charts: the baseline first, the compared entry last."""
        if self.kind != "study":
            return self.entries[:2]
        pair = {entry.id: entry for entry in (self.entry(self.incumbent), self.best) if entry}
        return tuple(pair.values())

    def summaries(self, measure: str) -> list[Summary]:
        """Return the summaries of a measure, in the order of the entries."""
        return [s for entry in self.entries if (s := entry.summary(measure)) is not None]

    def scale(self, measure: str) -> MeasureScale | None:
        """Return range and direction of a measure, if an entry knows them."""
        return next((s.scale for s in self.summaries(measure) if s.scale is not None), None)

    def counted(self, measure: str) -> tuple[str, ...]:
        """Return what a measure of retrieval counted in any entry: ``spans``, ``documents``."""
        kinds = {kind for summary in self.summaries(measure) for kind in summary.counted}
        return tuple(sorted(kinds, reverse=True))

    def upward(self, name: str) -> bool:
        """Return True if higher is better for a measure or fact."""
        scale = self.scale(name)
        return name not in FACT_NAMES and (scale is None or scale.higher_is_better)


_FEWEST = 4
"""Least number of pairs for a correlation."""


@dataclass(frozen=True, slots=True)
class ColumnRelation:
    """The correlation of two columns: Spearman's rho over ``n`` pairs.

    ``rho`` is None if undefined: too few pairs, or one side does not vary.
    """

    first: str
    second: str
    rho: float | None
    n: int


def spearman(first: Sequence[float | None], second: Sequence[float | None]) -> ColumnRelation:
    """Return Spearman's rho of the complete pairs; ties share their mean rank."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    sides = np.array(pairs, dtype=np.float64).reshape(-1, 2).T.round(6)
    if len(pairs) < _FEWEST or not np.ptp(sides, axis=1).all():
        return ColumnRelation("", "", None, len(pairs))
    rho = np.corrcoef([_ranks(side) for side in sides])[0, 1]
    return ColumnRelation("", "", round(float(rho), 6), len(pairs))


def parameter_relations(subject: Subject) -> tuple[ColumnRelation, ...]:
    """Correlate every measure and fact with every swept key, over the trials of the first judge.

    Numeric keys are used directly; each value of other keys becomes a column that is 1 for trials
    with it. The current settings are left out, since their values were not chosen by the sweep.
    """
    chosen = set(subject.boards[0].entries) if subject.boards else set()
    trials = [entry for entry in subject.entries if entry.values and entry.id in chosen]
    columns = _columns([entry.values for entry in trials])
    facts = (f for f in FACT_NAMES if any(trial.facts.get(f) for trial in trials))
    return tuple(
        replace(spearman([trial.value(name) for trial in trials], numbers), first=name, second=key)
        for name in (*subject.measures, *facts)
        for key, numbers in columns.items()
    )


def _columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    keys = dict.fromkeys(key for values in settings for key in values)
    columns: dict[str, list[float | None]] = {}
    for key in keys:
        values = [chosen.get(key) for chosen in settings]
        if is_numeric([value for value in values if value is not None]):
            columns[key] = [None if value is None else float(value) for value in values]
            continue
        texts = [value_text(value) for value in values]
        distinct = sorted(set(texts))
        # With two values, the second column is redundant.
        for text in distinct[1:] if len(distinct) == 2 else distinct:
            columns[f"{key} = {text}"] = [float(other == text) for other in texts]
    return columns


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places], dtype=np.float64)
