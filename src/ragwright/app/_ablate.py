"""`ragwright ablate`."""

from __future__ import annotations

from dataclasses import replace

from typer import Option

from ..experiment import Ablating, TrialResult, plan_ablation
from ..report import ablation_json, ablation_table
from ._console import EXIT_UNTRUSTED, fail
from ._flags import WORK, Flags, names_of, takes
from ._show import show_progress, show_sweep_forecast


@takes(f"measures cluster limit retry_errors {WORK} output name")
def command(
    flags: Flags,
    testset: str = Option(
        help="Testset; effects are measured on its tune split.", show_default=False
    ),
    presets: str = Option(
        "", help="Presets: all, a8 (the sixteen published ones), or names separated by commas."
    ),
    leave_one_out: bool = Option(
        False, "--leave-one-out", help="Leave out each part alone (the default)."
    ),
    parts: str = Option("", help="Leave out only these parts; all by default."),
    personas: str = Option("", help="Personas for every question; by default those of the rows."),
    margin: float = Option(
        0.05, help="Largest loss that a deletion may cause, as a share of a measure's scale."
    ),
    confirm: bool = Option(
        False, "--confirm", help="Confirm what is safe to delete on the held-out split, once."
    ),
) -> int:
    """Measure what each part of the prompt does.

    It shows what each part costs, too, and which ones can be deleted.
    """
    options = Ablating(
        presets=names_of(presets),
        leave_one_out=leave_one_out,
        parts=names_of(parts),
        personas=names_of(personas),
        margin=margin,
        clusters=flags.cluster,
        limit=flags.limit,
        seed=flags.seed,
        confirm=confirm,
        retry_errors=flags.retry_errors,
        name=flags.name,
    )
    console = flags.console
    ended: list[TrialResult] = []
    # It always goes on where an unfinished one of the same kind stopped, with --resume or without.
    with flags.open(replace(flags.session, attempt=int(flags.retry_errors))) as bench:
        if flags.dry_run:
            forecast = bench.forecast_ablate(testset, flags.measures, options)
            show_sweep_forecast(console, forecast)
            return 0
        plan = plan_ablation(bench.project, testset, flags.measures, options)
        total = len(plan.study.points) + 1
        with show_progress(console, bench, lambda: (len(ended), total, "prompts")):
            options = replace(options, on_trial=ended.append)
            result = bench.ablate(testset, flags.measures, options)
    if flags.writes_json:
        console.json(ablation_json(result.ablation, run=result.run, sweep=result.sweep.run))
    else:
        console.result(ablation_table(result.ablation, run=result.run, width=console.columns(0)))
    if result.again:
        console.remark("already confirmed: shown again, the confirm split was not opened")
    if result.stopped is not None:
        fail(result.stopped)
        return EXIT_UNTRUSTED
    return 0 if result.ablation.scored else EXIT_UNTRUSTED
