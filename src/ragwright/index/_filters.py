"""Filters as masks of rows, and the order of documents under them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, list_names
from ._fields import ALWAYS, Rows, comparison_keys, find_in_range, spelling
from ._segment import Segment

Mask = NDArray[np.bool_]

_NEAR_AMONG = 5_000
"""Most values searched for similar ones: comparing more would take seconds."""


def mask_of(rows: Rows, size: int) -> Mask:
    """Rows as a mask of so many rows."""
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def field_counts(segments: Sequence[Segment], masks: Sequence[Mask]) -> dict[str, int]:
    """Fields of the rows under masks, and the number of rows with each."""
    counts: dict[str, int] = {}
    for segment, mask in zip(segments, masks, strict=True):
        for name, index in segment.fields.items():
            count = int(np.count_nonzero(mask_of(index.rows, segment.rows) & mask))
            if count:
                counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def filter_masks(
    segments: Sequence[Segment],
    live: Sequence[Mask],
    fields: Mapping[str, int],
    filters: Sequence[Filter],
) -> list[Mask]:
    """Live rows that meet every filter, one mask per segment.

    The values of a filter are looked up among the rows that the filters before it leave: hidden
    values count as unknown, or the error would reveal another tenant's chunks. Fields count as
    unknown that no row has which rights to read leave. If these leave no row, nothing is checked.
    Excluded values need not exist: if no row has them, the result is right.

    Raises:
        FilterError: A field that no chunk has, or values that none of those rows has.
    """
    masks = [mask.copy() for mask in live]
    if not any(mask.any() for mask in masks):
        return masks
    for condition in filters:
        positions = positions_of(segments, fields, condition)
        if needs_rows(condition) and not any_row_meets(positions, masks):
            rest = [other for other in filters if other is not condition]
            raise unknown_value(condition, segments, _allowed_masks(segments, live, rest))
        for mask, met in zip(masks, positions, strict=True):
            mask &= mask_of(met, len(mask))
        if condition.missing is not None:
            if not any(mask.any() for mask in masks):
                return masks
            fields = fields_under(condition, segments, masks)
    return masks


def fields_under(
    right: Filter, segments: Sequence[Segment], masks: Sequence[Mask]
) -> dict[str, int]:
    """Fields of the rows that a right to read leaves, without its own, which names other groups."""
    counts = field_counts(segments, masks)
    counts.pop(right.field, None)
    return counts


def needs_rows(condition: Filter) -> bool:
    """True if a condition that no row meets is an error: values are required, not excluded."""
    return bool(condition.values) and not condition.exclude and condition.missing is None


def any_row_meets(positions: Sequence[Rows], masks: Sequence[Mask]) -> bool:
    """True if a masked row is among the positions, or if no row is left.

    Args:
        positions: Rows that meet a condition, one array per segment.
        masks: Rows to check.
    """
    there = any(mask[rows].any() for rows, mask in zip(positions, masks, strict=True))
    return there or not any(mask.any() for mask in masks)


def positions_of(
    segments: Sequence[Segment], fields: Mapping[str, int], condition: Filter
) -> list[Rows]:
    """Rows that meet a condition, including dead ones; one array per segment.

    Args:
        segments: The segments.
        fields: Fields of live rows.
        condition: The condition.

    Raises:
        FilterError: A field that no chunk has.
    """
    is_known = condition.field in fields or condition.field in ALWAYS
    if not is_known and condition.missing is None:
        raise unknown_field(condition.field, fields)
    return [_matching_rows(segment, condition) for segment in segments]


def _matching_rows(segment: Segment, condition: Filter) -> Rows:
    rows = _holding_rows(segment, condition)
    if condition.missing:
        index = segment.fields.get(condition.field)
        return np.concatenate([rows, _other_rows(segment, rows if index is None else index.rows)])
    return _other_rows(segment, rows) if condition.exclude else rows


def _other_rows(segment: Segment, rows: Rows) -> Rows:
    return np.flatnonzero(~mask_of(rows, segment.rows)).astype(np.int32)


def _holding_rows(segment: Segment, condition: Filter) -> Rows:
    """Rows whose field holds a value, or one within the bounds."""
    index = segment.fields.get(condition.field)
    if index is None:
        return np.empty(0, np.int32)
    if condition.values:
        lists = [index.rows_with(value) for value in condition.values]
    elif condition.low is None and condition.high is None:
        return index.rows
    else:
        lists = [
            index.rows_at(at)
            for at in find_in_range(index.spellings(), condition.low, condition.high)
        ]
    if len(lists) == 1:
        return lists[0]
    return np.concatenate(lists) if lists else np.empty(0, np.int32)


def count_left_out(
    segments: Sequence[Segment], masks: Sequence[Mask], condition: Filter
) -> tuple[int, str]:
    """Count the documents among rows without a value that can be compared with the bounds.

    Returns:
        The count, and what their values lack: a number or a date; empty if nothing is compared.
    """
    count, kind = 0, ""
    for segment, mask in zip(segments, masks, strict=True):
        left = mask.copy()
        index = segment.fields.get(condition.field)
        if index is not None:
            keys, _, name = comparison_keys(index.spellings(), condition.low, condition.high)
            kind = kind if name == "text" else name
            for at in (at for at, key in enumerate(keys) if key is not None):
                left[index.rows_at(at)] = False
        owners = np.repeat(np.arange(len(segment.sizes)), segment.sizes)
        count += len(np.unique(owners[left]))
    return count, kind


def _allowed_masks(
    segments: Sequence[Segment], live: Sequence[Mask], filters: Sequence[Filter]
) -> list[Mask]:
    """Live rows that meet the filters, as far as their values exist."""
    masks = [mask.copy() for mask in live]
    for condition in filters:
        for mask, segment in zip(masks, segments, strict=True):
            mask &= mask_of(_matching_rows(segment, condition), len(mask))
    return masks


def unknown_field(name: str, known: Collection[str]) -> FilterError:
    """The error for a field that no chunk has, with the nearest known ones."""
    fields = sorted({*known, *ALWAYS})
    near = get_close_matches(name, fields, n=3, cutoff=0.5)
    return FilterError(
        f"no chunk has the field {name!r}",
        hint=f"did you mean {', '.join(near)}?" if near else f"one of {list_names(fields, 20)}",
        field=name,
    )


def unknown_value(
    condition: Filter, segments: Sequence[Segment], allowed: Sequence[Mask]
) -> FilterError:
    """The error for values that no chunk has, with the nearest ones.

    Only values of ``allowed`` rows are named, so that other tenants' values stay hidden.
    """
    values: set[str] = set()
    for segment, alive in zip(segments, allowed, strict=True):
        index = segment.fields.get(condition.field)
        if index is None:
            continue
        for at, value in enumerate(index.spellings()[:_NEAR_AMONG]):
            if alive[index.rows_at(at)].any():
                values.add(value)
    return value_error(condition, values)


def value_error(condition: Filter, values: Collection[str]) -> FilterError:
    """The error for a condition with unknown values; it names the nearest known ones."""
    texts = [spelling(value) for value in condition.values]
    # Case is the most common mistake, and it defeats a comparison of letters.
    folded = {value.casefold(): value for value in sorted(values)}
    near = list(
        dict.fromkeys(
            folded[match]
            for value in texts
            for match in get_close_matches(value.casefold(), folded, n=3, cutoff=0.5)
        )
    )
    hint = f"nearest: {', '.join(near)}" if near else f"it has: {list_names(sorted(values), 10)}"
    return FilterError(
        f"no chunk has {condition.field} = {' or '.join(repr(v) for v in texts)}",
        hint=hint if values else None,
        field=condition.field,
        values=texts,
    )
