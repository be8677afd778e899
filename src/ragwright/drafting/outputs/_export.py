"""Exports of stored outputs: rows, tables, chats for fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ...core import ConfigError, StoreError, csv_lines, replacing, require
from ...testsets import row_record
from ._records import Output, OutputQuery, describe_request, turns_of
from ._sampling import output_row
from ._store import Outputs

_COLUMNS: dict[str, str] = {
    "id": "string",
    "batch": "int64",
    "at": "string",
    "kind": "string",
    "source": "string",
    "model": "string",
    "text": "string",
    "prompt": "string",
    "marks": "string",
    "client": "string",
    "request": "string",
    "configuration": "string",
    "served": "int64",
    "scope": "string",
    "verdict": "string",
    "score": "float64",
    "note": "string",
    "calls": "int64",
    "prompt_tokens": "int64",
    "completion_tokens": "int64",
    "cost": "float64",
    "seconds": "float64",
    "share_cost": "float64",
    "reply_cost": "float64",
}
"""Column of a table -> its Arrow type; lists and mappings are JSON."""

_GROUP = 5_000


def export_outputs(outputs: Outputs, query: OutputQuery, path: Path) -> int:
    """Write outputs to a file, a few in memory at a time; return their number.

    The suffix decides the form: ``.jsonl`` holds rows in ragas' names, of texts only; ``.csv`` and
    ``.parquet`` hold one line per output, by default also prompts; ``.chat.jsonl`` holds accepted
    texts as chats for fine-tuning. The file gets its name only when it is complete.

    Raises:
        ConfigError: No such suffix.
        StoreError: The file cannot be written; an existing one is unchanged.
    """
    forms: dict[str, Callable[[Outputs, OutputQuery, BinaryIO], int]] = {
        ".chat.jsonl": _write_chats,
        ".jsonl": _write_rows,
        ".csv": _write_csv,
        ".parquet": _write_parquet,
    }
    write = next((form for end, form in forms.items() if path.name.lower().endswith(end)), None)
    if write is None:
        raise ConfigError(
            f"unknown suffix of {path.name!r}",
            where=str(path),
            hint=f"use one of: {', '.join(forms)}",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Texts of one tenant must stay private.
        with replacing(path, private=True) as file:
            return write(outputs, query, file)
    except OSError as error:
        raise StoreError(
            f"the file cannot be written: {error.strerror or error}", where=str(path)
        ) from error


def export_accepted_chats(outputs: Outputs, query: OutputQuery) -> Iterator[str]:
    """Return accepted texts as chats for fine-tuning, one JSON object each.

    The system turn is that of the prompt, the user's turn is the request for the text in the
    prompt, the reply the accepted text.
    """
    batch, request = 0, ""
    for output in outputs.find(replace(query, kind="text", verdict="accepted")):
        if output.batch != batch:
            batch = output.batch
            request = str(outputs.batch(batch).details.get("query", ""))
        first = turns_of(outputs.get(output.prompt))[:1] if output.prompt else []
        turns = [turn for turn in first if turn["role"] == "system"]
        turns.append({"role": "user", "content": request or describe_request(output.request)})
        turns.append({"role": "assistant", "content": output.text})
        yield json.dumps({"messages": turns}, ensure_ascii=False)


def _write_chats(outputs: Outputs, query: OutputQuery, file: BinaryIO) -> int:
    return _write_lines(export_accepted_chats(outputs, query), file)


def _write_rows(outputs: Outputs, query: OutputQuery, file: BinaryIO) -> int:
    texts = outputs.find(replace(query, kind="text"))
    records = (row_record(output_row(outputs, output)) for output in texts)
    return _write_lines(
        (json.dumps(record, ensure_ascii=False, default=list) for record in records), file
    )


def _write_lines(lines: Iterable[str], file: BinaryIO) -> int:
    count = 0
    for line in lines:
        file.write(f"{line}\n".encode())
        count += 1
    return count


def _write_csv(outputs: Outputs, query: OutputQuery, file: BinaryIO) -> int:
    rows = (_cells_of(output) for output in outputs.find(query))
    lines = ([row.get(name) for name in _COLUMNS] for row in rows)
    count = -1  # the header
    for line in csv_lines(chain([list(_COLUMNS)], lines), end="\r\n"):
        file.write(line.encode())
        count += 1
    return count


def _write_parquet(outputs: Outputs, query: OutputQuery, file: BinaryIO) -> int:
    arrow = require("pyarrow", "records", "exporting to Parquet")
    parquet = require("pyarrow.parquet", "records", "exporting to Parquet")
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in _COLUMNS.items()])
    matching, count = outputs.find(query), 0
    with parquet.ParquetWriter(file, schema) as writer:
        while group := [_cells_of(output) for output in islice(matching, _GROUP)]:
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _cells_of(output: Output) -> dict[str, Any]:
    """Return an output as the cells of a line."""
    usage, reply = output.usage, output.details.get("reply_usage") or {}
    cells = {name: getattr(output, name) for name in _COLUMNS if hasattr(output, name)}
    return cells | {
        "marks": json.dumps(output.marks, ensure_ascii=False),
        "request": json.dumps(output.request, ensure_ascii=False),
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
        "seconds": usage.seconds,
        "share_cost": None if output.share is None else output.share.cost,
        "reply_cost": reply.get("cost"),
    }
