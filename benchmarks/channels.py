"""Learned sparse search over an index of many chunks: its time beside keyword and dense search.

    OMP_NUM_THREADS=1 python -m benchmarks.channels --rows 100000 --folder DIR [--publish]

The corpus is that of ``benchmarks.lance_scale``: chunks of words of real abstracts with synthetic
vectors of 384 dimensions. Sparse vectors are synthetic too: 200 terms a chunk of a vocabulary of
30,522, drawn by Zipf's law; a query has 10 terms, as an inference-free model gives it, or 40, as
SPLADE expands it, drawn by the same law, so that frequent terms, whose postings are long, are asked
for most. Questions are asked in turns with and without the channel, through a runner, from the text
to hits with their text. Models are replaced by a look-up.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoded import (
    ENCODER,
    Known,
    Times,
    filled,
    line,
    megabytes,
    routes_of,
    target_of,
    timed,
)
from benchmarks.lance_scale import PAIR, questions
from benchmarks.publish import Section, Table, publish, section_lines
from ragwright.retrieve import RetrieveOptions

VOCABULARY, TERMS, SHOWN = 30_522, 200, 10
QUERY_TERMS = (10, 40)
PLAIN = RetrieveOptions(top_k=SHOWN, channels=("keyword", "dense"))
SPARSE = RetrieveOptions(top_k=SHOWN, channels=("keyword", "dense", "sparse"))
SHARES = 1.0 / (np.arange(VOCABULARY) + 2.7)
SHARES /= SHARES.sum()


def sparse_vector(terms: int, seed: int) -> bytes:
    """A random sparse vector of about so many terms, in the form of the channel."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.choice(VOCABULARY, terms, p=SHARES))
    weights = rng.gamma(2.0, 0.4, len(drawn)).astype(np.float32)
    return drawn.astype(np.uint32).tobytes() + weights.tobytes()


def measured(rows: int, folder: Path) -> tuple[Table, list[str]]:
    """The table of times, and notes on size."""
    lines: list[dict[str, Any]] = []
    packing = 0.0
    with filled(rows, folder, lambda stamp: sparse_vector(TERMS, stamp)) as store:
        before = megabytes(folder / "views")
        asked = questions(folder)
        target = target_of(store, "sparse")
        for terms in QUERY_TERMS:
            known = Known(dict(asked), lambda at, n=terms: sparse_vector(n, 10**9 + at))  # type: ignore[misc]
            routes = routes_of(store, known)
            first = timed(routes, asked[0][0], target, SPARSE)
            packing = packing or first[0] / 1e3
            for text, _ in asked[1:10]:  # to warm up
                timed(routes, text, target, SPARSE)
            times: dict[str, list[Times]] = {"plain": [], "sparse": []}
            for number, (text, _) in enumerate(asked[10:]):
                for name in sorted(times, reverse=number % 2 == 0):
                    options = SPARSE if name == "sparse" else PLAIN
                    times[name].append(timed(routes, text, target, options))
            lines += [
                {"terms of a query": str(terms), **line(shown, times[name], times["plain"])}
                for name, shown in (
                    ("plain", "keyword + dense"),
                    ("sparse", "keyword + dense + sparse"),
                )
            ]
        size = store.encoding_size(PAIR, ENCODER)
    notes = [
        f"{size.bytes / size.chunks:,.0f} bytes a chunk in the store; the saved view grows from "
        f"{before:,.0f} to {megabytes(folder / 'views'):,.0f} MB. The first search after an ingest "
        f"packs it: {packing:.1f} s.",
        "Sparse vectors are random: about 160 of the terms are in more than an eighth of the "
        "chunks, and queries ask for these most. Models trained to avoid such terms are faster. "
        "Models are not part of the times: an embedding model adds the same to every line, a "
        "SPLADE model the encoding of the question to those with sparse; an inference-free model "
        "looks it up.",
    ]
    return Table(lines, f"{rows:,} chunks of {TERMS} terms, {len(asked) - 10} questions"), notes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    table, notes = measured(chosen.rows, chosen.folder)
    command = f"OMP_NUM_THREADS=1 python -m benchmarks.channels --rows {chosen.rows} --folder DIR"
    section = Section(
        f"Learned sparse search over {chosen.rows:,} chunks",
        [table],
        notes,
        f"{command} --publish",
        "channels",
        1,
    )
    if chosen.publish:
        print(publish(f"sparse-{chosen.rows}", section))
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
