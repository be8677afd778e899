"""`ragwright compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from typer import Argument, BadParameter, Option

from ..core import ConfigError, make_plain
from ..experiment import (
    BASELINE,
    SCORES,
    KnownRun,
    Passport,
    PassportOptions,
    PromiseOptions,
    calls_a_model,
    certificate_in_force,
    clusters_of_results,
    compare_evaluations,
    forecast_passport,
    free_passport,
    grounds,
    list_baselines,
    list_changed_settings,
    list_runs,
    make_judged_passport,
    open_baselines,
    open_results,
    passport_json,
    read_passport,
    record_passport,
    repeat_request,
    suspending_changes,
    withdraw_promise,
)
from ..measure import MeasureSetup
from ..project import ProjectFolder, Session, settings_without_file
from ..report import (
    ResultBlock,
    answer_changes,
    answers_block,
    baseline_json,
    baselines_block,
    comparison_block,
    comparison_json,
    passport_html,
    passport_table,
    passport_verdict,
    print_result,
    promise_json,
    promise_status_json,
    promise_status_text,
    promise_text,
    tutorial_json,
    tutorial_table,
)
from ..training import TutorialOptions
from ..workbench import Workbench
from ._console import EXIT_FAILED, Console, table
from ._flags import RUN_HELP, WORK, Flags, names_of, takes
from ._show import do_work, say_price, show_progress, stop_if_dry


def show_table(flags: Flags, name: str, options: TutorialOptions) -> None:
    """Measure the table and print it."""
    if name != "tutorial":
        raise BadParameter(f"no table {name!r}; the table is: tutorial", param_hint="--table")
    console = flags.console
    session = Session(flags.settings, max_cost=flags.max_cost)
    with flags.open(session) as bench, show_progress(console, bench):
        tutorial = bench.tutorial(options)
    console.show(
        lambda: tutorial_json(tutorial), lambda: tutorial_table(tutorial, console.columns())
    )


@takes("cluster project overrides as_json output max_cost seed")
def compare_command(
    flags: Flags,
    a: str = Argument("", help=f"{RUN_HELP} Without one, the runs are listed."),
    b: str = Argument("latest", help="The run that is judged against A; named in the same way."),
    name: str = Option(
        "",
        "--table",
        help="tutorial: measure base, tuned, and both with reranking, in place of two runs.",
    ),
    testset: str = Option(
        "", help="For --table: testset whose confirm split is used; by default one is generated."
    ),
    tuned: list[str] | None = Option(
        None,
        metavar="KEY=VALUE",
        help="For --table: settings of the tuned rows, such as embed.model=st:models/NAME.",
    ),
    rerank: str = Option("", help="For --table: reranking model; by default the configured one."),
    candidates: int = Option(20, min=1, help="For --table: number of hits to rerank."),
    keep: int = Option(
        2, min=1, help="For --table: number of passages for an answer after reranking."
    ),
    questions: int = Option(50, min=2, help="For --table: number of questions to generate."),
) -> None:
    """Compare two runs row by row.

    Each difference has an interval, a test, and the number of rows needed to be sure.

    Answers that differ are listed below: their texts, lost and new citations, and abstentions.
    Two runs of `ragwright baseline` are compared by the distances of their answers; S_b and S_e of
    both are shown below.
    """
    if name:
        how = (tuple(tuned or ()), rerank, candidates, keep, flags.seed)
        show_table(flags, name, TutorialOptions(testset, "", questions, *how))
    elif flags.overrides:
        raise BadParameter(
            "two stored runs are compared as they are; settings are for a table (--table tutorial)",
            param_hint="--set",
        )
    elif a:
        _show_compared(flags, a, b)
    else:
        lists = {"runs": list_runs(flags.project), "baselines": list_baselines(flags.project)}
        flags.console.show(
            lambda: {name: [asdict(run) for run in known] for name, known in lists.items()},
            lambda: _runs_text(lists["runs"], lists["baselines"]),
        )


def _show_compared(flags: Flags, a: str, b: str) -> None:
    console, project, seed = flags.console, flags.project, flags.seed
    first, second = open_results(project, (a, b), seed)
    manifests = (first.manifest, second.manifest)
    ids = dict.fromkeys(str(manifest[BASELINE]) for manifest in manifests if BASELINE in manifest)
    baselines = open_baselines(project, tuple(ids)) if ids else ()
    clusters = clusters_of_results([*first.results, *second.results], flags.cluster)
    comparison = compare_evaluations(first, second, seed=seed, clusters=clusters)
    changes = list_changed_settings(first, second)
    answers = answer_changes(first, second)
    notes = [note for side in (first, second) if side.manifest for note in side.notes]
    notes += [clusters.note] if clusters.note else []
    notes += grounds(first.results, first.summaries)
    if flags.as_json:
        document = {
            "a": first.name,
            "b": second.name,
            **comparison_json(comparison),
            "answers": {"compared": answers[1], "changed": make_plain(list(answers[0]))},
            "settings": [asdict(change) for change in changes],
            "notes": notes,
        }
        if baselines:
            document["baselines"] = [baseline_json(baseline) for baseline in baselines]
        console.json(document)
        return
    names = (a, b) if a != b else (first.name, second.name)
    differ = "the settings of the two runs are the same"
    if changes:
        texts = "\n".join(f"  {change.text}" for change in changes)
        differ = f"settings that differ, {names[0]} -> {names[1]}:\n{texts}"
    known = bool(changes) or bool(first.manifest and second.manifest)
    blocks = [
        comparison_block(comparison, names),
        answers_block(*answers, names),
        ResultBlock("settings", differ if known else "", "", (), ()),
        *([baselines_block(baselines)] if baselines else []),
    ]
    sentences = [c.text for c in comparison.measures]
    console.result(print_result(sentences, blocks, notes=notes, width=console.columns()))


def _runs_text(runs: Sequence[KnownRun], baselines: Sequence[KnownRun]) -> str:
    lists: dict[tuple[str, ...], list[tuple[str, ...]]] = {
        ("run", "name", "started", "testset", "measures", "state"): [
            (run.id, run.name, run.started, run.testset, ", ".join(run.measures), run.state)
            for run in runs
        ],
        ("baseline", "name", "started", "pairs"): [
            (run.id, run.name, run.started, run.testset) for run in baselines
        ],
    }
    tables = [table([head, *rows], whole=(0,)) for head, rows in lists.items() if rows]
    return "\n\n".join(tables) or "no runs yet: run `ragwright eval` or `ragwright score`"


_PAGE = Path("report.html")
_SUFFIXES = (".html", ".htm", ".json", ".csv")


@takes("project as_json quiet output seed")
def report_command(
    flags: Flags,
    run: str = Argument(
        "latest",
        help="A run or a study: latest, a name, the beginning of an id; or a file of a passport.",
    ),
    other: str = Argument("", help="A second run to show beside it."),
    pictures: Path | None = Option(None, metavar="FOLDER", help="Also write each chart as PNG."),
) -> None:
    """Write an HTML report on runs or a study.

    The verdict comes first, then every row.
    """
    names = [name for name in (run, other) if name]
    kind = "" if flags.output is None else flags.output.suffix.lower()
    if kind and kind not in _SUFFIXES:
        raise ConfigError(
            f"unknown ending {kind!r}",
            where=f"-o {flags.output}",
            hint=f"use {', '.join(_SUFFIXES)}; rows as a table: ragwright score {run} -o rows.csv",
        )
    console = flags.console
    if run.endswith(".json") and Path(run).is_file():
        _show_passport(flags, Path(run))
        return
    with flags.open() as bench:
        report = bench.report(*names, seed=flags.seed)
        if flags.output is None:
            flags.note_export("report", pictures or _PAGE)
        if pictures is not None:
            count = sum(1 for _ in report.pictures(pictures))
            console.remark(f"{count} pictures written to {pictures}")
        if flags.as_json or kind == ".json":
            console.json(report.json())
        elif kind == ".csv":
            console.result(report.csv().rstrip("\n"))
            console.remark("a line for each run and measure; rows: ragwright score RUN -o rows.csv")
        else:
            console.remark(report.headline.text)
            page = report.html().rstrip("\n")
            Console(flags.quiet, flags.output or _PAGE).result(page)


def _show_passport(flags: Flags, path: Path) -> None:
    passport, output = read_passport(path), flags.output or Path("passport.html")
    if output.suffix.lower() == ".csv":
        raise ConfigError(
            "a passport cannot be written as CSV", where=f"-o {output}", hint="use .html or .json"
        )
    if flags.writes_json:
        flags.console.json(passport_json(passport))
        return
    flags.console.remark(passport_verdict(passport).text)
    Console(flags.quiet, output).result(passport_html(passport).rstrip("\n"))


_ALONE = ("judge",)
"""Settings that mean something without a project."""


@takes(f"measures {WORK} output repeat")
def passport_command(
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
    else:
        stop_if_dry(flags, lambda: forecast_passport(None, people, options))
        passport = free_passport(people, options, setup=_free_setup(flags), root=flags.project)
    if flags.output is not None and flags.output.suffix.lower() in (".html", ".htm"):
        console.result(passport_html(passport).rstrip("\n"))
        console.remark(passport_verdict(passport).text)
    else:
        console.show(
            lambda: passport_json(passport), lambda: passport_table(passport, console.columns())
        )
    if record and folder.opened:
        path = record_passport(flags.project, passport)
        console.remark(f"stored in {path}: put it under version control; gates read it")


def _free_setup(flags: Flags) -> MeasureSetup:
    """Language and cues of free measures: those of the project, if there is one."""
    if ProjectFolder(flags.project).opened:
        with flags.open() as bench:
            return bench.project.settings.judge
    return settings_without_file(flags.settings, _ALONE).judge


def _by_model(flags: Flags, people: str, judge: str, options: PassportOptions) -> Passport:
    session = flags.session
    if judge:
        session = replace(session, overrides=(*session.overrides, f"judge.model={judge}"))
    say = partial(say_price, flags.console)
    return do_work(
        flags,
        lambda bench: forecast_passport(bench.project, people, options),
        lambda bench: make_judged_passport(bench.project, people, options, on_forecast=say),
        session,
    )


@takes("project as_json quiet output jobs max_cost served dry_run")
def promise_command(
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
    again: bool = Option(False, "--again", help="Certify the promise in force again."),
    status: bool = Option(False, "--status", help="Show the promise in force."),
    withdraw: bool = Option(False, "--withdraw", help="Answer without a promise from now on."),
) -> int:
    """Certify a limit on the share of wrong answers.

    The limit is proved on held-out questions; answers that may break it are withheld.
    """
    with flags.open() as bench:
        if withdraw:
            done = withdraw_promise(bench.project.folder)
            flags.console.show(
                lambda: {"withdrawn": done},
                lambda: (
                    "withdrawn: answers are given without a promise; certificates are kept in "
                    "promises/"
                    if done
                    else "nothing to withdraw: no promise is in force"
                ),
            )
            return 0
        if status:
            return _show_status(flags, bench)
        if again:
            return _certify(flags, bench, repeat_request(bench.project))
        if not testset:
            raise ConfigError(
                "no test set to certify on",
                where="ragwright promise",
                hint="give --testset FILE, or --again, --status or --withdraw",
            )
        options = PromiseOptions(testset, risk, confidence, measure, names_of(scores))
        return _certify(flags, bench, options)


def _certify(flags: Flags, bench: Workbench, options: PromiseOptions) -> int:
    console = flags.console
    stop_if_dry(flags, lambda: bench.forecast_promise(options, console.remark))
    with show_progress(console, bench):
        promised = bench.promise(options, told=console.remark)
    if promised.again:
        console.remark("nothing changed since: the stored result is shown, nothing is opened")
    console.show(lambda: promise_json(promised), lambda: promise_text(promised, console.columns()))
    return 0 if promised.certificate is not None else EXIT_FAILED


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
