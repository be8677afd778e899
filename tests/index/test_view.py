"""Scores against other implementations; segments, saved views, memory of old states."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from numpy.typing import NDArray

from ragwright.core import Document, Filter, FilterError, SnapshotGoneError, StoreBusyError
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, StoreOptions
from ragwright.models import Analyzer
from ragwright.testing import make_indexed

WIDTH = 16
Open = Callable[..., SqliteStore]


class Impatient(StoreOptions):
    busy_seconds = 0.05


class Spaces(Analyzer):
    spec = "spaces"
    title_weight = 1

    def __init__(self) -> None:
        """Without settings."""

    def tokens(self, text: str) -> list[str]:
        return text.split()


PAIR = IndexSpec("whole", Spaces.spec, "random", WIDTH)


@pytest.fixture
def open_one(tmp_path: Path) -> Iterator[Open]:
    opened: list[SqliteStore] = []

    def open_it(
        options: StoreOptions | None = None, views: Path | None = None, name: str = "store"
    ) -> SqliteStore:
        path = tmp_path / f"{name}.sqlite"
        opened.append(SqliteStore(path, options, analyzers=lambda spec: Spaces(), views=views))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def item(name: str, text: str, vector: Any = None, **fields: Any) -> IndexedDocument:
    made = make_indexed(Document(name, f"mem:{name}", text, **fields), PAIR, size=100_000)
    return made if vector is None else replace(made, vectors=vector[None, :])


def put(store: SqliteStore, **texts: str) -> None:
    """Stores documents, and writes the view of that state."""
    store.upsert(PAIR, [item(name, text) for name, text in texts.items()])
    store.view(PAIR).close()


def queries(count: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)


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
def test_scores_equal_bm25s_through_many_writes(open_one: Open, k1: float, b: float) -> None:
    rng = random.Random(f"{k1}{b}")
    store = open_one(StoreOptions(k1=k1, b=b))
    texts: dict[str, str] = {}
    for step in range(15):
        batch = {f"d{rng.randrange(150):03d}": lettered(random_text(rng)) for _ in range(12)}
        texts |= batch
        put(store, **batch)
        gone = rng.sample(sorted(texts), 3)
        if step % 5:
            texts |= {name: lettered(random_text(rng)) for name in gone}
            put(store, **{name: texts[name] for name in gone})
        else:
            texts = {name: text for name, text in texts.items() if name not in gone}
            store.remove(gone, PAIR)
        view = store.view(PAIR)
        for query in map(lettered, ("w1 w2 w3", "w17 w1 w1", "w250 w99", "nothing")):
            expected = bm25s_scores(texts, query, k1, b)
            assert dict(view.keyword(query, 10_000)) == pytest.approx(expected, abs=5e-5)


def test_a_dense_answer_depends_on_no_other_and_holds_no_dead_row(open_one: Open) -> None:
    store = open_one()
    put(store, **{f"d{n:04d}": f"x{n}" for n in range(1000)})
    put(store, **{f"d{n:04d}": "changed" for n in range(0, 30, 3)})
    view, asked = store.view(PAIR), queries(64, 5)
    together = view.dense(asked, 20)
    assert together == tuple(view.dense(query[None, :], 20)[0] for query in asked)
    assert together[:7] == view.dense(asked[:7], 20)
    for k in (1, 50, 1000, 5000):
        for found in view.dense(asked[:2], k):
            assert len(found) == min(k, 1000)
            assert len(view.lookup([key for key, _ in found])) == len(found)


def test_old_states_are_served_while_open_or_saved_and_refused_after(open_one: Open) -> None:
    store = open_one()
    store.upsert(PAIR, [item("a", "w1 w2"), item("b", "w1")])
    first, held = store.snapshot(PAIR), store.view(PAIR)
    answer = held.keyword("w1", 9)
    put(store, c="w1 w3")
    assert store.snapshot(PAIR) != first
    assert store.view(PAIR, first).keyword("w1", 9) == answer
    held.close()
    again = open_one()
    assert again.view(PAIR, first).keyword("w1", 9) == answer
    other = open_one(StoreOptions(k1=0.5))  # other BM25 settings are another snapshot
    assert other.snapshot(PAIR) != store.snapshot(PAIR)
    assert other.view(PAIR).keyword("w1", 2) != store.view(PAIR).keyword("w1", 2)
    for n in range(8):
        put(again, **{f"n{n}": "w1"})
    with pytest.raises(SnapshotGoneError):
        again.view(PAIR, first)
    store.remove(["c", *(f"n{n}" for n in range(8))])  # back to the old content: its name again
    assert store.snapshot(PAIR) == first
    assert store.view(PAIR, first).keyword("w1", 9) == answer


def test_a_purge_that_a_reader_holds_up_can_be_finished(open_one: Open, tmp_path: Path) -> None:
    store = open_one(Impatient())
    put(store, a="w1", secret="zebraquartz " * 30)
    reader = store.documents(PAIR)
    next(reader)
    with pytest.raises(StoreBusyError, match="1 document and 1 chunk removed"):
        store.remove(["secret"], purge=True)
    assert set(store.content_hashes(PAIR)) == {"a"}
    reader.close()  # type: ignore[attr-defined]
    assert store.remove(["secret"], purge=True).removed == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"zebraquartz" in path.read_bytes() for path in files)
    assert len(files) > 1
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}  # for their owner only


def test_a_pruned_document_leaves_pinned_runs_alone(open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    put(store, **{f"d{n:03d}": f"w1 w{n}" for n in range(200)})
    pinned, before = store.snapshot(PAIR), store.view(PAIR).keyword("w1", 300)
    segments = set(tmp_path.rglob("*.seg"))
    store.remove(["d007"], PAIR)
    assert len(store.view(PAIR).keyword("w1", 300)) == 199
    assert set(tmp_path.rglob("*.seg")) == segments
    assert open_one().view(PAIR, pinned).keyword("w1", 300) == before


def test_a_cache_that_cannot_be_written_stops_no_answer(open_one: Open, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    store = open_one(views=tmp_path / "blocked")
    put(store, a="w1")
    assert [key for key, _ in store.view(PAIR).keyword("w1", 5)] == ["a:0-2"]


def test_a_store_made_anew_meets_no_old_segments(open_one: Open, tmp_path: Path) -> None:
    for text in ("w1 first", "w1 second"):
        store = open_one()
        put(store, a=text)
        assert store.view(PAIR).lookup([f"a:0-{len(text)}"])[0].text == text
        store.close()
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()


def test_filters_see_live_rows_only_and_true_is_not_one(open_one: Open) -> None:
    store = open_one()
    en, yes, one = ({"language": "en"}, {"metadata": {"flag": True}}, {"metadata": {"flag": 1}})
    store.upsert(PAIR, [item(f"d{n}", "w1", **en) for n in range(20)])
    store.upsert(PAIR, [item("z", "w1", language="fr")])
    store.view(PAIR).close()
    store.upsert(PAIR, [item("z", "w1", language="de"), item("yes", "w1", **yes)])
    store.upsert(PAIR, [item("one", "w1 w2", **one)])
    view = store.view(PAIR)
    assert view.fields()["language"] == 21
    flags = (("flag", True, "yes:0-2"), ("flag", 1, "one:0-5"), ("flag", 1.0, "one:0-5"))
    for field, value, found in (("language", "de", "z:0-2"), *flags):
        assert [key for key, _ in view.keyword("w1", 9, [Filter(field, (value,))])] == [found]
    with pytest.raises(FilterError, match="de, en"):
        view.keyword("w1", 9, [Filter("language", ("fr",))])


def test_the_best_is_the_best_where_float32_cannot_tell(open_one: Open) -> None:
    """Long vectors that nearly agree: their float32 products are in a random order."""
    rng, store = np.random.default_rng(4), open_one()
    pair = replace(PAIR, embedder="long", dimensions=256, similarity="dot")
    base = rng.standard_normal(256) * 20
    vectors = (base + rng.standard_normal((400, 256)) * 2e-6).astype(np.float32)
    store.upsert(pair, [item(f"d{n:03d}", f"w{n}", row) for n, row in enumerate(vectors)])
    view = store.view(pair)
    for _ in range(20):
        query = (rng.standard_normal(256) * 20).astype(np.float32)
        exact = sorted((vectors.astype(np.float64) @ query.astype(np.float64)).tolist())[::-1]
        for k in (1, 5):
            found = [score for _, score in view.dense(query[None, :], k)[0]]
            assert found == pytest.approx(exact[:k], abs=2e-6, rel=0)


def test_scores_that_round_to_one_are_a_tie_whatever_k_is(open_one: Open) -> None:
    """Lengths that hardly count make scores that differ behind the sixth digit only."""
    store = open_one(StoreOptions(b=1e-6))
    put(store, **{f"d{n:03d}": " ".join(["w1", *["w2"] * (200 - n)]) for n in range(100)})
    view = store.view(PAIR)
    every = view.keyword("w1", 100)
    for k in (1, 5, 50):
        assert view.keyword("w1", k) == every[:k]
    assert len({score for _, score in every}) < 10


@pytest.mark.slow
def test_small_writes_leave_few_segments_and_young_ones_alone(
    open_one: Open, tmp_path: Path
) -> None:
    store = open_one()
    for step in range(40):
        for path in tmp_path.rglob("*.seg"):
            os.utime(path, (1, 1))
        put(store, **{f"d{step:03d}": "w1"})
    segments = list(tmp_path.rglob("*.seg"))
    assert len(segments) < 20
    assert len(store.view(PAIR).keyword("w1", 99)) == 40
    young, old = (segments[0].with_name(name) for name in ("young.seg", "old.seg"))
    for path in (young, old):
        path.write_bytes(segments[0].read_bytes())
    os.utime(old, (1, 1))
    put(store, b="w1")
    assert young.exists()
    assert not old.exists()
