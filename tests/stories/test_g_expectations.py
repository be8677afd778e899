"""SPEC G: what users of such tools expect.

What needs more than this machine has by itself is held elsewhere: G3 in ``tests/models``, G6 in
``tests/index`` and ``tests/records``, G10 in ``tests/flow/test_flow.py``, G11 in
``tests/test_plugin.py``. What readers of a server may see is G12, one project for all of it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent import with_tools
from command_line import ragwright
from made_files import pdf_of
from served import Running, served
from story_tools import (
    csv_rows,
    lacking,
    make_project,
    playing,
    read_json,
    read_rows,
    settings,
    write_files,
    write_rows,
)

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

FAN = "# Fan\n\nThe fan of the cooler is changed in May.\n"
BELT = "# Belt\n\nThe belt of the engine is checked twice a year.\n"
SYSTEM = """
def answer(question):
    if "fan" in question:
        return {"answer": "In May", "contexts": ["The fan of the cooler is changed in May."]}
    return {"answer": "I do not know." if "bus" in question else "Rome", "contexts": []}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"fan.md": FAN, "belt.md": BELT}
    folder = make_project(tmp_path_factory.mktemp("g"), texts, rag=SYSTEM)
    rows: list[dict[str, object]] = [
        {"id": "1", "user_input": "When is the fan changed?", "reference": "In May"},
        {"id": "2", "user_input": "Is the bus late?", "answerable": False},
        {"id": "3", "user_input": "Who lost?", "answerable": False},
    ]
    write_rows(folder / "set.jsonl", rows)
    asked = ("--testset", "set.jsonl", "--measures", "TokenF1,RejectionRate", "--name", "mine")
    ragwright(folder, "eval", "--system", "rag:answer", *asked, "-q")
    return folder


def test_g1_a_system_that_exists_is_evaluated_in_one_line(project: Path) -> None:
    told = read_json(project, "score", "mine", "--measures", "TokenF1,RejectionRate", "--rows")
    assert told["measures"]["TokenF1"]["mean"] == 1.0
    assert told["measures"]["RejectionRate"]["mean"] == 0.5, "one of two is refused rightly"
    assert [row["response"] for row in told["rows"]] == ["In May", "I do not know.", "Rome"]
    with ScriptedServer("In May") as server:
        asked = ("--testset", "set.jsonl", "--measures", "TokenF1")
        other = read_json(project, "eval", "--system", f"{server.url}#theirs", *asked, "-q")
    assert other["measures"]["TokenF1"]["mean"] == 1.0
    compared = read_json(project, "compare", "mine", other["run"])
    assert compared["measures"]["TokenF1"]["difference"] == 0


def test_g2_an_agent_searches_reads_and_lists_by_mcp(project: Path) -> None:
    async def work(client: Any) -> Any:
        names = sorted(tool.name for tool in (await client.list_tools()).tools)
        found = await client.call_tool("search", {"query": "When is the fan changed?"})
        first = found.structured_content["results"][0]
        read = await client.call_tool("fetch", {"id": first["id"]})
        listed = await client.call_tool("list_sources", {})
        return names, first, read.structured_content, json.dumps(listed.structured_content)

    with served(project) as running:
        names, first, read, listed = with_tools(running, work)
    assert (names, first["title"]) == (["ask", "fetch", "list_sources", "search"], "Fan")
    assert "changed in May" in read["text"]
    assert lacking(listed, "fan.md", "belt.md") == []


def test_g4_rows_come_out_as_files(project: Path) -> None:
    for name in ("rows.csv", "rows.jsonl"):
        ragwright(project, "score", "mine", "--measures", "TokenF1", "-o", f"out/{name}", "-q")
    table = csv_rows(project / "out" / "rows.csv")
    head, *lines = read_rows(project / "out" / "rows.jsonl")
    assert list(head["measures"]) == ["TokenF1"]
    assert [row["response"] for row in table] == ["In May", "I do not know.", "Rome"]
    assert [line["row"]["response"] for line in lines] == [r["response"] for r in table]
    assert table[0]["TokenF1"] == "1.0"


def test_g5_the_same_flows_are_asynchronous_in_python(project: Path) -> None:
    async def both() -> tuple[list[str], str]:
        with Workbench.open(project) as bench:
            questions = ("When is the fan changed?", "When is the belt checked?")
            found = await asyncio.gather(*(bench.aretrieve(question) for question in questions))
            answer = await bench.aask(questions[0])
            return [one.hits[0].title for one in found], answer.hits[0].title

    assert asyncio.run(both()) == (["Fan", "Belt"], "Fan")


def test_g7_without_a_key_the_right_source_is_shown_or_nothing(project: Path) -> None:
    answer = read_json(project, "ask", "When is the fan of the cooler changed?")["answers"][0]
    assert answer["abstained"] is False
    assert answer["hits"][0]["source"] == "docs/fan.md"
    text = ragwright(project, "ask", "When is the fan of the cooler changed?").stdout
    assert lacking(text, "The fan of the cooler is changed in May.", "docs/fan.md") == []
    silent = read_json(project, "ask", "Who won the championship in chess?")["answers"][0]
    assert (silent["abstained"], silent["citations"]) == (True, [])
    assert "chess" in json.dumps(silent["notes"]), "words that are in no document are named"


def test_g8_every_encoding_is_read_and_one_bad_file_loses_no_other(tmp_path: Path) -> None:
    text = "Das Gehäuse der Kühlung öffnet sich für Gäste erst später, sagt Jürgen Größl."
    encodings = ("utf-8", "cp1252", "utf-16", "utf-8-sig")
    files = {f"docs/{encoding}.txt": text.encode(encoding) for encoding in encodings}
    files |= {"docs/broken.pdf": pdf_of("lost")[:200], "docs/whole.pdf": pdf_of("The pump hums.")}
    files |= {"docs/values.csv": b"part,price\nbolt,0.50\nnut,007\n"}
    write_files(tmp_path, {**files, "ragwright.yaml": b"sources: [docs/]\n"})
    told = read_json(tmp_path, "ingest", code=None)
    assert (told["documents"]["added"], told["documents"]["failed"]) == (len(encodings) + 2, 1)
    assert "broken.pdf" in json.dumps(told["failures"])
    hits = read_json(tmp_path, "retrieve", "Gehäuse Kühlung", "-k", "9")["hits"]
    assert len(hits) == len(encodings)
    assert all(hit["text"].strip() == text for hit in hits)
    [table] = read_json(tmp_path, "retrieve", "bolt")["hits"]
    assert "0.50" in table["text"], "values stay as they are shown"
    assert "007" in table["text"]


def test_g9_a_gate_writes_the_comment_of_a_pull_request(project: Path) -> None:
    gate = ("gate", "mine", "--least", "1", "--markdown", "--rule")
    passed = ragwright(project, *gate, "TokenF1>=0.9").stdout
    assert lacking(passed, "### ragwright gate: passed", "mean 1.0000 on 1 row") == []
    failed = ragwright(project, *gate, "RejectionRate>=0.9", code=100).stdout
    assert "### ragwright gate: failed" in failed


# -- G12: who may see what of a server, and how much of it --------------------------------------

QUESTION = "What is the door code?"
CODES = {"open.md": "AZALEA", "hr.md": "MAGNOLIA", "board.md": "QUARTZ"}
GROUPS = {name: f"---\ngroups: [{name[:-3]}]\n---\n" for name in ("hr.md", "board.md")}
SERVE = (
    "serve:\n  name: house\n  cors: ['https://app.example.org']\n"
    "  proxy: {addresses: [127.0.0.0/8], user_header: X-Forwarded-User, groups_header: X-Groups}\n"
    "  people: {roles: {reader: [staff], owner: [admins]}}\n"
)


def tells_all(request: ServerRequest) -> str:
    """Every code that it was shown, so that what leaks is seen."""
    shown = json.dumps(request.body.get("messages", ""))
    return " ".join(code for code in CODES.values() if code in shown) + " [1]."


model = playing(tells_all)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, model: ScriptedServer) -> Path:
    named = f"{model.url}#writer"
    priced = f"models: {{'{named}': {{price_in: 50000, price_out: 50000}}}}\n"
    texts = {
        name: f"{GROUPS.get(name, '')}# Plan of {name[:-3]}\n\nThe door code is {code}.\n"
        for name, code in CODES.items()
    }
    chosen = f"answer: {{model: '{named}'}}\n{priced}{SERVE}"
    return make_project(tmp_path_factory.mktemp("house"), texts, chosen)


@pytest.fixture(scope="module")
def running(house: Path) -> Iterator[Running]:
    with served(house) as server:
        yield server


def key(house: Path, name: str, *words: str) -> str:
    secret: str = read_json(house, "keys", "add", name, *words)["key"]
    return secret


def seen(text: str) -> set[str]:
    """Documents whose code is in a text."""
    return {name for name, code in CODES.items() if code in text}


def test_g12_groups_hold_at_every_door(house: Path, running: Running) -> None:
    readers = {"nobody": "", "hr": "hr", "both": "hr,board"}
    for name, groups in readers.items():
        allowed = {"open.md", *(f"{group}.md" for group in groups.split(",") if group)}
        client = running.client(key(house, name, *(("--groups", groups) if groups else ())))
        messages = [{"role": "user", "content": QUESTION}]
        doors: dict[str, dict[str, Any]] = {
            "/v1/retrieve": {"query": QUESTION},
            "/v1/chat/completions": {"messages": messages},
            "/v1/responses": {"input": QUESTION},
            "/retrieval": {
                "knowledge_id": "house", "query": QUESTION,
                "retrieval_setting": {"top_k": 9, "score_threshold": 0.0},
            },
        }  # fmt: skip
        for path, body in doors.items():
            reply = client.post(path, json=body)
            assert reply.status_code == 200, (path, reply.text)
            assert seen(reply.text) == allowed, path
        for document in CODES:
            page = client.get("/source", params={"id": f"docs/{document}"})
            assert page.status_code == (200 if document in allowed else 404)
        as_groups = ("--as-groups", groups or "everyone")
        assert seen(ragwright(house, "retrieve", QUESTION, *as_groups).stdout) == allowed
        assert seen(ragwright(house, "ask", QUESTION, *as_groups).stdout) == allowed

    async def work(client: Any) -> str:
        return str((await client.call_tool("search", {"query": QUESTION})).structured_content)

    assert seen(with_tools(running, work, key(house, "agent"))) == {"open.md"}


def test_g12_identity_comes_from_a_trusted_proxy_alone(house: Path, running: Running) -> None:
    body = {"query": QUESTION}
    named = {"x-forwarded-user": "ann", "x-groups": "staff, hr"}
    assert running.http.post("/v1/retrieve", json=body).status_code == 401
    reply = running.http.post("/v1/retrieve", json=body, headers=named)
    assert seen(reply.text) == {"open.md", "hr.md"}
    unknown = running.http.post("/v1/retrieve", json=body, headers={**named, "x-groups": "guests"})
    assert unknown.status_code == 403, "people without a role are refused"
    doubled = [("x-forwarded-user", "ann"), ("x-forwarded-user", "bob"), ("x-groups", "staff")]
    assert running.http.post("/v1/retrieve", json=body, headers=doubled).status_code == 401
    foreign = {**named, "origin": "https://evil.example"}
    assert running.http.post("/v1/retrieve", json=body, headers=foreign).status_code == 403
    with served(house, "serve.proxy.addresses=[10.0.0.5]") as elsewhere:
        told = elsewhere.http.post("/v1/retrieve", json=body, headers=named)
        assert told.status_code == 401, "headers from any other address are not believed"


def test_g12_pages_of_other_origins_may_not_call(house: Path, running: Running) -> None:
    client = running.client(key(house, "app"))
    wanted = {"access-control-request-method": "POST"}
    for origin, status in (("https://app.example.org", 200), ("https://evil.example", 400)):
        asked = client.options("/v1/retrieve", headers={"origin": origin, **wanted})
        assert asked.status_code == status
        reply = client.post("/v1/retrieve", json={"query": QUESTION}, headers={"origin": origin})
        for answered in (asked, reply):
            allowed = answered.headers.get("access-control-allow-origin")
            assert allowed == (origin if status == 200 else None)
            assert "access-control-allow-credentials" not in answered.headers, "keys, no cookies"
    crossed = {"sec-fetch-site": "cross-site", "x-forwarded-user": "ann", "x-groups": "staff"}
    assert running.http.post("/", data={"q": "a"}, headers=crossed).status_code == 403


def test_g12_a_key_has_a_rate_and_a_budget(house: Path, running: Running) -> None:
    slow = running.client(key(house, "slow", "--per-minute", "2"))
    replies = [slow.post("/v1/retrieve", json={"query": QUESTION}) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert int(replies[2].headers["retry-after"]) > 0
    poor = running.client(key(house, "poor", "--daily-budget", "0.5", "--groups", "board"))
    statuses = []
    for question in ("Which code opens the door?", "Which other code opens it?"):
        body = {"messages": [{"role": "user", "content": question}]}
        statuses.append(poor.post("/v1/chat/completions", json=body))
    assert [reply.status_code for reply in statuses] == [200, 429]
    assert statuses[1].json()["error"]["code"] == "insufficient_quota"


def test_g12_requests_at_work_are_limited(house: Path) -> None:
    arrived = threading.Event()

    def never(request: ServerRequest) -> Reply:
        arrived.set()
        return Reply(malformed="hang")

    with ScriptedServer(never) as stuck:
        secret, named = key(house, "busy"), f"answer.model={stuck.url}#stuck"
        with served(house, named, "serve.concurrency=1", "serve.waiting=0") as running:
            client = running.client(secret)
            body = {"messages": [{"role": "user", "content": "Which code has the door?"}]}
            path = "/v1/chat/completions"
            first = threading.Thread(target=lambda: client.post(path, json=body), daemon=True)
            first.start()
            assert arrived.wait(60)
            assert running.client(secret).post(path, json=body).status_code == 503
            stuck.play(Reply(status=400, error="no"))
            stuck.close()
            first.join(60)


def test_g12_the_log_tells_all_and_answers_are_corrected(house: Path, running: Running) -> None:
    client = running.client(key(house, "critic"))
    body = {"messages": [{"role": "user", "content": "What is the code of the door?"}]}
    answer = client.post("/v1/chat/completions", json=body).json()["id"]
    rating = {"id": answer, "verdict": "rejected", "correction": "It is TULIP."}
    assert client.post("/v1/feedback", json=rating).status_code == 200
    stranger = running.client(key(house, "stranger"))
    assert stranger.post("/v1/feedback", json=rating).status_code == 404
    lines = ragwright(house, "log", "--who", "critic", "--lines").stdout.splitlines()
    [asked] = [event for event in map(json.loads, lines) if event["kind"] == "asked"]
    assert asked["documents"] == ["docs/open.md"]
    listed = read_json(house, "outputs", "list", "--verdict", "rejected")["outputs"]
    assert [output["request"]["question"] for output in listed] == ["What is the code of the door?"]
    decided = ragwright(house, "review", "--feedback", typed="a\n").stdout
    assert decided == "1 accepted, 0 edited, 0 rejected, 0 open\n"
    [row] = read_rows(house / "testsets" / "feedback.jsonl")
    assert (row["reference"], row["metadata"]["kind"]) == ("It is TULIP.", "feedback")


def holding(house: Path, *words: str) -> list[str]:
    """Files of the store that hold one of these."""
    found = []
    for file in (house / ".ragwright").rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # the server renames files meanwhile
            content = file.read_bytes()
            found += [file.name] * any(word.encode() in content for word in words)
    return found


def test_g12_what_is_forgotten_is_nowhere(house: Path, running: Running) -> None:
    """The last test of the house: it loses a document and a reader."""
    question = "Where is QXPLACE and what is its code?"
    client = running.client(key(house, "mia.example", "--groups", "board"))
    body = {"messages": [{"role": "user", "content": question}]}
    assert CODES["board.md"] in client.post("/v1/chat/completions", json=body).text
    assert holding(house, CODES["board.md"])
    assert holding(house, "QXPLACE")
    erased = read_json(house, "forget", "--person", "mia.example")
    assert erased["answers"] >= 1
    assert holding(house, "QXPLACE", "mia.example") == []
    assert client.post("/v1/retrieve", json={"query": QUESTION}).status_code == 401
    (house / "docs" / "board.md").unlink()
    assert read_json(house, "forget", "docs/board.md")["documents"] == 1
    assert holding(house, CODES["board.md"], "docs/board.md") == []
    owner = {"x-forwarded-user": "olga", "x-groups": "admins"}
    found = running.http.post("/v1/retrieve", json={"query": QUESTION}, headers=owner)
    assert seen(found.text) == {"open.md", "hr.md"}


def test_g13_chunks_are_found_under_their_heads(tmp_path: Path) -> None:
    text = (
        "---\ntitle: Kettle Model Seven\n---\n"
        "# Descaling\n\nPour vinegar in.\n\n# Storing\n\nKeep it dry.\n"
    )
    plan = make_project(tmp_path, {"a.md": text}, "chunk: {by: headings, size: 8, overlap: 0}\n")
    best, other = read_json(plan, "retrieve", "kettle seven descaling")["hits"]
    assert "vinegar" in best["text"]
    assert "Seven" not in best["text"] + other["text"]
    assert best["head"]["title"] == other["head"]["title"] == "Kettle Model Seven"
    bare = settings(chunk__head__title="false", chunk__head__headings="false")
    ragwright(plan, "ingest", "-q", *bare)
    assert read_json(plan, "retrieve", "seven", *bare)["hits"] == []
