"""`ragwright eval`."""

from __future__ import annotations

from typer import Option

from ..core import ConfigError
from ..experiment import Evaluating, gold_warning
from ..measure import parse_measures
from ..models import UnderTest, open_system, read_system
from ..project import ProjectFolder
from ..testsets import project_testset
from ._flags import MEASURING, Flags, takes
from ._outcome import check_output, is_trusted, show_evaluation
from ._show import show_forecast, show_progress


@takes(f"measures limit retry_errors {MEASURING} with_rows")
def command(
    flags: Flags,
    testset: str = Option(help="A file of rows (JSONL, JSON, CSV), or beir:DIR/SPLIT."),
    split: str = Option(
        "",
        help="tune, confirm or all; reading confirm is logged in testsets/openings.jsonl. "
        "Default: tune if rows name splits.",
    ),
    retrieval_only: bool = Option(
        False, "--retrieval-only", help="Score only the retrieved passages; write no answers."
    ),
    system: str = Option(
        "",
        metavar="SYSTEM",
        help="Ask this system instead of the project: module:object, file.py:object, an address, "
        "http://host/v1#model, or system.yaml. Needs no project.",
    ),
    version: str = Option(
        "",
        "--system-version",
        help="Version of the system; stored replies of the same version are reused.",
    ),
) -> int:
    """Answer a test set and score the answers.

    The project answers, or any other system that --system names.
    """
    console = flags.console
    check_output(flags.output)
    under_test = _system(system, version, retrieval_only)
    folder = ProjectFolder(flags.project)
    folder = folder.begin() if under_test is not None else folder.require()
    # A misspelt name is reported before any file is read.
    measures = parse_measures(flags.measures) if flags.measures else ()
    rows = project_testset(
        folder, testset, split, dry_run=flags.dry_run, limit=flags.limit, seed=flags.seed
    )
    if warning := "" if retrieval_only else gold_warning(rows, measures):
        console.remark(f"note: {warning}")
    options = Evaluating(
        resume=flags.resume or flags.retry_errors,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        answers=not retrieval_only,
        name=flags.name,
    )
    with flags.open() as bench:
        if flags.dry_run:
            forecast = bench.forecast_evaluate(rows, measures, options, system=under_test)
            show_forecast(console, forecast)
            return 0
        with show_progress(console, bench):
            evaluation, run = bench.evaluate(rows, measures, options, system=under_test)
    show_evaluation(flags, evaluation, run.run, rows=rows.rows)
    return console.ended(run, is_trusted(evaluation))


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
