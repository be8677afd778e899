"""Results of tuning a model of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import TestsetError
from ..experiment import (
    Evaluating,
    Evaluation,
    clusters_of_results,
    compare_evaluations,
    evaluate_testset,
    grounds,
)
from ..measure import Comparison
from ..project import Project, load_settings
from ..testsets import Split, project_testset


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Figures of the training questions, before held-out questions are opened.

    Attributes:
        questions: Training questions with gold in the index.
        measure: Measure of ``before`` and ``after``, for example ``MRR@10, dense``.
        before: Value without the tuned part.
        after: Value with it, on questions that it has not seen.
        method: Method of keeping questions unseen, for example ``cross-validated``.
        settings: Settings that were chosen or used, JSON-able values.
    """

    questions: int
    measure: str
    before: float
    after: float
    method: str = "cross-validated"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TunedTable:
    """A further table of a result, for example the sources of the pairs.

    Attributes:
        name: Its name in JSON, for example ``pairs``.
        columns: Column heads.
        rows: Cells by column: text, a number, or None if empty.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A trained part of the search, and its result.

    Attributes:
        part: The trained part: ``embedder`` or ``reranker``.
        setting: The key of ragwright.yaml that puts it to use, for example ``embed.model``.
        path: The file or folder that was written; None if it is not proven better, unless keeping
            was requested.
        base: Its base, for example the name of the embedding model.
        training: Figures of the training questions.
        comparison: The search with it against the search without, on held-out questions; None
            if training found no gain, and they were not opened.
        tables: Further tables.
        notes: What a reader should know.
        value: Value of the setting, if it is not the path; ``st:FOLDER`` for example.
        beside: Further keys of the same section that it was measured with.
    """

    part: str
    setting: str
    path: Path | None
    base: str
    training: TrainingFigures
    comparison: Comparison | None = None
    tables: tuple[TunedTable, ...] = ()
    notes: tuple[str, ...] = ()
    value: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """True if held-out questions prove it better."""
        return self.comparison is not None and self.comparison.verdict == "better"


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Options of comparing a tuned part on held-out questions.

    Attributes:
        testset: Address of the testset.
        measure: Ranking measure that decides.
        seed: Seed of intervals and flips.
        cluster: What dependent rows have in common; see ``clusters_of_results``.
        split: Split that is read.
    """

    testset: str
    measure: str
    seed: int = 0
    cluster: str = ""
    split: Split = "confirm"


def compare_held_out(
    project: Project, settings: Sequence[str], options: HoldOut
) -> tuple[Comparison, tuple[str, ...]]:
    """Compare the search under further settings with the project's own, on held-out questions.

    Args:
        project: The project without the tuned part.
        settings: Settings as ``key=value`` that put the tuned part to use.
        options: The questions and the measure.

    Returns:
        The comparison, and the notes on earlier openings of the split.

    Raises:
        TestsetError: No held-out question is scored by the measure.
        StoppedError: The budget or a key stopped one of the two evaluations.
    """
    rows = project_testset(project.folder, options.testset, options.split, purpose="tune")
    overrides = (*project.session.overrides, *settings)
    tuned = project.variant(load_settings(project.folder.file, overrides))
    sides: list[Evaluation] = []
    for side in (project, tuned):
        evaluation, summary = evaluate_testset(
            side, rows, options.measure, Evaluating(seed=options.seed, answers=False)
        )
        if summary.reason is not None:  # runs that were cut off cannot be compared
            raise summary.reason
        sides.append(evaluation)
    clusters = clusters_of_results(
        [row for evaluated in sides for row in evaluated.results], options.cluster
    )
    compared = compare_evaluations(*sides, seed=options.seed, clusters=clusters).measures
    if not compared or compared[0].difference is None:
        raise TestsetError(
            f"no held-out question is scored by {options.measure}",
            where=options.testset,
            hint="add gold (reference_ids or spans) to the questions of its confirm split",
        )
    notes = [clusters.note] if clusters.note else []
    return compared[0], (*rows.notes, *notes, *grounds(rows.rows, sides[0].summaries))
