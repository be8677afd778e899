"""Stored texts as rows: a uniform random sample, with feedback."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ..core import ConfigError, MetaValue, Row, StoreError, csv_lines, replacing, require
from ..testsets import Testset, row_record
from ._records import Output, OutputQuery, describe_request
from ._store import Outputs


@dataclass(frozen=True, slots=True)
class OutputSample:
    """The stored texts to measure.

    Attributes:
        query: Query of the texts; its ``kind`` is ignored. It must have one scope: judgments are
            not shared between tenants.
        count: Size of the sample; all if None.
        seed: Seed of the draw.
    """

    query: OutputQuery = field(default_factory=OutputQuery)
    count: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SampledOutputs:
    """A uniform sample without replacement from the texts of a query.

    Attributes:
        rows: One per text, in the order of storage.
        total: Number of texts sampled from.
        sampling: Settings of the sampling.
        configurations: Hash of settings -> number of rows made under it.
    """

    rows: tuple[Row, ...]
    total: int
    sampling: OutputSample
    configurations: Mapping[str, int]

    @property
    def manifest(self) -> dict[str, Any]:
        """The sampling, for a run's manifest."""
        sampling = self.sampling
        return {
            "sample": {
                "n": len(self.rows),
                "of": self.total,
                "seed": sampling.seed,
                "drawn": "uniformly, without replacement",
                "window": sampling.query.described(),
            },
            "configurations": dict(self.configurations),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the sample."""
        notes = [
            f"{len(self.rows)} of {self.total} stored texts, drawn uniformly without replacement "
            f"(seed {self.sampling.seed})"
        ]
        if len(self.configurations) > 1:
            notes.append(
                f"they were made under {len(self.configurations)} configurations: "
                "--by configuration shows each separately"
            )
        return tuple(notes)

    @property
    def testset(self) -> Testset:
        """The rows, named after the sampling."""
        return Testset(f"outputs: {len(self.rows)} of {self.total}", self.rows, self.notes)


def sample_outputs(outputs: Outputs, sampling: OutputSample) -> SampledOutputs:
    """Draw texts as rows.

    A row's id consists of the hash of the request and the number of the text: equal requests have
    equal ids, so that two configurations can be compared row by row.

    Raises:
        StoreError: No stored text matches the query.
        ConfigError: Fewer than one text is requested, or texts of all scopes.
    """
    if sampling.count is not None and sampling.count < 1:
        raise ConfigError(f"a sample of {sampling.count} texts", hint="ask for 1 or more")
    if sampling.query.scope is None:
        raise ConfigError(
            "a sample of all scopes at once",
            where="--every-scope",
            hint="measure the texts of one tenant: --scope TENANT; by default those without a "
            "tenant",
        )
    query = replace(sampling.query, kind="text")
    keys = outputs.keys(query)
    if not keys:
        raise StoreError(
            "no stored text matches",
            where=", ".join(f"{k} {v}" for k, v in query.described().items()),
            hint="draft some with `ragwright draft`, or change the query; `ragwright outputs list`",
        )
    names: list[tuple[str, str]] = []
    numbers, configurations = Counter[str](), Counter[str]()
    for output, request in keys:
        numbers[request] += 1
        names.append((output, f"{request[:12]}.{numbers[request]}"))
    count = len(names) if sampling.count is None else min(sampling.count, len(names))
    places = sorted(random.Random(sampling.seed).sample(range(len(names)), count))  # noqa: S311
    rows = []
    for output, name in (names[place] for place in places):
        stored = outputs.get(output)
        configurations[stored.configuration] += 1
        rows.append(output_row(outputs, stored, name))
    return SampledOutputs(
        tuple(rows),
        len(names),
        replace(sampling, query=query),
        dict(sorted(configurations.items())),
    )


def output_row(outputs: Outputs, output: Output, name: str = "") -> Row:
    """Return a stored text as a row in ragas' names, with feedback as columns.

    ``accepted`` is 1 or 0 if it was accepted or rejected, ``feedback_score`` the score given,
    ``feedback_note`` the comment. ``abstained`` marks a served answer that declined to answer.
    """
    hits = outputs.used(output.id)
    metadata: dict[str, MetaValue] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in output.request.items()
        if isinstance(value, str | int | float | bool)
        or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    }
    metadata |= {
        "output": output.id,
        "batch": output.batch,
        "at": output.at,
        "model": output.model,
        "marks": output.marks,
        "characters": len(output.text),
        "configuration": output.configuration,
        "feedback": output.verdict,
    }
    abstained = output.details.get("abstained")
    optional: dict[str, MetaValue | None] = {
        "served": output.served,
        "accepted": int(output.verdict == "accepted") if output.verdict else None,
        "feedback_score": output.score,
        "feedback_note": output.note or None,
        "abstained": abstained if isinstance(abstained, bool) else None,
    }
    metadata |= {name: value for name, value in optional.items() if value is not None}
    return Row(
        name or output.id,
        describe_request(output.request),
        response=output.text,
        retrieved_contexts=tuple(hit.text for hit in hits),
        retrieved_context_ids=tuple(hit.document_id for hit in hits),
        persona_name=str(output.request.get("persona") or ""),
        metadata=metadata,
    )


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
    form = next((end for end in _LINES if path.name.lower().endswith(end)), _PARQUET)
    if not path.name.lower().endswith(form):
        raise ConfigError(
            f"unknown ending {path.suffix!r}",
            where=f"-o {path}",
            hint=f"use {', '.join((*_LINES, _PARQUET))}",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Texts of one tenant must stay private.
        with replacing(path, private=True) as file:
            if form == _PARQUET:
                return _write_parquet(outputs, query, file)
            lines = _LINES[form](outputs, query)
            count = sum(bool(file.write(line.encode())) for line in lines)
            return count - (form == ".csv")  # less its header
    except OSError as error:
        raise StoreError(
            f"the file cannot be written: {error.strerror or error}", where=str(path)
        ) from error


def _chat_lines(outputs: Outputs, query: OutputQuery) -> Iterator[str]:
    """Yield accepted texts as chats for fine-tuning, one JSON object each.

    The system turn is that of the prompt, the user's turn is the request for the text in the
    prompt, the reply the accepted text.
    """
    batch, request = 0, ""
    for output in outputs.find(replace(query, kind="text", verdict="accepted")):
        if output.batch != batch:
            batch = output.batch
            request = str(outputs.batch(batch).details.get("query", ""))
        first = json.loads(outputs.get(output.prompt).text)[:1] if output.prompt else []
        turns = [turn for turn in first if turn["role"] == "system"]
        turns.append({"role": "user", "content": request or describe_request(output.request)})
        turns.append({"role": "assistant", "content": output.text})
        yield f"{json.dumps({'messages': turns}, ensure_ascii=False)}\n"


def _row_lines(outputs: Outputs, query: OutputQuery) -> Iterator[str]:
    for text in outputs.find(replace(query, kind="text")):
        row = row_record(output_row(outputs, text))
        yield f"{json.dumps(row, ensure_ascii=False, default=list)}\n"


def _csv_lines(outputs: Outputs, query: OutputQuery) -> Iterator[str]:
    rows = ([row.get(name) for name in _COLUMNS] for row in map(_cells_of, outputs.find(query)))
    return csv_lines(chain([list(_COLUMNS)], rows), end="\r\n")


_LINES: Mapping[str, Callable[[Outputs, OutputQuery], Iterator[str]]] = {
    ".chat.jsonl": _chat_lines,
    ".jsonl": _row_lines,
    ".csv": _csv_lines,
}
"""Forms of lines by the end of a file's name."""

_PARQUET = ".parquet"


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
    usage = output.usage
    cells = {name: getattr(output, name) for name in _COLUMNS if hasattr(output, name)}
    return cells | {
        "marks": json.dumps(output.marks, ensure_ascii=False),
        "request": json.dumps(output.request, ensure_ascii=False),
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
        "seconds": usage.seconds,
    }
