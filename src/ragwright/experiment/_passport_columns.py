"""Sets of people's verdicts by their text: an adapter, or a file with a map of its columns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import (
    ConfigError,
    Row,
    TestsetError,
    addition,
    count_noun,
    find_additions,
    list_names,
    load_object,
    suggest_name,
    value_hash,
)
from ..testsets import records_of, rows_of
from ._blind_review import read_review
from ._passport_people import Dimension, PeopleSet, RatedAnswer, SetFiles

_QUESTIONS = {"user_input", "question", "query", "input", "inputs", "request"}
_IDS = {"id", "query_id", "instance_id"}
_FIELDS = ("user_input", "response", "reference", "retrieved_contexts")
_NAMED = ("label", "verdict")
_SINGLE = ("id", "task", "system", "rater", "second", "ignore", *_FIELDS)
_ROLE = re.compile(r"(?P<role>[a-z_]+)(?:\.(?P<name>[^()]+))?(?:\((?P<scale>.+)\))?")
_RANGE = re.compile(r"\s*(-?\d*\.?\d+)\s*\.\.\s*(-?\d*\.?\d+)\s*")
_WORDS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct", "good"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect", "bad"), 0.0),
}
_MISSING = ("", "nan", "none", "null", "n/a", "na")
_HINT = (
    "write COLUMN=ROLE with the role label.NAME, verdict.NAME, rater, task, system, id, second, "
    f"ignore, {', '.join(_FIELDS)}; for example --map 'human=label.faithfulness(1..5)'"
)


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """The meaning of one column.

    Attributes:
        column: Its name; dots lead into objects, ``annotations.faithfulness``.
        role: ``label``, ``verdict``, ``rater``, ``task``, …
        name: Dimension of a label, name of a verdict; empty for other roles.
        ends: Smallest and largest value; None if they are not given.
        turned: The largest value in the file is the worst.
        words: Labels in words, lower case, with their numbers; from the worst to the best.
    """

    column: str
    role: str
    name: str = ""
    ends: tuple[float, float] | None = None
    turned: bool = False
    words: Mapping[str, float] = field(default_factory=dict)

    @property
    def mapping(self) -> str:
        """How its values became numbers; empty if they are unchanged."""
        if self.turned and self.ends:
            return f"turned: {self.ends[1]:g} in the file is the worst, {self.ends[0]:g} the best"
        return ", ".join(f"{number:g} {word}" for word, number in self.words.items())

    def number(self, value: Any, where: str) -> float | None:
        """A label or verdict as a number; None if it is missing.

        Raises:
            TestsetError: It is not a number and no known word.
        """
        text = str(value).strip().casefold()
        if text in _MISSING:
            return None
        if text in (self.words or _WORDS):
            return (self.words or _WORDS)[text]
        try:
            number = float("" if self.words else text)
        except ValueError as error:
            wanted = f"none of {', '.join(self.words)}" if self.words else "not a number"
            raise TestsetError(
                f"{self.column} is {str(value)[:40]!r}, {wanted}",
                where=where,
                hint=f"list all labels from the worst to the best: "
                f"--map '{self.column}={self.role}.{self.name or 'NAME'}(bad,fair,good)'",
            ) from error
        return sum(self.ends) - number if self.turned and self.ends else number


def read_column_map(texts: Iterable[str]) -> tuple[MappedColumn, ...]:
    """Read the texts of ``--map``.

    Raises:
        ConfigError: A text has another form, a role is unknown, or two columns have one role.
    """
    columns = tuple(_map_column(text) for text in texts)
    for role in _SINGLE:
        several = [column.column for column in columns if column.role == role]
        if len(several) > 1 and role != "ignore":
            raise ConfigError(
                f"{' and '.join(several)} are both mapped to {role}",
                where="--map",
                hint="map one column to it",
            )
    return columns


def _map_column(text: str) -> MappedColumn:
    column, _, role_text = map(str.strip, text.rpartition("="))
    match = _ROLE.fullmatch(role_text)
    if not column or match is None:
        raise ConfigError(f"cannot read {text!r} as a column map", where="--map", hint=_HINT)
    role, name, scale = match["role"], (match["name"] or "").strip(), match["scale"]
    if role not in (*_SINGLE, *_NAMED):
        raise ConfigError(
            f"unknown role {role!r} in {text!r}",
            where="--map",
            hint=f"{suggest_name(role, (*_SINGLE, *_NAMED))} {_HINT}",
        )
    if role in _SINGLE:
        if name or scale:
            raise ConfigError(f"{role} takes no name and no scale", where="--map", hint=_HINT)
        return MappedColumn(column, role)
    if scale is None:
        return MappedColumn(column, role, name or column)
    limits = _RANGE.fullmatch(scale)
    points = limits.groups() if limits else tuple(map(str.strip, scale.casefold().split(",")))
    if len(set(points)) < 2 or not all(points):
        raise ConfigError(
            f"cannot read the scale of {text!r}",
            where="--map",
            hint="write the worst and the best, (1..5), or all labels in that order: (bad,good)",
        )
    if limits:
        worst, best = map(float, points)
        ends = (min(worst, best), max(worst, best))
        return MappedColumn(column, role, name or column, ends, best < worst)
    words = {word: float(number) for number, word in enumerate(points)}
    return MappedColumn(column, role, name or column, (0.0, len(points) - 1.0), words=words)


def read_mapped_rows(path: Path, columns: Sequence[MappedColumn]) -> PeopleSet:
    """Read rows with people's labels; one line may hold an answer, or one person's label of it.

    Several columns with one dimension are several people. A cell may hold a list of labels, or an
    object from person to label.

    Raises:
        TestsetError: No column is a label, a mapped column is missing everywhere, a label is not a
            number or a word of its scale, or two lines are about one answer without a rater.
    """
    records = list(records_of(path))
    _check_columns(columns, [record for _, record in records], str(path))
    answers: dict[str, RatedAnswer] = {}
    labels: dict[str, dict[str, dict[str, float]]] = {}
    verdicts: dict[str, dict[str, float]] = {}
    for number, (where, record) in enumerate(records, 1):
        answer = _answer_in(record, columns, number, where)
        key = answer.row.id
        answers.setdefault(key, answer)
        of_row = labels.setdefault(key, {})
        verdicts.setdefault(key, {}).update(
            (column.name, verdict)
            for column in columns
            if column.role == "verdict"
            and (verdict := column.number(value_at(record, column.column), where)) is not None
        )
        for name, who, label in _labels_in(record, columns, where):
            by_person = of_row.setdefault(name, {})
            if who in by_person:
                raise TestsetError(
                    f"row {key!r} has two labels of {name} by {who}",
                    where=where,
                    hint="map the column that names the person to rater, or the column that names "
                    "the answer to id",
                )
            by_person[who] = label
    rated = tuple(
        replace(answer, labels=labels[key], verdicts=verdicts[key])
        for key, answer in answers.items()
        if labels[key]
    )
    dimensions = _dimensions_of(columns, rated)
    bare = len(answers) - len(rated)
    notes = [f"left out: {count_noun(bare, 'row')} without a label"] if bare else []
    if not any(column.role == "task" for column in columns):
        notes.append("no column is mapped to task: answers to one question are one task")
    scaled = {column.name for column in columns if column.role == "label" and column.ends}
    notes += [
        f"the scale of {dimension.name} is read from its labels: {dimension.low:g} to "
        f"{dimension.high:g} (write label.{dimension.name}(1..5) to set it)"
        for dimension in dimensions
        if dimension.name not in scaled
    ]
    scales = {c.name: c.ends for c in columns if c.role == "verdict" and c.ends is not None}
    return PeopleSet(path.stem, rated, dimensions, tuple(notes), scales)


def _check_columns(
    columns: Sequence[MappedColumn], records: Sequence[Mapping[str, Any]], where: str
) -> None:
    seen = list(dict.fromkeys(name for record in records for name in record))
    hint = f"its columns: {list_names(seen, 20) or 'none'}"
    if not seen:
        raise TestsetError("the file holds no rows", where=where)
    if not any(column.role == "label" for column in columns):
        raise TestsetError(
            "no column is mapped to a label of people",
            where=where,
            hint=f"for example --map 'human=label.faithfulness(1..5)'; {hint}",
        )
    missing = [
        column.column
        for column in columns
        if all(value_at(record, column.column) is None for record in records)
    ]
    if missing:
        raise TestsetError(
            f"no row has a value under {' or '.join(map(repr, sorted(missing)))}",
            where=where,
            hint=hint,
        )


def _answer_in(
    record: Mapping[str, Any], columns: Sequence[MappedColumn], number: int, where: str
) -> RatedAnswer:
    """The answer that one line is about, still without labels."""
    roles = {column.role: value_at(record, column.column) for column in columns}
    row = _row_from(record, columns, where)
    unmapped = (value for name, value in record.items() if name.casefold() in _IDS)
    given = roles["id"] if "id" in roles else next(unmapped, None)
    system = str(roles.get("system") or "")
    content = value_hash([row.user_input, row.response, list(row.retrieved_contexts), system])
    key = content if roles.get("rater") else str(number)
    if given not in (None, ""):
        key = str(given)
    task, second = roles.get("task"), roles.get("second")
    return RatedAnswer(
        replace(row, id=key),
        {},
        str(task) if task not in (None, "") else row.user_input or key,
        system,
        second=None if second is None else replace(row, id=f"{key}-second", response=str(second)),
    )


def _labels_in(
    record: Mapping[str, Any], columns: Sequence[MappedColumn], where: str
) -> Iterator[tuple[str, str, float]]:
    """(Dimension, person, label) of a line; a cell is a label, a list, or an object by person."""
    rater = next((value_at(record, c.column) for c in columns if c.role == "rater"), None)
    labels = [column for column in columns if column.role == "label"]
    several = Counter(column.name for column in labels)
    for column in labels:
        person = str(rater or (column.column if several[column.name] > 1 else "people"))
        marks = _parse_cell(value_at(record, column.column))
        if isinstance(marks, list):
            marks = {f"{person} {number}": mark for number, mark in enumerate(marks, 1)}
        for who, mark in (marks if isinstance(marks, Mapping) else {person: marks}).items():
            label = column.number(mark.get("value") if isinstance(mark, Mapping) else mark, where)
            if label is not None:
                yield column.name, str(who), label


def _parse_cell(value: Any) -> Any:
    """A list or object that is written in a cell of a table; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _row_from(record: Mapping[str, Any], columns: Sequence[MappedColumn], where: str) -> Row:
    mapped = {column.column.split(".")[0] for column in columns}
    fields: dict[str, Any] = {
        name: value
        for name, value in record.items()
        if name not in mapped
        and name.casefold() not in _IDS
        and (
            all(isinstance(entry, str) for entry in value)
            if isinstance(value, list)
            else isinstance(value, str | int | float | bool)
        )
    }
    fields |= {
        column.role: _field_value(column.role, value)
        for column in columns
        if column.role in _FIELDS and (value := value_at(record, column.column)) is not None
    }
    question = {} if _QUESTIONS & fields.keys() else {"user_input": ""}
    try:
        (row,) = rows_of([{**fields, **question, "id": "0"}])
    except TestsetError as error:
        raise TestsetError(
            error.what,
            where=where,
            hint=f"{error.hint or ''}; or map the column: --map COLUMN=response, --map "
            "COLUMN=ignore".lstrip("; "),
        ) from error
    return row


def _field_value(name: str, value: Any) -> Any:
    if name != "retrieved_contexts":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    parsed = _parse_cell(value)
    return [
        str(entry.get("text", "")) if isinstance(entry, Mapping) else str(entry)
        for entry in (parsed if isinstance(parsed, list) else [value])
    ]


def _dimensions_of(
    columns: Sequence[MappedColumn], rated: Sequence[RatedAnswer]
) -> tuple[Dimension, ...]:
    """The dimensions with their scales: as given, else as far as the labels reach."""
    dimensions = []
    for name in dict.fromkeys(column.name for column in columns if column.role == "label"):
        given = [c for c in columns if (c.role, c.name) == ("label", name) and c.ends]
        present = {label for item in rated for label in item.labels.get(name, {}).values()}
        low, high = min(present, default=0.0), max(present, default=1.0)
        whole = all(label % 1 == 0 for label in present)
        ends = (min(low, 1.0 if whole and high > 1 else 0.0), max(high, 1.0))
        mapping = next((column.mapping for column in given if column.mapping), "")
        dimensions.append(Dimension(name, *((given[0].ends if given else None) or ends), mapping))
    return tuple(dimensions)


def value_at(record: Mapping[str, Any], column: str) -> Any:
    """The value of a column; dots lead into objects. None if there is none."""
    value: Any = record
    for part in [column] if column in record else column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def open_people(
    text: str, columns: Sequence[str] = (), *, root: Path = Path(), runs: Sequence[str] = ()
) -> PeopleSet:
    """Read a set of people's verdicts.

    Args:
        text: ``NAME:PATH`` with the name of a known set, ``module:object:PATH`` with an adapter of
            your own, ``review:SHEET``, or the path of a file of rows, also as ``rows:PATH``.
        columns: For a file of rows: ``COLUMN=ROLE``, see :func:`read_column_map`.
        root: Folder of the project, for ``review:SHEET``.
        runs: Runs whose scores are compared with people's, for ``review:SHEET``.

    Raises:
        ConfigError: The name is unknown, with the nearest one; or the path is missing.
        PluginError: The adapter cannot be imported.
        TestsetError: The files are not those of the set, or hold no usable label.
    """
    name, colon, path = text.partition(":")
    if colon and name == "review":
        people = read_review(path, root, runs)
    elif colon and name == "rows":
        people = read_mapped_rows(Path(path), read_column_map(columns))
    elif addition("people", name) is None and (not colon or Path(text).exists() or "://" in text):
        people = read_mapped_rows(Path(text), read_column_map(columns))
    elif columns:
        raise ConfigError(
            "--map is only for files of rows; a named set knows its columns",
            where=text,
            hint=f"leave --map out, or give the file itself: {path or 'FILE'}",
        )
    else:
        people = _read_by_adapter(text)
    return check_people(replace(people, source=text))


def _read_by_adapter(text: str) -> PeopleSet:
    name, _, path = text.partition(":")
    if (known := addition("people", name)) is not None:
        adapter = known.load()
    else:
        attribute, colon, path = path.partition(":")
        if not colon:
            names = sorted((*find_additions("people"), "rows", "review"))
            raise ConfigError(
                f"unknown set {name!r}",
                where=text,
                hint=f"{suggest_name(name, names)} (or module:object:PATH)",
            )
        adapter = load_object(f"{name}:{attribute}", where=text)
    if not path:
        raise ConfigError(
            f"{text!r} has no path", where="SET", hint=f"write {text.rstrip(':')}:PATH"
        )
    try:
        people = adapter(SetFiles(path))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        fault = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise TestsetError(
            f"these are not the files of the set: {fault}",
            where=text,
            hint="check the path, and the version of the set",
        ) from error
    if not isinstance(people, PeopleSet):
        raise TestsetError(
            f"the adapter returned {type(people).__name__}, not a PeopleSet",
            where=text,
            hint="return PeopleSet(name, rated, dimensions) of ragwright.passport",
        )
    return people


def check_people(people: PeopleSet) -> PeopleSet:
    """Return a set whose rows, ids and labels can be used.

    Raises:
        TestsetError: It has no rows or dimensions, an id twice, a dimension that is not declared,
            or a label off the scale; the row is named.
    """
    known = {dimension.name: dimension for dimension in people.dimensions if not dimension.of}
    [(row_id, times)] = Counter(item.row.id for item in people.rated).most_common(1) or [("", 0)]
    if times > 1:
        raise TestsetError(
            f"the id {row_id!r} occurs twice",
            where=people.source,
            hint="give each answer its own id, or map a column to rater if several people judged "
            "one answer",
        )
    labels = [
        (f"row {item.row.id!r}", name, label)
        for item in people.rated
        for name, by_rater in item.labels.items()
        for label in by_rater.values()
    ]
    for row, name, label in labels:
        if name not in known:
            raise TestsetError(
                f"{row} has labels of {name!r}, which the set does not declare",
                where=people.source,
                hint=suggest_name(name, known),
            )
        if not known[name].low <= label <= known[name].high:
            raise TestsetError(
                f"the label {label:g} of {row} is off the scale of {name}",
                where=people.source,
                hint=f"labels must be between {known[name].low:g} and {known[name].high:g}",
            )
    if not labels:
        raise TestsetError(
            f"the set {people.name} holds no label of a person",
            where=people.source,
            hint="check the path and the names of the columns",
        )
    return people
