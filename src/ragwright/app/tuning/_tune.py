"""`ragwright tune`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...project import Session
from ...report import tuned_headline, tuned_json, tuned_table, tuned_use
from ...training import (
    AdapterTuning,
    EmbedderTuning,
    Mining,
    RankerTuning,
    TrainingOptions,
    Tuned,
    named_sources,
)
from ...workbench import Workbench
from .._compare import CLUSTER_HELP
from .._console import EXIT_FAILED, Console, Step, reported
from .._options import HERE, Jobs, Json, MaxCost, Overrides, Project, Quiet, Resume
from .._show import runner_step, show_progress

_HOW, _TRAIN = EmbedderTuning(), TrainingOptions()


class _Loss(StrEnum):
    RANKING = "ranking"
    COSINE = "cosine"


class _Negatives(StrEnum):
    HARD = "hard"
    RANDOM = "random"
    NONE = "none"


_Gold = Annotated[str, typer.Option("--testset", help="Questions with gold.")]
_Testset = Annotated[
    str, typer.Option("--testset", help="Questions with gold; without it they are made.")
]
_Sources = Annotated[
    str,
    typer.Option(
        "--from",
        help="Sources of training questions, with commas: testset, headings, cloze, questions, "
        "glossary (codes).",
    ),
]
_Also = Annotated[
    list[str] | None, typer.Option("--also", help="Further testset to compare on; repeatable.")
]
_Folder = Annotated[
    str, typer.Option("-o", "--output", help="Folder to write; by default in models/.")
]
_Measure = Annotated[str, typer.Option("--measure", help="Ranking measure that decides.")]
_LossChoice = Annotated[_Loss, typer.Option("--loss", help="Loss to minimise.")]
_NegativesChoice = Annotated[
    _Negatives, typer.Option("--negatives", help="Passages that do not answer.")
]
_Most = Annotated[int, typer.Option("--most", min=1, help="Most questions made from each source.")]
_Epochs = Annotated[int, typer.Option("--epochs", min=1, help="Most times each pair is seen.")]
_Rate = Annotated[float, typer.Option("--rate", min=0, help="Learning rate.")]
_Batch = Annotated[int, typer.Option("--batch", min=2, help="Pairs of a step.")]
_Tokens = Annotated[
    int, typer.Option("--tokens", min=8, help="Texts are cut to this many while training.")
]
_Bfloat16 = Annotated[
    bool, typer.Option("--bfloat16", help="Multiply in 16 bits: faster, less exact.")
]
_Merge = Annotated[
    bool,
    typer.Option(help="Merge with the weights before training where other questions need it."),
]
_Keep = Annotated[
    bool,
    typer.Option("--keep", help="Write the model even where it is not proven better, marked so."),
]
_Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of order, folds, trees and intervals.")
]

_Cluster = Annotated[str, typer.Option("--cluster", help=CLUSTER_HELP)]

group = typer.Typer(
    help="Train parts of the search on a testset; kept only where they win on held-out questions.",
    no_args_is_help=True,
)


@group.callback()
def parts() -> None:
    """Train parts of the search on a testset; kept only where they win on held-out questions."""


@group.command("adapter")
@reported
def adapter(
    testset: _Gold,
    file: Annotated[
        str, typer.Option("-o", "--output", help="File to write; by default in adapters/.")
    ] = "",
    measure: _Measure = "MRR@10",
    cluster: _Cluster = "",
    seed: _Seed = 0,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
) -> int:
    """Fit a linear adapter of query vectors; no passage is embedded again.

    Fitted on the tune split, compared on the confirm split. Exit code 0 when it was written, 100
    when it is not proven better.
    """
    console = Console(quiet)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    how = AdapterTuning(file, measure, seed, cluster)
    with Workbench.open(project, session) as bench:
        return _tuned(console, bench, as_json, lambda: bench.tune_adapter(testset, how))


@group.command("ranker")
@reported
def ranker(
    testset: _Gold,
    file: Annotated[
        str, typer.Option("-o", "--output", help="File to write; by default in rankers/.")
    ] = "",
    measure: _Measure = "MRR@10",
    depth: Annotated[
        int, typer.Option("--depth", min=2, max=1000, help="Hits of the search that it orders.")
    ] = 50,
    cluster: _Cluster = "",
    seed: _Seed = 0,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
) -> int:
    """Learn an order of the hits from scores, ranks, words, codes and titles.

    Fitted on the tune split, compared on the confirm split. Exit code 0 when it was written, 100
    when it is not proven better.
    """
    console = Console(quiet)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    how = RankerTuning(file, measure, depth, seed, cluster)
    with Workbench.open(project, session) as bench:
        return _tuned(console, bench, as_json, lambda: bench.tune_ranker(testset, how))


@group.command("embedder")
@reported
def embedder(
    testset: _Testset = "",
    sources: _Sources = "",
    also: _Also = None,
    folder: _Folder = "",
    measure: _Measure = "MRR@10",
    loss: _LossChoice = _Loss.RANKING,
    negatives: _NegativesChoice = _Negatives.HARD,
    most: _Most = _HOW.most,
    epochs: _Epochs = _TRAIN.epochs,
    rate: _Rate = _TRAIN.rate,
    batch: _Batch = _TRAIN.batch,
    tokens: _Tokens = _TRAIN.tokens,
    bfloat16: _Bfloat16 = False,
    merge: _Merge = True,
    keep: _Keep = False,
    cluster: _Cluster = "",
    seed: _Seed = 0,
    resume: Resume = False,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
) -> int:
    """Fine-tune the embedding model on questions and the passages that answer them.

    Trained on the tune split, compared on the confirm split with the documents embedded again.
    Exit code 0 when a model folder was written, 100 when it is not proven better; --keep writes it
    then too, marked in its card, and the exit code stays 100.
    """
    console = Console(quiet)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    steps = _Steps()
    how = EmbedderTuning(
        named_sources(sources),
        most,
        tuple(also or ()),
        folder,
        measure,
        Mining(negatives.value, seed=seed),
        TrainingOptions(loss.value, epochs, batch, rate, tokens, bfloat16=bfloat16, seed=seed),
        merge,
        resume,
        steps.count,
        keep,
        cluster,
    )
    with Workbench.open(project, session) as bench:
        with console.progress(
            partial(steps.step, bench), lambda: bench.progress.warnings, lambda: bench.progress
        ):
            found = bench.tune_embedder(testset, how)
        root = bench.project.folder.root
    return _shown(console, found, root, as_json)


@dataclass
class _Steps:
    """Progress of a training within a command."""

    done: int = 0
    total: int = 0
    first: float = 0.0
    before: int = 0

    def count(self, done: int, total: int) -> None:
        """A step has ended."""
        if not self.total:
            self.first = time.monotonic()
            self.before = done
        self.done, self.total = done, total

    def step(self, bench: Workbench) -> str | Step:
        """Steps while training; rows while questions are answered; else what is being done."""
        if not 0 < self.done < self.total:
            if bench.progress.total:
                return runner_step(bench.progress)
            return "merging weights and embedding" if self.done else "choosing training passages"
        seconds = time.monotonic() - self.first
        rate = (self.done - self.before) / seconds if seconds else 0.0
        eta = (self.total - self.done) / rate if rate else None
        return Step(self.done, self.total, "steps", rate, eta)


def _tuned(console: Console, bench: Workbench, as_json: bool, tune: Callable[[], Tuned]) -> int:
    """Tune with the progress of the runner, and print what came of it; the exit code."""
    with show_progress(console, bench):
        found = tune()
    return _shown(console, found, bench.project.folder.root, as_json)


def _shown(console: Console, found: Tuned, root: Path, as_json: bool) -> int:
    """Print what tuning came to; the exit code."""
    code = 0 if found.proven else EXIT_FAILED
    if as_json:
        console.json(tuned_json(found))
        return code
    console.result(tuned_headline(found))
    console.result(tuned_table(found, console.columns()))
    for note in (*found.notes, tuned_use(found, root)):
        if note:
            console.remark(note)
    return code
