"""The gold of a project's confirm splits, which feedback for tuning must not repeat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...core import GoldSpan, TestsetError
from ...testsets import assign_splits, declared_splits, holds_reviews, read_rows


@dataclass(frozen=True, slots=True)
class ConfirmGold:
    """Questions and gold spans of confirm splits.

    Attributes:
        questions: Words of a question in small letters -> testset that holds it.
        spans: Document -> start, end and testset of each gold span.
        documents: Document that is gold as a whole -> testset.
    """

    questions: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[str, tuple[tuple[int, int, str], ...]] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)

    def asks(self, question: str) -> str:
        """The testset whose confirm split asks this question; empty if none does."""
        return self.questions.get(_words(question), "")

    def overlaps(self, span: GoldSpan) -> str:
        """The testset whose confirm split has gold within this span; empty if none has."""
        return next(
            (
                name
                for start, end, name in self.spans.get(span.document_id, ())
                if start < span.end and span.start < end
            ),
            self.documents.get(span.document_id, ""),
        )


def confirm_gold(folder: Path) -> ConfirmGold:
    """Read the confirm splits that testsets in a folder declare; for comparing, not for measuring.

    Files that cannot be read as testsets are skipped.
    """
    questions: dict[str, str] = {}
    spans: dict[str, tuple[tuple[int, int, str], ...]] = {}
    documents: dict[str, str] = {}
    for path in sorted(folder.glob("*.json*")) if folder.is_dir() else ():
        if path.suffix not in (".json", ".jsonl"):
            continue
        if holds_reviews(path) or path.name == "openings.jsonl":
            continue
        try:
            if not declared_splits(str(path)):
                continue
            rows = read_rows(path, questions=True)
            splits = assign_splits(rows)
        except TestsetError:
            continue
        for row in rows:
            if splits[row.id] != "confirm" or row.metadata.get("review") == "rejected":
                continue
            questions[_words(row.user_input)] = path.name
            for span in row.reference_spans:
                spans[span.document_id] = (
                    *spans.get(span.document_id, ()),
                    (span.start, span.end, path.name),
                )
            if not row.reference_spans:
                graded = (document for document, grade in row.reference_ids.items() if grade > 0)
                documents |= dict.fromkeys(graded, path.name)
    return ConfirmGold(questions, spans, documents)


def _words(question: str) -> str:
    return " ".join(re.findall(r"\w+", question.casefold()))
