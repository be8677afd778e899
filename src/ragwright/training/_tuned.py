"""What tuning a part of the search came to: one result for adapters, rankers and models."""

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
)
from ..measure import Comparison
from ..project import Project, load_settings
from ..testsets import project_testset


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """What the training questions say, before held-out questions are opened.

    Attributes:
        questions: Training questions with gold in the index.
        measure: What ``before`` and ``after`` are, for example ``MRR@10, dense``.
        before: Without the tuned part.
        after: With it, on questions that it has not seen.
        method: How questions were kept unseen, for example ``cross-validated``.
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
    """A further table of a result, for example the weights of features.

    Attributes:
        name: Its name in JSON, for example ``features``.
        columns: Heads of its columns.
        rows: Cells by column: text, a number, or None if empty.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """A part of the search that was trained, and whether it is kept.

    Attributes:
        part: What was trained: ``adapter``, ``ranker``, ``embedder``.
        setting: The key of ragwright.yaml that puts it to use, for example ``retrieve.adapter``.
        path: The file or folder that was written; None where it is not proven better, unless it was
            to be kept.
        base: What it is built on, for example the name of the embedding model.
        training: What the training questions say.
        comparison: The search with it against the search without, on held-out questions; None
            where training found no gain, and they were not opened.
        tables: Further tables.
        notes: What a reader should know.
        value: What to write as the setting, if it is not the path; ``st:FOLDER`` for example.
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

    @property
    def proven(self) -> bool:
        """True if held-out questions prove it better."""
        return self.comparison is not None and self.comparison.verdict == "better"


@dataclass(frozen=True, slots=True)
class HoldOut:
    """How a tuned part is compared on held-out questions.

    Attributes:
        testset: Address of the testset; its confirm split is read.
        measure: Ranking measure that decides.
        seed: Seed of intervals and flips.
        cluster: Rows that share it are not independent; see ``clusters_of_results``.
    """

    testset: str
    measure: str
    seed: int = 0
    cluster: str = ""


def held_out(
    project: Project, settings: Sequence[str], how: HoldOut
) -> tuple[Comparison, tuple[str, ...]]:
    """The search under further settings against the project's own, on the confirm split.

    Args:
        project: The project without the tuned part.
        settings: Settings as ``key=value`` that put the tuned part to use.
        how: The questions and the measure.

    Returns:
        The comparison, and the notes on earlier openings of the split.

    Raises:
        TestsetError: No held-out question is scored by the measure.
        StoppedError: The budget or a key stopped one of the two evaluations.
    """
    rows = project_testset(project.folder, how.testset, "confirm", purpose="tune")
    over = (*project.session.overrides, *settings)
    tuned = project.variant(load_settings(project.folder.file, over))
    sides: list[Evaluation] = []
    for one in (project, tuned):
        found, summary = evaluate_testset(one, rows, how.measure, Evaluating(seed=how.seed))
        if summary.reason is not None:  # runs that were cut off cannot be compared
            raise summary.reason
        sides.append(found)
    clusters = clusters_of_results([row for side in sides for row in side.results], how.cluster)
    compared = compare_evaluations(*sides, seed=how.seed, clusters=clusters).measures
    if not compared or compared[0].difference is None:
        raise TestsetError(
            f"no held-out question is scored by {how.measure}",
            where=how.testset,
            hint="add gold (reference_ids or spans) to the questions of its confirm split",
        )
    return compared[0], (*rows.notes, *([clusters.note] if clusters.note else []))


def held_out_card(comparison: Comparison) -> dict[str, Any]:
    """The held-out comparison in the card of a tuned part."""
    return {
        "measure": comparison.measure,
        "n": comparison.n,
        "before": comparison.mean_a,
        "after": comparison.mean_b,
        "low": comparison.low,
        "high": comparison.high,
    }
