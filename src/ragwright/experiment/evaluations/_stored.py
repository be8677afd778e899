"""Evaluations by name and their differences, sheets of a blind review, served outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError, list_names
from ...drafting import OutputSample, SampledOutputs, project_outputs, sample_outputs
from ...flow import Forecast, RunSummary
from ...measure import Measure, Rubric, load_rubrics, parse_measures
from ...project import (
    Project,
    ProjectFolder,
    Session,
    configuration_from,
    keep_configuration,
    project_keys,
    refuse_forget,
)
from ...testsets import read_rows
from ._result_files import read_results, read_stored_or_given
from ._results import Evaluation, EvaluationOptions
from ._review import (
    Label,
    ReviewKey,
    ReviewSheet,
    blind_sheet,
    check_labelled,
    read_key,
    read_labels,
    write_key,
    write_sheet,
)
from ._running import BASELINE, KnownRun, find_run, list_evaluations, load_evaluation
from ._scoring import OnForecast, OnResult, forecast_stored, plan_scoring, run_scoring

_APART = frozenset({BASELINE, "measures", "scales"})
"""Settings that a comparison shows in other places."""

_INDEX = "index"
_DOCUMENTS = "documents"
_HASHED = {
    _DOCUMENTS: "documents in the index",
    "index_spec": "settings of the index (chunk, keyword or embed; these runs do not record which)",
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
            systems[system] = tuple(read_stored_or_given(project.runs, system).rows)
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
            side.pop("index_spec", None)
    defaults = {name: default for name, _, default, _ in project_keys()}
    changes = []
    for key in sorted(first.keys() | second.keys()):
        section = key.partition(".")[0]
        if section in _APART or not all(_has_section(side.manifest, section) for side in (a, b)):
            continue
        values = [side.get(key, defaults.get(key)) for side in (first, second)]
        if _replace_tuples(values[0]) != _replace_tuples(values[1]) and not all(
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


def _replace_tuples(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


_TABLES = (".csv", ".tsv", ".jsonl")


@dataclass(frozen=True, slots=True)
class ReviewedAnswers:
    """People's labels of the answers of one system.

    Attributes:
        system: The system, as the key names it.
        evaluation: The run with its answers.
        measures: Measures by which people scored.
        labels: Row id -> measure -> person -> label.
        chosen: True if the caller named the run.
    """

    system: str
    evaluation: Evaluation
    measures: tuple[str, ...]
    labels: Mapping[str, Mapping[str, Mapping[str, float]]]
    chosen: bool


def read_sheets(text: str, root: Path, runs: Sequence[str] = ()) -> ReviewedAnswers:
    """Read filled-in sheets.

    Args:
        text: A sheet, several with commas (one per person), or a folder of them; the key
            ``SHEET.key.json`` is beside them.
        root: Folder of the project with the reviewed run.
        runs: Runs whose scores are compared with people's: if the sheets hold answers of several
            systems, they say which of them. By default the reviewed run.

    Raises:
        TestsetError: A sheet or the key is missing, no run has the reviewed answers, a person
            labelled an answer twice, or labels are about other answers.
    """
    sheets = _sheets_in(text)
    key = read_key(_key_beside(sheets))
    system, evaluation, chosen = _find_reviewed_system(key, root, runs, text)
    rows = [result.row for result in evaluation.results if result.row is not None]
    marks = [mark for path in sheets for mark in read_labels(path, key, path.stem)]
    check_labelled(marks, system, rows)
    return ReviewedAnswers(system, evaluation, key.measures, _labels_by_row(marks, system), chosen)


def _sheets_in(text: str) -> list[Path]:
    """The sheets of a folder, or those named."""
    source = Path(text)
    sheets = [Path(name.strip()) for name in ([text] if source.exists() else text.split(","))]
    if source.is_dir():
        sheets = sorted(path for path in source.iterdir() if path.suffix in _TABLES)
    missing = [str(path) for path in sheets if not path.is_file()]
    if missing or not sheets:
        raise TestsetError(
            "no such file" if missing else "the folder holds no sheet",
            where=missing[0] if missing else text,
            hint="check the path",
        )
    return sheets


def _key_beside(sheets: Sequence[Path]) -> Path:
    """The key that is named as a sheet, else the only key in their folders."""
    for path in sheets:
        if (key := path.with_suffix(".key.json")).is_file():
            return key
    keys = sorted({key for path in sheets for key in path.parent.glob("*.key.json")})
    if len(keys) == 1:
        return keys[0]
    found = f"there are several: {list_names([key.name for key in keys], 5)}; " if keys else ""
    raise TestsetError(
        "the key of the sheet is missing: it maps answers to systems",
        where=str(sheets[0]),
        hint=f"{found}put SHEET.key.json, which `review` wrote, beside the sheet",
    )


def _find_reviewed_system(
    key: ReviewKey, root: Path, runs: Iterable[str], text: str
) -> tuple[str, Evaluation, bool]:
    """The reviewed system, the run with its answers, and True if a given run has them.

    A run has the answers if it was reviewed, or if it judged the reviewed ones again.
    """
    systems = list(dict.fromkeys(system for system, _ in key.answers.values()))
    for run in runs:
        (evaluation,) = open_results(root, (run,))
        testset = str(evaluation.manifest.get("testset", "")).removeprefix("run ")
        for name in (evaluation.name, testset, run):
            if name in systems:
                return name, evaluation, True
    if len(systems) > 1:
        raise TestsetError(
            f"the sheet has answers of {' and '.join(systems)}",
            where=text,
            hint="name the run whose scores are compared with people's: --verdicts RUN",
        )
    (evaluation,) = open_results(root, systems)
    return systems[0], evaluation, False


def _labels_by_row(marks: Iterable[Label], system: str) -> dict[str, dict[str, dict[str, float]]]:
    """Row id -> measure -> person -> label of one system's answers."""
    labels: dict[str, dict[str, dict[str, float]]] = {}
    for mark in marks:
        if mark.system != system:
            continue
        by_rater = labels.setdefault(mark.row_id, {}).setdefault(mark.measure, {})
        if mark.rater in by_rater:
            raise TestsetError(
                f"row {mark.row_id!r} has two labels of {mark.rater!r} for {mark.measure}",
                hint="give each sheet once, and each person a name in the column `rater`",
            )
        by_rater[mark.rater] = mark.value
    return labels


@refuse_forget("outputs eval")
def evaluate_outputs(
    project: Project,
    measures: str | Sequence[Measure],
    sampling: OutputSample | None = None,
    options: EvaluationOptions | None = None,
    *,
    on_forecast: OnForecast | None = None,
    each: OnResult | None = None,
) -> tuple[Evaluation, RunSummary, SampledOutputs]:
    """Score a sample of stored texts as a new run; nothing is generated.

    The manifest of the run contains the sampling. If all rows were made under one configuration,
    the run belongs to that one, and can be promoted.

    Raises:
        StoreError: No stored text matches the query.
        MeasureError: A measure is unknown, or needs a model that is not set.
    """
    options = options or EvaluationOptions(seed=project.session.seed)
    sampled = sample_outputs(
        project_outputs(project), sampling or OutputSample(seed=project.session.seed)
    )
    plan = plan_scoring(project, sampled.testset, measures)
    manifest = {**plan.job.manifest, **sampled.manifest}
    job = replace(plan.job, manifest=manifest, scope=sampled.sampling.query.scope or "")
    evaluation, summary = run_scoring(project, replace(plan, job=job), options, on_forecast, each)
    if len(sampled.configurations) == 1:
        [name] = sampled.configurations
        configuration = configuration_from(project_outputs(project).settings(name))
        if configuration is not None:
            keep_configuration(project.runs, summary.run, configuration)
    return evaluation, summary, sampled


def forecast_outputs(
    project: Project, measures: str | Sequence[Measure], sampling: OutputSample
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_outputs`, without calling any model."""
    return forecast_stored(
        project, sample_outputs(project_outputs(project), sampling).testset, measures
    )
