"""`ragwright confirm`."""

from __future__ import annotations

from typer import Argument, Option

from ...experiment import Confirming
from ...report import verdict_json, verdict_table
from .._flags import Flags, takes
from .._show import show_forecast, show_progress


@takes("cluster project overrides as_json quiet output jobs max_cost dry_run")
def command(
    flags: Flags,
    sweep: str = Argument("latest", help="Sweep: its run, the name of its study, or latest."),
    top: int = Option(1, min=1, help="Number of the best trials to confirm."),
) -> None:
    """Test a sweep's winner on held-out questions.

    It is compared with the current settings.
    """
    console = flags.console
    options = Confirming(top, flags.cluster)
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_confirm(sweep, options, console.remark))
            return
        with show_progress(console, bench):
            confirmed = bench.confirm(sweep, options, told=console.remark)
        if confirmed.overrides:
            settings = " ".join(f"--set {setting}" for setting in confirmed.overrides)
            console.remark(f"as in the sweep: {settings}")
        if confirmed.again and not flags.as_json:
            console.remark(
                "already confirmed: the stored result is shown; the confirm split stays closed"
            )
        console.show(
            lambda: verdict_json(confirmed.verdict, confirmed.run),
            lambda: verdict_table(confirmed.verdict, confirmed.run, console.columns()),
        )
