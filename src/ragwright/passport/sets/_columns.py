"""A file of rows (JSONL, JSON, CSV, Excel, Parquet) as a set, by a map of its columns."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import Row, TestsetError, count_noun, list_names, value_hash
from ...testsets import records_of, rows_of
from .._people import Dimension, PeopleSet, Rated
from ._column_map import FIELDS, MappedColumn, value_at
from ._files import SetFiles

_QUESTIONS = {"user_input", "question", "query", "input", "inputs", "request"}
_IDS = {"id", "query_id", "instance_id"}
_ONE_PERSON = "people"


@dataclass(slots=True)
class _Gathered:
    """An answer while the lines about it are read."""

    row: Row
    task: str
    system: str
    second: Row | None
    labels: dict[str, dict[str, float]] = field(default_factory=dict)
    verdicts: dict[str, float] = field(default_factory=dict)


def read_mapped_rows(files: SetFiles, columns: Sequence[MappedColumn]) -> PeopleSet:
    """Read rows with people's labels; one line may hold an answer, or one person's label of it.

    Several columns with one dimension are several people. A cell may hold a list of labels, or an
    object from person to label.

    Raises:
        TestsetError: No column is a label, a mapped column is missing everywhere, a label is not a
            number or a word of its scale, or two lines are about one answer without a rater.
    """
    labels = [column for column in columns if column.role == "label"]
    if not files.path.is_file():
        raise TestsetError(
            "a column map needs one file",
            where=str(files.path),
            hint=f"it holds: {list_names(files.names, 8) or 'no files'}",
        )
    gathered: dict[str, _Gathered] = {}
    seen: dict[str, None] = {}
    empty = set(columns)
    for number, (where, record) in enumerate(records_of(files.path), 1):
        seen.update(dict.fromkeys(record))
        if not labels:
            break
        empty -= {column for column in empty if value_at(record, column.column) is not None}
        _add_line(gathered, columns, record, (number, where))
    _check_columns(labels, empty, list(seen), str(files.path))
    dimensions = _dimensions_of(labels, gathered.values())
    unlabelled = sum(not item.labels for item in gathered.values())
    rated = tuple(
        Rated(item.row, item.labels, item.task, item.system, item.verdicts, item.second)
        for item in gathered.values()
        if item.labels
    )
    notes = [f"left out: {count_noun(unlabelled, 'row')} without a label"] if unlabelled else []
    if not any(column.role == "task" for column in columns):
        notes.append("no column is mapped to task: answers to one question are one task")
    notes += [
        f"the scale of {dimension.name} is read from its labels: {dimension.low:g} to "
        f"{dimension.high:g} (write label.{dimension.name}(1..5) to set it)"
        for dimension in dimensions
        if all(column.ends is None for column in labels if column.name == dimension.name)
    ]
    scales = {
        column.name: column.ends
        for column in columns
        if column.role == "verdict" and column.ends is not None
    }
    name = files.path.stem
    return PeopleSet(name, rated, dimensions, tuple(notes), scales)


def _check_columns(
    labels: Sequence[MappedColumn], empty: set[MappedColumn], seen: list[str], where: str
) -> None:
    columns = f"its columns: {list_names(seen, 20) or 'none'}"
    if not seen:
        raise TestsetError("the file holds no rows", where=where)
    if not labels:
        raise TestsetError(
            "no column is mapped to a label of people",
            where=where,
            hint=f"for example --map 'human=label.faithfulness(1..5)'; {columns}",
        )
    if missing := sorted(column.column for column in empty):
        raise TestsetError(
            f"no row has a value under {' or '.join(map(repr, missing))}", where=where, hint=columns
        )


def _add_line(
    gathered: dict[str, _Gathered],
    columns: Sequence[MappedColumn],
    record: Mapping[str, Any],
    place: tuple[int, str],
) -> None:
    """Add what one line says to the answer that it is about."""
    number, where = place
    roles = {column.role: value_at(record, column.column) for column in columns}
    row = _row_from(record, columns, where)
    unmapped = (value for name, value in record.items() if name.casefold() in _IDS)
    given = roles["id"] if "id" in roles else next(unmapped, None)
    rater = roles.get("rater")
    system = str(roles.get("system") or "")
    content = value_hash([row.user_input, row.response, list(row.retrieved_contexts), system])
    key = str(given) if given not in (None, "") else content if rater else str(number)
    task = roles.get("task")
    task_text = str(task) if task not in (None, "") else row.user_input or key
    second = roles.get("second")
    item = gathered.setdefault(
        key,
        _Gathered(
            replace(row, id=key),
            task_text,
            system,
            None if second is None else replace(row, id=f"{key}-second", response=str(second)),
        ),
    )
    for column in columns:
        value = value_at(record, column.column)
        if column.role == "verdict":
            verdict = column.number(value, where)
            if verdict is not None:
                item.verdicts[column.name] = verdict
        elif column.role == "label":
            several = sum(other.name == column.name for other in columns) > 1
            person = str(rater or (column.column if several else _ONE_PERSON))
            for who, label in _labels_in(value, column, person, where):
                if who in item.labels.get(column.name, {}):
                    raise TestsetError(
                        f"row {key!r} has two labels of {column.name} by {who}",
                        where=where,
                        hint="map the column that names the person to rater, or the column that "
                        "names the answer to id",
                    )
                item.labels.setdefault(column.name, {})[who] = label


def _labels_in(
    value: Any, column: MappedColumn, person: str, where: str
) -> Iterable[tuple[str, float]]:
    """(Person, label) of a cell: one label, a list, or an object from person to label."""
    parsed = _parsed_cell(value)
    if isinstance(parsed, Mapping):
        several = {
            str(who): mark.get("value") if isinstance(mark, Mapping) else mark
            for who, mark in parsed.items()
        }
    elif isinstance(parsed, list):
        several = {f"{person} {number}": mark for number, mark in enumerate(parsed, 1)}
    else:
        several = {person: parsed}
    for who, mark in several.items():
        label = column.number(mark, where)
        if label is not None:
            yield who, label


def _parsed_cell(value: Any) -> Any:
    """A list or object that is written in a cell of a table; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(value)
    return value


def _row_from(record: Mapping[str, Any], columns: Sequence[MappedColumn], where: str) -> Row:
    """The answer in a record: mapped columns, and others by the names that are known."""
    mapped = {column.column.split(".")[0] for column in columns}
    fields: dict[str, Any] = {
        name: value
        for name, value in record.items()
        if name not in mapped and name.casefold() not in _IDS and _is_plain(value)
    }
    for column in columns:
        value = value_at(record, column.column)
        if column.role in FIELDS and value is not None:
            fields[column.role] = _field_value(column.role, value)
    fields["id"] = "0"
    if not _QUESTIONS & fields.keys():
        fields["user_input"] = ""
    try:
        (row,) = rows_of([fields])
    except TestsetError as error:
        raise TestsetError(
            error.what,
            where=where,
            hint=f"{error.hint or ''}; or map the column: --map COLUMN=response, --map "
            "COLUMN=ignore".lstrip("; "),
        ) from error
    return replace(row, metadata={**row.metadata})


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(entry, str) for entry in value)
    return isinstance(value, str | int | float | bool)


def _field_value(name: str, value: Any) -> Any:
    if name != "retrieved_contexts":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    parsed = _parsed_cell(value)
    entries = parsed if isinstance(parsed, list) else [value]
    return [
        str(entry.get("text", "")) if isinstance(entry, Mapping) else str(entry)
        for entry in entries
    ]


def _dimensions_of(
    labels: Sequence[MappedColumn], items: Iterable[_Gathered]
) -> tuple[Dimension, ...]:
    """The dimensions with their scales: as given, else as far as the labels reach."""
    values: dict[str, set[float]] = {column.name: set() for column in labels}
    for item in items:
        for name, by_rater in item.labels.items():
            values[name].update(by_rater.values())
    dimensions = []
    for name, present in values.items():
        columns = [column for column in labels if column.name == name]
        ends = next((column.ends for column in columns if column.ends is not None), None)
        if ends is None:
            low, high = min(present, default=0.0), max(present, default=1.0)
            whole = all(label == round(label) for label in present)
            ends = (min(low, 1.0 if whole and high > 1 else 0.0), max(high, 1.0))
        mapping = next((column.mapping for column in columns if column.mapping), "")
        dimensions.append(Dimension(name, *ends, mapping))
    return tuple(dimensions)
