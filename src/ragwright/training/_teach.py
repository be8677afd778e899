"""Teaching a model of the search: trained on questions, and written if it wins held-out ones."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core import ConfigError, RagwrightError, TestsetError, text_hash, value_hash
from ..measure import Comparison
from ..models import export_onnx, folder_hash, save_trained
from ..project import build_like, load_settings
from ._merging import Merged, merge, weights_of
from ._model_card import curve_rows, interval_text, write_card
from ._pairs import LEAST_PAIRS, Mining, Pair, Unseen, as_unseen, read_pairs, without_unseen
from ._questions import Asking, Questions, other_questions, training_questions
from ._trainer import (
    Lesson,
    Report,
    Trained,
    TrainingOptions,
    Workplace,
    check_bfloat16,
    train,
)
from ._tuned import HoldOut, TrainingFigures, Tuned, TunedTable, held_out

if TYPE_CHECKING:
    from ..core import Row
    from ..project import Project


@dataclass(frozen=True, slots=True)
class ModelTuning:
    """Options of teaching a model.

    Attributes:
        sources: Sources of training questions, of ``testset``, ``headings``, ``cloze``,
            ``questions`` and ``glossary``; by default the testset, and without one ``headings``,
            ``questions`` and ``glossary``.
        most: Most questions made from each source other than the testset.
        also: Further testsets to compare on; they do not decide.
        output: Folder to write, relative to the project folder; empty names one in ``models/``.
        measure: Ranking measure that decides on the held-out questions.
        mining: Choice of passages that do not answer.
        training: Options of the training.
        merge: Merge the weights with those before training if that loses less on other kinds of
            questions.
        resume: Continue an interrupted training of the same pairs and settings.
        on_step: Called after each step with the number of finished steps and of all steps.
        keep: Write the model even if it is not proven better, and mark it as unproven.
        cluster: What dependent held-out questions have in common.
        base: Model to start from; empty for the present one. An embedding model is always trained
            from ``embed.model``.
        from_corpus: Train on questions made from the documents only; all questions of the testset
            decide.
    """

    sources: tuple[str, ...] = ()
    most: int = 500
    also: tuple[str, ...] = ()
    output: str = ""
    measure: str = "MRR@10"
    mining: Mining = field(default_factory=Mining)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    merge: bool = True
    resume: bool = False
    on_step: Report | None = None
    keep: bool = False
    cluster: str = ""
    base: str = ""
    from_corpus: bool = False


class Teacher(ABC):
    """What a kind of model needs beside the common course of :func:`teach`; one per training.

    Args:
        project: The project.
        options: The options of the training.
    """

    part: ClassVar[str]
    setting: ClassVar[str]
    measure: ClassVar[str]
    title: ClassVar[str]
    others: ClassVar[int] = 100
    """Most questions of each other kind, to measure losses of a trained model."""

    def __init__(self, project: Project, options: ModelTuning) -> None:
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
    def lesson(self, model: Any, pairs: Sequence[Pair], unseen: Unseen) -> Lesson:
        """Return the model with its data, loss and measure."""

    @abstractmethod
    def mrr(self, model: Any, questions: Unseen) -> float:
        """Return MRR@10 of questions by a model."""

    def settings(self, trial: Path) -> list[str]:
        """Return the settings as ``key=value`` that put the model of a folder to use."""
        return [f"{self.setting}={json.dumps(f'{self.provider}:{trial}')}"]

    def pairs(self, rows: Sequence[Row], mining: Mining) -> list[Pair]:
        """Return pairs of questions and passages; see :func:`read_pairs`."""
        return read_pairs(self.project, rows, mining)

    def unseen(self, pairs: Sequence[Pair]) -> Unseen:
        """Return the questions of pairs that are not trained on, and what they search."""
        return as_unseen(self.project, pairs)

    def further_others(self, unseen: Sequence[Pair], most: int) -> list[Pair]:
        """Return further questions of other kinds, where the documents yield few.

        Args:
            unseen: Pairs that are not trained on.
            most: Most questions.
        """
        return []

    @property
    def mergeable(self) -> bool:
        """True if the weights before training are those of a model that can be used."""
        return True

    def settle(self, model: Any, tuned: Tuned, kinds: Sequence[Unseen]) -> Tuned:
        """Choose what else belongs to the trained model, and add it to the result."""
        return tuned

    @property
    def provider(self) -> str:
        """Provider that opens the folder of the model, as it opens the base: ``onnx`` or ``st``."""
        return "onnx" if self.project.models.engine(self.base) == "onnx" else "st"

    def export(self, trial: Path) -> tuple[str, ...]:
        """Write an ONNX file into the folder; return notes.

        Raises:
            ConfigError: There can be none, and the provider needs one.
            MissingExtraError: There can be none without onnx, and the provider needs one.
        """
        try:
            export_onnx(trial, trial)
        except RagwrightError as error:
            if self.provider == "onnx":
                raise
            return (f"the folder has no ONNX file: {error}",)
        return ()

    def refit(self, variant: Project, tuned: Tuned, unseen: Sequence[Pair]) -> Tuned:
        """Choose settings of the search with the new model, and add them to the result.

        Args:
            variant: The project with the new model and its index.
            tuned: The result so far.
            unseen: Questions that the model was not trained on.
        """
        return tuned

    def withdraw(self, variant: Project) -> None:
        """Delete what the store holds for a model that is refused."""

    def digest(self, trial: Path, variant: Project) -> str:
        """Return a hash of the model, for the name of its folder: by default of its files."""
        return text_hash(folder_hash(trial))[:8]

    def target(self, name: str = "", *, proven: bool = True) -> Path:
        """Return the folder to write; its own name marks a model that is not proven better."""
        kind = "tuned" if proven else "unproven"
        part = "" if self.part == "embedder" else f"{self.part}-"
        return self.project.folder.root / (self.options.output or f"models/{kind}-{part}{name}")


def teach(teacher: Teacher, testset: str) -> Tuned:
    """Train a model on questions, and write it if it wins on held-out questions.

    Raises:
        ConfigError: The settings cannot be trained with.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    project, options = teacher.project, teacher.options
    _check_target(teacher)
    check_bfloat16(options.training)
    source = teacher.check()
    project.target()
    seed = options.training.seed
    asking = Asking(testset, options.sources, options.most, seed, options.from_corpus)
    with training_questions(project, asking) as questions:
        pairs = teacher.pairs(questions.rows, options.mining)
        training_pairs, unseen_pairs = without_unseen(pairs)
        unseen = teacher.unseen(unseen_pairs)
        model = teacher.open(source)
        start = weights_of(model)
        workplace = _checkpoint_folder(teacher, source, pairs)
        trained = train(teacher.lesson(model, training_pairs, unseen), options.training, workplace)
        tuned = _training_result(teacher, training_pairs, unseen, trained)
        tuned = replace(tuned, notes=(*questions.notes, *tuned.notes))
        gained = trained.after > trained.before
        if gained or options.keep:
            others = None
            if options.merge and gained:
                others = _other_kinds(teacher, questions, unseen_pairs)
            if others is not None and teacher.mergeable:
                kinds = (unseen, others)
                tuned = _with_merged_weights(tuned, merge(model, start, kinds, teacher.mrr))
            kinds_measured = (unseen,) if others is None else (unseen, others)
            tuned = teacher.settle(model, tuned, kinds_measured)
            trial = workplace.folder / "model"
            shutil.rmtree(trial, ignore_errors=True)
            save_trained(model, trial)
            tuned = _compared_with_present(
                teacher, questions, trial, (tuned, trained, unseen_pairs)
            )
        shutil.rmtree(workplace.folder, ignore_errors=True)
        return tuned


def _check_target(teacher: Teacher) -> None:
    target = teacher.target()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "there is something already", where=str(target), hint="name another folder with -o"
        )


def _checkpoint_folder(teacher: Teacher, source: str, pairs: Sequence[Pair]) -> Workplace:
    """Return the folder of checkpoints: the same for the same model, pairs and settings."""
    options = teacher.options
    texts = [text_hash("\x00".join((p.question, p.positive, *p.negatives))) for p in pairs]
    embedder = teacher.project.pair.embedder
    key = value_hash([teacher.part, source, embedder, asdict(options.training), texts])[:16]
    folder = teacher.project.folder.cache / "training" / key
    return Workplace(folder, options.resume, options.on_step)


def _training_result(
    teacher: Teacher, training_pairs: Sequence[Pair], unseen: Unseen, trained: Trained
) -> Tuned:
    """Return the result so far, without a held-out comparison."""
    options = teacher.options
    settings: dict[str, Any] = asdict(options.training)
    settings |= {"negatives": options.mining.kind, "best_step": trained.step}
    figures = TrainingFigures(
        len(training_pairs),
        teacher.measure,
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
    return Tuned(
        teacher.part, teacher.setting, None, teacher.base, figures, None, tables, tuple(notes)
    )


def _other_kinds(teacher: Teacher, questions: Questions, unseen: Sequence[Pair]) -> Unseen | None:
    """Return questions of kinds that are not trained on; None if the documents yield too few."""
    seed = teacher.options.training.seed
    rows = other_questions(teacher.project, questions, teacher.others, seed)
    pairs: list[Pair] = []
    with suppress(TestsetError):
        pairs = teacher.pairs(rows, Mining("none"))
    pairs += teacher.further_others(unseen, max(0, teacher.others - len(pairs)))
    return teacher.unseen(pairs) if len(pairs) >= LEAST_PAIRS else None


def _with_merged_weights(tuned: Tuned, merged: Merged) -> Tuned:
    """Add the merged weights to the result."""
    (_, _, trained), (_, _, before) = merged.rows[0], merged.rows[-1]
    settings = {**tuned.training.settings, "trained_share": merged.share}
    figures = replace(tuned.training, after=merged.unseen, settings=settings)
    columns = ("share of trained weights", "unseen MRR@10", "other questions MRR@10")
    tables = (*tuned.tables, TunedTable("merge", columns, merged.rows))
    change = f"MRR@10 of other questions from the documents {before:.3f} -> {trained:.3f}"
    notes = tuned.notes
    if merged.share < 1:
        notes = (
            *notes,
            f"{change} after training; {merged.others:.3f} with {merged.share:.0%} of the trained "
            "weights and the rest from before, which are used",
        )
    return replace(tuned, training=figures, tables=tables, notes=notes)


def _compared_with_present(
    teacher: Teacher,
    questions: Questions,
    trial: Path,
    result_of_training: tuple[Tuned, Trained, Sequence[Pair]],
) -> Tuned:
    """Compare the search with the new model against the present one; move the model if it wins."""
    project, options = teacher.project, teacher.options
    tuned, trained, unseen_pairs = result_of_training
    # Before anything is encoded: it may complete the configuration, which identifies the model.
    exported = teacher.export(trial)
    variant = project.variant(
        load_settings(
            project.folder.file, (*project.session.overrides, *_in_use(teacher, tuned, trial))
        )
    )
    build_like(variant, project)
    tuned = teacher.refit(variant, tuned, unseen_pairs)
    overrides = _in_use(teacher, tuned, trial)
    comparisons: list[tuple[str, Comparison]] = []
    opened: tuple[str, ...] = ()
    rule = HoldOut(questions.held_out, options.measure, options.training.seed, options.cluster)
    for name in (questions.held_out, *options.also):
        deciding = name == questions.held_out
        rule = replace(rule, testset=name, split=questions.split if deciding else "confirm")
        comparison, notes = held_out(project, overrides, rule)
        comparisons.append((Path(name).name, comparison))
        opened = opened or notes
    (_, comparison), *others = comparisons
    tables = (*tuned.tables, _also_table(others))
    losses = (_loss_note(*other) for other in others if (other[1].difference or 0.0) < 0)
    notes = (*tuned.notes, *opened, *losses)
    tuned = replace(tuned, comparison=comparison, tables=tables, notes=notes)
    if not (tuned.proven or options.keep):
        teacher.withdraw(variant)  # else the store would hold data of a model that is gone
        return tuned
    tuned = replace(tuned, notes=(*tuned.notes, *exported))
    about = _card_facts(teacher, tuned, questions)
    write_card(trial, (teacher.title, about), comparisons, trained.curve)
    digest = teacher.digest(trial, variant)
    target = teacher.target(digest, proven=tuned.proven)
    if not options.output:  # named by its weights: an equal training made the same model
        shutil.rmtree(target, ignore_errors=True)
    return _moved_to_target(project, tuned, trial, teacher.provider, target)


def _in_use(teacher: Teacher, tuned: Tuned, trial: Path) -> list[str]:
    """Return the settings as ``key=value`` that put the trained model to use."""
    section = teacher.setting.rpartition(".")[0]
    beside = (
        f"{key if '.' in key else f'{section}.{key}'}={value}"
        for key, value in tuned.beside.items()
    )
    return [*teacher.settings(trial), *beside]


def _moved_to_target(
    project: Project, tuned: Tuned, trial: Path, provider: str, target: Path
) -> Tuned:
    """Move the model's folder to its target, and note the path in the result."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        target.rmdir()  # empty, else it was refused before training
    shutil.move(trial, target)
    inside = target.is_relative_to(project.folder.root)
    displayed = target.relative_to(project.folder.root) if inside else target
    return replace(tuned, path=target, value=f"{provider}:{displayed}")


def _also_table(compared: Sequence[tuple[str, Comparison]]) -> TunedTable:
    columns = ("also on", "n", "measure", "without", "with", "difference", "interval", "verdict")
    rows = tuple(
        (name, c.n, c.measure, c.mean_a, c.mean_b, c.difference, interval_text(c), c.verdict)
        for name, c in compared
    )
    return TunedTable("also", columns, rows)


def _loss_note(name: str, comparison: Comparison) -> str:
    return (
        f"{name} got worse: {comparison.measure} {comparison.mean_a:.3f} -> "
        f"{comparison.mean_b:.3f} "
        f"({interval_text(comparison) or 'no interval'}, {comparison.verdict})"
    )


def _card_facts(teacher: Teacher, tuned: Tuned, questions: Questions) -> dict[str, Any]:
    """Return the facts on data and settings for the card."""
    options = teacher.options
    pairs = ", ".join(f"{count} from {name}" for name, count in tuned.tables[0].rows)
    figures = tuned.training
    merged = {
        f"{share:.0%} of the trained weights": f"MRR@10 {unseen:.3f} of unseen training questions, "
        f"{others:.3f} of other questions"
        for table in tuned.tables
        if table.name == "merge"
        for share, unseen, others in table.rows
        if isinstance(share, float)
    }
    people = {} if questions.of_people else {"held-out questions": "made from the documents too"}
    return {
        "base model": tuned.base,
        "training pairs": pairs,
        "negatives": options.mining.kind,
        "settings": ", ".join(f"{k} {v}" for k, v in asdict(options.training).items()),
        "best step": figures.settings["best_step"],
        **merged,
        "taken": f"{figures.settings.get('trained_share', 1.0):.0%} of the trained weights",
        **{f"use it with {key}": value for key, value in tuned.beside.items()},
        f"{figures.measure}, {figures.method}": f"{figures.before:.3f} -> {figures.after:.3f}",
        **people,
    }
