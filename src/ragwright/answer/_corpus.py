"""The whole-corpus route: every chunk is read and the findings are merged; nothing is sampled.

Four ways, by what is asked and what there is. Questions about documents as such ("how many
pages mention X?") are answered by looking up every word in every chunk, exactly and without a
model. Without a chat model, lists are read from structure where it shows them: speaker lines,
headings, columns of tables, metadata. With a chat model, each chunk is read by one call that
extracts items for the answer; ragwright merges and counts them, not the model. Offline, the
sentences of all chunks are scored together and the best are quoted in the order of the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core import (
    Answer,
    Citation,
    Filter,
    Hit,
    MissingKeyError,
    ModelRefusedError,
    ModelReplyError,
    Persona,
    RagwrightError,
    Relaxation,
    RetrieveError,
    Usage,
    counted,
    listed,
)
from ..flow import Flow, Search, SearchReply, gather, lookup, send, settled
from ..models import ExtractiveReranker, make_analyzer
from ..retrieve import Target, idle_exclusions
from ._corpus_offline import Quotable, quote_everything
from ._corpus_read import (
    ChunkItems,
    Item,
    ReadOptions,
    asks_overview,
    merged,
    ranked_items,
    read_chunk,
    readable_parts,
)
from ._corpus_structure import Structure
from ._corpus_text import items_text, units_text
from ._flow import AnswerSetup, answer
from ._forms import refusal
from ._marks import citation
from ._units import Found, UnitCount, UnitQuestion, read_unit_question

PAGE = 500
"""Chunks listed by one request."""

_FETCHED = 16
"""Chunks fetched, and then read, at once."""

_STAND_IN = 5

_MOST_READ = 20_000
"""Chunks that are read unasked where that takes no call: a matter of a few seconds."""


@dataclass(frozen=True, slots=True)
class CorpusScope:
    """The chunks to read: those that meet all filters.

    Attributes:
        filters: Hard conditions.
        relax: Soft ones; they limit what is read only if chunks that meet none are excluded.
    """

    filters: Sequence[Filter] = ()
    relax: Relaxation | None = None


def answer_from_corpus(
    question: str,
    personas: Sequence[Persona],
    target: Target,
    setup: AnswerSetup,
    scope: CorpusScope | None = None,
) -> Flow[list[Answer]]:
    """One answer per persona from every chunk of the scope; it is read once per model.

    Lists and counts are the same for every persona of a model; other answers are written for
    each.

    Raises:
        RetrieveError: There is no chunk, or more than a chat model may read.
        RagwrightError: No chunk could be read.
    """
    ids, notes = yield from _scope_ids(target, scope or CorpusScope())
    if not ids:
        raise RetrieveError(
            "no chunks to read",
            where=f"snapshot {target.snapshot}",
            hint="ingest something, or loosen retrieve.filters",
        )
    analyzer = target.analyzer or make_analyzer()
    unit_question = read_unit_question(question, analyzer)
    scope_note = _scope_note(ids, scope or CorpusScope())
    if unit_question is not None:
        counted_answer = yield from _counted_answer(question, target, ids, unit_question, setup)
        return _answer_for_each(counted_answer, personas, (scope_note, *notes))
    models = [persona.model or setup.options.model for persona in personas]
    if set(models) == {ExtractiveReranker.name}:
        structured = yield from _from_structure(question, target, ids, setup)
        if structured is not None:
            return _answer_for_each(structured, personas, (scope_note, *notes))
    if set(models) != {ExtractiveReranker.name}:
        _check_chunk_limit(len(ids), setup)
    quotable = Quotable(question, analyzer)
    hits: list[Hit] = []
    takers: list[Callable[[Sequence[Hit]], None]] = []
    takers += [quotable.add] if ExtractiveReranker.name in models else []
    takers += [hits.extend] if set(models) != {ExtractiveReranker.name} else []
    notes += yield from _each_page(target, ids, lambda page: [take(page) for take in takers])
    groups = {model: [at for at, m in enumerate(models) if m == model] for model in models}
    flows = []
    for model, places in groups.items():
        group = [personas[at] for at in places]
        own_setup = replace(setup, options=replace(setup.options, model=model))
        if model == ExtractiveReranker.name:
            flows.append(_quoted_answers(question, group, quotable, own_setup, scope_note))
        else:
            flows.append(_by_model(question, group, hits, own_setup))
    answers: dict[int, Answer] = {}
    outcomes = yield from gather(flows, settle=True)
    for places, group_answers in zip(groups.values(), map(settled, outcomes), strict=True):
        for at, group_answer in zip(places, group_answers, strict=True):
            answers[at] = replace(
                group_answer, notes=(*group_answer.notes[:1], *notes, *group_answer.notes[1:])
            )
    return [answers[at] for at in range(len(personas))]


def answer_from_structure(
    question: str,
    personas: Sequence[Persona],
    target: Target,
    setup: AnswerSetup,
    scope: CorpusScope,
) -> Flow[list[Answer] | None]:
    """An exact answer from every chunk that takes no call: counted, or read from structure.

    None where there is none: the question asks for something that words and structure do not
    show, or there are more than 20,000 chunks.
    """
    ids, notes = yield from _scope_ids(target, scope)
    analyzer = target.analyzer or make_analyzer()
    if not 0 < len(ids) <= _MOST_READ:
        return None
    scope_note = _scope_note(ids, scope)
    unit_question = read_unit_question(question, analyzer)
    if unit_question is not None:
        counted_answer = yield from _counted_answer(question, target, ids, unit_question, setup)
        return _answer_for_each(counted_answer, personas, (scope_note, *notes))
    structured = yield from _from_structure(question, target, ids, setup)
    return (
        None if structured is None else _answer_for_each(structured, personas, (scope_note, *notes))
    )


def _from_structure(
    question: str, target: Target, ids: Sequence[str], setup: AnswerSetup
) -> Flow[Answer | None]:
    """Members of a list, read from speaker lines, headings, columns or metadata."""
    structure = Structure(question, target.analyzer or make_analyzer())
    if not structure.asks:
        return None
    yield from _each_page(target, ids, structure.add)
    members = structure.items()
    if members is None:
        return None
    items = ranked_items(question, members.items)
    visible = items[: setup.options.corpus.max_items]
    hits: list[Hit] = []
    citations: list[Citation] = []
    marks = [_item_marks(item, hits, citations) for item in visible]
    notes = [f"listed from {members.place}, no model"]
    if members.part is not None:
        notes.append(
            f"{members.part[0]} of {members.part[1]} documents have {members.place}: what the "
            "others name elsewhere in their text is not listed"
        )
    if members.left_out:
        notes.append(f"{counted(members.left_out, 'value')} left out: too long, or too many")
    if len(items) > len(visible):
        notes.append(f"{len(visible)} of {len(items)} items are shown (answer.corpus.max_items)")
    return Answer(
        question,
        items_text(
            question,
            visible,
            marks,
            len(items),
            head="at_least" if members.left_out else "found",
            part=members.part,
        ),
        citations=tuple(citations),
        hits=tuple(hits),
        model="structure",
        notes=tuple(notes),
    )


def calls_of_corpus(target: Target, scope: CorpusScope) -> Flow[str]:
    """The number of calls for reading every chunk, in words; one cheap request."""
    request = Search(target.snapshot, "all", PAGE, filters=tuple(scope.filters))
    reply = yield from send(request, SearchReply)
    count = len(reply.candidates)
    return f"{count} or more calls" if count == PAGE else f"{counted(count, 'call')}"


def _counted_answer(
    question: str,
    target: Target,
    ids: Sequence[str],
    unit_question: UnitQuestion,
    setup: AnswerSetup,
) -> Flow[Answer]:
    """The exact answer to a question about documents, pages or passages."""
    counting = UnitCount(unit_question, target.analyzer or make_analyzer())
    notes = yield from _each_page(target, ids, counting.add)
    tallies = counting.tallies()
    kinds = [tally.kind for tally in tallies]
    if unit_question.unit == "page" and "page" not in kinds:
        notes += ("no document here has pages: documents are counted",)
    elif "unpaged" in kinds:
        notes += ("documents without page numbers are counted as documents, beside the pages",)
    if "page" in kinds:
        notes += ("pages without text are not counted",)
    matches, _ = counting.result()
    lists_units = unit_question.topic or not unit_question.counts
    visible = matches[: setup.options.corpus.max_items] if lists_units else []
    if unit_question.topic:
        place = "page, or chunk of a document without" if "unpaged" in kinds else _PLACE[kinds[0]]
        rule = f"every content word of {unit_question.topic!r} in one {place}, as written"
        notes += (f"counted by words, no model: {rule}",)
    return Answer(
        question,
        units_text(unit_question, tallies, len(visible)),
        citations=tuple(_unit_citation(number, unit) for number, unit in enumerate(visible, 1)),
        hits=tuple(replace(unit.hit, rank=number) for number, unit in enumerate(visible, 1)),
        model="counted",
        notes=notes,
    )


_PLACE = {"document": "chunk of the document", "page": "page", "passage": "passage"}


def _unit_citation(number: int, unit: Found) -> Citation:
    return citation(number, unit.hit, unit.start, unit.end)


def _scope_note(ids: Sequence[str], scope: CorpusScope) -> str:
    """Describe what was read, with the filters that bound it."""
    narrowed = any(condition.missing is None for condition in scope.filters)
    among = " that meet the filters" if narrowed else ""
    return f"read {len(ids)} of {len(ids)} chunks{among}"


def _quoted_answers(
    question: str,
    personas: Sequence[Persona],
    quotable: Quotable,
    setup: AnswerSetup,
    scope_note: str,
) -> Flow[list[Answer]]:
    """Sentences quoted from anywhere, offline."""
    quoted = yield from quote_everything(question, personas, quotable, setup.options)
    return [replace(answer, route="corpus", notes=(scope_note, *answer.notes)) for answer in quoted]


def _by_model(
    question: str, personas: Sequence[Persona], hits: Sequence[Hit], setup: AnswerSetup
) -> Flow[list[Answer]]:
    """Findings of a chat model in every chunk, as a list or written for each persona."""
    readings = yield from _chunk_findings(question, hits, setup)
    if asks_overview(question):
        return (yield from _written_answers(question, personas, readings, setup))
    return _answer_for_each(_listed_answer(question, readings, setup), personas, ())


def _scope_ids(target: Target, scope: CorpusScope) -> Flow[tuple[list[str], tuple[str, ...]]]:
    """Ids of the chunks of a scope, in document order, and notes on them."""
    ids, notes = yield from corpus_ids(target, scope.filters)
    soft = scope.relax.soft if scope.relax else ()
    notes += yield from idle_exclusions(target, scope.filters, soft)
    if not soft or scope.relax is None:
        return ids, notes
    if scope.relax.unfiltered:
        note = "soft filters only rank hits: they have no effect here, since every chunk was read"
        return ids, (*notes, note)
    met: set[str] = set()
    for soft_filter in soft:
        matching, more = yield from corpus_ids(target, (*scope.filters, soft_filter.condition))
        met.update(matching)
        notes += tuple(note for note in more if note not in notes)
    in_scope = [key for key in ids if key in met]
    note = f"{len(in_scope)} of {len(ids)} chunks meet a soft filter; no others were read"
    return in_scope, (*notes, note)


def corpus_ids(
    target: Target, filters: Sequence[Filter] = ()
) -> Flow[tuple[list[str], tuple[str, ...]]]:
    """Ids of all chunks that meet the filters, in document order, and notes of the index."""
    ids: list[str] = []
    notes: dict[str, None] = {}
    while True:
        after = ids[-1] if ids else ""
        request = Search(target.snapshot, "all", PAGE, filters=tuple(filters), after=after)
        reply = yield from send(request, SearchReply)
        notes |= dict.fromkeys(reply.notes)
        ids += [key for key, _ in reply.candidates]
        if len(reply.candidates) < PAGE:
            return ids, tuple(notes)


def _check_chunk_limit(chunks: int, setup: AnswerSetup) -> None:
    most = setup.options.corpus.max_chunks
    if chunks > most:
        raise RetrieveError(
            f"answering this takes one call for each of {chunks} chunks, more than the {most} of "
            "answer.corpus.max_chunks",
            hint="raise it (--dry-run shows the price), narrow the corpus with retrieve.filters, "
            "or answer from the index: retrieve.route.method: index",
        )


def _each_page(
    target: Target, ids: Sequence[str], take: Callable[[Sequence[Hit]], object]
) -> Flow[tuple[str, ...]]:
    """Pass the chunks to ``take`` page by page, numbered in document order.

    Returns the notes of the index. Pages are small, since ``take`` runs on the runner's loop,
    between two requests.

    Raises:
        RetrieveError: A listed chunk is missing.
    """
    notes: dict[str, None] = {}
    for start in range(0, len(ids), _FETCHED):
        page = ids[start : start + _FETCHED]
        reply = yield from lookup(target.snapshot, page)
        notes |= dict.fromkeys(reply.notes)
        hits = reply.hits
        if len(hits) != len(page):
            raise RetrieveError(
                f"{counted(len(page), 'chunk was', 'chunks were')} listed, {len(hits)} "
                "could be fetched",
                where=f"snapshot {target.snapshot}",
                hint="the index answers from two different states: refresh it",
            )
        take([replace(hit, rank=start + at) for at, hit in enumerate(hits, 1)])
    return tuple(notes)


def _answer_for_each(
    answer: Answer, personas: Sequence[Persona], notes: Sequence[str]
) -> list[Answer]:
    return [
        replace(answer, persona=persona.name, route="corpus", notes=(*notes, *answer.notes))
        for persona in personas
    ]


def _chunk_findings(
    question: str, hits: Sequence[Hit], setup: AnswerSetup
) -> Flow[list[ChunkItems]]:
    """The findings of each chunk: one call per chunk, side by side.

    Raises:
        RagwrightError: No chunk could be read.
    """
    options = setup.options
    read_options = ReadOptions(
        options.model, options.corpus.max_tokens, setup.window(options.model)
    )
    parts = readable_parts(question, hits, read_options)
    outcomes = yield from gather(
        (read_chunk(question, part, read_options) for part in parts),
        limit=options.corpus.limit,
        settle=True,
    )
    readings = []
    for part, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, MissingKeyError | ModelRefusedError):
            raise outcome
        if isinstance(outcome, RagwrightError):
            outcome = ChunkItems(part, fault=f"{type(outcome).__name__}: {outcome.what}")
        readings.append(settled(outcome))
    unread = [reading for reading in readings if reading.fault]
    if len(unread) == len(readings):
        raise ModelReplyError(
            f"none of {len(readings)} chunks could be read: {unread[0].fault}",
            hint="check that the model can reply with JSON, or use another one",
        )
    return readings


def _read_notes(readings: Sequence[ChunkItems]) -> tuple[str, ...]:
    """Notes on how much was read, what failed, and which items were rejected."""
    chunks = len({reading.hit.chunk_id for reading in readings})
    unread = [reading for reading in readings if reading.fault]
    missing = len({reading.hit.chunk_id for reading in unread})
    notes = [f"read {chunks - missing} of {chunks} chunks, one call each"]
    if len(readings) > chunks:
        notes.append(f"chunks longer than the model's window were read in parts: {len(readings)}")
    if unread:
        names = listed([reading.hit.chunk_id for reading in unread], 5)
        notes.append(f"not read: {names} ({unread[0].fault})")
    invented = sum(reading.invented for reading in readings)
    if invented:
        notes.append(f"{invented} items left out: their quote is not in the passage")
    return tuple(notes)


def _listed_answer(question: str, readings: Sequence[ChunkItems], setup: AnswerSetup) -> Answer:
    """The merged list and its length, each item with its places."""
    items = ranked_items(question, merged(readings))
    visible = items[: setup.options.corpus.max_items]
    complete = not any(reading.fault for reading in readings)
    notes = _read_notes(readings)
    if len(items) > len(visible):
        notes += (f"{len(visible)} of {len(items)} items are shown (answer.corpus.max_items)",)
    usage, cached = _usage_of(readings)
    blank = Answer(question, "", model=setup.options.model, usage=usage, cached=cached, notes=notes)
    if not items:
        return replace(blank, text=refusal(question), abstained=True)
    hits: list[Hit] = []
    citations: list[Citation] = []
    marks = [_item_marks(item, hits, citations) for item in visible]
    head = "found" if complete else "least"
    text = items_text(question, visible, marks, len(items), head=head)
    return replace(blank, text=text, hits=tuple(hits), citations=tuple(citations))


def _item_marks(item: Item, hits: list[Hit], citations: list[Citation]) -> list[int]:
    """Numbers of an item's passages; new ones are added to hits and citations."""
    numbers = []
    for hit, start, end in item.places[:_MOST_MARKS]:
        number = next((n for n, h in enumerate(hits, 1) if h.chunk_id == hit.chunk_id), 0)
        if not number:
            hits.append(replace(hit, rank=len(hits) + 1))
            number = len(hits)
        if number not in numbers:
            numbers.append(number)
            citations.append(citation(number, hit, start, end))
    return numbers


_MOST_MARKS = 3


def _written_answers(
    question: str,
    personas: Sequence[Persona],
    readings: Sequence[ChunkItems],
    setup: AnswerSetup,
) -> Flow[list[Answer]]:
    """An answer that the model writes for each persona from the findings of all chunks."""
    planned = [reading.hit for reading in readings if reading.planned]
    excerpts = [reading.excerpt() for reading in readings if reading.items]
    hits = excerpts or planned[:_STAND_IN]
    usage, cached = _usage_of(readings)
    outcomes = yield from gather(
        (answer(question, persona, hits, setup) for persona in personas), settle=True
    )
    read_notes = _read_notes(readings)
    return [
        replace(
            answer,
            route="corpus",
            usage=usage + answer.usage if at == 0 else answer.usage,
            cached=cached and answer.cached,
            notes=(*read_notes, *answer.notes),
        )
        for at, answer in enumerate(map(settled, outcomes))
    ]


def _usage_of(readings: Sequence[ChunkItems]) -> tuple[Usage, bool]:
    usage = sum((reading.usage for reading in readings), Usage())
    return usage, all(reading.cached for reading in readings)
