"""`ragwright ablate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ..experiment import Ablating, TrialResult, plan_ablation
from ..report import ablation_json, ablation_table
from ..workbench import Workbench
from ._compare import CLUSTER_HELP
from ._console import EXIT_UNTRUSTED, Console, fail, reported
from ._flags import RunFlags, with_flags
from ._options import Limit, RetryErrors, names_of
from ._show import show_progress, show_sweep_forecast

Testsets = Annotated[
    str,
    typer.Option(
        "--testset", help="Rows; effects are measured on the tune split.", show_default=False
    ),
]
Measures = Annotated[
    str,
    typer.Option("--measures", help="Separated by commas; by default those that suit the rows."),
]
Presets = Annotated[
    str, typer.Option("--presets", help="all, a8 (the sixteen), or names separated by commas.")
]
LeaveOneOut = Annotated[
    bool,
    typer.Option("--leave-one-out", help="Leave out each part alone (the default)."),
]
Parts = Annotated[str, typer.Option("--parts", help="Leave out only these parts; all by default.")]
Personas = Annotated[
    str, typer.Option("--personas", help="Ask every question for these; by default the rows' own.")
]
Margin = Annotated[
    float,
    typer.Option(
        "--margin", help="Most that a deletion may cost, as a share of a measure's scale."
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        help=CLUSTER_HELP,
    ),
]
Confirm = Annotated[
    bool,
    typer.Option("--confirm", help="Confirm what is safe to delete on the held-out split, once."),
]


def _refuse(value: bool | str) -> None:
    if value:
        raise typer.BadParameter(
            "it was removed: ablate leaves out each part alone (--leave-one-out), several by "
            "presets (--presets), and all that are safe together (--confirm)"
        )


AddOne = Annotated[bool, typer.Option("--add-one", hidden=True, callback=_refuse)]
Factorial = Annotated[str, typer.Option("--factorial", hidden=True, callback=_refuse)]


@reported
@with_flags
def command(
    testset: Testsets,
    flags: RunFlags,
    measures: Measures = "",
    presets: Presets = "",
    leave_one_out: LeaveOneOut = False,
    add_one: AddOne = False,
    factorial: Factorial = "",
    parts: Parts = "",
    personas: Personas = "",
    margin: Margin = 0.05,
    cluster: Cluster = "",
    limit: Limit = None,
    confirm: Confirm = False,
    retry_errors: RetryErrors = False,
) -> int:
    """Measure what each part of the prompt does and costs, and which can be deleted."""
    asked = Ablating(
        presets=names_of(presets),
        leave_one_out=leave_one_out,
        parts=names_of(parts),
        personas=names_of(personas),
        margin=margin,
        clusters=cluster,
        limit=limit,
        seed=flags.seed,
        confirm=confirm,
        retry_errors=retry_errors,
        name=flags.name,
    )
    console = flags.console
    # It always goes on where an unfinished one of the same kind stopped, with --resume or without.
    with Workbench.open(flags.project, flags.session(int(retry_errors))) as bench:
        if flags.dry_run:
            found = bench.forecast_ablate(testset, measures, asked)
            show_sweep_forecast(console, found, flags.as_json)
            return 0
        return _run(bench, console, flags, (testset, measures, asked))


def _run(
    bench: Workbench, console: Console, flags: RunFlags, what: tuple[str, str, Ablating]
) -> int:
    testset, measures, asked = what
    total = len(plan_ablation(bench.project, testset, measures, asked).study.points) + 1
    ended: list[TrialResult] = []

    with show_progress(console, bench, lambda: (len(ended), total, "prompts")):
        result = bench.ablate(testset, measures, replace(asked, on_trial=ended.append))
    if flags.as_json or (flags.output is not None and flags.output.suffix == ".json"):
        console.json(ablation_json(result.ablation, run=result.run, sweep=result.sweep.run))
    else:
        console.result(ablation_table(result.ablation, run=result.run, width=console.columns(0)))
    if result.again:
        console.remark("already confirmed: shown again, the confirm split was not opened")
    if result.stopped is not None:
        fail(result.stopped)
        return EXIT_UNTRUSTED
    return 0 if result.ablation.scored else EXIT_UNTRUSTED
