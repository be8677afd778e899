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
from ...flow import Flow, branch, gather, settled
from ...measure import Measure, MeasureSetup, score_row
from ...retrieve import RetrieveOptions, StageHooks, Target, select_depth
from ..evaluations import Made, RowResult, answered_by
from ._facts import is_right
from ._gold_places import GoldPiece, GoldPlace, gold_pieces

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

RANKING = frozenset({"retrieval", "span"})
"""Kinds of measures of retrieval, independent of the answer."""

_UNBOUND = 10**9
_UNJUDGED = frozenset({"QuestionSimilarity"})
"""Measures that use a chat model, but have no best score given by it."""


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
        gold: How far each piece of its gold got.
        right: Whether the answer is right by the gold answer; None without one.
        oracles: Stage -> scores with its oracle, in the order of the measures.
        closed_book: Scores of the answer without passages, if requested; ``known``
            says whether that one is right.
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
    """Number of candidates that count as found: those that a reranker reads, or would read."""
    if options.context_tokens is not None:
        return options.pool  # as many as fit; any of them may be kept
    wide = max(
        options.rerank.candidates, options.top_k, select_depth(options.top_k, options.select)
    )
    return min(wide, max(options.pool, options.top_k))


def diagnosed_row(row: Row, case: DiagnosisCase) -> Flow[DiagnosedRow]:
    """Answer a row as it is and with each oracle; raises errors of answering.

    Scores of a stage that cannot lose the row (it has no gold, no gold answer, or the measure does
    not depend on the stage) are ``not_applicable``.
    """
    persona = case.persona(row.persona_name)
    pieces = yield from gold_pieces(row, case.target, case.plan.retrieve.filters)
    watch = Watched(pool_depth(case.plan.retrieve))
    made = yield from _answered(row, persona, case, case.plan, watch)
    answered = answered_by(row, made)
    scores = yield from score_row(answered, case.measures, case.setup)
    found = _Found(row, persona, case, pieces, watch, made, answered, scores)
    names: list[Stage | Literal["closed_book"]] = [*case.stages]
    names += ["closed_book"] if case.closed_book else []
    outcomes = yield from gather([_ORACLES[name](found) for name in names], settle=True)
    told = dict(zip(names, (settled(outcome) for outcome in outcomes), strict=True))
    shown = [made, *(one.made for one in told.values() if one.made is not None)]
    documents = [hit.document_id for answer in shown for hit in answer.hits]
    documents += [piece.document_id for piece in pieces]
    closed = told.pop("closed_book", None)
    right = found.right(made)
    kept = Made(made.prompt, made.usage, notes=made.notes)
    return DiagnosedRow(
        RowResult(row.id, answered.retrieved_context_ids, scores, answered, kept),
        _lost(found, right),
        tuple(_place(piece, found) for piece in pieces),
        right,
        {stage: told[stage].scores for stage in case.stages},
        () if closed is None else closed.scores,
        None if closed is None or closed.made is None else found.right(closed.made),
        tuple(dict.fromkeys(documents)),
    )


class Watched(StageHooks):
    """Records the candidates, and their order after the reranker."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.pool: tuple[Hit, ...] = ()
        self.order: tuple[Hit, ...] = ()

    def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record the candidates of all rounds."""
        self.pool = _joined(self.pool, hits)
        return hits

    def ordered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Record their order in all rounds."""
        self.order = _joined(self.order, hits)
        return hits


class _Added(StageHooks):
    """A perfect search: gold that the pool lacks is put at its head."""

    def __init__(self, depth: int, chunks: Sequence[Hit]) -> None:
        self.depth = depth
        self._chunks = chunks

    def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Missing gold, then the candidates."""
        held = {hit.chunk_id for hit in hits}
        new = [chunk for chunk in self._chunks if chunk.chunk_id not in held]
        score, rung = (hits[0].score, hits[0].rung) if hits else (1.0, None)
        return _ranked((*(replace(chunk, score=score, rung=rung) for chunk in new), *hits))


class _First(StageHooks):
    """A perfect reranker: gold first, the rest in its order."""

    def __init__(self, depth: int, pieces: Sequence[GoldPiece]) -> None:
        self.depth = depth
        self._pieces = pieces

    def ordered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """The first passage of each piece of gold, then all others."""
        gold = _gold_of(hits, self._pieces)
        held = {hit.chunk_id for hit in gold}
        return _ranked((*gold, *(hit for hit in hits if hit.chunk_id not in held)))


class _PutBack(StageHooks):
    """A perfect cut: the gold it left out is added after what it keeps."""

    def __init__(self, depth: int, hits: Sequence[Hit]) -> None:
        self.depth = depth
        self._hits = hits

    def kept(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """The kept hits, then the gold that was cut."""
        held = {hit.chunk_id for hit in hits}
        back = [hit for hit in self._hits if hit.chunk_id not in held]
        return _ranked((*hits, *back)) if back else hits


@dataclass(frozen=True, slots=True)
class _Found:
    """A row as answered, and the recorded stages."""

    row: Row
    persona: Persona
    case: DiagnosisCase
    pieces: tuple[GoldPiece, ...]
    watch: Watched
    made: Answer
    answered: Row
    scores: tuple[Score, ...]

    def right(self, made: Answer) -> bool | None:
        """True if an answer is right; abstentions are not."""
        response = answered_by(self.row, made).response or ""
        found = is_right(self.row, response, self.case.setup.language)
        return found and not made.abstained if found is not None else None


@dataclass(frozen=True, slots=True)
class _Told:
    """Scores with an oracle, and the answer if it changed."""

    scores: tuple[Score, ...]
    made: Answer | None = None


def _answered(
    row: Row, persona: Persona, case: DiagnosisCase, plan: AskPlan, between: StageHooks
) -> Flow[Answer]:
    [made] = yield from ask(row.user_input, [persona], case.target, replace(plan, between=between))
    return made


def _again(found: _Found, plan: AskPlan, between: StageHooks) -> Flow[_Told]:
    """The row answered again under another plan, and scored."""
    case = found.case
    made = yield from _answered(found.row, found.persona, case, plan, between)
    scores = yield from score_row(answered_by(found.row, made), case.measures, case.setup)
    return _Told(scores, made)


def _needed(found: _Found, lost: bool) -> Flow[bool]:
    """True if an oracle changes anything; in a dry run that cannot know, its declared estimate."""
    if not found.case.asks:
        return lost
    taken = yield from branch(0, int(lost), 1)
    return lost if taken is None else bool(taken)


def _as_it_is(found: _Found) -> Flow[_Told]:
    """The scores of the plain answer, for a stage that does not lose this row."""
    yield from ()
    return _Told(found.scores)


def _none(found: _Found, reason: str) -> Flow[_Told]:
    yield from ()
    measures = found.case.measures
    return _Told(tuple(Score(str(m), "not_applicable", reason=reason) for m in measures))


def _filter(found: _Found) -> Flow[_Told]:
    """The hard filters lifted, if they exclude gold."""
    plan = found.case.plan
    if not found.pieces:
        return (yield from _none(found, "the row has no gold for retrieval"))
    if all(piece.reachable or piece.chunk is None for piece in found.pieces):
        return (yield from _as_it_is(found))  # known without calling a model
    free = replace(plan, retrieve=replace(plan.retrieve, filters=()))
    return (yield from _again(found, free, Watched(found.watch.depth)))


def _retrieve(found: _Found) -> Flow[_Told]:
    """The gold that the filters allow but the search missed, added to the pool."""
    if not found.pieces:
        return (yield from _none(found, "the row has no gold for retrieval"))
    missed = [
        piece.chunk
        for piece in found.pieces
        if piece.chunk is not None and piece.reachable and not piece.rank_in(found.watch.pool)
    ]
    lost = bool(missed) and found.made.route == "index"
    if not (yield from _needed(found, lost)):
        return (yield from _as_it_is(found))
    added = _Added(found.watch.depth, _once(missed))
    return (yield from _again(found, found.case.plan, added))


def _rerank(found: _Found) -> Flow[_Told]:
    """The pool as it is, gold first."""
    if not found.pieces:
        return (yield from _none(found, "the row has no gold for retrieval"))
    order = found.watch.order
    gold = _gold_of(order, found.pieces)
    if not (yield from _needed(found, order[: len(gold)] != gold)):
        return (yield from _as_it_is(found))
    first = _First(found.watch.depth, found.pieces)
    return (yield from _again(found, found.case.plan, first))


def _truncate(found: _Found) -> Flow[_Told]:
    """The gold of the pool that was cut, put back; the context may exceed its limit for it."""
    if not found.pieces:
        return (yield from _none(found, "the row has no gold for retrieval"))
    cut = [piece for piece in found.pieces if piece.rank_in(found.made.hits) is None]
    back = _gold_of(found.watch.order, cut)
    if not (yield from _needed(found, bool(back))):
        return (yield from _as_it_is(found))
    plan = found.case.plan
    wide = replace(plan.setup.options, context_tokens=_UNBOUND)
    wider = replace(plan, setup=replace(plan.setup, options=wide))
    return (yield from _again(found, wider, _PutBack(found.watch.depth, back)))


def _generate(found: _Found) -> Flow[_Told]:
    """The gold answer in place of the generated one."""
    reference = found.row.reference
    if not reference.strip():
        return (yield from _none(found, "the row has no gold answer"))
    told = _saying(found.answered, reference)
    scores = yield from score_row(told, found.case.measures, found.case.setup)
    return _Told(
        tuple(
            Score(score.measure, "not_applicable", reason="no answer is scored")
            if measure.definition.kind in RANKING
            else score
            for measure, score in zip(found.case.measures, scores, strict=True)
        )
    )


def _judge(found: _Found) -> Flow[_Told]:
    """The points that the judge deducts from the gold answer with gold passages, added back.

    For this input a judge must give the top score; any deduction is its own error.
    """
    row, case = found.row, found.case
    gold = _once([piece.chunk for piece in found.pieces if piece.chunk is not None])
    contexts = tuple(hit.text for hit in gold) or row.reference_contexts
    judged = [measure for measure in case.measures if is_judged(measure)]
    if not judged or not row.reference.strip():
        reason = "the row has no gold answer" if judged else "nothing is judged"
        return (yield from _none(found, reason))
    shown = replace(_saying(found.answered, row.reference), retrieved_contexts=contexts)
    control = yield from score_row(shown, judged, case.setup)
    by_measure = dict(zip(map(str, judged), control, strict=True))
    scores = zip(case.measures, found.scores, strict=True)
    return _Told(tuple(_given_back(m, plain, by_measure.get(str(m))) for m, plain in scores))


def _given_back(measure: Measure, plain: Score, control: Score | None) -> Score:
    """A judged score plus the deduction from the gold answer; at most the top of the scale."""
    if control is None:
        return Score(str(measure), "not_applicable", reason="this score is not given by a judge")
    top = measure.definition.high
    if control.value is None or plain.value is None or top is None:
        why = control if control.value is None else plain
        reason = why.reason or "the scale has no top"
        state = "not_applicable" if why.state == "scored" else why.state
        return Score(str(measure), state, reason=reason)
    error = top - control.value
    detail = f"the judge gives the gold answer {control.value:g} of {top:g}: {control.detail}"
    return Score(str(measure), "scored", min(top, plain.value + error), detail=detail)


def _closed_book(found: _Found) -> Flow[_Told]:
    """The same question without passages."""
    plan = found.case.plan
    closed = replace(plan.setup.options, closed_book=True)
    without = replace(plan, setup=replace(plan.setup, options=closed))
    told = yield from _again(found, without, Watched(found.watch.depth))
    scores = zip(found.case.measures, told.scores, strict=True)
    return _Told(
        tuple(
            Score(str(measure), "not_applicable", reason="the measure needs passages")
            if measure.definition.kind in RANKING
            else score
            for measure, score in scores
        ),
        told.made,
    )


_ORACLES: Mapping[str, Callable[[_Found], Flow[_Told]]] = {
    "filter": _filter,
    "retrieve": _retrieve,
    "rerank": _rerank,
    "truncate": _truncate,
    "generate": _generate,
    "judge": _judge,
    "closed_book": _closed_book,
}


def is_judged(measure: Measure) -> bool:
    """True if a chat model gives the score on a bounded scale."""
    definition = measure.definition
    judged = definition.kind == "judged" and measure.name not in _UNJUDGED
    return judged and definition.high is not None


def _saying(row: Row, response: str) -> Row:
    """The row with another, existing answer."""
    return replace(row, response=response, metadata={**row.metadata, "abstained": False})


def _lost(found: _Found, right: bool | None) -> Lost:
    """The first stage that loses anything on a row."""
    lost = {_piece_lost(piece, found) for piece in found.pieces}
    for stage in LOSSES:
        if stage in lost:
            return stage
    if right is False:
        return "generate"
    if right and any(_is_low(m, s) for m, s in zip(found.case.measures, found.scores, strict=True)):
        return "judge"
    return ""


def _piece_lost(piece: GoldPiece, found: _Found) -> Lost:
    shown = len(found.made.hits)
    if piece.rank_in(found.made.hits):
        return ""
    if piece.chunk is None:
        return "index"
    if found.made.route != "index":
        return "route"
    if not piece.reachable:
        return "filter"
    rank, after = piece.rank_in(found.watch.pool), piece.rank_in(found.watch.order)
    if rank is None:
        return "retrieve"
    return "rerank" if rank <= shown and (after is None or after > shown) else "truncate"


def _is_low(measure: Measure, score: Score) -> bool:
    """True if a judge stays in the lower half of its scale."""
    definition = measure.definition
    if not is_judged(measure) or score.value is None or definition.high is None:
        return False
    return score.value < (definition.low + definition.high) / 2


def _place(piece: GoldPiece, found: _Found) -> GoldPlace:
    return GoldPlace(
        piece.document_id,
        None if piece.span is None else piece.span.start,
        None if piece.span is None else piece.span.end,
        piece.chunk is not None,
        piece.reachable,
        piece.rank_in(found.watch.pool),
        piece.rank_in(found.watch.order),
        piece.rank_in(found.made.hits),
    )


def _gold_of(hits: Sequence[Hit], pieces: Sequence[GoldPiece]) -> tuple[Hit, ...]:
    """The first passage of each piece of gold, in their order."""
    ranks = {rank for piece in pieces if (rank := piece.rank_in(hits))}
    return tuple(hits[rank - 1] for rank in sorted(ranks))


def _joined(known: tuple[Hit, ...], hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    held = {hit.chunk_id for hit in known}
    return (*known, *(hit for hit in hits if hit.chunk_id not in held)) if known else hits


def _once(hits: Sequence[Hit]) -> list[Hit]:
    return list({hit.chunk_id: hit for hit in hits}.values())


def _ranked(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Hits in this order, with ranks and decreasing scores, which later stages read."""
    scores = sorted((hit.score for hit in hits), reverse=True)
    return tuple(
        replace(hit, rank=rank, score=score)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    )
