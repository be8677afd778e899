"""`ragwright promise`."""

from __future__ import annotations

from dataclasses import dataclass

from typer import Option

from ...core import ConfigError
from ...promise import (
    SCORES,
    Promising,
    certificate_in_force,
    repeat_request,
    suspending_changes,
    withdraw_promise,
)
from ...report import promise_json, promise_status_json, promise_status_text, promise_text
from ...workbench import Workbench
from .._console import EXIT_FAILED
from .._flags import Flags, names_of, takes
from .._show import show_forecast, show_progress


@dataclass(frozen=True, slots=True)
class PromiseActions:
    """What to do with the promise in force, instead of making one."""

    again: bool = Option(False, "--again", help="Certify the promise in force again.")
    status: bool = Option(False, "--status", help="Show the promise in force.")
    withdraw: bool = Option(False, "--withdraw", help="Answer without a promise from now on.")


@takes("project as_json quiet output jobs max_cost served dry_run")
def command(
    flags: Flags,
    actions: PromiseActions,
    testset: str = Option("", "--testset", "-t", help="Test set with a tune and a confirm split."),
    risk: float = Option(0.05, help="Most of the answered questions that may be wrong, 0 to 1."),
    confidence: float = Option(0.95, help="Least chance that the certificate is right, 0 to 1."),
    measure: str = Option(
        "", help="When an answer is right: TokenF1>=0.5; by default by the gold answers."
    ),
    scores: str = Option(
        ",".join(SCORES), help="Scores to choose from; also judged measures such as Faithfulness."
    ),
) -> int:
    """Certify a limit on the share of wrong answers.

    The limit is proved on held-out questions; answers that may break it are withheld.
    """
    with flags.open() as bench:
        if actions.withdraw:
            return _withdraw(flags, bench)
        if actions.status:
            return _show_status(flags, bench)
        if actions.again:
            return _certify(flags, bench, repeat_request(bench.project))
        if not testset:
            raise ConfigError(
                "no test set to certify on",
                where="ragwright promise",
                hint="give --testset FILE, or --again, --status or --withdraw",
            )
        options = Promising(testset, risk, confidence, measure, names_of(scores))
        return _certify(flags, bench, options)


def _certify(flags: Flags, bench: Workbench, options: Promising) -> int:
    console = flags.console
    if flags.dry_run:
        show_forecast(console, bench.forecast_promise(options, console.remark))
        return 0
    with show_progress(console, bench):
        promised = bench.promise(options, told=console.remark)
    if promised.again:
        console.remark("nothing changed since: the stored result is shown, nothing is opened")
    console.show(lambda: promise_json(promised), lambda: promise_text(promised, console.columns()))
    return 0 if promised.certificate is not None else EXIT_FAILED


def _withdraw(flags: Flags, bench: Workbench) -> int:
    done = withdraw_promise(bench.project.folder)
    text = "withdrawn: answers are given without a promise; certificates are kept in promises/"
    flags.console.show(
        lambda: {"withdrawn": done}, lambda: text if done else "there is no promise to withdraw"
    )
    return 0


def _show_status(flags: Flags, bench: Workbench) -> int:
    """Show the promise in force; exit code 100 if it is suspended."""
    project = bench.project
    certificate = certificate_in_force(project.folder)
    if certificate is None:
        flags.console.show(lambda: {"certificate": None}, lambda: "there is no promise in force")
        return 0
    changes = suspending_changes(project, certificate)
    flags.console.show(
        lambda: promise_status_json(certificate, changes),
        lambda: promise_status_text(certificate, changes),
    )
    return EXIT_FAILED if changes else 0
