"""Real programs against the real command: `llm`, workers, signals."""

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

import httpx2
import pytest
from served import PLAIN
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

QUESTION = "How often must the brake fluid be changed?"


def made_project(place: Path, settings: str = "") -> Path:
    folder = MakeProject(place)(
        f"serve: {{name: handbook, personas: [engineer, marketing], log: json}}\n{settings}"
    )
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a project served by one process: to start one takes seconds of a processor."""
    with command(made_project(tmp_path_factory.mktemp("one"))) as (_, found):
        yield found


@dataclass
class Workers:
    """A project served by two workers; its model takes a minute.

    Attributes:
        model: The model.
        process: What started the workers.
        address: Address of the server.
        lines: What they have logged.
    """

    model: ScriptedServer
    process: subprocess.Popen[str]
    address: str
    lines: list[str]

    def wait_for_line(self, text: str) -> None:
        """Wait for a line with this text."""
        wait_until(lambda: any(text in line for line in self.lines), "\n".join(self.lines))


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with ScriptedServer(Reply("ok", delay=60.0)) as model:
        settings = f"answer: {{model: '{model.url}#writer'}}\n"
        folder = made_project(tmp_path_factory.mktemp("two"), settings)
        with command(folder, "--workers", "2") as (process, found):
            lines: list[str] = []
            reader = threading.Thread(target=lines.extend, args=(process.stderr,))
            reader.start()
            yield Workers(model, process, found, lines)
            process.kill()
            reader.join()


@contextmanager
def command(project: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ragwright serve` in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", "serve", "--port", "0", "-C", str(project), *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    try:
        address = ""
        while not address:
            line = process.stderr.readline()
            assert line, "it ended"
            match = re.search(r"http://127\.0\.0\.1:\d+", line)
            address = match[0] if match else ""
        yield process, address
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


def test_llm_lists_the_models_and_asks_one(address: str, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        "- model_id: handbook\n  model_name: handbook/engineer\n"
        f"  api_base: {address}/v1\n  api_key_name: none\n",
        "utf-8",
    )
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": ""}
    for extra in ([], ["--no-stream"]):
        done = subprocess.run(
            [sys.executable, "-m", "llm", "-m", "handbook", "--key", "x", *extra, QUESTION],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        assert "Fluids [1]\nThe brake fluid must be changed every two years." in done.stdout


def test_a_port_that_is_taken_is_said(address: str, tmp_path: Path) -> None:
    port = address.rpartition(":")[2]
    folder = MakeProject(tmp_path)()
    done = subprocess.run(
        [sys.executable, "-m", "ragwright", "serve", "--port", port, "-C", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr


def test_a_restart_lets_answers_end_and_takes_a_moment(tmp_path: Path) -> None:
    long = Reply("Every two years [1]. " * 40, pace=0.01)
    with ScriptedServer(long) as model:
        folder = made_project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        ended: list[str] = []
        with command(folder) as (process, address):

            def stream(number: int) -> None:
                body = {
                    "messages": [{"role": "user", "content": f"{QUESTION} {number}"}],
                    "stream": True,
                }
                with httpx2.stream(
                    "POST", f"{address}/v1/chat/completions", json=body, timeout=30, verify=PLAIN
                ) as reply:
                    lines = list(reply.iter_lines())
                ended.append(next(line for line in reversed(lines) if line))

            threads = [threading.Thread(target=stream, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            idle = httpx2.Client(verify=PLAIN)
            idle.get(f"{address}/healthz")
            while len(model.requests) < 8:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            for thread in threads:
                thread.join()
            assert process.wait(60) == 0, "a service manager counts anything else as a failure"
            idle.close()
    assert ended == ["data: [DONE]"] * 8


def test_restart_and_new_index_under_load_cost_a_retry_at_most(tmp_path: Path) -> None:
    """Clients that repeat what could not be connected see no failure and never half an index."""
    project = made_project(tmp_path)
    port = free_port()
    states: list[int] = []
    stop = threading.Event()

    def load() -> None:
        http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, verify=PLAIN)
        while not stop.is_set():
            for _ in range(600):
                try:
                    reply = http.post("/v1/retrieve", json={"query": QUESTION})
                except httpx2.TransportError:  # between two processes: what a retry cures
                    time.sleep(0.05)
                    continue
                hits = reply.json().get("hits", [])
                whole = any("every two years" in hit["text"] for hit in hits)
                states.append(reply.status_code if whole else -1)
                break
            else:
                states.append(0)
        http.close()

    def more(count: int) -> None:
        wanted = len(states) + count
        wait_until(lambda: len(states) >= wanted)

    threads = [threading.Thread(target=load) for _ in range(4)]
    with command(project, "--port", str(port)):
        for thread in threads:
            thread.start()
        for number in range(3):
            (project / f"docs/more{number}.md").write_text(f"# Tyres\n\nPart {number}.\n", "utf-8")
            with Workbench.open(project) as bench:
                bench.ingest()
            more(10)
    with command(project, "--port", str(port)):
        more(20)
        stop.set()
        for thread in threads:
            thread.join()
    assert set(states) == {200}


def free_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port: int = link.getsockname()[1]
        return port


def test_workers_share_a_project_and_add_up_their_numbers(
    workers: Workers,
) -> None:
    address = workers.address
    before = searches(address)
    for _ in range(20):  # each by a connection of its own, so that both workers are met
        reply = httpx2.post(
            f"{address}/v1/retrieve", json={"query": QUESTION}, timeout=60, verify=PLAIN
        )
        assert reply.status_code == 200, reply.text
    assert searches(address) - before == 20


def searches(address: str) -> float:
    metrics = httpx2.get(f"{address}/metrics", timeout=60, verify=PLAIN).text
    counted = re.search(
        r'ragwright_requests_total\{route="/v1/retrieve",status="200"\} (\S+)', metrics
    )
    return 0.0 if counted is None else float(counted[1])


def test_requests_are_lines_of_json(workers: Workers) -> None:
    body = {"query": f"{QUESTION} As JSON?"}
    reply = httpx2.post(f"{workers.address}/v1/retrieve", json=body, timeout=60, verify=PLAIN)
    workers.wait_for_line(reply.headers["x-request-id"])  # it is logged after the reply
    logged = [json.loads(line) for line in list(workers.lines) if line.startswith("{")]
    [request] = [line for line in logged if line.get("request_id") == reply.headers["x-request-id"]]
    assert (request["route"], request["method"], request["status"]) == (
        "/v1/retrieve",
        "POST",
        200,
    )
    assert request["seconds"] > 0


def test_a_worker_that_was_killed_is_replaced_and_its_open_requests_are_forgotten(
    workers: Workers,
) -> None:
    model, process, address = workers.model, workers.process, workers.address

    def hang() -> None:
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        with suppress(httpx2.TransportError):
            httpx2.post(f"{address}/v1/chat/completions", json=body, timeout=30, verify=PLAIN)

    before = len(model.requests)
    thread = threading.Thread(target=hang)
    thread.start()
    while len(model.requests) == before:
        time.sleep(0.02)
    assert open_requests(address) == 2, "the slow one, and the one that asks"
    for worker in children(process.pid):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    thread.join()
    workers.wait_for_line("another one is started")
    wait_until(lambda: open_requests(address) == 1)


def open_requests(address: str) -> float:
    with suppress(httpx2.TransportError):
        text = httpx2.get(f"{address}/metrics", timeout=10, verify=PLAIN).text
        match = re.search(r"^ragwright_requests_open (\S+)$", text, re.MULTILINE)
        return float(match[1]) if match else -1
    return -1


def children(process: int) -> list[int]:
    """Worker processes; the one that tracks resources is none of them."""
    processes = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                processes.append(child)
    return processes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_slow_worker_lives_and_a_silent_one_is_replaced_after_a_minute(
    workers: Workers,
) -> None:
    wait_until(lambda: searches(workers.address) >= 0 and len(children(workers.process.pid)) == 2)
    slow, silent = children(workers.process.pid)
    for worker in (slow, silent):
        os.kill(worker, signal.SIGSTOP)
    time.sleep(12)  # longer than uvicorn waits by default (5 s)
    os.kill(slow, signal.SIGCONT)
    line = f"worker {silent} did not reply to the server for 60 s and was killed"
    wait_until(lambda: any(line in logged for logged in workers.lines))
    wait_until(lambda: len(set(children(workers.process.pid)) - {silent}) == 2)
    assert slow in children(workers.process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_the_process_that_started_them(
    workers: Workers,
) -> None:
    """The last test of these workers: nobody starts them again."""
    process, address = workers.process, workers.address
    assert httpx2.get(f"{address}/healthz", timeout=60, verify=PLAIN).status_code == 200
    left = children(process.pid)
    assert len(left) >= 2
    process.kill()
    process.wait()
    port = int(address.rpartition(":")[2])
    wait_until(
        lambda: free(port) and not any(map(running, left)),
        "they go on without anybody who could stop them",
    )


def free(port: int) -> bool:
    """True if a new server could listen there."""
    with socket.socket() as again, suppress(OSError):
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
        return True
    return False


def running(pid: int) -> bool:
    """True for a process that has not ended; one that nobody waits for stays in the list."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
