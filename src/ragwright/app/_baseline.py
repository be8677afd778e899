"""`ragwright baseline`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from ..experiment import Baselining
from ..project import ProjectFolder
from ..report import baseline_json, baseline_table
from ..workbench import Workbench
from ._console import reported
from ._flags import RunFlags, with_flags
from ._show import show_forecast, show_progress


@reported
@with_flags
def command(
    testset: Annotated[
        str,
        typer.Option("--testset", help="Pairs: rows with a question, its answer and its chunk."),
    ],
    flags: RunFlags,
    context: Annotated[
        bool,
        typer.Option("--context", help="Also answer from the pair's own chunk, and without it."),
    ] = False,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            min=0.0,
            max=1.0,
            help="Change that counts as equal: share of the way from the pairs' own answers to "
            "shuffled ones.",
        ),
    ] = 0.1,
) -> int:
    """Compare distances of questions and answers with those of given pairs: smaller, equal or
    larger.

    An embedding model is needed: embed.model, or judge.embedder for the distances alone.

    --set is what the experiment changes: chunker, embedding model, chat model, prompt. -o
    FILE.jsonl writes every pair with its vectors and its distance.
    """
    console = flags.console
    ProjectFolder(flags.project).require()
    how = Baselining(flags.settings, context, margin, flags.resume, flags.name, flags.seed)
    with Workbench.open(flags.project, replace(flags.session(), overrides=())) as bench:
        if flags.dry_run:
            forecast, notes = bench.forecast_baseline(testset, how)
            show_forecast(console, forecast, flags.as_json)
            for note in notes:
                console.remark(f"note: {note}")
            return 0
        with show_progress(console, bench):
            found = bench.baseline(testset, how)
    suffix = "" if flags.output is None else flags.output.suffix
    if suffix == ".jsonl":
        lines = (json.dumps(pair.body(), ensure_ascii=False) for pair in found.pairs)
        console.result("\n".join(lines))
    elif flags.as_json or suffix == ".json":
        console.json(baseline_json(found))
    else:
        console.result(baseline_table(found, console.columns()))
    return 0
