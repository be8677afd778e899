"""The Lance store on an object store: a local S3 server whose answers are broken on purpose."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lancedb
import numpy as np
import pytest
from s3_server import KEY, NAME, SECRET, Bucket, serving

from ragwright.core import Filter, RagwrightError, SchemaVersionError, StoreBusyError, StoreError
from ragwright.index import IndexedDocument, LanceSizes, LanceStore, SqliteStore
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

pytestmark = [pytest.mark.slow, pytest.mark.needs_s3]

ADDRESS = f"s3://{NAME}/rag"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, whose address and keys are in the environment."""
    with serving() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT", server.address)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server


def opened(address: str = ADDRESS) -> LanceStore:
    return LanceStore(address, sizes=LanceSizes(indexed=1, stale=1, read=1, exact=1))


def made(first: int, end: int, seed: int = 7) -> list[IndexedDocument]:
    return [make_indexed(make_document(n, seed=seed)) for n in range(first, end)]


def test_answers_are_those_of_the_store_on_disk(bucket: Bucket, tmp_path: Path) -> None:
    store, local = opened(), SqliteStore(tmp_path / "store.sqlite")
    for one in (store, local):
        one.upsert(PAIR, made(0, 30))
        one.upsert(PAIR, made(4, 5, seed=9))
        one.remove(["doc/0007"])
    store.settle(PAIR)
    view, expected = opened().view(PAIR), local.view(PAIR)
    assert view.snapshot == expected.snapshot
    queries, words = np.stack([make_vector(f"q{n}") for n in range(3)]), "engine APP_w304"
    for filters in ((), (Filter("client", ("client 1",)),)):
        assert view.keyword(words, 50, filters) == expected.keyword(words, 50, filters)
        assert view.dense(queries, 20, filters) == expected.dense(queries, 20, filters)
    local.close()


def test_nothing_of_a_forgotten_document_stays_and_foreign_data_does(bucket: Bucket) -> None:
    bucket.client.put_object(Bucket=NAME, Key="rag/notes.txt", Body=b"mine")
    store = opened()
    secret = make_document(90, text="zebraquartz " * 30, metadata={"client": "hidden person"})
    store.upsert(PAIR, made(0, 9))
    store.upsert(PAIR, [make_indexed(secret)])
    store.settle(PAIR)
    marks = (b"zebraquartz", b"hidden person", b"doc/0090")
    assert all(any(mark in one for one in bucket.files()) for mark in marks)
    store.remove([secret.id], purge=True)
    assert not [mark for mark in marks if any(mark in one for one in bucket.files())]
    assert len(store.view(PAIR).every(1000)) == sum(len(one.chunks) for one in made(0, 9))
    assert b"mine" in set(bucket.files())


@pytest.mark.parametrize("fault", ["lost", "503"])
def test_a_commit_that_fails_in_the_middle_loses_nothing(bucket: Bucket, fault: str) -> None:
    """The manifest of the documents cannot be written: the batch is not there, the rest is."""
    store = opened()
    store.upsert(PAIR, made(0, 5))
    before = store.snapshot(PAIR)

    def broken(method: str, path: str) -> str:
        return fault if method == "PUT" and f"documents_{PAIR.key}" in path else ""

    with bucket.broken(broken), pytest.raises(StoreError, match=r"committed before|later"):
        store.upsert(PAIR, made(5, 8))
    again = opened()
    assert again.snapshot(PAIR) == before
    assert len(again.view(PAIR).keyword("engine", 1000)) > 0
    assert again.upsert(PAIR, made(5, 8)).added == 3
    assert len(again.content_hashes(PAIR)) == 8


def refused(kind: type[RagwrightError], work: Callable[[], object]) -> str:
    with pytest.raises(kind) as told:
        work()
    assert SECRET not in str(told.value)
    assert KEY not in str(told.value)
    return str(told.value)


def test_what_the_bucket_refuses_is_told(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket.broken(lambda method, path: "503"):
        assert "throttling" in refused(StoreBusyError, opened)
    with bucket.broken(lambda method, path: "403"):
        assert "AWS_ACCESS_KEY_ID" in refused(StoreError, opened)
    assert "bucket" in refused(StoreError, lambda: opened("s3://nowhere/rag"))
    theirs = lancedb.connect(f"s3://{NAME}/other").create_table("facts", data=[{"a": 1}])
    said = refused(StoreError, lambda: opened(f"s3://{NAME}/other"))
    assert "not one of a ragwright store" in said
    assert theirs.count_rows() == 1
    rows = [{"name": "store", "value": "0"}, {"name": "schema", "value": "1"}]
    lancedb.connect(ADDRESS).create_table("facts", data=rows)
    assert "ragwright ingest" in refused(SchemaVersionError, opened)
    assert os.environ["AWS_ENDPOINT"] == bucket.address
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    assert "does not answer" in refused(StoreError, opened)


def test_two_drivers_at_once_duplicate_nothing(bucket: Bucket) -> None:
    """Commits are conditional writes: one of two wins, the other tries again."""
    opened().upsert(PAIR, made(50, 51))
    together, added = threading.Barrier(2), list[int]()

    def write(seed: int) -> None:
        store = opened()
        together.wait(30)
        added.extend(store.upsert(PAIR, made(n, n + 4, seed)).added for n in (0, 4, 8))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(added) == 12
    assert len(opened().content_hashes(PAIR)) == 13
    view = opened().view(PAIR)
    every = view.every(1000)
    assert len(every) == len(set(every)) == view.statistics().chunks
