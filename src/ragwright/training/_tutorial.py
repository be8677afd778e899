"""Results of tuning, and the table of base and tuned search on the same questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import ConfigError, TestsetError
from ..experiment import (
    Evaluation,
    EvaluationOptions,
    clusters_of_results,
    compare_evaluations,
    evaluate_testset,
    grounds,
)
from ..measure import Comparison, Summary
from ..models import LexicalReranker
from ..project import Project, Settings, build_like, load_settings, refuse_forget
from ..testsets import SynthesisOptions, Testset, project_testset, synthesize, write_rows
from ._questions import ModelTuneOptions

RANKING = "MRR@5,HitRate@5"
ANSWERING = "Rubric(AnswersQuestion),Groundedness"
GENERATED = "tutorial.jsonl"


@dataclass(frozen=True, slots=True)
class TutorialOptions:
    """Options of the table.

    Attributes:
        testset: Address of the questions; empty: ``testsets/tutorial.jsonl``, which is generated
            if it is missing.
        split: ``all``, ``tune`` or ``confirm``; empty: the confirm split of a testset that is
            given, all of generated questions.
        questions: Questions to generate.
        tuned: Settings as ``key=value`` that make the tuned rows; without them there are none.
        rerank: Reranking model; empty: that of the project file, else lexical.
        candidates: Number of hits to rerank.
        keep: Passages in a prompt after reranking.
        seed: Seed of questions and intervals.
    """

    testset: str = ""
    split: str = ""
    questions: int = 50
    tuned: tuple[str, ...] = ()
    rerank: str = ""
    candidates: int = 20
    keep: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TutorialRow:
    """One row of the table.

    Attributes:
        name: ``base``, ``tuned`` and each with reranking.
        settings: Its changes to the project, as ``key=value``.
        runs: Ids of its stored runs: rankings, and answers if a judge is configured.
        summaries: One per measure, in the order of the columns.
        comparisons: Against base, by the text of the measure; none in the row of base.
        skipped: Reason for not measuring it; else empty.
    """

    name: str
    settings: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    summaries: tuple[Summary, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class TutorialTable:
    """The rows, with notes for the reader.

    Attributes:
        testset: Name of the questions.
        rows: The four rows, base first.
        notes: Remarks on its making, and on what is missing.
    """

    testset: str
    rows: tuple[TutorialRow, ...]
    notes: tuple[str, ...] = ()


@refuse_forget("compare")
def run_tutorial(project: Project, options: TutorialOptions | None = None) -> TutorialTable:
    """Measure the four rows on the same questions; each is a stored run, paid replies are reused.

    Ranks are measured on the first five hits of each search. If a judge is configured, answers
    are written from ``retrieve.top_k`` passages, with reranking from ``keep``.

    Raises:
        TestsetError: The questions cannot be read, or none could be generated.
        ConfigError: A setting of ``tuned`` is wrong.
        StoppedError: The budget or a key stopped it.
    """
    options = options or TutorialOptions()
    tuned = options.tuned
    for setting in tuned:
        if "=" not in setting:
            raise ConfigError(
                f"{setting!r} is not a setting",
                where="--tuned",
                hint="write KEY=VALUE, for example embed.model=st:models/tuned",
            )
    model = options.rerank or project.settings.retrieve.rerank.model or LexicalReranker.name
    untuned = ("retrieve.rerank.model=",)
    depth = f"retrieve.rerank.candidates={options.candidates}"
    reranking = (f"retrieve.rerank.model={model}", depth)
    label = f"rerank ({options.candidates} -> {options.keep})"
    testset, notes = _tutorial_questions(project.variant(_settings_with(project, untuned)), options)
    answer_setting = f"retrieve.top_k={options.keep}"
    rows: list[TutorialRow] = []
    base: tuple[Evaluation, ...] = ()
    missing = "no tuned model is named: train one, then add --tuned embed.model=st:models/NAME"
    for name, settings, answers in (
        ("base", (), ()),
        ("tuned", tuned, ()),
        (f"base + {label}", reranking, (answer_setting,)),
        (f"tuned + {label}", (*tuned, *reranking), (answer_setting,)),
    ):
        if name.startswith("tuned") and not tuned:
            rows.append(TutorialRow(name, skipped=missing))
            continue
        sides, runs = _measure_row(project, testset, ((*untuned, *settings), answers), options)
        compared = [
            compare_evaluations(*pair, seed=options.seed) for pair in zip(base, sides, strict=False)
        ]
        base = base or sides
        rows.append(
            TutorialRow(
                name,
                (*settings, *answers),
                runs,
                tuple(summary for side in sides for summary in side.summaries),
                tuple(measure for comparison in compared for measure in comparison.measures),
            )
        )
    judged = bool(project.settings.judge.model)
    tuned_model = _settings_with(project, tuned).embed.model
    if project.models.is_unproven(tuned_model):
        notes = (*notes, f"the tuned model is not proven better than its base: {tuned_model}")
    return TutorialTable(testset.name, tuple(rows), (*notes, *_tutorial_notes(model, judged)))


def _settings_with(project: Project, settings: Sequence[str]) -> Settings:
    return load_settings(project.folder.file, (*project.session.overrides, *settings))


def _measure_row(
    project: Project,
    testset: Testset,
    settings: tuple[Sequence[str], Sequence[str]],
    options: TutorialOptions,
) -> tuple[tuple[Evaluation, ...], tuple[str, ...]]:
    """Measure the rankings of a row, and its answers if a judge is configured; also the runs."""
    search, answers = settings
    jobs = [(search, RANKING, False)]
    if project.settings.judge.model:
        jobs.append(((*search, *answers), ANSWERING, True))
    sides, runs = [], []
    for overrides, measures, with_answers in jobs:
        variant = project.variant(_settings_with(project, overrides))
        build_like(variant, project)
        evaluating = EvaluationOptions(answers=with_answers, seed=options.seed)
        evaluation, summary = evaluate_testset(variant, testset, measures, evaluating)
        if summary.reason is not None:  # rows that were cut off cannot be compared
            raise summary.reason
        sides.append(evaluation)
        runs.append(summary.run)
    return tuple(sides), tuple(runs)


def _tutorial_questions(
    project: Project, options: TutorialOptions
) -> tuple[Testset, tuple[str, ...]]:
    if options.testset:
        split = options.split or "confirm"
        rows = project_testset(project.folder, options.testset, split, purpose="compare")
        return rows, (f"questions: the {split} split of {options.testset}", *rows.notes)
    path = project.folder.testsets / GENERATED
    place = path.relative_to(project.folder.root)
    if path.exists():
        origin = f"generated earlier, in {place}; delete the file to generate others"
    else:
        origin = f"generated, in {place}"
        synthesis_options = SynthesisOptions(options.questions, seed=options.seed)
        synthesis, summary = synthesize(project, synthesis_options)
        if summary is not None and summary.reason is not None:
            raise summary.reason
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(synthesis.rows, path)
    rows = project_testset(project.folder, str(path), options.split or "all", purpose="compare")
    return rows, (f"questions: {len(rows.rows)} {origin}", *rows.notes)


def _tutorial_notes(model: str, judged: bool) -> Iterator[str]:
    if model == LexicalReranker.name:
        yield "reranked by lexical, without a model; --rerank names a stronger one"
    if not judged:
        yield "answer relevance and groundedness need a judge: set judge.model"
    else:
        yield "ranks are those of the first five hits; answers read fewer passages after reranking"


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Figures of the training questions, before held-out questions are opened.

    Attributes:
        questions: Training questions with gold in the index.
        measure: Measure of ``before`` and ``after``, for example ``MRR@10, dense``.
        before: Value without the tuned part.
        after: Value with it, on questions that it has not seen.
        method: Method of keeping questions unseen, for example ``30 unseen``.
        settings: Settings that were chosen or used, JSON-able values.
    """

    questions: int
    measure: str
    before: float
    after: float
    method: str
    settings: Mapping[str, Any]


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


def compare_held_out(
    project: Project, tuned: Project, rows: Testset, options: ModelTuneOptions
) -> tuple[Comparison, tuple[str, ...]]:
    """Compare the search of a tuned project with the project's own, on held-out questions.

    Returns:
        The comparison, and the notes on earlier openings of the split.

    Raises:
        TestsetError: No held-out question is scored by the measure.
        StoppedError: The budget or a key stopped one of the two evaluations.
    """
    seed = options.training.seed
    sides: list[Evaluation] = []
    for side in (project, tuned):
        evaluating = EvaluationOptions(seed=seed, answers=False)
        evaluation, summary = evaluate_testset(side, rows, options.measure, evaluating)
        if summary.reason is not None:  # runs that were cut off cannot be compared
            raise summary.reason
        sides.append(evaluation)
    results = [row for evaluated in sides for row in evaluated.results]
    clusters = clusters_of_results(results, options.cluster)
    compared = compare_evaluations(*sides, seed=seed, clusters=clusters).measures
    if not compared or compared[0].difference is None:
        raise TestsetError(
            f"no held-out question is scored by {options.measure}",
            where=rows.name,
            hint="add gold (reference_ids or spans) to the questions of its confirm split",
        )
    notes = [clusters.note] if clusters.note else []
    return compared[0], (*rows.notes, *notes, *grounds(rows.rows, sides[0].summaries))
