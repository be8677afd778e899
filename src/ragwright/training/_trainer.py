"""Training with the trainer of sentence-transformers: our stops, curve and checkpoints."""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import TrainingError, require
from ..models import no_progress_bars

_PURPOSE = "training a model"
_METRIC = "unseen_mrr"
_SAVED_EVERY = 60.0
"""Seconds between two checkpoints."""
_WARMUP = 0.1
_EVALUATIONS = 8
"""Approximate number of evaluations on unseen questions during a training."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Options of a training.

    Attributes:
        epochs: Most times that every pair is seen; training stops earlier if unseen questions no
            longer gain.
        batch: Number of pairs per step.
        rate: Learning rate at its highest; it rises over the first tenth of the steps, then falls
            linearly to 0.
        tokens: Longer texts are cut to this many tokens while training.
        patience: Evaluations without gain after which training stops.
        threads: Threads of the CPU; 0 for ``OMP_NUM_THREADS``, else for all.
        seed: Seed of the order of the pairs and of dropout.
    """

    epochs: int = 4
    batch: int = 32
    rate: float = 5e-5
    tokens: int = 128
    patience: int = 3
    threads: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the curve: the loss of a step, or MRR@10 of the unseen questions after it."""

    step: int
    epoch: float
    loss: float | None = None
    unseen: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The outcome of a training; the model itself is changed in place.

    Attributes:
        curve: Loss and MRR@10 of unseen questions by step.
        before: MRR@10 of the unseen questions before training.
        after: MRR@10 of the best checkpoint, whose weights the model now has.
        step: The step of that checkpoint; 0 if none was better than before.
        stopped: Reason for ending before the last step; empty if there is none.
        resumed: The step from which it continued; 0 for a new training.
        unseen: MRR@10 of the unseen questions by the weights that the model has now; below
            ``before`` if no checkpoint was better.
    """

    curve: tuple[Point, ...]
    before: float
    after: float
    step: int
    stopped: str = ""
    resumed: int = 0
    unseen: float = 0.0


Report = Callable[[int, int], None]
"""A function called after each step with the number of finished steps and of all steps."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A model with the data, the loss and the questions that it is trained with.

    Attributes:
        model: The model of sentence-transformers; it is changed in place.
        kind: Its kind, as its trainer is named: ``SentenceTransformer`` or ``CrossEncoder``.
        columns: Training data by column, as the loss reads them.
        loss: The loss of sentence-transformers.
        measure: MRR@10 of the unseen questions by a model, 0 to 1.
        least: MRR@10 of the unseen questions without the model: a gain is one above it.
        fresh: True if the model cannot be used before training: then only ``least`` counts.
    """

    model: Any
    kind: str
    columns: Mapping[str, Sequence[Any]]
    loss: Any
    measure: Callable[[Any], float]
    least: float = 0.0
    fresh: bool = False


def train(
    lesson: Lesson,
    options: TrainingOptions,
    folder: Path,
    *,
    resume: bool = False,
    on_step: Report | None = None,
) -> TrainingResult:
    """Train a model of sentence-transformers, and leave it at its best checkpoint.

    Checkpoints are kept in ``folder``; with ``resume`` training continues from the last of them.

    Raises:
        MissingExtraError: ``ragwright[train]`` is not installed.
        TrainingError: The loss is not a number before a checkpoint is better than the start.
    """
    st = require("sentence_transformers", "train", _PURPOSE)
    datasets = require("datasets", "train", _PURPOSE)
    transformers = require("transformers", "train", _PURPOSE)
    # A checkpoint with the state of the trainer is complete.
    complete = folder.glob("checkpoint-*/trainer_state.json") if resume else ()
    steps = {int(path.parent.name.rpartition("-")[2]): str(path.parent) for path in complete}
    resumed = max(steps, default=0)
    if not resumed:
        shutil.rmtree(folder, ignore_errors=True)
    model = lesson.model
    model.model_card_data.local_files_only = True
    data = datasets.Dataset.from_dict(dict(lesson.columns))
    watch = _step_watch(transformers, on_step)
    # A model that begins with random weights gains nothing at first.
    patience = max(options.patience, _EVALUATIONS) if lesson.fresh else options.patience
    early = transformers.EarlyStoppingCallback(patience)
    with training_setup(model, options):
        arguments = getattr(st, f"{lesson.kind}TrainingArguments")
        trainer = _trainer_class(getattr(st, f"{lesson.kind}Trainer"))(
            model=model,
            args=_training_arguments(arguments, options, lesson, folder),
            train_dataset=data,
            loss=lesson.loss,
            evaluator=_evaluator(lesson.measure),
            callbacks=[watch, early],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(resume_from_checkpoint=steps.get(resumed))
    model.to("cpu").eval()
    return replace(_training_outcome(trainer.state, watch.fault, options, lesson), resumed=resumed)


def _training_outcome(
    state: Any, fault: str, options: TrainingOptions, lesson: Lesson
) -> TrainingResult:
    curve = tuple(_curve_points(state.log_history))
    mrr_by_step = {point.step: point.unseen for point in curve if point.unseen is not None}
    start = 0.0 if lesson.fresh else mrr_by_step.get(0, 0.0)
    before = max(start, lesson.least)
    step = 0 if state.best_model_checkpoint is None else state.best_global_step
    unseen = mrr_by_step.get(step, before)
    if unseen <= before:  # the trainer ignores the start
        step = 0
    if fault and not step:
        raise TrainingError(
            f"the loss {fault}, before any checkpoint was better than the model at the start",
            hint=f"nothing was written; try a lower rate: --rate {options.rate / 10:g}",
        )
    if not fault and state.global_step < state.max_steps:
        fault = f"unseen questions did not gain in {options.patience} evaluations"
    return TrainingResult(curve, before, unseen if step else before, step, fault, unseen=unseen)


def _curve_points(history: Sequence[dict[str, Any]]) -> Iterator[Point]:
    for entry in history:
        step, epoch = int(entry["step"]), round(float(entry.get("epoch") or 0.0), 4)
        if "loss" in entry:
            yield Point(step, epoch, loss=float(entry["loss"]))
        elif f"eval_{_METRIC}" in entry:
            yield Point(step, epoch, unseen=float(entry[f"eval_{_METRIC}"]))


def _training_arguments(
    arguments: Any, options: TrainingOptions, lesson: Lesson, folder: Path
) -> Any:
    torch = require("torch", "train", _PURPOSE)
    pairs = len(next(iter(lesson.columns.values())))
    steps = math.ceil(pairs / options.batch) * options.epochs
    every = max(1, round(steps / _EVALUATIONS))
    return arguments(
        output_dir=str(folder),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=options.batch,
        learning_rate=options.rate,
        warmup_steps=_WARMUP,
        seed=options.seed,
        use_cpu=not torch.cuda.is_available(),
        batch_sampler="no_duplicates",
        logging_steps=1,
        logging_nan_inf_filter=False,
        eval_strategy="steps",
        eval_steps=every,
        eval_on_start=True,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{_METRIC}",
        greater_is_better=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def _trainer_class(base: Any) -> Any:
    class _Trainer(base):  # type: ignore[misc]
        def add_model_card_callback(self, default_args_dict: Any) -> None:
            """None: we write our own card."""

        def _save(self, *given: Any, **named: Any) -> None:
            """Save a checkpoint without a card, which takes longer to write than small weights."""
            save = self.model.save_pretrained
            self.model.save_pretrained = partial(save, create_model_card=False)
            try:
                super()._save(*given, **named)
            finally:
                del self.model.save_pretrained

    return _Trainer


def _step_watch(transformers: Any, on_step: Report | None) -> Any:
    class _Watch(transformers.TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.fault = ""
            self.saved = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if on_step is not None:
                on_step(state.global_step, state.max_steps)
            if time.monotonic() - self.saved > _SAVED_EVERY:
                control.should_save = True

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.saved = time.monotonic()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None and not math.isfinite(float(loss)):
                self.fault = f"became {float(loss)} at step {state.global_step}"
                control.should_training_stop = True
                control.should_evaluate = control.should_save = False

    return _Watch()


def _evaluator(measure: Callable[[Any], float]) -> Any:
    """Return an evaluator for the trainer that measures the unseen questions."""
    evaluation = require("sentence_transformers.base.evaluation", "train", _PURPOSE)

    class _Evaluator(evaluation.BaseEvaluator):  # type: ignore[misc,name-defined]
        def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
            return {_METRIC: measure(model)}

    evaluator = _Evaluator()
    evaluator.primary_metric = _METRIC
    return evaluator


@contextmanager
def training_setup(model: Any, options: TrainingOptions) -> Iterator[None]:
    """Set threads and window to train or measure; hide bars and warnings of the libraries."""
    torch = require("torch", "train", _PURPOSE)
    logs = require("transformers.utils.logging", "train", _PURPOSE)
    bars = require("datasets.utils", "train", _PURPOSE)
    before, level = torch.get_num_threads(), logs.get_verbosity()
    window = model.max_seq_length
    model.max_seq_length = min(options.tokens, window or options.tokens)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    usual = int(wanted) if wanted.isdigit() else os.cpu_count()
    torch.set_num_threads(options.threads or usual or 1)
    logs.set_verbosity(logging.ERROR)
    bars.disable_progress_bars()
    try:
        with warnings.catch_warnings(), no_progress_bars(_PURPOSE):
            warnings.simplefilter("ignore")
            yield
    finally:
        model.max_seq_length = window
        torch.set_num_threads(before)
        logs.set_verbosity(level)
        bars.enable_progress_bars()
