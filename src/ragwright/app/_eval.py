"""`ragwright eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core import ConfigError
from ..experiment import Evaluating, gold_warning
from ..measure import parse_measures
from ..models import UnderTest, open_system, read_system
from ..project import ProjectFolder
from ..testsets import project_testset
from ..workbench import Workbench
from ._console import EXIT_UNTRUSTED, fail, reported
from ._flags import ScoringFlags, with_flags
from ._options import Limit, RetryErrors
from ._outcome import check_output, show_evaluation, trusted
from ._show import show_forecast, show_progress

Testsets = Annotated[
    str, typer.Option("--testset", help="A file of rows (JSONL, JSON, CSV), or beir:DIR/SPLIT.")
]
Measures = Annotated[
    str,
    typer.Option(
        "--measures", help="Separated by commas: Recall@5,TokenF1; default: all that suit."
    ),
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        help="tune, confirm or all; reading confirm is logged in testsets/openings.jsonl. "
        "Default: tune if rows name splits.",
    ),
]
RetrievalOnly = Annotated[
    bool,
    typer.Option("--retrieval-only", help="Score only what is retrieved; write no answers."),
]
System = Annotated[
    str,
    typer.Option(
        "--system",
        metavar="SYSTEM",
        help="Ask this system instead of the project: module:object, file.py:object, an address, "
        "http://host/v1#model, or system.yaml. Needs no project.",
    ),
]
Version = Annotated[
    str,
    typer.Option("--system-version", help="Its version: replies are reused where it is the same."),
]


@reported
@with_flags
def command(
    testset: Testsets,
    flags: ScoringFlags,
    measures: Measures = "",
    split: Split = "",
    limit: Limit = None,
    retrieval_only: RetrievalOnly = False,
    system: System = "",
    version: Version = "",
    retry_errors: RetryErrors = False,
) -> int:
    """Run a testset through the project, or any other system, and score the answers."""
    console = flags.console
    check_output(flags.output)
    under = _system(system, version, retrieval_only)
    folder = ProjectFolder(flags.project)
    folder = folder.begin() if under is not None else folder.require()
    # A misspelt name is reported before any file is read.
    wanted = parse_measures(measures) if measures else ()
    rows = project_testset(
        folder, testset, split, rehearsal=flags.dry_run, limit=limit, seed=flags.seed
    )
    if warning := "" if retrieval_only else gold_warning(rows, wanted):
        console.remark(f"note: {warning}")
    how = Evaluating(
        resume=flags.resume or retry_errors,
        retry_errors=retry_errors,
        seed=flags.seed,
        answers=not retrieval_only,
        name=flags.name,
    )
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run:
            forecast = bench.forecast_evaluate(rows, measures, how, system=under)
            show_forecast(console, forecast, flags.as_json)
            return 0
        with show_progress(console, bench):
            evaluation, run = bench.evaluate(rows, measures, how, system=under)
    show_evaluation(flags, evaluation, run.run, rows=rows.rows)
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    return 0 if run.complete and trusted(evaluation) else EXIT_UNTRUSTED


def _system(address: str, version: str, retrieval_only: bool) -> UnderTest | None:
    """The system that ``--system`` names, opened; None for the project itself.

    Raises:
        ConfigError: It cannot be found or asked, or other flags do not go with it.
    """
    if not address:
        if version:
            raise ConfigError("--system-version needs --system", hint="name the system too")
        return None
    if retrieval_only:
        raise ConfigError(
            "--retrieval-only is for the project's own search",
            hint="leave it out, and name measures of rankings: --measures Recall@5,nDCG@5",
        )
    return open_system(read_system(address, version))
