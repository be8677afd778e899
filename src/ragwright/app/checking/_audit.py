"""`ragwright audit`."""

from __future__ import annotations

from dataclasses import dataclass

from typer import Option

from ...audit import AuditPlan, check_audit, read_rules
from ...core import ConfigError
from ...project import ProjectFolder
from ...report import audit_json, audit_page, audit_table, audit_verdict
from .._console import EXIT_FAILED, Console
from .._flags import WORK, Flags, names_of, takes
from .._show import show_forecast, show_progress


@dataclass(frozen=True, slots=True)
class AuditFlags:
    """The options of `audit` alone."""

    kinds: str = Option(
        "",
        help="Comma-separated kinds: contradictions, copies, codes, references, damage, reach; by "
        "default all that need no more than is given.",
    )
    level: str = Option(
        "default", help="default, or all: also findings of rules that are often wrong."
    )
    since: str = Option(
        "",
        help="Show only what an earlier audit does not have: latest, its run or name, or the "
        "snapshot that it read.",
    )
    testset: str = Option("", help="Find passages that no question of this test set finds.")
    judge: bool = Option(
        False,
        "--judge",
        help="Let the judge model decide which alike statements contradict each other.",
    )
    gate: str | None = Option(
        None, help='Exit code 100 with more findings than this: "references=0, copies<=5".'
    )
    everything: bool = Option(
        False, "--all", help="Print every finding, not only the first five of each kind."
    )
    dismiss: str = Option("", help="Dismiss the finding with this id, for the reason in --why.")
    why: str = Option("", help="With --dismiss: the reason.")


@takes(f"{WORK} output name retry_errors")
def command(flags: Flags, own: AuditFlags) -> int:
    """Find faults of the documents.

    These are copies, dead references, damage, undefined codes, gaps, and contradictions.
    """
    ProjectFolder(flags.project).require()
    console = flags.console
    if own.level not in ("default", "all"):
        raise ConfigError(f"unknown level {own.level!r}", where="--level", hint="default or all")
    if own.why and not own.dismiss:
        raise ConfigError(
            "--why is the reason of --dismiss", where="--why", hint="add --dismiss ID"
        )
    rules = () if own.gate is None else read_rules(own.gate)
    options = AuditPlan(
        kinds=names_of(own.kinds),
        every=own.level == "all",
        since=own.since,
        testset=own.testset,
        judge=own.judge,
        gate=rules,
        resume=flags.resume or flags.retry_errors,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    with flags.open() as bench:
        if own.dismiss:
            console.result(f"dismissed in {bench.dismiss_finding(own.dismiss, own.why)}")
            return 0
        if flags.dry_run:
            show_forecast(console, bench.forecast_audit(options))
            return 0
        with show_progress(console, bench):
            audit, run = bench.audit(options)
    failed = check_audit(audit, rules)
    if flags.output is not None and flags.output.suffix in (".html", ".htm"):
        if flags.as_json:
            Console(flags.quiet, as_json=True).json(audit_json(audit))
        else:
            Console(flags.quiet).result(audit_verdict(audit))
        console.result(audit_page(audit))
    elif flags.writes_json:
        console.json(audit_json(audit))
    else:
        console.result(audit_table(audit, width=console.columns(), every=own.everything))
    for sentence in failed:
        console.remark(f"gate: failed: {sentence}")
    code = console.ended(run, True)
    return EXIT_FAILED if failed and not code else code
