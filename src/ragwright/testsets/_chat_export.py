"""Gold questions and answers as chat turns, for fine-tuning a model elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core import Row, TestsetError, replace_text
from ._review import review_status


def chat_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Return one JSON object per row: ``{"messages": [user, assistant]}`` (SPEC D4).

    The user turn holds the gold passages, numbered, and the question; the assistant turn the
    reference answer. Rows without one, and those that a review rejected, are left out.
    """
    for row in rows:
        if not row.reference.strip() or review_status(row) == "rejected":
            continue
        passages = tuple(span.text for span in row.reference_spans) or row.reference_contexts
        numbered = [f"[{number}] {text}" for number, text in enumerate(passages, 1)]
        parts = [*numbered, f"Question: {row.user_input}"] if numbered else [row.user_input]
        messages = [
            {"role": "user", "content": "\n\n".join(parts)},
            {"role": "assistant", "content": row.reference},
        ]
        yield json.dumps({"messages": messages}, ensure_ascii=False)


def write_chat(rows: Iterable[Row], path: Path) -> int:
    """Write the chat turns of gold rows as JSONL, completely or not at all; return their number.

    Raises:
        TestsetError: No row has a gold answer, or the file cannot be written.
    """
    lines = list(chat_lines(rows))
    if not lines:
        raise TestsetError(
            "no row has a gold answer, so there is nothing to train on",
            where=str(path),
            hint="give the rows a `reference`, or have a model write it: --kinds model",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise TestsetError(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error
    return len(lines)
