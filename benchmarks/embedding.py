"""Local embedding: ONNX against sentence-transformers, in one run and on one thread.

    python -m benchmarks.embedding MODEL_FOLDER [--texts FILE]

MODEL_FOLDER is a sentence-transformers folder; it is exported to a temporary ONNX folder.
Prints texts per second, the ratio, and how far the vectors lie apart. Both sides take turns,
so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragwright.models import OnnxEmbedder, SentenceTransformerEmbedder, export_onnx

ROUNDS = 5


def passages(text: str, words: int, count: int) -> list[str]:
    """The first ``count`` runs of so many words."""
    tokens = text.split()
    cut = [" ".join(tokens[i * words : (i + 1) * words]) for i in range(count)]
    return [p for p in cut if p]


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one go."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(name: str, texts: list[str], folder: Path, exported: Path) -> None:
    """Measure one set of texts and print a line for each way."""
    onnx = OnnxEmbedder(exported)
    ours = SentenceTransformerEmbedder(folder)
    theirs = ours._model
    ways: dict[str, Callable[[], object]] = {
        "onnx: (alone, repeatable to the byte)": lambda: onnx.embed_batch(texts),
        "st: (alone, repeatable to the byte)": lambda: ours.embed_batch(texts),
        "sentence-transformers encode(batch_size=32)": lambda: theirs.encode(
            texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False
        ),
    }
    for work in ways.values():
        work()
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, work in ways.items():
            times[way].append(seconds(work))
    base = float(np.median(times["sentence-transformers encode(batch_size=32)"]))
    tokens = onnx.tokenizer()
    mean = sum(tokens.count(t) for t in texts) / len(texts)
    print(f"{name}: {len(texts)} texts of {mean:.0f} tokens, 1 thread, median of {ROUNDS}")
    for way, taken in times.items():
        middle = float(np.median(taken))
        print(f"  {way:46} {len(texts) / middle:8.1f} texts/s   x{base / middle:.2f}")
    apart = np.abs(onnx.embed_batch(texts) - ours.embed_batch(texts)).max()
    print(f"  largest difference of a component, onnx: to st: {apart:.1e}")


def main() -> None:
    """Read the arguments and measure sentences and passages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, required=True, help="a text file to cut from")
    parser.add_argument("--count", type=int, default=64)
    given = parser.parse_args()
    text = given.texts.read_text("utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        exported = export_onnx(given.folder, Path(temporary) / "model")
        report("sentences", passages(text, 22, given.count * 2), given.folder, exported)
        report("passages", passages(text, 150, given.count), given.folder, exported)


if __name__ == "__main__":
    main()
