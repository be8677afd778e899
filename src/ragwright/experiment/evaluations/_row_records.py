"""Rows with their answers and scores as flat records: for files, data frames and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ...core import Row, Score
from ...testsets import row_record

_FIRST = ("id", "user_input", "response", "reference")
_BEHIND = (
    "retrieved_contexts",
    "retrieved_context_ids",
    "reference_contexts",
    "reference_ids",
    "reference_spans",
    "retrieved_spans",
    "persona_name",
)
_MARKS = {"no_gold": " (no gold)", "unanswerable": " (unanswerable)"}
"""Marks of a score, behind its state."""


class Scored(Protocol):
    """A row's result: its id, its ranking, its scores, and the row where it is kept."""

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


def row_records(results: Iterable[Scored], rows: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """One flat record per row, all with the same keys in the same order.

    ``id, user_input, response, reference``, and ``answered`` where a row has no answer; one key per
    measure with its value, None where there is none; passages, gold and persona where a row has
    them; text and number columns of the rows' metadata, the rest of it under ``metadata``; then
    ``MEASURE state``, ``MEASURE reason`` and, from judges, ``MEASURE detail``. The state of a row
    without gold ends with ``(no gold)``. Records can be scored again (:func:`evaluate`) and
    compared (:func:`read_results`).

    Args:
        results: Results of rows.
        rows: The rows of the test set, for results that keep none: rankings, failed rows.
    """
    asked = {row.id: row for row in rows}
    found = [_record(result, asked.get(result.row_id)) for result in results]
    held = {name: None for record, _, _ in found for name in record}
    measures = dict.fromkeys(name for _, scores, _ in found for name in scores)
    told = dict.fromkeys(name for _, _, more in found for name in more)
    extra = [name for name in held if name not in (*_FIRST, *_BEHIND, "answered", "metadata")]
    missing = any(record.get("response") is None for record, _, _ in found)
    order = [
        *_FIRST,
        *(["answered"] if missing else []),
        *measures,
        *(name for name in _BEHIND if name in held),
        *extra,
        *(["metadata"] if "metadata" in held else []),
        *(
            f"{name} {end}"
            for name in measures
            for end in ("state", "reason", "detail")
            if f"{name} {end}" in told
        ),
    ]
    return [
        {name: one.get(name) for name in order}
        for one in ({**record, **scores, **more} for record, scores, more in found)
    ]


def _record(
    result: Scored, asked: Row | None
) -> tuple[dict[str, Any], dict[str, float | None], dict[str, str]]:
    """The row's own keys, its values, and why values are missing."""
    row = result.row if result.row is not None and result.row.user_input else asked
    row = row or result.row or Row(result.row_id, "")
    if result.row is None and result.ranking:
        row = replace(row, retrieved_context_ids=result.ranking)
    scores = {score.measure: score.value for score in result.scores}
    more: dict[str, str] = {}
    for score in result.scores:
        marks = "".join(text for name, text in _MARKS.items() if getattr(score, name))
        more[f"{score.measure} state"] = score.state + marks
        more[f"{score.measure} reason"] = score.reason
        if score.detail:
            more[f"{score.measure} detail"] = score.detail
    record = row_record(row)
    metadata: Mapping[str, Any] = record.pop("metadata", {})
    taken = {*record, *scores, *more, *_FIRST, *_BEHIND, "answered", "metadata"}
    own = {n: v for n, v in metadata.items() if _is_column(n, v) and n not in taken}
    rest = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in metadata.items()
        if name not in own
    }
    lists = {n: list(v) if isinstance(v, tuple) else v for n, v in record.items()}
    lists["answered"] = row.response is not None
    return {**lists, **own, **({"metadata": rest} if rest else {})}, scores, more


def _is_column(name: str, value: Any) -> bool:
    """True for metadata that a table shows as a column: texts and numbers of the user's own."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return plain and not name.startswith("ragwright:")


def state_of(text: str) -> tuple[str, bool, bool]:
    """State, ``no_gold`` and ``unanswerable`` of a cell that :func:`row_records` wrote."""
    gold, answerable = (mark in text for mark in _MARKS.values())
    return text.partition(" (")[0], gold, answerable
