"""`/readyz` tries what an answer needs; faults are logged; readers see no addresses."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from postgres_server import running_server, start_server, stop_server
from served import Running, served
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer, ServerRequest

QUESTION = "How often must the brake fluid be changed?"


def project(tmp_path: Path, settings: str = "") -> Path:
    folder = MakeProject(tmp_path)(f"serve: {{name: handbook, log: json}}\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def closed_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port: int = link.getsockname()[1]
        return port


def becomes(running: Running, text: str) -> None:
    wait_until(lambda: running.http.get("/readyz").text == text)


def test_a_project_without_models_is_ready(tmp_path: Path) -> None:
    with served(project(tmp_path)) as running:
        assert running.http.get("/readyz").text == "ready"


def test_a_model_that_is_down_is_named_by_its_use_and_not_by_its_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = closed_port()
    folder = project(tmp_path, f"answer: {{model: 'http://127.0.0.1:{port}/v1#m'}}\n")
    with served(folder) as running:
        reply = running.http.get("/readyz")
        assert (reply.status_code, reply.text) == (503, "not ready: chat model")
    assert str(port) in caplog.text, "the log says where the model should be"


def test_a_model_that_answers_is_ready_and_nothing_is_paid(tmp_path: Path) -> None:
    with ScriptedServer("ok") as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#m'}}\n")
        with served(folder) as running:
            assert running.http.get("/readyz").text == "ready"
        assert not [r for r in model.requests if r.path.endswith("/chat/completions")]


def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with served(project(tmp_path)) as running:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            assert running.http.get("/readyz").text == "not ready: disk"
        becomes(running, "ready")
        assert not list((tmp_path / "project/.ragwright/data/serve").glob("probe-*"))


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_a_shared_database_that_is_down_is_answered_soon_with_503(tmp_path: Path) -> None:
    with running_server() as server, ScriptedServer("Every two years [1].") as model:
        folder = project(
            tmp_path,
            f"shared: {{address: 'postgresql://admin@/postgres?host={server}'}}\n"
            f"answer: {{model: '{model.url}#m'}}\n",
        )
        with served(folder) as running:
            assert running.ask(QUESTION).status_code == 200
            assert running.http.get("/readyz").text == "ready"
            stop_server(server)
            replies = []

            def ask() -> None:
                replies.append(running.client().post("/v1/retrieve", json={"query": QUESTION}))

            threads = [threading.Thread(target=ask) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert {r.status_code for r in replies} <= {200, 503}
            assert all("retry-after" in r.headers for r in replies if r.status_code == 503)
            becomes(running, "not ready: shared database")
            start_server(server)
            becomes(running, "ready")
            assert running.ask(f"{QUESTION} Again?").status_code == 200


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_a_shared_database_that_stops_answering_is_given_up(tmp_path: Path) -> None:
    """As behind a network that drops everything: it refuses nothing, and says nothing."""
    with running_server() as server:
        shared = f"shared: {{address: 'postgresql://admin@/postgres?host={server}'}}\n"
        with served(project(tmp_path, shared)) as running:
            body = {"query": QUESTION}
            assert running.http.post("/v1/retrieve", json=body).status_code == 200
            first = (Path(server) / "data/postmaster.pid").read_text().split()[0]
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            every = list(map(int, (first, *children)))
            for process in every:
                os.kill(process, signal.SIGSTOP)
            try:
                with ThreadPoolExecutor(4) as pool:
                    asked = [
                        pool.submit(running.http.post, "/v1/retrieve", json=body) for _ in range(4)
                    ]
                    replies = [reply.result() for reply in asked]
                assert {reply.status_code for reply in replies} == {503}
                assert all("retry-after" in reply.headers for reply in replies)
            finally:
                for process in every:
                    os.kill(process, signal.SIGCONT)
            becomes(running, "ready")
            for _ in range(50):  # for a second after it did not answer, it is not tried again
                status = running.http.post("/v1/retrieve", json=body).status_code
                if status == 200:
                    break
                time.sleep(0.1)
            assert status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_model_is_logged_whole_and_readers_see_no_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    with ScriptedServer(Reply("no", status=400)) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#m'}}\n")
        keys = ServeKeys(ProjectFolder(folder))
        reader, owner = (keys.add(ServeKey(name, name)) for name in ("reader", "owner"))
        body = {"messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        with served(folder) as running, caplog.at_level(logging.WARNING, "ragwright.serve"):
            seen = running.client(reader).post("/v1/chat/completions", json=body)
            shown = running.client(owner).post("/v1/chat/completions", json=body)
    assert seen.status_code == shown.status_code == 502
    assert "127.0.0.1" not in seen.text
    assert seen.headers["x-request-id"] in seen.json()["error"]["message"]
    assert "127.0.0.1" in shown.text
    assert "model_error" in caplog.text
    assert "127.0.0.1" in caplog.text


def test_the_id_of_a_proxy_is_kept_and_a_forged_one_is_not(tmp_path: Path) -> None:
    with served(project(tmp_path)) as running:
        for request_id, kept in (("abc-1", True), ("a b", False), ("x" * 200, False)):
            reply = running.http.get("/healthz", headers={"x-request-id": request_id})
            assert (reply.headers["x-request-id"] == request_id) == kept


@pytest.mark.slow
def test_background_measuring_gives_way_to_answers(tmp_path: Path) -> None:
    """While an answer is being written, no judge is asked."""
    grade = json.dumps({"reasoning": "Seen.", "score": 4})
    gates: list[threading.Event] = []
    judged: list[str] = []

    def said(request: ServerRequest) -> Reply:
        if request.body["model"] == "judge":
            judged.append(request.prompt)
            return Reply(grade)
        gates.append(threading.Event())
        return Reply("Every two years [1].", held=gates[-1])

    with ScriptedServer(said) as model:
        folder = project(
            tmp_path,
            f"answer: {{model: '{model.url}#writer'}}\njudge: {{model: '{model.url}#judge'}}\n",
        )
        settings = folder / "ragwright.yaml"
        measure = "log: json, measure: {share: 1, measures: [Faithfulness], interval: 0.2}"
        settings.write_text(settings.read_text("utf-8").replace("log: json", measure), "utf-8")
        with served(folder) as running, ThreadPoolExecutor(1) as reader:
            for number in range(1, 5):
                reply = reader.submit(running.ask, f"{QUESTION} {number}?")
                wait_until(partial(lambda count: len(gates) == count, number))
                time.sleep(0.5)  # a judge that was being asked may end
                before = len(judged)
                time.sleep(1.0)
                assert len(judged) == before, "a judge was asked while an answer was being written"
                gates[-1].set()
                assert reply.result().status_code == 200
            wait_until(lambda: len(judged) >= 4, "what waited is measured when the server is idle")


@pytest.mark.slow
def test_an_outage_is_logged_once_with_its_route_and_once_when_it_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = MakeProject(tmp_path)("serve: {name: handbook, log: requests}\n")
    secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("reader"))
    with served(folder) as running:
        client = running.client(secret)
        assert client.get("/v1/models").status_code == 200
        caplog.clear()  # that reply may have ended an outage of another test in this process
        ledger = ProjectFolder(folder).ledger
        with closing(sqlite3.connect(ledger)) as opened:
            opened.execute("ALTER TABLE serve_keys RENAME TO away")
        for _ in range(5):
            assert client.get("/v1/models").status_code == 500
        with closing(sqlite3.connect(ledger)) as opened:
            opened.execute("ALTER TABLE away RENAME TO serve_keys")
        for _ in range(3):
            assert client.get("/v1/models").status_code == 200
    lines = [r.getMessage() for r in caplog.records if "store_error" in r.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("store_error on /v1/models: ")
    assert lines[1].startswith("store_error has ended: /v1/models replies again after 5 failed")
