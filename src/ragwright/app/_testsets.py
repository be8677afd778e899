"""`ragwright synth`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from ..core import ConfigError, Row, StoreError, TestsetError, count_noun, current_user
from ..experiment import capability_curves, write_blind_sheet
from ..flow import RunSummary
from ..report import curves_json, curves_table
from ..testsets import (
    SuiteOptions,
    Synthesis,
    SynthesisOptions,
    Testset,
    TestsetReview,
    feedback_note,
    import_testset,
    is_feedback,
    read_rows,
    review_status,
    write_chat,
    write_review_sheet,
    write_rows,
)
from ._console import EXIT_ERROR, Console, visible, write
from ._flags import WORK, Flags, names_of, takes, tenant_name
from ._show import show_progress, stop_if_dry

_CHAT = ".chat.jsonl"


@takes(WORK)
def synth_command(
    flags: Flags,
    output: Path = Option(
        Path("testsets/synth.jsonl"),
        "-o",
        "--output",
        help="The testset to write (JSONL); NAME.chat.jsonl: chat turns for fine-tuning.",
    ),
    questions: int = Option(50, "-n", "--questions", min=1, help="Number of questions."),
    source: Path | None = Option(
        None, "--from", help="Take the rows of this file: locate their gold, label and split them."
    ),
    kinds: str = Option(
        "",
        help="Comma-separated kinds: model, cloze (a sentence with a gap), heading; by default "
        "model, without a model cloze and heading.",
    ),
    per_chunk: int = Option(
        3, min=1, help="Maximum number of questions that a model writes per chunk."
    ),
    levels: str = Option(
        "", help="Comma-separated levels: fact,extraction,style,idea; all by default."
    ),
    personas: str = Option(
        "", help="Personas that get their own gold answers, separated by commas."
    ),
    model: str = Option("", help="Chat model that writes the questions; by default answer.model."),
    force: bool = Option(False, "--force", help="Overwrite the output."),
) -> int:
    """Make a test set from the indexed documents.

    A model writes it, or fixed rules offline, or it is taken from given rows.
    """
    resumes = flags.resume and not output.name.endswith(_CHAT)
    free = force or flags.dry_run or not output.exists()
    # one under review is never overwritten
    if not free and (not resumes or any(map(review_status, read_rows(output)))):
        raise ConfigError(
            "the testset exists already; nothing was changed",
            where=str(output),
            hint="choose another name, or --force to overwrite it, reviews included",
        )
    options = SynthesisOptions(questions, names_of(kinds), model, per_chunk=per_chunk)
    options = replace(options, levels=names_of(levels), personas=names_of(personas))
    return _synth(flags, replace(options, seed=flags.seed, resume=flags.resume), source, output)


def _synth(flags: Flags, options: SynthesisOptions, source: Path | None, output: Path) -> int:
    console = flags.console
    run: RunSummary | None = None
    with flags.open() as bench:
        if flags.dry_run and source is None:
            console.remark("rejected questions are replaced from further chunks, which adds calls")
            stop_if_dry(flags, lambda: bench.forecast_synth(options))
        with show_progress(console, bench):
            if source is not None:
                synthesis = import_testset(bench.project, source)
            else:
                synthesis, run = bench.synth(options)
    if synthesis.rows and not flags.dry_run:
        console.make_folder_of(output)
        if output.name.endswith(_CHAT):
            count = write_chat(synthesis.rows, output)
            console.remark(f"{count} rows with a gold answer, as chat")
        else:
            write_rows(synthesis.rows, output)
    counted = Counter(str(row.metadata.get("split", "")) for row in synthesis.rows)
    splits = {"tune": 0, "confirm": 0, **counted}
    console.show(
        lambda: _document(synthesis, output, splits, run), lambda: _text(synthesis, output, splits)
    )
    if not flags.as_json and not output.name.endswith(_CHAT):
        console.remark(f"review the questions before you rely on them: ragwright review {output}")
    return 0 if run is None or run.reason is None else console.ended(run, scored=False)


def _document(
    synthesis: Synthesis, output: Path, splits: dict[str, int], run: RunSummary | None
) -> dict[str, Any]:
    return {
        "testset": str(output),
        "rows": len(synthesis.rows),
        "questions": synthesis.questions,
        "made": dict(synthesis.made),
        "rejected": dict(synthesis.rejected),
        "splits": splits,
        "leak": list(synthesis.leak_quartiles()),
        "notes": list(synthesis.notes),
        "run": None if run is None else run.run,
    }


def _text(synthesis: Synthesis, output: Path, splits: dict[str, int]) -> str:
    questions = count_noun(synthesis.questions, "question")
    lines = [f"{questions}, {count_noun(len(synthesis.rows), 'row')} on {output}", "", "made"]
    lines += [f"  {count:5}  {kind}" for kind, count in synthesis.made.items()]
    lines += ["rejected" if synthesis.rejected else "rejected: none"]
    lines += [f"  {count:5}  {reason}" for reason, count in synthesis.rejected.items()]
    lines.append("splits: " + ", ".join(f"{name} {count}" for name, count in splits.items()))
    if quartiles := synthesis.leak_quartiles():
        least, first, middle, third, most = quartiles
        lines.append(
            "lexical leak (share of the chunk's rare words that the question repeats): "
            f"minimum {least:.2f}, quartiles {first:.2f} {middle:.2f} {third:.2f}, maximum "
            f"{most:.2f}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in synthesis.notes)])


@takes("project overrides quiet seed")
def review_command(
    flags: Flags,
    runs: list[str] | None = Argument(
        None, help="Runs of the project, or files of rows; without --measures a testset."
    ),
    measures: str = Option("", help="Measures by which people score, separated by commas."),
    output: Path = Option(Path("review.csv"), "-o", "--output", help="The sheet, as CSV."),
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
    count, secret = write_blind_sheet(flags.project, names, measures, output, seed=flags.seed)
    if missing:
        console.remark(f"created folder {output.parent}")
    console.result(f"{count_noun(count, 'answer')} on {output}")
    console.remark(f"key to the systems: {secret} (do not show it to the reviewers)")
    console.remark(f"then: ragwright passport review:{output} --verdicts RUN")
    return 0


def _collected(flags: Flags, scope: str) -> Path:
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


_KEYS = "[a]ccept  [e]dit  [r]eject  [s]kip  [u]ndo  [q]uit"


def only_testset(names: Sequence[str]) -> Path:
    """Return the testset file to review.

    Raises:
        ConfigError: It is something else: runs are reviewed by measures.
    """
    path = Path(names[0])
    if len(names) == 1 and path.is_file():
        return path
    if len(names) == 1 and path.suffix:
        hint = "check the path; to score the answers of runs, add --measures"
        raise ConfigError("no such file", where=names[0], hint=hint)
    raise ConfigError(
        f"no testset {names[0]!r}" if len(names) == 1 else "give one testset at a time",
        where="ragwright review",
        hint="give one testset file; to score the answers of runs, add --measures",
    )


def review_testset(
    console: Console,
    path: Path,
    *,
    sheet: Path | None = None,
    filled: Path | None = None,
    by: str = "",
) -> int:
    """Review a testset.

    Returns:
        The exit code: 1 if lines of a sheet could not be applied.
    """
    review = TestsetReview(path, by or current_user())
    if sheet is not None:
        write_review_sheet(review.rows, sheet)
        console.result(f"{count_noun(len(review.rows), 'row')} on {sheet}")
        console.remark(f"fill in `review`, then: ragwright review {path} --read {sheet}")
        return 0
    if filled is not None:
        outcome = review.apply_sheet(filled)
        lines = [_counts(outcome.counts)]
        lines += [f"not applied: {conflict}" for conflict in outcome.conflicts]
        console.result("\n".join(lines))
        return EXIT_ERROR if outcome.conflicts else 0
    with suppress(EOFError):
        _review_rows(review)
    console.result(_counts(review.counts()))
    return 0


def _review_rows(review: TestsetReview) -> None:
    skipped: set[str] = set()
    again: Row | None = None
    while row := again or next((row for row in review.open if row.id not in skipped), None):
        _print(_shown(review, row))
        again = row
        key = _read_line(f"{_KEYS} > ").strip().casefold()[:1]
        if key == "q":
            return
        if key == "s":
            skipped.add(row.id)
            again = None
        elif key == "u":
            undone = review.undo()
            if undone is None:
                _print("nothing to undo: you have not decided on a question in this session")
            else:
                skipped.discard(undone.id)
                again = undone
        elif key in ("a", "e", "r"):
            again = row if _is_refused(review, row, key) else None
        else:
            _print("a, e, r, s, u or q")


def _is_refused(review: TestsetReview, row: Row, key: str) -> bool:
    """Decide on a row; True, with the reason printed, if it must be decided again."""
    texts = {}
    if key == "e":
        _print("press Enter to keep the text as it is")
        texts = {"question": _read_line("question > "), "answer": _read_line("answer   > ")}
    try:
        review.decide(row, "rejected" if key == "r" else "accepted", **texts)
    except TestsetError as error:
        if not is_feedback(row):
            raise
        _print(f"{error.what}: {error.hint}")
        return True
    return False


def _shown(review: TestsetReview, row: Row) -> str:
    total, data = len(review.rows), row.metadata
    facts = [str(data[name]) for name in ("kind", "level", "split") if data.get(name)]
    facts += [f"leak {data['leak']}"] if "leak" in data else []
    persona, status = f" for {row.persona_name}" if row.persona_name else "", review_status(row)
    lines = [
        f"\n{total - len(review.open) + 1}/{total}  {row.id}  {', '.join(facts)}",
        *(f"before, {turn.role}: {turn.content}" for turn in row.history),
        f"question: {row.user_input}",
        f"answer{persona}: {row.reference}" if row.reference else "",
        *([f"served answer: {row.response}", feedback_note(row)] if is_feedback(row) else []),
    ]
    lines += [
        f"evidence: {span.document_id} {span.start}-{span.end}\n  "
        + "\n  ".join(span.text.splitlines())
        for span in row.reference_spans
    ]
    return "\n".join(filter(None, [*lines, f"so far: {status}" if status else ""]))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _print(text: str) -> None:
    write(sys.stderr, visible(text) + "\n")


def _read_line(prompt: str) -> str:
    """Prompt the user and return the line; EOFError at the end of input."""
    write(sys.stderr, visible(prompt))
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


suite_group = typer.Typer(
    help="Test answers on bad or missing passages.\n\nPassages are irrelevant, missing or false.",
    no_args_is_help=True,
)
_DEFAULT = SuiteOptions()
_FALSE = ",".join(f"{dose:g}" for dose in _DEFAULT.falsified)


@suite_group.command("make")
@takes("project overrides jobs max_cost quiet seed")
def suite_make(
    flags: Flags,
    testset: str = Option(help="Questions with gold."),
    output: Path = Option(..., "--output", "-o", metavar="FILE", help="JSONL to write."),
    suite: str = Option("", help="Comma-separated suites: noise,rejection,…; all by default."),
    passages: int = Option(_DEFAULT.passages, min=1, help="Number of passages in a context."),
    doses: str = Option(
        "", help="Shares of irrelevant passages: 0,0.5,2/3; by default all that are possible."
    ),
    falsified: str = Option(_FALSE, help="Shares of falsified passages."),
    sources: int = Option(
        _DEFAULT.sources, min=1, help="Maximum number of questions joined into one."
    ),
    as_configured: bool = Option(
        False, "--as-configured", help="Do not tell the model to report errors in passages."
    ),
) -> None:
    """Make a test set with a share of bad passages.

    Its rows have given passages, and the share is exact.
    """
    options = SuiteOptions(
        names_of(suite),
        passages,
        _shares("--doses", doses),
        _shares("--falsified", falsified),
        sources,
        report_errors=not as_configured,
        seed=flags.seed,
    )
    with flags.open() as bench, show_progress(flags.console, bench):
        suite_rows = bench.suite(testset, options)
    _write_suite(flags, suite_rows, output)


def _write_suite(flags: Flags, suite_rows: Testset, output: Path) -> None:
    console = flags.console
    console.make_folder_of(output)
    write_rows(suite_rows.rows, output)
    for note in suite_rows.notes:
        console.remark(f"note: {note}")
    console.remark(f"{count_noun(len(suite_rows.rows), 'row')} written to {output}")
    console.remark(f"answer and measure them: ragwright eval --testset {output}")


@suite_group.command("curves")
@takes("project as_json output seed")
def suite_curves(
    flags: Flags,
    run: str = Argument(
        "latest", help="A run of a suite: its name, the beginning of its id, or latest."
    ),
    accuracy: str = Option(
        "", help="Measure of accuracy; by default, whether the answer contains the gold."
    ),
) -> None:
    """Show the results of a suite run.

    Each quantity is shown at each share, with its interval.
    """
    console = flags.console
    with flags.open() as bench:
        evaluation = bench.results(run)
        setup = bench.project.settings.judge
    curves = capability_curves(evaluation, accuracy=accuracy, setup=setup, seed=flags.seed)
    name, notes = evaluation.name, evaluation.notes
    console.show(
        lambda: curves_json(curves, run=name, notes=notes),
        lambda: curves_table(curves, run=name, notes=notes, width=console.columns()),
    )


def _shares(flag: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(Fraction(part.strip())) for part in text.split(",") if part.strip())
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{text!r} must be shares between 0 and 1",
            where=flag,
            hint="write for example 0,0.5,2/3",
        ) from error
