"""The gold of a project's confirm splits, which feedback for tuning must not repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...core import GoldSpan, TestsetError
from ...testsets import assign_splits, declared_splits, holds_reviews, read_rows


@dataclass(frozen=True, slots=True)
class ConfirmGold:
    """Questions and gold spans of confirm splits.

    Attributes:
        questions: Question in small letters -> testset that holds it.
        spans: Document -> start, end and testset of each gold span.
    """

    questions: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[str, tuple[tuple[int, int, str], ...]] = field(default_factory=dict)

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
            "",
        )


def confirm_gold(folder: Path) -> ConfirmGold:
    """Read the confirm splits that testsets in a folder declare; for comparing, not for measuring.

    Files that cannot be read as testsets are skipped.
    """
    questions: dict[str, str] = {}
    spans: dict[str, tuple[tuple[int, int, str], ...]] = {}
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
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
    return ConfirmGold(questions, spans)


def _words(question: str) -> str:
    return " ".join(question.casefold().split())
