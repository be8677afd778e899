"""Rows of sheets as cited passages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ...core import Hit, MetaValue, text_hash
from ...flow import SqlReply
from .._sql import markdown_table
from .._tables import Sheet

MOST_ROWS = 200
"""Rows that are cited one by one; of more, the range they lie in is cited."""
_MOST_RUNS = 4
_SHOWN = 40
"""Rows of a passage that are shown."""

Rows = Sequence[Sequence[Any]]
"""Rows of evidence: row number, first and last character in the document, cells."""


def sheet_hits(sheet: Sheet, columns: Sequence[str], rows: Rows, statement: str) -> list[Hit]:
    """Hits of the rows behind an answer, one for each run of rows, at most four; else one for all.

    The title names file, sheet and cells; the metadata has ``sheet``, ``rows``, ``cells`` and the
    ``statement``.

    Args:
        sheet: The table.
        columns: The columns that count, in the order of the rows' cells.
        rows: The rows by number.
        statement: What was computed, as SQL.
    """
    runs = [
        [row for _, row in run]
        for _, run in groupby(enumerate(rows), key=lambda pair: pair[1][0] - pair[0])
    ]
    if len(runs) > _MOST_RUNS:
        runs = [list(rows)]
    return [
        _run_hit(rank, sheet, columns, run, statement) for rank, run in enumerate(runs, 1) if run
    ]


def range_hit(sheet: Sheet, columns: Sequence[str], bounds: Sequence[int], statement: str) -> Hit:
    """One hit for too many rows: first and last row, first and last character."""
    first, last, start, end = bounds
    places = _cells(sheet, columns, [(first, last)])
    text = f"{sheet.place}, rows {first} to {last}, cells {places}"
    return _hit_of(1, sheet, (start, end), text, (f"{first}-{last}", places), statement)


def rows_text(numbers: Sequence[int]) -> str:
    """Row numbers with runs joined: ``5-9, 12``."""
    return ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(numbers)
    )


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs


def _cells(sheet: Sheet, columns: Sequence[str], runs: Sequence[tuple[int, int]]) -> str:
    letters = [sheet.column(name).letter for name in columns]
    return ", ".join(
        f"{letter}{first}" if first == last else f"{letter}{first}:{letter}{last}"
        for letter in letters
        for first, last in runs[:20]
    )


def _run_hit(rank: int, sheet: Sheet, columns: Sequence[str], rows: Rows, statement: str) -> Hit:
    numbers = [int(row[0]) for row in rows]
    shown = SqlReply(("row", *columns), tuple((row[0], *row[3:]) for row in rows[:_SHOWN]))
    text = markdown_table(shown)
    if len(rows) > _SHOWN:
        text += f"\n\n{len(rows) - _SHOWN} more rows are not shown."
    places = (rows_text(numbers), _cells(sheet, columns, _runs(numbers)))
    return _hit_of(rank, sheet, (int(rows[0][1]), int(rows[-1][2])), text, places, statement)


def _hit_of(
    rank: int,
    sheet: Sheet,
    span: tuple[int, int],
    text: str,
    places: tuple[str, str],
    statement: str,
) -> Hit:
    rows, cells = places
    title = sheet.title or sheet.source
    metadata: dict[str, MetaValue] = {
        "sheet": sheet.sheet,
        "rows": rows,
        "cells": cells,
        "statement": statement,
    }
    where = f"sheet {sheet.sheet}, " if sheet.page is not None else ""
    rows_named = f"row {rows}" if rows.isdigit() else f"rows {rows}"
    return Hit(
        rank=rank,
        score=1.0,
        document_id=sheet.document,
        chunk_id=f"{sheet.name}:{text_hash(statement + rows)[:12]}",
        source=sheet.source,
        title=f"{title}, {where}{rows_named}",
        page=sheet.page,
        start=span[0],
        end=span[1],
        text=text,
        metadata=metadata,
    )
