"""`ragwright review`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ..core import ConfigError, StoreError, count_noun
from ..experiment import write_blind_sheet
from ._flags import Flags, takes, tenant_name
from ._review_testset import only_testset, review_testset


@takes("project overrides quiet seed")
def command(
    flags: Flags,
    runs: list[str] | None = Argument(
        None, help="Runs of the project, or files of rows; without --measures a testset."
    ),
    measures: str = Option("", help="Measures by which people score, separated by commas."),
    output: Path = Option(
        Path("review.csv"), "-o", "--output", help="The sheet: .csv, .tsv or .jsonl."
    ),
    sheet: Path | None = Option(None, "--csv", help="For a testset: write a table to fill in."),
    filled: Path | None = Option(None, "--read", help="For a testset: read the filled-in table."),
    by: str = Option("", help="For a testset: name of the reviewer."),
    feedback: bool = Option(
        False,
        "--feedback",
        help="Collect readers' verdicts and corrections as candidate rows, then review them.",
    ),
    scope: str | None = Option(
        None,
        callback=tenant_name,
        help="With --feedback: only answers of this tenant; by default those without one.",
    ),
) -> int:
    """Review test rows, or score answers by hand."""
    console = flags.console
    names = runs or []
    if feedback:
        names = [str(_collected(flags, scope or "")), *names]
    if not names:
        raise ConfigError(
            "nothing to review is named",
            where="ragwright review",
            hint="give a testset, or --feedback for what readers rated",
        )
    if feedback or sheet is not None or measures:
        flags.note_export("review", sheet or (output if measures else Path(names[0])))
    if not measures:
        return review_testset(console, only_testset(names), sheet=sheet, filled=filled, by=by)
    missing = not output.parent.is_dir()
    written, secret = write_blind_sheet(flags.project, names, measures, output, seed=flags.seed)
    if missing:
        console.remark(f"created folder {output.parent}")
    console.result(f"{count_noun(len(written.items), 'answer')} on {output}")
    console.remark(f"key to the systems: {secret} (do not show it to the reviewers)")
    console.remark("how many rows a margin needs: ragwright gate --plan")
    console.remark(f"then: ragwright passport review:{output} --verdicts RUN")
    return 0


def _collected(flags: Flags, scope: str) -> Path:
    """Collect feedback into a testset."""
    with flags.open() as bench:
        path = bench.collect_feedback(scope)
    if not path.exists():
        raise StoreError(
            "nobody has given feedback on served answers yet",
            where="ragwright review --feedback",
            hint="`ragwright serve` with serve.keep_answers stores answers and what readers say; "
            "`ragwright outputs feedback ID --accept` rates one",
        )
    return path
