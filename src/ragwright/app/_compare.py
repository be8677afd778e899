"""`ragwright compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from typer import Argument, BadParameter, Option

from ..experiment import (
    BASELINE,
    KnownRun,
    clusters_of_results,
    compare_evaluations,
    grounds,
    list_baselines,
    list_changed_settings,
    list_runs,
    open_baselines,
    open_results,
)
from ..project import Session
from ..report import (
    answer_changes,
    answer_changes_json,
    answer_changes_text,
    baseline_json,
    baselines_table,
    comparison_json,
    comparison_table,
    tutorial_json,
    tutorial_table,
    unequal_depths,
)
from ..training import TutorialOptions
from ._console import table
from ._flags import RUN_HELP, Flags, takes
from ._show import show_progress


@dataclass(frozen=True, slots=True)
class TableFlags:
    """The options of a table."""

    name: str = Option(
        "",
        "--table",
        help="tutorial: measure base, tuned, and both with reranking, in place of two runs.",
    )
    testset: str = Option(
        "", help="For --table: testset whose confirm split is used; by default one is generated."
    )
    tuned: list[str] | None = Option(
        None,
        metavar="KEY=VALUE",
        help="For --table: settings of the tuned rows, such as embed.model=st:models/NAME.",
    )
    rerank: str = Option("", help="For --table: reranking model; by default the configured one.")
    candidates: int = Option(20, min=1, help="For --table: number of hits to rerank.")
    keep: int = Option(
        2, min=1, help="For --table: number of passages for an answer after reranking."
    )
    questions: int = Option(50, min=2, help="For --table: number of questions to generate.")


def show_table(flags: Flags, own: TableFlags) -> None:
    """Measure the table and print it."""
    if own.name != "tutorial":
        raise BadParameter(f"no table {own.name!r}; the table is: tutorial", param_hint="--table")
    console = flags.console
    options = TutorialOptions(
        own.testset,
        "",
        own.questions,
        tuple(own.tuned or ()),
        own.rerank,
        own.candidates,
        own.keep,
        flags.seed,
    )
    session = Session(flags.settings, max_cost=flags.max_cost)
    with flags.open(session) as bench, show_progress(console, bench):
        tutorial = bench.tutorial(options)
    console.show(
        lambda: tutorial_json(tutorial),
        lambda: "\n".join(
            [
                tutorial_table(tutorial, console.columns()),
                "",
                *(f"run: {row.name}: {', '.join(row.runs)}" for row in tutorial.rows if row.runs),
                *(f"note: {note}" for note in tutorial.notes),
            ]
        ),
    )


@takes("cluster project overrides as_json output max_cost seed")
def command(
    flags: Flags,
    options: TableFlags,
    a: str = Argument("", help=f"{RUN_HELP} Without one, the runs are listed."),
    b: str = Argument("latest", help="The run that is judged against A; named in the same way."),
) -> None:
    """Compare two runs row by row.

    Each difference has an interval, a test, and the number of rows needed to be sure.

    Answers that differ are listed below: their texts, lost and new citations, and abstentions.
    Two runs of `ragwright baseline` are compared by the distances of their answers; S_b and S_e of
    both are shown below.
    """
    if options.name:
        show_table(flags, options)
    elif flags.overrides:
        raise BadParameter(
            "two stored runs are compared as they are; settings are for a table (--table tutorial)",
            param_hint="--set",
        )
    elif a:
        _show_compared(flags, a, _newest_like(flags.project, a) if b == "latest" else b)
    else:
        _show_runs(flags, list_runs(flags.project), list_baselines(flags.project))


def _show_compared(flags: Flags, a: str, b: str) -> None:
    """Compare two runs and print the differences."""
    console, project, seed = flags.console, flags.project, flags.seed
    first, second = open_results(project, (a, b), seed)
    manifests = (first.manifest, second.manifest)
    ids = dict.fromkeys(str(manifest[BASELINE]) for manifest in manifests if BASELINE in manifest)
    baselines = open_baselines(project, tuple(ids)) if ids else ()
    clusters = clusters_of_results([*first.results, *second.results], flags.cluster)
    comparison = compare_evaluations(first, second, seed=seed, clusters=clusters)
    changes = list_changed_settings(first, second)
    answers = answer_changes(first, second)
    notes = [note for side in (first, second) if side.manifest for note in side.notes]
    notes += [clusters.note] if clusters.note else []
    notes += grounds(first.results, first.summaries)
    if flags.as_json:
        document = {
            "a": first.name,
            "b": second.name,
            **comparison_json(comparison),
            "answers": answer_changes_json(*answers),
            "settings": [asdict(change) for change in changes],
            "notes": [*notes, *unequal_depths(comparison)],
        }
        if baselines:
            document["baselines"] = [baseline_json(baseline) for baseline in baselines]
        console.json(document)
        return
    names = _labels(project, (a, b), (first.name, second.name))
    lines = [comparison_table(comparison, names=names, width=console.columns())]
    if text := answer_changes_text(*answers, names, console.columns()):
        lines.append(text)
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
    """The newest run of the same kind as another: an evaluation or a baseline."""
    if Path(name).is_file():
        return "latest"
    known = list_baselines(folder)
    return known[0].id if any(run.id.startswith(name) for run in known) else "latest"


def _labels(folder: Path, words: tuple[str, str], runs: tuple[str, str]) -> tuple[str, str]:
    """Labels of two runs: their names, or the words that the user typed."""
    named: dict[str, str] = {}
    if any(not Path(word).is_file() for word in words):
        named = {run.id: run.name for run in list_runs(folder) if run.name}
    first, second = (
        run if Path(word).is_file() else named.get(run) or run
        for word, run in zip(words, runs, strict=True)
    )
    return (first, second) if first != second else runs


def _show_runs(flags: Flags, runs: Sequence[KnownRun], baselines: Sequence[KnownRun]) -> None:
    lists = {"runs": runs, "baselines": baselines}
    flags.console.show(
        lambda: {name: [asdict(run) for run in known] for name, known in lists.items()},
        lambda: _runs_text(runs, baselines),
    )


def _runs_text(runs: Sequence[KnownRun], baselines: Sequence[KnownRun]) -> str:
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
    return "\n\n".join(tables) or "no runs yet: run `ragwright eval` or `ragwright score`"
