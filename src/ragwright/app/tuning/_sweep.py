"""`ragwright sweep`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from typer import Argument, BadParameter, Option

from ...experiment import StudyVerdict, Sweeping, SweepResult, TrialResult, read_study
from ...report import BoardView, leaderboard_table, trial_json
from .._console import EXIT_UNTRUSTED, Console, fail
from .._flags import Flags, takes
from .._show import show_progress, show_sweep_forecast


@takes("project overrides as_json quiet output retry_errors no_cache jobs max_cost resume dry_run")
def command(
    flags: Flags,
    study: Path | None = Argument(None, help="Study file: ragwright.yaml with lists."),
    stop: bool = Option(
        False, "--stop", help="Stop the running sweep of the project; it can be continued."
    ),
) -> int:
    """Try the settings of a study and rank them.

    Every combination runs on the tune split; each result has an interval.
    """
    # --resume changes nothing: a sweep always continues an unfinished one of the same study
    console = flags.console
    with flags.open() as bench:
        if stop:
            running = bench.stop_sweep()
            console.result(f"asked the sweep {running.id} to stop; what is done is kept")
            return 0
        if study is None:
            raise BadParameter("give a study file, or --stop", param_hint="STUDY")
        plan = read_study(bench.project, study)
        if flags.dry_run:
            show_sweep_forecast(console, bench.forecast_sweep(plan))
            return 0
        ended: list[TrialResult] = []
        trials = (plan.size or plan.options.trials) + 1
        with show_progress(console, bench, lambda: (len(ended), trials, "trials")):
            result = bench.sweep(plan, Sweeping(flags.retry_errors, ended.append))
        _show(console, result, flags.as_json)
        if result.stopped is not None:
            fail(result.stopped)
            return EXIT_UNTRUSTED
        return 0 if result.board else EXIT_UNTRUSTED


def _show(console: Console, result: SweepResult, as_json: bool) -> None:
    board = result.board
    placed = {trial.number for trial in board}
    ranked = {trial.number for trial in result.judged_by_first}
    unscored = f"no row has a score for {result.objectives[0].name}"
    rest = [
        trial if trial.state != "done" else replace(trial, reason=_unscored_reason(trial, unscored))
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
    verdict = ""
    if result.selection is not None:
        verdict = StudyVerdict(result.selection).text
        if result.selection.difference > 0:
            verdict += f"\nto confirm it on held-out questions: ragwright confirm {result.run}"
        verdict += "\n\n"
    others = "".join(f"\n{line}" for line in _other_judges(result))
    console.result(f"{verdict}{table}{others}\nrun: {result.run}")


def _unscored_reason(trial: TrialResult, unscored: str) -> str:
    """Why a trial that ran has no place, with the reason that most of its rows give."""
    return f"{unscored}: {trial.reason}" if trial.reason else unscored


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
        rank = "not in the table above" if place is None else f"number {place} above"
        lines.append(f"by {judge}: {best.id} is best ({rank}); judges are not comparable")
    return lines
