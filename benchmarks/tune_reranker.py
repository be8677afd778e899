r"""Training a model of the search from all-MiniLM-L6-v2 on a CPU: what held-out questions gain.

    python -m benchmarks.tune_reranker [NAME ...] [--part P] [--publish] [--folder F]

The collections and splits of ``benchmarks.tune_embedder``, searched by keywords and vectors.
``tune reranker`` is run as a user would, or with ``--part`` ``tune sparse`` or ``tune late``: it
starts from the embedding model, whose new head has never scored a pair, and whose new layer has
never encoded a text. Settings are the defaults, with fewer tokens, hits and epochs for time, and
smaller and larger steps for the few of them. Those of ``late`` were chosen on the French training
questions, one half of their articles against the other. No held-out question was looked at before.

With ``--folder`` the projects and their vectors are kept for the next run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.publish import Cell, Section, Table, publish
from benchmarks.tune_embedder import CASES, TITLES, aim, build_project, row
from ragwright.project import Project, Session, ingest_sources
from ragwright.training import (
    Mining,
    ModelTuning,
    TrainingOptions,
    Tuned,
    tune_late,
    tune_reranker,
    tune_sparse,
)

NAMES = ("claims", "french", "french_all", "claims_all")
_BRIEF = TrainingOptions(epochs=1, tokens=64, batch=16, rate=1e-4)
PARTS = {
    "reranker": (tune_reranker, "A reranker", _BRIEF, Mining("hard")),
    "sparse": (tune_sparse, "A learned sparse model", _BRIEF, Mining("hard")),
    "late": (
        tune_late,
        "A late interaction model",
        replace(_BRIEF, epochs=3, tokens=128),
        Mining("none"),
    ),
}
CANDIDATES = 5
"""Hits that are reranked: each costs a run of the model."""


def measured(part: str, name: str, folder: Path) -> tuple[Tuned, float, int]:
    """What training came to, its minutes of one core, and the number of documents."""
    case = CASES[name]()
    root = folder / name
    if not root.exists():
        build_project(case, root)
    settings = ("retrieve.search=hybrid", f"retrieve.rerank.candidates={CANDIDATES}")
    with Project.open(root, Session(settings)) as project:
        ingest_sources(project)
        started = time.process_time()
        tune, _, training, mining = PARTS[part]
        tuning = ModelTuning(
            measure=case.measure,
            training=training,
            mining=mining,
            on_step=lambda done, total: print(f"  step {done}/{total}", flush=True),
        )
        tuned = tune(project, str(root / "main.jsonl"), tuning)
        minutes = (time.process_time() - started) / 60
    print(tuned, f"{minutes:.1f} minutes of one core", flush=True)
    return tuned, minutes, len(case.documents)


def section(part: str, name: str, result: tuple[Tuned, float, int]) -> Section:
    """The section of the results page."""
    tuned, minutes, documents = result
    figures = tuned.training
    rows: list[dict[str, Cell]] = [row("held out", "hybrid", part, tuned.comparison)]
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
    words = f"{name} --part {part}" if part != "reranker" else name
    return Section(
        f"{PARTS[part][1]}: {TITLES[name].lower()}",
        [Table(rows, pairs)],
        notes,
        f"python -m benchmarks.tune_reranker {words} --publish",
        page="tuning-models",
        order=12,
    )


def main() -> None:
    """The cases that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all when none is given")
    parser.add_argument("--part", choices=PARTS, default="reranker", help="what is trained")
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    parser.add_argument("--folder", type=Path, help="where projects are kept; else deleted")
    given = parser.parse_args()
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            result = measured(given.part, name, given.folder or Path(folder))
        if given.publish:
            print(publish(f"tune-{given.part}-{name}", section(given.part, name, result)))


if __name__ == "__main__":
    main()
