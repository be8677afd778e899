"""What `forget` deletes is neither shown nor stored afterwards, whatever the server was doing."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from served import Running, served
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.core import StoreBusyError
from ragwright.testing import Reply, ScriptedServer, ServerRequest

MARK = "QXMARKALPHA7731"
NAME = "docs/press-QXNAME.md"
QUESTION = "What is the press code?"
TEXTS = {
    "press-QXNAME.md": f"# Press\n\nThe press code is {MARK}.\n",
    "other.md": "# Press rules\n\nThe press code of conduct was changed in May.\n",
}


def project(tmp_path: Path, settings: str = "") -> Path:
    folder = MakeProject(tmp_path)(f"serve: {{name: prices}}\n{settings}", **TEXTS)
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def forget(folder: Path) -> dict[str, int]:
    (folder / NAME).unlink()
    with Workbench.open(folder) as bench:
        return dict(bench.forget(NAME))


def held(folder: Path, *words: str) -> list[str]:
    """Files that hold one of these."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    marks = [word.encode() for word in words or (MARK,)]
    return [f.name for f in files if any(mark in f.read_bytes() for mark in marks)]


def test_the_next_answer_knows_of_it_before_the_server_looks_for_a_new_index(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path)
    with served(folder, watch=3600) as running:
        assert MARK in running.ask(QUESTION).text
        forget(folder)
        for path, body in (
            ("/v1/retrieve", {"query": QUESTION}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}]}),
        ):
            reply = running.http.post(path, json=body)
            assert reply.status_code == 200
            assert MARK not in reply.text
        assert "code of conduct" in running.ask(QUESTION).text
    assert held(folder) == []


def begun(running: Running, link: socket.socket) -> None:
    """Ask for a stream, and do not read it."""
    parts = urlsplit(running.address)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect((parts.hostname, parts.port))
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    data = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    link.sendall(head.encode() + data)


def forgotten_at_the_end(folder: Path, model: ScriptedServer, name: str) -> int:
    """Documents forgotten as soon as the model has ended: until then `forget` is refused."""
    with Workbench.open(folder) as bench:
        while True:
            with suppress(StoreBusyError):
                if model.requests:
                    return bench.forget(name)["documents"]


@pytest.mark.slow
def test_an_answer_that_is_read_slowly_is_cut_and_not_stored(tmp_path: Path) -> None:
    words = f"The code is {MARK} [1]. " + ("w" * 40_000 + "\n") * 300
    with ScriptedServer(Reply(words)) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder) as running, socket.socket() as link:
            begun(running, link)
            assert forgotten_at_the_end(folder, model, NAME) == 1
            (folder / NAME).unlink()
            link.settimeout(60)
            text = b""
            while piece := link.recv(1 << 20):
                text += piece
        last = text.decode("utf-8", "replace").rpartition("data: {")[2]
        assert '"code": "erased"' in last
        assert "has been deleted meanwhile; ask again" in last
        assert b"[DONE]" not in text
    assert held(folder) == []


@pytest.mark.slow
def test_an_answer_that_the_model_still_writes_is_cut_for_it(tmp_path: Path) -> None:
    """Else a server that always answers could never forget."""
    words = f"The code is {MARK} [1]. " + "word " * 400
    with ScriptedServer(Reply(words, pace=0.3)) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder) as running, socket.socket() as link:
            begun(running, link)
            while not model.requests:
                time.sleep(0.05)
            assert forget(folder)["documents"] == 1
            link.settimeout(60)
            text = b""
            while piece := link.recv(1 << 20):
                text += piece
    assert b'"code": "erased"' in text
    assert held(folder) == []


@pytest.mark.slow
def test_a_slow_answer_that_may_be_made_from_it_is_ended_and_others_wait(tmp_path: Path) -> None:
    with ScriptedServer(
        lambda r: Reply(f"It is {MARK}", delay=60 * (MARK in str(r.body)))
    ) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder, gives_way=1) as running, ThreadPoolExecutor(2) as pool:
            slow = pool.submit(running.ask, QUESTION)
            while not model.requests:
                time.sleep(0.05)
            forgetting = pool.submit(forget, folder)
            assert slow.result().status_code == 503
            assert slow.result().json()["error"]["code"] == "erased"
            assert forgetting.result()["documents"] == 1
            left = running.ask(QUESTION)
            assert left.status_code == 200, left.text
    assert MARK not in str(model.requests[-1].body)
    assert "outputs.sqlite" not in held(folder, NAME)


@pytest.mark.slow
def test_a_server_that_is_never_idle_can_forget(tmp_path: Path) -> None:
    folder = project(tmp_path)
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
    assert after
    assert {status for status, _ in after} == {200}
    assert not any(MARK in text for _, text in after)
    assert any(MARK in text for *_, text in replies)
    assert held(folder) == []


@pytest.mark.slow
def test_an_answer_of_other_documents_goes_on(tmp_path: Path) -> None:
    words = "It was changed in May [1]. " + ("w" * 40_000 + "\n") * 300
    with ScriptedServer(Reply(words)) as model:
        settings = f"answer: {{model: '{model.url}#writer'}}\nretrieve: {{top_k: 1}}\n"
        folder = project(tmp_path, settings)
        (folder / "docs/third.md").write_text("# Third\n\nNothing of interest.\n", "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running, socket.socket() as link:
            begun(running, link)
            assert forgotten_at_the_end(folder, model, "docs/third.md") == 1
            link.settimeout(60)
            text = b""
            while piece := link.recv(1 << 20):
                text += piece
        assert b"[DONE]" in text
    assert "ledger.sqlite" in held(folder, "changed in May [1]")


@pytest.mark.slow
def test_jobs_conversations_and_time_stamps_forget_too(tmp_path: Path) -> None:
    def reply(request: ServerRequest) -> Reply:
        text = json.dumps(request.body)
        if "stand" in text and "alone" in text.lower() and "Passages" not in text:
            return Reply(f"When was the press code {MARK} changed?")
        return Reply(f"The code is {MARK} [1]." if MARK in text else "I do not know.")

    with ScriptedServer(reply) as model:
        jobs = f"jobs: {{nightly: {{steps: ['ask \"{QUESTION}\"', 'retrieve \"press code\"']}}}}\n"
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n{jobs}")
        with Workbench.open(folder) as bench:
            bench.jobs().run("nightly")
            assert "ledger.sqlite" in held(folder)
        turns = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": f"The code is {MARK} [1]."},
            {"role": "user", "content": "And when was it changed?"},
        ]
        with served(folder) as running:
            running.http.post("/v1/chat/completions", json={"messages": turns})
            assert "replies.sqlite" in held(folder)
            counts = forget(folder)
    assert counts["jobs"] == 2
    assert held(folder, MARK, "QXNAME") == []
    with Workbench.open(folder) as bench:
        [run] = bench.jobs().history()
        assert {step.output for step in run.steps} == {"(removed by `ragwright forget`)"}


@pytest.mark.parametrize("way", ["chat", "edited chat"])
def test_an_answer_that_followed_one_from_the_document_goes_with_it(
    tmp_path: Path, way: str
) -> None:
    """It may repeat what the earlier one quoted; its own passages are of other documents."""
    other = "When was the code of conduct changed?"
    only = {"ragwright": {"filters": ["source=docs/other.md"]}}

    def reply(request: ServerRequest) -> Reply:
        repeats = MARK in json.dumps(request.body)
        return Reply(f"The code is {MARK} [1]." if repeats else "In May [1].")

    with ScriptedServer(reply) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder) as running:

            def ask(path: str, **body: object) -> Any:
                reply = running.http.post(path, json={**body, **only})
                assert reply.status_code == 200
                return reply.json()

            def chat(body: object) -> Any:
                return running.http.post("/v1/chat/completions", json=body).json()

            def user(text: str) -> dict[str, str]:
                return {"role": "user", "content": text}

            first = chat({"messages": [user(QUESTION)], "ragwright": {"source_links": True}})
            turn = first["choices"][0]["message"]
            if way == "edited chat":  # nobody knows what a turn of a client quotes
                turn["content"] = turn["content"].replace("code", "press code")
            follow = ask("/v1/chat/completions", messages=[user(QUESTION), turn, user(other)])
            asked = [user(other)]
            for _ in range(3):
                kept = ask("/v1/chat/completions", messages=asked)
                turn = kept["choices"][0]["message"]
                if way == "edited chat":
                    turn["content"] += " So it says."
                asked += [{**turn, "content": f"\n{turn['content']}\r\n"}, user(other)]
            assert MARK in json.dumps(follow)
        forget(folder)
    assert held(folder) == []
    with Workbench.open(folder) as bench:
        left = {"chat": 3, "edited chat": 1}[way]
        assert bench.outputs.count() == 2 * left, "prompts and texts"
