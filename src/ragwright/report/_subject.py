"""The subject of a report: entries with rows, and findings on them.

Everything here is read from stored runs; a report is computed only from these records, so that
clearing a cache never changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..experiment import (
    Ablation,
    BaselineResult,
    Curve,
    Diagnosis,
    GradeMean,
    RowResult,
    StudyVerdict,
)
from ..measure import MeasureScale, Summary

SubjectKind: TypeAlias = Literal["run", "pair", "study"]

FACT_NAMES = {"cost": "cost", "seconds": "seconds", "context_tokens": "context tokens"}
"""Facts of an answer -> their names; less is better for all."""


def no_rows(_texts: bool) -> Iterable[RowResult]:
    """Rows of an entry without rows."""
    return ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One set of rows with scores: an evaluation, or a trial of a study.

    Attributes:
        id: Name, also used in links: ``T007``, or the name of a run.
        summaries: One a measure.
        label: Display name; the id if empty.
        values: Swept key -> value; empty for the current settings.
        current: Of the current settings, the value of each swept key, where it is known.
        people: Measure -> people's grades of its answers, where there are any.
        state: How it ended; ``done`` if there are results.
        rows: Rows it was measured on.
        facts: Mean per answer of ``cost``, ``seconds`` and ``context_tokens``, those known.
        reason: Why there is no result.
        run: Run that holds its rows.
        judge: Key of its judge; scores of different judges are never ranked together.
        read: Reads its rows; with False without their texts, which is faster.
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
    read: Callable[[bool], Iterable[RowResult]] = no_rows
    current: Mapping[str, Any] = field(default_factory=dict)
    people: Mapping[str, GradeMean] = field(default_factory=dict)

    @property
    def shown(self) -> Mapping[str, Any]:
        """Swept key -> value, those of the current settings included."""
        return self.values or self.current

    def value(self, name: str) -> float | None:
        """Mean of a measure with abstentions at the worst value, or a fact; None without."""
        if name in FACT_NAMES:
            return self.facts.get(name)
        return next((s.deciding[0] for s in self.summaries if s.measure == name), None)

    def summary(self, measure: str) -> Summary | None:
        """The summary of a measure."""
        return next((s for s in self.summaries if s.measure == measure), None)


@dataclass(frozen=True, slots=True)
class Goal:
    """An ordering criterion of entries."""

    name: str
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """Entries that can be ranked together: those of one judge.

    Attributes:
        entries: Their ids, best first.
        front: Ids on the Pareto front of the objectives.
        judge: Description of this judge; empty if there is only one.
    """

    entries: tuple[str, ...]
    front: tuple[str, ...] = ()
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """The content of a report.

    Attributes:
        title: Its heading.
        kind: ``run`` (one entry), ``pair`` (the second against the first), or ``study``.
        entries: Every entry; boards hold their order.
        boards: One per judge, that of the current settings first.
        goals: Ordering criteria, the most important first.
        measures: Measures in order.
        facts: Its evidence, label -> text: testset, run, time, settings.
        incumbent: Id of the entry of the current settings, empty if there is none.
        verdict: Results of the best trial on the tune split, and on the confirm split if it was
            opened.
        openings: How often the confirm split of the testset was opened, None where unknown.
        stopped: Why the run is incomplete, empty if it is complete.
        ablation: Effects of the parts of the prompt.
        beside: The ablation is a further part of a report on a study.
        curves: Curves of capability suites.
        diagnosis: Diagnosis of lost points.
        notes: What the reader should know.
        clusters: Row id -> cluster of rows that are not independent; empty if all are.
        baselines: Distances beside those of given pairs: those the report is about, then the other
            experiments of the project.
        about: How many of the baselines the report is about.
    """

    title: str
    kind: SubjectKind
    entries: tuple[Entry, ...]
    boards: tuple[Board, ...] = ()
    goals: tuple[Goal, ...] = ()
    measures: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    incumbent: str = ""
    verdict: StudyVerdict | None = None
    openings: int | None = None
    stopped: str = ""
    ablation: Ablation | None = None
    beside: bool = False
    curves: tuple[Curve, ...] = ()
    diagnosis: Diagnosis | None = None
    notes: tuple[str, ...] = ()
    clusters: Mapping[str, Hashable] = field(default_factory=dict)
    baselines: tuple[BaselineResult, ...] = ()
    about: int = 1

    def entry(self, name: str) -> Entry | None:
        """The entry with an id."""
        return next((entry for entry in self.entries if entry.id == name), None)

    @property
    def best(self) -> Entry | None:
        """The first entry of the first board."""
        found = self.boards[0].entries if self.boards else ()
        return self.entry(found[0]) if found else None

    @property
    def keys(self) -> tuple[str, ...]:
        """Swept keys in order."""
        return tuple(dict.fromkeys(key for entry in self.entries for key in entry.values))

    @property
    def focus(self) -> tuple[Entry, ...]:
        """Entries shown in charts: the baseline first, the compared entry last."""
        if self.kind != "study":
            return self.entries[:2]
        chosen = (self.entry(self.incumbent), self.best)
        found = {entry.id: entry for entry in chosen if entry is not None}
        return tuple(found.values())

    def scale(self, measure: str) -> MeasureScale | None:
        """Range and direction of a measure, if an entry knows them."""
        for entry in self.entries:
            found = entry.summary(measure)
            if found is not None and found.scale is not None:
                return found.scale
        return None

    def counted(self, measure: str) -> tuple[str, ...]:
        """What a measure of retrieval counted in any entry: ``spans``, ``documents``."""
        found = [entry.summary(measure) for entry in self.entries]
        kinds = {what for one in found if one is not None for what in one.counted}
        return tuple(sorted(kinds, reverse=True))

    def upward(self, name: str) -> bool:
        """True if higher is better for a measure or fact."""
        goal = next((goal for goal in self.goals if goal.name == name), None)
        if goal is not None:
            return goal.higher_is_better
        if name in FACT_NAMES:
            return False
        scale = self.scale(name)
        return scale is None or scale.higher_is_better
