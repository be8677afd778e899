"""Evaluations by name, from files and stored runs, and the differences of two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError
from ...measure import Measure, Rubric, load_rubrics, parse_measures
from ...project import Project, ProjectFolder, Session, project_keys
from ...testsets import read_rows
from ._evaluating import load_evaluation
from ._names import BASELINE, KnownRun, find_run, list_evaluations
from ._result_files import read_results
from ._results import Evaluation
from ._review import ReviewSheet, blind_sheet, write_key, write_sheet
from ._scoring import rows_to_score

_APART = frozenset({BASELINE, "measures", "scales"})
"""Settings that a comparison shows in other places."""

_INDEX = "index"
_DOCUMENTS = "documents"
_HASHED = {
    _DOCUMENTS: "documents in the index",
    "pair": "settings of the index (chunk, keyword or embed; these runs do not record which)",
    "rows": "rows of the testset",
}
"""Settings that are stored as a hash -> their description."""

_HEX = re.compile("[0-9a-f]{12,}")
_LONG = 60
"""Most characters of a value in a description."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that differs between two runs: its key and both values, JSON-able."""

    key: str
    a: Any
    b: Any

    @property
    def text(self) -> str:
        """The change as text, such as ``embed.model: none -> st:all-MiniLM-L6-v2``."""
        if _is_hash(self.a) or _is_hash(self.b):
            return f"{_HASHED.get(self.key, self.key.removesuffix(' (hash)'))}: changed"
        return f"{self.key}: {_value_text(self.a)} -> {_value_text(self.b)}"


def open_results(folder: str | Path, names: Sequence[str], seed: int = 0) -> list[Evaluation]:
    """Open evaluations by name: a file of scores if it exists, else a run of the project.

    The project is opened only if a name is not a file.

    Raises:
        TestsetError: A file holds no scores.
        ConfigError: A name is not a file, and there is no project.
        StoreError: A name is neither a file nor a run; the newest runs are listed.
    """
    if all(Path(name).is_file() for name in names):
        return [read_results(name, seed=seed) for name in names]
    with Project.open(folder, Session(seed=seed)) as project:
        return evaluations_by_name(project, names)


def evaluations_by_name(project: Project, names: Sequence[str]) -> list[Evaluation]:
    """Like :func:`open_results`, for an opened project."""
    seed = project.session.seed
    return [
        read_results(name, seed=seed)
        if Path(name).is_file()
        else load_evaluation(project.runs, name, seed)
        for name in names
    ]


def rows_to_review(
    folder: str | Path, names: Sequence[str], measures: str
) -> tuple[dict[str, tuple[Row, ...]], tuple[Measure, ...], Mapping[str, Rubric]]:
    """Return answers by system, the measures for people, and their rubrics.

    A system is a file by its name, or a run by its id, so that `latest` keeps its meaning.

    Raises:
        MeasureError: A measure is unknown.
        TestsetError: A file or run holds no answers.
        StoreError: A name is neither a file nor a run.
    """
    parsed = parse_measures(measures)
    rubrics = load_rubrics(Path(folder))
    if all(Path(name).is_file() for name in names):
        return {name: read_rows(name) for name in names}, parsed, rubrics
    with Project.open(folder) as project:
        systems = {}
        for name in names:
            system = name if Path(name).is_file() else find_run(project.runs, name)
            systems[system] = rows_to_score(project, system).rows
    return systems, parsed, rubrics


def write_blind_sheet(
    folder: str | Path, names: Sequence[str], measures: str, path: Path, *, seed: int = 0
) -> tuple[ReviewSheet, Path]:
    """Write a sheet for people to score answers without knowing the system, and its key beside it.

    Args:
        folder: The project.
        names: Runs, or files of rows.
        measures: Measures for people to score, separated by commas.
        path: The sheet: ``.csv``, ``.tsv`` or ``.jsonl``; the key is ``NAME.key.json``.
        seed: Seed of the order.

    Returns:
        The sheet, and the file of its key.

    Raises:
        TestsetError: One of the files exists, nothing is written; or there are no answers.
        MeasureError: A measure is unknown.
        StoreError: A name is neither a file nor a run.
    """
    key_file = path.with_suffix(".key.json")
    for file in (path, key_file):  # before anything is read: the file may contain someone's work
        if file.exists():
            raise TestsetError(
                "the file exists already; nothing was changed",
                where=str(file),
                hint="choose another name with -o, or move the file away",
            )
    systems, parsed, rubrics = rows_to_review(folder, names, measures)
    sheet, key = blind_sheet(systems, parsed, seed=seed, rubrics=rubrics)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_key(key, key_file)
    write_sheet(sheet, path)
    return sheet, key_file


def list_runs(folder: str | Path) -> tuple[KnownRun, ...]:
    """Return every stored evaluation of a project, newest first."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return list_evaluations(project.runs)


def list_changed_settings(a: Evaluation, b: Evaluation) -> tuple[SettingChange, ...]:
    """Return settings that differ between two evaluations, by key; none if one is unknown.

    A key that a run left at its default is shown with the present default. Sections that only one
    of them has (a run that judges stored answers retrieves nothing) are ignored. The index is shown
    by its settings, and its content by ``documents``.
    """
    if not a.manifest or not b.manifest:
        return ()
    first, second = _flat_manifest(a.manifest), _flat_manifest(b.manifest)
    if all(_INDEX in side.manifest for side in (a, b)):
        for side in (first, second):  # the index key consists of these settings
            side.pop("pair", None)
    defaults = {name: default for name, _, default, _ in project_keys()}
    changes = []
    for key in sorted(first.keys() | second.keys()):
        section = key.partition(".")[0]
        if section in _APART or not all(_has_section(side.manifest, section) for side in (a, b)):
            continue
        values = [side.get(key, defaults.get(key)) for side in (first, second)]
        if _without_tuples(values[0]) != _without_tuples(values[1]) and not all(
            v is None or v == {} for v in values
        ):
            changes.append(SettingChange(key, *values))
    return tuple(changes)


def _flat_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest by dotted key, as in a project file."""
    values = {key.removeprefix(f"{_INDEX}."): value for key, value in _flat_items(manifest)}
    state = values.pop("snapshot", None)
    if state is not None:
        values[_DOCUMENTS] = str(state).partition("@")[2] or state
    return values


def _has_section(manifest: Mapping[str, Any], section: str) -> bool:
    """True if a manifest holds a section of the project file."""
    if section == _DOCUMENTS:
        return "snapshot" in manifest
    return section in manifest or section in manifest.get(_INDEX, {})


def _flat_items(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Return (dotted key, value) of nested mappings."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat_items(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _value_text(value: Any) -> str:
    """Return a setting on one line; a long text is cut."""
    if value is None or value in ("", [], {}, ()):
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _without_tuples(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
