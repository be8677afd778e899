"""`ragwright tune`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..core import ConfigError
from ..jobs import PromotionOptions, PromotionResult
from ..project import Change, ProjectFolder, Served
from ..report import (
    gate_json,
    gate_table,
    make_tuned_json,
    make_tuned_table,
    write_tuned_headline,
    write_tuned_use,
)
from ..training import (
    MiningOptions,
    ModelTuneOptions,
    Negatives,
    TrainingOptions,
    TuneResult,
    name_sources,
)
from ..workbench import Workbench
from ._console import EXIT_FAILED, Console, ProgressStep, table
from ._flags import RUN_HELP, Flags, takes
from ._measure import GateFlags, gate_code
from ._show import runner_step, show_progress

_HOW, _TRAIN = ModelTuneOptions(), TrainingOptions()

_SHARED = "cluster project overrides as_json quiet jobs max_cost"


class _Negatives(StrEnum):
    HARD = "hard"
    RANDOM = "random"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class _Training:
    """The options of every command that trains a model."""

    testset: Annotated[str, Option(help="Questions with gold; without it they are made.")] = ""
    sources: Annotated[
        str,
        Option(
            "--from",
            help="Comma-separated sources of training questions: testset, headings, cloze, "
            "glossary (codes).",
        ),
    ] = ""
    from_corpus: Annotated[
        bool,
        Option(
            "--from-corpus",
            help="Train on questions made from the documents only; the whole testset decides.",
        ),
    ] = False
    also: Annotated[list[str] | None, Option(help="Further testset to compare on; repeatable.")] = (
        None
    )
    folder: Annotated[
        str, Option("-o", "--output", help="Folder to write; by default in models/.")
    ] = ""
    measure: Annotated[str, Option(help="Ranking measure that decides.")] = "MRR@10"
    negatives: Annotated[_Negatives, Option(help="Passages used as wrong answers.")] = (
        _Negatives.HARD
    )
    most: Annotated[
        int, Option(min=1, help="Maximum number of questions made from each source.")
    ] = _HOW.most
    epochs: Annotated[int, Option(min=1, help="Maximum number of passes over the pairs.")] = (
        _TRAIN.epochs
    )
    rate: Annotated[float, Option(min=0, help="Learning rate.")] = _TRAIN.rate
    batch: Annotated[int, Option(min=2, help="Number of pairs per step.")] = _TRAIN.batch
    patience: Annotated[
        int, Option(min=1, help="Evaluations without gain after which training stops.")
    ] = _TRAIN.patience
    tokens: Annotated[
        int, Option(min=8, help="Number of tokens to which texts are cut while training.")
    ] = _TRAIN.tokens
    keep: Annotated[
        bool,
        Option("--keep", help="Write the model even if it is not proven better; its card says so."),
    ] = False
    seed: Annotated[int, Option(min=0, help="Seed of order, negatives and intervals.")] = 0

    def tuning(
        self,
        flags: Flags,
        steps: _Steps,
        base: str = "",
    ) -> ModelTuneOptions:
        """Return the options of the training."""
        negatives: Negatives = self.negatives.value
        return ModelTuneOptions(
            name_sources(self.sources),
            self.most,
            tuple(self.also or ()),
            self.folder,
            self.measure,
            MiningOptions(negatives, seed=self.seed),
            TrainingOptions(
                self.epochs,
                self.batch,
                self.rate,
                self.tokens,
                self.patience,
                seed=self.seed,
            ),
            flags.resume,
            steps.count,
            self.keep,
            flags.cluster,
            base,
            self.from_corpus,
        )


_HELP = """Train the embedder or a reranker (needs torch).

A model is trained on the tune split of a testset, and kept only where it wins on held-out
questions. Install what training needs: pip install 'ragwright[train]'.
"""

tune_group = typer.Typer(help=_HELP, no_args_is_help=True)


@tune_group.callback(help=_HELP)
def parts() -> None:
    """Do nothing: each command trains one kind of model."""


@tune_group.command("embedder")
@takes(f"{_SHARED} resume")
def embedder(
    flags: Flags,
    training: _Training,
) -> int:
    """Train the embedding model on questions.

    It learns from questions and the passages that answer them.

    Trained on the tune split, compared on the confirm split with the documents embedded again.
    Exit code 0 when a model folder was written, 100 when it is not proven better; --keep writes it
    then too, marked in its card, and the exit code stays 100.
    """
    steps = _Steps()
    options = training.tuning(flags, steps)
    return _tuned(flags, lambda bench: bench.tune_embedder(training.testset, options), steps)


_BASE = Option(
    "", help="Model to start from, as st:FOLDER or hf:ORG/NAME; by default the present one."
)


@tune_group.command("reranker")
@takes(f"{_SHARED} resume")
def reranker(flags: Flags, training: _Training, base: str = _BASE) -> int:
    """Train a model that reorders the hits.

    The model is a cross-encoder. It starts from the present reranking model, else from the
    embedding model. Trained on the tune split, compared on the confirm split. Exit code 0 when a
    model folder was written, 100 when it is not proven better; --keep writes it then too, marked in
    its card.
    """
    steps = _Steps()
    options = training.tuning(flags, steps, base)
    return _tuned(flags, lambda bench: bench.tune_reranker(training.testset, options), steps)


@dataclass
class _Steps:
    """Progress of a training within a command."""

    done: int = 0
    total: int = 0

    def count(self, done: int, total: int) -> None:
        """Record that a step has ended."""
        self.done, self.total = done, total

    def step(self, bench: Workbench) -> str | ProgressStep:
        """Steps while training; rows while questions are answered; else the present work."""
        if not 0 < self.done < self.total:
            if bench.progress.total:
                return runner_step(bench.progress)
            return "embedding the documents" if self.done else "choosing training passages"
        return ProgressStep(self.done, self.total, "steps")


def _tuned(
    flags: Flags, tune: Callable[[Workbench], TuneResult], steps: _Steps | None = None
) -> int:
    """Tune, show the progress of the training or of the runner, and print the result."""
    console = flags.console
    with flags.open() as bench:
        line = None if steps is None else partial(steps.step, bench)
        with show_progress(console, bench, line=line):
            tuned = tune(bench)
        root = bench.project.folder.root
    if flags.as_json:
        console.json(make_tuned_json(tuned))
    else:
        console.result(write_tuned_headline(tuned))
        console.result(make_tuned_table(tuned, console.columns()))
        for note in (*tuned.notes, write_tuned_use(tuned, root)):
            if note:
                console.remark(note)
    return 0 if tuned.proven else EXIT_FAILED


@takes("project as_json output seed dry_run")
def promote_command(
    flags: Flags,
    gate: GateFlags,
    run: str = Argument("", help=RUN_HELP, show_default=False),
    rules: list[str] | None = Option(
        None,
        "--gate",
        help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02; repeatable. Without a baseline rule, "
        "no measure may be worse than the served configuration.",
    ),
    rules_alone: bool = Option(
        False,
        "--rules-alone",
        help="Check the rules only; do not compare with the served configuration.",
    ),
    reason: str = Option("", help="Reason for the history; required with --back."),
    history: bool = Option(False, "--history", help="List every change."),
    show: bool = Option(False, "--show", help="Print the served configuration."),
    back: bool = Option(False, "--back", help="Serve the previous configuration again."),
) -> int:
    """Serve a run's settings if it passes the gate.

    The exit codes are those of `ragwright gate`.
    """
    if sum((bool(run), history, show, back)) != 1:
        raise ConfigError(
            "give a run, or one of --history, --show, --back", where="ragwright promote"
        )
    console = flags.console
    served = Served(ProjectFolder(flags.project).require())
    if history or show:
        if history:
            _show_history(console, served.history())
        else:
            _show_served(console, served)
        return 0
    with flags.open() as bench:
        if back:
            change = bench.promote_back(reason)
            console.show(
                lambda: asdict(change),
                lambda: (
                    f"now served: number {change.number}, in place of {change.replaced} "
                    f"(run {change.run})"
                ),
            )
            return 0
        options = PromotionOptions(
            gate.gating(flags.seed),
            gate.baseline,
            rules_alone,
            reason=reason,
            dry_run=flags.dry_run,
        )
        promoted = bench.promote(run, rules or (), options)
    console.show(lambda: _document(promoted), lambda: _text(promoted, console.columns()))
    return gate_code(promoted.outcome)


def _document(promoted: PromotionResult) -> dict[str, Any]:
    return {
        "run": promoted.run,
        **gate_json(promoted.outcome),
        "promoted": promoted.changed,
        "baseline": promoted.baseline,
        "notes": promoted.notes,
        "served": None if promoted.served is None else asdict(promoted.served),
    }


def _text(promoted: PromotionResult, columns: int) -> str:
    number = "nothing" if promoted.served is None else f"number {promoted.served.number}"
    ending = f"now served: {number}" if promoted.changed else f"not promoted; served: {number}"
    return "\n".join([gate_table(promoted.outcome, columns), *promoted.notes, ending])


def _show_history(console: Console, changes: Sequence[Change]) -> None:
    head = ("at", "by", "action", "number", "run", "baseline", "gate", "reason")
    rows = [
        (
            *(change.at, change.by, change.action, str(change.number), change.run),
            *(change.baseline, str(change.gate.get("outcome", "")), change.reason),
        )
        for change in changes
    ]
    console.show(
        lambda: {"changes": [asdict(change) for change in changes]},
        lambda: (
            table([head, *rows], right=(3,))
            if changes
            else "no configuration has been served yet: run `ragwright promote RUN`"
        ),
    )


def _show_served(console: Console, served: Served) -> None:
    change = served.current()
    if change is None:
        raise ConfigError(
            "no configuration is served yet",
            where=str(served.folder),
            hint="run `ragwright promote RUN`",
        )
    head = f"# number {change.number}, since {change.at}, by {change.by}, run {change.run}"
    console.show(
        lambda: {**asdict(change), **served.snapshot(change.number)[0].body()},
        lambda: f"{head}\n{served.text(change.number).rstrip()}",
    )
