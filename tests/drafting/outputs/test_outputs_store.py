"""The table of outputs: whole batches, numbers never given twice, nothing left of the forgotten."""

from __future__ import annotations

import json
import sqlite3
import time
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def at(path: Path, moment: datetime = NOON) -> Outputs:
    return Outputs(path, clock=lambda: moment)


def test_a_batch_is_kept_with_all_that_is_known_of_it(path: Path) -> None:
    outputs = at(path)
    batch = drafted()
    marked = replace(batch.texts[0], marks=("too long: 213 of 160",))
    batch = replace(batch, texts=(marked, batch.texts[1]))
    origin = Origin("snap-7", "tenant-a", "c0ffee00", {"settings": {"answer": {}}}, 3)
    assert outputs.save(batch, origin) == 1
    found = outputs.batch(1)
    assert (found.at, found.kind, found.client) == ("2026-11-02T12:00:00.250Z", "draft", "Jane Doe")
    assert (found.snapshot, found.scope, found.served) == ("snap-7", "tenant-a", 3)
    assert found.request["topics"] == ["health care"]
    assert found.request["count"] == 2
    assert found.usage == Usage(1, 100, 20, 0.5, 1.25)
    assert found.details["notes"] == ["a note"]
    assert found.details["mode"] == "keyword"
    assert [(o.id, o.source) for o in found.outputs] == [
        ("1.p1", "prompt"),
        ("1.1", "m"),
        ("1.2", "m"),
    ]
    prompt, first, _ = found.outputs
    assert json.loads(prompt.text)[0] == {"role": "system", "content": "You write texts."}
    assert prompt.details["reply"] == "1. Give now\n2. Give today"
    assert (first.prompt, first.marks) == ("1.p1", ("too long: 213 of 160",))
    assert (first.usage, first.share) == (Usage(), Usage(0, 50, 10, 0.25))
    assert (prompt.usage, prompt.share) == (found.usage, None)
    assert {o.at for o in found.outputs} == {found.at}  # one time for all of a batch
    hit = found.hits[0]
    assert (hit.document_id, hit.weight) == ("record:1", 8.0)
    assert (hit.met, hit.missed) == (("client=Jane Doe",), ("tone=urgent",))
    assert [used.text for used in outputs.used("1.1")] == [
        "the text of record:1",
        "the text of record:2",
    ]
    assert outputs.settings("c0ffee00") == {"settings": {"answer": {}}}
    outputs.close()


def test_what_was_paid_stands_once(path: Path) -> None:
    """Two paid batches, one from known replies, one whose texts were all thrown away."""
    outputs = at(path)
    batch = drafted()
    known = replace(batch.prompts[0], usage=Usage(), reply_usage=batch.usage, cached=True)
    free = tuple(replace(text, usage=Usage()) for text in batch.texts)
    outputs.save(batch)
    outputs.save(drafted(("Go", "Give", "Vote")))
    outputs.save(replace(batch, prompts=(known,), texts=free, usage=Usage(), cached=True))
    outputs.save(replace(batch, texts=()))
    with sqlite3.connect(path) as reader:
        sums = "sum(calls), sum(prompt_tokens), sum(completion_tokens), sum(cost), sum(seconds)"
        paid = (3, 300, 60, 1.5, 3.75)
        for table in ("outputs", "batches", "items"):
            assert reader.execute(f"SELECT {sums} FROM {table}").fetchone() == paid
        shares = "SELECT batch, sum(share_cost) FROM outputs GROUP BY batch"
        assert reader.execute(shares).fetchall() == [
            (1, pytest.approx(0.5)),
            (2, pytest.approx(0.5)),
            (3, None),
            (4, None),
        ]
    reader.close()
    first = outputs.get("3.p1")
    assert first.usage == Usage()
    assert Usage(**first.details["reply_usage"]) == Usage(1, 100, 20, 0.5, 1.25)
    outputs.close()


def test_the_file_is_for_its_owner_and_others_may_query_it_while_it_is_written(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted())
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader:
        reader.execute("BEGIN")
        columns = "id, batch, at, source, model, client, verdict"
        rows = reader.execute(f"SELECT {columns} FROM outputs WHERE kind = 'text'").fetchall()
        assert [row[0] for row in rows] == ["1.1", "1.2"]
        outputs.save(drafted())  # a reader holds up nobody
        assert reader.execute("SELECT count(*) FROM batches").fetchone() == (1,)
    reader.close()
    outputs.close()


def test_a_file_of_a_later_version_is_refused(path: Path) -> None:
    at(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaVersionError, match="version 99"):
        Outputs(path)


def test_outputs_are_found_by_what_they_are(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted(), Origin(scope="a", configuration="aaaaaaaa", served=1))
    later = at(path, datetime(2026, 11, 9, tzinfo=UTC))
    other = replace(REQUEST, client="John Roe")
    later.save(drafted(("Vote",), request=other, model="n"), Origin(configuration="abbbbbbb"))

    def ids(query: OutputQuery) -> list[str]:
        assert outputs.count(query) == len(list(outputs.find(query)))
        return [output.id for output in outputs.find(query)]

    assert ids(OutputQuery()) == ["2.p1", "2.1"]  # what belongs to no tenant
    assert list(outputs.find()) == list(outputs.find(OutputQuery()))

    def every(**asked: Any) -> list[str]:
        return ids(OutputQuery(scope=None, **asked))

    assert every() == ["1.p1", "1.1", "1.2", "2.p1", "2.1"]
    assert every(kind="prompt") == ["1.p1", "2.p1"]
    assert every(since="2026-11-05", kind="text") == ["2.1"]
    assert every(until="2026-11-05", kind="text") == ["1.1", "1.2"]
    assert every(client="john roe", kind="text") == ["2.1"]
    assert every(model="n") == ["2.p1", "2.1"]
    assert ids(OutputQuery(scope="")) == ["2.p1", "2.1"]
    assert ids(OutputQuery(scope="a", kind="text")) == ["1.1", "1.2"]
    assert every(configuration="1", kind="text") == ["1.1", "1.2"]
    assert every(configuration="abbbbb", kind="text") == ["2.1"]
    assert every(configuration="%") == []
    newest = outputs.find(OutputQuery(scope=None), limit=2, newest=True)
    assert [output.id for output in newest] == ["2.1", "2.p1"]
    outputs.close()
    later.close()


def test_the_latest_feedback_counts_and_all_of_it_is_kept(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted())
    outputs.respond("1.1", by="ann", verdict="accepted", note="fine")
    outputs.respond("1.1", by="bob", verdict="rejected")
    outputs.respond("1.1", by="ann", score=2.5)
    now = outputs.get("1.1")
    assert (now.verdict, now.score, now.note) == ("rejected", 2.5, "fine")
    assert [(f.by, f.verdict, f.score) for f in outputs.feedback("1.1")] == [
        ("ann", "accepted", None),
        ("bob", "rejected", None),
        ("ann", "", 2.5),
    ]
    assert outputs.get("1.2").verdict == ""
    assert [o.id for o in outputs.find(OutputQuery(verdict="rejected"))] == ["1.1"]
    with pytest.raises(ConfigError, match="is empty"):
        outputs.respond("1.1", by="ann")
    for missing in ("9.1", "1.9", "1.p9", "1", "x", "1.x", "-1.1", "1.p1.1"):
        with pytest.raises(StoreError, match="no output"):
            outputs.respond(missing, by="ann", verdict="accepted")
    with pytest.raises(StoreError, match="no batch 7"):
        outputs.batch(7)
    outputs.close()


def test_what_was_made_of_a_document_is_forgotten_to_the_byte(path: Path) -> None:
    outputs = at(path)
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


def test_an_example_that_is_no_hit_is_of_the_document_its_id_begins_with(path: Path) -> None:
    outputs = at(path)
    outputs.save(replace(drafted(), hits=()))
    assert forget_at(path, source="record:2")["outputs"] == 3
    outputs.close()


def test_a_tenant_is_forgotten_and_its_numbers_are_not_given_again(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted(("Of a",)), Origin(scope="a"))
    outputs.save(drafted(("Of b",)), Origin(scope="b"))
    assert forget_at(path, scope="b")["outputs"] == 2
    assert forget_at(path, scope="b")["outputs"] == 0
    assert [o.text for o in outputs.find(OutputQuery(scope=None, kind="text"))] == ["Of a"]
    assert outputs.save(drafted()) == 3
    for wrong in ({}, {"source": "x", "scope": "y"}):
        with pytest.raises(StoreError, match="name one"):
            forget_at(path, **wrong)
    outputs.close()


def test_a_batch_that_cannot_be_stored_leaves_nothing_and_takes_no_number(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted())
    broken = replace(drafted(), texts=(DraftText("fine", "m"), DraftText(object(), "m")))  # type: ignore[arg-type]
    with pytest.raises((StoreError, sqlite3.Error, TypeError)):
        outputs.save(broken)
    assert outputs.count() == 3
    assert outputs.save(drafted()) == 2
    outputs.close()


def test_texts_of_any_characters_are_kept(path: Path) -> None:
    outputs = at(path)
    outputs.save(drafted(("\U0001f600 né \x00 end", "half \ud83d of a pair", "")))
    assert [o.text for o in outputs.find(OutputQuery(kind="text"))] == [
        "\U0001f600 né \x00 end",
        "half \ufffd of a pair",
        "",
    ]
    outputs.close()


def saving(tell: Connection, path: Path, name: str, count: int) -> None:
    outputs = Outputs(path)
    for at in range(count):
        texts = [f"{name} {at} {n} " + "x" * 200 for n in range(40)]
        tell.send(outputs.save(drafted(texts)))


@pytest.mark.slow
def test_several_processes_write_and_every_batch_has_a_number_of_its_own(path: Path) -> None:
    at(path).close()
    with ExitStack() as held:
        writers = [held.enter_context(child(saving, path, name, 25)) for name in "abc"]
        numbers = [writer.recv() for writer in writers for _ in range(25)]
    assert sorted(numbers) == list(range(1, 76))


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_whole_batches_alone(path: Path) -> None:
    at(path).close()
    told = 0
    for pause in (0.0, 0.003, 0.01, 0.02, 0.035):
        with child(saving, path, "k", 100_000) as writer:
            for _ in range(3):
                told = writer.recv()
            time.sleep(pause)
    outputs = at(path)
    connection = sqlite3.connect(path)
    counts = dict(connection.execute("SELECT batch, count(*) FROM items GROUP BY batch"))
    hits = dict(connection.execute("SELECT batch, count(*) FROM hits GROUP BY batch"))
    batches = [row[0] for row in connection.execute("SELECT batch FROM batches ORDER BY batch")]
    connection.close()
    assert batches == list(range(1, len(batches) + 1))  # consecutive, across all that was killed
    assert len(batches) >= told  # a number that was told is there
    assert set(counts) == set(hits) == set(batches)
    assert set(counts.values()) == {41}
    assert set(hits.values()) == {2}
    assert outputs.save(drafted()) == len(batches) + 1
    outputs.close()


def test_answers_are_deleted_after_some_days_with_their_feedback_and_drafts_stay(
    path: Path,
) -> None:
    old = at(path, NOON - timedelta(days=31))
    assert old.save(drafted()) == 1
    [answer] = serve_answers(old, ["Every two years. [1]"])
    old.respond(answer, by="ann", verdict="rejected", correction="Every year.")
    outputs = at(path)
    serve_answers(outputs, ["Every two years. [1]"])
    assert outputs.drop_answers(30) == 1
    assert outputs.drop_answers(30) == 0
    kept = outputs.find(OutputQuery(kind="text", scope=None))
    assert {output.batch for output in kept} == {1, 3}
    with closing(sqlite3.connect(path)) as file:
        for table in ("feedback", "corrections", "hits", "uses", "items", "answer_texts"):
            stored = file.execute(f"SELECT * FROM {table}").fetchall()
            assert not [row for row in stored if row[0] == 2 or "Every year." in row], table
