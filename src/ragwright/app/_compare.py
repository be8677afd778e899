"""`ragwright compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..experiment import (
    KnownRun,
    SettingChange,
    changed_settings,
    clusters_of_results,
    compare_evaluations,
    list_runs,
    open_results,
)
from ..project import Session
from ..report import comparison_json, comparison_table, unequal_depths
from ..training import TutorialOptions
from ._compare_table import (
    Asked,
    Candidates,
    Keep,
    Questions,
    Rerank,
    TableName,
    TableTestset,
    Tuned,
    show_table,
)
from ._console import Console, reported, table
from ._options import HERE, Json, MaxCost, Output, Overrides, Project, Seed

RUN_HELP = "A run (latest, latest~1, a name, the beginning of an id), or a file of scores."
"""How a run can be named wherever one is asked for."""

CLUSTER_HELP = (
    "Rows that share this count as one observation: document (the default), a column, or row."
)


@reported
def command(
    a: Annotated[str, typer.Argument(help=f"{RUN_HELP} Without one, the runs are listed.")] = "",
    b: Annotated[
        str, typer.Argument(help="The run that the verdicts are about; named like A.")
    ] = "latest",
    cluster: Annotated[
        str,
        typer.Option("--cluster", help=CLUSTER_HELP),
    ] = "",
    name: TableName = "",
    testset: TableTestset = "",
    tuned: Tuned = None,
    rerank: Rerank = "",
    candidates: Candidates = 20,
    keep: Keep = 2,
    questions: Questions = 50,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    output: Output = None,
    max_cost: MaxCost = None,
    seed: Seed = 0,
) -> None:
    """Compare two runs row by row: difference, interval, test, and rows needed to be sure."""
    console = Console(output=output)
    if name:
        options = TutorialOptions(
            testset, "", questions, tuple(tuned or ()), rerank, candidates, keep, seed
        )
        session = Session(tuple(overrides or ()), max_cost=max_cost)
        show_table(console, Asked(name, project, session, options, as_json))
        return
    if not a:
        _show_runs(console, list_runs(project), as_json)
        return
    first, second = open_results(project, (a, b), seed)
    clusters = clusters_of_results([*first.results, *second.results], cluster)
    found = compare_evaluations(first, second, seed=seed, clusters=clusters)
    changes = changed_settings(first, second)
    notes = [note for side in (first, second) if side.manifest for note in side.notes]
    depths = unequal_depths(found)
    if as_json:
        told = {"a": first.name, "b": second.name, **comparison_json(found)}
        shown = {"settings": [asdict(change) for change in changes], "notes": [*notes, *depths]}
        console.json({**told, **shown})
        return
    names = _labels(project, (a, b), (first.name, second.name))
    lines = [comparison_table(found, names=names, width=console.columns())]
    if changes:
        lines.append(_changes_table(changes, names))
    elif first.manifest and second.manifest:
        lines.append("the settings of the two runs are the same")
    lines += [f"note: {note}" for note in notes]
    console.result("\n\n".join(lines))


def _labels(folder: Path, asked: tuple[str, str], runs: tuple[str, str]) -> tuple[str, str]:
    """What to call two runs: by the names that they have, else as the user wrote them."""
    named: dict[str, str] = {}
    if any(not Path(word).is_file() for word in asked):
        named = {run.id: run.name for run in list_runs(folder) if run.name}
    first, second = (
        run if Path(word).is_file() else named.get(run) or run
        for word, run in zip(asked, runs, strict=True)
    )
    return (first, second) if first != second else runs


def _changes_table(changes: Sequence[SettingChange], names: tuple[str, str]) -> str:
    rows = [["setting", *names]]
    rows += [[change.key, _value(change.a), _value(change.b)] for change in changes]
    return table(rows)


def _value(value: Any, most: int = 40) -> str:
    """A setting on one line; hashes and long texts shortened."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) >= 32 and set(text) <= set("0123456789abcdef"):
        return text[:12]
    return text if len(text) <= most else f"{text[:most]}…"


def _show_runs(console: Console, runs: Sequence[KnownRun], as_json: bool) -> None:
    if as_json:
        console.json({"runs": [asdict(run) for run in runs]})
    elif not runs:
        console.result("no runs yet: run `ragwright eval` or `ragwright score`")
    else:
        rows = [["run", "name", "started", "testset", "measures", "state"]]
        rows += [
            [run.id, run.name, run.started, run.testset, ", ".join(run.measures), run.state]
            for run in runs
        ]
        console.result(table(rows, whole=(0,)))
