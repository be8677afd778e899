"""Rust's regular expressions over Arrow arrays; they let go of the interpreter's lock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._daft import daft_module
from .._seams import ArrowTable
from ._rust import Ranges, class_of, difference, every_character, ranges_of, shared, word_characters


def found_in(texts: ArrowTable, patterns: Sequence[str]) -> NDArray[np.bool_]:
    """Which patterns are found in which texts: shape (rows, patterns); never in a null."""
    found = np.zeros((len(texts), len(patterns)), np.bool_)
    if not len(texts) or not patterns:
        return found
    functions = require("daft.functions", "records", "searching records")
    text = daft_module().col("text")
    told = [functions.regexp(text, p).alias(str(at)) for at, p in enumerate(patterns)]
    columns = _evaluated(texts, told)
    for at, column in enumerate(columns):
        found[:, at] = np.asarray(column.fill_null(False))
    return found


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
    """Why Rust's engine refuses a pattern; None where it does not."""
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
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks else pa.array([], column.type)
    return found


def as_texts(column: ArrowTable, name: str, place: str) -> ArrowTable:
    """A column as one array of large strings.

    Args:
        column: Of texts, numbers, dates or bytes that are UTF-8.
        name: What it is called, for messages.
        place: Where it is named, for messages.

    Raises:
        RecordsError: It holds lists, records, or bytes that are no text.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    try:
        return compute.cast(whole(column), pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordsError(
            f"the column {name!r} holds no text but {column.type}",
            where=place,
            hint="name another column, or make texts of it in the source",
        ) from error


def disputed_words(texts: ArrowTable) -> NDArray[np.bool_]:
    """Which texts hold a character that only one of the engines takes for part of a word."""
    compute = require("pyarrow.compute", "records", "searching records")
    found = np.zeros(len(texts), np.bool_)
    plain = compute.fill_null(compute.string_is_ascii(texts), True)
    rows = np.nonzero(~np.asarray(plain))[0]
    if len(rows):
        found[rows] = found_in(texts.take(rows), [_disputed()])[:, 0]
    return found


def undisputed(texts: ArrowTable) -> ArrowTable:
    """Texts in which every disputed character is another one that is not.

    One that only Rust's engine takes for part of a word becomes one that neither does; one that
    only Python takes for it becomes a letter. A pattern that tells none of them apart is found
    in these texts exactly where Python finds it in the real ones.
    """
    return rewritten(texts, [(class_of(group), stand_in) for group, stand_in in _stand_ins()])


@lru_cache(maxsize=4096)
def tells_apart(classes: frozenset[Ranges]) -> bool:
    """Whether a pattern with these classes tells a disputed character from its stand-in."""
    for group, stand_in in _stand_ins():
        alike = (*group, (ord(stand_in), ord(stand_in)))
        for characters in classes:
            several = sum(_count(shared((span,), characters)) for span in alike)
            if several not in (0, _count(alike)):
                return True
    return False


def _count(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


@cache
def _stand_ins() -> tuple[tuple[Ranges, str], ...]:
    """Words to Rust alone, and to Python alone, with a stand-in for each."""
    disputed = difference(word_characters(), _words_of_rust())
    return (
        (shared(disputed, _words_of_rust()), "\ufffc"),
        (shared(disputed, word_characters()), "\ua000"),
    )


@cache
def _disputed() -> str:
    return class_of(difference(word_characters(), _words_of_rust()))


@cache
def _words_of_rust() -> Ranges:
    """Asked of the engine itself: its version of Unicode need not be Python's."""
    pa = require("pyarrow", "records", "searching records")
    every = pa.array([every_character()], pa.large_string())
    return ranges_of(rewritten(every, [(r"\W+", "")])[0].as_py())


def _evaluated(texts: ArrowTable, expressions: list[Any]) -> list[ArrowTable]:
    pa = require("pyarrow", "records", "searching records")
    record_batch = require("daft.recordbatch", "records", "searching records").RecordBatch
    batch = record_batch.from_arrow_table(pa.table({"text": texts}))
    made = batch.eval_expression_list(expressions).to_arrow_table()
    return [whole(column) for column in made.columns]
