"""`ragwright baseline`."""

from __future__ import annotations

import json
from dataclasses import replace

from typer import Option

from ..experiment import Baselining
from ..project import ProjectFolder
from ..report import baseline_json, baseline_table
from ._flags import WORK, Flags, takes
from ._show import show_forecast, show_progress


@takes(f"{WORK} output name")
def command(
    flags: Flags,
    testset: str = Option(help="Pairs: rows with a question, its answer and its chunk."),
    context: bool = Option(
        False, "--context", help="Also answer from the pair's own chunk, and without it."
    ),
    margin: float = Option(
        0.1,
        min=0.0,
        max=1.0,
        help="Largest change that counts as equal: a share of the way from the pairs' own answers "
        "to shuffled ones.",
    ),
) -> int:
    """Compare distances of answers with given pairs.

    The distances between questions and answers are smaller, equal or larger.

    An embedding model is needed: embed.model, or judge.embedder for the distances alone.

    --set is what the experiment changes: chunker, embedding model, chat model, prompt. -o
    FILE.jsonl writes every pair with its vectors and its distance.
    """
    console = flags.console
    ProjectFolder(flags.project).require()
    options = Baselining(flags.settings, context, margin, flags.resume, flags.name, flags.seed)
    with flags.open(replace(flags.session, overrides=())) as bench:
        if flags.dry_run:
            forecast, notes = bench.forecast_baseline(testset, options)
            show_forecast(console, forecast)
            for note in notes:
                console.remark(f"note: {note}")
            return 0
        with show_progress(console, bench):
            baseline = bench.baseline(testset, options)
    if flags.output is not None and flags.output.suffix == ".jsonl":
        lines = (json.dumps(pair.body(), ensure_ascii=False) for pair in baseline.pairs)
        console.result("\n".join(lines))
    elif flags.writes_json:
        console.json(baseline_json(baseline))
    else:
        console.result(baseline_table(baseline, console.columns()))
    return 0
