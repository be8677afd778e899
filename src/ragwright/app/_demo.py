"""`ragwright demo`: the guide as the corpus and three questions; or a study."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from typer import Argument, Option

from ..core import SourceError
from ..project import ProjectFolder, init_project
from ..workbench import Workbench
from . import serving
from ._console import Console
from ._demo_full import run_full
from ._flags import Flags, takes
from ._show import answer_text, ingest_text

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
def command(
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
        serving.require_serving()
    run_demo(folder, flags.console, full)
    if serve:
        serving.serve_demo(flags.console, folder, port)
