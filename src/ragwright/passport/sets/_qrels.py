"""Judgments in TREC's format: a topic, a document, a grade of a person."""

from __future__ import annotations

from collections.abc import Mapping

from ...core import Row, TestsetError
from ...testsets import read_qrels
from .._people import Dimension, PeopleSet, Rated
from ._files import SetFiles

_RELEVANT = 2
"""Grade from which a document counts as relevant on scales of more than two grades (TREC RAG)."""


def qrels(files: SetFiles) -> PeopleSet:
    """TREC qrels: passages by topic with their grades; texts are not part of the format."""
    if not files.path.is_file():
        raise TestsetError(
            "give the file with the judgments of people, not a folder",
            where=str(files.path),
            hint=f"qrels:{files.path}/FILE, and a judge's file with --verdicts",
        )
    rated = tuple(
        Rated(
            Row(row_id, topic),
            {"relevance": {"assessor": float(grade)}},
            topic,
        )
        for row_id, (topic, grade) in read_graded_rows(files.path.as_posix()).items()
    )
    best = max(label for item in rated for label in item.labels["relevance"].values())
    worst = min(label for item in rated for label in item.labels["relevance"].values())
    grades = Dimension("relevance", min(0.0, worst), max(1.0, best))
    dimensions = [grades]
    if grades.high > 1:
        name = f"relevance>={_RELEVANT}"
        mapping = f"1 for grades from {_RELEVANT} on, else 0"
        dimensions.append(Dimension(name, 0, 1, mapping, "relevance", _RELEVANT))
    note = "the texts of topics and passages are not in the file: only recorded verdicts apply"
    return PeopleSet("qrels", rated, tuple(dimensions), (note,))


def read_graded_rows(path: str) -> Mapping[str, tuple[str, int]]:
    """Id of a row -> (topic, grade) of every judgment in a file of qrels."""
    return {
        f"{topic} {document}": (topic, grade)
        for topic, grades in read_qrels(path).items()
        for document, grade in grades.items()
    }
