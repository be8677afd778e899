"""The real command: restarts, workers, signals; and random requests from its description."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from command_line import spawned
from served import HANDBOOK, PLAIN, asks, handbook, written_by
from small_project import QUESTION, ingested
from waiting import at_once, wait_until

from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

LOGGED = HANDBOOK.replace("}", ", log: json}")


@contextmanager
def command(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ragwright serve` in a process of its own, and its address."""
    port = () if "--port" in words else ("--port", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", "serve", "-C", str(folder), *port, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    try:
        address = None
        while address is None:
            line = process.stderr.readline()
            assert line, "it ended"
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
        yield process, address[0]
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


@dataclass
class Workers:
    """A project served by two workers; its model takes a minute."""

    model: ScriptedServer
    process: subprocess.Popen[str]
    address: str
    lines: list[str]

    def wait_for_line(self, text: str) -> None:
        wait_until(lambda: any(text in line for line in self.lines), "\n".join(self.lines))

    def send(self, path: str, body: Any = None) -> httpx2.Response:
        """A request by a connection of its own, so that both workers are met."""
        method = "GET" if body is None else "POST"
        return httpx2.request(method, self.address + path, json=body, timeout=60, verify=PLAIN)

    def metric(self, name: str) -> float:
        """A number of /metrics, added up over the workers; -1 where nobody replies."""
        with suppress(httpx2.TransportError):
            found = re.search(rf"^{name} (\S+)$", self.send("/metrics").text, re.MULTILINE)
            return float(found[1]) if found else 0.0
        return -1.0

    def processes(self) -> list[int]:
        """Worker processes; the one that tracks resources is none of them."""
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
        return found


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with ScriptedServer(Reply("ok", delay=60.0)) as model:
        folder = ingested(tmp_path_factory.mktemp("two"), LOGGED + written_by(model))
        with command(folder, "--workers", "2") as (process, found):
            lines: list[str] = []
            reader = threading.Thread(target=lines.extend, args=(process.stderr,))
            reader.start()
            yield Workers(model, process, found, lines)
            process.kill()
            reader.join()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    folder = ingested(tmp_path, LOGGED)
    with command(folder) as (_, address):
        port = address.rpartition(":")[2]
        said = spawned(folder, "serve", "--port", port, code=1).stderr
        assert f"cannot listen on 127.0.0.1:{port}" in said
        assert "--port 0" in said


def test_a_restart_lets_answers_end_and_takes_a_moment(tmp_path: Path) -> None:
    with ScriptedServer(Reply("Every two years [1]. " * 40, pace=0.01)) as model:
        folder = ingested(tmp_path, LOGGED + written_by(model))
        with command(folder) as (process, address), httpx2.Client(verify=PLAIN, timeout=60) as idle:

            def stream(number: int) -> str:
                if number == 8:
                    wait_until(lambda: len(model.requests) == 8)
                    process.send_signal(signal.SIGTERM)
                    return ""
                body, path = asks(f"{QUESTION} {number}", stream=True), "/v1/chat/completions"
                how: Any = {"json": body, "timeout": 30, "verify": PLAIN}
                with httpx2.stream("POST", address + path, **how) as reply:
                    return next(line for line in reversed(list(reply.iter_lines())) if line)

            idle.get(f"{address}/healthz")
            assert at_once(9, stream) == ["data: [DONE]"] * 8 + [""]
            assert process.wait(60) == 0, "a service manager counts anything else as a failure"


def test_workers_share_a_project_add_up_their_numbers_and_log_lines_of_json(
    workers: Workers,
) -> None:
    searches = r'ragwright_requests_total\{route="/v1/retrieve",status="200"\}'
    before = workers.metric(searches)
    replies = [workers.send("/v1/retrieve", {"query": QUESTION}) for _ in range(20)]
    assert [reply.status_code for reply in replies] == [200] * 20
    assert workers.metric(searches) - before == 20
    name = replies[-1].headers["x-request-id"]
    workers.wait_for_line(name)  # it is logged after the reply
    logged = [json.loads(line) for line in list(workers.lines) if line.startswith("{")]
    [line] = [line for line in logged if line.get("request_id") == name]
    assert (line["route"], line["method"], line["status"]) == ("/v1/retrieve", "POST", 200)
    assert line["seconds"] > 0


def test_a_worker_that_was_killed_is_replaced_and_its_open_requests_are_forgotten(
    workers: Workers,
) -> None:
    def hang() -> None:
        with suppress(httpx2.TransportError):
            workers.send("/v1/chat/completions", asks(QUESTION))

    before = len(workers.model.requests)
    thread = threading.Thread(target=hang)
    thread.start()
    wait_until(lambda: len(workers.model.requests) > before)
    assert workers.metric("ragwright_requests_open") == 2, "the slow one, and the one that asks"
    for worker in workers.processes():
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    thread.join()
    workers.wait_for_line("another one is started")
    wait_until(lambda: workers.metric("ragwright_requests_open") == 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_slow_worker_lives_and_a_silent_one_is_replaced_after_a_minute(workers: Workers) -> None:
    open_now = "ragwright_requests_open"
    wait_until(lambda: workers.metric(open_now) >= 0 and len(workers.processes()) == 2)
    slow, silent = workers.processes()
    for worker in (slow, silent):
        os.kill(worker, signal.SIGSTOP)
    time.sleep(12)  # longer than uvicorn waits by default (5 s)
    os.kill(slow, signal.SIGCONT)
    workers.wait_for_line(f"worker {silent} did not reply to the server for 60 s and was killed")
    wait_until(lambda: len(set(workers.processes()) - {silent}) == 2)
    assert slow in workers.processes()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_the_process_that_started_them(workers: Workers) -> None:
    """The last test of these workers: nobody starts them again."""
    assert workers.send("/healthz").status_code == 200
    left, port = workers.processes(), int(workers.address.rpartition(":")[2])
    assert len(left) >= 2
    workers.process.kill()
    workers.process.wait()

    def runs(pid: int) -> bool:
        """True for a process that has not ended; one that nobody waits for stays in the list."""
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def free() -> bool:
        with socket.socket() as again, suppress(OSError):
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))
            return True
        return False

    wait_until(lambda: free() and not any(map(runs, left)), "nobody could stop them")


def test_random_requests_find_nothing(tmp_path: Path) -> None:
    with handbook(tmp_path) as running:
        words = [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"{running.address}/openapi.json",
            # What a name or a filter stands for is checked against the project, so that
            # not every request of the right shape is accepted.
            *("--exclude-checks", "positive_data_acceptance"),
            *("--checks", "all", "--max-examples", "10", "--seed", "1"),
            *("--generation-deterministic", "--continue-on-failure", "--no-color"),
            *("--request-timeout", "20", "--warnings", "off"),
        ]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:]
