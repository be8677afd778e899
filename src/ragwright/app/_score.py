"""`ragwright score`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError
from ..experiment import Evaluating, Evaluation, evaluate, forecast_rows, score_run
from ..measure import ranking_measures
from ..models import Models
from ..project import ProjectFolder, settings_without_file
from ..testsets import read_qrels, read_run
from ..workbench import Workbench
from ._console import EXIT_UNTRUSTED, fail, reported
from ._flags import ScoringFlags, with_flags
from ._outcome import FewRows, check_output, say_price, show_evaluation, trusted
from ._show import show_forecast, show_progress

_ALONE = ("embed", "models", "judge.embedder", "judge.token_model")
"""Settings that mean something without a project."""


@reported
@with_flags
def command(
    flags: ScoringFlags,
    rows: Annotated[
        str | None,
        typer.Argument(help="Rows (JSONL, JSON, CSV), or a run of the project: latest, its name."),
    ] = None,
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas; by default those that suit.")
    ] = "",
    run: Annotated[Path | None, typer.Option("--run", help="A TREC run, with --qrels.")] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="TREC or BEIR judgments.")] = None,
) -> int:
    """Score given rows, or a run's stored answers again, without generating anything."""
    check_output(flags.output)
    name, whole, few = "", True, FewRows()
    if run is not None or qrels is not None:
        _offline(flags, ranking=True)
        evaluation = _of_trec(run, qrels, rows, measures, flags.seed)
    elif rows is None:
        raise ConfigError(
            "there is nothing to score",
            where="ragwright score",
            hint="give a file of rows, a run, or --run and --qrels",
        )
    elif not ProjectFolder(flags.project).opened:
        _offline(flags)
        settings = settings_without_file(flags.settings, _ALONE)
        setup = settings.judge
        if not setup.embedder:
            setup = replace(setup, embedder=settings.embed.model)
        models = Models(settings.models, settings.embed, Path())
        if flags.dry_run:
            ahead = forecast_rows(rows, measures, setup, models=models)
            show_forecast(flags.console, ahead, flags.as_json)
            return 0
        each = few.each(flags)
        evaluation = evaluate(rows, measures, setup, models=models, seed=flags.seed, each=each)
    elif flags.dry_run:
        with Workbench.open(flags.project, flags.session()) as bench:
            show_forecast(flags.console, bench.forecast_score(rows, measures), flags.as_json)
        return 0
    else:
        evaluation, name, whole = _in_project(flags, rows, measures, few)
    show_evaluation(flags, evaluation, name, few=few.rows)
    return 0 if whole and trusted(evaluation) else EXIT_UNTRUSTED


def _offline(flags: ScoringFlags, *, ranking: bool = False) -> None:
    """Refuse flags that mean nothing where no run is stored, or a ranking asks no model."""
    given = {
        "--set": ranking and flags.overrides,
        "--max-cost": flags.overrides and flags.max_cost is not None,
        "--repeat": flags.repeat is not None,
        "--resume": flags.resume,
        "--name": flags.name,
    }
    useless = [flag for flag, said in given.items() if said]
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: only for runs that a project stores",
            where=str(flags.project.resolve()),
            hint="leave it out; or run `ragwright init` first, or give a project with --project",
        )


def _of_trec(
    run: Path | None, qrels: Path | None, rows: str | None, measures: str, seed: int
) -> Evaluation:
    if run is None or qrels is None or rows is not None:
        raise ConfigError(
            "--run and --qrels go together, without rows",
            where="ragwright score",
            hint="write: ragwright score --run FILE --qrels FILE",
        )
    wanted = ranking_measures(measures)
    return score_run(read_run(run), read_qrels(qrels), wanted, name=str(run), seed=seed)


def _in_project(
    flags: ScoringFlags, rows: str, measures: str, few: FewRows
) -> tuple[Evaluation, str, bool]:
    """Score within a project: its models, its stored replies, a run of its own."""
    console = flags.console
    each = few.each(flags)
    with (
        Workbench.open(flags.project, flags.session()) as bench,
        show_progress(console, bench),
    ):
        how = Evaluating(resume=flags.resume, seed=flags.seed, name=flags.name)
        evaluation, summary = bench.score(
            rows, measures, how, told=partial(say_price, console), each=each
        )
    if summary.reason is not None:
        fail(summary.reason)
        console.remark("run it again with --resume to go on")
    return evaluation, summary.run, summary.complete
