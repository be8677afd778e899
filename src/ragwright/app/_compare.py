"""`ragwright compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..experiment import (
    BASELINE,
    KnownRun,
    changed_settings,
    clusters_of_results,
    compare_evaluations,
    list_baselines,
    list_runs,
    open_baselines,
    open_results,
)
from ..project import Session
from ..report import (
    baseline_json,
    baselines_table,
    comparison_json,
    comparison_table,
    unequal_depths,
)
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
    "Group rows by document (the default), passage (the default below 20 gold documents), a column "
    "or row: a group counts as one observation."
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
    """Compare two runs row by row: difference, interval, test, and rows needed to be sure.

    Two runs of `ragwright baseline` are compared by the distances of their answers; S_b and S_e of
    both are shown below.
    """
    console = Console(output=output)
    if name:
        options = TutorialOptions(
            testset, "", questions, tuple(tuned or ()), rerank, candidates, keep, seed
        )
        session = Session(tuple(overrides or ()), max_cost=max_cost)
        show_table(console, Asked(name, project, session, options, as_json))
        return
    if overrides:
        raise typer.BadParameter(
            "two stored runs are compared as they are; settings are for a table (--table tutorial)",
            param_hint="--set",
        )
    if not a:
        _show_runs(console, list_runs(project), list_baselines(project), as_json)
        return
    _show_compared(console, project, (a, b), (cluster, seed), as_json)


def _show_compared(
    console: Console, project: Path, asked: tuple[str, str], how: tuple[str, int], as_json: bool
) -> None:
    """Compare two runs; ``how`` is the cluster and the seed."""
    a, b = asked
    cluster, seed = how
    if b == "latest":
        b = _newest_like(project, a)
    first, second = open_results(project, (a, b), seed)
    manifests = (first.manifest, second.manifest)
    held = dict.fromkeys(str(one[BASELINE]) for one in manifests if BASELINE in one)
    baselines = open_baselines(project, tuple(held)) if held else ()
    clusters = clusters_of_results([*first.results, *second.results], cluster)
    found = compare_evaluations(first, second, seed=seed, clusters=clusters)
    changes = changed_settings(first, second)
    notes = [note for side in (first, second) if side.manifest for note in side.notes]
    notes += [clusters.note] if clusters.note else []
    depths = unequal_depths(found)
    if as_json:
        told = {"a": first.name, "b": second.name, **comparison_json(found)}
        shown: dict[str, Any] = {
            "settings": [asdict(change) for change in changes],
            "notes": [*notes, *depths],
        }
        if baselines:
            shown["baselines"] = [baseline_json(one) for one in baselines]
        console.json({**told, **shown})
        return
    names = _labels(project, (a, b), (first.name, second.name))
    lines = [comparison_table(found, names=names, width=console.columns())]
    if changes:
        texts = "\n".join(f"  {change.text}" for change in changes)
        lines.append(f"settings that differ, {names[0]} -> {names[1]}:\n{texts}")
    elif first.manifest and second.manifest:
        lines.append("the settings of the two runs are the same")
    if baselines:
        lines.append(baselines_table(baselines, console.columns()))
    lines += [f"note: {note}" for note in notes]
    console.result("\n\n".join(lines))


def _newest_like(folder: Path, name: str) -> str:
    """The newest run of the kind of another one: the newest baseline where that is one."""
    if Path(name).is_file():
        return "latest"
    known = list_baselines(folder)
    return known[0].id if any(run.id.startswith(name) for run in known) else "latest"


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


def _show_runs(
    console: Console, runs: Sequence[KnownRun], baselines: Sequence[KnownRun], as_json: bool
) -> None:
    if as_json:
        lists = {"runs": runs, "baselines": baselines}
        console.json({name: [asdict(run) for run in found] for name, found in lists.items()})
    elif not runs and not baselines:
        console.result("no runs yet: run `ragwright eval` or `ragwright score`")
    else:
        tables = []
        if runs:
            rows = [["run", "name", "started", "testset", "measures", "state"]]
            rows += [
                [run.id, run.name, run.started, run.testset, ", ".join(run.measures), run.state]
                for run in runs
            ]
            tables.append(table(rows, whole=(0,)))
        if baselines:
            rows = [["baseline", "name", "started", "pairs"]]
            rows += [[run.id, run.name, run.started, run.testset] for run in baselines]
            tables.append(table(rows, whole=(0,)))
        console.result("\n\n".join(tables))
