"""Answers that differ between two runs, row by row; needs no gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Literal, TypeAlias

from ..core import GoldSpan, count_noun
from ..experiment import Evaluation, RowResult
from ._data import make_json
from ._text import WIDTH, text_table

ChangeKind: TypeAlias = Literal[
    "text", "now abstains", "now answers", "lost citations", "new citations", "now fails", "failed"
]

_SHOWN = 20
"""Answers that the text shows."""
_CELL = 160
"""Characters of a question or an answer that the text shows."""


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A row whose answer differs between two runs.

    Attributes:
        row_id: The row.
        user_input: Its question.
        kinds: What differs; ``failed`` if the first run has no answer, ``now fails`` if the second.
        a: Answer of the first run; None if it has none.
        b: Answer of the second run.
        lost: Citations of the first answer, of which the second cites no character.
        gained: Citations of the second answer, of which the first cites no character.
    """

    row_id: str
    user_input: str
    kinds: tuple[ChangeKind, ...]
    a: str | None
    b: str | None
    lost: tuple[GoldSpan, ...] = ()
    gained: tuple[GoldSpan, ...] = ()


def answer_changes(a: Evaluation, b: Evaluation) -> tuple[tuple[AnswerChange, ...], int]:
    """The rows whose answers differ, in the order of the first run, and how many were compared.

    Rows that only one run holds, or that neither answers (those of rankings alone), are not
    compared. Citations are known only of the project's own answers.
    """
    others = {result.row_id: result for result in b.results}
    pairs = [
        (result, other)
        for result in a.results
        if (other := others.get(result.row_id)) is not None and _answered(result, other)
    ]
    changes = [_change(*pair) for pair in pairs]
    return tuple(change for change in changes if change.kinds), len(pairs)


def _answered(*results: RowResult) -> bool:
    """True if both rows are stored, and one of them with an answer."""
    rows = [result.row for result in results]
    return all(rows) and any(row.response is not None for row in rows if row is not None)


def _change(a: RowResult, b: RowResult) -> AnswerChange:
    assert a.row is not None
    assert b.row is not None
    texts = a.row.response, b.row.response
    kinds: list[ChangeKind] = []
    lost: tuple[GoldSpan, ...] = ()
    gained: tuple[GoldSpan, ...] = ()
    if None in texts:
        if texts[0] != texts[1]:
            kinds.append("failed" if texts[0] is None else "now fails")
    else:
        abstained = [row.metadata.get("abstained") is True for row in (a.row, b.row)]
        if abstained[0] != abstained[1]:
            kinds.append("now abstains" if abstained[1] else "now answers")
        if a.row.response_text.strip() != b.row.response_text.strip():
            kinds.append("text")
        cited = [result.made.citations if result.made else () for result in (a, b)]
        lost, gained = _uncited(cited[0], cited[1]), _uncited(cited[1], cited[0])
        changed: Mapping[ChangeKind, object] = {"lost citations": lost, "new citations": gained}
        kinds += [kind for kind, spans in changed.items() if spans]
    return AnswerChange(a.row_id, a.row.user_input, tuple(kinds), *texts, lost, gained)


def _uncited(spans: Sequence[GoldSpan], others: Sequence[GoldSpan]) -> tuple[GoldSpan, ...]:
    """The spans that share no character with the others."""
    return tuple(
        span
        for span in spans
        if not any(
            span.document_id == other.document_id
            and span.start < other.end
            and other.start < span.end
            for other in others
        )
    )


def answer_changes_json(changes: Sequence[AnswerChange], compared: int) -> dict[str, Any]:
    """The part ``answers`` of ``compare --json``: every row whose answer differs."""
    return {"compared": compared, "changed": [make_json(change) for change in changes]}


def answer_changes_text(
    changes: Sequence[AnswerChange],
    compared: int,
    names: tuple[str, str] = ("A", "B"),
    width: int = WIDTH,
) -> str:
    """How many answers differ and in what, and the first of them; empty if none was compared."""
    if not compared:
        return ""
    counts = Counter(kind for change in changes for kind in change.kinds)
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
    head = f"answers that differ: {len(changes)} of {compared}{f' ({kinds})' if kinds else ''}"
    if not changes:
        return head
    rows = [["row", "question", *names, "what differs"]]
    rows += [
        [
            change.row_id,
            *(shorten(text or "-", _CELL) for text in (change.user_input, change.a, change.b)),
            ", ".join(change.kinds),
        ]
        for change in changes[:_SHOWN]
    ]
    lines = [head, text_table(rows, width=width)]
    if len(changes) > _SHOWN:
        lines.append(f"{count_noun(len(changes) - _SHOWN, 'more row')}: --json shows all")
    return "\n".join(lines)
