"""Served answers on which people gave feedback, with what they were shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._records import Feedback, FeedbackVerdict
from ._store import feedback_rows

if TYPE_CHECKING:
    from ...ledger import Connection
    from ._store import Outputs


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage that a reader saw with an answer, as its text was then.

    ``start`` and ``end`` are its characters in the document, None where they were not stored.
    """

    document_id: str
    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class VotedAnswer:
    """A served answer with feedback.

    Attributes:
        output: Its id.
        at: When it was served, ISO 8601, UTC.
        request: The request: question, persona, earlier questions.
        text: The answer.
        cited: The passages that it cites, by number.
        shown: The passages of its prompt, best first.
        feedback: All feedback on it, oldest first.
        abstained: True if it declines to answer.
    """

    output: str
    at: str
    request: Mapping[str, Any]
    text: str
    cited: tuple[ShownPassage, ...]
    shown: tuple[ShownPassage, ...]
    feedback: tuple[Feedback, ...]
    abstained: bool = False

    @property
    def votes(self) -> Mapping[str, FeedbackVerdict]:
        """The latest verdict of each name; who votes again on the same answer changes the vote."""
        return {entry.by: entry.verdict for entry in self.feedback if entry.verdict}


def voted_answers(outputs: Outputs, scope: str = "") -> tuple[VotedAnswer, ...]:
    """Return the served answers of a scope that have feedback, oldest first."""
    with outputs.reading() as db:
        rows = db.execute(
            "SELECT i.batch, i.position, b.at, b.request, i.text, b.details "
            "FROM items i JOIN batches b USING (batch) "
            "WHERE i.kind = 'text' AND b.kind = 'answer' AND b.scope = ? AND EXISTS "
            "(SELECT 1 FROM feedback f WHERE f.batch = i.batch AND f.kind = i.kind "
            "AND f.position = i.position) ORDER BY i.batch, i.position",
            (scope,),
        ).fetchall()
        feedback: dict[str, list[Feedback]] = {}
        of_scope = "batch IN (SELECT batch FROM batches WHERE kind = 'answer' AND scope = ?)"
        for entry in feedback_rows(db, of_scope, (scope,)):
            feedback.setdefault(entry.output, []).append(entry)
        shown = _shown_passages(db, scope)
    answers = []
    for batch, position, at, request, text, details in rows:
        output = f"{batch}.{position}"
        stored = json.loads(details)
        cited = tuple(
            ShownPassage(place["document_id"], place["quote"], place["start"], place["end"])
            for place in stored.get("citations", ())
        )
        passages = tuple(shown.get((batch, position), ()))
        facts = (output, at, json.loads(request), text, cited, passages, tuple(feedback[output]))
        answers.append(VotedAnswer(*facts, abstained=bool(stored.get("abstained"))))
    return tuple(answers)


def _shown_passages(db: Connection, scope: str) -> dict[tuple[int, int], list[ShownPassage]]:
    """(batch, position) -> the hits in the prompt of the answer, in its order."""
    rows = db.execute(
        "SELECT u.batch, u.position, u.document_id, coalesce(h.text, '') "
        "FROM uses u LEFT JOIN hits h ON h.batch = u.batch AND h.chunk_id = u.chunk_id "
        "WHERE u.kind = 'text' AND u.batch IN (SELECT f.batch FROM feedback f "
        "JOIN batches b ON b.batch = f.batch WHERE b.kind = 'answer' AND b.scope = ?) "
        "ORDER BY u.batch, u.position, u.ordinal",
        (scope,),
    )
    passages: dict[tuple[int, int], list[ShownPassage]] = {}
    for batch, position, document, text in rows:
        passages.setdefault((batch, position), []).append(ShownPassage(document, text))
    return passages
