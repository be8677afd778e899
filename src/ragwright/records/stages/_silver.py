"""From bronze to silver: texts cleaned and tagged."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require, suggest_name
from .._columns import cast_texts, join_chunks
from .._patterns import Replace, match_rows, replace_matches
from .._seams import HASH, KEY, REASON, TAGS, TEXT, TEXT_HASH, ArrowTable, Step
from ..declared import Cleaning, MaxRepeat, NamedStep, Tag, Tags
from ._hashes import row_hashes

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")

_NAMED: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "unescape_html": html.unescape,
    "normalise_unicode": partial(unicodedata.normalize, "NFKC"),
    "control_characters": partial(
        re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]").sub, ""
    ),
    "squeeze_spaces": partial(re.compile(r"\s+").sub, " "),
}


def clean_texts(texts: ArrowTable, keys: ArrowTable, cleaning: Cleaning) -> ArrowTable:
    """The texts after every step, and without NUL, which no step need ask for.

    A model, a terminal and a database each end a text at it, or refuse it.

    Args:
        texts: Arrow array of large strings; nulls stay.
        keys: Key of each row, for messages.
        cleaning: The steps.

    Raises:
        PatternError: A pattern took too long on a row; the row is named.
    """
    pa = require("pyarrow", "records", "cleaning records")
    values = drop_nul(texts).to_pylist()
    for step in cleaning.steps:
        if isinstance(step, Replace):
            values = replace_matches(values, keys, step, cleaning.pattern_seconds)
            continue
        change = _NAMED[step.name] if isinstance(step, NamedStep) else _shortening(step)
        values = [None if value is None else change(value) for value in values]
    return drop_nul(pa.array(values, pa.large_string()))


def drop_nul(texts: ArrowTable) -> ArrowTable:
    """Texts without the character U+0000."""
    compute = require("pyarrow.compute", "records", "cleaning records")
    return compute.replace_substring(texts, "\x00", "")


def limit_repeats(text: str, times: int, *, digits: bool = True) -> str:
    """A text in which no character (or none but digits) stands more than so many times in a row."""
    each = "(.)" if digits else r"(\D)"
    return re.sub(rf"{each}\1{{{times},}}", r"\1" * times, text, flags=re.DOTALL)


def _shortening(step: MaxRepeat) -> Callable[[str], str]:
    return partial(limit_repeats, times=step.times, digits=step.digits)


_JOINT = "\x1f"


@dataclass(frozen=True, slots=True)
class SilverStep(Step):
    """Cleans the text column and finds the tags; all other columns pass as they are."""

    cleaning: Cleaning
    tags: Tags
    text_column: str
    name = "silver"
    facts = (TEXT_HASH,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of the text, and those that tags are found in."""
        return (self.text_column, *self.tags.columns)

    def __call__(self, batch: ArrowTable) -> ArrowTable:
        """Silver rows; rows without text, with nothing left of it or too much have a reason.

        Raises:
            RecordsError: The batch lacks the text column.
            PatternError: A pattern took too long on a row; the row is named.
        """
        pa = require("pyarrow", "records", "cleaning records")
        keys = batch.column(KEY)
        texts = clean_texts(_text_column(batch, self.text_column), keys, self.cleaning)
        reasons = _reasons(texts, self.cleaning.max_characters)
        kept = pa.array([reason is None for reason in reasons], pa.bool_())
        carried = np.zeros((batch.num_rows, len(self.tags.tags)), np.bool_)
        passed = batch.drop_columns(
            [n for n in (self.text_column, HASH, REASON) if n in batch.column_names]
        )
        silver = passed.append_column(TEXT, pa.chunked_array([texts]))
        rows = silver.filter(kept)
        carried[np.asarray(kept)] = find_tags(self.tags.tags, rows, self.tags.pattern_seconds)
        silver = silver.append_column(TEXT_HASH, row_hashes(silver, [TEXT]))
        silver = silver.append_column(TAGS, tag_lists(carried, self.tags.names))
        return _finished(silver, pa.array(reasons, pa.string()))


@dataclass(frozen=True, slots=True)
class RetagStep(Step):
    """Finds the tags that changed over the clean texts of silver, and drops those removed.

    Its rows are those that :class:`SilverStep` would make afresh.
    """

    tags: Tags
    changed: tuple[str, ...]
    name = "retag"
    facts = (TEXT_HASH,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that tags are found in."""
        return self.tags.columns

    def __call__(self, batch: ArrowTable) -> ArrowTable:
        """Silver rows with other tags.

        Raises:
            PatternError: A pattern took too long on a row; the row is named.
        """
        pa = require("pyarrow", "records", "tagging records")
        held = tag_matrix(batch.column(TAGS), self.tags.names)
        at = [i for i, tag in enumerate(self.tags.tags) if tag.name in self.changed]
        again = [self.tags.tags[i] for i in at]
        held[:, at] = find_tags(again, batch, self.tags.pattern_seconds)
        silver = batch.drop_columns([TAGS, HASH])
        silver = silver.append_column(TAGS, tag_lists(held, self.tags.names))
        return _finished(silver, pa.nulls(batch.num_rows, pa.string()))


def tag_lists(carried: NDArray[np.bool_], names: tuple[str, ...]) -> ArrowTable:
    """Lists of names from a matrix, in the order of its columns: an Arrow array.

    Args:
        carried: Shape (rows, names).
        names: One per column.
    """
    pa = require("pyarrow", "records", "tagging records")
    ends = np.cumsum(carried.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    which = pa.array(np.nonzero(carried)[1].astype(np.int32))
    values = pa.array(list(names), pa.string()).take(which)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def tag_matrix(lists: ArrowTable, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return the mask of the names of each row, shape (rows, names); other names are ignored."""
    pa = require("pyarrow", "records", "tagging records")
    compute = require("pyarrow.compute", "records", "tagging records")
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    carried = np.zeros((len(lists), len(names)), np.bool_)
    if not len(lists) or not names:
        return carried
    parents = np.asarray(compute.list_parent_indices(lists))
    flat = compute.list_flatten(lists)
    which = compute.index_in(flat, pa.array(list(names), flat.type))
    known = np.asarray(compute.is_valid(which))
    at = np.asarray(compute.fill_null(which, 0))
    carried[parents[known], at[known]] = True
    return carried


def join_lists(lists: ArrowTable) -> ArrowTable:
    """Lists of texts as one text each, for hashing."""
    compute = require("pyarrow.compute", "records", "hashing records")
    return compute.binary_join(lists, _JOINT)


def _finished(silver: ArrowTable, reasons: ArrowTable) -> ArrowTable:
    names = [name for name in silver.column_names if name != KEY]
    plain = silver.set_column(
        silver.column_names.index(TAGS), TAGS, join_lists(silver.column(TAGS))
    )
    silver = silver.append_column(HASH, row_hashes(plain, names))
    return silver.append_column(REASON, reasons)


def find_tags(tags: Sequence[Tag], rows: ArrowTable, seconds: float) -> NDArray[np.bool_]:
    """Search rows for tags: a mask, shape (rows, tags).

    Of a column of lists, a pattern is searched in each item.

    Args:
        tags: Each is searched in its column, or in the clean text.
        rows: With ``record_key``, ``text`` and the columns.
        seconds: Most seconds of one pattern on one row if Python runs it.

    Raises:
        RecordsError: A column is missing, or holds neither texts nor lists of them.
        PatternError: A pattern took longer; it and the row are named.
    """
    carried = np.zeros((rows.num_rows, len(tags)), np.bool_)
    for column in dict.fromkeys(tag.column for tag in tags):
        at = [i for i, tag in enumerate(tags) if tag.column == column]
        patterns = [tags[i].pattern for i in at]
        texts, keys, parents = _searched(rows, column, tags[at[0]].where)
        hits = match_rows(texts, keys, patterns, seconds)
        if parents is None:
            carried[:, at] = hits
            continue
        items, which = np.nonzero(hits)
        carried[parents[items], np.asarray(at)[which]] = True
    return carried


def _searched(rows: ArrowTable, column: str, place: str) -> tuple[Any, Any, Any]:
    """Texts of a column, the key of each, and of the items of lists the rows."""
    types = require("pyarrow", "records", "tagging records").types
    compute = require("pyarrow.compute", "records", "tagging records")
    keys = rows.column(KEY)
    if not column:
        return join_chunks(rows.column(TEXT)), keys, None
    if column not in rows.column_names:
        raise RecordsError(
            f"the rows have no column {column!r}",
            where=place,
            hint=suggest_name(column, rows.column_names),
        )
    values = join_chunks(rows.column(column))
    if not (types.is_list(values.type) or types.is_large_list(values.type)):
        return cast_texts(values, column, place), keys, None
    parents = compute.list_parent_indices(values)
    texts = cast_texts(compute.list_flatten(values), column, place)
    return texts, join_chunks(keys).take(parents), np.asarray(parents)


def _text_column(batch: ArrowTable, name: str) -> ArrowTable:
    """The text column as one array of large strings."""
    for column, hint in ((name, None), *((n, "rename") for n in (TEXT, TEXT_HASH, TAGS))):
        there = column in batch.column_names
        if hint is None and not there:
            raise RecordsError(
                f"the rows have no column {name!r}",
                where="source.yaml: text",
                hint=suggest_name(name, batch.column_names),
            )
        if hint and there and column != name:
            raise RecordsError(
                f"the rows have a column {column!r}, which silver makes itself",
                where="source.yaml: rename",
                hint=f"write rename: {{{column}: source_{column}}}",
            )
    return cast_texts(batch.column(name), name, "source.yaml: text")


def _reasons(texts: ArrowTable, limit: int) -> list[str | None]:
    """Return the reason why each text goes no further, None where it does."""
    compute = require("pyarrow.compute", "records", "cleaning records")
    reasons: list[str | None] = []
    for length in compute.utf8_length(texts).to_pylist():
        if length is None:
            reasons.append("no text")
        elif not length:
            reasons.append("empty")
        elif length >= limit:
            reasons.append(f"too long: {length:,} characters (limit {limit:,})")
        else:
            reasons.append(None)
    return reasons
