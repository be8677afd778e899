"""Memory that building a view takes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 10_000

CHILD = """
import json, sys, tracemalloc
from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore
from ragwright.models import Analyzer

class Spaces(Analyzer):
    spec = "spaces"
    title_weight = 1

    def __init__(self):
        pass
    def tokens(self, text):
        return text.split()

pair = IndexSpec("whole", Spaces.spec, "", 0)
store = SqliteStore(sys.argv[1], analyzers=lambda spec: Spaces())
rows = int(sys.argv[2])
for first in range(0, rows, 1000):
    batch = []
    for number in range(first, first + 1000, 20):
        parts = [
            " ".join(f"w{(row * 7 + at * at) % 5003}" for at in range(60)) + " "
            for row in range(number, number + 20)
        ]
        text, chunks = "".join(parts), []
        for part in parts:
            start = chunks[-1].span.end if chunks else 0
            span = Span(start, start + len(part))
            name = f"d{number}:{span.start}-{span.end}"
            chunks.append(Chunk(name, f"d{number}", len(chunks), span, part, headings=(name,)))
        document = Document(f"d{number}", f"mem:{number}", text, metadata={"year": number})
        batch.append(IndexedDocument(document, tuple(chunks)))
    store.upsert(pair, batch)
tracemalloc.start()
view = store.view(pair)
found = {"peak": tracemalloc.get_traced_memory()[1], "own": view.statistics().bytes}
found["hits"] = len(view.keyword("w17", rows))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_view_is_built_within_a_few_times_its_own_size(tmp_path: Path) -> None:
    """Objects for each chunk and posting took 4 GB for 200,000 chunks."""
    arguments = [sys.executable, "-c", CHILD, str(tmp_path / "store.sqlite"), str(ROWS)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["hits"] > 0
    above = found["peak"] - found["own"]
    assert above < 25 * 2**20, f"{above / 2**20:.0f} MiB above {found['own'] / 2**20:.0f} MiB"
