"""`tune embedder`: fine-tune the embedding model, and keep it only where it wins."""

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
"""Most questions of each other kind, to see what a trained model can no longer do."""


@dataclass(frozen=True, slots=True)
class EmbedderTuning:
    """How an embedding model is fine-tuned.

    Attributes:
        sources: Where training questions come from, of ``testset``, ``headings``, ``cloze``,
            ``questions`` and ``glossary``; by default the testset, and without one ``headings``,
            ``questions`` and ``glossary``.
        most: Most questions made from each source other than the testset.
        also: Further testsets to compare on; they do not decide.
        output: Folder to write, relative to the project folder; empty names one in ``models/``.
        measure: Ranking measure that decides on the held-out questions.
        mining: How passages that do not answer are chosen.
        training: How weights are trained.
        merge: Merge the weights with those before training where that keeps more of what the model
            could do.
        resume: Continue an interrupted training of the same pairs and settings.
        on_step: Called after each step with the number of steps done and of all.
        keep: Write the model even where it is not proven better, and mark it so.
        cluster: What held-out questions share that are not independent.
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

    With ``how.keep`` it is written in any case; its card then says that it is not proven better,
    and so do `doctor` and every evaluation with it.

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
    source = _checked(project, options)
    seed = options.training.seed
    given = training_questions(project, testset, options.sources, options.most, seed)
    with given as questions:
        pairs = read_pairs(project, questions.rows, options.mining)
        kept, unseen = without_unseen(project, pairs)
        rule = project.models.vector_rule(project.settings.embed.model)
        model = open_trainable(source, rule)
        start = weights_of(model)
        work = _workplace(project, pairs, options)
        trained = train(model, rule, kept, unseen, options.training, work)
        found = _result(project, options, kept, unseen, trained)
        found = replace(found, notes=(*questions.notes, *found.notes))
        gained = trained.after > trained.before
        if gained or options.keep:
            merged = options.merge and gained
            others = _others(project, questions, options) if merged else None
            if others is not None:
                asked = (unseen, others)
                found = _with_merged(found, merge(model, rule, start, asked, options.training))
            trial = work.folder / "model"
            shutil.rmtree(trial, ignore_errors=True)
            save_trained(model, trial)
            found = _judged(project, questions, trial, (found, trained, options))
        shutil.rmtree(work.folder, ignore_errors=True)
        return found


def _checked(project: Project, options: EmbedderTuning) -> str:
    """The source of the weights, once everything that can be refused at once has not been.

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
        if made := getattr(project.settings.retrieve, key):
            raise ConfigError(
                f"retrieve.{key} is {made}, made for the model as it is",
                where=str(project.folder.file),
                hint=f"add --set retrieve.{key}= ; fit a new {key} to the new model afterwards",
            )
    target = _target(project, options)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "there is something already", where=str(target), hint="name another folder with -o"
        )
    source = project.models.trainable(model)
    project.target()
    return source


def _target(
    project: Project, options: EmbedderTuning, name: str = "", *, proven: bool = True
) -> Path:
    """The folder to write; its own name says where a model is not proven better."""
    kind = "tuned" if proven else "unproven"
    return project.folder.root / (options.output or f"models/{kind}-{name}")


def _workplace(project: Project, pairs: Sequence[Pair], options: EmbedderTuning) -> Workplace:
    """The folder of checkpoints: the same for the same model, pairs and settings."""
    texts = [text_hash("\x00".join((p.question, p.positive, p.negative))) for p in pairs]
    key = value_hash([project.pair.embedder, asdict(options.training), texts])[:16]
    folder = project.folder.cache / "training" / key
    return Workplace(folder, options.resume, options.on_step)


def _result(
    project: Project,
    options: EmbedderTuning,
    kept: Sequence[Pair],
    unseen: Unseen,
    trained: Trained,
) -> Tuned:
    """The result so far, without a held-out comparison."""
    settings: dict[str, Any] = asdict(options.training)
    settings |= {"negatives": options.mining.kind, "best_step": trained.step}
    figures = TrainingFigures(
        len(kept),
        "MRR@10, dense",
        trained.before,
        trained.unseen if options.keep else trained.after,
        f"{len(unseen.questions)} unseen",
        settings,
    )
    counts = Counter(pair.source for pair in kept)
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


def _others(project: Project, questions: Questions, options: EmbedderTuning) -> Unseen | None:
    """Questions of kinds that are not trained on; None if the documents give too few."""
    rows = other_questions(project, questions, _MOST_OTHERS, options.training.seed)
    try:
        return as_unseen(project, read_pairs(project, rows, Mining("none")))
    except TestsetError:
        return None


def _with_merged(found: Tuned, merged: Merged) -> Tuned:
    """The result with the weights that were taken."""
    (_, _, trained), (_, _, before) = merged.rows[0], merged.rows[-1]
    settings = {**found.training.settings, "trained_share": merged.share}
    figures = replace(found.training, after=merged.unseen, settings=settings)
    columns = ("share of trained weights", "unseen MRR@10", "other questions MRR@10")
    tables = (*found.tables, TunedTable("merge", columns, merged.rows))
    lost = f"MRR@10 of other questions from the documents {before:.3f} -> {trained:.3f}"
    notes = found.notes
    if merged.share < 1:
        notes = (
            *notes,
            f"{lost} after training; {merged.others:.3f} with {merged.share:.0%} of the trained "
            "weights and the rest from before, which were taken",
        )
    return replace(found, training=figures, tables=tables, notes=notes)


def _judged(
    project: Project,
    questions: Questions,
    trial: Path,
    made: tuple[Tuned, Trained, EmbedderTuning],
) -> Tuned:
    """The search with the new model against the present one; the model is moved where it wins."""
    found, trained, options = made
    onnx = isinstance(project.models.embedder(project.settings.embed.model), OnnxEmbedder)
    if onnx:
        export_onnx(trial, trial)
    provider = "onnx" if onnx else "st"
    over = [f"embed.model={json.dumps(f'{provider}:{trial}')}"]
    variant = project.variant(
        load_settings(project.folder.file, (*project.session.overrides, *over))
    )
    build_like(variant, project)
    compared: list[tuple[str, Comparison]] = []
    opened: tuple[str, ...] = ()
    for name in (questions.held_out, *options.also):
        rule = HoldOut(name, options.measure, options.training.seed, options.cluster)
        comparison, notes = held_out(project, over, rule)
        compared.append((Path(name).name, comparison))
        opened = opened or notes
    (_, decides), *others = compared
    tables = (*found.tables, _also_table(others))
    notes = (
        *found.notes,
        *opened,
        *(_worse(name, one) for name, one in others if (one.difference or 0.0) < 0),
    )
    found = replace(found, comparison=decides, tables=tables, notes=notes)
    if not (found.proven or options.keep):
        # The store would keep the vectors of a model that is gone.
        project.store.remove(sorted(project.store.content_hashes(variant.pair)), variant.pair)
        return found
    if not onnx:
        found = replace(found, notes=(*found.notes, *_exported(trial)))
    write_card(trial, _about(found, options), compared, trained.curve)
    digest = text_hash(variant.pair.embedder)[:8]
    target = _target(project, options, digest, proven=found.proven)
    if not options.output:  # named by its weights: an equal training has made the same model
        shutil.rmtree(target, ignore_errors=True)
    return _placed(project, found, trial, provider, target)


def _placed(project: Project, found: Tuned, trial: Path, provider: str, target: Path) -> Tuned:
    """The result, with the model's folder moved to where it is used from."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        target.rmdir()  # empty, else it was refused before training
    shutil.move(trial, target)
    inside = target.is_relative_to(project.folder.root)
    shown = target.relative_to(project.folder.root) if inside else target
    return replace(found, path=target, value=f"{provider}:{shown}")


def _exported(trial: Path) -> tuple[str, ...]:
    """A note where the folder cannot hold an ONNX file too."""
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


def _worse(name: str, one: Comparison) -> str:
    return (
        f"{name} got worse: {one.measure} {one.mean_a:.3f} -> {one.mean_b:.3f} "
        f"({interval_text(one) or 'no interval'}, {one.verdict})"
    )


def _about(found: Tuned, options: EmbedderTuning) -> dict[str, Any]:
    """What the card says of data and settings."""
    pairs = ", ".join(f"{count} from {name}" for name, count in found.tables[0].rows)
    figures = found.training
    merged = {
        f"{share:.0%} of the trained weights": f"MRR@10 {unseen:.3f} of unseen training questions, "
        f"{others:.3f} of other questions"
        for table in found.tables
        if table.name == "merge"
        for share, unseen, others in table.rows
        if isinstance(share, float)
    }
    return {
        "base model": found.base,
        "training pairs": pairs,
        "negatives": options.mining.kind,
        "settings": ", ".join(f"{k} {v}" for k, v in asdict(options.training).items()),
        "best step": figures.settings["best_step"],
        **merged,
        "taken": f"{figures.settings.get('trained_share', 1.0):.0%} of the trained weights",
        f"{figures.measure}, {figures.method}": f"{figures.before:.3f} -> {figures.after:.3f}",
    }
