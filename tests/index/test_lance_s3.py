"""The Lance store on an object store: a local S3 server whose answers are broken on purpose."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import lancedb
import numpy as np
import pytest
from s3_server import KEY, NAME, SECRET, Bucket, serving

from ragwright.core import (
    Filter,
    RagwrightError,
    SchemaVersionError,
    StoreBusyError,
    StoreError,
)
from ragwright.index import LanceSizes, LanceStore, SqliteStore
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

pytestmark = [pytest.mark.slow, pytest.mark.needs_s3]

ADDRESS = f"s3://{NAME}/rag"
SMALL = LanceSizes(indexed=1, stale=1, read=1, exact=1)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, whose address and keys are in the environment."""
    with serving() as server:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_ENDPOINT", server.address),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        yield server


def opened() -> LanceStore:
    return LanceStore(ADDRESS, sizes=SMALL)


def test_answers_are_those_of_the_store_on_disk(
    bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From indexes on the object store, after an ingest, a change and a removal."""
    store = opened()
    local = SqliteStore(tmp_path_factory.mktemp("local") / "store.sqlite")
    for one in (store, local):
        one.upsert(PAIR, [make_indexed(make_document(n)) for n in range(30)])
        one.upsert(PAIR, [make_indexed(make_document(4, seed=9))])
        one.remove(["doc/0007"])
    store.settle(PAIR)
    view, expected = opened().view(PAIR), local.view(PAIR)
    assert view.snapshot == expected.snapshot
    queries = np.stack([make_vector(f"q{n}") for n in range(3)])
    for filters in ((), (Filter("client", ("client 1",)),)):
        assert view.keyword("engine APP_w304", 50, filters) == expected.keyword(
            "engine APP_w304", 50, filters
        )
        assert view.dense(queries, 20, filters) == expected.dense(queries, 20, filters)
    local.close()


def test_nothing_of_a_forgotten_document_stays_in_the_bucket(bucket: Bucket) -> None:
    store = opened()
    secret = make_document(90, text="zebraquartz " * 30, metadata={"client": "hidden person"})
    store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(9)])
    store.upsert(PAIR, [make_indexed(secret)])
    store.settle(PAIR)
    marks = (b"zebraquartz", b"hidden person", b"doc/0090")
    assert all(any(mark in one for one in bucket.files()) for mark in marks)
    store.remove([secret.id], purge=True)
    assert not [mark for mark in marks if any(mark in one for one in bucket.files())]
    assert len(store.view(PAIR).every(1000)) == sum(
        len(make_indexed(make_document(n)).chunks) for n in range(9)
    )


@pytest.mark.parametrize("fault", ["lost", "503"])
def test_a_commit_that_fails_in_the_middle_loses_nothing(bucket: Bucket, fault: str) -> None:
    """The manifest of the documents cannot be written: the batch is not there, the rest is."""
    store = opened()
    store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(5)])
    before = store.snapshot(PAIR)

    def broken(method: str, path: str) -> str:
        return fault if method == "PUT" and f"documents_{PAIR.key}" in path else ""

    more = [make_indexed(make_document(n)) for n in range(5, 8)]
    with bucket.broken(broken), pytest.raises(StoreError, match=r"committed before|later"):
        store.upsert(PAIR, more)
    again = opened()
    assert again.snapshot(PAIR) == before
    assert len(again.view(PAIR).keyword("engine", 1000)) > 0
    assert again.upsert(PAIR, more).added == 3
    assert len(again.content_hashes(PAIR)) == 8


def test_throttling_for_a_while_is_only_slow(bucket: Bucket) -> None:
    store = opened()
    asked = [0]

    def some(method: str, path: str) -> str:
        asked[0] += 1
        return "503" if asked[0] % 5 == 0 else "slow" if asked[0] % 7 == 0 else ""

    with bucket.broken(some):
        assert store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(5)]).added == 5
    assert asked[0] > 10


def refused(kind: type[RagwrightError], work: Callable[[], object]) -> str:
    with pytest.raises(kind) as told:
        work()
    text = str(told.value)
    assert SECRET not in text
    assert KEY not in text
    return text


def test_what_an_object_store_refuses_is_told(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Throttled for good, no right, no bucket, out of reach; keys are named, never shown."""
    with bucket.broken(lambda method, path: "503"):
        assert "throttling" in refused(StoreBusyError, opened)
    with bucket.broken(lambda method, path: "403"):
        assert "AWS_ACCESS_KEY_ID" in refused(StoreError, opened)
    assert "bucket" in refused(StoreError, lambda: LanceStore("s3://nowhere/rag"))
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    assert "does not answer" in refused(StoreError, opened)


def test_two_drivers_at_once_duplicate_nothing(bucket: Bucket) -> None:
    """Commits are conditional writes: one of two wins, the other tries again."""
    opened().upsert(PAIR, [make_indexed(make_document(50))])
    together = threading.Barrier(2)
    added: list[int] = []

    def write(seed: int) -> None:
        store = opened()
        together.wait(30)
        for start in (0, 4, 8):
            batch = [make_indexed(make_document(n, seed=seed)) for n in range(start, start + 4)]
            added.append(store.upsert(PAIR, batch).added)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    store = opened()
    assert sum(added) == 12
    assert len(store.content_hashes(PAIR)) == 13
    view = store.view(PAIR)
    every = view.every(1000)
    assert len(every) == len(set(every)) == view.statistics().chunks


def test_foreign_data_in_the_bucket_is_left_alone(bucket: Bucket) -> None:
    bucket.client.put_object(Bucket=NAME, Key="rag/notes.txt", Body=b"mine")
    store = opened()
    store.upsert(PAIR, [make_indexed(make_document(1))])
    store.remove(["doc/0001"], purge=True)
    assert b"mine" in set(bucket.files())
    other = lancedb.connect(f"s3://{NAME}/other")
    other.create_table("facts", data=[{"a": 1}])
    assert "not one of a ragwright store" in refused(
        StoreError, lambda: LanceStore(f"s3://{NAME}/other")
    )
    assert other.open_table("facts").count_rows() == 1


def test_a_store_of_an_earlier_schema_is_refused_with_what_to_do(bucket: Bucket) -> None:
    facts = lancedb.connect(ADDRESS).create_table(
        "facts", data=[{"name": "store", "value": "0"}, {"name": "schema", "value": "1"}]
    )
    assert facts.count_rows() == 2
    assert "ragwright ingest" in refused(SchemaVersionError, opened)
    assert os.environ["AWS_ENDPOINT"] == bucket.address
