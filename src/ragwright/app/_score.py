"""`ragwright score`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from typer import Argument, Option

from ..core import ConfigError
from ..experiment import Evaluating, Evaluation, evaluate, forecast_rows, score_run
from ..measure import ranking_measures
from ..models import Models
from ..project import ProjectFolder, settings_without_file
from ..testsets import read_qrels, read_run
from ._console import EXIT_UNTRUSTED
from ._flags import MEASURING, Flags, takes
from ._outcome import FewRows, check_output, is_trusted, say_price, show_evaluation
from ._show import show_forecast, show_progress

_ALONE = ("embed", "models", "judge.embedder", "judge.token_model")
"""Settings that mean something without a project."""


@takes(f"measures {MEASURING} with_rows")
def command(
    flags: Flags,
    rows: str | None = Argument(
        None, help="Rows (JSONL, JSON, CSV), or a run of the project: latest, its name."
    ),
    run: Path | None = Option(None, help="A TREC run, with --qrels."),
    qrels: Path | None = Option(None, help="TREC or BEIR judgments."),
) -> int:
    """Score given rows or stored answers.

    Nothing is generated.
    """
    check_output(flags.output)
    if run is not None or qrels is not None:
        _offline(flags, ranking=True)
        evaluation = _of_trec(run, qrels, rows, flags)
    elif rows is None:
        raise ConfigError(
            "there is nothing to score",
            where="ragwright score",
            hint="give a file of rows, a run, or --run and --qrels",
        )
    elif ProjectFolder(flags.project).opened:
        return _in_project(flags, rows)
    else:
        return _without_project(flags, rows)
    show_evaluation(flags, evaluation, "")
    return 0 if is_trusted(evaluation) else EXIT_UNTRUSTED


def _without_project(flags: Flags, rows: str) -> int:
    _offline(flags)
    settings = settings_without_file(flags.settings, _ALONE)
    setup = settings.judge
    if not setup.embedder:
        setup = replace(setup, embedder=settings.embed.model)
    models = Models(settings.models, settings.embed, Path())
    if flags.dry_run:
        forecast = forecast_rows(rows, flags.measures, setup, models=models)
        show_forecast(flags.console, forecast)
        return 0
    few = FewRows()
    evaluation = evaluate(
        rows, flags.measures, setup, models=models, seed=flags.seed, each=few.each(flags)
    )
    show_evaluation(flags, evaluation, "", few=few.rows)
    return 0 if is_trusted(evaluation) else EXIT_UNTRUSTED


def _offline(flags: Flags, *, ranking: bool = False) -> None:
    """Refuse flags that have no effect without a stored run, or without calls to a model."""
    values = {
        "--set": ranking and flags.overrides,
        "--max-cost": flags.overrides and flags.max_cost is not None,
        "--repeat": flags.repeat is not None,
        "--resume": flags.resume,
        "--name": flags.name,
    }
    useless = [flag for flag, value in values.items() if value]
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: only for runs that a project stores",
            where=str(flags.project.resolve()),
            hint="leave it out; or run `ragwright init` first, or give a project with --project",
        )


def _of_trec(run: Path | None, qrels: Path | None, rows: str | None, flags: Flags) -> Evaluation:
    if run is None or qrels is None or rows is not None:
        raise ConfigError(
            "--run and --qrels go together, without rows",
            where="ragwright score",
            hint="write: ragwright score --run FILE --qrels FILE",
        )
    measures = ranking_measures(flags.measures)
    return score_run(read_run(run), read_qrels(qrels), measures, name=str(run), seed=flags.seed)


def _in_project(flags: Flags, rows: str) -> int:
    """Score within a project: its models, its stored replies, a run of its own."""
    console, few = flags.console, FewRows()
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_score(rows, flags.measures))
            return 0
        options = Evaluating(resume=flags.resume, seed=flags.seed, name=flags.name)
        with show_progress(console, bench):
            evaluation, run = bench.score(
                rows,
                flags.measures,
                options,
                told=partial(say_price, console),
                each=few.each(flags),
            )
    show_evaluation(flags, evaluation, run.run, few=few.rows)
    return console.ended(run, is_trusted(evaluation))
