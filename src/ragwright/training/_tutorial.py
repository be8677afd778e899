"""A table of base and tuned search, each with and without reranking, on the same questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core import ConfigError
from ..experiment import Evaluating, Evaluation, compare_evaluations, evaluate_testset
from ..measure import Comparison, Summary
from ..models import LexicalReranker
from ..project import Project, Settings, build_like, load_settings, refuse_forget
from ..testsets import SynthesisOptions, Testset, project_testset, synthesize, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    present = project.settings.retrieve
    tuned = options.tuned
    for setting in tuned:
        if "=" not in setting:
            raise ConfigError(
                f"{setting!r} is not a setting",
                where="--tuned",
                hint="write KEY=VALUE, for example embed.model=st:models/tuned",
            )
    model = options.rerank or present.rerank.model or LexicalReranker.name
    untuned = ("retrieve.rerank.model=",)
    reranking = (
        f"retrieve.rerank.model={model}",
        f"retrieve.rerank.candidates={options.candidates}",
    )
    label = f"rerank ({options.candidates} -> {options.keep})"
    testset, notes = _tutorial_questions(project.variant(_settings_with(project, untuned)), options)
    answer_setting = f"retrieve.top_k={options.keep}"
    base = _measured_row(project, "base", testset, (untuned, ()), options)
    rows = [_tutorial_row(base)]
    missing = "no tuned model is named: train one, then add --tuned embed.model=st:models/NAME"
    for name, settings, answers in (
        ("tuned", tuned, ()),
        (f"base + {label}", reranking, (answer_setting,)),
        (f"tuned + {label}", (*tuned, *reranking), (answer_setting,)),
    ):
        if name.startswith("tuned") and not tuned:
            rows.append(TutorialRow(name, skipped=missing))
            continue
        measured = _measured_row(project, name, testset, ((*untuned, *settings), answers), options)
        rows.append(
            _tutorial_row(replace(measured, settings=(*settings, *answers)), base, options.seed)
        )
    judged = bool(project.settings.judge.model)
    tuned_model = _settings_with(project, tuned).embed.model
    if project.models.is_unproven(tuned_model):
        notes = (*notes, f"the tuned model is not proven better than its base: {tuned_model}")
    return TutorialTable(testset.name, tuple(rows), (*notes, *_tutorial_notes(model, judged)))


@dataclass(frozen=True, slots=True)
class _MeasuredRow:
    """A row before its comparison: its evaluations, rankings first."""

    name: str
    settings: tuple[str, ...]
    runs: tuple[str, ...]
    sides: tuple[Evaluation, ...]


def _settings_with(project: Project, settings: Sequence[str]) -> Settings:
    return load_settings(project.folder.file, (*project.session.overrides, *settings))


def _measured_row(
    project: Project,
    name: str,
    testset: Testset,
    settings: tuple[Sequence[str], Sequence[str]],
    options: TutorialOptions,
) -> _MeasuredRow:
    """Measure the rankings of a row, and its answers if a judge is configured."""
    search, answers = settings
    jobs = [(search, RANKING, False)]
    if project.settings.judge.model:
        jobs.append(((*search, *answers), ANSWERING, True))
    sides, runs = [], []
    for overrides, measures, with_answers in jobs:
        variant = project.variant(_settings_with(project, overrides))
        build_like(variant, project)
        evaluating = Evaluating(answers=with_answers, seed=options.seed)
        evaluation, summary = evaluate_testset(variant, testset, measures, evaluating)
        if summary.reason is not None:  # rows that were cut off cannot be compared
            raise summary.reason
        sides.append(evaluation)
        runs.append(summary.run)
    return _MeasuredRow(name, (), tuple(runs), tuple(sides))


def _tutorial_row(
    measured: _MeasuredRow, base: _MeasuredRow | None = None, seed: int = 0
) -> TutorialRow:
    comparisons: list[Comparison] = []
    if base is not None:
        for a, b in zip(base.sides, measured.sides, strict=True):
            comparisons += compare_evaluations(a, b, seed=seed).measures
    summaries = tuple(summary for side in measured.sides for summary in side.summaries)
    return TutorialRow(
        measured.name, measured.settings, measured.runs, summaries, tuple(comparisons)
    )


def _tutorial_questions(
    project: Project, options: TutorialOptions
) -> tuple[Testset, tuple[str, ...]]:
    """Return the questions, and notes on them."""
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
