"""What is refused, and how: headers, files and settings that are wrong."""

from __future__ import annotations

import re
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from agent import with_tools
from command_line import ragwright
from mcp import Client
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import RetrieveError, StoreError
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def raw(address: str, head: str) -> str:
    """What is answered to bytes that no HTTP library would send."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as link:
        link.sendall(head.encode() + b"\r\n\r\n")
        return link.recv(65536).decode()


@pytest.mark.slow
@pytest.mark.parametrize("host", ["[", "[::1", "a:b", "127.0.0.1:99999999", "an_attacker.example"])
def test_a_host_header_that_cannot_be_read_is_refused(project: Path, host: str) -> None:
    with served(project) as running:
        reply = raw(
            running.address, f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\nconnection: close"
        )
        assert running.http.get("/healthz").status_code == 200
    assert re.match(r"HTTP/1.1 (400|421) ", reply), reply


@pytest.mark.slow
def test_an_abstention_names_the_words_that_no_document_has(project: Path) -> None:
    question = "Wer ist der Bürgermeister von Oslo?"
    asked = {"model": "handbook", "messages": [{"role": "user", "content": question}]}
    with served(project) as running:
        reply = running.http.post("/v1/chat/completions", json=asked).json()
        page = running.http.post("/", data={"q": question}).text
    refused = "Nothing was found for this question. In no document: Bürgermeister, Oslo."
    assert refused in reply["choices"][0]["message"]["content"]
    assert refused in page


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("x" * 1_000_000, "the question has 1000000 characters, more than 20000"),
        (" ".join(f"C{n}" for n in range(2000)), "the question has 2000 different words"),
    ],
    ids=["1 MB", "2000 codes"],
)
def test_a_question_that_would_keep_others_waiting_is_refused_at_every_door(
    project: Path, question: str, told: str
) -> None:
    with Workbench.open(project) as bench:
        for door in (bench.ask, bench.retrieve):
            with pytest.raises(RetrieveError, match=told):
                door(question)

    async def work(client: Client) -> None:
        for tool, name in (("ask", "question"), ("search", "query")):
            result = await client.call_tool(tool, {name: question})
            assert result.is_error
            assert re.search(f"{told}|at most 10000 characters", str(result.content)), tool

    asked = {"model": "handbook", "messages": [{"role": "user", "content": question}]}
    with served(project) as running:
        for path, body in (
            ("/v1/chat/completions", asked),
            ("/v1/responses", {"model": "handbook", "input": question}),
            ("/v1/retrieve", {"query": question}),
        ):
            reply = running.http.post(path, json=body)
            assert reply.status_code == 400, path
            assert re.search(f"{told}|at most 100000 characters", reply.text), path
        with_tools(running, work)


@pytest.mark.parametrize("command", ["ask", "retrieve"])
def test_the_commands_refuse_a_question_of_too_many_words(project: Path, command: str) -> None:
    question = " ".join(f"C{n}" for n in range(2000))
    result = ragwright(project, command, question, code=1)
    assert "the question has 2000 different words, more than 1000" in result.stderr


def test_tools_have_no_stream_to_listen_to(project: Path) -> None:
    with served(project) as running:
        for method in ("GET", "DELETE"):
            reply = running.http.request(method, "/mcp/", headers={"accept": "text/event-stream"})
            assert reply.status_code == 405
            assert reply.headers["allow"] == "POST"


def test_keys_that_cannot_be_written_are_an_error_with_the_place(project: Path) -> None:
    data = project / ".ragwright/data"
    for file in data.glob("ledger.sqlite*"):
        file.unlink()
    (data / "ledger.sqlite").mkdir()
    with pytest.raises(StoreError) as error:
        ServeKeys(ProjectFolder(project)).add(ServeKey("app"))
    assert error.value.where == str(data / "ledger.sqlite")


def test_an_answer_that_cannot_be_stored_is_answered(project: Path) -> None:
    with served(project) as running:
        assert running.ask(QUESTION).status_code == 200
        with Workbench.open(project) as bench:
            stored = bench.outputs.count()
        with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
            ledger.execute("DROP TABLE items")
        reply = running.ask(f"{QUESTION} Please.")
    assert stored == 2
    assert reply.status_code == 200
    assert "every two years" in reply.json()["choices"][0]["message"]["content"]


def test_scopes_of_filters_do_not_collide(project: Path) -> None:
    first_key = ServeKey("one", filters=("a=1", "b=2"))
    other = ServeKey("other", filters=("a=1 and b=2",))
    third = ServeKey("third", filters=('["a=1", "b=2"]=x',))
    same = ServeKey("same", filters=("b=2", "a=1"))
    assert len({first_key.scope, other.scope, third.scope}) == 3
    assert same.scope == first_key.scope
    assert ServeKey("single", filters=("tenant=acme",)).scope == "tenant=acme"


def test_the_wait_of_a_rate_is_never_too_short(project: Path) -> None:
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("slow", per_minute=1))
    with served(project) as running:
        http = running.client(secret)
        waits = []
        for _ in range(6):
            reply = http.post("/v1/retrieve", json={"query": "a"})
            if reply.status_code == 429:
                waits.append(float(reply.headers["retry-after"]))
    assert waits
    assert all(0 < wait <= 60 for wait in waits)


@pytest.mark.slow
def test_forgetting_reaches_what_was_served(project: Path) -> None:
    secret = ServeKeys(ProjectFolder(project)).add(
        ServeKey("acme", filters=("source=docs/service.md",))
    )
    with served(project) as running:
        http = running.client(secret)
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        reply = http.post("/v1/chat/completions", json=body).json()
        again = {
            "messages": [
                *body["messages"],
                {"role": "assistant", "content": reply["choices"][0]["message"]["content"]},
                {"role": "user", "content": "What does APP_w304 mean?"},
            ]
        }
        http.post("/v1/chat/completions", json=again)
    quote = reply["ragwright"]["citations"][0]["quote"].encode()
    data = project / ".ragwright/data"

    def held(what: bytes) -> list[str]:
        files = data.glob("ledger.sqlite*")
        return [file.name for file in files if what in file.read_bytes()]

    assert held(quote)
    assert held(reply["id"].encode())
    with Workbench.open(project) as bench:
        bench.forget("docs/service.md")
        assert not held(quote), "also in citations and in the turns of later questions"
        assert not held(reply["id"].encode())
        ServeKeys(ProjectFolder(project)).revoke("acme")  # a key keeps its filters until then
        bench.forget_tenant("source=docs/service.md")
        assert not held(b"source=docs/service.md")
