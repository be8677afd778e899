"""Opens a set of people's verdicts by its text: ``mtrag:PATH``, ``module:object:PATH``, a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core import ConfigError, TestsetError, addition, find_additions, load_object, suggest_name
from ...experiment import clusters_of_rows, read_sheets
from ...measure import parse_measure
from .._people import Dimension, PeopleSet, Rated, check_people
from ._column_map import read_column_map
from ._columns import read_mapped_rows
from ._files import SetFiles


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
        Rated(replace(rows[row_id], id=row_id), of_row, str(clusters.get(row_id, row_id)), system)
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
        return _named_source(review(text.removeprefix(f"{REVIEW}:"), root, runs), text)
    adapter, path = _adapter_of(text)
    if adapter is None:
        return _named_source(read_mapped_rows(SetFiles(path), read_column_map(columns)), text)
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
    return _named_source(people, text)


def list_sets() -> tuple[str, ...]:
    """Names of the sets that can be read, sorted; those of installed packages too."""
    return tuple(sorted((*find_additions("people"), ROWS, REVIEW)))


def _named_source(people: PeopleSet, text: str) -> PeopleSet:
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
