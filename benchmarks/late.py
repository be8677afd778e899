"""Late interaction over an index of many chunks: its time beside keyword and dense search.

    OMP_NUM_THREADS=1 python -m benchmarks.late --rows 100000 --folder DIR [--publish]

The corpus is that of ``benchmarks.lance_scale``: chunks of words of real abstracts with synthetic
vectors of 384 dimensions. Vectors of tokens are synthetic too, 128 dimensions each, 32 for a query:
encoding 100,000 chunks would take hours here and does not change the time of a search. Queries are
asked in turns with and without late interaction, through a runner, from the text to hits with their
text. Models are replaced by a look-up, so that only the index is timed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

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
from ragwright.models import TokenVectors, passage_form, query_form
from ragwright.retrieve import RetrieveOptions

WIDTH, ASKED, CANDIDATES, MANY, SHOWN = 128, 32, 200, 600, 10
CHANNELS = ("keyword", "dense", "late")


def token_vectors(count: int, seed: int) -> TokenVectors:
    """Random vectors of length 1."""
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows, np.zeros((count, 2), np.int32))


def measured(rows: int, tokens: int, folder: Path) -> tuple[Table, list[str]]:
    """The table of times, and notes on size."""
    plain = RetrieveOptions(pool=CANDIDATES, top_k=SHOWN, channels=CHANNELS[:2])
    late = RetrieveOptions(pool=CANDIDATES, top_k=SHOWN, channels=CHANNELS)
    many = RetrieveOptions(pool=MANY, top_k=SHOWN, channels=CHANNELS)
    searches = {"plain": (plain, 0), "late": (late, CANDIDATES), "many": (many, MANY)}
    times: dict[str, list[Times]] = {name: [] for name in (*searches, "all")}
    with filled(rows, folder, lambda stamp: passage_form(token_vectors(tokens, stamp))) as store:
        view_before = megabytes(folder / "views")
        asked = questions(folder)
        known = Known(dict(asked), lambda number: query_form(token_vectors(ASKED, 10**9 + number)))
        routes = routes_of(store, known)
        targets = {number: target_of(store, "late", number) for number in (0, CANDIDATES, MANY)}
        packing = timed(routes, asked[0][0], targets[CANDIDATES], late)[0] / 1e3
        for text, _ in asked[1:10]:  # to warm up
            timed(routes, text, targets[CANDIDATES], late)
        for number, (text, _) in enumerate(asked[10:]):
            for name in sorted(searches, reverse=number % 2 == 0):
                options, candidates = searches[name]
                times[name].append(timed(routes, text, targets[candidates], options))
        times["all"] = [timed(routes, text, targets[0], late) for text, _ in asked[:5]]
        size = store.encoding_size(PAIR, ENCODER)
    shown = {
        "plain": "keyword + dense",
        "late": f"keyword + dense + late over {CANDIDATES} candidates",
        "many": f"keyword + dense + late over {MANY} candidates",
        "all": "keyword + dense + late over every chunk (5 queries)",
    }
    lines = [line(text, times[name], times["plain"]) for name, text in shown.items()]
    view = megabytes(folder / "views")
    notes = [
        f"{tokens} vectors a chunk: {size.bytes / size.chunks:,.0f} bytes a chunk in the store; "
        f"the saved view grows from {view_before:,.0f} to {view:,.0f} MB. The first search packs "
        f"it: {packing:.0f} s. {MANY} candidates have as many vectors as {CANDIDATES} chunks of "
        f"{tokens * MANY // CANDIDATES}.",
    ]
    return Table(lines, f"{rows:,} chunks of {tokens} vectors, {len(asked) - 10} queries"), notes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    tables, notes = [], []
    for tokens in chosen.tokens:
        table, more = measured(chosen.rows, tokens, chosen.folder / str(tokens))
        tables.append(table)
        notes += more
    notes.append(
        "Vectors are random. Models are not part of the times: an embedding model adds the same to "
        "every line, a late-interaction model the encoding of the question to the others. Where "
        "other programs share the cores, processor time is the safer comparison."
    )
    words = " ".join(map(str, chosen.tokens))
    run = "OMP_NUM_THREADS=1 python -m benchmarks.late"
    command = f"{run} --rows {chosen.rows} --tokens {words} --folder DIR"
    section = Section(
        f"Late interaction over {chosen.rows:,} chunks",
        tables,
        notes,
        f"{command} --publish",
        "channels",
        20,
    )
    print("\n".join(section_lines(section)))
    if chosen.publish:
        publish(f"late-{chosen.rows}", section)


if __name__ == "__main__":
    main()
