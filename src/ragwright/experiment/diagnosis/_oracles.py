"""Oracles: one stage of the pipeline is perfect, everything else stays as it is.

A row is answered as the project answers it, and once more for each stage with that stage's oracle
instead. ``_diagnosis`` evaluates the differences over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from ...answer import AskPlan, ask
from ...core import Answer, Hit, Persona, Row, Score
from ...flow import Flow, branch, gather, unpack_settled
from ...measure import Measure, MeasureSetup, score_row
from ...retrieve import LEAST_POOL, RetrieveOptions, StageHooks, Target, select_depth
from ..evaluations import RANKING, AnswerRecord, RowResult, add_answer, plan_after
from ._gold_places import GoldPiece, GoldPlace, gold_pieces, is_right

Stage: TypeAlias = Literal["filter", "retrieve", "rerank", "truncate", "generate", "judge"]
Lost: TypeAlias = Literal[
    "",
    "index",
    "route",
    "filter",
    "retrieve",
    "rerank",
    "truncate",
    "generate",
    "judge",
]
"""The place where a row is first lost; empty if it is not."""

STAGES: tuple[Stage, ...] = get_args(Stage)
LOSSES: tuple[Lost, ...] = get_args(Lost)[1:]
FRONT: frozenset[str] = frozenset({"filter", "retrieve", "rerank", "truncate"})
"""Stages that bring gold into the context."""

_NO_LIMIT = 10**9
_UNJUDGED = frozenset({"QuestionSimilarity"})
"""Measures that use a chat model without a best score given by it."""


def stage_names() -> tuple[Stage, ...]:
    """The stages that have an oracle, from the front."""
    return STAGES


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
        closed_book: Also answer without passages.
        asks: The search uses a paid model: a dry run cannot know its results.
    """

    target: Target
    plan: AskPlan
    persona: Callable[[str], Persona]
    measures: Sequence[Measure]
    setup: MeasureSetup
    stages: tuple[Stage, ...] = STAGES
    closed_book: bool = False
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
        closed_book: Scores of the answer without passages, if requested; ``known`` is True if that
            answer is right.
        documents: Every document shown to the plain answer, an oracle or a judge.
    """

    plain: RowResult
    lost: Lost = ""
    gold: tuple[GoldPlace, ...] = ()
    right: bool | None = None
    oracles: Mapping[Stage, tuple[Score, ...]] = field(default_factory=dict)
    closed_book: tuple[Score, ...] = ()
    known: bool | None = None
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
    pieces = yield from gold_pieces(row, case.target, case.plan.retrieve.filters)
    watch = SearchHooks(pool_depth(case.plan.retrieve))
    plain_answer = yield from _answer_with(row, persona, case, case.plan, watch)
    answered = add_answer(row, plain_answer)
    scores = yield from score_row(answered, case.measures, case.setup)
    plain = _AnsweredRow(row, persona, case, pieces, watch, plain_answer, answered, scores)
    names: list[Stage | Literal["closed_book"]] = [*case.stages]
    names += ["closed_book"] if case.closed_book else []
    outcomes = yield from gather([_ORACLES[name](plain) for name in names], settle=True)
    by_oracle = dict(zip(names, (unpack_settled(outcome) for outcome in outcomes), strict=True))
    answers = [
        plain_answer,
        *(scored.answer for scored in by_oracle.values() if scored.answer is not None),
    ]
    documents = [hit.document_id for answer in answers for hit in answer.hits]
    documents += [piece.document_id for piece in pieces]
    closed_book = by_oracle.pop("closed_book", None)
    right = plain.right(plain_answer)
    answer_record = AnswerRecord(plain_answer.prompt, plain_answer.usage, notes=plain_answer.notes)
    return DiagnosedRow(
        RowResult(row.id, answered.retrieved_context_ids, scores, answered, answer_record),
        _first_loss(plain, right),
        tuple(
            GoldPlace(
                piece.document_id,
                None if piece.span is None else piece.span.start,
                None if piece.span is None else piece.span.end,
                piece.chunk is not None,
                piece.reachable,
                piece.rank_in(plain.watch.pool),
                piece.rank_in(plain.watch.order),
                piece.rank_in(plain.answer.hits),
            )
            for piece in pieces
        ),
        right,
        {stage: by_oracle[stage].scores for stage in case.stages},
        () if closed_book is None else closed_book.scores,
        None
        if closed_book is None or closed_book.answer is None
        else plain.right(closed_book.answer),
        tuple(dict.fromkeys(documents)),
    )


class SearchHooks(StageHooks):
    """Hooks that record the candidates, and their order after the reranker."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.pool: tuple[Hit, ...] = ()
        self.order: tuple[Hit, ...] = ()

    def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record the candidates of all rounds."""
        self.pool = _append_new(self.pool, hits)
        return hits

    def ordered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record their order in all rounds."""
        self.order = _append_new(self.order, hits)
        return hits


class _PerfectSearch(StageHooks):
    """Hooks of a perfect search: gold that the pool lacks goes to its head."""

    def __init__(self, depth: int, chunks: Sequence[Hit]) -> None:
        self.depth = depth
        self._chunks = chunks

    def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return missing gold, then the candidates."""
        ids = {hit.chunk_id for hit in hits}
        new = [chunk for chunk in self._chunks if chunk.chunk_id not in ids]
        score, rung = (hits[0].score, hits[0].rung) if hits else (1.0, None)
        return _rank_hits((*(replace(chunk, score=score, rung=rung) for chunk in new), *hits))


class _PerfectReranker(StageHooks):
    """Hooks of a perfect reranker: gold first, the rest in its order."""

    def __init__(self, depth: int, pieces: Sequence[GoldPiece]) -> None:
        self.depth = depth
        self._pieces = pieces

    def ordered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return the first passage of each piece of gold, then all others."""
        gold = _gold_of(hits, self._pieces)
        ids = {hit.chunk_id for hit in gold}
        return _rank_hits((*gold, *(hit for hit in hits if hit.chunk_id not in ids)))


class _PerfectCut(StageHooks):
    """Hooks of a perfect cut: gold that was left out follows what is kept."""

    def __init__(self, depth: int, hits: Sequence[Hit]) -> None:
        self.depth = depth
        self._hits = hits

    def kept(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return the kept hits, then the gold that was cut."""
        ids = {hit.chunk_id for hit in hits}
        missing = [hit for hit in self._hits if hit.chunk_id not in ids]
        return _rank_hits((*hits, *missing)) if missing else hits


@dataclass(frozen=True, slots=True)
class _AnsweredRow:
    """A row as answered, and the recorded stages."""

    row: Row
    persona: Persona
    case: DiagnosisCase
    pieces: tuple[GoldPiece, ...]
    watch: SearchHooks
    answer: Answer
    answered: Row
    scores: tuple[Score, ...]

    def right(self, answer: Answer) -> bool | None:
        """True if an answer is right; abstentions are not."""
        response = add_answer(self.row, answer).response or ""
        verdict = is_right(self.row, response, self.case.setup.language)
        return verdict and not answer.abstained if verdict is not None else None


@dataclass(frozen=True, slots=True)
class _OracleScores:
    """Scores with an oracle, and the answer if it changed."""

    scores: tuple[Score, ...]
    answer: Answer | None = None


def _answer_with(
    row: Row, persona: Persona, case: DiagnosisCase, plan: AskPlan, between: StageHooks
) -> Flow[Answer]:
    after = plan_after(replace(plan, between=between), row)
    [answer] = yield from ask(row.user_input, [persona], case.target, after)
    return answer


def _answer_again(plain: _AnsweredRow, plan: AskPlan, between: StageHooks) -> Flow[_OracleScores]:
    """Answer the row again under another plan, and score it."""
    case = plain.case
    answer = yield from _answer_with(plain.row, plain.persona, case, plan, between)
    scores = yield from score_row(add_answer(plain.row, answer), case.measures, case.setup)
    return _OracleScores(scores, answer)


def _changes_anything(plain: _AnsweredRow, lost: bool) -> Flow[bool]:
    """True if an oracle changes anything; a dry run that cannot know takes the estimate."""
    if not plain.case.asks:
        return lost
    branched = yield from branch(0, int(lost), 1)
    return lost if branched is None else bool(branched)


def _plain_scores(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Return the scores of the plain answer, for a stage that does not lose this row."""
    yield from ()
    return _OracleScores(plain.scores)


def _not_applicable(plain: _AnsweredRow, reason: str) -> Flow[_OracleScores]:
    yield from ()
    return _OracleScores(
        tuple(Score(str(m), "not_applicable", reason=reason) for m in plain.case.measures)
    )


def _filter_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Lift the hard filters, if they exclude gold."""
    plan = plain.case.plan
    if not plain.pieces:
        return (yield from _not_applicable(plain, "the row has no gold for retrieval"))
    if all(piece.reachable or piece.chunk is None for piece in plain.pieces):
        return (yield from _plain_scores(plain))  # known without calling a model
    unfiltered = replace(plan, retrieve=replace(plan.retrieve, filters=()))
    return (yield from _answer_again(plain, unfiltered, SearchHooks(plain.watch.depth)))


def _retrieve_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Add the gold that the filters allow but the search missed to the pool."""
    if not plain.pieces:
        return (yield from _not_applicable(plain, "the row has no gold for retrieval"))
    missed = [
        piece.chunk
        for piece in plain.pieces
        if piece.chunk is not None and piece.reachable and not piece.rank_in(plain.watch.pool)
    ]
    lost = bool(missed) and plain.answer.route == "index"
    if not (yield from _changes_anything(plain, lost)):
        return (yield from _plain_scores(plain))
    added = _PerfectSearch(plain.watch.depth, _unique_hits(missed))
    return (yield from _answer_again(plain, plain.case.plan, added))


def _rerank_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Put gold first in the pool."""
    if not plain.pieces:
        return (yield from _not_applicable(plain, "the row has no gold for retrieval"))
    order = plain.watch.order
    gold = _gold_of(order, plain.pieces)
    if not (yield from _changes_anything(plain, order[: len(gold)] != gold)):
        return (yield from _plain_scores(plain))
    first = _PerfectReranker(plain.watch.depth, plain.pieces)
    return (yield from _answer_again(plain, plain.case.plan, first))


def _truncate_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Put back the gold of the pool that was cut; the context may exceed its limit for it."""
    if not plain.pieces:
        return (yield from _not_applicable(plain, "the row has no gold for retrieval"))
    cut = [piece for piece in plain.pieces if piece.rank_in(plain.answer.hits) is None]
    cut_hits = _gold_of(plain.watch.order, cut)
    if not (yield from _changes_anything(plain, bool(cut_hits))):
        return (yield from _plain_scores(plain))
    plan = plain.case.plan
    unlimited = replace(plan.options, context_tokens=_NO_LIMIT)
    unlimited_plan = replace(plan, options=unlimited)
    return (
        yield from _answer_again(plain, unlimited_plan, _PerfectCut(plain.watch.depth, cut_hits))
    )


def _generate_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Replace the generated answer by the gold answer."""
    reference = plain.row.reference
    if not reference.strip():
        return (yield from _not_applicable(plain, "the row has no gold answer"))
    gold_row = _replace_response(plain.answered, reference)
    scores = yield from score_row(gold_row, plain.case.measures, plain.case.setup)
    return _OracleScores(
        tuple(
            Score(score.measure, "not_applicable", reason="no answer is scored")
            if measure.definition.kind in RANKING
            else score
            for measure, score in zip(plain.case.measures, scores, strict=True)
        )
    )


def _judge_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Add back the points that the judge deducts from the gold answer with gold passages.

    For this input a judge must give the top score; any deduction is the judge's error.
    """
    row, case = plain.row, plain.case
    gold = _unique_hits([piece.chunk for piece in plain.pieces if piece.chunk is not None])
    contexts = tuple(hit.text for hit in gold) or row.reference_contexts
    judged = [measure for measure in case.measures if is_judged(measure)]
    if not judged or not row.reference.strip():
        reason = "the row has no gold answer" if judged else "nothing is judged"
        return (yield from _not_applicable(plain, reason))
    gold_row = replace(
        _replace_response(plain.answered, row.reference), retrieved_contexts=contexts
    )
    control = yield from score_row(gold_row, judged, case.setup)
    by_measure = dict(zip(map(str, judged), control, strict=True))
    scores = zip(case.measures, plain.scores, strict=True)
    return _OracleScores(
        tuple(_return_deduction(m, score, by_measure.get(str(m))) for m, score in scores)
    )


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


def _closed_book_oracle(plain: _AnsweredRow) -> Flow[_OracleScores]:
    """Ask the same question without passages."""
    plan = plain.case.plan
    without = replace(plan, options=replace(plan.options, closed_book=True))
    outcome = yield from _answer_again(plain, without, SearchHooks(plain.watch.depth))
    scores = zip(plain.case.measures, outcome.scores, strict=True)
    return _OracleScores(
        tuple(
            Score(str(measure), "not_applicable", reason="the measure needs passages")
            if measure.definition.kind in RANKING
            else score
            for measure, score in scores
        ),
        outcome.answer,
    )


_ORACLES: Mapping[str, Callable[[_AnsweredRow], Flow[_OracleScores]]] = {
    "filter": _filter_oracle,
    "retrieve": _retrieve_oracle,
    "rerank": _rerank_oracle,
    "truncate": _truncate_oracle,
    "generate": _generate_oracle,
    "judge": _judge_oracle,
    "closed_book": _closed_book_oracle,
}


def is_judged(measure: Measure) -> bool:
    """True if a chat model gives the score on a bounded scale."""
    definition = measure.definition
    judged = definition.kind == "judged" and measure.name not in _UNJUDGED
    return judged and definition.high is not None


def _replace_response(row: Row, response: str) -> Row:
    """Return the row with another answer that does not abstain."""
    return replace(row, response=response, metadata={**row.metadata, "abstained": False})


def _first_loss(plain: _AnsweredRow, right: bool | None) -> Lost:
    """Return the first stage that loses anything on a row."""
    lost = {_piece_lost(piece, plain) for piece in plain.pieces}
    for stage in LOSSES:
        if stage in lost:
            return stage
    if right is False:
        return "generate"
    if right and any(_is_low(m, s) for m, s in zip(plain.case.measures, plain.scores, strict=True)):
        return "judge"
    return ""


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
    return (
        "rerank"
        if rank <= context_size and (reranked_rank is None or reranked_rank > context_size)
        else "truncate"
    )


def _is_low(measure: Measure, score: Score) -> bool:
    """True if a judge stays in the lower half of its scale."""
    definition = measure.definition
    if not is_judged(measure) or score.value is None or definition.high is None:
        return False
    return score.value < (definition.low + definition.high) / 2


def _gold_of(hits: Sequence[Hit], pieces: Sequence[GoldPiece]) -> tuple[Hit, ...]:
    """Return the first passage of each piece of gold, in their order."""
    ranks = {rank for piece in pieces if (rank := piece.rank_in(hits))}
    return tuple(hits[rank - 1] for rank in sorted(ranks))


def _append_new(known: tuple[Hit, ...], hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    ids = {hit.chunk_id for hit in known}
    return (*known, *(hit for hit in hits if hit.chunk_id not in ids)) if known else hits


def _unique_hits(hits: Sequence[Hit]) -> list[Hit]:
    return list({hit.chunk_id: hit for hit in hits}.values())


def _rank_hits(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Give hits ranks in this order, and decreasing scores, which later stages read."""
    scores = sorted((hit.score for hit in hits), reverse=True)
    return tuple(
        replace(hit, rank=rank, score=score)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    )
