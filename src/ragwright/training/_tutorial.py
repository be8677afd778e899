"""Base, tuned, base with reranking and tuned with reranking, by the same questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core import ConfigError
from ..experiment import Evaluating, Evaluation, compare_evaluations, evaluate_testset
from ..measure import Comparison, Summary
from ..models import ExtractiveReranker
from ..project import Project, Settings, at_work, build_like, load_settings
from ..testsets import Synthesizing, Testset, project_testset, synthesize, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RANKING = "MRR@5,HitRate@5"
ANSWERING = "Rubric(AnswersQuestion),Groundedness"
GENERATED = "tutorial.jsonl"
_TUNED = ("adapter", "ranker")
"""Keys of `retrieve` that put a tuned part to use."""


@dataclass(frozen=True, slots=True)
class TutorialOptions:
    """How the table is made.

    Attributes:
        testset: Address of the questions; empty: ``testsets/tutorial.jsonl``, which is generated
            where it is missing.
        split: ``all``, ``tune`` or ``confirm``; empty: the confirm split of a testset that is
            given, all of generated questions.
        questions: Questions to generate.
        tuned: Settings as ``key=value`` that make the tuned rows; empty: the adapter and the ranker
            of the project file.
        rerank: Reranking model; empty: that of the project file, else the offline one.
        candidates: Hits that are reranked.
        keep: Passages that an answer reads after reranking.
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
        settings: What it changes in the project, as ``key=value``.
        runs: Ids of its stored runs: rankings, and answers where a judge is configured.
        summaries: One per measure, in the order of the columns.
        comparisons: Against base, by the text of the measure; none in the row of base.
        skipped: Why it was not measured; else empty.
    """

    name: str
    settings: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    summaries: tuple[Summary, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class TutorialTable:
    """The rows, and what a reader should know.

    Attributes:
        testset: Name of the questions.
        rows: The four rows, base first.
        notes: How it was made, and what is missing.
    """

    testset: str
    rows: tuple[TutorialRow, ...]
    notes: tuple[str, ...] = ()


@at_work("compare")
def run_tutorial(project: Project, how: TutorialOptions | None = None) -> TutorialTable:
    """Measure the four rows on the same questions; each is a stored run, paid replies are reused.

    Ranks are measured on the first five hits of each search. Where a judge is configured, answers
    are written from ``retrieve.top_k`` passages, with reranking from ``keep``.

    Raises:
        TestsetError: The questions cannot be read, or none could be generated.
        ConfigError: A setting of ``tuned`` is wrong.
        StoppedError: The budget or a key stopped it.
    """
    options = how or TutorialOptions()
    now = project.settings.retrieve
    tuned = options.tuned or tuple(
        f"retrieve.{key}={value}" for key in _TUNED if (value := getattr(now, key))
    )
    for one in options.tuned:
        if "=" not in one:
            raise ConfigError(
                f"{one!r} is not a setting",
                where="--tuned",
                hint="write KEY=VALUE, for example retrieve.adapter=adapters/x.npz",
            )
    model = options.rerank or now.rerank.model or ExtractiveReranker.name
    plain = (*(f"retrieve.{key}=" for key in _TUNED), "retrieve.rerank.model=")
    reranked = (
        f"retrieve.rerank.model={model}",
        f"retrieve.rerank.candidates={options.candidates}",
    )
    label = f"rerank ({options.candidates} -> {options.keep})"
    testset, notes = _testset(project.variant(_over(project, plain)), options)
    kept = f"retrieve.top_k={options.keep}"
    base = _row(project, "base", testset, (plain, ()), options)
    rows = [_shown(base)]
    missing = "no adapter or ranker is set: run `ragwright tune`, or name one with --tuned"
    for name, settings, answers in (
        ("tuned", tuned, ()),
        (f"base + {label}", reranked, (kept,)),
        (f"tuned + {label}", (*tuned, *reranked), (kept,)),
    ):
        if name.startswith("tuned") and not tuned:
            rows.append(TutorialRow(name, skipped=missing))
            continue
        found = _row(project, name, testset, ((*plain, *settings), answers), options)
        rows.append(_shown(replace(found, settings=(*settings, *answers)), base, options.seed))
    judged = bool(project.settings.judge.model)
    tuned_model = _over(project, tuned).embed.model
    if project.models.is_unproven(tuned_model):
        notes = (*notes, f"the tuned model is not proven better than its base: {tuned_model}")
    return TutorialTable(testset.name, tuple(rows), (*notes, *_notes(model, judged)))


@dataclass(frozen=True, slots=True)
class _Measured:
    """A row before it is shown: its evaluations, rankings first."""

    name: str
    settings: tuple[str, ...]
    runs: tuple[str, ...]
    sides: tuple[Evaluation, ...]


def _over(project: Project, settings: Sequence[str]) -> Settings:
    return load_settings(project.folder.file, (*project.session.overrides, *settings))


def _row(
    project: Project,
    name: str,
    testset: Testset,
    settings: tuple[Sequence[str], Sequence[str]],
    options: TutorialOptions,
) -> _Measured:
    """Rankings of a row, and its answers where a judge is configured."""
    search, answers = settings
    jobs = [(search, RANKING, False)]
    if project.settings.judge.model:
        jobs.append(((*search, *answers), ANSWERING, True))
    sides, runs = [], []
    for over, measures, answered in jobs:
        variant = project.variant(_over(project, over))
        build_like(variant, project)
        how = Evaluating(answers=answered, seed=options.seed)
        found, summary = evaluate_testset(variant, testset, measures, how)
        if summary.reason is not None:  # rows that were cut off cannot be compared
            raise summary.reason
        sides.append(found)
        runs.append(summary.run)
    return _Measured(name, (), tuple(runs), tuple(sides))


def _shown(found: _Measured, base: _Measured | None = None, seed: int = 0) -> TutorialRow:
    comparisons: list[Comparison] = []
    if base is not None:
        for a, b in zip(base.sides, found.sides, strict=True):
            comparisons += compare_evaluations(a, b, seed=seed).measures
    summaries = tuple(summary for side in found.sides for summary in side.summaries)
    return TutorialRow(found.name, found.settings, found.runs, summaries, tuple(comparisons))


def _testset(project: Project, options: TutorialOptions) -> tuple[Testset, tuple[str, ...]]:
    """The questions, and notes on them."""
    if options.testset:
        split = options.split or "confirm"
        rows = project_testset(project.folder, options.testset, split, purpose="compare")
        return rows, (f"questions: the {split} split of {options.testset}", *rows.notes)
    path = project.folder.testsets / GENERATED
    place = path.relative_to(project.folder.root)
    if path.exists():
        made_when = f"generated earlier, in {place}; delete the file to generate others"
    else:
        made_when = f"generated, in {place}"
        wanted = Synthesizing(options.questions, weak=True, seed=options.seed)
        made, summary = synthesize(project, wanted)
        if summary is not None and summary.reason is not None:
            raise summary.reason
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(made.rows, path)
    rows = project_testset(project.folder, str(path), options.split or "all", purpose="compare")
    return rows, (f"questions: {len(rows.rows)} {made_when}", *rows.notes)


def _notes(model: str, judged: bool) -> Iterator[str]:
    if model == ExtractiveReranker.name:
        yield "reranked by the offline reranker; --rerank names a stronger model"
    if not judged:
        yield "answer relevance and groundedness need a judge: set judge.model"
    else:
        yield "ranks are those of the first five hits; answers read fewer passages after reranking"
