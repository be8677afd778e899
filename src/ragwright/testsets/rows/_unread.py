"""Columns of a file that no measure and no command reads."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import Row

_READ = frozenset(
    {
        *("answerability", "conversation_id", "standalone", "turn"),
        *("abstained", "answerable", "ask", "base", "chunk_score", "cited", "dose", "fake"),
        *("falsified", "feedback_score", "generated", "gold_rank", "half_characters", "hard"),
        *("kind", "language", "leak"),
        *("level", "limits", "model", "references", "relevant", "retrieved"),
        *(
            "review",
            "reviewed_at",
            "reviewed_by",
            "route",
            "served",
            "split",
            "suite",
            "system",
            "accepted",
        ),
    }
)
"""Metadata that ragwright reads, or wrote itself."""

_OURS = ("feedback_", "part_", "ragwright:")
_MOST = 8


def unread_columns(row: Row) -> tuple[str, ...]:
    """Return the columns of a row that were stored as metadata and are read only by ``--by``."""
    return tuple(name for name in row.metadata if name not in _READ and not name.startswith(_OURS))


def unread_note(names: Iterable[str]) -> tuple[str, ...]:
    """Return a note that names columns which are not read; empty if there are none."""
    columns = list(dict.fromkeys(names))
    if not columns:
        return ()
    rest = f" and {len(columns) - _MOST} more" if len(columns) > _MOST else ""
    plural = "columns" if len(columns) > 1 else "column"
    return (
        f"{plural} not read: {', '.join(columns[:_MOST])}{rest} (kept with the rows; --by COLUMN "
        "shows the scores for each value)",
    )
