"""`tune embedder`: fine-tune the embedding model, and write it if it wins."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import ConfigError, RagwrightError, TestsetError, text_hash, value_hash
from ..measure import Comparison
from ..models import OnnxEmbedder, export_onnx, open_trainable, save_trained
from ..project import at_work, build_like, load_settings
from ._merging import Merged, merge, weights_of
from ._model_card import curve_rows, interval_text, write_card
from ._pairs import Mining, Pair, Unseen, as_unseen, read_pairs, without_unseen
from ._questions import Questions, other_questions, training_questions
from ._trainer import Report, Trained, TrainingOptions, Workplace, train
from ._tuned import HoldOut, TrainingFigures, Tuned, TunedTable, held_out

if TYPE_CHECKING:
    from ..project import Project


_MOST_OTHERS = 100
"""Most questions of each other kind, to measure losses of a trained model."""


@dataclass(frozen=True, slots=True)
class EmbedderTuning:
    """Options of fine-tuning an embedding model.

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


@at_work("tune")
def tune_embedder(project: Project, testset: str = "", how: EmbedderTuning | None = None) -> Tuned:
    """Fine-tune the embedding model, and write it if it wins on held-out questions.

    With ``how.keep`` it is always written; its card then states that it is not proven better,
    as do `doctor` and every evaluation with it.

    Args:
        project: The project; ``embed.model`` is the model to start from.
        testset: Questions with gold: the tune split is trained on, the confirm split decides.
            Without one, questions are made from the documents and split by document.
        how: Sources, losses, settings.

    Raises:
        ConfigError: No embedding model is set, it cannot be trained, or an adapter is in use.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    options = how or EmbedderTuning()
    source = _trainable_source(project, options)
    seed = options.training.seed
    question_source = training_questions(project, testset, options.sources, options.most, seed)
    with question_source as questions:
        pairs = read_pairs(project, questions.rows, options.mining)
        training_pairs, unseen = without_unseen(project, pairs)
        rule = project.models.vector_rule(project.settings.embed.model)
        model = open_trainable(source, rule)
        start = weights_of(model)
        workplace = _checkpoint_folder(project, pairs, options)
        trained = train(model, rule, training_pairs, unseen, options.training, workplace)
        tuned = _training_result(project, options, training_pairs, unseen, trained)
        tuned = replace(tuned, notes=(*questions.notes, *tuned.notes))
        gained = trained.after > trained.before
        if gained or options.keep:
            merges = options.merge and gained
            other_kinds = _other_kinds(project, questions, options) if merges else None
            if other_kinds is not None:
                both_kinds = (unseen, other_kinds)
                tuned = _with_merged_weights(
                    tuned, merge(model, rule, start, both_kinds, options.training)
                )
            trial = workplace.folder / "model"
            shutil.rmtree(trial, ignore_errors=True)
            save_trained(model, trial)
            tuned = _compared_with_present(project, questions, trial, (tuned, trained, options))
        shutil.rmtree(workplace.folder, ignore_errors=True)
        return tuned


def _trainable_source(project: Project, options: EmbedderTuning) -> str:
    """Return the source of the weights, or refuse settings under which no model can be trained.

    Raises:
        ConfigError: See :func:`tune_embedder`.
    """
    model = project.settings.embed.model
    if not model:
        raise ConfigError(
            "no embedding model is set to start from",
            where=str(project.folder.file),
            hint="set embed.model, for example hf:sentence-transformers/all-MiniLM-L6-v2",
        )
    if options.training.loss == "cosine" and options.mining.kind == "none":
        raise ConfigError(
            "the cosine loss needs passages that do not answer",
            where="--negatives none",
            hint="use --negatives hard or random, or --loss ranking",
        )
    for key in ("adapter", "ranker"):
        if configured := getattr(project.settings.retrieve, key):
            raise ConfigError(
                f"retrieve.{key} is {configured}, made for the present model",
                where=str(project.folder.file),
                hint=f"add --set retrieve.{key}= ; fit a new {key} to the new model afterwards",
            )
    target = _target_folder(project, options)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "there is something already", where=str(target), hint="name another folder with -o"
        )
    source = project.models.trainable(model)
    project.target()
    return source


def _target_folder(
    project: Project, options: EmbedderTuning, name: str = "", *, proven: bool = True
) -> Path:
    """Return the folder to write; its own name marks a model that is not proven better."""
    kind = "tuned" if proven else "unproven"
    return project.folder.root / (options.output or f"models/{kind}-{name}")


def _checkpoint_folder(
    project: Project, pairs: Sequence[Pair], options: EmbedderTuning
) -> Workplace:
    """Return the folder of checkpoints: the same for the same model, pairs and settings."""
    texts = [text_hash("\x00".join((p.question, p.positive, p.negative))) for p in pairs]
    key = value_hash([project.pair.embedder, asdict(options.training), texts])[:16]
    folder = project.folder.cache / "training" / key
    return Workplace(folder, options.resume, options.on_step)


def _training_result(
    project: Project,
    options: EmbedderTuning,
    training_pairs: Sequence[Pair],
    unseen: Unseen,
    trained: Trained,
) -> Tuned:
    """Return the result so far, without a held-out comparison."""
    settings: dict[str, Any] = asdict(options.training)
    settings |= {"negatives": options.mining.kind, "best_step": trained.step}
    figures = TrainingFigures(
        len(training_pairs),
        "MRR@10, dense",
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
    model = project.settings.embed.model
    return Tuned("embedder", "embed.model", None, model, figures, None, tables, tuple(notes))


def _other_kinds(project: Project, questions: Questions, options: EmbedderTuning) -> Unseen | None:
    """Return questions of kinds that are not trained on; None if the documents yield too few."""
    rows = other_questions(project, questions, _MOST_OTHERS, options.training.seed)
    try:
        return as_unseen(project, read_pairs(project, rows, Mining("none")))
    except TestsetError:
        return None


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
    project: Project,
    questions: Questions,
    trial: Path,
    result_of_training: tuple[Tuned, Trained, EmbedderTuning],
) -> Tuned:
    """Compare the search with the new model against the present one; move the model if it wins."""
    tuned, trained, options = result_of_training
    onnx = isinstance(project.models.embedder(project.settings.embed.model), OnnxEmbedder)
    if onnx:
        export_onnx(trial, trial)
    provider = "onnx" if onnx else "st"
    overrides = [f"embed.model={json.dumps(f'{provider}:{trial}')}"]
    variant = project.variant(
        load_settings(project.folder.file, (*project.session.overrides, *overrides))
    )
    build_like(variant, project)
    comparisons: list[tuple[str, Comparison]] = []
    opened: tuple[str, ...] = ()
    for name in (questions.held_out, *options.also):
        rule = HoldOut(name, options.measure, options.training.seed, options.cluster)
        comparison, notes = held_out(project, overrides, rule)
        comparisons.append((Path(name).name, comparison))
        opened = opened or notes
    (_, deciding), *others = comparisons
    tables = (*tuned.tables, _also_table(others))
    notes = (
        *tuned.notes,
        *opened,
        *(
            _loss_note(name, comparison_of_other)
            for name, comparison_of_other in others
            if (comparison_of_other.difference or 0.0) < 0
        ),
    )
    tuned = replace(tuned, comparison=deciding, tables=tables, notes=notes)
    if not (tuned.proven or options.keep):
        # Else the store would hold vectors of a model that is gone.
        project.store.remove(sorted(project.store.content_hashes(variant.pair)), variant.pair)
        return tuned
    if not onnx:
        tuned = replace(tuned, notes=(*tuned.notes, *_onnx_note(trial)))
    write_card(trial, _card_facts(tuned, options), comparisons, trained.curve)
    digest = text_hash(variant.pair.embedder)[:8]
    target = _target_folder(project, options, digest, proven=tuned.proven)
    if not options.output:  # named by its weights: an equal training made the same model
        shutil.rmtree(target, ignore_errors=True)
    return _moved_to_target(project, tuned, trial, provider, target)


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


def _onnx_note(trial: Path) -> tuple[str, ...]:
    """Export to ONNX; return a note if the folder cannot hold an ONNX file too."""
    try:
        export_onnx(trial, trial)
    except RagwrightError as error:
        return (f"the folder has no ONNX file: {error}",)
    return ()


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


def _card_facts(tuned: Tuned, options: EmbedderTuning) -> dict[str, Any]:
    """Return the facts on data and settings for the card."""
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
    return {
        "base model": tuned.base,
        "training pairs": pairs,
        "negatives": options.mining.kind,
        "settings": ", ".join(f"{k} {v}" for k, v in asdict(options.training).items()),
        "best step": figures.settings["best_step"],
        **merged,
        "taken": f"{figures.settings.get('trained_share', 1.0):.0%} of the trained weights",
        f"{figures.measure}, {figures.method}": f"{figures.before:.3f} -> {figures.after:.3f}",
    }
