"""What a newcomer sees first: what is in the sources, questions to begin with, and the limits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ...answer import extract
from ...core import Answer, Document, Filter, FilterError, Persona, Span
from ...flow import Flow, lookup, search_keyword
from ...models import detect_language
from ...project import last_ingest
from ...testsets import Survey, heading_questions, template_questions
from .._answers import answering, short_model
from .._api import caller_of, service_of
from .._catalogue import Catalogue
from .._reading import visible_source
from ._base import fragment, page_headers

if TYPE_CHECKING:
    from ...answer import AnswerOptions
    from ...workbench import Asking, Workbench
    from .._admission import Caller
    from .._service import Service

router = APIRouter()

_EXAMPLES = 5
_SAMPLED = 40
"""Documents that example questions are made from, spread evenly over all."""

_LONGEST = 60_000
"""Characters of such a document that are read."""

_EACH = 3
"""Questions on one document that are tried."""

_TRIED = 25
"""Questions that are tried, until enough have an answer."""

_READ = 8
"""Passages that a question is tried on."""

_NEWEST = 5
_KEPT = 8
"""Sets of questions that are kept: states of the index, times rights of callers."""

_ABOUT: Mapping[str, str] = {
    "en": "What do the sources say about “{}”?",
    "fr": "Que disent les sources sur « {} » ?",
    "de": "Was sagen die Quellen über „{}“?",
    "es": "¿Qué dicen las fuentes sobre «{}»?",
}
"""Questions on a heading, where templates find too little."""

_QUOTING = "extractive"

_KNOWN: WeakKeyDictionary[Workbench, OrderedDict[tuple[str, str], tuple[str, ...]]]
_KNOWN = WeakKeyDictionary()
"""Example questions by state of the index and rights."""


@router.get("/ask/welcome", response_class=HTMLResponse)
async def welcome(request: Request, configuration: str = "") -> HTMLResponse:
    """Show what is in the sources, five questions that have an answer, and what is not done."""
    service, caller = service_of(request), caller_of(request)
    opened, _ = service.find(configuration, caller.identity)
    catalogue, model = Catalogue(), ""
    questions: tuple[str, ...] = ()
    if opened.target is not None:
        async with service.using(opened) as bench:
            asking = opened.asking(caller.identity)
            catalogue = await service.catalogues.of(bench, asking)
            questions = await example_questions(service, bench, asking, catalogue)
            model = answering(bench, opened.personas[0] if opened.personas else "")
    ingest = await service.for_page(last_ingest, service.folder)
    values = _welcome_values(caller, catalogue, model) | {
        "questions": questions,
        "configuration": opened.name,
        "read": ingest["at"][:10] if ingest else "",
    }
    html = fragment(service, "welcome.html", values)
    return HTMLResponse(html, headers=page_headers())


def _welcome_values(caller: Caller, catalogue: Catalogue, model: str) -> dict[str, Any]:
    dated = sorted(
        (source for source in catalogue.sources if source.date),
        key=lambda source: (source.date, source.id),
        reverse=True,
    )
    titled = [source for source in catalogue.sources if source.title]
    spread = titled[:: max(1, len(titled) // _NEWEST)][:_NEWEST]
    return {
        "total": len(catalogue.sources),
        "kinds": catalogue.kinds,
        "oldest": dated[-1].date if dated else "",
        "newest": dated[0].date if dated else "",
        "titles": dated[:_NEWEST] or spread,
        "dated": bool(dated),
        "quoting": model == _QUOTING,
        "model": short_model(model, caller),
        "narrowed": caller.narrowed,
    }


async def example_questions(
    service: Service, bench: Workbench, asking: Asking, catalogue: Catalogue
) -> tuple[str, ...]:
    """Questions on the documents that a caller may see, each of which the offline answerer answers.

    No model is called. They are kept for this state of the index and these rights.
    """
    target, project = asking.target, bench.project
    if target is None:
        return ()
    filters = (*project.settings.retrieve.filters, *asking.filters)
    kept = _KNOWN.setdefault(bench, OrderedDict())
    key = (target.snapshot, repr(filters))
    if key not in kept:
        documents = await _sampled_documents(bench, asking, catalogue)
        tried = await service.for_page(_possible_questions, bench, documents)
        chosen: list[str] = []
        for question, document in tried[:_TRIED]:
            flow = _quoted_answer(question, target.snapshot, filters, project.settings.answer)
            answer = await project.runner.arun(flow, scope=asking.scope)
            if not answer.abstained and document in {c.document_id for c in answer.citations}:
                chosen.append(question)
            if len(chosen) == _EXAMPLES:
                break
        kept[key] = tuple(chosen)
    kept.move_to_end(key)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[key]


async def _sampled_documents(
    bench: Workbench, asking: Asking, catalogue: Catalogue
) -> list[tuple[Document, tuple[Span, ...]]]:
    """Documents that may be seen whole, cut to their beginning, each with its chunks."""
    sources = catalogue.sources[:: max(1, len(catalogue.sources) // _SAMPLED)][:_SAMPLED]
    documents = []
    for source in sources:
        visible = await visible_source(bench, asking, source.id)
        if visible is None or not visible.whole:
            continue
        document = visible.document
        cut = replace(
            document,
            text=document.text[:_LONGEST],
            sections=tuple(s for s in document.sections if s.span.end <= _LONGEST),
        )
        chunks = tuple(chunk for chunk in visible.chunks if chunk.end <= _LONGEST)
        documents.append((cut, chunks))
    return documents


def _possible_questions(
    bench: Workbench, documents: Sequence[tuple[Document, tuple[Span, ...]]]
) -> list[tuple[str, str]]:
    """Questions made by templates, with the id of their document: one of each document first."""
    survey = Survey(bench.project.analyzer)
    for document, chunks in documents:
        survey.add(document.id, document.text, chunks)
    queues = [[*islice(_questions_on(document, survey), _EACH)] for document, _ in documents]
    turns = chain.from_iterable(zip_longest(*queues))
    questions = [turn for turn in turns if turn is not None]
    return [(question, name) for _, question, name in sorted(questions, key=lambda turn: turn[0])]


def _questions_on(document: Document, survey: Survey) -> Iterator[tuple[bool, str, str]]:
    """Whether a question is on a mere heading, the question, and the id of its document."""
    for candidate in template_questions(document, survey, 0):
        if not candidate.reason:
            yield False, candidate.question, document.id
    about = _ABOUT.get(document.language[:2] or detect_language([document.text]))
    for candidate in heading_questions(document, survey, 0) if about else ():
        if about and not candidate.reason:
            yield True, about.format(candidate.question), document.id


def _quoted_answer(
    question: str, snapshot: str, filters: Sequence[Filter], options: AnswerOptions
) -> Flow[Answer]:
    """The answer of the offline answerer to a question, from a search by words."""
    try:
        ranked = yield from search_keyword(snapshot, question, _READ, filters)
    except FilterError:
        ranked = ()
    passages = (yield from lookup(snapshot, [chunk for chunk, _ in ranked])).hits if ranked else ()
    hits = [replace(hit, rank=rank) for rank, hit in enumerate(passages, 1)]
    return (yield from extract(question, Persona(""), hits, options))
