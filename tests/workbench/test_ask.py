from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MANUAL, MakeProject

from ragwright import AskOptions, Session, Workbench
from ragwright.core import BudgetStopped, ConfigError, Document, Page, PromptError, Span
from ragwright.flow import Message, TraceEntry
from ragwright.ingest import Failure, FetchBytes, Reader
from ragwright.testing import Reply, ScriptedServer
from ragwright.workbench import AnswerStream

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("The brake fluid must be changed every two years [1].") as running:
        yield running


def built(folder: Path, session: Session | None = None) -> Workbench:
    bench = Workbench.open(folder, session)
    bench.ingest()
    return bench


def test_without_a_model_a_snippet_has_its_exact_place(make_project: MakeProject) -> None:
    with built(make_project()) as bench:
        answer = bench.ask(QUESTION, persona="engineer")
        [unnamed] = bench.ask_all(QUESTION, [])
        [text] = [d.text for d in bench.documents() if d.id.endswith("service.md")]
    assert answer.model == "snippet"
    assert not unnamed.persona
    assert not answer.abstained
    first = answer.citations[0]
    assert text[first.start : first.end] == answer.snippets[0].text
    assert "The brake fluid must be changed every two years." in answer.snippets[0].text
    assert first.source.endswith("service.md")


def test_it_abstains_where_nothing_answers(make_project: MakeProject) -> None:
    with built(make_project()) as bench:
        answer = bench.ask("Who painted the ceiling of the Sistine Chapel?")
    assert answer.abstained
    assert answer.citations == ()


def test_a_chat_model_streams_cites_and_is_paid_once(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    pieces: list[str] = []
    with built(folder) as bench:
        first = bench.ask(QUESTION, options=AskOptions(sink=pieces.append))
    assert len(pieces) > 1
    assert "".join(pieces) == first.text
    assert [c.marker for c in first.citations] == [1]
    assert first.citations[0].source.endswith("service.md")
    assert not first.cached
    assert len(server.requests) == 1
    replayed: list[str] = []
    with built(folder) as bench:
        second = bench.ask(QUESTION, options=AskOptions(sink=replayed.append))
    assert len(server.requests) == 1
    assert second.cached
    assert (second.text, replayed) == (first.text, [first.text])


def test_personas_side_by_side(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    with built(folder) as bench:
        answers = bench.ask_all(QUESTION, ["engineer", "marketing"])
    assert [a.persona for a in answers] == ["engineer", "marketing"]
    prompts = [str(request.body["messages"]) for request in server.requests]
    assert len(set(prompts)) == 2
    assert all("every two years" in prompt for prompt in prompts)


def test_a_follow_up_is_condensed(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    turns = (Message("user", QUESTION), Message("assistant", "Every two years [1]."))
    server.play(["How often must the coolant be changed?", "Every five years [1]."])
    with built(folder) as bench:
        answer = bench.ask("And the coolant?", options=AskOptions(history=turns))
    assert answer.question == "And the coolant?"
    assert answer.text == "Every five years [1]."
    assert any("coolant" in note for note in answer.notes)


def test_the_trace_shows_every_request(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    trace: list[TraceEntry] = []
    with built(folder) as bench:
        bench.ask(QUESTION, options=AskOptions(trace=trace))
    kinds = [type(entry.request).__name__ for entry in trace]
    assert kinds == ["Search", "Lookup", "Chat"]


def test_a_forecast_calls_nothing(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(
        f"answer: {{model: '{server.url}#writer'}}\n"
        f"models: {{'{server.url}#writer': {{price_in: 1, price_out: 2}}}}\n"
    )
    with built(folder) as bench:
        forecast = bench.forecast_ask(QUESTION, ["engineer", "marketing"])
        assert server.requests == []
        assert forecast.calls.exact
        assert forecast.calls.expected == 2
        assert forecast.cost is not None
        assert forecast.cost.high > 0
        bench.ask_all(QUESTION, ["engineer", "marketing"])
    assert len(server.requests) == 2


def test_a_forecast_reaches_the_answer_behind_a_remote_embedder(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(
        f"embed: {{model: '{server.url}#vectors'}}\nanswer: {{model: '{server.url}#writer'}}\n"
    )
    with built(folder) as bench:
        asked = len(server.requests)
        forecast = bench.forecast_ask(QUESTION, ["engineer", "marketing"])
        assert len(server.requests) == asked
        assert forecast.uncertain == 0
        assert forecast.calls.expected == 3  # one vector, two answers
        bench.ask_all(QUESTION, ["engineer", "marketing"])
        assert len(server.requests) - asked == 3


def test_a_budget_stops_before_the_call(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(
        f"answer: {{model: '{server.url}#writer'}}\n"
        f"models: {{'{server.url}#writer': {{price_in: 1000, price_out: 2000}}}}\n"
    )
    with built(folder, Session(max_cost=0.001)) as bench, pytest.raises(BudgetStopped):
        bench.ask(QUESTION)
    assert server.requests == []


def test_a_daily_budget_holds_for_the_next_command_too(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(
        f"answer: {{model: '{server.url}#writer'}}\n"
        f"models: {{'{server.url}#writer': {{price_in: 0, price_out: 1000}}}}\n"
        "budget: {daily_cost: 1.05}\n"
    )
    with built(folder) as bench:
        bench.ask(QUESTION)
        assert bench.ask(QUESTION).cached
    refused: list[BudgetStopped] = []
    for number in range(60):
        with Workbench.open(folder) as bench:
            try:
                bench.ask(f"{QUESTION} ({number})")
            except BudgetStopped as error:
                refused.append(error)
    # A call may cost 0.7 and costs less than a cent: some fit, and nobody sends one more.
    assert refused
    assert "daily budget of 1.05" in refused[0].what
    assert len(server.requests) == 61 - len(refused) > 1
    with Workbench.open(folder, Session(("budget.daily_cost=1000",))) as bench:
        assert bench.project.budget.daily is not None
        assert 0 < bench.project.budget.daily.today() <= 1.05


def test_two_tenants_never_share_a_reply(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    with built(folder) as bench:
        bench.ask(QUESTION, options=AskOptions(scope="tenant a"))
        bench.ask(QUESTION, options=AskOptions(scope="tenant b"))
        assert len(server.requests) == 2
        assert bench.forget_tenant("tenant a")["replies"] == 1
        assert bench.ask(QUESTION, options=AskOptions(scope="tenant b")).cached


def test_forgetting_a_document_reaches_the_replies(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    with built(folder) as bench:
        bench.ask(QUESTION)
        [name] = [d.id for d in bench.documents() if d.id.endswith("service.md")]
        gone = bench.forget(name)
        assert (gone["documents"], gone["replies"]) == (1, 1)
        assert all("brake fluid" not in hit.text for hit in bench.retrieve("brake fluid").hits)
    for file in (folder / ".ragwright").rglob("*"):
        if file.is_file():
            assert b"coolant must be changed" not in file.read_bytes(), file


def test_hybrid_search_through_a_server(make_project: MakeProject, server: ScriptedServer) -> None:
    folder = make_project(f"embed: {{model: '{server.url}#vectors'}}\n")
    with built(folder) as bench:
        found = bench.retrieve("accelerator pedal", k=2)
    assert found.mode == "hybrid"
    assert found.hits[0].source.endswith("codes.md")
    assert set(found.hits[0].channels) == {"keyword", "dense"}


def test_an_unknown_persona_or_model_is_said(make_project: MakeProject) -> None:
    folder = make_project()
    with built(folder) as bench, pytest.raises(PromptError, match="enginer"):
        bench.ask(QUESTION, persona="enginer")
    with (
        built(folder, Session(("answer.model=opnai:gpt",))) as bench,
        pytest.raises(ConfigError, match="opnai"),
    ):
        bench.ask(QUESTION)


def test_it_works_inside_a_running_event_loop(make_project: MakeProject) -> None:
    with built(make_project()) as bench:

        async def inside() -> tuple[str, str]:
            flow = bench.ask_flow(QUESTION, ["engineer"])
            [awaited] = await bench.project.runner.arun(flow)
            return awaited.text, bench.ask(QUESTION, persona="engineer").text

        awaited, direct = asyncio.run(inside())
    assert awaited == direct


def test_a_persona_file_of_the_project_wins(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n")
    (folder / "personas").mkdir()
    (folder / "personas/engineer.yaml").write_text("audience: people of our shop\n", "utf-8")
    with built(folder) as bench:
        bench.ask(QUESTION, persona="engineer")
    assert "people of our shop" in str(server.requests[-1].body["messages"])


def test_an_empty_reply_is_an_error_and_not_kept(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"answer: {{model: '{server.url}#writer'}}\n", **{"a.md": MANUAL})
    server.play(lambda _: Reply("ok"))
    with built(folder) as bench:
        assert bench.ask(QUESTION).text == "ok"


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


def test_a_citation_names_the_page_of_its_sentence(make_project: MakeProject) -> None:
    folder = make_project()
    (folder / "ragwright.yaml").write_text(
        "sources: [{source: book, reader: 'test_ask:BookReader'}]\nchunk: {by: whole}\n", "utf-8"
    )
    with built(folder) as bench:
        assert bench.retrieve("brake fluid").hits[0].page == 1
        [citation] = bench.ask(QUESTION).citations
    assert citation.page == 3


def test_async_verbs_give_what_the_others_give(make_project: MakeProject) -> None:
    with built(make_project()) as bench:

        async def inside() -> tuple[str, list[str], list[str]]:
            answer = await bench.aask(QUESTION, "engineer")
            found = await bench.aretrieve(QUESTION, 3)
            both = await bench.aask_all(QUESTION, ["engineer", "marketing"])
            return answer.text, [hit.chunk_id for hit in found.hits], [one.persona for one in both]

        text, ids, personas = asyncio.run(inside())
        assert text == bench.ask(QUESTION, "engineer").text
        assert ids == [hit.chunk_id for hit in bench.retrieve(QUESTION, 3).hits]
    assert personas == ["engineer", "marketing"]


def test_an_answer_is_streamed_in_pieces_after_its_context(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    with built(make_project(f"answer: {{model: '{server.url}#writer'}}\n")) as bench:

        async def inside() -> None:
            stream = bench.astream(QUESTION)
            pieces: list[str] = []
            async for piece in stream:
                assert stream.context, "the passages come before the first piece"
                assert stream.answer is None
                pieces.append(piece)
            assert len(pieces) > 1
            assert stream.answer is not None
            assert stream.context is not None
            assert "".join(pieces) == stream.answer.text
            assert stream.answer.citations[0].document_id == stream.context[0].document_id

        asyncio.run(inside())


def test_an_offline_answer_is_one_piece_and_errors_are_raised(make_project: MakeProject) -> None:
    with built(make_project()) as bench:

        async def inside() -> list[str]:
            with pytest.raises(PromptError, match="nobody"):
                _ = [piece async for piece in bench.astream(QUESTION, "nobody")]
            stream = bench.astream(QUESTION)
            pieces = [piece async for piece in stream]
            assert stream.answer is not None
            assert stream.answer.citations
            return pieces

        pieces = asyncio.run(inside())
    assert len(pieces) == 1


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_the_call(make_project: MakeProject) -> None:
    slow = Reply("It is changed every two years [1]. " * 40, pace=0.02)
    with (
        ScriptedServer(slow) as talking,
        built(make_project(f"answer: {{model: '{talking.url}#writer'}}\n")) as bench,
    ):

        async def inside() -> AnswerStream:
            stream = bench.astream(QUESTION)
            pieces = stream.__aiter__()
            await anext(pieces)
            await pieces.aclose()
            return stream

        stream = asyncio.run(inside())
        assert stream.answer is None
        assert bench.project.replies.statistics() == [], "a cut stream is not stored"
