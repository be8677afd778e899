"""Conversations of the pages: kept for a person, shown by present rights, shared, deleted."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.drafting import OutputQuery
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

BRAKE = "The brake fluid must be changed every two years."
QUESTION = "How often must the brake fluid be changed?"
CODES = "What does APP_w304 mean?"
ONLY_CODES = ("source=docs/codes.md",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = MakeProject(tmp_path_factory.mktemp("talks"))("serve: {name: handbook}\n")
    with Workbench.open(project) as bench:
        bench.ingest()
    return project


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    kept = ServeKeys(ProjectFolder(folder))
    rights = {"ann": (), "ben": (), "eve": ONLY_CODES, "eva": ONLY_CODES}
    secrets = {name: kept.add(ServeKey(name, filters=filters)) for name, filters in rights.items()}
    return {**secrets, "boss": kept.add(ServeKey("boss", "owner"))}


@pytest.fixture(scope="module")
def running(folder: Path, keys: dict[str, str]) -> Iterator[Running]:
    with served(folder) as server:
        yield server


def ask(http: Any, question: str, name: str = "", turn: int = 1, **more: Any) -> str:
    """Ask by the form; the id of the conversation."""
    reply = http.post("/", data={"q": question, "conversation": name, "turn": turn}, **more)
    assert reply.status_code == 200, reply.text
    names: list[str] = re.findall(r'name="conversation" value="([^"]+)"', reply.text)
    return names[-1]


def frames(reply: Any) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]


def test_a_streamed_answer_becomes_a_turn_of_the_conversation(
    running: Running, keys: dict[str, str]
) -> None:
    http = running.client(keys["ann"])
    name = ask(http, QUESTION)
    form = {"q": "And how often must the coolant be changed?", "conversation": name, "turn": 2}
    *pieces, last = frames(http.post("/ask/stream", data=form))
    text = "".join(piece["text"] for piece in pieces)
    assert "five years" in text
    mark = pieces[0]["marks"][-1]
    assert text[mark["start"] : mark["end"]] == "[2]"
    assert last["place"] == f"/c/{name}"
    assert "Why this answer" in last["card"]
    shown = html.unescape(http.get(last["place"]).text)
    assert shown.count('class="turn"') == 3, "two, and the blank one for the script"
    assert "read as:" in shown
    assert "five years" in shown
    beside = http.get(mark["url"].replace("/source?", "/source/beside?")).text
    assert "<mark>The coolant must be changed every five years.</mark>" in beside
    assert "…" not in beside, "the document is shown whole"


def test_asked_again_a_question_replaces_what_follows(
    running: Running, keys: dict[str, str], folder: Path
) -> None:
    http = running.client(keys["ann"])
    name = ask(http, QUESTION)
    ask(http, "And the coolant?", name, 2)
    with Workbench.open(folder) as bench:
        before = bench.outputs.count()
        ask(http, CODES, name, 1)
        assert bench.outputs.count() == before + 2, "prompt and text; the old ones stay"
        shown = http.get(f"/c/{name}").text
        assert "accelerator pedal" in shown
        assert BRAKE not in shown
        late = http.post("/", data={"q": "And?", "conversation": name, "turn": 3})
        assert late.status_code == 409
        assert http.post(f"/c/{name}/delete").status_code == 303
        assert http.get(f"/c/{name}").status_code == 404
        assert bench.outputs.count() == before - 4, "replaced answers are deleted too"


def test_a_conversation_is_private_until_it_is_shared(
    running: Running, keys: dict[str, str]
) -> None:
    ann, ben, eve, boss = (running.client(keys[name]) for name in ("ann", "ben", "eve", "boss"))
    name = ask(ann, QUESTION)
    place = f"/c/{name}"
    assert [http.get(place).status_code for http in (ann, ben, eve, boss)] == [200, 404, 404, 404]
    assert name not in ben.get("/history").text
    assert ben.post(f"{place}/share", data={"shared": "true"}).status_code == 404
    assert ann.post(f"{place}/share", data={"shared": "true"}).status_code == 303
    assert [http.get(place).status_code for http in (ann, ben, eve, boss)] == [200, 200, 404, 200]
    shown = ben.get(place).text
    assert BRAKE in shown
    assert "/delete" not in shown
    assert 'id="ask"' not in shown, "another's conversation is read, not continued"
    assert ben.post("/", data={"q": CODES, "conversation": name, "turn": 2}).status_code == 404
    assert ben.post(f"{place}/delete").status_code == 404
    assert ben.get(f"{place}/export").status_code == 200
    assert eve.get(f"{place}/export").status_code == 404
    codes = ask(ann, CODES)
    ann.post(f"/c/{codes}/share", data={"shared": "true"})
    assert "accelerator" in eve.get(f"/c/{codes}").text, "she may see all of its passages"
    ann.post(f"{place}/share", data={"shared": "false"})
    assert ben.get(place).status_code == 404


def test_the_link_of_a_deleted_conversation_stays_dead(
    running: Running, keys: dict[str, str]
) -> None:
    ann, ben = (running.client(keys[name]) for name in ("ann", "ben"))
    name = ask(ann, QUESTION)
    ann.post(f"/c/{name}/share", data={"shared": "true"})
    assert ben.get(f"/c/{name}").status_code == 200
    ann.post(f"/c/{name}/delete")
    other = ask(ben, CODES, name)
    for place in (name, other):
        ben.post(f"/c/{place}/share", data={"shared": "true"})
    assert ann.get(f"/c/{name}").status_code == 404, "nobody puts another one in its place"
    assert "accelerator" in ann.get(f"/c/{other}").text


def test_rights_that_were_withdrawn_hide_what_was_made_from_the_passages(
    running: Running, folder: Path
) -> None:
    kept = ServeKeys(ProjectFolder(folder))
    http = running.client(kept.add(ServeKey("moving")))
    name = ask(http, CODES)
    ask(http, QUESTION, name, 2)
    ask(http, "What does APP_w305 mean?", name, 3)
    kept.revoke("moving")
    http = running.client(kept.add(ServeKey("moving", filters=ONLY_CODES)))
    shown = http.get(f"/c/{name}").text
    assert "accelerator pedal" in shown
    assert BRAKE not in shown
    assert "What does APP_w305 mean?" not in shown, "a later turn may quote an earlier one"
    assert "you may not see now" in shown
    assert BRAKE not in http.get("/history/export").text
    assert f"/c/{name}" not in http.get("/history", params={"find": "two years"}).text
    assert f"/c/{name}" in http.get("/history", params={"find": "app_W305"}).text, "own words"
    assert http.post("/", data={"q": "a", "conversation": name, "turn": 4}).status_code == 409


def test_the_history_is_searched_and_exported(running: Running, keys: dict[str, str]) -> None:
    http = running.client(keys["eva"])
    name = ask(http, CODES)
    assert CODES in http.get("/history").text
    assert name in http.get("/history", params={"find": "ACCELERATOR pedal"}).text
    assert "No conversation contains" in http.get("/history", params={"find": "zebra"}).text
    [conversation] = http.get("/history/export").json()["conversations"]
    assert conversation["turns"][0]["question"] == CODES
    foreign = {"host": "other.example"}  # whoever asks may send any name of the server
    named = ask(http, CODES, headers=foreign)
    assert "other.example" not in http.get(f"/c/{named}/export", params={"form": "json"}).text
    text = http.get(f"/c/{name}/export")
    assert "attachment" in text.headers["content-disposition"]
    assert text.text.startswith(f"## {CODES}\n")
    assert "- [1] Warning codes" in text.text


def test_what_forget_deletes_is_gone_from_conversations(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
    kept = ServeKeys(ProjectFolder(folder))
    ann = kept.add(ServeKey("ann"))
    tenant = kept.add(ServeKey("eve", filters=ONLY_CODES))
    with served(folder) as running:
        name = ask(running.client(ann), QUESTION)
        other = ask(running.client(tenant), CODES)
    with Workbench.open(folder) as bench:
        bench.forget("docs/service.md")
        bench.forget_tenant(ONLY_CODES[0])
    with served(folder) as running:
        shown = running.client(ann).get(f"/c/{name}").text
        assert "made from a document that was deleted" in shown
        assert "brake fluid" not in shown
        assert running.client(tenant).get(f"/c/{other}").status_code == 404
    with Workbench.open(folder) as bench:
        assert not list(bench.outputs.find(OutputQuery(scope=None)))


def test_without_kept_answers_there_is_no_history(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {keep_answers: false}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as running:
        page = running.http.post("/", data={"q": QUESTION}).text
        assert BRAKE in page
        assert "Conversations are not kept here" in page
        earlier = json.dumps([[CODES, "It is about the accelerator pedal."]])
        form = {"q": "And APP_w305?", "turn": 2, "earlier": earlier}
        last = frames(running.http.post("/ask/stream", data=form))[-1]
        assert last["place"] == ""
        assert "read as:" in last["card"]
        wrong = running.http.post("/ask/stream", data={**form, "earlier": "[1]"})
        assert wrong.status_code == 400
        assert "not kept" in running.http.get("/history").text
