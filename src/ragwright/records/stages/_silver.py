"""From bronze to silver: texts cleaned and tagged."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, suggest_name
from .._patterns import Replace, match_rows, replace_matches
from .._seams import (
    HASH,
    KEY,
    REASON,
    TAG_KINDS,
    TAGS,
    TEXT,
    TEXT_HASH,
    ArrowTable,
    cast_texts,
    compute,
    join_chunks,
    pa,
)
from ..declared import Cleaning, Condition, Rollups, Rules, Tag, Tags, TextFormat
from ._hashes import row_hashes

Texts: TypeAlias = list[str | None]

_NAMED: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "unescape_html": html.unescape,
    "normalise_unicode": partial(unicodedata.normalize, "NFKC"),
    "control_characters": partial(
        re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]").sub, ""
    ),
    "squeeze_spaces": partial(re.compile(r"\s+").sub, " "),
}


def clean_each(texts: ArrowTable, keys: ArrowTable, cleaning: Cleaning) -> Iterator[Texts]:
    """The texts without the character NUL, then after each step.

    A model, a terminal and a database each end a text at NUL, or refuse it.

    Args:
        texts: Arrow array of large strings; nulls stay.
        keys: Key of each row, for messages.
        cleaning: The steps.

    Raises:
        PatternError: A pattern took too long on a row; the row is named.
    """
    values = compute.replace_substring(texts, "\x00", "").to_pylist()
    yield values
    for step in cleaning.steps:
        if isinstance(step, Replace):
            values = replace_matches(values, keys, step, cleaning.pattern_seconds)
        else:
            values = [None if value is None else _NAMED[step](value) for value in values]
        yield values


_JOINT = "\x1f"


@dataclass(frozen=True, slots=True)
class SilverStep:
    """Cleans the text column and finds the tags; all other columns pass as they are."""

    cleaning: Cleaning
    tags: Tags
    text_column: str

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
        values = clean_each(text_column(batch, self.text_column), batch[KEY], self.cleaning)
        [cleaned] = deque(values, maxlen=1)
        texts = pa.array(cleaned, pa.large_string())
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
class RetagStep:
    """Finds the tags that changed over the clean texts of silver, and drops those removed.

    Its rows are those that :class:`SilverStep` would make afresh.
    """

    tags: Tags
    changed: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that tags are found in."""
        return self.tags.columns

    def __call__(self, batch: ArrowTable) -> ArrowTable:
        """Silver rows with other tags.

        Raises:
            PatternError: A pattern took too long on a row; the row is named.
        """
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
    ends = np.cumsum(carried.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    which = pa.array(np.nonzero(carried)[1].astype(np.int32))
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(list(names), pa.string()).take(which)
    )


def tag_matrix(lists: ArrowTable, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return the mask of the names of each row, shape (rows, names); other names are ignored."""
    lists = join_chunks(lists)
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
        texts, keys, parents = _searched(rows, column, tags[at[0]].pattern.where)
        hits = match_rows(texts, keys, patterns, seconds)
        if parents is None:
            carried[:, at] = hits
            continue
        items, which = np.nonzero(hits)
        carried[parents[items], np.asarray(at)[which]] = True
    return carried


def _searched(rows: ArrowTable, column: str, place: str) -> tuple[Any, Any, Any]:
    """Texts of a column, the key of each, and of the items of lists the rows."""
    types = pa.types
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


def text_column(batch: ArrowTable, name: str) -> ArrowTable:
    """The text column as one array of large strings."""
    place = "source.yaml: text"
    return cast_texts(find_column(batch, name, place), name, place)


def _reasons(texts: ArrowTable, limit: int) -> list[str | None]:
    """Return the reason why each text goes no further, None where it does."""
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


@dataclass(frozen=True, slots=True)
class GoldStep:
    """Makes records of tagged rows, and the text of each."""

    tags: Tags
    rollups: Rollups
    rules: Rules
    format: TextFormat
    keep: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are kept, that names the client, and that conditions look at."""
        conditions = (c for rule in self.rules.refinements for c in rule.conditions)
        looked_at = (c.field for c in conditions if c.pattern is not None)
        named = (*self.keep, self.rollups.column, *looked_at)
        return tuple(dict.fromkeys(name for name in named if name))

    def __call__(self, batch: ArrowTable) -> ArrowTable:
        """Gold rows; rows whose tags contradict each other have a reason.

        Raises:
            RecordsError: A column that the declarations name is not there.
            PatternError: A pattern took too long on a row; the row is named.
        """
        carried = tag_matrix(batch.column(TAGS), self.tags.names)
        fields: dict[str, Any] = {"client": self._clients(batch)}
        for kind in TAG_KINDS:
            fields[kind] = self._displays(carried, kind)
        lengths = np.asarray(compute.utf8_length(batch.column(TEXT)))
        fields["length"] = pa.array(self.rules.lengths_of(lengths), pa.string())
        self._refine(batch, fields)
        fields[TEXT] = join_chunks(batch.column(TEXT))
        for name in self.keep:
            if name not in fields:
                fields[name] = join_chunks(find_column(batch, name, "source.yaml: keep"))
        records = pa.table(fields)
        document, at = self.format.fill_batch(records)
        records = records.append_column("document", document).append_column("message_at", at)
        plain = records
        for kind in TAG_KINDS:
            plain = plain.set_column(
                plain.column_names.index(kind), kind, join_lists(records[kind])
            )
        records = records.append_column(HASH, row_hashes(plain, plain.column_names))
        records = records.append_column(REASON, self._against(carried))
        return records.add_column(0, KEY, batch.column(KEY))

    def _clients(self, batch: ArrowTable) -> ArrowTable:
        column = self.rollups.column or "client"
        if not self.rollups.column and column not in batch.column_names:
            return pa.nulls(batch.num_rows, pa.string())
        place = self.rollups.column_place
        coded = cast_texts(find_column(batch, column, place), column, place).dictionary_encode()
        names = [self.rollups.canonical(name) for name in coded.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(coded.indices)

    def _displays(self, carried: NDArray[np.bool_], kind: Any) -> ArrowTable:
        names = self.tags.displays(kind)
        shown_tags = np.zeros((len(carried), len(names)), np.bool_)
        for at, tag in enumerate(self.tags.tags):
            if tag.kind == kind:
                shown_tags[:, names.index(tag.display)] |= carried[:, at]
        return tag_lists(shown_tags, names)

    def _against(self, carried: NDArray[np.bool_]) -> ArrowTable:
        names = self.tags.names
        which = np.zeros(len(carried), np.int64)
        for at, rule in reversed(list(enumerate(self.rules.contradictions, 1))):
            which[carried[:, [names.index(tag) for tag in rule.tags]].all(axis=1)] = at
        reasons = [f"contradiction: {rule.name}" for rule in self.rules.contradictions]
        return pa.array([None, *reasons], pa.string()).take(pa.array(which))

    def _refine(self, batch: ArrowTable, fields: dict[str, Any]) -> None:
        """Set fields by the rules, in order; conditions see what rules before have set."""
        for name in self.rules.fields:
            fields[name] = pa.nulls(batch.num_rows, pa.string())
        done: dict[str, NDArray[np.bool_]] = {}
        for rule in self.rules.refinements:
            holds: NDArray[np.bool_] = np.ones(batch.num_rows, np.bool_)
            for condition in rule.conditions:
                holds &= self._holds(batch, fields, condition)
            for name, values in rule.values:
                before = done.setdefault(name, np.zeros(batch.num_rows, np.bool_))
                now = holds & ~before
                before |= holds
                if not now.any():
                    continue
                if name in TAG_KINDS:
                    new_list = pa.array([list(values)], pa.list_(pa.string()))
                    both = pa.concat_arrays([fields[name], new_list])
                    rows = np.where(now, len(now), np.arange(len(now)))
                    fields[name] = both.take(pa.array(rows))
                else:
                    value = values[0] if values else None
                    fields[name] = compute.if_else(
                        pa.array(now), pa.scalar(value, pa.string()), fields[name]
                    )

    def _holds(
        self, batch: ArrowTable, fields: Mapping[str, Any], condition: Condition
    ) -> NDArray[np.bool_]:
        if condition.pattern is None:
            if condition.field in TAG_KINDS:
                carried = tag_matrix(fields[condition.field], condition.values)
                return np.asarray(carried.any(axis=1), np.bool_)
            wanted = pa.array(list(condition.values), pa.string())
            return np.asarray(compute.is_in(fields[condition.field], wanted), np.bool_)
        name, where = condition.field, condition.pattern.where
        texts = compute.fill_null(cast_texts(find_column(batch, name, where), name, where), "")
        seconds = self.rules.pattern_seconds
        hits = match_rows(texts, batch.column(KEY), [condition.pattern], seconds)
        return np.asarray(hits[:, 0], np.bool_)


def find_column(batch: ArrowTable, name: str, place: str) -> ArrowTable:
    """A column of a batch; raises RecordsError if it lacks it."""
    if name not in batch.column_names:
        raise RecordsError(
            f"the rows have no column {name!r}",
            where=place,
            hint=suggest_name(name, batch.column_names),
        )
    return batch.column(name)
