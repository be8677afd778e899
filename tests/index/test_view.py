"""Scores against other implementations; segments, saved views, memory of old states."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import bm25s
import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, SnapshotGoneError, Span, StoreBusyError
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, StoreOptions
from ragwright.models import Analyzer


class Impatient(StoreOptions):
    """Waits hardly for another process."""

    busy_seconds = 0.05


DIMENSIONS = 16


class Spaces(Analyzer):
    spec = "spaces"
    title_weight = 1

    def __init__(self) -> None:
        """Without settings."""

    def tokens(self, text: str) -> list[str]:
        return text.split()


PAIR = IndexSpec("whole", Spaces.spec, "random", DIMENSIONS)
Open = Callable[..., SqliteStore]


@pytest.fixture
def open_one(tmp_path: Path) -> Iterator[Open]:
    opened: list[SqliteStore] = []

    def open_it(options: StoreOptions | None = None, views: Path | None = None) -> SqliteStore:
        path = tmp_path / "store.sqlite"
        store = SqliteStore(path, options, analyzers=lambda spec: Spaces(), views=views)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


def item(name: str, text: str, **fields: str) -> IndexedDocument:
    document = Document(name, f"mem:{name}", text, **fields)  # type: ignore[arg-type]
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    seed = np.random.default_rng(list(name.encode()))
    vector = seed.standard_normal((1, DIMENSIONS)).astype(np.float32)
    return IndexedDocument(document, (chunk,), vector / np.linalg.norm(vector))


def random_text(rng: random.Random) -> str:
    return " ".join(f"w{int(rng.paretovariate(0.7)) % 300}" for _ in range(rng.randint(1, 60)))


def lettered(text: str) -> str:
    """The same words without digits: with them they would be codes, which count for more."""
    return text.translate(str.maketrans("0123456789", "abcdefghij"))


def bm25s_scores(texts: dict[str, str], query: str, k1: float, b: float) -> dict[str, float]:
    names = sorted(texts)
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index([texts[name].split() for name in names], show_progress=False)
    scores = index.get_scores(query.split())
    return {f"{n}:0-{len(texts[n])}": s for n, s in zip(names, scores.tolist(), strict=True) if s}


@pytest.mark.slow
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_equal_bm25s_through_a_history_of_writes(
    open_one: Open, k1: float, b: float
) -> None:
    rng = random.Random(f"{k1}{b}")
    store = open_one(StoreOptions(k1=k1, b=b))
    texts: dict[str, str] = {}
    for step in range(25):
        batch = {f"d{rng.randrange(150):03d}": lettered(random_text(rng)) for _ in range(12)}
        texts |= batch
        store.upsert(PAIR, [item(name, text) for name, text in batch.items()])
        gone = rng.sample(sorted(texts), 3)
        for name in gone:
            del texts[name]
        store.remove(gone, PAIR) if step % 5 == 0 else store.upsert(PAIR, [])
        if step % 5:
            texts |= {name: lettered(random_text(rng)) for name in gone}
            store.upsert(PAIR, [item(name, texts[name]) for name in gone])
        view = store.view(PAIR)
        for query in map(lettered, ("w1 w2 w3", "w17 w1 w1", "w250 w99", "nothing")):
            expected = bm25s_scores(texts, query, k1, b) if texts else {}
            found = dict(view.keyword(query, 10_000))
            assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.slow
def test_a_view_grown_by_segments_equals_one_built_at_once(tmp_path: Path) -> None:
    rng = random.Random(2)
    texts = {f"d{n:03d}": random_text(rng) for n in range(200)}
    grown = SqliteStore(tmp_path / "a.sqlite", analyzers=lambda spec: Spaces())
    whole = SqliteStore(tmp_path / "b.sqlite", analyzers=lambda spec: Spaces())
    names = sorted(texts)
    for start in range(0, 200, 9):
        grown.upsert(PAIR, [item(name, "w1 old text " + name) for name in names[start:][:9]])
        grown.view(PAIR).close()
        grown.upsert(PAIR, [item(name, texts[name]) for name in names[start:][:9]])
        grown.view(PAIR).close()
    whole.upsert(PAIR, [item(name, texts[name]) for name in names])
    one, other = grown.view(PAIR), whole.view(PAIR)
    assert one.snapshot == other.snapshot
    assert grown.snapshot(PAIR) == whole.snapshot(PAIR)
    for query in ("w1 w2", "w5 w100 w7", "w3"):
        assert one.keyword(query, 500) == other.keyword(query, 500)
    queries = np.random.default_rng(1).standard_normal((5, DIMENSIONS)).astype(np.float32)
    assert one.dense(queries, 500) == other.dense(queries, 500)
    assert one.fields() == other.fields()
    assert one.statistics().tokens == other.statistics().tokens
    grown.close()
    whole.close()


@pytest.mark.slow
def test_a_dense_answer_does_not_depend_on_what_is_asked_beside_it(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item(f"d{n:04d}", f"x{n}") for n in range(3000)])
    view = store.view(PAIR)
    queries = np.random.default_rng(5).standard_normal((64, DIMENSIONS)).astype(np.float32)
    together = view.dense(queries, 20)
    assert together == tuple(view.dense(query[None, :], 20)[0] for query in queries)
    assert together[:7] == view.dense(queries[:7], 20)


def test_an_old_state_is_served_while_open_or_saved_and_refused_after(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1 w2"), item("b", "w1")])
    first = store.snapshot(PAIR)
    held = store.view(PAIR)
    answer = held.keyword("w1", 9)
    store.upsert(PAIR, [item("c", "w1 w3")])
    store.view(PAIR).close()
    assert store.view(PAIR, first).keyword("w1", 9) == answer
    held.close()
    again = open_one()
    assert again.view(PAIR, first).keyword("w1", 9) == answer
    for n in range(8):
        again.upsert(PAIR, [item(f"n{n}", "w1")])
        again.view(PAIR).close()
    with pytest.raises(SnapshotGoneError):
        again.view(PAIR, first)


def test_going_back_to_old_content_is_the_old_snapshot(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1"), item("b", "w2")])
    first = store.snapshot(PAIR)
    store.upsert(PAIR, [item("a", "changed")])
    assert store.snapshot(PAIR) != first
    store.upsert(PAIR, [item("a", "w1")])
    assert store.snapshot(PAIR) == first
    assert [key for key, _ in store.view(PAIR, first).keyword("w1", 3)] == ["a:0-2"]


def test_other_bm25_settings_are_another_snapshot(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1 w1 w2"), item("b", "w1")])
    other = open_one(StoreOptions(k1=0.5))
    assert other.snapshot(PAIR) != store.snapshot(PAIR)
    assert other.view(PAIR).keyword("w1", 2) != store.view(PAIR).keyword("w1", 2)


def on_disk(folder: Path, secret: bytes) -> bool:
    """True where a file below the folder holds these bytes."""
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_nothing_of_a_purged_document_stays_on_disk(open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    secret = "zebraquartz " * 30
    store.upsert(PAIR, [item("keep", "w1"), item("secret", secret, title="zebraquartz")])
    store.view(PAIR).close()
    assert on_disk(tmp_path, b"zebraquartz")
    store.remove(["secret"], purge=True)
    store.view(PAIR)
    assert not on_disk(tmp_path, b"zebraquartz")


def test_nothing_of_its_earlier_versions_stays_either(open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    keep = [item(f"keep{n}", "w1") for n in range(20)]
    store.upsert(PAIR, [*keep, item("secret", "zebraquartz " * 30)])
    store.view(PAIR).close()
    store.upsert(PAIR, [item("secret", "harmless")])
    store.view(PAIR).close()
    assert on_disk(tmp_path, b"zebraquartz")
    store.remove(["secret"], purge=True)
    assert not on_disk(tmp_path, b"zebraquartz")
    assert not on_disk(tmp_path, b"harmless")
    assert len(store.view(PAIR).keyword("w1", 99)) == len(keep)


def test_a_purge_that_a_reader_holds_up_says_so_and_can_be_finished(
    open_one: Open, tmp_path: Path
) -> None:
    store = open_one(Impatient())
    store.upsert(PAIR, [item("a", "w1"), item("secret", "zebraquartz " * 30)])
    store.view(PAIR).close()
    reader = store.documents(PAIR)
    next(reader)
    with pytest.raises(StoreBusyError, match="1 document and 1 chunk removed"):
        store.remove(["secret"], purge=True)
    assert set(store.content_hashes(PAIR)) == {"a"}
    reader.close()  # type: ignore[attr-defined]
    assert store.remove(["secret"], purge=True).removed == 0
    assert not on_disk(tmp_path, b"zebraquartz")


def test_a_pruned_document_leaves_segments_and_pinned_runs_alone(
    open_one: Open, tmp_path: Path
) -> None:
    store = open_one()
    store.upsert(PAIR, [item(f"d{n:03d}", f"w1 w{n}") for n in range(200)])
    view = store.view(PAIR)
    pinned, before = view.snapshot, view.keyword("w1", 300)
    view.close()
    segments = set(tmp_path.rglob("*.seg"))
    store.remove(["d007"], PAIR)
    assert len(store.view(PAIR).keyword("w1", 300)) == 199
    assert set(tmp_path.rglob("*.seg")) == segments
    assert open_one().view(PAIR, pinned).keyword("w1", 300) == before


def test_everything_on_disk_is_for_its_owner_only(open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1")])
    store.view(PAIR)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_lost_or_damaged_cache_costs_time_only(open_one: Open, tmp_path: Path) -> None:
    views = tmp_path / "cache" / "views"
    store = open_one()
    store.upsert(PAIR, [item("a", "w1"), item("b", "w2 w1")])
    answer = store.view(PAIR).keyword("w1", 5)
    for damage in ("cut", "empty", "other", "gone"):
        for path in [p for p in views.rglob("*") if p.is_file()]:
            raw = path.read_bytes()
            path.unlink()
            if damage != "gone":
                changed = {"cut": raw[:-9], "empty": b"", "other": b"x" * len(raw)}[damage]
                path.write_bytes(changed)
        assert open_one().view(PAIR).keyword("w1", 5) == answer, damage


def test_a_cache_that_cannot_be_written_does_not_stop_answers(
    open_one: Open, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    store = open_one(views=blocked)
    store.upsert(PAIR, [item("a", "w1")])
    assert [key for key, _ in store.view(PAIR).keyword("w1", 5)] == ["a:0-2"]


def test_a_store_made_anew_does_not_meet_the_old_ones_segments(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    for text in ("w1 first", "w1 second"):
        store = SqliteStore(path, analyzers=lambda spec: Spaces())
        store.upsert(PAIR, [item("a", text)])
        hit = store.view(PAIR).lookup([f"a:0-{len(text)}"])[0]
        assert hit.text == text
        store.close()
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()


def test_filters_see_live_rows_only(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item(f"d{n}", "w1", language="en") for n in range(20)])
    store.upsert(PAIR, [item("z", "w1", language="fr")])
    store.view(PAIR).close()
    store.upsert(PAIR, [item("z", "w1", language="de")])
    view = store.view(PAIR)
    assert view.fields()["language"] == 21
    assert [key for key, _ in view.keyword("w1", 9, [Filter("language", ("de",))])] == ["z:0-2"]
    with pytest.raises(Exception, match="de, en"):
        view.keyword("w1", 9, [Filter("language", ("fr",))])


def test_dot_similarity_ranks_vectors_of_any_length(open_one: Open) -> None:
    pair = replace(PAIR, embedder="dot", similarity="dot")
    rng = np.random.default_rng(3)
    store = open_one()
    vectors = rng.standard_normal((50, 1, DIMENSIONS)).astype(np.float32)
    items = [
        replace(item(f"d{n}", f"x{n}"), vectors=vector * np.float32(10 * n + 10))
        for n, vector in enumerate(vectors)
    ]
    store.upsert(pair, items)
    query = rng.standard_normal((1, DIMENSIONS)).astype(np.float32)
    found = store.view(pair).dense(query, 5)[0]
    exact = {
        one.chunks[0].id: float(one.vectors[0].astype(float) @ query[0])  # type: ignore[index]
        for one in items
    }
    best = sorted(exact.items(), key=lambda pair: -pair[1])[:5]
    assert [key for key, _ in found] == [key for key, _ in best]
    assert [score for _, score in found] == pytest.approx([score for _, score in best])


def test_true_and_one_are_different_values(open_one: Open) -> None:
    store = open_one()
    yes = item("yes", "w1")
    one = item("one", "w1 w2")
    store.upsert(
        PAIR,
        [
            replace(yes, document=replace(yes.document, metadata={"flag": True})),
            replace(one, document=replace(one.document, metadata={"flag": 1})),
        ],
    )
    view = store.view(PAIR)
    for value, found in ((True, "yes:0-2"), (1, "one:0-5"), (1.0, "one:0-5")):
        assert [key for key, _ in view.keyword("w1", 9, [Filter("flag", (value,))])] == [found]


def test_dead_rows_are_in_no_dense_answer(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item(f"d{n:03d}", f"x{n}") for n in range(200)])
    store.view(PAIR).close()
    store.upsert(PAIR, [item(f"d{n:03d}", "changed") for n in range(0, 30, 3)])
    view = store.view(PAIR)
    query = np.random.default_rng(8).standard_normal((2, DIMENSIONS)).astype(np.float32)
    for k in (1, 50, 200, 1000):
        for found in view.dense(query, k):
            assert len(found) == min(k, 200)
            assert len(view.lookup([key for key, _ in found])) == len(found)


def test_the_best_is_the_best_where_float32_cannot_tell(open_one: Open) -> None:
    """Long vectors that nearly agree: their float32 products are in a random order."""
    rng = np.random.default_rng(4)
    pair = replace(PAIR, embedder="long", dimensions=256, similarity="dot")
    base = rng.standard_normal(256) * 20
    vectors = (base + rng.standard_normal((400, 256)) * 2e-6).astype(np.float32)
    store = open_one()
    items = [
        replace(item(f"d{n:03d}", f"w{n}"), vectors=vectors[n : n + 1]) for n in range(len(vectors))
    ]
    store.upsert(pair, items)
    view = store.view(pair)
    for _ in range(20):
        query = (rng.standard_normal(256) * 20).astype(np.float32)
        exact = vectors.astype(np.float64) @ query.astype(np.float64)
        for k in (1, 5):
            found = view.dense(query[None, :], k)[0]
            assert [score for _, score in found] == pytest.approx(
                sorted(exact.tolist(), reverse=True)[:k], abs=2e-6, rel=0
            )


@pytest.mark.slow
def test_many_small_writes_leave_few_segments(open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    for step in range(40):
        for path in tmp_path.rglob("*.seg"):
            os.utime(path, (1, 1))
        store.upsert(PAIR, [item(f"d{step:03d}", "w1")])
        store.view(PAIR).close()
    assert len(list(tmp_path.rglob("*.seg"))) < 20
    assert len(store.view(PAIR).keyword("w1", 99)) == 40


def test_a_young_segment_is_left_for_the_process_that_wrote_it(
    open_one: Open, tmp_path: Path
) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1")])
    store.view(PAIR).close()
    one = next(tmp_path.rglob("*.seg"))
    young, old = one.with_name("young.seg"), one.with_name("old.seg")
    for path in (young, old):
        path.write_bytes(one.read_bytes())
    os.utime(old, (1, 1))
    store.upsert(PAIR, [item("b", "w1")])
    store.view(PAIR).close()
    assert young.exists()
    assert not old.exists()


def test_scores_that_round_to_one_are_a_tie_whatever_k_is(open_one: Open) -> None:
    """Lengths that hardly count make scores that differ behind the sixth digit only."""
    store = open_one(StoreOptions(b=1e-6))
    texts = {f"d{n:03d}": " ".join(["w1", *["w2"] * (200 - n)]) for n in range(100)}
    store.upsert(PAIR, [item(name, text) for name, text in texts.items()])
    view = store.view(PAIR)
    every = view.keyword("w1", 100)
    for k in (1, 5, 50):
        assert view.keyword("w1", k) == every[:k]
    assert len({score for _, score in every}) < 10
