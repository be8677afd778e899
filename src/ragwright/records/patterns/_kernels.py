"""Rust's regular expressions over Arrow arrays; they release the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._daft import daft_module
from .._seams import ArrowTable


def found_in(texts: ArrowTable, patterns: Sequence[str]) -> NDArray[np.bool_]:
    """Search texts for patterns: a mask of the hits, shape (rows, patterns); False for a null."""
    hits = np.zeros((len(texts), len(patterns)), np.bool_)
    if not len(texts) or not patterns:
        return hits
    functions = require("daft.functions", "records", "searching records")
    text = daft_module().col("text")
    searches = [functions.regexp(text, p).alias(str(at)) for at, p in enumerate(patterns)]
    columns = _evaluated(texts, searches)
    for at, column in enumerate(columns):
        hits[:, at] = np.asarray(column.fill_null(False))
    return hits


def rewritten(texts: ArrowTable, steps: Sequence[tuple[str, str]]) -> ArrowTable:
    """Texts after replacements in order: an Arrow array of large strings.

    Args:
        texts: Large strings; nulls stay.
        steps: Pattern and replacement, both as Rust's engine writes them.
    """
    if not len(texts) or not steps:
        return texts
    functions = require("daft.functions", "records", "cleaning records")
    daft = daft_module()
    text = daft.col("text")
    for find, replace in steps:
        text = functions.regexp_replace(text, find, daft.lit(replace))
    return whole(_evaluated(texts, [text])[0])


def refusal(pattern: str) -> str | None:
    """Return the reason why Rust's engine refuses a pattern; None if it accepts it."""
    daft_module()
    exceptions = require("daft.exceptions", "records", "reading patterns")
    pa = require("pyarrow", "records", "reading patterns")
    try:
        found_in(pa.array([""], pa.large_string()), [pattern])
    except (exceptions.DaftCoreException, UnicodeEncodeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ") if lines else "it is refused"
    return None


def whole(column: ArrowTable) -> ArrowTable:
    """A column as one array."""
    pa = require("pyarrow", "records", "reading records")
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def as_texts(column: ArrowTable, name: str, place: str) -> ArrowTable:
    """A column as one array of large strings.

    Args:
        column: Of texts, numbers, dates or bytes that are UTF-8.
        name: What it is called, for messages.
        place: Where it is named, for messages.

    Raises:
        RecordsError: It holds lists, records, or bytes that are not text.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    try:
        return compute.cast(whole(column), pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordsError(
            f"the column {name!r} is not text but {column.type}",
            where=place,
            hint="use another column, or convert it to text in the source",
        ) from error


def _evaluated(texts: ArrowTable, expressions: list[Any]) -> list[ArrowTable]:
    pa = require("pyarrow", "records", "searching records")
    record_batch = require("daft.recordbatch", "records", "searching records").RecordBatch
    batch = record_batch.from_arrow_table(pa.table({"text": texts}))
    evaluated = batch.eval_expression_list(expressions).to_arrow_table()
    return [whole(column) for column in evaluated.columns]
