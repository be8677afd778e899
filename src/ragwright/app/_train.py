"""`ragwright tune`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from typer import Argument, BadParameter, Option

from ..core import ConfigError
from ..jobs import PromotionOptions, PromotionResult
from ..project import ProjectFolder, Served
from ..report import (
    gate_json,
    gate_table,
    make_tuned_json,
    make_tuned_table,
    write_tuned_headline,
    write_tuned_use,
)
from ..training import ModelTuneOptions, Negatives, TrainingOptions, name_sources
from ..workbench import Workbench
from ._console import EXIT_FAILED, Console, ProgressStep
from ._flags import RUN_HELP, Flags, takes
from ._measure import GateFlags, gate_code
from ._show import runner_step, show_list, show_progress

_HOW, _TRAIN = ModelTuneOptions(), TrainingOptions()


_Model: TypeAlias = Literal["embedder", "reranker"]


@dataclass
class _Steps:
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


@takes("cluster project overrides as_json quiet jobs max_cost resume")
def tune_command(
    flags: Flags,
    model: _Model = Argument(help="The model to train."),
    testset: str = Option("", help="Questions with gold; without it they are made."),
    sources: str = Option(
        "",
        "--from",
        help="Comma-separated sources of training questions: testset, headings, cloze, "
        "glossary (codes).",
    ),
    from_corpus: bool = Option(
        False,
        "--from-corpus",
        help="Train on questions made from the documents only; the whole testset decides.",
    ),
    also: list[str] = Option([], help="Further testset to compare on; repeatable."),
    base: str = Option(
        "",
        help="For a reranker: model to start from, as st:FOLDER or hf:ORG/NAME; by default the "
        "present one.",
    ),
    folder: str = Option("", "-o", "--output", help="Folder to write; by default in models/."),
    measure: str = Option("MRR@10", help="Ranking measure that decides."),
    negatives: Negatives = Option("hard", help="Passages used as wrong answers."),
    most: int = Option(_HOW.most, min=1, help="Maximum number of questions from each source."),
    epochs: int = Option(_TRAIN.epochs, min=1, help="Maximum number of passes over the pairs."),
    rate: float = Option(_TRAIN.rate, min=0, help="Learning rate."),
    batch: int = Option(_TRAIN.batch, min=2, help="Number of pairs per step."),
    patience: int = Option(
        _TRAIN.patience, min=1, help="Evaluations without gain after which training stops."
    ),
    tokens: int = Option(
        _TRAIN.tokens, min=8, help="Number of tokens to which texts are cut while training."
    ),
    keep: bool = Option(
        False, "--keep", help="Write the model even if it is not proven better; its card says so."
    ),
    seed: int = Option(0, min=0, help="Seed of order, negatives and intervals."),
) -> int:
    """Train the embedder or a reranker (needs torch).

    Trained on the tune split, and kept only if it wins on the confirm split; with --keep a model
    that is not proven better is written too, marked in its card. A reranker (a cross-encoder)
    starts from the present one, else from the embedding model. Exit code 0 when a model is proven
    better, else 100. Install what training needs: pip install 'ragwright[train]'.
    """
    if base and model == "embedder":
        raise BadParameter("it is for a reranker; set embed.model", param_hint="--base")
    training = TrainingOptions(epochs, batch, rate, tokens, patience, seed=seed)
    options = ModelTuneOptions(name_sources(sources), most, tuple(also), folder, measure, negatives)
    options = replace(options, training=training, keep=keep, base=base, from_corpus=from_corpus)
    return _tune(flags, model, testset, options, _Steps())


def _tune(
    flags: Flags, model: _Model, testset: str, options: ModelTuneOptions, steps: _Steps
) -> int:
    """Tune, show the progress of the training or of the runner, and print the result."""
    console = flags.console
    options = replace(options, resume=flags.resume, cluster=flags.cluster, on_step=steps.count)
    with flags.open() as bench:
        with show_progress(console, bench, line=partial(steps.step, bench)):
            tune = bench.tune_embedder if model == "embedder" else bench.tune_reranker
            tuned = tune(testset, options)
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
            columns = ("at", "by", "action", "number", "run", "baseline", "outcome", "reason")
            gated = [(asdict(c), {"outcome": c.gate.get("outcome")}) for c in served.history()]
            nothing = "no configuration has been served yet: run `ragwright promote RUN`"
            show_list(flags, "changes", [{**c, **gate} for c, gate in gated], columns, nothing)
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
