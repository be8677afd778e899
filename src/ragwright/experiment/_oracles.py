"""Oracles: one stage of the pipeline is perfect, everything else stays as it is.

A row is answered as the project answers it, and once more for each stage with that stage's oracle
instead. ``_diagnosis`` evaluates the differences over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from ..answer import AskPlan, ask
from ..core import Answer, Filter, Hit, Persona, Row, Score, Span
from ..flow import Flow, Search, SearchReply, branch, gather, lookup, send, unpack_settled
from ..measure import (
    SHORT_WORDS,
    Measure,
    MeasureSetup,
    answer_words,
    content_words,
    references_of,
    score_row,
    stands_in,
)
from ..retrieve import LEAST_POOL, RetrieveOptions, StageHooks, Target, select_depth
from ..testsets import chunks_of, covers, find_best_chunk, find_graded_documents
from ._results import AnswerRecord, RowResult
from ._rows import RANKING, add_answer, plan_after

Stage: TypeAlias = Literal["filter", "retrieve", "rerank", "truncate", "generate", "judge"]
Lost: TypeAlias = Literal[
    "", "index", "route", "filter", "retrieve", "rerank", "truncate", "generate", "judge"
]
"""The place where a row is first lost; empty if it is not."""

STAGES: tuple[Stage, ...] = get_args(Stage)
LOSSES: tuple[Lost, ...] = get_args(Lost)[1:]
FRONT: frozenset[str] = frozenset({"filter", "retrieve", "rerank", "truncate"})
"""Stages that bring gold into the context."""

_NO_LIMIT = 10**9
_UNJUDGED = frozenset({"QuestionSimilarity"})
"""Measures that use a chat model without a best score given by it."""


@dataclass(frozen=True, slots=True)
class GoldPiece:
    """One piece of gold evidence: a span of a document, or a whole one.

    Attributes:
        document_id: Its document.
        span: Its characters there; None if the whole document is gold.
        chunk: The chunk with most of it; None if no chunk of the index holds at least half of it.
        reachable: The hard filters allow that chunk.
    """

    document_id: str
    span: Span | None = None
    chunk: Hit | None = None
    reachable: bool = True

    def held_by(self, hit: Hit) -> bool:
        """True if a passage holds it: at least half of the span, as in measures."""
        if hit.document_id != self.document_id:
            return False
        return self.span is None or covers(Span(hit.start, hit.end), self.span)

    def rank_in(self, hits: Iterable[Hit]) -> int | None:
        """Return the rank of the first of these passages that holds it, from 1; else None."""
        return next((rank for rank, hit in enumerate(hits, 1) if self.held_by(hit)), None)


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """The ranks of a piece of gold at every stage of a search.

    Attributes:
        document_id: Its document; ``start`` and ``end`` its characters, None for the whole.
        indexed: A chunk of the index holds it.
        reachable: The hard filters allow that chunk.
        found: Rank among the candidates of the search, from 1; None if it is not in the pool.
        ordered: Rank after reranking.
        shown: Rank in the answer's context, in prompt order.
    """

    document_id: str
    start: int | None = None
    end: int | None = None
    indexed: bool = True
    reachable: bool = True
    found: int | None = None
    ordered: int | None = None
    shown: int | None = None


def has_gold(row: Row) -> bool:
    """True if a row has evidence: spans, or documents with a grade above 0."""
    return bool(row.reference_spans or find_graded_documents(row))


def _gold_pieces(
    row: Row, target: Target, filters: Sequence[Filter]
) -> Flow[tuple[GoldPiece, ...]]:
    """Find the chunk with most of each piece of a row's gold; makes no paid calls.

    Spans are used if there are any, else documents; a whole document is represented by the chunk
    that keyword search ranks first for the question.
    """
    spans = list(dict.fromkeys((s.document_id, Span(s.start, s.end)) for s in row.reference_spans))
    documents = dict.fromkeys(document for document, _ in spans) or find_graded_documents(row)
    chunks: dict[str, list[str]] = {}
    allowed: dict[str, Sequence[str]] = {}
    places: list[tuple[str, Span | None, str]] = []
    for document in documents:
        chunks[document] = allowed[document] = yield from chunks_of(target, document)
        if filters:
            allowed[document] = yield from chunks_of(target, document, filters)
        if not spans:
            best = yield from _nearest_chunk(row.user_input, target, document, chunks[document])
            places.append((document, None, best))
    places += [(name, span, find_best_chunk(chunks[name], name, span)) for name, span in spans]
    keys = list(dict.fromkeys(key for _, _, key in places if key))
    stored = (yield from lookup(target.snapshot, keys)).hits if keys else ()
    hits = dict(zip(keys, stored, strict=True))
    return tuple(
        GoldPiece(document, span, hits.get(key), key in allowed[document])
        for document, span, key in places
    )


def _nearest_chunk(question: str, target: Target, document: str, ids: Sequence[str]) -> Flow[str]:
    if len(ids) < 2:
        return ids[0] if ids else ""
    request = Search(
        target.snapshot, "keyword", 1, text=question, filters=(Filter("document_id", (document,)),)
    )
    reply = yield from send(request, SearchReply)
    return reply.candidates[0][0] if reply.candidates else ids[0]


RIGHT_SHARE = 0.5
"""Least share of a longer gold answer's facts in a right answer."""

RIGHT_ANSWER = (
    f"an answer is right if it holds a gold answer of up to {SHORT_WORDS} words word for word, or "
    "half of the content words and numbers of a longer one"
)
"""The rule of :func:`is_right` for readers."""

RIGHT_RULE = f"{RIGHT_ANSWER}; an abstention is wrong"
"""The same where every question should be answered."""


def facts_of(text: str, language: str = "en") -> frozenset[str]:
    """Return the facts of a text: its content words and numbers, as stems."""
    return frozenset(content_words(text, language))


def facts_kept(reference: str, response: str, language: str = "en") -> float | None:
    """Return the share of a gold answer's facts in an answer, 0 to 1; None without facts."""
    facts = facts_of(reference, language)
    return len(facts & facts_of(response, language)) / len(facts) if facts else None


def is_right(row: Row, response: str, language: str = "en") -> bool | None:
    """True if an answer is right by the gold answers; None for a row without one.

    A gold answer of up to 5 words must occur in it in sequence (as in ``Contains``); of a longer
    one, at least half of the content words and numbers must occur. If several gold answers are
    accepted, one is enough.
    """
    row_language = row.metadata.get("language")
    language = row_language if isinstance(row_language, str) and row_language else language
    response_words = answer_words(response, language)
    references = [(text, answer_words(text, language)) for text in references_of(row)]
    verdicts = (
        stands_in(words, response_words)
        if len(words) <= SHORT_WORDS
        else (facts_kept(text, response, language) or 0.0) >= RIGHT_SHARE
        for text, words in references
    )
    return any(verdicts) if references else None


@dataclass(frozen=True, slots=True)
class DiagnosisCase:
    """Settings of the diagnosed pipeline.

    Attributes:
        target: The index to search.
        plan: Settings of answering.
        persona: Name -> persona; the empty name is the project's own.
        measures: Measures to score.
        setup: Settings of judges.
        stages: Stages that get their oracle.
        asks: The search uses a paid model: a dry run cannot know its results.
    """

    target: Target
    plan: AskPlan
    persona: Callable[[str], Persona]
    measures: Sequence[Measure]
    setup: MeasureSetup
    stages: tuple[Stage, ...] = STAGES
    asks: bool = False


@dataclass(frozen=True, slots=True)
class DiagnosedRow:
    """A row as the project answers it, and its scores with each stage perfect.

    Attributes:
        plain: The row as answered and scored.
        lost: The stage that first loses it.
        gold: The ranks of each piece of its gold at every stage.
        right: True if the answer is right by the gold answer; None without one.
        oracles: Stage -> scores with its oracle, in the order of the measures.
        documents: Every document shown to the plain answer, an oracle or a judge.
    """

    plain: RowResult
    lost: Lost = ""
    gold: tuple[GoldPlace, ...] = ()
    right: bool | None = None
    oracles: Mapping[Stage, tuple[Score, ...]] = field(default_factory=dict)
    documents: tuple[str, ...] = ()


def pool_depth(options: RetrieveOptions) -> int:
    """Count the candidates that count as found: those that a reranker reads, or would read."""
    if options.context_tokens is not None:
        return options.pool or LEAST_POOL  # as many as fit; any of them may be kept
    depth = max(
        options.rerank.candidates, options.top_k, select_depth(options.top_k, options.select)
    )
    return depth if options.pool is None else min(depth, options.candidates)


def diagnose_row(row: Row, case: DiagnosisCase) -> Flow[DiagnosedRow]:
    """Answer a row as it is and with each oracle; raises errors of answering.

    Scores of a stage that cannot lose the row (it has no gold, no gold answer, or the measure does
    not depend on the stage) are ``not_applicable``.
    """
    persona = case.persona(row.persona_name)
    pieces = yield from _gold_pieces(row, case.target, case.plan.retrieve.filters)
    watch = _Oracle(case.plan.retrieve)
    answer = yield from _answer_with(row, persona, case, case.plan, watch)
    answered = add_answer(row, answer)
    scores = yield from score_row(answered, case.measures, case.setup)
    plain = _AnsweredRow(row, persona, case, pieces, watch, answer, answered, scores)
    outcomes = yield from gather(
        [_score_oracle(plain, stage) for stage in case.stages], settle=True
    )
    by_oracle = dict(zip(case.stages, map(unpack_settled, outcomes), strict=True))
    answers = [answer, *(again for _, again in by_oracle.values() if again is not None)]
    documents = [hit.document_id for shown in answers for hit in shown.hits]
    right = plain.right(answer)
    return DiagnosedRow(
        RowResult(
            row.id,
            answered.retrieved_context_ids,
            scores,
            answered,
            AnswerRecord(answer.prompt, answer.usage, notes=answer.notes),
        ),
        _first_loss(plain, right),
        tuple(
            GoldPlace(
                piece.document_id,
                None if piece.span is None else piece.span.start,
                None if piece.span is None else piece.span.end,
                piece.chunk is not None,
                piece.reachable,
                piece.rank_in(watch.pool),
                piece.rank_in(watch.order),
                piece.rank_in(answer.hits),
            )
            for piece in pieces
        ),
        right,
        {stage: scores for stage, (scores, _) in by_oracle.items()},
        tuple(dict.fromkeys((*documents, *(piece.document_id for piece in pieces)))),
    )


_Change: TypeAlias = Callable[[tuple[Hit, ...]], tuple[Hit, ...]]


class _Oracle(StageHooks):
    """Hooks that record the candidates and their order after the reranker, and may change hits.

    Args:
        options: Settings of the search.
        changes: Name of a hook -> what is made of the hits there.
    """

    def __init__(self, options: RetrieveOptions, **changes: _Change) -> None:
        self.depth = pool_depth(options)
        self.pool: tuple[Hit, ...] = ()
        self.order: tuple[Hit, ...] = ()
        self._changes = changes

    def after_search(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record the candidates of all rounds."""
        self.pool = _append_new(self.pool, hits)
        return self._changes.get("pooled", tuple)(hits)

    def after_rerank(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record their order in all rounds."""
        self.order = _append_new(self.order, hits)
        return self._changes.get("ordered", tuple)(hits)

    def after_selection(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self._changes.get("kept", tuple)(hits)


@dataclass(frozen=True, slots=True)
class _AnsweredRow:
    """A row as answered, and the recorded stages."""

    row: Row
    persona: Persona
    case: DiagnosisCase
    pieces: tuple[GoldPiece, ...]
    watch: _Oracle
    answer: Answer
    answered: Row
    scores: tuple[Score, ...]

    def right(self, answer: Answer) -> bool | None:
        response = add_answer(self.row, answer).response or ""
        verdict = is_right(self.row, response, self.case.setup.language)
        return verdict and not answer.abstained if verdict is not None else None


def _answer_with(
    row: Row, persona: Persona, case: DiagnosisCase, plan: AskPlan, hooks: StageHooks
) -> Flow[Answer]:
    after = plan_after(replace(plan, hooks=hooks), row)
    [answer] = yield from ask(row.user_input, [persona], case.target, after)
    return answer


_Outcome: TypeAlias = tuple[tuple[Score, ...], Answer | None]
"""Scores with an oracle, and the answer if it changed."""


def _score_oracle(plain: _AnsweredRow, name: str) -> Flow[_Outcome]:
    if name in ("generate", "judge"):
        flow = _generate_scores(plain) if name == "generate" else _judge_scores(plain)
        return (yield from flow), None
    case, row = plain.case, plain.row
    if not plain.pieces:
        return _not_applicable(case, "the row has no gold for retrieval"), None
    lost, plan, changes = _FRONT_ORACLES[name](plain)
    if case.asks and name != "filter":  # a dry run takes the estimate
        branched = yield from branch(0, int(lost), 1)
        lost = lost if branched is None else bool(branched)
    if not lost:
        return plain.scores, None
    hooks = _Oracle(case.plan.retrieve, **changes)
    answer = yield from _answer_with(row, plain.persona, case, plan, hooks)
    return (yield from score_row(add_answer(row, answer), case.measures, case.setup)), answer


def _not_applicable(case: DiagnosisCase, reason: str) -> tuple[Score, ...]:
    return tuple(Score(str(m), "not_applicable", reason=reason) for m in case.measures)


_FrontOracle: TypeAlias = tuple[bool, AskPlan, dict[str, _Change]]
"""Whether the stage loses gold, and the plan and changes of hits without the loss."""


def _lift_filters(plain: _AnsweredRow) -> _FrontOracle:
    """Lift the hard filters, if they exclude gold."""
    plan = plain.case.plan
    lost = any(not piece.reachable and piece.chunk is not None for piece in plain.pieces)
    return lost, replace(plan, retrieve=replace(plan.retrieve, filters=())), {}


def _add_missed(plain: _AnsweredRow) -> _FrontOracle:
    """Put the gold that the filters allow but the search missed to the head of the pool."""
    missed = [
        piece.chunk
        for piece in plain.pieces
        if piece.chunk is not None and piece.reachable and not piece.rank_in(plain.watch.pool)
    ]

    def add(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        score, rung = (hits[0].score, hits[0].rung) if hits else (1.0, None)
        chunks = _append_new(hits, _unique_hits(missed))[len(hits) :]
        return _rank_hits((*(replace(c, score=score, rung=rung) for c in chunks), *hits))

    return bool(missed) and plain.answer.route == "index", plain.case.plan, {"pooled": add}


def _rank_gold_first(plain: _AnsweredRow) -> _FrontOracle:
    """Put gold first in the pool, the rest in its order."""
    order = plain.watch.order
    gold = _gold_of(order, plain.pieces)

    def reorder(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return _rank_hits(_append_new(_gold_of(hits, plain.pieces), hits))

    return order[: len(gold)] != gold, plain.case.plan, {"ordered": reorder}


def _restore_cut(plain: _AnsweredRow) -> _FrontOracle:
    """Put back the gold of the pool that was cut; the context may exceed its limit for it."""
    cut = [piece for piece in plain.pieces if piece.rank_in(plain.answer.hits) is None]
    cut_hits = _gold_of(plain.watch.order, cut)
    plan = plain.case.plan
    unlimited = replace(plan, options=replace(plan.options, context_tokens=_NO_LIMIT))

    def append(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        whole = _append_new(hits, cut_hits)
        return hits if len(whole) == len(hits) else _rank_hits(whole)

    return bool(cut_hits), unlimited, {"kept": append}


_FRONT_ORACLES: Mapping[str, Callable[[_AnsweredRow], _FrontOracle]] = {
    "filter": _lift_filters,
    "retrieve": _add_missed,
    "rerank": _rank_gold_first,
    "truncate": _restore_cut,
}


def _generate_scores(plain: _AnsweredRow) -> Flow[tuple[Score, ...]]:
    """The scores of the gold answer in place of the generated one."""
    case = plain.case
    if not plain.row.reference.strip():
        return _not_applicable(case, "the row has no gold answer")
    scores = yield from score_row(_gold_answer(plain), case.measures, case.setup)
    return tuple(
        Score(str(measure), "not_applicable", reason="no answer is scored")
        if measure.definition.kind in RANKING
        else score
        for measure, score in zip(case.measures, scores, strict=True)
    )


def _judge_scores(plain: _AnsweredRow) -> Flow[tuple[Score, ...]]:
    """The scores with the points that the judge deducts from the gold answer with gold passages.

    For this input a judge must give the top score; any deduction is the judge's error.
    """
    row, case = plain.row, plain.case
    gold = _unique_hits([piece.chunk for piece in plain.pieces if piece.chunk is not None])
    contexts = tuple(hit.text for hit in gold) or row.reference_contexts
    judged = [measure for measure in case.measures if is_judged(measure)]
    if not judged or not row.reference.strip():
        reason = "the row has no gold answer" if judged else "nothing is judged"
        return _not_applicable(case, reason)
    gold_row = replace(_gold_answer(plain), retrieved_contexts=contexts)
    control = yield from score_row(gold_row, judged, case.setup)
    by_measure = dict(zip(map(str, judged), control, strict=True))
    scores = zip(case.measures, plain.scores, strict=True)
    return tuple(_return_deduction(m, score, by_measure.get(str(m))) for m, score in scores)


def _return_deduction(measure: Measure, plain: Score, control: Score | None) -> Score:
    """Add the deduction from the gold answer to a judged score, up to the top of the scale."""
    if control is None:
        return Score(str(measure), "not_applicable", reason="this score is not given by a judge")
    top = measure.definition.high
    if control.value is None or plain.value is None or top is None:
        missing = control if control.value is None else plain
        reason = missing.reason or "the scale has no top"
        state = "not_applicable" if missing.state == "scored" else missing.state
        return Score(str(measure), state, reason=reason)
    error = top - control.value
    detail = f"the judge gives the gold answer {control.value:g} of {top:g}: {control.detail}"
    return Score(str(measure), "scored", min(top, plain.value + error), detail=detail)


def is_judged(measure: Measure) -> bool:
    """True if a chat model gives the score on a bounded scale."""
    definition = measure.definition
    judged = definition.kind == "judged" and measure.name not in _UNJUDGED
    return judged and definition.high is not None


def _gold_answer(plain: _AnsweredRow) -> Row:
    metadata: dict[str, Any] = {**plain.answered.metadata, "abstained": False}
    return replace(plain.answered, response=plain.row.reference, metadata=metadata)


def _first_loss(plain: _AnsweredRow, right: bool | None) -> Lost:
    """Return the first stage that loses anything on a row."""
    lost = {_piece_lost(piece, plain) for piece in plain.pieces}
    if right is False:
        lost.add("generate")
    if right and any(_is_low(m, s) for m, s in zip(plain.case.measures, plain.scores, strict=True)):
        lost.add("judge")
    return next((stage for stage in LOSSES if stage in lost), "")


def _piece_lost(piece: GoldPiece, plain: _AnsweredRow) -> Lost:
    context_size = len(plain.answer.hits)
    if piece.rank_in(plain.answer.hits):
        return ""
    if piece.chunk is None:
        return "index"
    if plain.answer.route != "index":
        return "route"
    if not piece.reachable:
        return "filter"
    rank, reranked_rank = piece.rank_in(plain.watch.pool), piece.rank_in(plain.watch.order)
    if rank is None:
        return "retrieve"
    moved_out = rank <= context_size and (reranked_rank is None or reranked_rank > context_size)
    return "rerank" if moved_out else "truncate"


def _is_low(measure: Measure, score: Score) -> bool:
    """True if a judge stays in the lower half of its scale."""
    low, high = measure.definition.low, measure.definition.high
    judged = is_judged(measure) and score.value is not None and high is not None
    return judged and (score.value or 0.0) < (low + (high or 0.0)) / 2


def _gold_of(hits: Sequence[Hit], pieces: Sequence[GoldPiece]) -> tuple[Hit, ...]:
    """Return the first passage of each piece of gold, in their order."""
    ranks = {rank for piece in pieces if (rank := piece.rank_in(hits))}
    return tuple(hits[rank - 1] for rank in sorted(ranks))


def _append_new(known: tuple[Hit, ...], hits: Iterable[Hit]) -> tuple[Hit, ...]:
    ids = {hit.chunk_id for hit in known}
    return (*known, *(hit for hit in hits if hit.chunk_id not in ids))


def _unique_hits(hits: Sequence[Hit]) -> list[Hit]:
    return list({hit.chunk_id: hit for hit in hits}.values())


def _rank_hits(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Give hits ranks in this order, and decreasing scores, which later stages read."""
    scores = sorted((hit.score for hit in hits), reverse=True)
    return tuple(
        replace(hit, rank=rank, score=score)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    )
