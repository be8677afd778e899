"""`ragwright promise`."""

from __future__ import annotations

from typer import Option

from ..core import ConfigError
from ..promise import SCORES, Promising, again, withdraw_promise
from ..report import promise_json, promise_text
from ._console import EXIT_FAILED
from ._flags import Flags, names_of, takes
from ._show import show_forecast, show_progress


@takes("project as_json quiet output jobs max_cost served dry_run")
def command(
    flags: Flags,
    testset: str = Option("", "--testset", "-t", help="Test set with a tune and a confirm split."),
    risk: float = Option(0.05, help="Most of the answered questions that may be wrong, 0 to 1."),
    confidence: float = Option(0.95, help="Least chance that the certificate is right, 0 to 1."),
    measure: str = Option(
        "", help="When an answer is right: TokenF1>=0.5; by default by the gold answers."
    ),
    scores: str = Option(
        ",".join(SCORES), help="Scores to choose from; also judged measures such as Faithfulness."
    ),
    repeat: bool = Option(False, "--again", help="Certify the promise in force again."),
    withdraw: bool = Option(False, "--withdraw", help="Answer without a promise from now on."),
) -> int:
    """Certify on held-out questions that at most so many answers are wrong."""
    console = flags.console
    with flags.open() as bench:
        folder = bench.project.folder
        if withdraw:
            done = withdraw_promise(folder)
            text = "withdrawn; certificates are kept in promises/" if done else "no promise"
            console.show(lambda: {"withdrawn": done}, lambda: text)
            return 0
        if repeat:
            how = again(bench.project)
        elif testset:
            how = Promising(testset, risk, confidence, measure, names_of(scores))
        else:
            raise ConfigError(
                "no test set to certify on",
                where="ragwright promise",
                hint="give --testset FILE, or --again, --status or --withdraw",
            )
        if flags.dry_run:
            show_forecast(console, bench.forecast_promise(how))
            return 0
        with show_progress(console, bench):
            promised = bench.promise(how)
        console.show(
            lambda: promise_json(promised), lambda: promise_text(promised, console.columns())
        )
        return 0 if promised.certificate is not None else EXIT_FAILED
