"""`/readyz` tries what an answer needs; served answers are measured beside them."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from postgres_server import start_server, stop_server
from served import Running, handbook, served, written_by
from small_project import QUESTION, ingested
from waiting import at_once, free_port, wait_until

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest


def becomes(running: Running, text: str) -> None:
    wait_until(lambda: running.http.get("/readyz").text == text)


def test_a_project_is_ready_while_its_disk_and_its_model_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with ScriptedServer() as model, handbook(tmp_path, written_by(model)) as running:
        assert running.http.get("/readyz").text == "ready"
        assert not [r for r in model.requests if r.path.endswith("/chat/completions")]
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            becomes(running, "not ready: disk")
        becomes(running, "ready")
        assert not list((running.folder / ".ragwright/data/serve").glob("probe-*"))
    port = free_port()
    with handbook(tmp_path / "b", f"answer: {{model: 'http://127.0.0.1:{port}/v1#m'}}\n") as down:
        reply = down.http.get("/readyz")
        assert (reply.status_code, reply.text) == (503, "not ready: chat model")
    assert str(port) in caplog.text
    with handbook(tmp_path / "c") as offline:
        assert offline.http.get("/readyz").text == "ready"


@pytest.mark.slow
def test_a_shared_database_that_is_down_or_stops_answering_is_answered_soon_with_503(
    tmp_path: Path, postgres: str
) -> None:
    """As behind a network that drops everything: it refuses nothing, and says nothing."""
    where = f"shared: {{address: 'postgresql://admin@/postgres?host={postgres}'}}\n"

    def states(count: int) -> set[int]:
        body = {"query": QUESTION}
        replies = at_once(count, lambda _: running.client().post("/v1/retrieve", json=body))
        assert all("retry-after" in r.headers for r in replies if r.status_code == 503)
        return {reply.status_code for reply in replies}

    with (
        ScriptedServer("Two years [1].") as model,
        handbook(tmp_path, where + written_by(model)) as running,
    ):
        assert running.ask(QUESTION).status_code == 200
        becomes(running, "ready")
        first = (Path(postgres) / "data/postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        every = list(map(int, (first, *children)))
        for process in every:
            os.kill(process, signal.SIGSTOP)
        try:
            assert states(4) == {503}
        finally:
            for process in every:
                os.kill(process, signal.SIGCONT)
        becomes(running, "ready")
        wait_until(lambda: states(1) == {200}, "for a second it is not tried again")
        stop_server(postgres)
        assert states(6) <= {200, 503}
        becomes(running, "not ready: shared database")
        start_server(postgres)
        becomes(running, "ready")
        assert running.ask(f"{QUESTION} Again?").status_code == 200


# -- measuring what is served --------------------------------------------------------------------

GRADE = json.dumps({"reasoning": "Seen.", "score": 4})
MEASURED = "serve: {name: book, measure: {share: 1, measures: [Faithfulness], interval: 0.2}}\n"


def judged(model: ScriptedServer) -> str:
    return f"{MEASURED}{written_by(model)}judge: {{model: '{model.url}#judge'}}\n"


def scored(folder: Path) -> list[float | None]:
    with Workbench.open(folder) as bench:
        return [s.value for s in bench.outputs.scores.all(None) if s.state == "scored"]


@pytest.mark.slow
def test_answers_are_scored_while_serving_and_after_a_restart(tmp_path: Path) -> None:
    down = [True]

    def script(request: ServerRequest) -> Reply | str:
        if request.body["model"] == "judge":
            return Reply("", status=400) if down[0] else GRADE
        return "Every two years [1]."

    with ScriptedServer(script) as model:
        folder = ingested(tmp_path, judged(model))
        with served(folder) as running:
            for at in range(3):
                assert running.ask(f"{QUESTION} {at}").status_code == 200
        with served(folder) as running, Workbench.open(folder) as bench:
            wait_until(lambda: bench.outputs.scores.today().failed >= 3)
            assert running.ask("And the brake fluid now?").status_code == 200
            assert scored(folder) == []
            down[0] = False
            bench.outputs.scores.retry_errors()
        with served(folder):
            wait_until(lambda: len(scored(folder)) == 4)
        with Workbench.open(folder) as bench:
            [first, *_] = bench.outputs.scores.all(None)
        assert (first.name, first.judge.endswith("#judge")) == ("book", True)
        assert first.snapshot
        assert first.configuration
        calls = len(model.requests)
        file = folder / "ragwright.yaml"
        file.write_text(file.read_text().replace("share: 1, ", ""))
        with served(folder) as running:
            assert running.ask(f"{QUESTION} Again?").status_code == 200
            time.sleep(1)
        assert len(model.requests) == calls + 1
    assert len(scored(folder)) == 4


@pytest.mark.slow
def test_background_measuring_gives_way_to_answers(tmp_path: Path) -> None:
    gates: list[threading.Event] = []
    grades: list[str] = []

    def script(request: ServerRequest) -> Reply:
        if request.body["model"] == "judge":
            grades.append(request.prompt)
            return Reply(GRADE)
        gates.append(threading.Event())
        return Reply("Every two years [1].", held=gates[-1])

    with (
        ScriptedServer(script) as model,
        served(ingested(tmp_path, judged(model))) as running,
        ThreadPoolExecutor(1) as reader,
    ):
        for number in range(1, 3):
            reply = reader.submit(running.ask, f"{QUESTION} {number}?")
            wait_until(partial(lambda count: len(gates) == count, number))
            time.sleep(0.5)  # a judge that was being asked may end
            before = len(grades)
            time.sleep(1.0)
            assert len(grades) == before, "a judge was asked while an answer was being written"
            gates[-1].set()
            assert reply.result().status_code == 200
        wait_until(lambda: len(grades) >= 2, "what waited is measured when the server is idle")
