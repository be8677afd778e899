r"""Training a reranker from all-MiniLM-L6-v2 on a CPU: what held-out questions gain.

    python -m benchmarks.tune_reranker [claims french] [--publish] [--folder F]

The collections and splits of ``benchmarks.tune_embedder``, searched by keywords and vectors.
``tune reranker`` is run as a user would: it starts from the embedding model, whose new head has
never scored a pair. Settings are the defaults, with fewer tokens, hits and epochs for time; no
held-out question was looked at before. With ``--folder`` the projects and their vectors are kept
for the next run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.publish import Cell, Section, Table, publish
from benchmarks.tune_embedder import CASES, TITLES, made, row
from ragwright.project import Project, Session, ingest_sources
from ragwright.training import Mining, ModelTuning, TrainingOptions, Tuned, tune_reranker

NAMES = ("claims", "french")
CANDIDATES = 5
"""Hits that are reranked: each costs a run of the model."""

TRAINING = TrainingOptions(epochs=2, tokens=96)


def measured(name: str, folder: Path) -> tuple[list[dict[str, Cell]], Tuned, float, int]:
    """Rows of a case, what training came to, its minutes of CPU, and the number of documents."""
    case = CASES[name]()
    root = folder / name
    if not root.exists():
        made(case, root)
    with Project.open(
        root, Session(("retrieve.search=hybrid", f"retrieve.rerank.candidates={CANDIDATES}"))
    ) as project:
        ingest_sources(project)
        started = time.process_time()
        how = ModelTuning(
            measure=case.measure,
            training=TRAINING,
            mining=Mining("hard"),
            on_step=lambda done, total: print(f"  step {done}/{total}", flush=True),
        )
        found = tune_reranker(project, str(root / "main.jsonl"), how)
        minutes = (time.process_time() - started) / 60
    print(found, flush=True)
    rows = [row("held out", "hybrid", "reranker", found.comparison)]
    return rows, found, minutes, len(case.documents)


def main() -> None:
    """The cases that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all when none is given")
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    parser.add_argument("--folder", type=Path, help="where projects are kept; else deleted")
    given = parser.parse_args()
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            rows, found, minutes, documents = measured(name, given.folder or Path(folder))
        figures = found.training
        settings = ", ".join(f"{key} {value}" for key, value in figures.settings.items())
        beside = ", ".join(f"{key} {value}" for key, value in found.beside.items())
        print(rows, f"{minutes:.1f} minutes of one core")
        notes = (
            f"Training: {settings}. {figures.measure} of {figures.method} training questions: "
            f"{figures.before:.3f} -> {figures.after:.3f}. Chosen with it: {beside or 'nothing'}.",
            f"Training and both searches took {minutes:.0f} minutes of one core.",
            *found.notes,
        )
        if given.publish:
            pairs = f"{figures.questions:,} training pairs, {documents:,} documents"
            section = Section(
                f"A reranker: {TITLES[name].lower()}",
                [Table(rows, pairs)],
                notes,
                f"python -m benchmarks.tune_reranker {name} --publish",
                page="tuning-models",
                order=12,
            )
            print(publish(f"tune-reranker-{name}", section))


if __name__ == "__main__":
    main()
