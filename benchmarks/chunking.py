"""Speed of the chunkers beside a naive split: MB of text a second, and whether it stays linear.

Run: ``python -m benchmarks.chunking [--megabytes 50]``. The text is made from a seed, so that
the figures need no data set. "naive" cuts every n words by ``str.split`` and joins them again:
it keeps no spans, no borders and no white space. One core, one process.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial

from ragwright.core import Document
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
    made, size = [], 0
    while size < characters:
        made.append(draw.choice(paragraphs))
        size += len(made[-1])
    return "".join(made)[:characters]


def naive(text: str, size: int, overlap: int) -> list[str]:
    """Windows of white-space words; what a first attempt at chunking looks like."""
    words = text.split()
    return [
        " ".join(words[at : at + size]) for at in range(0, len(words) - overlap, size - overlap)
    ]


def rate(work: Callable[[], object], megabytes: float) -> float:
    """MB a second of one run."""
    start = time.perf_counter()
    work()
    return megabytes / (time.perf_counter() - start)


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


def _chunks(chunker: Chunker, text: str) -> object:
    return chunker.chunks(Document(id="d", source="d", text=text))


if __name__ == "__main__":
    main()
