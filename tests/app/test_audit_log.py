"""The audit log through a real server and real commands: who did what, and nothing changes it."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from command_line import ragwright
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"
ASKED = {"messages": [{"role": "user", "content": QUESTION}]}
SOURCE = "docs/service.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def key(folder: Path, name: str, **rights: Any) -> str:
    return ServeKeys(ProjectFolder(folder)).add(ServeKey(name, **rights))


def events(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The events that the command prints, without its own."""
    lines = ragwright(folder, "log", "--lines", *words).stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["action"] != "log"]


def facts(event: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(event[name] for name in names or ("kind", "who", "action", "outcome"))


def test_each_request_leaves_an_event(project: Path) -> None:
    reader, owner = key(project, "ann"), key(project, "bob", role="owner")
    with served(project) as running:
        http = running.client(reader)
        reply = http.post("/v1/chat/completions", json=ASKED, headers={"x-request-id": "r-1"})
        assert reply.status_code == 200
        http.post("/v1/feedback", json={"id": reply.json()["id"], "verdict": "accepted"})
        assert http.get("/source", params={"id": SOURCE}).status_code == 200
        assert http.get("/source", params={"id": "docs/none.md"}).status_code == 404
        assert http.get("/outputs").status_code == 403
        assert running.client("rw_wrong").get("/v1/models").status_code == 401
        running.client(owner).get("/outputs")
        browser = running.client()
        assert browser.post("/login", data={"key": "rw_wrong"}).status_code == 401
        browser.post("/login", data={"key": reader})
        browser.post("/logout")
        for path in ("/healthz", "/v1/models", "/nowhere"):
            http.get(path)
    stored = events(project)
    assert [facts(event) for event in stored] == [
        ("asked", "ann", "POST /v1/chat/completions", "done"),
        ("changed", "ann", "POST /v1/feedback", "done"),
        ("saw", "ann", "GET /source", "done"),
        ("refused", "ann", "GET /source", "refused"),
        ("refused", "ann", "GET /outputs", "refused"),
        ("sign-in failed", "", "GET /v1/models", "refused"),
        ("saw", "bob", "GET /outputs", "done"),
        ("sign-in failed", "", "POST /login", "refused"),
        ("signed in", "ann", "POST /login", "done"),
        ("signed out", "ann", "POST /logout", "done"),
    ]
    asked = stored[0]
    assert facts(asked, "role", "origin", "request") == ("reader", "127.0.0.1", "r-1")
    assert facts(asked, "configuration", "subject", "question") == ("handbook", "1.1", "")
    assert SOURCE in asked["documents"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", asked["at"])
    assert stored[3]["documents"] == ["docs/none.md"]
    assert all(event["request"] for event in stored)
    assert [event["who"] for event in events(project, "--document", SOURCE)] == ["ann", "ann"]
    assert len(events(project, "--request", "r-1")) == 1
    assert len(events(project, "--who", "bob")) == 1


def test_people_without_keys_leave_events_with_names_and_documents(tmp_path: Path) -> None:
    """Also who is known but has no role, and what citations show again."""
    headers = "user_header: Remote-User, groups_header: Remote-Groups"
    settings = f"serve:\n  proxy: {{addresses: [127.0.0.0/8], {headers}}}\n"
    settings += "  people: {roles: {reader: [staff]}}\n"
    folder = MakeProject(tmp_path)(settings)
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as running:
        http = running.http
        assert http.get("/sources", headers={"remote-user": "eve"}).status_code == 403
        ann = {"remote-user": "ann", "remote-groups": "staff"}
        assert http.post("/", data={"q": QUESTION}, headers=ann).status_code == 200
        assert http.get(f"/source/beside?id={SOURCE}", headers=ann).status_code == 200
    refused, *rest = events(folder)
    assert facts(refused) == ("refused", "proxy:eve", "GET /sources", "refused")
    assert [event["kind"] for event in rest] == ["asked", "saw"]
    assert {event["who"] for event in rest} == {"proxy:ann"}
    assert all(SOURCE in event["documents"] for event in rest)


def test_a_stream_is_stored_as_it_begins_and_as_it_ends(project: Path) -> None:
    reader = key(project, "ann")
    with served(project, "serve.audit.questions=true") as running:
        http = running.client(reader)
        with http.stream("POST", "/v1/chat/completions", json={**ASKED, "stream": True}) as reply:
            pieces = reply.iter_bytes()
            assert next(pieces)
            assert events(project)[0]["outcome"] == "begun"
            assert b"[DONE]" in b"".join(pieces)
            # before the last byte, so it is there without a wait
            assert [event["outcome"] for event in events(project)] == ["begun", "done"]
    begun, done = events(project)
    assert begun["question"] == done["question"] == QUESTION
    assert SOURCE in done["documents"]
    assert begun["request"] == done["request"]
    assert done["subject"] == "1.1"


@pytest.mark.parametrize(
    ("keep", "keyed", "kept"),
    [("auto", False, False), ("auto", True, True), ("always", False, True), ("never", True, False)],
)
def test_the_log_is_kept_where_others_may_ask(
    project: Path, keep: str, keyed: bool, kept: bool
) -> None:
    secret = key(project, "ann") if keyed else ""
    with served(project, f"serve.audit.keep={keep}") as running:
        assert running.client(secret).post("/v1/retrieve", json={"query": "a"}).status_code == 200
    assert bool(events(project)) is kept


def test_tools_of_agents_leave_events(project: Path) -> None:
    secret = key(project, "agent")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    with served(project) as running:
        http = running.client(secret)
        headers = {"accept": "application/json, text/event-stream"}
        for name, arguments in (("search", {"query": QUESTION}), ("fetch", {"id": SOURCE})):
            params = {"name": name, "arguments": arguments}
            http.post("/mcp/", json={**call, "params": params}, headers=headers)
        http.post("/mcp/", json={**call, "method": "tools/list", "params": {}}, headers=headers)
    stored = events(project)
    assert [facts(event, "kind", "who") for event in stored] == [
        ("asked", "agent"),
        ("saw", "agent"),
    ]
    assert all(SOURCE in event["documents"] for event in stored)


def test_a_request_is_refused_while_its_event_cannot_be_stored(project: Path) -> None:
    secret = key(project, "ann")
    refusing = (
        "CREATE TRIGGER full BEFORE INSERT ON audit_events BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with served(project) as running:
        with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
            ledger.execute(refusing)
        reply = running.client(secret).post("/v1/chat/completions", json=ASKED)
        assert reply.status_code == 500
        assert "two years" not in reply.text
        with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
            ledger.execute("DROP TRIGGER full")
        assert running.client(secret).post("/v1/chat/completions", json=ASKED).status_code == 200


def test_what_a_client_sends_forges_no_event_and_commands_no_terminal(project: Path) -> None:
    secret = key(project, "eve")
    forged = f"docs/none.md\n{SOURCE}\n\x1b[2J\x9b31m\u202e"
    with served(project, "serve.audit.questions=true") as running:
        http = running.client(secret)
        assert http.get("/source", params={"id": forged}).status_code == 404
        http.post("/v1/retrieve", json={"query": f"a\n2026-01-01T00:00:00 boss {forged}"})
        http.get(f"/outputs/{quote(forged)}")
    assert not any(SOURCE in event["documents"] for event in events(project, "--last", "1"))
    assert [event["kind"] for event in events(project, "--document", SOURCE)] == ["asked"]
    [named] = events(project, "--document", forged)
    assert named["documents"] == [forged.replace("\n", " ")]
    for form in ([], ["--lines"], ["--json"]):
        shown = ragwright(project, "log", *form).stdout
        assert not set("\x1b\x9b\u202e") & set(shown)
        assert "\n2026-01-01T00:00:00 boss" not in shown


def test_wrong_keys_cannot_fill_the_disk(project: Path) -> None:
    key(project, "ann")
    with served(project) as running:
        wrong = running.client("rw_wrong")
        assert {wrong.get("/v1/models").status_code for _ in range(300)} == {401}
    assert 120 <= len(events(project)) <= 242  # a minute may end in between


def test_the_address_behind_a_proxy_is_believed_only_from_known_ones(project: Path) -> None:
    secret = key(project, "ann")
    with served(project) as alone, served(project, "serve.proxy.addresses=[127.0.0.1]") as behind:
        sent = {"x-forwarded-for": "198.51.100.7, 203.0.113.9, 127.0.0.1"}
        for running in (alone, behind):
            running.client(secret).post("/v1/retrieve", json={"query": "a"}, headers=sent)
    assert [event["origin"] for event in events(project)] == ["127.0.0.1", "203.0.113.9"]


def test_what_an_owner_does_by_command_is_kept_from_the_first_key_on(project: Path) -> None:
    ragwright(project, "outputs", "export", "-o", "before.jsonl")
    ragwright(project, "keys", "add", "ann")
    ragwright(project, "outputs", "export", "-o", "after.jsonl")
    ragwright(project, "forget", SOURCE)
    ragwright(project, "keys", "revoke", "ann")
    stored = events(project)
    assert [facts(event, "kind", "action", "outcome") for event in stored] == [
        ("changed", "keys add", "done"),
        ("exported", "outputs export", "done"),
        ("erased", "forget document", "begun"),
        ("erased", "forget document", "done"),
        ("changed", "keys revoke", "done"),
    ]
    assert all(event["who"] and event["origin"] for event in stored)
    assert SOURCE not in json.dumps(stored), "what was erased is not named again"
    shown = ragwright(project, "log").stdout
    assert "forget document" in shown
    assert ragwright(project, "log", "--since", "2020-01-01 08:00+02:00").stdout == shown
    assert "no such event" in ragwright(project, "log", "--until", "2020-01-01").stdout
    assert "yesterday" in ragwright(project, "log", "--since", "yesterday", code=1).stderr
    [export] = json.loads(ragwright(project, "log", "--json", "--last", "1").stdout)["events"]
    assert facts(export, "kind", "subject") == ("exported", "audit log"), "reading all is an event"


def test_erasure_leaves_the_fact_without_the_text(project: Path) -> None:
    acme = key(project, "ann", filters=("document_id=docs/s*",))
    with served(project, "serve.audit.questions=true") as running:
        assert running.client(acme).post("/v1/chat/completions", json=ASKED).status_code == 200
    [before] = events(project)
    assert before["question"] == QUESTION
    assert SOURCE in before["documents"]
    ragwright(project, "forget", SOURCE)
    after = events(project)[0]
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"question", "documents"}
    assert after["question"] == ""
    assert "(erased)" in after["documents"]
    ragwright(project, "forget", "--tenant", before["scope"], code=None)
    after = events(project)[0]
    assert facts(after, "who", "kind", "documents", "scope") == ("ann", "asked", [], "(erased)")


@pytest.mark.slow
def test_no_answer_was_given_without_its_event_whenever_the_server_is_killed(project: Path) -> None:
    secret = key(project, "ann")
    for pause in (0.3, 0.8):
        process, address = started_server(project)
        answered: list[str] = []
        stop = threading.Event()

        def ask(
            worker: int,
            address: str = address,
            answered: list[str] = answered,
            stop: threading.Event = stop,
        ) -> None:
            with httpx2.Client(base_url=address, timeout=20) as http, suppress(httpx2.HTTPError):
                for turn in itertools.count():
                    if stop.is_set():
                        return
                    name = f"{address[-5:]}-{worker}-{turn}"
                    headers = {"authorization": f"Bearer {secret}", "x-request-id": name}
                    reply = http.post("/v1/retrieve", json={"query": QUESTION}, headers=headers)
                    if reply.status_code == 200:
                        answered.append(name)

        with ThreadPoolExecutor(4) as pool:
            for worker in range(4):
                pool.submit(ask, worker)
            while not answered:
                time.sleep(0.01)
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            process.wait(20)
            assert process.stderr is not None
            process.stderr.close()
            stop.set()
        stored = {event["request"] for event in events(project)}
        assert len(answered) > 4
        assert {*answered} <= stored
    with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def started_server(project: Path) -> tuple[subprocess.Popen[str], str]:
    """`ragwright serve` in a process of its own, and its address."""
    words = ["serve", "--port", "0", "-C", str(project)]
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return process, found[0]
    raise AssertionError("it ended")
