"""Judgments and runs in TREC's formats, and BEIR's judgments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ..core import TestsetError, count_noun
from .rows import lines_of

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade."""

Run: TypeAlias = Mapping[str, tuple[tuple[str, float], ...]]
"""Query id -> (document id, score), best first."""

_HEADS = frozenset({"query-id", "query_id", "queryid", "qid", "query"})


def read_qrels(path: str | Path) -> Qrels:
    """Read judgments: ``query 0 document grade`` (TREC) or ``query document grade`` (BEIR).

    BEIR's columns are separated by tabs and may have a header line; lines that start with ``#``
    are comments. Queries and documents keep the order of the file.

    Raises:
        TestsetError: A line has other columns, a grade is not a whole number, or one
            document is judged twice for a query with different grades.
    """
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade, where in judgments(Path(path)):
        known = qrels.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            raise TestsetError(
                f"document {document!r} has grades {known} and {grade} for query {query!r}",
                where=where,
                hint="keep one of the two lines",
            )
    if not qrels:
        raise TestsetError("the file holds no judgments", where=str(path))
    return qrels


def judgments(path: Path) -> list[tuple[str, str, int, str]]:
    """Return (query id, document id, grade, ``file:line``) of every judgment in a file."""
    rows = []
    first = True
    for where, text in lines_of(path):
        if text.startswith("#"):
            continue
        fields = [field.strip() for field in text.split("\t")]
        if len(fields) != 3 or not all(fields):
            fields = text.split()
        if first and len(fields) == 3 and fields[0].lower() in _HEADS:
            first = False
            continue
        first = False
        if len(fields) == 4:
            del fields[1]
        if len(fields) != 3:
            raise TestsetError(
                f"{count_noun(len(fields), 'column')}; 3 or 4 are expected",
                where=where,
                hint="write query, document, grade with tabs, or TREC's query 0 document grade",
            )
        try:
            grade = int(fields[2])
        except ValueError as error:
            raise TestsetError(f"grade {fields[2]!r} is not a whole number", where=where) from error
        rows.append((fields[0], fields[1], grade, where))
    return rows


def read_run(path: str | Path) -> Run:
    """Read a run, ``query Q0 document rank score tag``, ordered as trec_eval orders it.

    The rank column is ignored: scores count, in single precision, highest first, and equal
    scores are ordered by document id, descending. This is the opposite of ragwright's tie rule, so
    that runs get the same figures as in trec_eval.

    Raises:
        TestsetError: A line has other columns, a score is not a number, or a document
            occurs twice for a query.
    """
    by_query: dict[str, dict[str, float]] = {}
    for where, text in lines_of(Path(path)):
        fields = text.split(maxsplit=5)  # the tag is the rest of the line
        if len(fields) != 6:
            raise TestsetError(
                f"{count_noun(len(fields), 'column')}; 6 are expected",
                where=where,
                hint="write query Q0 document rank score tag",
            )
        query, _, document, _, number, _ = fields
        try:
            score = float(np.float32(number))
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise TestsetError(f"score {number!r} is not a number", where=where)
        scores = by_query.setdefault(query, {})
        if document in scores:
            raise TestsetError(
                f"document {document!r} occurs twice for query {query!r}",
                where=where,
                hint="rank each document once",
            )
        scores[document] = score
    if not by_query:
        raise TestsetError("the file holds no ranking", where=str(path))
    return {
        query: tuple(sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True))
        for query, scores in by_query.items()
    }
