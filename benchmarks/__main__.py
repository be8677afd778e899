"""Every benchmark in turn: `make bench`. Those that lack a data set or a model say so."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "start",
    "runner",
    "index",
    "relaxed",
    "ingest",
    "chunking",
    "documents",
    "ocr",
    "extractive",
    "retrieval",
    "codes",
    "french",
    "glossary",
    "multihop",
    "rerank",
    "results",
    "measures",
    "judges",
    "report",
    "serving",
)


def main() -> None:
    """Run each in a process of its own."""
    for name in NAMES:
        print(f"\n## {name}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False)


if __name__ == "__main__":
    main()
