"""The table of outputs: whole batches, numbers never given twice, nothing left of the forgotten."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from children import child
from drafted import REQUEST, drafted
from forgetting import forget_at
from served_answers import serve_answers

from ragwright.core import ConfigError, SchemaVersionError, StoreError, Usage
from ragwright.drafting import DraftText, Origin, OutputQuery, Outputs

NOON = datetime(2026, 11, 2, 12, 0, 0, 250_000, UTC)
TEXTS = OutputQuery(kind="text", scope=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def at(path: Path) -> Iterator[Callable[..., Outputs]]:
    """The table as it is opened at some moment."""
    with ExitStack() as opened:
        yield lambda moment=NOON: opened.enter_context(closing(Outputs(path, clock=lambda: moment)))


@pytest.fixture
def outputs(at: Callable[..., Outputs]) -> Outputs:
    return at()


def rows(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(statement).fetchall()


def test_a_batch_is_kept_with_all_that_is_known_of_it(outputs: Outputs) -> None:
    batch = drafted()
    marked = replace(batch.texts[0], marks=("too long: 213 of 160",))
    batch = replace(batch, texts=(marked, batch.texts[1]))
    origin = Origin("snap-7", "tenant-a", "c0ffee00", {"settings": {"answer": {}}}, 3)
    assert outputs.save(batch, origin) == 1
    found = outputs.batch(1)
    assert (found.at, found.kind, found.client) == ("2026-11-02T12:00:00.250Z", "draft", "Jane Doe")
    assert (found.snapshot, found.scope, found.served) == ("snap-7", "tenant-a", 3)
    assert (found.request["topics"], found.request["count"]) == (["health care"], 2)
    assert found.usage == Usage(1, 100, 20, 0.5, 1.25)
    assert (found.details["notes"], found.details["mode"]) == (["a note"], "keyword")
    sources = [(output.id, output.source) for output in found.outputs]
    assert sources == [("1.p1", "prompt"), ("1.1", "m"), ("1.2", "m")]
    prompt, first, _ = found.outputs
    assert json.loads(prompt.text)[0] == {"role": "system", "content": "You write texts."}
    assert prompt.details["reply"] == "1. Give now\n2. Give today"
    assert (first.prompt, first.marks) == ("1.p1", ("too long: 213 of 160",))
    assert (first.usage, prompt.usage) == (Usage(), found.usage)
    assert {output.at for output in found.outputs} == {found.at}  # one time for all of a batch
    hit = found.hits[0]
    assert (hit.document_id, hit.weight) == ("record:1", 8.0)
    assert (hit.met, hit.missed) == (("client=Jane Doe",), ("tone=urgent",))
    used = [used.text for used in outputs.used("1.1")]
    assert used == ["the text of record:1", "the text of record:2"]
    assert outputs.settings("c0ffee00") == {"settings": {"answer": {}}}


def test_what_was_paid_stands_once(outputs: Outputs, path: Path) -> None:
    """Two paid batches, one from known replies, one whose texts were all thrown away."""
    batch = drafted()
    known = replace(batch.prompts[0], usage=Usage(), cached=True)
    outputs.save(batch)
    outputs.save(drafted(("Go", "Give", "Vote")))
    outputs.save(replace(batch, prompts=(known,), usage=Usage(), cached=True))
    outputs.save(replace(batch, texts=()))
    sums = "sum(calls), sum(prompt_tokens), sum(completion_tokens), sum(cost), sum(seconds)"
    for table in ("outputs", "batches", "items"):
        assert rows(path, f"SELECT {sums} FROM {table}") == [(3, 300, 60, 1.5, 3.75)]
    assert outputs.get("3.p1").usage == Usage()


def test_the_file_is_for_its_owner_and_others_may_query_it_while_it_is_written(
    outputs: Outputs, path: Path
) -> None:
    outputs.save(drafted())
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        columns = "id, batch, at, source, model, client, verdict"
        found = reader.execute(f"SELECT {columns} FROM outputs WHERE kind = 'text'").fetchall()
        assert [row[0] for row in found] == ["1.1", "1.2"]
        outputs.save(drafted())  # a reader holds up nobody
        assert reader.execute("SELECT count(*) FROM batches").fetchone() == (1,)
    outputs.close()
    rows(path, "PRAGMA user_version = 99")
    with pytest.raises(SchemaVersionError, match="version 99"):
        Outputs(path)


def test_outputs_are_found_by_what_they_are(at: Callable[..., Outputs], outputs: Outputs) -> None:
    outputs.save(drafted(), Origin(scope="a", configuration="aaaaaaaa", served=1))
    later, other = at(datetime(2026, 11, 9, tzinfo=UTC)), replace(REQUEST, client="John Roe")
    later.save(drafted(("Vote",), request=other, model="n"), Origin(configuration="abbbbbbb"))
    assert list(outputs.find()) == list(outputs.find(OutputQuery()))
    first, second = ["1.1", "1.2"], ["2.1"]
    asked: list[tuple[dict[str, Any], list[str]]] = [
        ({"scope": ""}, ["2.p1", *second]),  # what belongs to no tenant
        ({"scope": "a", "kind": "text"}, first),
        ({}, ["1.p1", *first, "2.p1", *second]),
        ({"kind": "prompt"}, ["1.p1", "2.p1"]),
        ({"since": "2026-11-05", "kind": "text"}, second),
        ({"until": "2026-11-05", "kind": "text"}, first),
        ({"client": "john roe", "kind": "text"}, second),
        ({"model": "n"}, ["2.p1", *second]),
        ({"configuration": "1", "kind": "text"}, first),
        ({"configuration": "abbbbb", "kind": "text"}, second),
        ({"configuration": "%"}, []),
    ]
    for given, ids in asked:
        query = OutputQuery(**{"scope": None, **given})
        assert [output.id for output in outputs.find(query)] == ids, given
        assert outputs.count(query) == len(ids)
    newest = outputs.find(OutputQuery(scope=None), limit=2, newest=True)
    assert [output.id for output in newest] == ["2.1", "2.p1"]


def test_the_latest_feedback_counts_and_all_of_it_is_kept(outputs: Outputs) -> None:
    outputs.save(drafted())
    outputs.respond("1.1", by="ann", verdict="accepted", note="fine")
    outputs.respond("1.1", by="bob", verdict="rejected")
    outputs.respond("1.1", by="ann", score=2.5)
    now = outputs.get("1.1")
    assert (now.verdict, now.score, now.note) == ("rejected", 2.5, "fine")
    all_of_it = [(f.by, f.verdict, f.score) for f in outputs.feedback("1.1")]
    assert all_of_it == [("ann", "accepted", None), ("bob", "rejected", None), ("ann", "", 2.5)]
    assert outputs.get("1.2").verdict == ""
    assert [o.id for o in outputs.find(OutputQuery(verdict="rejected"))] == ["1.1"]
    with pytest.raises(ConfigError, match="is empty"):
        outputs.respond("1.1", by="ann")
    for missing in ("9.1", "1.9", "1.p9", "1", "x", "1.x", "-1.1", "1.p1.1"):
        with pytest.raises(StoreError, match="no output"):
            outputs.respond(missing, by="ann", verdict="accepted")
    with pytest.raises(StoreError, match="no batch 7"):
        outputs.batch(7)


def test_what_was_made_of_a_document_is_forgotten_to_the_byte(outputs: Outputs, path: Path) -> None:
    outputs.save(drafted(("Secretly of one", "Also of one"), ("record:1", "record:2")))
    outputs.save(drafted(("Of two alone",), ("record:2",)))
    outputs.respond("1.1", by="ann", note="quotes Secretly of one")
    assert forget_at(path, source="record:1")["outputs"] == 3  # a prompt and two texts
    assert [o.id for o in outputs.find()] == ["2.p1", "2.1"]
    assert [hit.document_id for hit in outputs.batch(1).hits] == ["record:2"]
    with pytest.raises(StoreError):
        outputs.get("1.1")
    outputs.close()
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"Secretly" not in stored
    assert b"the text of record:1" not in stored
    assert b"Of two alone" in stored


def test_a_tenant_is_forgotten_and_its_numbers_are_not_given_again(
    outputs: Outputs, path: Path
) -> None:
    outputs.save(drafted(("Of a",)), Origin(scope="a"))
    outputs.save(drafted(("Of b",)), Origin(scope="b"))
    assert [forget_at(path, scope="b")["outputs"] for _ in range(2)] == [2, 0]
    assert [o.text for o in outputs.find(TEXTS)] == ["Of a"]
    assert outputs.save(replace(drafted(), hits=())) == 3
    for wrong in ({}, {"source": "x", "scope": "y"}):
        with pytest.raises(StoreError, match="name one"):
            forget_at(path, **wrong)
    # an example that is no hit is of the document its id begins with
    assert forget_at(path, source="record:2")["outputs"] == 5


def test_a_batch_that_cannot_be_stored_leaves_nothing_and_takes_no_number(outputs: Outputs) -> None:
    outputs.save(drafted())
    broken = replace(drafted(), texts=(DraftText("fine", "m"), DraftText(object(), "m")))  # type: ignore[arg-type]
    with pytest.raises((StoreError, sqlite3.Error, TypeError)):
        outputs.save(broken)
    assert outputs.count() == 3
    odd = ("\U0001f600 né \x00 end", "half \ud83d of a pair", "")
    assert outputs.save(drafted(odd)) == 2
    kept = [output.text for output in outputs.find(TEXTS) if output.batch == 2]
    assert kept == [odd[0], "half \ufffd of a pair", ""]


def saving(tell: Connection, path: Path, name: str, count: int) -> None:
    outputs = Outputs(path)
    for at in range(count):
        texts = [f"{name} {at} {n} " + "x" * 200 for n in range(40)]
        tell.send(outputs.save(drafted(texts)))


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_whole_batches_alone(path: Path) -> None:
    Outputs(path).close()
    told = 0
    for pause in (0.0, 0.003, 0.01, 0.02, 0.035):
        with child(saving, path, "k", 100_000) as writer:
            for _ in range(3):
                told = writer.recv()
            time.sleep(pause)
    items, hits = (
        dict(rows(path, f"SELECT batch, count(*) FROM {table} GROUP BY batch"))
        for table in ("items", "hits")
    )
    batches = [batch for (batch,) in rows(path, "SELECT batch FROM batches ORDER BY batch")]
    assert batches == list(range(1, len(batches) + 1))  # consecutive, across all that was killed
    assert len(batches) >= told  # a number that was told is there
    assert set(items) == set(hits) == set(batches)
    assert (set(items.values()), set(hits.values())) == ({41}, {2})
    with closing(Outputs(path)) as outputs:
        assert outputs.save(drafted()) == len(batches) + 1


def test_answers_are_deleted_after_some_days_with_their_feedback_and_drafts_stay(
    at: Callable[..., Outputs], outputs: Outputs, path: Path
) -> None:
    old = at(NOON - timedelta(days=31))
    assert old.save(drafted()) == 1
    [answer] = serve_answers(old, ["Every two years. [1]"])
    old.respond(answer, by="ann", verdict="rejected", correction="Every year.")
    serve_answers(outputs, ["Every two years. [1]"])
    assert [outputs.drop_answers(30) for _ in range(2)] == [1, 0]
    assert {output.batch for output in outputs.find(TEXTS)} == {1, 3}
    for table in ("feedback", "corrections", "hits", "uses", "items", "answer_texts"):
        stored = rows(path, f"SELECT * FROM {table}")
        assert not [row for row in stored if row[0] == 2 or "Every year." in row], table
