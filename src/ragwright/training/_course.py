"""The course of a training: on questions, and the model is written if it wins held-out ones."""

from __future__ import annotations

import json
import math
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from ..core import ConfigError, Row, TestsetError, replace_text, require, text_hash, value_hash
from ..measure import Comparison
from ..models import CARD, card_head, folder_hash, save_trained
from ..project import Project, build_like, load_settings
from ..testsets import project_testset
from ._questions import (
    HeldBackQuestions,
    ModelTuneOptions,
    Negatives,
    Pair,
    Questions,
    hold_back_unseen,
    make_other_questions,
    make_unseen,
    read_pairs,
    training_questions,
)
from ._trainer import Lesson, Point, TrainingResult, train
from ._tutorial import TrainingFigures, TunedTable, TuneResult, compare_held_out

CURVE = "training.csv"


def write_card(
    folder: Path,
    about: tuple[str, Mapping[str, Any]],
    compared: Sequence[tuple[str, Comparison]],
    curve: Sequence[Point],
) -> None:
    """Write ``README.md`` and the loss curve into a model's folder.

    A model that the first comparison does not prove better is marked as unproven.

    Args:
        folder: The model's folder.
        about: Its title, and facts on training data and settings by name.
        compared: Held-out questions by name, with the model against the one before.
        curve: Loss and MRR@10 of unseen questions by step.
    """
    title, facts = about
    proven = compared[0][1].verdict == "better"
    mark = "**Not proven better** than the model it was trained from: kept on request."
    lines = [
        *(*card_head(proven=proven), f"# {title}", "", *([] if proven else [mark, ""])),
        *(f"- {name}: {value}" for name, value in facts.items()),
        *("", "## Held-out questions, before and after", ""),
        "| questions | n | measure | before | after | difference | 95 % interval | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, comparison in compared:
        lines.append(
            f"| {name} | {comparison.n} | {comparison.measure} | {comparison.mean_a:.3f} | "
            f"{comparison.mean_b:.3f} | {comparison.difference:+.3f} | "
            f"{interval_text(comparison)} | {comparison.worded} |"
        )
    worse = [
        f"{name} ({comparison.difference:+.3f})"
        for name, comparison in compared
        if (comparison.difference or 0.0) < 0
    ]
    lines += ["", f"Worse than before: {', '.join(worse) or 'nothing that was measured'}."]
    lines += ["", f"The loss of every step is in `{CURVE}`.", "", *_curve_table(curve)]
    replace_text(folder / CARD, "\n".join(lines).rstrip() + "\n")
    replace_text(folder / CURVE, curve_csv(curve))


def interval_text(comparison: Comparison) -> str:
    """Return the 95 % interval of a difference; empty if there is none."""
    return "" if comparison.low is None else f"{comparison.low:+.3f} to {comparison.high:+.3f}"


def curve_csv(curve: Sequence[Point]) -> str:
    """Return the curve as CSV: step, epoch, loss, MRR@10 of the unseen questions."""
    lines = ["step,epoch,loss,unseen MRR@10\n"]
    for point in curve:
        cells = ("" if v is None else f"{v:.6g}" for v in (point.loss, point.unseen))
        lines.append(f"{point.step},{point.epoch},{','.join(cells)}\n")
    return "".join(lines)


def curve_rows(curve: Sequence[Point]) -> list[tuple[int, float | None, float]]:
    """Return step, mean loss since the last evaluation, and MRR@10 of unseen questions."""
    rows: list[tuple[int, float | None, float]] = []
    losses: list[float] = []
    for point in curve:
        if point.loss is not None:
            losses.append(point.loss)
        if point.unseen is not None:
            rows.append((point.step, sum(losses) / len(losses) if losses else None, point.unseen))
            losses = []
    return rows


def _curve_table(curve: Sequence[Point]) -> list[str]:
    return [
        "| step | mean loss | unseen MRR@10 |",
        "|---|---|---|",
        *(
            f"| {step} | {'' if loss is None or not math.isfinite(loss) else f'{loss:.3f}'} | "
            f"{unseen:.3f} |"
            for step, loss, unseen in curve_rows(curve)
        ),
    ]


_SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)

_TOLERATED = 0.01
"""Loss of MRR@10 on other questions that is accepted for a gain on the trained kind."""

Weights: TypeAlias = Mapping[str, Any]
"""Name -> tensor of numbers."""


def weights_of(model: Any) -> Weights:
    """Return a copy of a model's weights."""
    states = model.state_dict().items()
    return {name: tensor.detach().clone() for name, tensor in states if tensor.is_floating_point()}


MergeRow: TypeAlias = tuple[float, float, float]
"""Share of trained weights, MRR@10 of the unseen training questions and of other questions."""


def merge(
    model: Any,
    start: Weights,
    both_kinds: tuple[HeldBackQuestions, HeldBackQuestions],
    measure: Callable[[Any, HeldBackQuestions], float],
) -> tuple[MergeRow, tuple[MergeRow, ...]]:
    """Choose the weights between two models that answer both kinds of questions best.

    Of the shares of the trained weights that gain on the unseen training questions, and lose at
    most 0.01 on the others, the best on the unseen ones is chosen. Where none loses so little, the
    highest mean of the two MRR@10 is. Of equal shares the highest.

    Args:
        model: The trained model of sentence-transformers; it is changed in place.
        start: Its weights before training.
        both_kinds: The unseen training questions, and questions of other kinds.
        measure: MRR@10 of questions by the model.

    Returns:
        The chosen share with its figures, and all that were tried; share 0 is the start.
    """
    trained = weights_of(model)
    rows: list[MergeRow] = []
    for share in _SHARES:
        _load_mixed(model, start, trained, share)
        unseen, others = (measure(model, questions) for questions in both_kinds)
        rows.append((share, unseen, others))
    _, before, others_before = rows[-1]
    gaining = [row for row in rows[:-1] if row[1] > before] or rows[:1]
    keeping = [row for row in gaining if row[2] >= others_before - _TOLERATED]
    best = max(keeping or gaining, key=lambda row: row[1] + (0 if keeping else row[2]))
    _load_mixed(model, start, trained, best[0])
    return best, tuple(rows)


def _load_mixed(model: Any, start: Weights, trained: Weights, share: float) -> None:
    # lerp returns its ends exactly: at share 1 these are the trained weights.
    mixed = {name: start[name].lerp(trained[name], share) for name in trained}
    model.load_state_dict(mixed, strict=False)


_OTHERS = 100
"""Most questions of each other kind, to measure what a trained model lost."""


class Kind(ABC):
    """What a kind of model needs beside the common course; one per training.

    Args:
        project: The project.
        options: The options of the training.
    """

    part: ClassVar[str]
    setting: ClassVar[str]
    measure: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, project: Project, options: ModelTuneOptions) -> None:
        self.project = project
        self.options = options

    @property
    @abstractmethod
    def base(self) -> str:
        """Name of the model to start from."""

    @abstractmethod
    def check(self) -> str:
        """Return the source of the weights, or refuse settings with which none can be trained."""

    @abstractmethod
    def open(self, source: str) -> Any:
        """Open the model to train."""

    @abstractmethod
    def lesson(self, model: Any, pairs: Sequence[Pair], unseen: HeldBackQuestions) -> Lesson:
        """Return the model with its data, loss and measure."""

    def pairs(self, rows: Sequence[Row], negatives: Negatives) -> list[Pair]:
        """Return pairs of questions and passages; see :func:`read_pairs`."""
        return read_pairs(self.project, rows, negatives, self.options.training.seed)

    def unseen(self, pairs: Sequence[Pair]) -> HeldBackQuestions:
        """Return the questions of pairs that are not trained on, and what they search."""
        return make_unseen(self.project, pairs)

    @abstractmethod
    def mrr(self, model: Any, questions: HeldBackQuestions) -> float:
        """Return MRR@10 of questions by a model."""

    @property
    def mergeable(self) -> bool:
        """True if the weights before training are those of a model that can be used."""
        return True

    def settle(self, model: Any, tuned: TuneResult, unseen: HeldBackQuestions) -> TuneResult:
        """Choose what else belongs to the trained model, and add it to the result."""
        return tuned

    def withdraw(self, variant: Project) -> None:
        """Delete what the store holds for a model that is refused."""

    def digest(self, trial: Path, variant: Project) -> str:
        """Return a hash of the model, for the name of its folder: by default of its files."""
        return text_hash(folder_hash(trial))[:8]

    def target(self, name: str = "", *, proven: bool = True) -> Path:
        """Return the folder to write; its own name marks a model that is not proven better."""
        state = "tuned" if proven else "unproven"
        part = "" if self.part == "embedder" else f"{self.part}-"
        return self.project.folder.root / (self.options.output or f"models/{state}-{part}{name}")


def tune_model(kind: Kind, testset: str) -> TuneResult:
    """Train a model on questions, and write it if it wins on held-out questions.

    Raises:
        ConfigError: The settings cannot be trained with.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    project, options = kind.project, kind.options
    for address in filter(None, (testset, *options.also)):
        project_testset(project.folder, address, "all", purpose="tune", dry_run=True)
    target = kind.target()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "there is something already", where=str(target), hint="name another folder with -o"
        )
    source = kind.check()
    for package in ("sentence_transformers", "accelerate", "datasets"):
        require(package, "train", "training a model")
    project.target()
    with training_questions(project, testset, options) as questions:
        pairs = kind.pairs(questions.rows, options.negatives)
        training_pairs, unseen_pairs = hold_back_unseen(pairs)
        unseen = kind.unseen(unseen_pairs)
        model = kind.open(source)
        start = weights_of(model)
        folder = _checkpoint_folder(kind, source, pairs)
        trained = train(
            kind.lesson(model, training_pairs, unseen),
            options.training,
            folder,
            resume=options.resume,
            on_step=options.on_step,
        )
        tuned = _training_result(kind, training_pairs, unseen, trained)
        tuned = replace(tuned, notes=(*questions.notes, *tuned.notes))
        gained = trained.after > trained.before
        if gained and kind.mergeable and (others := _other_kinds(kind, questions)):
            tuned = _add_merged_weights(tuned, *merge(model, start, (unseen, others), kind.mrr))
        if gained or options.keep:
            tuned = kind.settle(model, tuned, unseen)
            trial = folder / "model"
            shutil.rmtree(trial, ignore_errors=True)
            save_trained(model, trial)
            tuned = _compare_with_present(kind, questions, trial, tuned, trained)
        shutil.rmtree(folder, ignore_errors=True)
        return tuned


def _checkpoint_folder(kind: Kind, source: str, pairs: Sequence[Pair]) -> Path:
    options = kind.options
    texts = [text_hash("\x00".join((p.question, p.positive, *p.negatives))) for p in pairs]
    embedder = kind.project.index_spec.embedder
    key = value_hash([kind.part, source, embedder, asdict(options.training), texts])[:16]
    return kind.project.folder.cache / "training" / key


def _training_result(
    kind: Kind, training_pairs: Sequence[Pair], unseen: HeldBackQuestions, trained: TrainingResult
) -> TuneResult:
    """Return the result so far, without a held-out comparison."""
    options = kind.options
    settings: dict[str, Any] = asdict(options.training)
    settings |= {"negatives": options.negatives, "best_step": trained.step}
    figures = TrainingFigures(
        len(training_pairs),
        kind.measure,
        trained.before,
        trained.unseen if options.keep else trained.after,
        f"{len(unseen.questions)} unseen",
        settings,
    )
    counts = Counter(pair.source for pair in training_pairs)
    tables = (
        TunedTable("pairs", ("pairs from", "count"), tuple(sorted(counts.items()))),
        TunedTable("curve", ("step", "loss", "unseen MRR@10"), tuple(curve_rows(trained.curve))),
    )
    notes = []
    if options.resume:
        notes.append(
            f"continued from step {trained.resumed}"
            if trained.resumed
            else "no interrupted training of these pairs and settings was found: it began anew"
        )
    if trained.stopped:
        notes.append(f"training ended early: {trained.stopped}")
    return TuneResult(kind.part, kind.setting, None, kind.base, figures, None, tables, tuple(notes))


def _other_kinds(kind: Kind, questions: Questions) -> HeldBackQuestions | None:
    """Return questions of kinds that are not trained on; None if the documents yield too few."""
    rows = make_other_questions(kind.project, questions, _OTHERS, kind.options.training.seed)
    try:
        return kind.unseen(kind.pairs(rows, "none"))
    except TestsetError:
        return None


def _add_merged_weights(
    tuned: TuneResult, best: MergeRow, rows: tuple[MergeRow, ...]
) -> TuneResult:
    share, unseen, others = best
    settings = {**tuned.training.settings, "trained_share": share}
    columns = ("share of trained weights", "unseen MRR@10", "other questions MRR@10")
    note = (
        f"MRR@10 of other questions from the documents {rows[-1][2]:.3f} -> {rows[0][2]:.3f} after "
        f"training; {others:.3f} with {share:.0%} of the trained weights and the "
        "rest from before, which are used"
    )
    return replace(
        tuned,
        training=replace(tuned.training, after=unseen, settings=settings),
        tables=(*tuned.tables, TunedTable("merge", columns, rows)),
        notes=(*tuned.notes, note) if share < 1 else tuned.notes,
    )


def _compare_with_present(
    kind: Kind, questions: Questions, trial: Path, tuned: TuneResult, trained: TrainingResult
) -> TuneResult:
    """Compare the search with the new model against the present one; move the model if it wins."""
    project, options = kind.project, kind.options
    section = kind.setting.rpartition(".")[0]
    beside = (f"{section}.{key}={value}" for key, value in tuned.beside.items())
    overrides = [f"{kind.setting}={json.dumps(f'st:{trial}')}", *beside]
    variant = project.variant(
        load_settings(project.folder.file, (*project.session.overrides, *overrides))
    )
    build_like(variant, project)
    comparisons: list[tuple[str, Comparison]] = []
    opened: tuple[str, ...] = ()
    for name in (questions.held_out, *options.also):
        split = questions.split if name == questions.held_out else "confirm"
        rows = project_testset(project.folder, name, split, purpose="tune")
        comparison, notes = compare_held_out(project, variant, rows, options)
        comparisons.append((Path(name).name, comparison))
        opened = opened or notes
    (_, comparison), *others = comparisons
    also = TunedTable(
        "also",
        ("also on", "n", "measure", "without", "with", "difference", "interval", "verdict"),
        tuple(
            (name, c.n, c.measure, c.mean_a, c.mean_b, c.difference, interval_text(c), c.worded)
            for name, c in others
        ),
    )
    losses = (
        f"{name} got worse: {c.measure} {c.mean_a:.3f} -> {c.mean_b:.3f} "
        f"({interval_text(c) or 'no interval'}, {c.worded})"
        for name, c in others
        if (c.difference or 0.0) < 0
    )
    notes = (*tuned.notes, *opened, *losses)
    tuned = replace(tuned, comparison=comparison, tables=(*tuned.tables, also), notes=notes)
    if not (tuned.proven or options.keep):
        kind.withdraw(variant)  # else the store would hold data of a model that is gone
        return tuned
    write_card(trial, (kind.title, _card_facts(kind, tuned, questions)), comparisons, trained.curve)
    target = kind.target(kind.digest(trial, variant), proven=tuned.proven)
    if not options.output:  # named by its weights: an equal training made the same model
        shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        target.rmdir()  # empty, else it was refused before training
    shutil.move(trial, target)
    inside = target.is_relative_to(project.folder.root)
    displayed = target.relative_to(project.folder.root) if inside else target
    return replace(tuned, path=target, value=f"st:{displayed}")


def _card_facts(kind: Kind, tuned: TuneResult, questions: Questions) -> dict[str, Any]:
    options = kind.options
    pairs = ", ".join(f"{count} from {name}" for name, count in tuned.tables[0].rows)
    figures = tuned.training
    people = {} if questions.of_people else {"held-out questions": "made from the documents too"}
    return {
        "base model": tuned.base,
        "training pairs": pairs,
        "negatives": options.negatives,
        "settings": ", ".join(f"{k} {v}" for k, v in asdict(options.training).items()),
        "best step": figures.settings["best_step"],
        **{f"use it with {key}": value for key, value in tuned.beside.items()},
        f"{figures.measure}, {figures.method}": f"{figures.before:.3f} -> {figures.after:.3f}",
        **people,
    }
