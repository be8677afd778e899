"""Sets of people's verdicts: the answers, who judged them, and on what scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...core import Row, TestsetError, count_noun, suggest_name


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quality that people judged, such as ``faithfulness``; higher labels are better.

    Attributes:
        name: As the set names it.
        low: Worst label.
        high: Best label.
        mapping: How labels of the set became numbers, for the reader; empty if they are unchanged.
        of: Dimension whose labels this one divides in two; empty for a dimension of its own.
        threshold: Smallest label of ``of`` that counts as 1.
    """

    name: str
    low: float
    high: float
    mapping: str = ""
    of: str = ""
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One answer with the labels of people; or a pair of answers with their preference.

    Attributes:
        row: The answer, with question, passages and reference as far as the set has them.
        labels: Dimension -> person -> label. Of a pair, above 0 means that ``second`` is better.
        task: Answers of one task (a question, an article, a topic) are resampled together.
        system: What gave the answer; empty if unknown.
        verdicts: Recorded verdicts of other judges that the set holds: name -> value.
        second: The other answer of a pair; None for a single answer.
        topic: Subject that several tasks share; empty if it is the task.
    """

    row: Row
    labels: Mapping[str, Mapping[str, float]]
    task: str
    system: str = ""
    verdicts: Mapping[str, float] = field(default_factory=dict)
    second: Row | None = None
    topic: str = ""


@dataclass(frozen=True, slots=True)
class PeopleSet:
    """A set of people's verdicts.

    Attributes:
        name: Short name, ``mtrag``.
        rated: Answers or pairs, each id once.
        dimensions: What people judged, in the order of the set.
        notes: What was left out and how labels were read, for the reader.
        scales: Name of recorded verdicts -> worst and best value; those without one have only
            statistics of ranks.
        source: The set as it was named, with its path.
        runs: Runs of the project whose scores are recorded verdicts on the rows.
    """

    name: str
    rated: tuple[RatedAnswer, ...]
    dimensions: tuple[Dimension, ...]
    notes: tuple[str, ...] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    source: str = ""
    runs: tuple[str, ...] = ()

    @property
    def pairs(self) -> bool:
        """True if people compared two answers instead of judging one."""
        return any(item.second is not None for item in self.rated)

    @property
    def tasks(self) -> int:
        """Number of different tasks."""
        return len({item.task for item in self.rated})


Adapter: TypeAlias = Callable[..., PeopleSet]
"""Function that reads a set from its files: ``read(files: SetFiles) -> PeopleSet``."""


def check_people(people: PeopleSet) -> PeopleSet:
    """Return a set whose rows, ids and labels can be used.

    Raises:
        TestsetError: It has no rows or dimensions, an id twice, a dimension that is not declared,
            or a label off the scale; the row is named.
    """
    known = {dimension.name: dimension for dimension in people.dimensions if not dimension.of}
    ids: set[str] = set()
    for item in people.rated:
        if item.row.id in ids:
            raise TestsetError(
                f"the id {item.row.id!r} occurs twice",
                where=people.source,
                hint="give each answer its own id, or map a column to rater if several people "
                "judged one answer",
            )
        ids.add(item.row.id)
        for name, by_rater in item.labels.items():
            if name not in known:
                raise TestsetError(
                    f"row {item.row.id!r} has labels of {name!r}, which the set does not declare",
                    where=people.source,
                    hint=suggest_name(name, known),
                )
            for label in by_rater.values():
                scale = known[name]
                if not math.isfinite(label) or not scale.low <= label <= scale.high:
                    raise TestsetError(
                        f"the label {label:g} of row {item.row.id!r} is off the scale of {name}",
                        where=people.source,
                        hint=f"labels must be between {scale.low:g} and {scale.high:g}",
                    )
    if not any(labels for item in people.rated for labels in item.labels.values()):
        raise TestsetError(
            f"the set {people.name} holds no label of a person",
            where=people.source,
            hint="check the path and the names of the columns",
        )
    return people


def labels_of(people: PeopleSet, dimension: Dimension) -> dict[str, dict[str, float]]:
    """Row id -> person -> label of one dimension; rows without a label are left out."""
    name = dimension.of or dimension.name
    labels_by_row: dict[str, dict[str, float]] = {}
    for item in people.rated:
        labels = item.labels.get(name)
        if labels:
            labels_by_row[item.row.id] = {
                rater: threshold_label(label, dimension) for rater, label in labels.items()
            }
    return labels_by_row


def threshold_label(label: float, dimension: Dimension) -> float:
    """A label on the scale of a dimension: of a divided one 1 from the threshold on, else 0."""
    return float(label >= dimension.threshold) if dimension.of else label


def note_left_out(count: int, what: str, why: str = "") -> tuple[str, ...]:
    """A note on rows that are not used; none if there are none."""
    return (f"left out: {count_noun(count, what)}{why}",) if count else ()
