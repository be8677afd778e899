"""`ragwright score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError
from ..experiment import Evaluation, read_qrels, read_run, score_run
from ..measure import parse_measures
from ..workbench import Evaluating, ProjectFolder, Session, Workbench, evaluate
from ._console import EXIT_UNTRUSTED, Console, fail, reported
from ._options import (
    HERE,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Repeat,
    Resume,
    Seed,
)
from ._outcome import repeated, show_evaluation, trusted
from ._show import runner_line


@reported
def command(
    rows: Annotated[
        str | None,
        typer.Argument(help="Rows (JSONL, JSON, CSV), or a run of the project: latest, its name."),
    ] = None,
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas; those that suit where empty.")
    ] = "",
    run: Annotated[Path | None, typer.Option("--run", help="A TREC run, with --qrels.")] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="TREC or BEIR judgments.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Also per value of a field: persona_name, a column; repeatable."),
    ] = None,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    resume: Resume = False,
    no_cache: NoCache = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    seed: Seed = 0,
    repeat: Repeat = None,
) -> int:
    """Score given rows, or the stored answers of a run again, without generating anything."""
    console = Console(quiet, output)
    name = ""
    if run is not None or qrels is not None:
        evaluation = _of_trec(run, qrels, rows, measures, seed)
    elif rows is None:
        raise ConfigError(
            "there is nothing to score",
            where="ragwright score",
            hint="name a file of rows, a run, or --run and --qrels",
        )
    elif ProjectFolder(project).file.is_file():
        session = Session(
            (*(overrides or ()), *repeated(repeat)),
            jobs=jobs,
            reuse=not no_cache,
            max_cost=max_cost,
            seed=seed,
        )
        evaluation, name, whole = _in_project(
            console, project, session, (rows, measures), Evaluating(resume, seed=seed)
        )
        if not whole:
            show_evaluation(console, evaluation, name, as_json, output=output, by=by or ())
            return EXIT_UNTRUSTED
    else:
        evaluation = evaluate(rows, measures, seed=seed)
    show_evaluation(console, evaluation, name, as_json, output=output, by=by or ())
    return 0 if trusted(evaluation) else EXIT_UNTRUSTED


def _of_trec(
    run: Path | None, qrels: Path | None, rows: str | None, measures: str, seed: int
) -> Evaluation:
    if run is None or qrels is None or rows is not None:
        raise ConfigError(
            "--run and --qrels go together, without rows",
            where="ragwright score",
            hint="write: ragwright score --run FILE --qrels FILE",
        )
    wanted = parse_measures(measures or "nDCG@10,Recall@100,MRR@10")
    return score_run(read_run(run), read_qrels(qrels), wanted, name=str(run), seed=seed)


def _in_project(
    console: Console, project: Path, session: Session, asked: tuple[str, str], how: Evaluating
) -> tuple[Evaluation, str, bool]:
    """Score within a project: its models, its stored replies, a run of its own."""
    with (
        Workbench.open(project, session) as bench,
        console.progress(lambda: runner_line(bench.runner.progress)),
    ):
        evaluation, summary = bench.score(*asked, how)
    if summary.reason is not None:
        fail(summary.reason)
        console.remark("run it again with --resume to go on")
    return evaluation, summary.run, summary.complete
