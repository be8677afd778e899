"""`ragwright review` of a testset: one row at a time, or by a sheet."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core import ConfigError, Row, TestsetError, count_noun, current_user
from ..testsets import (
    TestsetReview,
    feedback_note,
    is_feedback,
    review_status,
    write_review_sheet,
)
from ._console import EXIT_ERROR, Console, visible, write

_KEYS = "[a]ccept  [e]dit  [r]eject  [s]kip  [u]ndo  [q]uit"


def only_testset(names: Sequence[str]) -> Path:
    """Return the testset file to review.

    Raises:
        ConfigError: It is something else: runs are reviewed by measures.
    """
    path = Path(names[0])
    if len(names) == 1 and path.is_file():
        return path
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

    Args:
        console: Output of the command.
        path: The testset.
        sheet: Write a sheet there instead of asking on the terminal.
        filled: Read a filled-in sheet instead of asking on the terminal.
        by: Reviewer; the user of this machine by default.

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
    _one_by_one(review)
    console.result(_counts(review.counts()))
    if any(is_feedback(row) for row in review.rows):
        console.remark(review.labels().agreement().text)
    return 0


def _one_by_one(review: TestsetReview) -> None:
    """Ask about every open row until none is left, or the user quits."""
    skipped: set[str] = set()
    again: Row | None = None
    try:
        while True:
            waiting = [row for row in review.open if row.id not in skipped]
            row = again or next(iter(waiting), None)
            again = None
            if row is None:
                return
            _print(_shown(review, row))
            key = _read_line(f"{_KEYS} > ").strip().casefold()[:1]
            if key == "q":
                return
            if key == "u":
                again = _undone(review, skipped) or row
            elif key == "s":
                skipped.add(row.id)
            else:
                again = row if _refused(review, row, key) else None
    except EOFError:
        return


def _refused(review: TestsetReview, row: Row, key: str) -> bool:
    """Decide on a row; True, with the reason printed, if it must be decided again."""
    try:
        decided = _decided(review, row, key)
    except TestsetError as error:
        if not is_feedback(row):
            raise
        _print(f"{error.what}: {error.hint}")
        return True
    if not decided:
        _print("a, e, r, s, u or q")
    return not decided


def _decided(review: TestsetReview, row: Row, key: str) -> bool:
    if key == "a":
        review.decide(row, "accepted")
    elif key == "r":
        review.decide(row, "rejected")
    elif key == "e":
        _print("press Enter to keep the text as it is")
        question, answer = _read_line("question > "), _read_line("answer   > ")
        review.decide(row, "accepted", question=question, answer=answer)
    else:
        return False
    return True


def _undone(review: TestsetReview, skipped: set[str]) -> Row | None:
    row = review.undo()
    if row is None:
        _print("nothing to undo: you have not decided on a question in this session")
        return None
    skipped.discard(row.id)
    return row


def _shown(review: TestsetReview, row: Row) -> str:
    total = len(review.rows)
    number = total - len(review.open) + 1
    facts = [
        str(row.metadata[name]) for name in ("kind", "level", "split") if row.metadata.get(name)
    ]
    if "leak" in row.metadata:
        facts.append(f"leak {row.metadata['leak']}")
    lines = [f"\n{number}/{total}  {row.id}  {', '.join(facts)}"]
    lines += [f"before, {turn.role}: {turn.content}" for turn in row.history]
    lines.append(f"question: {row.user_input}")
    if row.reference:
        persona = f" for {row.persona_name}" if row.persona_name else ""
        lines.append(f"answer{persona}: {row.reference}")
    if is_feedback(row):
        lines += [f"served answer: {row.response}", feedback_note(row)]
    lines += [
        f"evidence: {span.document_id} {span.start}-{span.end}\n  "
        + "\n  ".join(span.text.splitlines())
        for span in row.reference_spans
    ]
    if status := review_status(row):
        lines.append(f"so far: {status}")
    return "\n".join(lines)


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
