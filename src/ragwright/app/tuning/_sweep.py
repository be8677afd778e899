"""`ragwright sweep`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from ...experiment import (
    StudyVerdict,
    Sweeping,
    SweepResult,
    TrialResult,
    read_study,
)
from ...project import Session
from ...report import BoardView, leaderboard_table, trial_json
from ...workbench import Workbench
from .._console import EXIT_UNTRUSTED, Console, fail, reported
from .._options import (
    HERE,
    DryRun,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Resume,
    RetryErrors,
)
from .._show import show_progress, show_sweep_forecast


@reported
def command(
    study: Annotated[
        Path | None, typer.Argument(help="Study file: ragwright.yaml with lists.")
    ] = None,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    retry_errors: RetryErrors = False,
    no_cache: NoCache = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Stop the running sweep of the project; it can be continued."),
    ] = False,
) -> int:
    """Run a study: every combination of settings on the tune split, ranked with intervals."""
    del resume  # a sweep always continues an unfinished one of the same study
    console = Console(quiet, output)
    session = Session(
        tuple(overrides or ()),
        jobs=jobs,
        reuse=not no_cache,
        max_cost=max_cost,
    )
    with Workbench.open(project, session) as bench:
        if stop:
            asked = bench.stop_sweep()
            console.result(f"asked the sweep {asked.id} to stop; what is done is kept")
            return 0
        if study is None:
            raise typer.BadParameter("give a study file, or --stop", param_hint="STUDY")
        found = read_study(bench.project, study)
        if dry_run:
            show_sweep_forecast(console, bench.forecast_sweep(found), as_json)
            return 0
        ended: list[TrialResult] = []
        trials = found.size or found.options.trials

        with show_progress(console, bench, lambda: (len(ended), trials + 1, "trials")):
            result = bench.sweep(found, Sweeping(retry_errors, ended.append))
        _show(console, result, as_json)
        if result.stopped is not None:
            fail(result.stopped)
            return EXIT_UNTRUSTED
        return 0 if result.board else EXIT_UNTRUSTED


def _show(console: Console, result: SweepResult, as_json: bool) -> None:
    board = result.board
    placed = {trial.number for trial in board}
    ranked = {trial.number for trial in result.judged_by_first}
    rest = [
        trial if trial.state != "done" else replace(trial, reason=_unscored(result))
        for trial in result.trials
        if trial.number not in placed and trial.number in ranked
    ]
    if as_json:
        console.json(
            {
                "run": result.run,
                "testset": result.testset,
                "objectives": [objective.name for objective in result.objectives],
                "trials": [trial_json(trial) for trial in (*board, *rest)],
                "selection": None if result.selection is None else asdict(result.selection),
                "notes": list(result.notes),
            }
        )
        return
    names = tuple(objective.name for objective in result.objectives)
    front = frozenset(trial.id for trial in result.front) if len(names) > 1 else frozenset()
    view = BoardView(names, front, width=console.columns(120))
    table = leaderboard_table(board, rest=rest, notes=result.notes, view=view)
    said = ""
    if result.selection is not None:
        said = StudyVerdict(result.selection).text
        if result.selection.difference > 0:
            said += f"\nto confirm it on held-out questions: ragwright confirm {result.run}"
        said += "\n\n"
    others = "".join(f"\n{line}" for line in _other_judges(result))
    console.result(f"{said}{table}{others}\nrun: {result.run}")


def _unscored(result: SweepResult) -> str:
    return f"no row has a score for {result.objectives[0].name}"


def _other_judges(result: SweepResult) -> list[str]:
    """The order according to the other judges."""
    first = [trial.values for trial in result.board if trial.values]
    lines = []
    for judge, board in result.by_judge.items():
        best = next((trial for trial in board if trial.values), None)
        if best is None:
            lines.append(f"by {judge}: no trial has results")
            continue
        keys = [axis.key for axis in result.study.judging]
        plain = {key: value for key, value in best.values.items() if key not in keys}
        place = next(
            (at for at, values in enumerate(first, 1) if plain.items() <= values.items()), None
        )
        stands = "not in the table above" if place is None else f"number {place} above"
        lines.append(f"by {judge}: {best.id} is best ({stands}); judges are not comparable")
    return lines
