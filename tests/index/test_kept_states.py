"""Kept states of both stores: restored exactly, forgotten entirely, whole after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Document, StoreError
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LanceStore,
    SqliteStore,
    Store,
    StoreOptions,
)
from ragwright.ingest import ChunkOptions, make_chunker
from ragwright.models import AnalyzerOptions, WordTokenizer, make_analyzer

CHUNKER = make_chunker(ChunkOptions(), WordTokenizer())
PAIR = IndexSpec(CHUNKER.spec, make_analyzer(AnalyzerOptions()).spec, "fixed", 2)


def indexed(name: str, text: str) -> IndexedDocument:
    document = Document(name, name, text)
    chunks = tuple(CHUNKER.chunks(document))
    angle = float(len(text))
    rows = [[np.cos(angle), np.sin(angle)] for _ in chunks]
    return IndexedDocument(document, chunks, np.array(rows, dtype=np.float32))


def opened(kind: str, folder: Path, options: StoreOptions | None = None) -> Store:
    """A store of a kind in a folder."""
    if kind == "lance":
        return LanceStore(folder / "store.lance", options)
    return SqliteStore(folder / "store.sqlite", options)


def contents(store: Store) -> dict[str, str]:
    return {document.id: document.text for document in store.documents(PAIR)}


KINDS = [
    "sqlite",
    pytest.param(
        "lance",
        marks=pytest.mark.slow,
    ),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Store:
    store = opened(kind, tmp_path, StoreOptions(kind=kind, keep_snapshots=3))
    store.upsert(PAIR, [indexed("a", "Apples are red."), indexed("b", "Bananas are yellow.")])
    store.keep_state(PAIR, "first", "{}")
    return store


def test_a_restored_state_answers_and_is_named_as_it_was_and_can_be_undone(
    store: Store,
) -> None:
    name, before = store.snapshot(PAIR), contents(store)
    hits = store.view(PAIR).keyword("apples", 5)
    vector = np.array([[1.0, 0.0]], dtype=np.float32)
    near = store.view(PAIR).dense(vector, 5)
    store.upsert(PAIR, [indexed("a", "Apricots are orange."), indexed("c", "Cherries are sour.")])
    store.remove(["b"], PAIR)
    changed = contents(store)
    assert store.document("b") is None
    counts = store.restore(PAIR, 1)
    assert (counts.added, counts.removed, counts.unchanged) == (2, 2, 0)
    assert contents(store) == before
    assert store.snapshot(PAIR) == name
    assert store.view(PAIR).keyword("apples", 5) == hits
    assert store.view(PAIR).dense(vector, 5) == near
    assert not store.view(PAIR).keyword("cherries", 5)
    states = store.kept_states()
    assert [state.note for state in states] == ["first", "before restoring 1", "restored 1"]
    store.restore(PAIR, states[1].number)
    assert contents(store) == changed
    # a state in between is exact too, although the document came back under another number
    assert store.state_hashes(3) == {
        "a": indexed("a", before["a"]).content_hash(),
        "b": indexed("b", before["b"]).content_hash(),
    }


def test_states_beyond_the_number_are_dropped_with_what_only_they_hold(
    store: Store, tmp_path: Path
) -> None:
    for number in range(5):
        store.upsert(PAIR, [indexed("a", f"Version {number} of the apples.")])
        store.keep_state(PAIR, str(number))
        store.keep_state(PAIR, "equal states are kept once")
    assert [state.note for state in store.kept_states()] == ["2", "3", "4"]
    with pytest.raises(StoreError, match="no snapshot 1"):
        store.restore(PAIR, 1)
    store.restore(PAIR, 4)
    assert contents(store)["a"] == "Version 2 of the apples."
    store.close()
    if isinstance(store, SqliteStore):  # LanceDB removes the bytes with its old versions
        raw = (tmp_path / "store.sqlite").read_bytes()
        assert b"Version 3 of" in raw
        assert b"Version 0 of" not in raw


def test_without_kept_states_nothing_of_a_former_version_stays(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqliteStore(path, StoreOptions(keep_snapshots=3))
    store.upsert(PAIR, [indexed("a", "Apples are red.")])
    store.keep_state(PAIR)
    store.upsert(PAIR, [indexed("a", "Apricots are orange.")])
    store.close()
    store = SqliteStore(path, StoreOptions(keep_snapshots=0))
    store.keep_state(PAIR)
    assert not store.kept_states()
    store.close()
    assert b"Apples are red" not in path.read_bytes()


def test_forgetting_reaches_every_kept_state(store: Store, tmp_path: Path) -> None:
    store.upsert(PAIR, [indexed("a", "Apricots are orange.")])
    store.keep_state(PAIR)
    store.remove(["a"], PAIR)
    store.keep_state(PAIR)
    assert store.remove(["a"], purge=True).removed == 2
    store.restore(PAIR, 1)
    assert contents(store) == {"b": "Bananas are yellow."}
    store.close()
    left = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"Apples" in raw or b"Apricots" in raw for raw in left)
    assert not any(b"apricot" in raw or b"apple" in raw for raw in left)


def test_a_kill_while_restoring_leaves_one_of_the_two_states(kind: str, tmp_path: Path) -> None:
    store = opened(kind, tmp_path)
    old = [indexed(f"d{number:03}", f"Old text {number}.") for number in range(300)]
    store.upsert(PAIR, old)
    store.keep_state(PAIR)
    store.upsert(PAIR, [indexed(item.document.id, "New text.") for item in old])
    store.keep_state(PAIR)
    store.close()
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from ragwright.index import IndexSpec, StoreOptions, open_store\n"
        "pair = IndexSpec(**json.loads(sys.argv[3]))\n"
        "path = sys.argv[2]\n"
        "options = StoreOptions(kind=sys.argv[1], path=path)\n"
        "store = open_store(options, Path(path).parent)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for at in (0, -2):\n"
        "        store.restore(pair, store.kept_states()[at].number)\n"
    )
    path = next(path for path in tmp_path.iterdir() if path.name.startswith("store"))
    for wait in (0.02, 0.07, 0.13):
        process = subprocess.Popen(
            [sys.executable, "-c", code, kind, str(path), json.dumps(asdict(PAIR))],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with_store = opened(kind, tmp_path)
        texts = set(contents(with_store).values())
        assert len(contents(with_store)) == 300
        assert texts == {"New text."} or all(text.startswith("Old") for text in texts)
        with_store.close()
