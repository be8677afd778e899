"""Sets of people's verdicts by their text: an adapter, or a file with a map of its columns."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....core import (
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
from ....measure import parse_measure
from ....testsets import records_of, rows_of
from ...evaluations import clusters_of_rows, read_sheets
from .._people import Dimension, PeopleSet, RatedAnswer, check_people
from ._answers import SetFiles

_QUESTIONS = {"user_input", "question", "query", "input", "inputs", "request"}
_IDS = {"id", "query_id", "instance_id"}
_ONE_PERSON = "people"


@dataclass(slots=True)
class _AnswerLines:
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
    gathered: dict[str, _AnswerLines] = {}
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
        RatedAnswer(item.row, item.labels, item.task, item.system, item.verdicts, item.second)
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
    return PeopleSet(files.path.stem, rated, dimensions, tuple(notes), scales)


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
    gathered: dict[str, _AnswerLines],
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
        _AnswerLines(
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
    parsed = _parse_cell(value)
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


def _parse_cell(value: Any) -> Any:
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
        if name not in mapped
        and name.casefold() not in _IDS
        and (
            all(isinstance(entry, str) for entry in value)
            if isinstance(value, list)
            else isinstance(value, str | int | float | bool)
        )
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


def _field_value(name: str, value: Any) -> Any:
    if name != "retrieved_contexts":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    parsed = _parse_cell(value)
    entries = parsed if isinstance(parsed, list) else [value]
    return [
        str(entry.get("text", "")) if isinstance(entry, Mapping) else str(entry)
        for entry in entries
    ]


def _dimensions_of(
    labels: Sequence[MappedColumn], items: Iterable[_AnswerLines]
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


FIELDS = ("user_input", "response", "reference", "retrieved_contexts")
"""Fields of a row that a column may be mapped to."""

_SINGLE = ("id", "task", "system", "rater", "second", "ignore", *FIELDS)
_ROLE = re.compile(r"(?P<role>[a-z_]+)(?:\.(?P<name>[^()]+))?(?:\((?P<scale>.+)\))?")
_RANGE = re.compile(r"\s*(?P<worst>-?\d*\.?\d+)\s*\.\.\s*(?P<best>-?\d*\.?\d+)\s*")
_WORDS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct", "good"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect", "bad"), 0.0),
}
_MISSING = ("", "nan", "none", "null", "n/a", "na")
_HINT = (
    "write COLUMN=ROLE with the role label.NAME, verdict.NAME, rater, task, system, id, second, "
    f"ignore, {', '.join(FIELDS)}; for example --map 'human=label.faithfulness(1..5)'"
)


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """The meaning of one column.

    Attributes:
        column: Its name; dots lead into objects, ``annotations.faithfulness``.
        role: ``label``, ``verdict``, ``rater``, ``task``, …
        name: Dimension of a label, name of a verdict; empty for other roles.
        worst: Worst value, None if unknown; ``best`` the best one. Values are turned if it is
            smaller.
        best: See ``worst``.
        words: Labels in words, lower case, from the worst to the best.
    """

    column: str
    role: str
    name: str = ""
    worst: float | None = None
    best: float | None = None
    words: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[float, float] | None:
        """Smallest and largest value; None if they are not given."""
        if self.words:
            return 0.0, float(len(self.words) - 1)
        if self.worst is None or self.best is None:
            return None
        return min(self.worst, self.best), max(self.worst, self.best)

    @property
    def mapping(self) -> str:
        """How its values became numbers; empty if they are unchanged."""
        if self.words:
            return ", ".join(f"{number} {word}" for number, word in enumerate(self.words))
        if self.worst is not None and self.best is not None and self.best < self.worst:
            return f"turned: {self.worst:g} in the file is the worst, {self.best:g} the best"
        return ""

    def number(self, value: Any, where: str) -> float | None:
        """A label or verdict as a number; None if it is missing.

        Raises:
            TestsetError: It is not a number and no known word.
        """
        if value is None or (isinstance(value, str) and value.strip().casefold() in _MISSING):
            return None
        text = str(value).strip().casefold()
        if self.words:
            if text in self.words:
                return float(self.words.index(text))
            raise TestsetError(
                f"{self.column} is {str(value)[:40]!r}, none of {', '.join(self.words)}",
                where=where,
                hint="list every label of the column, from the worst to the best",
            )
        if text in _WORDS:
            return _WORDS[text]
        try:
            number = float(text)
        except ValueError as error:
            raise TestsetError(
                f"{self.column} is {str(value)[:40]!r}, not a number",
                where=where,
                hint=f"list the labels from the worst to the best: "
                f"--map '{self.column}={self.role}.{self.name or 'NAME'}(bad,fair,good)'",
            ) from error
        if self.worst is not None and self.best is not None and self.best < self.worst:
            return self.worst + self.best - number
        return number


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
    column, sign, role_text = text.rpartition("=")
    match = _ROLE.fullmatch(role_text.strip())
    if not sign or not column.strip() or match is None:
        raise ConfigError(f"cannot read {text!r} as a column map", where="--map", hint=_HINT)
    role, name = match["role"], (match["name"] or "").strip()
    if role not in (*_SINGLE, "label", "verdict"):
        raise ConfigError(
            f"unknown role {role!r} in {text!r}",
            where="--map",
            hint=f"{suggest_name(role, (*_SINGLE, 'label', 'verdict'))} {_HINT}",
        )
    if role in _SINGLE and (name or match["scale"]):
        raise ConfigError(f"{role} takes no name and no scale", where="--map", hint=_HINT)
    name = name or (column.strip() if role in ("label", "verdict") else "")
    scale = match["scale"]
    if scale is None:
        return MappedColumn(column.strip(), role, name)
    ends = _RANGE.fullmatch(scale)
    if ends is not None:
        worst, best = float(ends["worst"]), float(ends["best"])
        if worst == best:
            raise ConfigError(f"both ends of {text!r} are equal", where="--map", hint=_HINT)
        return MappedColumn(column.strip(), role, name, worst, best)
    words = tuple(word.strip().casefold() for word in scale.split(","))
    if len(set(words)) < 2 or not all(words):
        raise ConfigError(
            f"cannot read the scale of {text!r}",
            where="--map",
            hint="write the worst and the best, (1..5), or all labels in that order: (bad,good)",
        )
    return MappedColumn(column.strip(), role, name, words=words)


def value_at(record: Mapping[str, Any], column: str) -> Any:
    """The value of a column; dots lead into objects. None if there is none."""
    if column in record:
        return record[column]
    value: Any = record
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def review(text: str, root: Path, runs: Sequence[str] = ()) -> PeopleSet:
    """Filled-in sheets of `ragwright review`.

    Args:
        text: See :func:`ragwright.experiment.read_sheets`; likewise ``runs``.
        root: Folder of the project with the reviewed run.
        runs: See ``text``.

    Raises:
        TestsetError: As there, or the scale of a measure is unknown.
    """
    reviewed = read_sheets(text, root, runs)
    results, system = reviewed.evaluation.results, reviewed.system
    rows = {result.row_id: result.row for result in results if result.row is not None}
    clusters = clusters_of_rows(rows.values())
    rated = tuple(
        RatedAnswer(
            replace(rows[row_id], id=row_id), of_row, str(clusters.get(row_id, row_id)), system
        )
        for row_id, of_row in reviewed.labels.items()
        if row_id in rows
    )
    scales = {summary.measure: summary.scale for summary in reviewed.evaluation.summaries}
    dimensions = []
    for name in reviewed.measures:
        scale = scales.get(name) or parse_measure(name).known_scale
        if scale is None or scale.high is None:
            raise TestsetError(f"the scale of {name} is unknown", where=text)
        dimensions.append(Dimension(name, scale.low, scale.high))
    name = Path(text.partition(",")[0]).stem
    return PeopleSet(name, rated, tuple(dimensions), runs=() if reviewed.chosen else (system,))


ROWS, REVIEW = "rows", "review"
"""Names of a file of rows whose columns are mapped, and of filled-in sheets."""


def open_people(
    text: str, columns: Sequence[str] = (), *, root: Path = Path(), runs: Sequence[str] = ()
) -> PeopleSet:
    """Read a set of people's verdicts.

    Args:
        text: ``NAME:PATH`` with the name of a known set, ``module:object:PATH`` with an adapter of
            your own, or the path of a file of rows.
        columns: For a file of rows: ``COLUMN=ROLE``, see :func:`read_column_map`.
        root: Folder of the project, for ``review:SHEET``.
        runs: Runs whose scores are compared with people's, for ``review:SHEET``.

    Raises:
        ConfigError: The name is unknown, with the nearest one; or the path is missing.
        PluginError: The adapter cannot be imported.
        TestsetError: The files are not those of the set, or hold no usable label.
    """
    if text.startswith(f"{REVIEW}:"):
        return _open_named_source(review(text.removeprefix(f"{REVIEW}:"), root, runs), text)
    adapter, path = _adapter_of(text)
    if adapter is None:
        return _open_named_source(read_mapped_rows(SetFiles(path), read_column_map(columns)), text)
    if columns:
        raise ConfigError(
            "--map is only for files of rows; a named set knows its columns",
            where=text,
            hint=f"leave --map out, or give the file itself: {path or 'FILE'}",
        )
    if not path:
        raise ConfigError(
            f"{text!r} has no path", where="SET", hint=f"write {text.rstrip(':')}:PATH"
        )
    people = adapter(SetFiles(path))
    if not isinstance(people, PeopleSet):
        raise TestsetError(
            f"the adapter returned {type(people).__name__}, not a PeopleSet",
            where=text,
            hint="return PeopleSet(name, rated, dimensions) of ragwright.passport",
        )
    return _open_named_source(people, text)


def list_sets() -> tuple[str, ...]:
    """Names of the sets that can be read, sorted; those of installed packages too."""
    return tuple(sorted((*find_additions("people"), ROWS, REVIEW)))


def _open_named_source(people: PeopleSet, text: str) -> PeopleSet:
    return check_people(replace(people, source=text))


def _adapter_of(text: str) -> tuple[Callable[..., Any] | None, str]:
    """The adapter and the path of a set; no adapter for a file of rows."""
    name, colon, path = text.partition(":")
    if colon and name == ROWS:
        return None, path
    if (known := addition("people", name)) is not None:
        return known.load(), path
    if Path(text).exists() or "://" in text:
        return None, text
    attribute, second_colon, own_path = path.partition(":")
    if colon and second_colon:
        return load_object(f"{name}:{attribute}", where=text), own_path
    if colon:
        raise ConfigError(
            f"unknown set {name!r}",
            where=text,
            hint=f"{suggest_name(name, list_sets())} (or module:object:PATH)",
        )
    raise TestsetError(
        "no such file or folder",
        where=text,
        hint=f"give a file of rows, or NAME:PATH with one of {', '.join(list_sets())}",
    )
