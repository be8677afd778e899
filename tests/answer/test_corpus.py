"""Questions for which a chat model reads every chunk; lists and counts are made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_driver import LETTERS, Driver, Shelf, part

from ragwright.answer import (
    PAGE,
    AnswerOptions,
    AskPlan,
    ChunkItems,
    CorpusOptions,
    CorpusScope,
    answer_from_corpus,
    corpus_ids,
    find_quote,
    merge_items,
    read_items,
)
from ragwright.core import (
    Answer,
    Chunk,
    Document,
    Filter,
    ModelReplyError,
    Persona,
    Relaxation,
    RetrieveError,
    SoftFilter,
    Span,
)
from ragwright.flow import Chat, Lookup, RetryPolicy, Runner, Search
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, ViewHandler, Views
from ragwright.models import Analyzer, Models, model_handlers
from ragwright.retrieve import Target
from ragwright.testing import Reply, ScriptedServer, ServerRequest

TARGET, NOBODY = Target("s1"), CorpusScope()


def extracted(*names: str) -> Callable[[Chat], str]:
    """A model that finds these names in the passage, each with itself as the quote."""

    def reply(chat: Chat) -> str:
        passage = chat.messages[-1].content.lower()
        found = [{"item": n, "quote": n} for n in names if n.lower() in passage]
        return json.dumps({"items": found})

    return reply


class Library(Driver):
    def __init__(self, reply: Any = "", hits: list[Any] = LETTERS) -> None:
        self.shelf = Shelf(hits)
        super().__init__(reply, others=self.shelf.one)

    def asked(
        self,
        question: str = "Who are the writers?",
        *personas: Persona,
        scope: CorpusScope = NOBODY,
        **corpus: int,
    ) -> list[Answer]:
        plan = AskPlan(AnswerOptions(model="m:x", corpus=CorpusOptions(**corpus)))
        people = personas or (Persona("p"), Persona("q"))
        return self.run(answer_from_corpus(question, people, TARGET, plan, scope))


def test_one_call_a_chunk_and_the_list_is_merged_and_cited() -> None:
    library = Library(extracted("Bob Stone", "Carol Reed", "Ada"))
    library.shelf.notes = ("a document changed",)
    made, other = library.asked()
    assert len(library.chats) == len(LETTERS)
    assert made.text == "3 found:\n- Bob Stone (2 places) [1][2]\n- Ada [1]\n- Carol Reed [3]"
    assert (other.text, other.persona) == (made.text, "q")
    assert made.notes[0] == "read 4 of 4 chunks, one call each"
    assert "a document changed" in made.notes
    texts = {h.chunk_id: (h.start, h.text) for h in made.hits}
    quotes = []
    for cited in made.citations:
        start, text = texts[cited.chunk_id]
        quotes.append(text[cited.start - start : cited.end - start])
    assert quotes == ["Bob Stone", "bob stone", "Ada", "Carol Reed"]


ZOE = json.dumps({"items": [{"item": "Zoe", "quote": "Zoe was here"}]})


def no_carol(chat: Chat) -> str:
    reads = "Carol" not in chat.messages[-1].content
    return extracted("Bob Stone", "Carol Reed")(chat) if reads else "sorry"


@pytest.mark.parametrize(
    ("reply", "question", "first", "notes"),
    [
        (extracted("Bob Stone", "Carol Reed"), "How many writers in total?", "2 found:", []),
        (extracted("Ada", "Bob Stone"), "Who is named most often?", "2 found:", []),
        (ZOE, "Who are the writers?", "", ["read 4 of 4", "4 items left out: their quote"]),
        (no_carol, "Who wrote?", "At least 1 found:", ["read 3 of 4 chunks", "a:60-", "not JSON"]),
    ],
)
def test_counts_are_made_here_and_what_is_left_out_is_told(
    reply: Any, question: str, first: str, notes: list[str]
) -> None:
    library = Library(reply)
    made, _ = library.asked(question)
    assert made.abstained is (not first)
    assert not first or made.text.splitlines()[0] == first
    assert not first or made.text.splitlines()[1].startswith("- Bob Stone (2 places)")
    assert [word for word in notes if word not in " ".join(made.notes)] == []
    assert len(library.chats) == len(LETTERS)


@pytest.mark.parametrize(
    ("hits", "corpus", "error", "said", "calls"),
    [
        (LETTERS, {}, ModelReplyError, "none of 4 chunks", 4),
        (LETTERS, {"max_chunks": 3}, RetrieveError, "each of 4 chunks, more than the 3", 0),
        ([], {}, RetrieveError, "no chunk", 0),
    ],
)
def test_reading_nothing_or_too_much_fails(
    hits: list[Any], corpus: dict[str, Any], error: type[Exception], said: str, calls: int
) -> None:
    library = Library("no", hits)
    with pytest.raises(error, match=said) as raised:
        library.asked(**corpus)
    assert not corpus or "retrieve.filters" in str(raised.value)
    assert len(library.chats) == calls
    assert calls or not any(isinstance(step, Lookup) for step in library.seen)


def test_an_overview_is_written_for_each_persona_from_the_quotes() -> None:
    def reply(chat: Chat) -> str:
        quotes = extracted("the pump broke", "The lamp is red")
        return quotes(chat) if chat.schema else "Pumps break [1] and lamps glow [2]."

    library = Library(reply)
    made, other = library.asked("Summarise the letters.")
    assert made.text == "Pumps break [1] and lamps glow [2]."
    assert [h.text for h in made.hits] == ["the pump broke", "The lamp is red"]
    assert made.route == other.route == "corpus"
    assert len(library.chats) == len(LETTERS) + 2


def test_each_persona_is_answered_by_its_own_model() -> None:
    library = Library(extracted("Ada"))
    people = [Persona("p", model="m:other"), Persona("r"), Persona("s", model="m:other")]
    made = library.asked("Who are the writers?", *people)
    models = [("p", "m:other"), ("r", "m:x"), ("s", "m:other")]
    assert [(a.persona, a.model) for a in made] == models
    assert [c.model for c in library.chats] == ["m:other"] * 4 + ["m:x"] * 4


def test_a_failing_server_costs_the_chunk_and_a_dry_run_counts_one_call_a_chunk() -> None:
    def bob(request: ServerRequest) -> str | Reply:
        if "lamp" in request.prompt:
            return Reply(malformed="html")
        return json.dumps({"items": [{"item": "Bob", "quote": "bob"}]})

    shelf = Shelf([LETTERS[0], LETTERS[2], LETTERS[3]])
    with ScriptedServer(bob) as server:
        plan = AskPlan(AnswerOptions(model=f"{server.url}#scripted"))

        def flow(question: str) -> Any:
            return lambda: answer_from_corpus(question, [Persona("p")], TARGET, plan)

        routes: dict[type, Any] = {**model_handlers(Models()), Search: shelf, Lookup: shelf}
        with Runner(routes, retry=RetryPolicy(attempts=1)) as runner:
            forecast = runner.forecast([flow("Who are the writers?")])
            assert (forecast.calls.exact, forecast.calls.expected) == (True, 3)
            assert not server.requests
            (made,) = runner.run(flow("Who are the writers?")())
            assert len(server.requests) == 3
            assert made.text.startswith("At least 1 found:")
            assert runner.forecast([flow("Summarise it.")]).calls.expected == 4


def wishes(*documents: str, **more: Any) -> CorpusScope:
    soft = tuple(SoftFilter(Filter("document", (name,))) for name in documents)
    return CorpusScope((), Relaxation(soft, **more))


def test_soft_filters_change_nothing_unless_no_others_are_hits() -> None:
    (made,) = Library(extracted("Ada")).asked("Who?", Persona("p"), scope=wishes("c"))
    assert made.text.startswith("1 found:")
    assert any("soft filters only rank hits" in note for note in made.notes)
    library = Library(extracted("Ada", "Nobody", "bob stone"))
    made, _ = library.asked(scope=wishes("c", "b", unfiltered=False))
    assert [c.document_id for c in made.citations] == ["b", "c"]
    assert len(library.chats) == 2
    assert any("2 of 4 chunks meet a soft filter" in note for note in made.notes)


def test_the_corpus_is_listed_page_by_page_without_what_a_filter_excludes(tmp_path: Path) -> None:
    many = [part(f"d{n:04}", 0, "x") for n in range(2 * PAGE + 1)]
    library, condition = Library(hits=many), Filter("topic", ("a",))
    ids, _ = library.run(corpus_ids(TARGET, [condition]))
    assert ids == [h.chunk_id for h in many]
    searches = [step for step in library.seen if isinstance(step, Search)]
    assert [s.after for s in searches] == ["", ids[PAGE - 1], ids[2 * PAGE - 1]]
    assert all(s.filters == (condition,) for s in searches)
    store, spec, text = SqliteStore(tmp_path / "s"), IndexSpec("whole", Analyzer().spec), "Broken."
    for number, kind in enumerate(("record", "record", "", "note")):
        document = Document(f"d{number}", "s", text, metadata={"kind": kind} if kind else {})
        chunk = Chunk(document.id, document.id, 0, Span(0, len(text)), text)
        store.upsert(spec, [IndexedDocument(document, (chunk,))])
    target, views = Target(store.snapshot(spec)), Views(store)
    with Runner({Search: ViewHandler(views), Lookup: ViewHandler(views)}) as runner:
        for value, count in (("record", 2), ("Record", 4)):
            barred = (Filter("kind", (value,), exclude=True),)
            assert len(runner.run(corpus_ids(target, barred))[0]) == count
    views.close()
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"items": 1}', '{"items": [1]}', '{"items": [{"item": "a"}]}'),
        '{"items": [{"item": "a", "quote": 1}]}',
        '{"items": [{"item": " ", "quote": "a"}]}',
        '{"items": [], "count": 3}',
        'Here: {"items": []}',
    ],
)
def test_replies_that_are_not_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_items(text)


def test_replies_are_read_and_their_quotes_found_whatever_their_spacing_and_case() -> None:
    body = '{"items": [{"item": "a  b", "quote": "q"}]}'
    for text in (body, f"```json\n{body}\n```"):
        assert read_items(text) == [("a b", "q")]
    source = part("a", 10, "See [3]: The  fuel\npump.")
    assert find_quote("the fuel pump", source) == (19, 33)
    assert find_quote("See (3):", source) == (source.start, source.end)
    assert find_quote("the oil pump", source) is None
    assert find_quote("  ", source) is None


def test_equal_items_are_one_and_overlapping_chunks_count_once() -> None:
    one, two = part("a", 0, "x" * 50), part("a", 20, "x" * 50)
    readings = [
        ChunkItems(one, (("The Café", 25, 30), ("Bob", 1, 4))),
        ChunkItems(two, (("cafe", 25, 30), ("CAFÉ.", 60, 65))),
    ]
    first, second = merge_items(readings)
    assert (first.text, second.text) == ("The Café", "Bob")
    assert [(start, end) for _, start, end in first.places] == [(25, 30), (60, 65)]
