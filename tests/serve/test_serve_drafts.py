"""Drafts over HTTP: slow work that must not hold up what is quick."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from served import served

from ragwright import Workbench
from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

FORMAT = """\
prompt_variables: [length, ask_type, client, topic, text]
prompt_structure: "A %s %s message from %s about %s:\\n\\n%s"
"""
TEXTS = "1. Chip in now.\n2. We need you today."
DRAFT = {
    "client": "Jane Doe",
    "ask_type": "donation",
    "topics": ["health care"],
    "length": "short",
    "count": 2,
}


def desk(folder: Path, model: ScriptedServer, more: str = "") -> Path:
    """A project with records in its index, as a refresh leaves them."""
    (folder / "records/text_formats").mkdir(parents=True)
    (folder / "records/text_formats/message.yaml").write_text(FORMAT, "utf-8")
    (folder / "records/rollups.yaml").write_text("client: {column: sender}\n", "utf-8")
    (folder / "ragwright.yaml").write_text(
        f"serve: {{name: desk}}\n"
        f"answer: {{model: '{model.url}#writer', draft: {{examples: 3, pool: 6}}}}\n{more}",
        "utf-8",
    )
    batch = []
    for number in range(12):
        head = "A short donation message from Jane Doe:\n\n"
        text = f"{head}Message number {number}."
        document = Document(
            f"record:{number}",
            f"records:{number}",
            text,
            metadata={
                "client": "Jane Doe",
                "ask_type": "donation",
                "topic": ("health care",),
                "length": "short",
                "kind": "record",
                "message_at": len(head),
            },
        )
        chunk = Chunk(f"{document.id}:0", document.id, 0, Span(0, len(text)), text)
        batch.append(IndexedDocument(document, (chunk,)))
    with Workbench.open(folder) as bench:
        bench.project.store.upsert(bench.project.index_spec, batch)
    return folder


def test_drafts_are_charged_stored_and_rated_by_their_key(tmp_path: Path) -> None:
    with ScriptedServer(TEXTS) as model:
        price = f"models: {{'{model.url}#writer': {{price_in: 50000, price_out: 50000}}}}\n"
        folder = desk(tmp_path, model, price)
        keys = ServeKeys(ProjectFolder(folder))
        mine = keys.add(ServeKey("mine", daily_budget=0.01))
        other = keys.add(ServeKey("other"))
        with served(folder) as running:
            reply = running.client(mine).post("/v1/drafts", json=DRAFT)
            assert reply.status_code == 200, reply.text
            [first, _] = reply.json()["texts"]
            assert "prompts" not in reply.json()
            rating = {"id": first["id"], "verdict": "accepted"}
            assert running.client(other).post("/v1/feedback", json=rating).status_code == 404
            refused = running.client(mine).post("/v1/drafts", json=DRAFT)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "insufficient_quota"


@pytest.mark.slow
def test_slow_drafts_hold_up_neither_health_nor_retrieval(tmp_path: Path) -> None:
    with ScriptedServer(Reply(TEXTS, delay=4.0)) as model:
        folder = desk(tmp_path, model)
        with served(folder, "serve.waiting=40") as running:
            states: list[int] = []

            def draft(number: int) -> None:
                body = {**DRAFT, "count": 2 + number}
                states.append(running.client().post("/v1/drafts", json=body).status_code)

            threads = [threading.Thread(target=draft, args=(number,)) for number in range(12)]
            for thread in threads:
                thread.start()
            while not model.requests:
                time.sleep(0.01)
            for _ in range(5):
                assert running.http.get("/healthz").status_code == 200
                reply = running.http.post("/v1/retrieve", json={"query": "message number 3"})
                assert reply.status_code == 200, reply.text
            assert not states, "the drafts are still being written"
            assert model.max_in_flight <= 4
            model.play(TEXTS)
            for thread in threads:
                thread.join()
    assert set(states) == {200}


@pytest.mark.slow
def test_a_draft_that_takes_too_long_ends(tmp_path: Path) -> None:
    with ScriptedServer(Reply(TEXTS, delay=30.0)) as model:
        folder = desk(tmp_path, model)
        with served(folder, "serve.timeout=0.5") as running:
            reply = running.http.post("/v1/drafts", json=DRAFT)
            assert reply.status_code == 504, reply.text


def test_a_draft_takes_the_numbers_of_the_command(tmp_path: Path) -> None:
    with ScriptedServer(TEXTS) as model:
        other = f"{model.url}#other"
        folder = desk(tmp_path, model, f"models: {{'{other}': {{}}}}\n")
        with served(folder) as running:
            usual = running.http.post("/v1/drafts", json=DRAFT).json()
            own = {**DRAFT, "examples": 5, "pool": 9, "models": [other]}
            reply = running.http.post("/v1/drafts", json=own)
            assert reply.status_code == 200, reply.text
            few = running.http.post("/v1/drafts", json={**DRAFT, "examples": 7})
            none = running.http.post("/v1/drafts", json={**DRAFT, "examples": 0})
            misspelt = running.http.post("/v1/drafts", json={**DRAFT, "exampels": 5})
        with Workbench.open(folder) as bench:
            stored = [bench.outputs.batch(batch["batch"]) for batch in (usual, reply.json())]
    shown = reply.json()
    assert [prompt["model"] for prompt in shown["prompts"]] == [other]
    assert [len(batch["prompts"][0]["examples"]) for batch in (usual, shown)] == [3, 5]
    assert (len(usual["hits"]), len(shown["hits"])) == (6, 9)
    assert few.status_code == none.status_code == misspelt.status_code == 400
    assert "a pool of 6 records cannot give 7 examples" in few.json()["error"]["message"]
    assert "examples" in misspelt.json()["error"]["message"]
    assert stored[0].configuration != stored[1].configuration
