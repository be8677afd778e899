"""Vectors that no search can use: kept out of the index, found in it, and made again."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_server import Raw, RawServer, raw_server
from small_project import MakeProject
from waiting import skip_short_pauses

from ragwright import Session, Workbench
from ragwright.core import ModelError, RagwrightError

TEXTS = {f"{n}.md": f"# {n}\n\n{n} is a word in a manual about cars.\n" for n in ("oil", "fuel")}


def word_vector(text: str, width: int) -> list[float]:
    """Counts of the words by their hash: equal texts, equal vectors."""
    counts = [0.01] * width
    for word in re.findall(r"\w+", text.lower()):
        counts[zlib.crc32(word.encode()) % width] += 1.0
    return counts


def embeddings(vector: Callable[[str], Any]) -> Callable[[str, Any], Raw]:
    def reply(_path: str, body: Any) -> Raw:
        made = [{"index": i, "embedding": vector(t)} for i, t in enumerate(body["input"])]
        return Raw(json.dumps({"data": made}).encode())

    return reply


SOUND = embeddings(lambda text: word_vector(text, 8))
BAD = {
    "zeros": embeddings(lambda _: [0.0] * 8),
    "overflowing": embeddings(lambda text: [v * 1e30 for v in word_vector(text, 8)]),
    "denormal": embeddings(lambda text: [v * 1e-30 for v in word_vector(text, 8)]),
    "one number in base 64": embeddings(lambda _: "AAAAAA=="),
    "one vector for all": embeddings(lambda _: [1.0] * 8),
}


@pytest.fixture
def server() -> Iterator[RawServer]:
    with raw_server(SOUND) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, server: RawServer) -> Path:
    return MakeProject(tmp_path)(f"embed: {{model: '{server.url}#m'}}\n", **TEXTS)


def opened(folder: Path) -> Workbench:
    return Workbench.open(folder, Session(("budget.concurrency=1",)))


def texts_sent(server: RawServer) -> list[str]:
    sent = [text for body in server.bodies for text in body["input"]]
    return [text for text in sent if "manual" in text]


def stored(folder: Path) -> np.ndarray:
    """The vectors in the file, one row each."""
    with sqlite3.connect(folder / ".ragwright/data/store.sqlite") as db:
        rows = [np.frombuffer(raw, np.float32) for (raw,) in db.execute("SELECT data FROM vectors")]
    db.close()
    return np.stack(rows)


def dense_score(bench: Workbench, question: str) -> float:
    hit = bench.retrieve(question).hits[0]
    return float(hit.channels["dense"].score)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD)
def test_a_server_of_bad_vectors_leaves_the_index_as_it_was(
    kind: str, folder: Path, server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_short_pauses(monkeypatch)
    server.script = BAD[kind]
    with opened(folder) as bench, pytest.raises(ModelError):
        bench.ingest()
    server.script = SOUND
    with opened(folder) as bench:  # nothing of it was kept, in the cache either
        assert bench.ingest().counts.added == 2
    before = stored(folder)
    (folder / "docs/oil.md").write_text("# oil\n\nAnother word in the manual.\n", "utf-8")
    server.script = BAD[kind]
    with opened(folder) as bench:
        with pytest.raises(ModelError):
            bench.ingest(embed_again=True)
        server.script = SOUND
        assert dense_score(bench, "oil is a word in a manual about cars") > 0.9
        assert bench.ingest().counts.changed == 1
    assert len(before) == 2
    assert len(stored(folder)) == 3, "the vector of the former text stays for a while"


@pytest.mark.slow
def test_a_text_with_a_bad_vector_costs_its_own_document_only(
    folder: Path, server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_short_pauses(monkeypatch)
    with opened(folder) as bench:
        bench.ingest()
    for name in TEXTS:
        path = folder / "docs" / name
        path.write_text(path.read_text("utf-8") + "\nA line more.\n", "utf-8")

    server.script = embeddings(lambda t: [0.0] * 8 if "fuel" in t else word_vector(t, 8))
    with opened(folder) as bench:
        report = bench.ingest()
        assert report.counts.changed == 1
        [failure] = report.failures
        assert failure.source == "docs/fuel.md"
        assert "a vector of zeros" in failure.error.what
        kept = {d.id: d.text for d in bench.documents()}
        assert "A line more." in kept["docs/oil.md"]
        assert "A line more." not in kept["docs/fuel.md"]
    server.script = SOUND
    with opened(folder) as bench:
        assert bench.ingest().counts.changed == 1


def test_embed_again_replaces_every_stored_vector(folder: Path, server: RawServer) -> None:
    with opened(folder) as bench:
        bench.ingest()
        first = bench.project.target().snapshot
    before = stored(folder)
    server.script = embeddings(lambda text: word_vector(text, 8)[::-1])
    server.bodies.clear()
    with opened(folder) as bench:
        assert bench.ingest().embedded == 0
        assert texts_sent(server) == []
        report = bench.ingest(embed_again=True)
        assert (report.embedded, report.counts.unchanged) == (2, 2)
        assert bench.project.target().snapshot != first
    assert np.allclose(stored(folder)[:, ::-1], before)
    with Workbench.open(folder, Session(reuse=False)) as bench:
        assert dense_score(bench, "oil is a word in a manual about cars") > 0.9


def test_another_length_is_refused_until_all_is_embedded_again(
    folder: Path, server: RawServer
) -> None:
    with opened(folder) as bench:
        bench.ingest()
    server.script = embeddings(lambda text: word_vector(text, 12))
    (folder / "docs/oil.md").write_text("# oil\n\nAnother word in the manual.\n", "utf-8")
    with opened(folder) as bench:
        with pytest.raises(RagwrightError, match="--embed-again"):
            bench.ingest()
        with pytest.raises(RagwrightError, match="--embed-again"):
            bench.retrieve("a question that was never asked")
        report = bench.ingest(embed_again=True)
        assert report.counts.added == 2
        assert "length 12, not 8" in report.notes[0]
    with opened(folder) as bench:
        assert dense_score(bench, "fuel is a word in a manual about cars") > 0.9
    assert stored(folder).shape == (2, 12)
