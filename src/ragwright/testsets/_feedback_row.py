"""A row that was made from readers' feedback: its votes, its gold, and whether it is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core import GoldSpan, Row, TestsetError

FEEDBACK = "feedback"
"""Value of the metadata key ``kind`` of these rows."""


def is_feedback(row: Row) -> bool:
    """True for a row that was made from readers' feedback, decided or not."""
    return row.metadata.get("kind") == FEEDBACK


def is_candidate(row: Row) -> bool:
    """True for a row from feedback that nobody has decided on."""
    return is_feedback(row) and not row.metadata.get("review")


def votes_on(row: Row) -> tuple[int, int]:
    """Accepting and rejecting votes on the answers to a row's question."""
    accepted, rejected = (
        row.metadata.get(f"feedback_{name}", 0) for name in ("accepted", "rejected")
    )
    return int(accepted or 0), int(rejected or 0)  # type: ignore[arg-type]


def gold_numbers(row: Row) -> tuple[int, ...]:
    """Numbers of the shown passages that are gold, from 1."""
    gold = set(row.reference_spans)
    return tuple(n for n, span in enumerate(row.retrieved_spans, 1) if span in gold)


def pooled_spans(row: Row) -> tuple[GoldSpan, ...]:
    """Passages of a row from feedback that readers did not see: further searches found them."""
    return tuple(
        row.retrieved_spans[int(text) - 1] for text in feedback_words(row, "feedback_pooled")
    )


def with_gold(row: Row, numbers: Sequence[int]) -> Row:
    """Return the row with the shown passages of these numbers as its gold.

    Raises:
        TestsetError: The row has no such passage.
    """
    shown = row.retrieved_spans
    for number in numbers:
        if not 1 <= number <= len(shown):
            raise TestsetError(
                f"row {row.id!r} has no passage {number}",
                hint=f"its passages are numbered 1 to {len(shown)}" if shown else "it has none",
            )
    metadata = {k: v for k, v in row.metadata.items() if k != "answerable" or not numbers}
    gold = tuple(shown[n - 1] for n in sorted(set(numbers)))
    return replace(row, reference_spans=gold, metadata=metadata)


def require_gold(row: Row) -> None:
    """Refuse to accept a row from feedback without gold, or with gold of a confirm split.

    Raises:
        TestsetError: It has neither a gold passage nor a gold answer, or it is for tuning and its
            gold is that of a confirm split.
    """
    if is_feedback(row) and row.metadata.get("split") != "confirm":
        closed = {int(text) for text in feedback_words(row, "feedback_confirm")} & {
            *gold_numbers(row)
        }
        if closed:
            raise TestsetError(
                f"passage {min(closed)} of row {row.id!r} is gold of a confirm split: tuning on it "
                "would spoil that confirmation",
                hint="choose another passage, reject the row, or collect feedback for the confirm "
                "split: ragwright review --feedback --split confirm",
            )
    gold = row.reference_spans or row.reference or row.metadata.get("answerable") is False
    if is_feedback(row) and not gold:
        raise TestsetError(
            f"row {row.id!r} has neither a gold passage nor a gold answer",
            hint="edit it: name the passages that answer the question or write the answer; or "
            "reject it",
        )


def feedback_words(row: Row, name: str) -> tuple[str, ...]:
    """The texts under a metadata key of a row; empty where there are none."""
    value = row.metadata.get(name, ())
    return value if isinstance(value, tuple) else ()
