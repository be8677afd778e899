"""Questions for which every chunk is read: mapped over a chat model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from answer_fakes import Driver, hit

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
    Chunk,
    Document,
    Filter,
    Hit,
    ModelReplyError,
    Persona,
    Relaxation,
    RetrieveError,
    SoftFilter,
    Span,
)
from ragwright.flow import (
    BatchHandler,
    Chat,
    Lookup,
    LookupReply,
    Runner,
    Search,
    SearchReply,
    Step,
)
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    SqliteStore,
    ViewHandler,
    Views,
)
from ragwright.models import Analyzer, Models, model_handlers
from ragwright.retrieve import Target
from ragwright.testing import Reply, ScriptedServer

TARGET = Target("s1")
PERSONA = Persona("p")


def part(document: str, start: int, text: str, **more: object) -> Hit:
    return hit(1, text, document=document, start=start, title=document.upper(), **more)


LETTERS = [
    part("a", 0, "Dear Ada, the fuel pump arrived. Signed, Bob Stone."),
    part("a", 60, "Later the pump broke. Carol Reed repaired it."),
    part("b", 0, "The lamp is red. Nobody mended it."),
    part("c", 0, "The PUMP of the town stands still, wrote bob stone. Fuel is dear."),
]


class Shelf(BatchHandler[object, object]):
    """A whole index: it lists its chunks in order and hands them out."""

    lookup_notes: tuple[str, ...] = ()

    def __init__(self, hits: list[Hit]) -> None:
        self.hits = {h.chunk_id: h for h in hits}
        self.seen: list[object] = []

    def durable(self, request: object) -> bool:
        return False

    def reply_to(self, requests: object) -> list[object]:
        return [self.one(request) for request in requests]  # type: ignore[attr-defined]

    def one(self, request: object) -> SearchReply | LookupReply:
        self.seen.append(request)
        if isinstance(request, Lookup):
            return LookupReply(
                tuple(self.hits[key] for key in request.chunk_ids), notes=self.lookup_notes
            )
        assert isinstance(request, Search)
        assert request.channel == "all"
        wanted = {value for f in request.filters if f.field == "document" for value in f.values}
        ids = [key for key, h in self.hits.items() if not wanted or h.document_id in wanted]
        start = ids.index(request.after) + 1 if request.after else 0
        return SearchReply(tuple((key, 0.0) for key in ids[start : start + request.k]))


class Library(Driver):
    """The hand driver with a shelf behind it."""

    def __init__(self, hits: list[Hit], reply: str | Callable[[Chat], str] = "") -> None:
        super().__init__(reply)
        self.shelf = Shelf(hits)

    def answer(self, step: Step):  # type: ignore[no-untyped-def]
        if isinstance(step, Search | Lookup):
            return self.shelf.one(step)
        return super().answer(step)


def chatting(**corpus: int) -> AskPlan:
    return AskPlan(AnswerOptions(model="m:x", corpus=CorpusOptions(**corpus)))


def extracted(*names: str) -> Callable[[Chat], str]:
    """A model that finds these names in the passage, each with itself as the quote."""

    def reply(chat: Chat) -> str:
        passage = chat.messages[-1].content
        found = [{"item": n, "quote": n} for n in names if n.lower() in passage.lower()]
        return json.dumps({"items": found})

    return reply


class TestMapped:
    """A chat model reads every chunk; lists and counts are made here."""

    def test_one_call_a_chunk_and_the_list_is_merged_and_cited(self) -> None:
        library = Library(LETTERS, extracted("Bob Stone", "Carol Reed", "Ada"))
        flow = answer_from_corpus(
            "Who are the writers?", [PERSONA, Persona("q")], TARGET, chatting()
        )
        made, other = library.run(flow)
        assert len(library.chats) == len(LETTERS)
        assert made.text == ("3 found:\n- Bob Stone (2 places) [1][2]\n- Ada [1]\n- Carol Reed [3]")
        assert other.text == made.text
        assert other.persona == "q"
        assert made.notes[0] == "read 4 of 4 chunks, one call each"
        quotes = [
            h.text[c.start - h.start : c.end - h.start]
            for c in made.citations
            for h in made.hits
            if h.chunk_id == c.chunk_id
        ]
        assert quotes == ["Bob Stone", "bob stone", "Ada", "Carol Reed"]

    def test_the_model_is_never_asked_for_a_number(self) -> None:
        library = Library(LETTERS, extracted("Bob Stone", "Carol Reed"))
        flow = answer_from_corpus(
            "How many writers are named in total?", [PERSONA], TARGET, chatting()
        )
        (made,) = library.run(flow)
        assert made.text.startswith("2 found:")
        assert len(library.chats) == len(LETTERS)

    def test_what_is_asked_for_most_often_comes_first(self) -> None:
        library = Library(LETTERS, extracted("Ada", "Bob Stone"))
        flow = answer_from_corpus("Who is named most often?", [PERSONA], TARGET, chatting())
        (made,) = library.run(flow)
        assert made.text.splitlines()[1].startswith("- Bob Stone (2 places)")

    def test_invented_quotes_are_left_out_and_counted(self) -> None:
        reply = json.dumps({"items": [{"item": "Zoe", "quote": "Zoe was here"}]})
        (made,) = Library(LETTERS, reply).run(
            answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting())
        )
        assert made.abstained
        assert any("4 items left out: their quote" in note for note in made.notes)

    def test_chunks_that_could_not_be_read_make_the_count_a_lower_bound(self) -> None:
        good = extracted("Bob Stone", "Carol Reed")
        library = Library(
            LETTERS, lambda c: "sorry" if "Carol" in c.messages[-1].content else good(c)
        )
        (made,) = library.run(
            answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting())
        )
        assert made.text.startswith("At least 1 found:")
        assert "read 3 of 4 chunks" in made.notes[0]
        assert "a:60-" in made.notes[1]
        assert "not JSON" in made.notes[1]

    def test_where_nothing_could_be_read_it_fails(self) -> None:
        flow = answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting())
        with pytest.raises(ModelReplyError, match="none of 4 chunks"):
            Library(LETTERS, "no").run(flow)

    def test_too_many_chunks_are_refused_with_the_count_and_the_way_out(self) -> None:
        library = Library(LETTERS)
        flow = answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting(max_chunks=3))
        with pytest.raises(RetrieveError, match="each of 4 chunks, more than the 3") as raised:
            library.run(flow)
        assert "retrieve.filters" in str(raised.value)
        assert not library.chats
        assert not any(isinstance(step, Lookup) for step in library.seen)

    def test_an_overview_is_written_for_each_persona_from_the_quotes(self) -> None:
        def reply(chat: Chat) -> str:
            if chat.schema:
                return extracted("the pump broke", "The lamp is red")(chat)
            return "Pumps break [1] and lamps glow [2]."

        library = Library(LETTERS, reply)
        flow = answer_from_corpus(
            "Summarise the letters.", [PERSONA, Persona("q")], TARGET, chatting()
        )
        made, other = library.run(flow)
        assert made.text == "Pumps break [1] and lamps glow [2]."
        assert [h.text for h in made.hits] == ["the pump broke", "The lamp is red"]
        assert made.route == other.route == "corpus"
        assert len(library.chats) == len(LETTERS) + 2

    def test_a_dry_run_counts_one_call_a_chunk(self) -> None:
        with ScriptedServer(Reply(json.dumps({"items": []}))) as server:
            setup = AskPlan(AnswerOptions(model=f"{server.url}#scripted"))
            shelf = Shelf(LETTERS)
            with Runner({**model_handlers(Models()), Search: shelf, Lookup: shelf}) as runner:
                asked = [
                    lambda: answer_from_corpus("Who are the writers?", [PERSONA], TARGET, setup)
                ]
                forecast = runner.forecast(asked)
                assert forecast.calls.exact
                assert forecast.calls.expected == len(LETTERS)
                assert not server.requests
                (made,) = runner.run(asked[0]())
                assert len(server.requests) == len(LETTERS)
                assert made.abstained
                summary = runner.forecast(
                    [lambda: answer_from_corpus("Summarise it.", [PERSONA], TARGET, setup)]
                )
                assert summary.calls.expected == len(LETTERS) + 1

    def test_a_failing_server_costs_the_chunk_not_the_answer(self) -> None:
        def script(request: object) -> str | Reply:
            if "lamp" in request.prompt:  # type: ignore[attr-defined]
                return Reply(status=400, error="bad")
            return json.dumps({"items": [{"item": "Bob", "quote": "bob"}]})

        with ScriptedServer(script) as server:
            setup = AskPlan(AnswerOptions(model=f"{server.url}#scripted"))
            shelf = Shelf([LETTERS[0], LETTERS[3]])
            with Runner({**model_handlers(Models()), Search: shelf, Lookup: shelf}) as runner:
                (made,) = runner.run(
                    answer_from_corpus("Who are the writers?", [PERSONA], TARGET, setup)
                )
        assert made.text.startswith("1 found:")


class TestScope:
    """What is read, by whom, and what is said about it."""

    def test_soft_filters_change_nothing_and_that_is_said(self) -> None:
        scope = CorpusScope((), Relaxation((SoftFilter(Filter("document", ("c",))),)))
        library = Library(LETTERS, extracted("Ada"))
        flow = answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting(), scope)
        (made,) = library.run(flow)
        assert made.text.startswith("1 found:")
        assert any("soft filters only rank hits" in note for note in made.notes)

    def test_only_chunks_that_meet_a_soft_filter_are_read_where_no_others_are_hits(self) -> None:
        soft = (SoftFilter(Filter("document", ("c",))), SoftFilter(Filter("document", ("b",))))
        scope = CorpusScope((), Relaxation(soft, unfiltered=False))
        library = Library(LETTERS, extracted("Ada", "Nobody", "bob stone"))
        flow = answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting(), scope)
        (made,) = library.run(flow)
        assert [c.document_id for c in made.citations] == ["b", "c"]
        assert len(library.chats) == 2
        assert any("2 of 4 chunks meet a soft filter" in note for note in made.notes)

    def test_each_persona_is_answered_by_its_own_model(self) -> None:
        library = Library(LETTERS, extracted("Ada"))
        personas = [
            Persona("p", model="m:other"),
            Persona("r"),
            Persona("s", model="m:other"),
        ]
        flow = answer_from_corpus("Who are the writers?", personas, TARGET, chatting())
        made = library.run(flow)
        assert [(a.persona, a.model) for a in made] == [
            ("p", "m:other"),
            ("r", "m:x"),
            ("s", "m:other"),
        ]
        assert [c.model for c in library.chats] == ["m:other"] * 4 + ["m:x"] * 4

    def test_what_the_index_notes_is_said(self) -> None:
        library = Library(LETTERS, extracted("Ada"))
        library.shelf.lookup_notes = ("a document changed",)
        flow = answer_from_corpus("Who are the writers?", [PERSONA], TARGET, chatting())
        (made,) = library.run(flow)
        assert "a document changed" in made.notes

    def test_an_empty_corpus_is_an_error(self) -> None:
        flow = answer_from_corpus("Who?", [PERSONA], TARGET, chatting())
        with pytest.raises(RetrieveError, match="no chunk"):
            Library([]).run(flow)


def test_what_a_filter_excludes_is_not_read(tmp_path: Path) -> None:
    spec = IndexSpec("whole", Analyzer().spec)
    store = SqliteStore(tmp_path / "store.sqlite")
    for number, kind in enumerate(("record", "record", "", "note")):
        text = "The pump broke."
        document = Document(f"d{number}", "s", text, metadata={"kind": kind} if kind else {})
        chunk = Chunk(f"{document.id}:0-{len(text)}", document.id, 0, Span(0, len(text)), text)
        store.upsert(spec, [IndexedDocument(document, (chunk,))])
    views = Views(store)
    target = Target(store.snapshot(spec))
    with Runner({Search: ViewHandler(views), Lookup: ViewHandler(views)}) as runner:
        for value, count in (("record", 2), ("Record", 4)):
            ids, _ = runner.run(corpus_ids(target, (Filter("kind", (value,), exclude=True),)))
            assert len(ids) == count
    views.close()
    store.close()


def test_the_corpus_is_listed_page_by_page_under_the_filters() -> None:
    many = [part(f"d{n:04}", 0, "x") for n in range(2 * PAGE + 1)]
    library = Library(many)
    condition = Filter("topic", ("a",))
    ids, _ = library.run(corpus_ids(TARGET, [condition]))
    assert ids == [h.chunk_id for h in many]
    searches = [step for step in library.seen if isinstance(step, Search)]
    assert [s.after for s in searches] == ["", ids[PAGE - 1], ids[2 * PAGE - 1]]
    assert all(s.filters == (condition,) for s in searches)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"items": 1}',
        '{"items": [1]}',
        '{"items": [{"item": "a"}]}',
        '{"items": [{"item": "a", "quote": 1}]}',
        '{"items": [{"item": " ", "quote": "a"}]}',
        '{"items": [], "count": 3}',
        'Here: {"items": []}',
    ],
)
def test_replies_that_are_not_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_items(text)


def test_replies_that_are_read() -> None:
    body = '{"items": [{"item": "a  b", "quote": "q"}]}'
    for text in (body, f"```json\n{body}\n```"):
        assert read_items(text) == [("a b", "q")]


def test_quotes_are_found_whatever_their_spacing_and_case() -> None:
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
