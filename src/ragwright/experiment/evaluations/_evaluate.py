"""Evaluation: a flow per row asks the project and scores; a pure function summarises.

Retrieval is searched and scored (:func:`retrieval_row`); rows that already hold an answer are
scored as they are (:func:`answer_row`). Both leave a :class:`RowResult`. Passages become part of a
row in one way (:func:`add_hits`) and are scored by one function (``measure.score_rows``), with an
answer or without: gold spans are counted where a row has some, else gold documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...answer import AskPlan, Condensed, avg_chunk_score
from ...core import (
    Answer,
    GoldSpan,
    Hit,
    MeasureError,
    MetaValue,
    RagwrightError,
    Row,
    Score,
    ScoreState,
    StoppedError,
    TestsetError,
    citation_marks,
    count_noun,
)
from ...flow import ChatReply, Flow, Message, Runner, SystemReply, gather
from ...measure import (
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
from ...retrieve import RetrieveOptions, Target, retrieve
from ...testsets import Qrels, Run, Testset
from ._clusters import cluster_of, clusters_of_gold, clusters_of_rows, list_shared_values
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

    Raises:
        MeasureError: A measure does not score rankings.
    """
    for measure in measures:
        if measure.definition.kind not in RANKING:
            raise MeasureError(
                f"{measure} does not score rankings",
                hint="use retrieval measures, such as nDCG@10",
            )
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
    not the hits. For callers that handle failures separately; see ``errors`` of :func:`summarise`.
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


def answer_flows(
    rows: Iterable[Row], measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Iterator[Flow[RowResult]]:
    """One flow per row, lazily and in order, for a runner to map; none of them fails."""
    return (answer_row(row, measures, setup) for row in rows)


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


def retrieval_flows(
    testset: Testset, search: Search, measures: Sequence[Measure]
) -> Iterator[Flow[RowResult]]:
    """One flow per row, lazily and in order, for a runner to map; none of them fails.

    A row whose search raises has the state ``errored`` with the reason.
    """
    return (_retrieval_row_settled(row, search, measures) for row in testset.rows)


def evaluate_retrieval(
    testset: Testset,
    search: Search,
    measures: Sequence[Measure],
    *,
    seed: int = 0,
    limit: int | None = None,
) -> Flow[Evaluation]:
    """Search for every row, score the rankings, summarise.

    Args:
        testset: Rows with ``reference_spans`` or ``reference_ids``.
        search: The retrieval to evaluate; it gets the question alone, of which a note tells where
            rows have earlier turns.
        measures: Measures of rankings.
        seed: Seed of the intervals.
        limit: Most rows in progress at once, None for the runner's default.
    """
    results = yield from gather(retrieval_flows(testset, search, measures), limit)
    evaluation = summarise(testset, results, measures, seed=seed)
    after_turns = sum(bool(row.history) for row in testset.rows)
    if not after_turns:
        return evaluation
    note = (
        f"{count_noun(after_turns, 'row')} with earlier turns searched for by the last turn alone"
    )
    return replace(evaluation, notes=(*evaluation.notes, note))


def summarise(
    testset: Testset,
    results: Iterable[RowResult],
    measures: Sequence[Measure],
    *,
    seed: int = 0,
    errors: Mapping[str, str] | None = None,
    clusters: str = "",
) -> Evaluation:
    """Summarise the results of a testset; no row is lost.

    Args:
        testset: The evaluated testset.
        results: At most one per row, in any order.
        measures: Measures of the results, in their order.
        seed: Seed of the intervals.
        errors: Row id -> reason, for rows that failed: state ``errored``. A row with neither
            result nor reason counts as ``skipped``.
        clusters: Field that related rows share, see :func:`cluster_of`; by default gold documents,
            see :func:`clusters_of_rows`.

    Raises:
        TestsetError: A result belongs to no row of the testset, or a row has two.
    """
    failed = errors or {}
    known = {row.id for row in testset.rows}
    by_id: dict[str, RowResult] = {}
    for result in results:
        if result.row_id not in known or result.row_id in by_id:
            fault = "has two results" if result.row_id in by_id else "is not in the testset"
            raise TestsetError(
                f"row {result.row_id!r} {fault}",
                where=testset.name,
                hint="summarise the results of one run, with the testset it was made from",
            )
        by_id[result.row_id] = result
    rows = [
        by_id[row.id]
        if row.id in by_id
        else _valueless_result(row, measures, "errored", failed[row.id])
        if row.id in failed
        else _valueless_result(row, measures, "skipped", "not evaluated")
        for row in testset.rows
    ]
    groups = (
        {row.id: cluster_of(row, clusters) for row in testset.rows}
        if clusters
        else clusters_of_rows(testset.rows)
    )
    topics = [row.reference_ids for row in testset.rows if row.reference_ids]
    note = no_relevant_note(measures, topics)
    return replace(
        evaluation_of(
            rows, measures, name=testset.name, seed=seed, clusters=groups.values() or None
        ),
        notes=(*testset.notes, note) if note else testset.notes,
    )


def score_run(
    run: Run, qrels: Qrels, measures: Sequence[Measure], *, name: str = "", seed: int = 0
) -> Evaluation:
    """Score a stored run against judgments, one row per judged query.

    A judged query that is not in the run scores as an empty ranking (``trec_eval -c``), so that
    leaving out hard queries is not an advantage; the notes count such queries.
    """
    results = []
    groups = clusters_of_gold(
        {
            query: sorted(d for d, grade in grades.items() if grade > 0)
            for query, grades in qrels.items()
        }
    )
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


def _retrieval_row_settled(
    row: Row, search: Search, measures: Sequence[Measure]
) -> Flow[RowResult]:
    """Search for one row and score it; an error becomes the state ``errored`` with the reason."""
    try:
        return (yield from retrieval_row(row, search, measures))
    except StoppedError:
        raise
    except Exception as error:
        return _valueless_result(row, measures, "errored", f"{type(error).__name__}: {error}")


def _valueless_result(
    row: Row, measures: Sequence[Measure], state: ScoreState, reason: str
) -> RowResult:
    """Return a result with the reason of a failure."""
    scores = tuple(Score(str(measure), state, reason=reason) for measure in measures)
    if row.response is None:
        return RowResult(row.id, row.retrieved_context_ids, scores, shared=list_shared_values(row))
    return RowResult(row.id, row.retrieved_context_ids, scores, row)


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
    extra = json.loads(reply.extra) if reply.extra else {}
    citations = extra.get("citations")
    cited = (
        [
            citation
            for citation in citations
            if isinstance(citation, dict)
            and isinstance(citation.get("number"), int)
            and isinstance(citation.get("document_id"), str)
            and isinstance(citation.get("quote"), str)
        ]
        if isinstance(citations, list)
        else []
    )
    quotes = {(citation["document_id"], citation["quote"]): None for citation in cited}
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
) -> Flow[RowResult]:
    """Answer a row's question for its persona and score the answer; raises errors of answering.

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
    record = AnswerRecord(
        answer.prompt, answer.usage, notes=answer.notes, hits=hits, citations=cited
    )
    return replace(result, ranking=(*result.ranking, *ranked), made=record)


_DISTANCE = "QADistance"


def baseline_flows(
    rows: Iterable[Row], measures: Iterable[Measure], setup: MeasureSetup, seed: int = 0
) -> tuple[Callable[[], Flow[QADistances]], ...]:
    """Return the requests of :func:`add_null_baselines`, for a forecast; often none."""
    if not setup.embedder or _DISTANCE not in map(str, measures):
        return ()
    used = [row for row in rows if row.user_input.strip() and row.response_text]
    return (partial(qa_distances, used, setup, seed),) if len(used) > 1 else ()


def add_null_baselines(
    evaluation: Evaluation, runner: Runner, setup: MeasureSetup, seed: int = 0
) -> Evaluation:
    """Add the null baselines of ``QADistance`` to an evaluation that measured it.

    If they cannot be computed, a note gives the reason: paid scores are not lost.
    """
    names = [summary.measure for summary in evaluation.summaries]
    if _DISTANCE not in names or not setup.embedder:
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
