"""Writes rows as JSONL, completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError, make_plain, replace_text


def row_record(row: Row) -> dict[str, Any]:
    """Return a row as one JSON object: the nonempty fields, under ragwright's names."""
    record = {field.name: getattr(row, field.name) for field in fields(Row)}
    record["reference_spans"] = [asdict(span) for span in row.reference_spans]
    record["retrieved_spans"] = [asdict(span) for span in row.retrieved_spans]
    record["history"] = [asdict(turn) for turn in row.history]
    record["metadata"] = dict(row.metadata)
    record["reference_ids"] = dict(row.reference_ids)
    nonempty = {
        name: value for name, value in record.items() if value not in (None, "", (), [], {})
    }
    if row.response is not None:
        nonempty["response"] = row.response  # an empty answer is an answer
    return {"id": row.id, "user_input": row.user_input, **nonempty}


def make_plain_row(row: Row) -> dict[str, Any]:
    """Return a row as plain values, for hashes and the run store.

    A row without history lacks the field.
    """
    values: dict[str, Any] = make_plain(row)
    if not values["history"]:
        del values["history"]
    return values


def write_rows(rows: Iterable[Row], path: str | Path) -> None:
    """Write rows as JSONL, completely or not at all.

    Raises:
        TestsetError: The file cannot be written; the old file is unchanged.
    """
    target = Path(path)
    lines = [json.dumps(row_record(row), ensure_ascii=False, default=list) for row in rows]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_text(target, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise TestsetError(
            f"the testset cannot be written: {error.strerror}", where=str(target)
        ) from error
