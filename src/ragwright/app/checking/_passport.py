"""`ragwright passport`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from typer import Argument, Option

from ...core import ConfigError
from ...measure import MeasureSetup
from ...passport import (
    Passport,
    PassportOptions,
    calls_a_model,
    forecast_passport,
    free_passport,
    make_judged_passport,
    passport_json,
    record_passport,
)
from ...project import ProjectFolder, settings_without_file
from ...report import passport_html, passport_table, passport_verdict
from .._flags import WORK, Flags, takes
from .._outcome import say_price
from .._show import show_forecast, show_progress

_ALONE = ("judge",)
"""Settings that mean something without a project."""


@takes(f"measures {WORK} output repeat")
def command(
    flags: Flags,
    people: str = Argument(
        metavar="SET",
        help="People's verdicts: mtrag:PATH, qags:PATH, qrels:PATH, review:SHEET,SHEET, "
        "module:object:PATH, or a file of rows with --map.",
    ),
    judge: str = Option("", metavar="MODEL", help="Chat model that judges, for judged measures."),
    verdicts: list[str] = Option(
        [], help="File or run with recorded verdicts on the rows of the set; repeatable."
    ),
    columns: list[str] = Option(
        [],
        "--map",
        metavar="COLUMN=ROLE",
        help="For a file of rows: label.NAME(1..5), verdict.NAME, rater, task, system, id, "
        "response, retrieved_contexts; repeatable.",
    ),
    record: bool = Option(True, help="In a project: keep the passport in passports/, for gates."),
) -> None:
    """Show how far a judge agrees with people.

    A free measure or recorded verdicts can take the judge's place.
    """
    console = flags.console
    options = PassportOptions(
        tuple(columns), flags.measures, tuple(verdicts), flags.resume, flags.seed
    )
    folder = ProjectFolder(flags.project)
    if judge or calls_a_model(options):
        if not folder.opened:
            raise ConfigError(
                "a judge needs a project: its replies are kept there, and none is paid twice",
                where=str(flags.project.resolve()),
                hint="run: ragwright init, or name a project with --project FOLDER",
            )
        passport = _by_model(flags, people, judge, options)
    elif flags.dry_run:
        show_forecast(console, forecast_passport(None, people, options))
        return
    else:
        passport = free_passport(people, options, setup=_free_setup(flags), root=flags.project)
    if passport is None:
        return
    if flags.output is not None and flags.output.suffix.lower() in (".html", ".htm"):
        console.result(passport_html(passport).rstrip("\n"))
        console.remark(passport_verdict(passport).text)
    elif flags.writes_json:
        console.json(passport_json(passport))
    else:
        console.result(passport_table(passport, console.columns()))
    if record and folder.opened:
        path = record_passport(flags.project, passport)
        console.remark(f"stored in {path}: put it under version control; gates read it")


def _free_setup(flags: Flags) -> MeasureSetup:
    """Language and cues of free measures: those of the project, if there is one."""
    if ProjectFolder(flags.project).opened:
        with flags.open() as bench:
            return bench.project.settings.judge
    return settings_without_file(flags.settings, _ALONE).judge


def _by_model(flags: Flags, people: str, judge: str, options: PassportOptions) -> Passport | None:
    """Judge within a project: its models, its stored replies, its runs; None for a dry run."""
    session = flags.session
    if judge:
        session = replace(session, overrides=(*session.overrides, f"judge.model={judge}"))
    with flags.open(session) as bench:
        if flags.dry_run:
            show_forecast(flags.console, forecast_passport(bench.project, people, options))
            return None
        with show_progress(flags.console, bench):
            return make_judged_passport(
                bench.project, people, options, on_forecast=partial(say_price, flags.console)
            )
