"""The flow of one row: it asks the project or a system, and scores what came back.

Retrieval is searched and scored (:func:`retrieval_row`), a question answered
(:func:`answer_and_score_row`, :func:`system_row`); rows that already hold an answer are scored as
they are (:func:`answer_row`). Each leaves a :class:`RowResult`. Passages become part of a row in
one way (:func:`add_hits`) and are scored by one function (``measure.score_rows``), with an answer
or without: gold spans are counted where a row has some, else gold documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from ..answer import AskPlan, Condensed, avg_chunk_score
from ..core import (
    Answer,
    GoldSpan,
    Hit,
    MetaValue,
    RagwrightError,
    Row,
    case_folded,
    citation_marks,
    text_hash,
)
from ..flow import ChatReply, Flow, Message, Runner, SystemReply, ask_system, chat
from ..measure import (
    Measure,
    MeasureSetup,
    QADistances,
    choose_counted,
    no_relevant_note,
    qa_distances,
    retrieval_scores,
    score_row,
    score_rows,
)
from ..models import UnderTest, drop_thought
from ..retrieve import RetrieveOptions, Target, retrieve
from ..testsets import Qrels, Run
from ._clusters import DOCUMENT, cluster_shared, list_shared_values
from ._results import AnswerRecord, Evaluation, RowResult, evaluation_of

RANKING = frozenset({"retrieval", "span"})
"""Kinds of measures that read a ranking."""

Search = Callable[[str], Flow[Sequence[Hit]]]
"""A function that returns the hits of a query, best first; a document may occur several times."""


def ranking_search(
    target: Target,
    options: RetrieveOptions,
    measures: Sequence[Measure] = (),
    condensing: Callable[[str], Flow[Condensed]] | None = None,
) -> Search:
    """Return a search as deep as the measures require.

    ``condensing`` makes a question that has history stand alone before it is searched for.

    Fetches all candidates, not only ``top_k`` of them, as if as many hits were wanted as the
    largest cutoff. Where documents are counted, several hits of one document count once, so the
    ranking of documents may be shorter.
    """
    depth = max((measure.cutoff or 1 for measure in measures), default=1)
    pool = replace(options, top_k=max(options.top_k, depth)).candidates
    deep_options = replace(options, pool=pool, top_k=pool)

    def search(query: str) -> Flow[Sequence[Hit]]:
        if condensing is None:
            return (yield from retrieve(query, target, deep_options)).hits
        alone = yield from condensing(query)
        retrieved = yield from retrieve(alone.text, target, deep_options, None, alone.keywords)
        return retrieved.hits

    return search


def turns_before(row: Row) -> tuple[Message, ...]:
    """Return the history of a row as messages, oldest first."""
    return tuple(Message(turn.role, turn.content) for turn in row.history)


def plan_after(plan: AskPlan, row: Row) -> AskPlan:
    """Return the plan of asking a row's question: after the turns before it."""
    return replace(plan, history=turns_before(row)) if row.history else plan


def retrieval_row(row: Row, search: Search, measures: Sequence[Measure]) -> Flow[RowResult]:
    """Search for one row and score its hits; raises errors of the search.

    Hits are scored as the passages of an answer are. The result holds the ranking of documents,
    not the hits.
    """
    hits = yield from search(row.user_input)
    [scores] = score_rows([add_hits(row, hits)], measures)
    return RowResult(
        row.id,
        tuple(dict.fromkeys(hit.document_id for hit in hits)),
        scores,
        shared=list_shared_values(row),
    )


def add_hits(row: Row, hits: Sequence[Hit]) -> Row:
    """Add the passages of a search to a row: texts, documents, and their places for gold spans.

    ``metadata`` gains ``retrieved``: a search that found nothing then scores 0.
    """
    return replace(
        row,
        retrieved_contexts=tuple(hit.text for hit in hits),
        retrieved_context_ids=tuple(hit.document_id for hit in hits),
        retrieved_spans=tuple(
            GoldSpan(hit.document_id, hit.start, hit.end, hit.text) for hit in hits
        ),
        metadata={**row.metadata, "retrieved": True},
    )


def answer_row(
    row: Row, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Score a row as it is; the result contains the row, so that it can be scored again.

    No measure raises; only stops (a budget, Ctrl-C) pass through.
    """
    scores = yield from score_row(row, measures, setup)
    return RowResult(row.id, row.retrieved_context_ids, scores, row)


def compute_results(
    rows: Iterable[Row], measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Iterator[RowResult]:
    """Score rows by measures without a model, without a runner, one row in memory at a time.

    Raises:
        MeasureError: A measure needs a model; raised before the first row is read.
    """
    score_rows((), measures, setup)
    return (
        RowResult(row.id, row.retrieved_context_ids, next(score_rows((row,), measures, setup)), row)
        for row in rows
    )


def score_run(
    run: Run, qrels: Qrels, measures: Sequence[Measure], *, name: str = "", seed: int = 0
) -> Evaluation:
    """Score a stored run against judgments, one row per judged query.

    A judged query that is not in the run scores as an empty ranking (``trec_eval -c``), so that
    leaving out hard queries is not an advantage; the notes count such queries.
    """
    results = []
    relevant = {
        query: sorted(document for document, grade in grades.items() if grade > 0)
        for query, grades in qrels.items()
    }
    groups = cluster_shared({query: {DOCUMENT: names} for query, names in relevant.items()})
    for query, grades in qrels.items():
        ranking = tuple(document for document, _ in run.get(query, ()))
        scores = tuple(retrieval_scores(measure, ranking, grades) for measure in measures)
        results.append(RowResult(query, ranking, scores))
    unanswered = sum(query not in run for query in qrels)
    unjudged = sum(query not in qrels for query in run)
    note = no_relevant_note(measures, list(qrels.values()))
    notes = [note] if note else []
    if unanswered:
        notes.append(f"{unanswered} of {len(qrels)} judged queries are not in the run: scored 0")
    if unjudged:
        notes.append(f"{unjudged} of {len(run)} queries of the run are not judged: left out")
    evaluation = evaluation_of(
        results, measures, name=name, seed=seed, clusters=groups.values() or None
    )
    return replace(evaluation, notes=tuple(notes))


Answerer = Callable[[Row], Flow[Answer]]
"""Answers a row's question, after its history, for its persona (empty: the project's own)."""


_OF_AN_ANSWER = frozenset(
    {
        "abstained",
        "chunk_score",
        "cited",
        "model",
        "ranked_documents",
        "retrieved",
        "route",
        "snippet_score",
    }
)
"""Metadata that belongs to one answer, not to the question."""


def clear_answer(row: Row) -> Row:
    """Return a row without its answer and everything about it: ranking, passages and states.

    Only the question with its gold is left, so that a new answer inherits nothing.
    """
    return replace(
        row,
        response=None,
        retrieved_contexts=(),
        retrieved_context_ids=(),
        retrieved_spans=(),
        metadata={k: v for k, v in row.metadata.items() if k not in _OF_AN_ANSWER},
    )


def add_answer(row: Row, answer: Answer) -> Row:
    """Return a row with an answer: text, passages with their places, abstention.

    Without a chat model the answer is the best unit of the first snippet, alone.
    Resolved citation marks are removed from the text: they are not words of the answer, but text
    measures would count them. ``metadata`` gains ``abstained``, ``retrieved`` (an empty ranking
    then scores 0), ``route``, ``model``, ``cited`` (numbers of passages) and, if the passages have
    similarities, ``chunk_score``, their mean, and ``snippet_score``, that of the first snippet.
    Nothing of an earlier answer is kept.
    """
    row = add_hits(clear_answer(row), answer.hits)
    metadata: dict[str, MetaValue] = {
        **row.metadata,
        "abstained": answer.abstained,
        "route": answer.route,
        "model": answer.model,
    }
    if (mean_similarity := avg_chunk_score(answer)) is not None:
        metadata["chunk_score"] = round(mean_similarity, 6)
    if not answer.snippets:
        metadata["cited"] = tuple(dict.fromkeys(str(c.marker) for c in answer.citations))
        return replace(
            row,
            response=_drop_marks(answer.text, {c.marker for c in answer.citations}),
            metadata=metadata,
        )
    best = answer.snippets[0]
    metadata["snippet_score"] = best.score
    return replace(row, response=best.text[slice(*best.unit)], metadata=metadata)


def convert_reply(reply: ChatReply) -> SystemReply:
    """Convert a chat reply to that of a system.

    A ragwright server names the cited passages, whose marks are removed from the text, and its
    abstentions. It does not name other passages: without a citation, they are unknown.
    """
    extra = json.loads(reply.extra or "{}")
    cited = extra.get("citations", ())
    quotes = dict.fromkeys((citation["document_id"], citation["quote"]) for citation in cited)
    return SystemReply(
        _drop_marks(reply.text, {citation["number"] for citation in cited}),
        tuple(quote for _, quote in quotes),
        tuple(document for document, _ in quotes) if quotes else None,
        abstained=extra.get("abstained") is True,
        usage=reply.usage,
    )


def _drop_marks(text: str, cited: Collection[int]) -> str:
    """Remove fully resolved marks and the blanks before them from a text."""
    parts, position = [], 0
    for mark in citation_marks(text):
        if all(number in cited for number in mark.numbers):
            parts.append(text[position : mark.start].rstrip(" \t"))
            position = mark.end
    return "".join((*parts, text[position:]))


def answer_and_score_row(
    row: Row,
    asking: Answerer,
    measures: Sequence[Measure],
    setup: MeasureSetup | None = None,
    search: Search | None = None,
    count: Callable[[str], int] | None = None,
) -> Flow[RowResult]:
    """Answer a row's question for its persona and score the answer; raises errors of answering.

    ``count`` counts the tokens of a passage.

    ``search`` ranks documents for the measures that count them: several passages of an answer may
    be of one document, so that k passages are fewer than k documents. Gold spans are counted in the
    passages.
    """
    answer = yield from asking(row)
    answered = add_answer(row, answer)
    ranked: tuple[str, ...] = ()
    counting = [m for m in measures if choose_counted(answered, m.definition) == "documents"]
    if search and row.reference_ids and counting:
        found = yield from search(row.user_input)
        depth = max(measure.cutoff or len(found) for measure in counting)
        ranked = tuple(dict.fromkeys(hit.document_id for hit in found))[:depth]
        answered = replace(answered, metadata={**answered.metadata, "ranked_documents": ranked})
    result = yield from answer_row(answered, measures, setup)
    hits = tuple((hit.source, hit.page, round(hit.score, 6)) for hit in answer.hits)
    cited = tuple(GoldSpan(c.document_id, c.start, c.end) for c in answer.citations)
    tokens = 0 if count is None else sum(map(count, answered.retrieved_contexts))
    record = AnswerRecord(answer.prompt, answer.usage, tokens, answer.notes, hits, cited)
    return replace(result, ranking=(*result.ranking, *ranked), made=record)


_DISTANCE = "QADistance"


def baseline_flows(
    rows: Iterable[Row], measures: Iterable[Measure], setup: MeasureSetup | None, seed: int = 0
) -> tuple[Callable[[], Flow[QADistances]], ...]:
    """Return the requests of :func:`add_null_baselines`, for a forecast; often none."""
    if setup is None or not setup.embedder or _DISTANCE not in map(str, measures):
        return ()
    used = [row for row in rows if row.user_input.strip() and row.response_text]
    return (partial(qa_distances, used, setup, seed),) if len(used) > 1 else ()


def add_null_baselines(
    evaluation: Evaluation, runner: Runner, setup: MeasureSetup | None, seed: int = 0
) -> Evaluation:
    """Add the null baselines of ``QADistance`` to an evaluation that measured it.

    If they cannot be computed, a note gives the reason: paid scores are not lost.
    """
    names = [summary.measure for summary in evaluation.summaries]
    if _DISTANCE not in names or setup is None or not setup.embedder:
        return evaluation
    position = names.index(_DISTANCE)
    rows = [
        result.row
        for result in evaluation.results
        if result.row is not None and result.scores[position].state == "scored"
    ]
    try:
        distances = runner.run(qa_distances(rows, setup, seed))
    except RagwrightError as error:
        note = f"{_DISTANCE} has no null baselines: {error.what}"
        return replace(evaluation, notes=(*evaluation.notes, note))
    notes = evaluation.notes
    if len(distances.row_ids) < len(rows):
        notes = (
            *notes,
            f"{_DISTANCE}: its null baselines use a sample of {len(distances.row_ids)} rows",
        )
    return replace(evaluation, baselines=distances.baselines(seed), notes=notes)


Match = Literal["auto", "text", "ids"]


def add_reply(row: Row, reply: SystemReply, match: Match = "auto") -> Row:
    """Add a system's reply to a row without an answer, and match its passages with the gold.

    By text (``match`` ``auto`` or ``text``, if gold has texts and the system returned passages): a
    passage covers a gold text if it holds all of it, its first or last half, or lies in it and is
    at least half as long, ignoring white space and case. Gold passages (``reference_contexts``)
    become gold spans. By ids: the document ids of the system are compared with ``reference_ids`` or
    the documents of the gold spans.
    """
    has_ids = reply.context_ids is not None
    row = replace(
        row,
        response=reply.response and drop_thought(reply.response),
        retrieved_contexts=reply.contexts,
        retrieved_context_ids=reply.context_ids or (),
        metadata={
            **row.metadata,
            **({"retrieved": True} if has_ids else {}),
            **({"abstained": True} if reply.abstained else {}),
        },
    )
    gold = _gold_spans(row) if match != "ids" else ()
    if gold and (reply.contexts or has_ids or reply.response is None):
        passages = tuple(_passage_span(text, gold) for text in reply.contexts)
        return replace(
            row,
            reference_spans=gold,
            retrieved_spans=passages,
            metadata={**row.metadata, "retrieved": True},
        )
    gold_ids = {span.document_id: 1 for span in row.reference_spans}
    if gold_ids and match != "text":
        return replace(row, reference_ids=row.reference_ids or gold_ids, reference_spans=())
    return row


def meets_gold(row: Row) -> bool:
    """True if a passage of a row is gold."""
    gold = {span.document_id for span in row.reference_spans}
    if row.retrieved_spans:
        return any(span.document_id in gold for span in row.retrieved_spans)
    return any(name in row.reference_ids for name in row.retrieved_context_ids)


def _gold_spans(row: Row) -> tuple[GoldSpan, ...]:
    """Return gold with texts: the spans of a row, or else its gold passages, in order.

    Gold passages name no document: those of a row are one, which rows with the same gold share.
    """
    if row.reference_spans:
        return row.reference_spans if all(s.text.strip() for s in row.reference_spans) else ()
    if row.reference_ids:
        return ()
    spans, start = [], 0
    texts = [text for text in row.reference_contexts if text.strip()]
    document = f"gold {text_hash(case_folded(' '.join(texts)))[:12]}"
    for text in texts:
        spans.append(GoldSpan(document, start, start + len(text), text))
        start += len(text) + 1
    return tuple(spans)


def _passage_span(passage: str, gold: Sequence[GoldSpan]) -> GoldSpan:
    normalised = case_folded(passage)
    covered = [span for span in gold if _covers_gold(normalised, case_folded(span.text))]
    if not covered:
        return GoldSpan(f"passage {text_hash(normalised)[:12]}", 0, max(1, len(passage)), passage)
    first = covered[0]
    same_document = [span for span in covered if span.document_id == first.document_id]
    start, end = min(s.start for s in same_document), max(s.end for s in same_document)
    between = [
        s for s in gold if s.document_id == first.document_id and start <= s.start and s.end <= end
    ]
    if len(between) > len(
        same_document
    ):  # the range would claim gold that the passage does not hold
        start, end = first.start, first.end
    return GoldSpan(first.document_id, start, end, passage)


def _covers_gold(passage: str, gold: str) -> bool:
    if not gold or not passage:
        return False
    half = (len(gold) + 1) // 2
    if passage in gold:
        return len(passage) >= half
    return gold in passage or gold[:half] in passage or gold[-half:] in passage


def system_row(
    row: Row, system: UnderTest, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Ask a system one row's question and score the answer; raises errors of asking."""
    reply = yield from ask_under_test(system, row)
    answered_row = add_reply(clear_answer(row), reply, system.options.match)
    result = yield from answer_row(answered_row, measures, setup)
    if answered_row.response is None:  # a retriever: the row is still stored for its passages
        result = replace(result, row=answered_row)
    return replace(result, made=AnswerRecord(usage=reply.usage))


def ask_under_test(system: UnderTest, row: Row) -> Flow[SystemReply]:
    """Ask a system a row's question after its history; a chat model also gets the instructions.

    A ragwright server also returns its citations and abstentions.
    """
    options, question, history = system.options, row.user_input, turns_before(row)
    early_reply = system.early.pop((question, history), None)
    if early_reply is not None:
        return early_reply
    if not options.model:
        return (yield from ask_system(system.name, question, history))
    messages = [Message("system", options.instructions)] if options.instructions else []
    reply = yield from chat(options.model, [*messages, *history, Message("user", question)])
    return convert_reply(reply)
