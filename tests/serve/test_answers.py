"""Stored answers; and what `forget` deletes is neither shown nor stored, whatever goes on."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from served import Running, asks, handbook, key, served, written_by
from small_project import QUESTION as FLUID, ingested
from waiting import wait_until

from ragwright import Workbench
from ragwright.core import StoreBusyError
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKeys
from ragwright.testing import Reply, ScriptedServer, ServerRequest

MARK = "QXMARKALPHA7731"
NAME = "docs/press-QXNAME.md"
QUESTION = "What is the press code?"
TEXTS = {
    "press-QXNAME.md": f"# Press\n\nThe press code is {MARK}.\n",
    "other.md": "# Press rules\n\nThe press code of conduct was changed in May.\n",
    "third.md": "# Third\n\nNothing of interest.\n",
}
MUCH = ("w" * 40_000 + "\n") * 300


@contextmanager
def project(folder: Path, script: Any = "ok", more: str = "") -> Iterator[tuple[Path, Any]]:
    with ScriptedServer(script) as model:
        yield (
            ingested(folder, f"serve: {{name: prices}}\n{written_by(model)}{more}", **TEXTS),
            model,
        )


def forget(folder: Path) -> dict[str, int]:
    (folder / NAME).unlink()
    with Workbench.open(folder) as bench:
        return dict(bench.forget(NAME))


def held(folder: Path, *words: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    marks = [word.encode() for word in words or (MARK,)]
    return [f.name for f in files if any(mark in f.read_bytes() for mark in marks)]


def read(link: socket.socket) -> str:
    return b"".join(iter(lambda: link.recv(1 << 20), b"")).decode("utf-8", "replace")


def forgotten_at_the_end(folder: Path, model: ScriptedServer, name: str) -> int:
    """Documents forgotten as soon as the model has ended: until then `forget` is refused."""
    with Workbench.open(folder) as bench:
        while True:
            with suppress(StoreBusyError):
                if model.requests:
                    return bench.forget(name)["documents"]


def test_the_next_answer_knows_of_it_before_the_server_looks_for_a_new_index(
    tmp_path: Path,
) -> None:
    folder = ingested(tmp_path, **TEXTS)
    with served(folder, watch=3600) as running:
        assert MARK in running.ask(QUESTION).text
        forget(folder)
        reply = running.http.post("/v1/retrieve", json={"query": QUESTION})
        assert reply.status_code == 200
        assert MARK not in reply.text
        again = running.ask(QUESTION)
        assert MARK not in again.text
        assert "code of conduct" in again.text
    assert held(folder) == []


@pytest.mark.slow
def test_an_answer_that_is_read_slowly_is_cut_and_not_stored(tmp_path: Path) -> None:
    with project(tmp_path, Reply(f"The code is {MARK} [1]. {MUCH}")) as (folder, model):
        with served(folder) as running, running.link(QUESTION) as link:
            assert forgotten_at_the_end(folder, model, NAME) == 1
            (folder / NAME).unlink()
            text = read(link)
        last = text.rpartition("data: {")[2]
        assert '"code": "erased"' in last
        assert "has been deleted meanwhile; ask again" in last
        assert "[DONE]" not in text
    assert held(folder) == []


@pytest.mark.slow
def test_an_answer_of_other_documents_goes_on(tmp_path: Path) -> None:
    one = "retrieve: {top_k: 1}\n"
    with (
        project(tmp_path, Reply(f"It was changed in May [1]. {MUCH}"), one) as (folder, model),
        served(folder, gives_way=60) as running,
        running.link(QUESTION) as link,
    ):
        assert forgotten_at_the_end(folder, model, "docs/third.md") == 1
        assert "[DONE]" in read(link)
    assert "ledger.sqlite" in held(folder, "changed in May [1]")


@pytest.mark.slow
def test_an_answer_that_the_model_still_writes_is_cut_for_it(tmp_path: Path) -> None:
    """Else a server that always answers could never forget."""
    words = f"The code is {MARK} [1]. " + "word " * 400
    with (
        project(tmp_path, Reply(words, pace=0.3)) as (folder, model),
        served(folder) as running,
        running.link(QUESTION) as link,
    ):
        wait_until(lambda: model.requests)
        assert forget(folder)["documents"] == 1
        assert '"code": "erased"' in read(link)
    assert held(folder) == []


@pytest.mark.slow
def test_a_slow_answer_that_may_be_made_from_it_is_ended_and_others_wait(tmp_path: Path) -> None:
    def slow(request: ServerRequest) -> Reply:
        return Reply(f"It is {MARK}", delay=60 * (MARK in str(request.body)))

    with (
        project(tmp_path, slow) as (folder, model),
        served(folder, gives_way=1) as running,
        ThreadPoolExecutor(2) as pool,
    ):
        asked = pool.submit(running.ask, QUESTION)
        wait_until(lambda: model.requests)
        forgetting = pool.submit(forget, folder)
        assert asked.result().status_code == 503
        assert asked.result().json()["error"]["code"] == "erased"
        assert forgetting.result()["documents"] == 1
        assert running.ask(QUESTION).status_code == 200
    assert MARK not in str(model.requests[-1].body)
    assert "outputs.sqlite" not in held(folder, NAME)


@pytest.mark.slow
def test_a_server_that_is_never_idle_can_forget(tmp_path: Path) -> None:
    folder = ingested(tmp_path, **TEXTS)
    stop, forgotten = threading.Event(), threading.Event()
    replies: list[tuple[bool, int, str]] = []

    def ask(running: Running, number: int) -> None:
        while not stop.is_set():
            late = forgotten.is_set()
            reply = running.ask(QUESTION + "?" * number)
            replies.append((late, reply.status_code, reply.text))

    with served(folder) as running, ThreadPoolExecutor(4) as pool:
        askers = [pool.submit(ask, running, number) for number in range(4)]
        try:
            wait_until(lambda: len(replies) > 8)
            assert forget(folder)["documents"] == 1
            forgotten.set()
            wait_until(lambda: sum(late for late, *_ in replies) > 8)
        finally:
            stop.set()
        for asker in askers:
            asker.result()
    after = [(status, text) for late, status, text in replies if late]
    assert {status for status, _ in after} == {200}
    assert not any(MARK in text for _, text in after)
    assert any(MARK in text for *_, text in replies)
    assert held(folder) == []


@pytest.mark.slow
def test_jobs_conversations_and_time_stamps_forget_too(tmp_path: Path) -> None:
    def reply(request: ServerRequest) -> str:
        text = json.dumps(request.body)
        if "stand" in text and "alone" in text.lower() and "Passages" not in text:
            return f"When was the press code {MARK} changed?"
        return f"The code is {MARK} [1]." if MARK in text else "I do not know."

    jobs = f"jobs: {{nightly: {{steps: ['ask \"{QUESTION}\"', 'retrieve \"press code\"']}}}}\n"
    with project(tmp_path, reply, jobs) as (folder, _):
        with Workbench.open(folder) as bench:
            bench.jobs().run("nightly")
        assert "ledger.sqlite" in held(folder)
        with served(folder) as running:
            running.ask(QUESTION, f"The code is {MARK} [1].", "And when was it changed?")
            assert "replies.sqlite" in held(folder)
            counts = forget(folder)
    assert counts["jobs"] == 2
    assert held(folder, MARK, "QXNAME") == []
    with Workbench.open(folder) as bench:
        [run] = bench.jobs().history()
    assert {step.output for step in run.steps} == {"(removed by `ragwright forget`)"}


@pytest.mark.parametrize(("way", "left"), [("chat", 3), ("edited chat", 1)])
def test_an_answer_that_followed_one_from_the_document_goes_with_it(
    tmp_path: Path, way: str, left: int
) -> None:
    """It may repeat what the earlier one quoted; its own passages are of other documents."""
    other, edited = "When was the code of conduct changed?", way == "edited chat"
    only = {"filters": ["source=docs/other.md"]}

    def reply(request: ServerRequest) -> str:
        return f"The code is {MARK} [1]." if MARK in json.dumps(request.body) else "In May [1]."

    with project(tmp_path, reply) as (folder, _), served(folder) as running:

        def ask(*turns: str, **options: Any) -> str:
            made = running.ask(*turns, ragwright=options)
            assert made.status_code == 200
            return str(made.json()["choices"][0]["message"]["content"])

        said = ask(QUESTION, source_links=True)
        if edited:  # nobody knows what a turn of a client quotes
            said = said.replace("code", "press code")
        assert MARK in ask(QUESTION, said, other, **only)
        turns = [other]
        for _ in range(3):
            said = ask(*turns, **only) + (" So it says." if edited else "")
            turns += [f"\n{said}\r\n", other]
        forget(folder)
    assert held(folder) == []
    with Workbench.open(folder) as bench:
        assert bench.outputs.count() == 2 * left, "prompts and texts"


def test_forgetting_reaches_what_was_served(tmp_path: Path) -> None:
    with handbook(tmp_path) as running:
        folder = running.folder
        secret = key(folder, "acme", filters=("source=docs/service.md",))
        reply = running.ask(FLUID, key=secret).json()
        said = reply["choices"][0]["message"]["content"]
        running.ask(FLUID, said, "What does APP_w304 mean?", key=secret)
    ledgers = folder / ".ragwright/data"
    quote, name = reply["ragwright"]["citations"][0]["quote"], reply["id"]
    assert held(ledgers, quote)
    assert held(ledgers, name)
    with Workbench.open(folder) as bench:
        bench.forget("docs/service.md")
        assert held(ledgers, quote, name) == []
        ServeKeys(ProjectFolder(folder)).revoke("acme")  # a key keeps its filters until then
        bench.forget_tenant("source=docs/service.md")
    assert held(ledgers, "source=docs/service.md") == []


def test_an_answer_that_cannot_be_stored_is_answered(tmp_path: Path) -> None:
    with handbook(tmp_path) as running:
        assert running.ask(FLUID).status_code == 200
        with Workbench.open(running.folder) as bench:
            assert bench.outputs.count() == 2
        with closing(sqlite3.connect(ProjectFolder(running.folder).ledger)) as ledger:
            ledger.execute("DROP TABLE items")
        reply = running.http.post("/v1/chat/completions", json=asks(f"{FLUID} Please."))
    assert reply.status_code == 200
    assert "every two years" in reply.json()["choices"][0]["message"]["content"]
