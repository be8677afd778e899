"""`ragwright demo`: the guide as the corpus and three questions; or a study."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from typer import Argument, Option

from ..core import SourceError, count_noun
from ..experiment import (
    ConfirmOptions,
    Study,
    SweepOptions,
    SweepResult,
    TrialResult,
    read_study,
)
from ..project import ProjectFolder, init_project
from ..report import BoardView, Report, leaderboard_table, report_subject, verdict_table
from ..testsets import SynthesisOptions, write_rows
from ..workbench import Workbench
from ._console import Console
from ._flags import Flags, takes
from ._serve import require_serving, serve_demo
from ._show import answer_text, ingest_text, show_progress

QUESTIONS = (
    "How does reciprocal rank fusion combine two rankings?",
    "Why do error codes break embedding search?",
    "When does an answer abstain?",
)
PERSONAS = ("engineer", "marketing")


def sample_corpus() -> Path:
    """Folder of the guide: inside the installed package, or in a checkout.

    Raises:
        SourceError: It is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "sample", package.parents[1] / "docs" / "guide"):
        if folder.is_dir():
            return folder
    raise SourceError(
        "the sample corpus is missing", where=str(package), hint="install ragwright again"
    )


def run_demo(folder: Path, console: Console, full: bool = False) -> None:
    """Build the demo project (or use an existing one), and ask, or run a whole study."""
    started = time.monotonic()
    if not ProjectFolder(folder).file.exists():
        shutil.copytree(sample_corpus(), folder / "docs", dirs_exist_ok=True)
        init_project(folder, ("docs/",))
        with (folder / "ragwright.yaml").open("a", encoding="utf-8") as file:
            file.write(f"\nserve: {{personas: [{', '.join(PERSONAS)}]}}\n")
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        console.result(
            f"# A workbench over {len(list((folder / 'docs').glob('*.md')))} pages of the guide\n\n"
            + ingest_text(report, time.monotonic() - started)
        )
        if full:
            run_full(bench, console, started)
        for question in () if full else QUESTIONS:
            console.result(f"\n# {question}\n\n{answer_text(bench.ask(question))}")
    name = "ragwright" if shutil.which("ragwright") else f"{sys.executable} -m ragwright"
    if full:
        console.result(
            f"\n# Done in {time.monotonic() - started:.1f} s. Try next\n\n"
            f"  cd {folder}\n"
            f"  {name} eval --testset testsets/demo.jsonl      # the current settings\n"
            f"  {name} diagnose --testset testsets/demo.jsonl  # where are points lost?\n"
            f"  {name} sweep studies/demo.yaml                 # edit it: any key may be a list"
        )
        return
    console.result(
        f"\n# Done in {time.monotonic() - started:.1f} s. Try next\n\n"
        f"  cd {folder}\n"
        f'  {name} ask "Which chunk size should I use?" --trace\n'
        f'  {name} retrieve "nDCG" -k 3 --explain\n'
        f"  {name} doctor\n\n"
        f"Then your own documents: edit `sources` in ragwright.yaml and run `{name} ingest`.\n"
        "With a chat model answers are written, also for personas; name one under `answer.model`."
    )


@takes("quiet")
def demo_command(
    flags: Flags,
    folder: Path = Argument(Path("ragwright-demo"), help="Folder to make the demo project in."),
    full: bool = Option(
        False, "--full", help="Make a testset, sweep settings, confirm, write a report."
    ),
    serve: bool = Option(
        False, "--serve", help="Then serve it (web pages, API, MCP) until Ctrl-C."
    ),
    port: int | None = Option(
        None, min=0, max=65535, help="Port of --serve; by default 8321; 0 takes any free port."
    ),
) -> None:
    """Build a demo project and ask three questions.

    Its documents are the guide of ragwright.
    """
    if serve:
        require_serving()
    run_demo(folder, flags.console, full)
    if serve:
        serve_demo(flags.console, folder, port)


QUESTION_COUNT = 120
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
    swept = _swept(bench, console, _study(bench, testset))
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
        confirmed = bench.confirm(swept.run, ConfirmOptions(clusters="document"))
    again = "\n(already confirmed: shown again, the confirm split was not opened)"
    text = verdict_table(confirmed.verdict, width=console.columns())
    console.result(f"{text}{again if confirmed.again else ''}")
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
        synthesis, _ = bench.synth(SynthesisOptions(QUESTION_COUNT))
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
        swept = bench.sweep(study, SweepOptions(on_trial=ended.append))
    if swept.stopped is not None:
        raise swept.stopped
    return swept
