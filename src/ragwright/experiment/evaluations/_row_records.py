"""Rows with their answers and scores as flat records: for files, data frames and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ...core import Row, Score
from ...measure import find_scale, row_stability
from ...testsets import row_record

_FIRST = ("id", "user_input", "response", "reference")
_BEHIND = (
    "history",
    "retrieved_contexts",
    "retrieved_context_ids",
    "reference_contexts",
    "reference_ids",
    "reference_spans",
    "retrieved_spans",
    "persona_name",
)
_MARKS = {"no_gold": " (no gold)", "unanswerable": " (unanswerable)"}
"""Marks of a score, after its state."""


class ScoredRow(Protocol):
    """A row's result: its id, ranking and scores, and the row if it is stored."""

    @property
    def row_id(self) -> str:
        """The row."""

    @property
    def ranking(self) -> tuple[str, ...]:
        """Ids of documents, best first."""

    @property
    def scores(self) -> tuple[Score, ...]:
        """One per measure."""

    @property
    def row(self) -> Row | None:
        """The row as scored; None for a ranking alone."""


def row_records(results: Iterable[ScoredRow], rows: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """Return one flat record per row, all with the same keys in the same order.

    ``id, user_input, response, reference``, and ``answered`` if a row has no answer; one key per
    measure with its value or None; passages, gold and persona if a row has them; text and number
    columns of the rows' metadata, the rest of it under ``metadata``; then
    ``MEASURE state``, ``MEASURE reason`` and, from judges, ``MEASURE detail`` and, of repeated
    judgments, ``MEASURE stability``. The state of a row
    without gold ends with ``(no gold)``. Records can be scored again (:func:`evaluate`) and
    compared (:func:`read_results`).

    Args:
        results: Results of rows.
        rows: The rows of the test set, for results that store none: rankings, failed rows.
    """
    rows_by_id = {row.id: row for row in rows}
    parts = [_record(result, rows_by_id.get(result.row_id)) for result in results]
    keys = {name: None for record, _, _ in parts for name in record}
    measures = dict.fromkeys(name for _, scores, _ in parts for name in scores)
    detail_keys = dict.fromkeys(name for _, _, details in parts for name in details)
    extra = [name for name in keys if name not in (*_FIRST, *_BEHIND, "answered", "metadata")]
    missing = any(record.get("response") is None for record, _, _ in parts)
    order = [
        *_FIRST,
        *(["answered"] if missing else []),
        *measures,
        *(name for name in _BEHIND if name in keys),
        *extra,
        *(["metadata"] if "metadata" in keys else []),
        *(
            f"{name} {end}"
            for name in measures
            for end in ("state", "reason", "detail", "stability")
            if f"{name} {end}" in detail_keys
        ),
    ]
    return [
        {name: record.get(name) for name in order}
        for record in ({**record, **scores, **details} for record, scores, details in parts)
    ]


def _record(
    result: ScoredRow, testset_row: Row | None
) -> tuple[dict[str, Any], dict[str, float | None], dict[str, str]]:
    """Return the row's own keys, its values, and the reasons for missing values."""
    row = result.row if result.row is not None and result.row.user_input else testset_row
    row = row or result.row or Row(result.row_id, "")
    if result.row is None and result.ranking:
        row = replace(row, retrieved_context_ids=result.ranking)
    scores = {score.measure: score.value for score in result.scores}
    details: dict[str, str] = {}
    for score in result.scores:
        marks = "".join(text for name, text in _MARKS.items() if getattr(score, name))
        details[f"{score.measure} state"] = score.state + marks
        details[f"{score.measure} reason"] = score.reason
        if score.detail:
            details[f"{score.measure} detail"] = score.detail
        if stability := row_stability(score, find_scale(score.measure)):
            details[f"{score.measure} stability"] = stability
    record = row_record(row)
    metadata: Mapping[str, Any] = record.pop("metadata", {})
    known_keys = {*record, *scores, *details, *_FIRST, *_BEHIND, "answered", "metadata"}
    columns = {n: v for n, v in metadata.items() if _is_column(n, v) and n not in known_keys}
    rest = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in metadata.items()
        if name not in columns
    }
    lists = {n: list(v) if isinstance(v, tuple) else v for n, v in record.items()}
    lists["answered"] = row.response is not None
    return {**lists, **columns, **({"metadata": rest} if rest else {})}, scores, details


def _is_column(name: str, value: Any) -> bool:
    """True for metadata that a table shows as a column: the user's own texts and numbers."""
    is_scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    return is_scalar and not name.startswith("ragwright:")


def state_of(text: str) -> tuple[str, bool, bool]:
    """Parse the state, ``no_gold`` and ``unanswerable`` from a cell of :func:`row_records`."""
    gold, answerable = (mark in text for mark in _MARKS.values())
    return text.partition(" (")[0], gold, answerable
