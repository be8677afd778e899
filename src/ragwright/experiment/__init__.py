"""Testsets, runs and what is concluded from them."""

from __future__ import annotations

from ._evaluate import (
    Evaluation,
    RowResult,
    evaluate_retrieval,
    ranking_search,
    retrieval_flows,
    retrieval_row,
    score_run,
    summarise,
)
from ._rows import iter_rows, read_rows
from ._testsets import Testset, load_testset
from ._trec import read_qrels, read_run

__all__ = [
    "Evaluation",
    "RowResult",
    "Testset",
    "evaluate_retrieval",
    "iter_rows",
    "load_testset",
    "ranking_search",
    "read_qrels",
    "read_rows",
    "read_run",
    "retrieval_flows",
    "retrieval_row",
    "score_run",
    "summarise",
]
