"""From silver to gold: contradictions out, fields refined, texts assembled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require, suggest_name
from .._columns import cast_texts, join_chunks
from .._patterns import match_rows
from .._seams import HASH, KEY, REASON, TAG_KINDS, TAGS, TEXT, ArrowTable, Step
from ..declared import Condition, Rollups, Rules, Tags, TextFormat
from ._hashes import row_hashes
from ._silver import join_lists, tag_lists, tag_matrix


@dataclass(frozen=True, slots=True)
class GoldStep(Step):
    """Makes records of tagged rows, and the text of each.

    Args:
        keep: Columns of silver that records carry.
    """

    tags: Tags
    rollups: Rollups
    rules: Rules
    format: TextFormat
    keep: tuple[str, ...] = ()
    name = "gold"

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
        pa = require("pyarrow", "records", "making records")
        compute = require("pyarrow.compute", "records", "making records")
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
                fields[name] = join_chunks(_column(batch, name, "source.yaml: keep"))
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
        pa = require("pyarrow", "records", "making records")
        column = self.rollups.column or "client"
        if not self.rollups.column and column not in batch.column_names:
            return pa.nulls(batch.num_rows, pa.string())
        place = self.rollups.column_place
        coded = cast_texts(_column(batch, column, place), column, place).dictionary_encode()
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
        pa = require("pyarrow", "records", "making records")
        names = self.tags.names
        which = np.zeros(len(carried), np.int64)
        for at, rule in reversed(list(enumerate(self.rules.contradictions, 1))):
            which[carried[:, [names.index(tag) for tag in rule.tags]].all(axis=1)] = at
        reasons = [f"contradiction: {rule.name}" for rule in self.rules.contradictions]
        return pa.array([None, *reasons], pa.string()).take(pa.array(which))

    def _refine(self, batch: ArrowTable, fields: dict[str, Any]) -> None:
        """Set fields by the rules, in order; conditions see what rules before have set."""
        pa = require("pyarrow", "records", "making records")
        compute = require("pyarrow.compute", "records", "making records")
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
        pa = require("pyarrow", "records", "making records")
        compute = require("pyarrow.compute", "records", "making records")
        if condition.pattern is None:
            if condition.field in TAG_KINDS:
                carried = tag_matrix(fields[condition.field], condition.values)
                return np.asarray(carried.any(axis=1), np.bool_)
            wanted = pa.array(list(condition.values), pa.string())
            return np.asarray(compute.is_in(fields[condition.field], wanted), np.bool_)
        column = _column(batch, condition.field, condition.place)
        texts = compute.fill_null(cast_texts(column, condition.field, condition.place), "")
        seconds = self.rules.pattern_seconds
        hits = match_rows(texts, batch.column(KEY), [condition.pattern], seconds)
        return np.asarray(hits[:, 0], np.bool_)


def _column(batch: ArrowTable, name: str, place: str) -> ArrowTable:
    if name not in batch.column_names:
        raise RecordsError(
            f"the rows have no column {name!r}",
            where=place,
            hint=suggest_name(name, batch.column_names),
        )
    return batch.column(name)
