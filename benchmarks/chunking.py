"""Chunkers: speed beside a naive split, and how often a chunk holds an answer whole.

    python -m benchmarks.chunking [--megabytes 50] [--size 400] [--overlap 50]

Speed is MB of text per second of processor time, one document, one core, for a tenth of the
text and all of it: equal figures mean linear time. The text is made from a seed. "naive" cuts
every n words by ``str.split`` and joins them again: it keeps no spans, no borders and no white
space. The second table needs the data set ``chunking_eval`` beside the checkout: the share of
its 790 reference spans that lie whole within one chunk.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks.data_sets import DATA
from ragwright.core import Document, Span
from ragwright.ingest import Chunker, ChunkOptions, make_chunker
from ragwright.models import WordTokenizer, sentence_spans

KINDS = ("tokens", "paragraphs", "sentences", "whole")


def sample_text(characters: int, seed: int = 0) -> str:
    """Prose-like text: words of usual lengths, sentences, paragraphs, some codes."""
    draw = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    vocabulary = [
        "".join(draw.choices(letters, range(26, 0, -1), k=draw.choice((2, 3, 3, 4, 5, 6, 8, 11))))
        for _ in range(5000)
    ] + [f"APP_w{n}" for n in range(100)]
    paragraphs = []
    for _ in range(400):
        sentences = []
        for _ in range(draw.randint(1, 8)):
            words = draw.choices(vocabulary, k=draw.randint(4, 30))
            sentences.append(" ".join(words).capitalize() + ". ")
        paragraphs.append("".join(sentences).rstrip() + "\n\n")
    parts, size = [], 0
    while size < characters:
        parts.append(draw.choice(paragraphs))
        size += len(parts[-1])
    return "".join(parts)[:characters]


def naive(text: str, size: int, overlap: int) -> list[str]:
    """Windows of white-space words; what a first attempt at chunking looks like."""
    words = text.split()
    return [
        " ".join(words[at : at + size]) for at in range(0, len(words) - overlap, size - overlap)
    ]


def rate(work: Callable[[], object], megabytes: float) -> float:
    """MB a second of processor time of one run: other programs do not count."""
    start = time.process_time()
    work()
    return megabytes / (time.process_time() - start)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--overlap", type=int, default=50)
    given = parser.parse_args()
    tokenizer = WordTokenizer()
    long = sample_text(given.megabytes * 1_000_000)
    short = long[: len(long) // 10]
    ways: dict[str, Callable[[str], object]] = {}
    for by in KINDS:
        chunker = make_chunker(ChunkOptions(by, given.size, given.overlap), tokenizer)
        ways[by] = partial(_chunks, chunker)
    ways["tokens only"] = tokenizer.bounds
    ways["sentences only"] = sentence_spans
    ways["naive"] = partial(naive, size=given.size, overlap=given.overlap)
    print(f"{'MB a second':15}{f'{len(short) / 1e6:g} MB':>10}{f'{len(long) / 1e6:g} MB':>10}")
    for name, way in ways.items():
        way(short[:100_000])  # tables that are made on first use are not part of the figure
        speeds = [rate(partial(way, text), len(text) / 1e6) for text in (short, long)]
        print(f"{name:15}{speeds[0]:10.1f}{speeds[1]:10.1f}")
    if (DATA / "chunking_eval").is_dir():
        print_wholes(DATA / "chunking_eval")


def print_wholes(folder: Path) -> None:
    """Share of reference spans that lie whole in one chunk, by way of cutting."""
    texts = {p.stem: p.read_text("utf-8") for p in sorted((folder / "corpora").glob("*.md"))}
    with (folder / "questions_df.csv").open(encoding="utf-8", newline="") as file:
        gold = [
            (row["corpus_id"], Span(reference["start_index"], reference["end_index"]))
            for row in csv.DictReader(file)
            for reference in json.loads(row["references"])
        ]
    print(f"\n{'words as tokens':60}{'chunks':>8}{'whole':>8}   of {len(gold)} reference spans")
    for by, size, overlap, slack in product(
        ("tokens", *KINDS[1:3]), (200, 400), (0, 50), (0, 0.15)
    ):
        if by != "tokens" and not slack:
            continue
        chunker = make_chunker(ChunkOptions(by, size, overlap, slack=slack), WordTokenizer())
        cut = {
            name: chunker.cut(Document(id=name, source=name, text=text))
            for name, text in texts.items()
        }
        whole = sum(any(s.overlap(g) == g.length for s in cut[name]) for name, g in gold)
        print(f"{chunker.spec:60}{sum(map(len, cut.values())):8}{whole / len(gold):8.3f}")


def _chunks(chunker: Chunker, text: str) -> object:
    return chunker.chunks(Document(id="d", source="d", text=text))


if __name__ == "__main__":
    main()
