"""Questions for which every chunk is read: counted, mapped over a model, or quoted offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from answer_fakes import Driver, hit
from hypothesis import given, settings, strategies as st

from ragwright.answer import (
    PAGE,
    AnswerOptions,
    AnswerSetup,
    ChunkItems,
    CorpusOptions,
    CorpusScope,
    Found,
    UnitCount,
    UnitQuestion,
    answer_from_corpus,
    corpus_ids,
    find_quote,
    merged,
    read_items,
    read_unit_question,
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
    LookupHandler,
    SearchHandler,
    SqliteStore,
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


def matching_units(
    asked: UnitQuestion, hits: list[Hit], analyzer: Analyzer
) -> tuple[list[Found], int]:
    """The count over chunks given one by one."""
    counting = UnitCount(asked, analyzer)
    for one in hits:
        counting.add([one])
    return counting.result()


class Shelf(BatchHandler[object, object]):
    """A whole index: it lists its chunks in order and hands them out."""

    lookup_notes: tuple[str, ...] = ()

    def __init__(self, hits: list[Hit]) -> None:
        self.hits = {h.chunk_id: h for h in hits}
        self.seen: list[object] = []

    def durable(self, request: object) -> bool:
        return False

    def carry(self, requests: object) -> list[object]:
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


def chatting(**corpus: int) -> AnswerSetup:
    return AnswerSetup(AnswerOptions(model="m:x", corpus=CorpusOptions(**corpus)))


def extracted(*names: str) -> Callable[[Chat], str]:
    """A model that finds these names in the passage, each with itself as the quote."""

    def reply(chat: Chat) -> str:
        passage = chat.messages[-1].content
        found = [{"item": n, "quote": n} for n in names if n.lower() in passage.lower()]
        return json.dumps({"items": found})

    return reply


class TestCounted:
    """Questions about documents as such: exact, and without a model."""

    @pytest.mark.parametrize(
        ("question", "start"),
        [
            ("How many documents mention the pump?", "2 of 3 documents"),
            ("How many passages mention the pump?", "3 of 4 passages"),
            ("Which documents mention the fuel pump?", "2 of 3 documents"),
            ('How many documents contain "fuel pump"?', "1 of 3 documents"),
            ("List all documents about lamps.", "1 of 3 documents"),
            ("How many documents are there?", "There are 3 documents."),
            ("How many documents mention unicorns?", "None of the 3 documents"),
        ],
    )
    @pytest.mark.parametrize("setup", [AnswerSetup(), chatting(max_chunks=1)])
    def test_the_number_is_exact(self, question: str, start: str, setup: AnswerSetup) -> None:
        library = Library(LETTERS)
        (made,) = library.run(answer_from_corpus(question, [PERSONA], TARGET, setup))
        assert made.text.startswith(start)
        assert not library.chats
        assert made.model == "counted"
        assert made.route == "corpus"
        assert not made.abstained
        assert made.notes[0] == "read 4 of 4 chunks"

    def test_every_unit_is_cited_where_it_says_so(self) -> None:
        flow = answer_from_corpus(
            "Which documents mention the pump?", [PERSONA], TARGET, AnswerSetup()
        )
        (made,) = Library(LETTERS).run(flow)
        assert made.text.splitlines()[1:] == ["- A [1]", "- C [2]"]
        first, second = made.citations
        text = LETTERS[0].text
        assert text[first.start : first.end] == "Dear Ada, the fuel pump arrived."
        assert second.document_id == "c"
        assert [h.rank for h in made.hits] == [1, 2]

    def test_pages_are_put_together_from_the_chunks_that_hold_them(self) -> None:
        hits = [
            part("d", 0, "red one. ", page=1, pages=()),
            part("d", 9, "pump here. lamp there.", page=1, pages=((20, 2),)),
            part("d", 31, "red again", page=2),
            part("e", 0, "red pump lamp", page=None),
        ]
        asked = read_unit_question("How many pages mention red lamps?", Analyzer())
        assert asked is not None
        found, total = matching_units(asked, hits, Analyzer())
        assert total == 3
        assert [(f.hit.document_id, f.page) for f in found] == [("d", 2), ("e", None)]

    def test_a_corpus_without_pages_counts_documents_and_says_so(self) -> None:
        flow = answer_from_corpus("How many pages mention red?", [PERSONA], TARGET, AnswerSetup())
        parts = [part("e", 0, "red", page=None), part("f", 0, "blue", page=None)]
        (made,) = Library(parts).run(flow)
        assert made.text.startswith("1 of 2 documents")
        assert "no document here has pages: documents are counted" in made.notes

    def test_of_many_units_all_are_counted_and_some_are_shown(self) -> None:
        many = [part(f"d{n:03}", 0, "A pump.") for n in range(120)]
        flow = answer_from_corpus("List all documents on pumps.", [PERSONA], TARGET, AnswerSetup())
        (made,) = Library(many).run(flow)
        assert made.text.startswith("120 of 120 documents")
        assert made.text.endswith("… and 70 more")
        assert len(made.citations) == len(made.hits) == 50

    @pytest.mark.parametrize(
        "question",
        [
            "Who are the contributors?",
            "How many pumps are there?",
            "",
            "?",
            "How many documents mention the?",
            "Welche Dokumente brauche ich für ein Visum?",
        ],
    )
    def test_other_questions_are_not_counted_by_words(self, question: str) -> None:
        assert read_unit_question(question, Analyzer()) is None

    def test_a_long_question_is_not_taken_apart(self) -> None:
        assert read_unit_question(f"How many documents mention {'?' * 20_000}x", Analyzer()) is None

    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from(["pump", "lamp", "oil"]))),
            max_size=12,
        )
    )
    def test_counts_equal_a_slow_reference(self, chunks: list[tuple[str, list[str]]]) -> None:
        hits = [part(d, 100 * n, " ".join(w) + ".") for n, (d, w) in enumerate(chunks)]
        asked = read_unit_question("How many documents mention pump and oil?", Analyzer())
        assert asked is not None
        found, total = matching_units(asked, hits, Analyzer())
        assert total == len({d for d, _ in chunks})
        wanted = {d for d, w in chunks if {"pump", "oil"} <= set(w)}
        assert {f.hit.document_id for f in found} == wanted
        assert len(found) == len(wanted)


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
        assert made.text.startswith("At least 1 found (not every passage")
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
            setup = AnswerSetup(AnswerOptions(model=f"{server.url}#scripted"))
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
            setup = AnswerSetup(AnswerOptions(model=f"{server.url}#scripted"))
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
        library = Library(LETTERS)
        question = "How many documents mention the pump?"
        flow = answer_from_corpus(question, [PERSONA], TARGET, AnswerSetup(), scope)
        (made,) = library.run(flow)
        assert made.text.startswith("2 of 3 documents")
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
            Persona("q", model="extractive"),
            Persona("r"),
            Persona("s", model="m:other"),
        ]
        flow = answer_from_corpus("Who are the writers?", personas, TARGET, chatting())
        made = library.run(flow)
        assert [(a.persona, a.model) for a in made] == [
            ("p", "m:other"),
            ("q", "extractive"),
            ("r", "m:x"),
            ("s", "m:other"),
        ]
        assert [c.model for c in library.chats] == ["m:other"] * 4 + ["m:x"] * 4

    @pytest.mark.parametrize("setup", [AnswerSetup(), chatting()])
    @pytest.mark.parametrize("question", ["How many documents are there?", "Who are the writers?"])
    def test_what_the_index_notes_is_said(self, question: str, setup: AnswerSetup) -> None:
        library = Library(LETTERS, extracted("Ada"))
        library.shelf.lookup_notes = ("a document changed",)
        (made,) = library.run(answer_from_corpus(question, [PERSONA], TARGET, setup))
        assert "a document changed" in made.notes


class TestOffline:
    """No chat model: the best sentences of everything."""

    def test_sentences_come_from_everywhere_in_document_order(self) -> None:
        hits = [
            part("a", 0, "Ada Lovelace contributed the engine chapter. The sky is blue."),
            part("b", 0, "Rain fell all day. Nothing else happened in the valley that year."),
            part("c", 0, "Grace Hopper contributed the compiler chapter. It was long."),
            part(
                "d",
                0,
                "Alan Turing contributed the machine chapter. Ada Lovelace contributed "
                "the engine chapter.",
            ),
        ]
        flow = answer_from_corpus("Who contributed a chapter?", [PERSONA], TARGET, AnswerSetup())
        (made,) = Library(hits).run(flow)
        assert made.text == (
            "Ada Lovelace contributed the engine chapter. [1] Grace Hopper contributed the "
            "compiler chapter. [2] Alan Turing contributed the machine chapter. [3]"
        )
        assert [h.document_id for h in made.hits] == ["a", "c", "d"]
        assert made.notes[0] == "read 4 of 4 chunks"
        for cited in made.citations:
            source = next(h for h in hits if h.document_id == cited.document_id)
            assert source.text[cited.start : cited.end] in made.text

    def test_every_member_of_a_group_is_named_wherever_it_stands(self) -> None:
        names = ["Ada Lovelace", "Grace Hopper", "Alan Turing", "Kurt Moser", "Ines Blau"]
        hits = [
            part(f"d{n}", 0, f"{name} contributed to the manual.") for n, name in enumerate(names)
        ]
        question = "Who are the contributors to the manual?"
        flow = answer_from_corpus(question, [PERSONA], TARGET, AnswerSetup())
        (made,) = Library(hits).run(flow)
        assert all(name in made.text for name in names)
        other = answer_from_corpus(question, [PERSONA], TARGET, AnswerSetup())
        (turned,) = Library(hits[::-1]).run(other)
        assert all(name in turned.text for name in names)

    def test_what_the_limits_leave_out_is_counted(self) -> None:
        hits = [
            part("a", 0, "Ada Lovelace contributed to the manual."),
            part("b", 0, "Grace Hopper contributed to the manual."),
            part("c", 0, "Alan Turing contributed to the manual."),
            part("d", 0, "The manual is red."),
        ]
        setup = AnswerSetup(AnswerOptions(corpus=CorpusOptions(sentences=2)))
        question = "Who are the contributors to the manual?"
        (made,) = Library(hits).run(answer_from_corpus(question, [PERSONA], TARGET, setup))
        assert any(note.startswith("2 of 3 sentences that score") for note in made.notes)
        assert any(note.startswith("1 sentences with a word") for note in made.notes)

    def test_where_nothing_answers_it_abstains(self) -> None:
        flow = answer_from_corpus("Who painted the ceiling?", [PERSONA], TARGET, AnswerSetup())
        (made,) = Library(LETTERS).run(flow)
        assert made.abstained
        assert "read 4 of 4 chunks" in made.notes

    def test_an_empty_corpus_is_an_error(self) -> None:
        flow = answer_from_corpus("Who?", [PERSONA], TARGET, AnswerSetup())
        with pytest.raises(RetrieveError, match="no chunk"):
            Library([]).run(flow)


def test_what_a_filter_excludes_is_not_counted(tmp_path: Path) -> None:
    pair = IndexSpec("whole", Analyzer().spec)
    store = SqliteStore(tmp_path / "store.sqlite")
    for number, kind in enumerate(("record", "record", "", "note")):
        text = "The pump broke."
        document = Document(f"d{number}", "s", text, metadata={"kind": kind} if kind else {})
        chunk = Chunk(f"{document.id}:0-{len(text)}", document.id, 0, Span(0, len(text)), text)
        store.upsert(pair, [IndexedDocument(document, (chunk,))])
    views = Views(store)
    target = Target(store.snapshot(pair))
    question = "How many documents mention the pump?"
    with Runner({Search: SearchHandler(views), Lookup: LookupHandler(views)}) as runner:
        for value, count, told in (("record", 2, False), ("Record", 4, True)):
            scope = CorpusScope((Filter("kind", (value,), exclude=True),))
            flow = answer_from_corpus(question, [PERSONA], target, AnswerSetup(), scope)
            (made,) = runner.run(flow)
            assert made.text.startswith(f"{count} of {count} documents")
            assert any("kind!=Record excludes nothing" in note for note in made.notes) is told
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
    for text in (body, f"```json\n{body}\n```", f"<think>?</think>\n{body}"):
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
    first, second = merged(readings)
    assert (first.text, second.text) == ("The Café", "Bob")
    assert [(start, end) for _, start, end in first.places] == [(25, 30), (60, 65)]
