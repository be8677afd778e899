"""Erasing a person from everything that is stored."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx2
from command_line import ragwright
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import Role, ServeKey, ServeKeys

BRAKES = "How often must the QXBRAKE fluid be changed?"
CODES = "What does APP_w304 mean?"
NOTE = "QXNOTE: it depends on the country"


def make_project(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    kept = ServeKeys(ProjectFolder(folder))
    roles: dict[str, Role] = {"ann.example": "reader", "ben": "reader", "boss": "owner"}
    return folder, {name: kept.add(ServeKey(name, role)) for name, role in roles.items()}


def ask(http: Any, question: str) -> None:
    """Ask by the form."""
    reply = http.post("/", data={"q": question})
    assert reply.status_code == 200, reply.text


def signed_in(running: Running, key: str) -> httpx2.Client:
    """A browser in which somebody signed in with a key."""
    browser = running.client()
    browser.headers["accept"] = "text/html"
    assert browser.post("/login", data={"key": key}).status_code == 303
    return browser


def holding(folder: Path, text: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


def test_a_person_is_erased_while_the_server_runs(tmp_path: Path) -> None:
    folder, keys = make_project(tmp_path)
    with served(folder) as running:
        ann, ben = signed_in(running, keys["ann.example"]), running.client(keys["ben"])
        ask(ann, BRAKES)
        ask(ben, CODES)
        reply = running.client(keys["ann.example"]).post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": BRAKES}]}
        )
        rated = {"id": reply.json()["id"], "note": NOTE, "correction": "Every QXNOTE years."}
        assert ann.post("/v1/feedback", json=rated).status_code == 200
        ragwright(folder, "review", "--feedback", "--by", "ann.example", typed="a\nq\n")
        assert holding(folder / "testsets", "QXNOTE")

        words = ("forget", "--person", "ann.example", "--json")
        listed = json.loads(ragwright(folder, *words, "--dry-run").stdout)
        assert listed["dry_run"]
        assert (listed["answers"], listed["corrections"]) == (2, 1)
        assert (listed["keys"], listed["feedback"]) == (1, 1)
        assert listed["feedback rows"] == 1
        assert ann.get("/sources").status_code == 200, "nothing was changed"
        erased = json.loads(ragwright(folder, *words).stdout)
        assert listed["named_in"] == ["testsets/feedback.jsonl", "testsets/feedback.reviews.jsonl"]
        changed = ("dry_run", "events", "named_in")
        assert {k: v for k, v in listed.items() if k not in changed} == {
            k: v for k, v in erased.items() if k not in changed
        }

        assert ann.get("/sources").status_code == 303, "to the page that asks for a key"
        assert ben.get("/sources").status_code == 200
        assert holding(folder, "QXBRAKE") == holding(folder, "QXNOTE") == []
        assert holding(folder, "ann.example") == []
    nobody = ragwright(folder, *words[:3], code=1).stderr
    assert "there is nothing stored for 'ann.example'" in nobody


def test_the_audit_log_keeps_what_an_erased_person_did_without_the_name(tmp_path: Path) -> None:
    folder, keys = make_project(tmp_path)
    with served(folder, "serve.audit.questions=true") as running:
        ask(running.client(keys["ann.example"]), BRAKES)
    text = ragwright(folder, "forget", "--person", "ann.example").stdout
    assert re.search(r"1 +answers and drafts that the person asked for", text)
    events = [json.loads(line) for line in ragwright(folder, "log", "--lines").stdout.splitlines()]
    [asked] = [event for event in events if event["kind"] == "asked"]
    assert asked["who"].startswith("sha256:")
    assert (asked["question"], asked["origin"], asked["documents"]) == ("", "", ["docs/service.md"])
    erased = [(e["action"], e["subject"], e["outcome"]) for e in events if e["kind"] == "erased"]
    assert erased == [("forget person", asked["who"], way) for way in ("begun", "done")]
    of_name = ragwright(folder, "log", "--who", "ann.example", "--lines").stdout
    assert [json.loads(line)["kind"] for line in of_name.splitlines()] == ["asked"]


def test_forget_needs_one_thing_to_forget(tmp_path: Path) -> None:
    folder, _ = make_project(tmp_path)
    both = ragwright(folder, "forget", "docs/a.md", "--person", "ann", code=1).stderr
    assert "give a document, or a tenant with --tenant, or a person with --person" in both
    alone = ragwright(folder, "forget", "x", "--dry-run", code=1).stderr
    assert "--dry-run needs --person" in alone
    empty = ragwright(folder, "forget", "--person", " ", code=1).stderr
    assert "the name of the person is empty; nothing was forgotten" in empty
