r"""Training a reranker from all-MiniLM-L6-v2 on a CPU: what held-out questions gain.

    python -m benchmarks.tune_reranker [NAME ...] [--publish] [--folder F]

The collections and splits of ``benchmarks.tune_embedder``, searched by keywords and vectors.
``tune reranker`` is run as a user would: it starts from the embedding model, whose new head has
never scored a pair. Settings are the defaults, with fewer tokens, hits and epochs for time, and
smaller and larger steps for the few of them. No held-out question was looked at before.

With ``--folder`` the projects and their vectors are kept for the next run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.publish import Cell, Section, Table, publish
from benchmarks.tune_embedder import CASES, TITLES, aim, build_project, row
from ragwright.project import Project, Session, ingest_sources
from ragwright.training import ModelTuning, TrainingOptions, Tuned, tune_reranker

NAMES = ("claims", "french", "claims_all")
_BRIEF = TrainingOptions(epochs=1, tokens=64, batch=16, rate=1e-4)
CANDIDATES = 5
"""Hits that are reranked: each costs a run of the model."""


def measured(name: str, folder: Path) -> tuple[Tuned, float, int]:
    """What training came to, its minutes of one core, and the number of documents."""
    case = CASES[name]()
    root = folder / name
    if not root.exists():
        build_project(case, root)
    settings = ("retrieve.search=hybrid", f"retrieve.rerank.candidates={CANDIDATES}")
    with Project.open(root, Session(settings)) as project:
        ingest_sources(project)
        started = time.process_time()
        tuning = ModelTuning(
            measure=case.measure,
            training=_BRIEF,
            on_step=lambda done, total: print(f"  step {done}/{total}", flush=True),
        )
        tuned = tune_reranker(project, str(root / "main.jsonl"), tuning)
        minutes = (time.process_time() - started) / 60
    print(tuned, f"{minutes:.1f} minutes of one core", flush=True)
    return tuned, minutes, len(case.documents)


def section(name: str, result: tuple[Tuned, float, int]) -> Section:
    """The section of the results page."""
    tuned, minutes, documents = result
    figures = tuned.training
    rows: list[dict[str, Cell]] = [row("held out", "hybrid", "reranker", tuned.comparison)]
    settings = ", ".join(f"{key} {value}" for key, value in figures.settings.items())
    beside = ", ".join(f"{key} {value}" for key, value in tuned.beside.items())
    notes = (
        f"Training: {settings}. {figures.measure} of {figures.method} training questions: "
        f"{figures.before:.3f} -> {figures.after:.3f}. Chosen with it: {beside or 'nothing'}.",
        f"Training and the comparison took {minutes:.0f} minutes of one core; embedding the "
        "documents before it is not counted.",
        *aim(name, rows),
        *tuned.notes,
    )
    pairs = f"{figures.questions:,} training pairs, {documents:,} documents"
    return Section(
        f"A reranker: {TITLES[name].lower()}",
        [Table(rows, pairs)],
        notes,
        f"python -m benchmarks.tune_reranker {name} --publish",
        page="tuning-models",
        order=12,
    )


def main() -> None:
    """The cases that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all when none is given")
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    parser.add_argument("--folder", type=Path, help="where projects are kept; else deleted")
    given = parser.parse_args()
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            result = measured(name, given.folder or Path(folder))
        if given.publish:
            print(publish(f"tune-reranker-{name}", section(name, result)))


if __name__ == "__main__":
    main()
