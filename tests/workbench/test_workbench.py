"""The workbench as a whole: what it asks, what that costs, and what is forgotten."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from children import command, started
from command_line import ragwright
from forgetting import forget_at
from served import written_by
from small_project import QUESTION, MakeProject, ingested

from ragwright import AskOptions, Session, Workbench
from ragwright.core import (
    BudgetStopped,
    Document,
    FlowError,
    Page,
    Span,
    StoreBusyError,
    StoreError,
)
from ragwright.experiment import EvaluationOptions
from ragwright.flow import TraceEntry
from ragwright.ingest import Failure, FetchBytes, Reader
from ragwright.ledger import WorkLock
from ragwright.testing import Reply, ScriptedServer

ANSWER = "The brake fluid must be changed every two years [1]."
BOTH = ["engineer", "marketing"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(ANSWER) as running:
        yield running


def priced(model: ScriptedServer, more: str) -> str:
    return f"{written_by(model)}models: {{'{model.url}#writer': {{{more}}}}}\n"


def test_a_chat_model_streams_cites_and_is_paid_once(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """The trace shows every request; two tenants never share a reply."""
    folder = ingested(tmp_path, written_by(server))
    pieces, replayed, trace = list[str](), list[str](), list[TraceEntry]()
    with Workbench.open(folder) as bench:
        first = bench.ask(QUESTION, options=AskOptions(sink=pieces.append, trace=trace))
    assert [type(entry.request).__name__ for entry in trace] == ["Search", "Lookup", "Chat"]
    assert len(pieces) > 1
    assert "".join(pieces) == first.text
    assert [c.marker for c in first.citations] == [1]
    assert first.citations[0].source.endswith("service.md")
    assert not first.cached
    with Workbench.open(folder) as bench:
        second = bench.ask(QUESTION, options=AskOptions(sink=replayed.append))
    assert len(server.requests) == 1
    assert second.cached
    assert (second.text, replayed) == (first.text, [first.text])


def test_two_tenants_never_share_a_reply(tmp_path: Path, server: ScriptedServer) -> None:
    with Workbench.open(ingested(tmp_path, written_by(server))) as bench:
        for tenant in "ab":
            bench.ask(QUESTION, options=AskOptions(scope=f"tenant {tenant}"))
        assert len(server.requests) == 2
        assert bench.forget_tenant("tenant a")["replies"] == 1
        assert bench.ask(QUESTION, options=AskOptions(scope="tenant b")).cached


def test_a_forecast_calls_nothing_and_reaches_behind_a_remote_embedder(
    tmp_path: Path, server: ScriptedServer
) -> None:
    more = f"embed: {{model: '{server.url}#vectors'}}\n"
    with Workbench.open(ingested(tmp_path, priced(server, "price_in: 1, price_out: 2"))) as bench:
        forecast = bench.forecast_ask(QUESTION, BOTH)
        assert server.requests == []
        assert forecast.calls.exact
        assert forecast.calls.expected == 2
        assert forecast.cost is not None
        assert forecast.cost.high > 0
        bench.ask_all(QUESTION, BOTH)
        assert len(server.requests) == 2
    with Workbench.open(ingested(tmp_path / "remote", more + written_by(server))) as bench:
        asked = len(server.requests)
        forecast = bench.forecast_ask(QUESTION, BOTH)
        assert len(server.requests) == asked
        assert forecast.uncertain == 0
        assert forecast.calls.expected == 3  # one vector, two answers
        bench.ask_all(QUESTION, BOTH)
        assert len(server.requests) - asked == 3
        found = bench.retrieve("accelerator pedal", k=2)
    assert found.mode == "hybrid"
    assert found.hits[0].source.endswith("codes.md")
    assert set(found.hits[0].channels) == {"keyword", "dense"}


@pytest.mark.slow
def test_a_budget_stops_before_the_call_and_a_daily_one_holds_for_the_next_command_too(
    tmp_path: Path, server: ScriptedServer
) -> None:
    dear = ingested(tmp_path / "dear", priced(server, "price_in: 1000, price_out: 2000"))
    with Workbench.open(dear, Session(max_cost=0.001)) as bench, pytest.raises(BudgetStopped):
        bench.ask(QUESTION)
    assert server.requests == []
    daily = "budget: {daily_cost: 0.75}\n"
    folder = ingested(tmp_path, priced(server, "price_in: 0, price_out: 1000") + daily)
    with Workbench.open(folder) as bench:
        bench.ask(QUESTION)
        assert bench.ask(QUESTION).cached
    refused: list[BudgetStopped] = []
    for number in range(20):
        with Workbench.open(folder) as bench:
            try:
                bench.ask(f"{QUESTION} ({number})")
            except BudgetStopped as error:
                refused.append(error)
    # A call may cost 0.7 and costs less than a cent: some fit, and nobody sends one more.
    assert refused
    assert "daily budget of 0.75" in refused[0].what
    assert len(server.requests) == 21 - len(refused) > 1
    with Workbench.open(folder, Session(("budget.daily_cost=1000",))) as bench:
        assert bench.project.budget.daily is not None
        assert 0 < bench.project.budget.daily.today() <= 0.75


class BookReader(Reader):
    """One document of three pages, cut as one chunk."""

    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        pages = [f"Chapter {n}. Nothing of note.\n" for n in (1, 2)]
        pages.append("The brake fluid must be changed every two years.\n")
        spans, start = [], 0
        for number, text in enumerate(pages, 1):
            spans.append(Page(number, Span(start, start + len(text))))
            start += len(text)
        yield Document("book", source, "".join(pages), pages=tuple(spans))


def test_a_citation_names_the_page_of_its_sentence(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    reader = f"{{source: book, reader: '{__name__}:BookReader'}}"
    settings = f"sources: [{reader}]\nchunk: {{by: whole}}\n"
    (folder / "ragwright.yaml").write_text(settings, "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        assert bench.retrieve("brake fluid").hits[0].page == 1
        [citation] = bench.ask(QUESTION).citations
    assert citation.page == 3


# -- what is forgotten stays forgotten: nobody writes it again meanwhile --------------------------


class Holding:
    """A server that answers once it may, and says when it was asked."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.server = ScriptedServer(self._reply)

    def _reply(self, _request: object) -> Reply:
        self.asked.set()
        self.go.wait(60)
        return Reply(ANSWER)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, Holding]]:
    """A project with a testset, whose model is held."""
    made = Holding()
    with made.server:
        folder = ingested(tmp_path, written_by(made.server))
        row = {"id": "q1", "user_input": QUESTION, "reference": "Every two years."}
        (folder / "rows.jsonl").write_text(json.dumps(row))
        try:
            yield folder, made
        finally:
            made.go.set()


NAME = "docs/service.md"


@pytest.mark.slow
def test_a_running_eval_keeps_what_it_reads_from_being_forgotten(
    held: tuple[Path, Holding],
) -> None:
    """And where it is killed, its lock goes with it; no file holds what was forgotten."""
    folder, holding = held
    words = ("eval", "--testset", "rows.jsonl", "--measures", "TokenF1")
    process = started(command, folder, *words)
    try:
        with Workbench.open(folder) as bench:
            assert holding.asked.wait(60)
            forgetting: tuple[Callable[[], object], ...] = (
                lambda: bench.forget(NAME),
                lambda: bench.forget_tenant("one"),
            )
            for forget in forgetting:
                with pytest.raises(StoreBusyError, match=f"'eval', process {process.pid}") as told:
                    forget()
                assert "nothing was forgotten" in str(told.value.hint)
            assert NAME in [document.id for document in bench.documents()]
            assert str(process.pid) in ragwright(folder, "forget", NAME, code=1).stderr
            process.kill()
            process.join()
            assert bench.forget(NAME)["documents"] == 1
    finally:
        process.kill()
    for file in (folder / ".ragwright").rglob("*"):
        assert file.is_dir() or b"coolant must be changed" not in file.read_bytes(), file


@pytest.mark.slow
def test_work_in_threads_of_the_same_process_counts(held: tuple[Path, Holding]) -> None:
    """Forgetting a document reaches the replies and the passages."""
    folder, holding = held
    answers = EvaluationOptions(answers=True)
    works = {
        "ask": lambda bench: bench.ask("When must brake fluid be changed?"),
        "eval": lambda bench: bench.evaluate(str(folder / "rows.jsonl"), "TokenF1", answers),
    }
    with Workbench.open(folder) as other:
        for what, work in works.items():
            holding.asked.clear()
            holding.go.clear()
            with ThreadPoolExecutor(1) as pool, closing(Workbench.open(folder)) as bench:
                under_way = pool.submit(work, bench)
                assert holding.asked.wait(60)
                with pytest.raises(StoreBusyError, match=f"'{what}', process {os.getpid()}"):
                    other.forget(NAME)
                holding.go.set()
                under_way.result(60)
        gone = other.forget(NAME)
        assert (gone["documents"], gone["replies"]) == (1, 2)
        assert all("brake fluid" not in hit.text for hit in other.retrieve("brake fluid"))


def test_work_waits_for_one_who_forgets_and_goes_on(tmp_path: Path) -> None:
    """Any number work at once; brief work is waited for longer."""
    lock, order = WorkLock(tmp_path / "work"), list[str]()

    def at_work() -> None:
        with lock.working("eval"):
            order.append("worked")

    with ThreadPoolExecutor(1) as pool:
        with lock.exclusive("forget"):
            begun = pool.submit(at_work)
            held_by = pytest.raises(StoreBusyError, match="held by 'forget', process")
            with held_by, lock.working("eval", wait=0):
                pass
            order.append("forgot")
        begun.result(60)
    assert order == ["forgot", "worked"]
    with lock.working("eval"), lock.working("ask"):
        with pytest.raises(StoreBusyError) as caught, lock.exclusive("forget", wait=0):
            pass
        assert "'eval'" in str(caught.value)
        assert "'ask'" in str(caught.value)
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"lock", "turn"}
    started_work, brief = threading.Event(), threading.Event()

    def briefly() -> None:
        with lock.working("requests", brief=True):
            started_work.set()
            brief.wait(0.5)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(briefly)
        assert started_work.wait(10)
        with lock.exclusive("forget", wait=0.1):
            assert working.done()
    (tmp_path / "none").write_text("a file where the folder should be")
    with WorkLock(tmp_path / "none").working("ask"):  # it goes on where no lock can be made
        pass


def test_an_empty_name_is_refused_everywhere(tmp_path: Path) -> None:
    with Workbench.open(ingested(tmp_path)) as bench:
        before = len(list(bench.documents()))
        run = bench.project.runs.start("eval", {})
        for name in ("", " ", "\t\n", "\u00a0"):
            for forget in (
                lambda name: bench.forget(name),
                lambda name: bench.forget_tenant(name),
                lambda name: bench.project.replies.forget(scope=name),
                lambda name: bench.project.replies.forget(source=name),
                lambda name: forget_at(bench.project.folder.ledger, scope=name),
                lambda name: forget_at(bench.project.folder.ledger, source=name),
            ):
                with pytest.raises(StoreError, match="is empty; nothing was forgotten"):
                    forget(name)
            if name:
                with pytest.raises(FlowError, match="name of the tenant is empty"):
                    bench.ask(QUESTION, options=AskOptions(scope=name))
        assert len(list(bench.documents())) == before
        assert bench.project.runs.holds(run)
