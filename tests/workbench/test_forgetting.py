"""What is forgotten stays forgotten: no empty name, and nobody who writes it again meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from forgetting import forget_at
from small_project import MakeProject

from ragwright import AskOptions, Workbench
from ragwright.core import FlowError, StoreBusyError, StoreError
from ragwright.experiment import EvaluationOptions
from ragwright.ledger import WorkLock
from ragwright.testing import Reply, ScriptedServer

ANSWERS = EvaluationOptions(answers=True)
QUESTION = "How often must the brake fluid be changed?"
COMMAND = (sys.executable, "-c", "from ragwright.app import main; main()")


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


class Holding:
    """A server that answers once it may, and says when it was asked."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.server = ScriptedServer(self._reply)

    def _reply(self, _request: object) -> Reply:
        self.asked.set()
        self.go.wait(60)
        return Reply("The brake fluid must be changed every two years [1].")


@pytest.fixture
def holding() -> Iterator[Holding]:
    made = Holding()
    with made.server:
        try:
            yield made
        finally:
            made.go.set()


def project(make_project: MakeProject, server: ScriptedServer) -> Path:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    rows = [{"id": "q1", "user_input": QUESTION, "reference": "Every two years."}]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def document(bench: Workbench) -> str:
    [name] = [d.id for d in bench.documents() if d.id.endswith("service.md")]
    return name


@contextmanager
def evaluating(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An evaluation in a process of its own; killed at the end where it still runs."""
    words = ("eval", "--testset", "rows.jsonl", "--measures", "TokenF1")
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_running_eval_keeps_what_it_reads_from_being_forgotten(
    make_project: MakeProject, holding: Holding
) -> None:
    """And where it is killed, its lock goes with it."""
    folder = project(make_project, holding.server)
    with Workbench.open(folder) as bench, evaluating(folder) as process:
        assert holding.asked.wait(60)
        name = document(bench)
        forgetting: tuple[Callable[[], object], ...] = (
            lambda: bench.forget(name),
            lambda: bench.forget_tenant("one"),
        )
        for forget in forgetting:
            with pytest.raises(StoreBusyError, match=f"'eval', process {process.pid} on") as caught:
                forget()
            assert "nothing was forgotten" in str(caught.value.hint)
        assert document(bench) == name
        done = subprocess.run(
            [*COMMAND, "forget", name], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert str(process.pid) in done.stderr
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert bench.forget(name)["documents"] == 1
    for file in (folder / ".ragwright").rglob("*"):
        if file.is_file():
            assert b"coolant must be changed" not in file.read_bytes(), file


@pytest.mark.slow
def test_work_in_threads_of_the_same_process_counts(
    make_project: MakeProject, holding: Holding
) -> None:
    folder = project(make_project, holding.server)
    works = {
        "ask": lambda bench: bench.ask("When must brake fluid be changed?"),
        "eval": lambda bench: bench.evaluate(str(folder / "rows.jsonl"), "TokenF1", ANSWERS),
    }
    with Workbench.open(folder) as other:
        name = document(other)
        for what, work in works.items():
            holding.asked.clear()
            holding.go.clear()
            with ThreadPoolExecutor(1) as pool, closing(Workbench.open(folder)) as bench:
                under_way = pool.submit(work, bench)
                assert holding.asked.wait(60)
                with pytest.raises(StoreBusyError, match=f"'{what}', process {os.getpid()}"):
                    other.forget(name)
                holding.go.set()
                under_way.result(60)
        assert other.forget(name)["replies"] == 2


def test_work_waits_for_one_who_forgets_and_goes_on(tmp_path: Path) -> None:
    lock = WorkLock(tmp_path / "work")
    order = []

    def at_work() -> None:
        with lock.working("eval"):
            order.append("worked")

    with ThreadPoolExecutor(1) as pool:
        with lock.alone("forget"):
            begun = pool.submit(at_work)
            with (
                pytest.raises(StoreBusyError, match="held by 'forget', process"),
                lock.working("eval", wait=0),
            ):
                pass
            order.append("forgot")
        begun.result(60)
    assert order == ["forgot", "worked"]
    with (
        lock.working("eval"),
        lock.working("ask"),  # any number at once
        pytest.raises(StoreBusyError) as caught,
        lock.alone("forget", wait=0),
    ):
        pass
    assert "'eval'" in str(caught.value)
    assert "'ask'" in str(caught.value)
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"lock", "turn"}


def test_work_that_overlaps_without_end_lets_one_in_who_forgets(tmp_path: Path) -> None:
    lock = WorkLock(tmp_path / "work")
    stop = threading.Event()

    def work(delay: float) -> None:
        time.sleep(delay)
        while not stop.is_set():
            with lock.working("requests"), lock.working("within"):
                time.sleep(0.1)

    with ThreadPoolExecutor(2) as pool:
        pool.map(work, (0, 0.05))
        time.sleep(0.2)
        try:
            with lock.alone("forget", wait=60):
                assert lock.awaited
        finally:
            stop.set()
    assert not lock.awaited


def test_brief_work_is_waited_for_longer(tmp_path: Path) -> None:
    lock = WorkLock(tmp_path / "work")

    def work() -> None:
        with lock.working("requests", brief=True):
            begun.set()
            time.sleep(0.5)

    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        assert begun.wait(10)
        with lock.alone("forget", wait=0.1):
            assert working.done()


def test_work_goes_on_where_no_lock_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file where the folder should be")
    with WorkLock(tmp_path / "work").working("ask"):
        pass


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u00a0"])
def test_an_empty_name_is_refused_everywhere(make_project: MakeProject, name: str) -> None:
    with Workbench.open(make_project("")) as bench:
        bench.ingest()
        before = len(list(bench.documents()))
        run = bench.project.runs.start("eval", {})
        for forget in (
            lambda: bench.forget(name),
            lambda: bench.forget_tenant(name),
            lambda: bench.project.replies.forget(scope=name),
            lambda: bench.project.replies.forget(source=name),
            lambda: forget_at(bench.project.folder.ledger, scope=name),
            lambda: forget_at(bench.project.folder.ledger, source=name),
        ):
            with pytest.raises(StoreError, match="is empty; nothing was forgotten"):
                forget()
        assert len(list(bench.documents())) == before
        assert bench.project.runs.holds(run)
        if name:
            with pytest.raises(FlowError, match="name of the tenant is empty"):
                bench.ask(QUESTION, options=AskOptions(scope=name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("forget", "--tenant", ""),
        ("forget", ""),
        ("draft", "--scope", " "),
        ("outputs", "list", "--scope", ""),
        ("outputs", "export", "out.jsonl", "--scope", ""),
    ],
)
def test_an_empty_name_is_refused_on_the_command_line(
    make_project: MakeProject, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [*COMMAND, *words], cwd=make_project(""), capture_output=True, text=True, check=False
    )
    assert done.returncode in {1, 2}
    assert "is empty" in done.stderr
