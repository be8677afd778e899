"""`ragwright demo --full`: a testset, a sweep, a confirmed verdict and a report, all offline."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from ..core import count_noun
from ..experiment import (
    Confirmed,
    Confirming,
    Study,
    Sweeping,
    SweepResult,
    TrialResult,
    read_study,
)
from ..report import BoardView, Report, leaderboard_table, report_subject
from ..testsets import SynthesisOptions, write_rows
from ..workbench import Workbench
from ._console import Console
from ._show import show_progress

QUESTIONS = 120
_SHOWN = 6
_MEGABYTES = 15.0

_STUDY = """\
# Which chunk size, how many of them, and is a second look at them worth it?
#
# With no embedding model there is one way to search, by keywords. What can be searched
# differently offline is what happens to its hits: as they come, or reranked by their best
# sentence. With a model (embed.model in ragwright.yaml, then `ragwright ingest`) write instead:
#   retrieve: {search: [keyword, dense, hybrid]}
study:
  testset: testsets/demo.jsonl
  measures: nDCG@10, HitRate@3, SpanIoU@10
  # A larger top_k finds more and costs more to read: the front shows both.
  objective: [nDCG@10, context_tokens]
chunk: {size: [120, 250, 500]}
retrieve:
  top_k: [3, 5, 10]
  rerank: {model: ["", lexical]}
"""


def run_full(bench: Workbench, console: Console, started: float) -> Path:
    """Make a testset, sweep, confirm and report; the path of the report.

    Existing results are used: a second run shows the same and opens nothing.

    Raises:
        StoppedError: The budget or the user stopped the sweep; finished trials are kept.
    """

    def head(title: str) -> None:
        console.result(f"\n# {title} ({time.monotonic() - started:.0f} s)\n")

    testset = _testset(bench, console)
    head("Study: chunk size x top_k x reranking, on the tune split")
    study = _study(bench, testset)
    swept = _swept(bench, console, study)
    console.result(
        "No embedding model is set, so every trial searches by keywords; hits keep their order\n"
        "or are reranked by their best sentence. Questions are headings and sentences with a gap:\n"
        "they can distinguish settings, but users ask in other words.\n"
    )
    hidden = len(swept.board) - _SHOWN
    console.result(
        leaderboard_table(swept.board[:_SHOWN], view=BoardView(width=console.columns(120)))
    )
    console.result(f"and {hidden} more trials, in the report" if hidden > 0 else "")
    head("Verdict")
    with show_progress(console, bench):
        confirmed = bench.confirm(swept.run, Confirming(clusters="document"))
    console.result(_verdict(confirmed))
    head("Report")
    with console.progress(lambda: "writing the report"):
        subject = report_subject(bench.project.folder, bench.project.runs, [swept.run])
        text = Report(subject, _MEGABYTES).html()
    path = bench.project.folder.root.resolve() / "report.html"
    path.write_text(text, "utf-8")
    console.result(f"open in a browser: {path}")
    return path


def _testset(bench: Workbench, console: Console) -> Path:
    """The testset of the demo, made if it is missing."""
    path = bench.project.folder.testsets / "demo.jsonl"
    if path.exists():
        console.result(f"\n# Testset\n\n{path} exists already and is used")
        return path
    with console.progress(lambda: "making questions from the guide"):
        synthesis, _ = bench.synth(SynthesisOptions(QUESTIONS))
    write_rows(synthesis.rows, path)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(synthesis.made.items()))
    first = next(row for row in synthesis.rows if row.reference)
    console.result(
        f"\n# Testset: {count_noun(len(synthesis.rows), 'question')} without a model ({kinds})\n\n"
        f"  asked: {first.user_input}\n"
        f"  gold:  {first.reference}, in {first.reference_spans[0].document_id}"
    )
    return path


def _study(bench: Workbench, testset: Path) -> Study:
    """The study of the demo; writes its file if it is missing."""
    file = bench.project.folder.root / "studies" / "demo.yaml"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_STUDY, "utf-8")
    study = read_study(bench.project, file)
    # The file gives the testset relative to the project folder.
    return replace(study, options=replace(study.options, testset=str(testset)))


def _swept(bench: Workbench, console: Console, study: Study) -> SweepResult:
    ended: list[TrialResult] = []
    total = (study.size or 0) + 1
    with show_progress(console, bench, lambda: (len(ended), total, "trials")):
        swept = bench.sweep(study, Sweeping(on_trial=ended.append))
    if swept.stopped is not None:
        raise swept.stopped
    return swept


def _verdict(confirmed: Confirmed) -> str:
    """The verdict of both splits as text, and the settings it is about."""
    text = confirmed.verdict.text
    for trial in confirmed.verdict.confirmations:
        values = ", ".join(f"{key}: {value or 'none'}" for key, value in trial.values.items())
        text += f"\n{trial.trial} is {values}"
    if confirmed.again:
        text += "\n(already confirmed: shown again, the confirm split was not opened)"
    return text
