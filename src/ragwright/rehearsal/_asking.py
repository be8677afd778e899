"""Both sides answer: one run of rows each, resumed after a stop, replies known answered at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..answer import AskPlan, ask
from ..core import Answer, Hit, Row, TestsetError, plain, rights_first, value_hash, values_hash
from ..experiment import answer_row, answered_by, judging
from ..flow import Flow, Job
from ..measure import Measure, MeasureSetup, default_measures, parse_measures, ranking_measures
from ..project import configuration_of
from ..retrieve import Target, retrieve
from ..testsets import Testset, with_current_gold
from ._records import Passage, RehearsedQuestion, SideAnswer
from ._rights import rights

if TYPE_CHECKING:
    from ..project import Project
    from ._options import Rehearsing

KIND = "rehearse"
"""Kind of the runs that hold the answers of one side."""

_VERSION = 1
"""Raised when the rows of such runs change."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a rehearsal: its questions, and the measures of those with gold."""

    questions: tuple[RehearsedQuestion, ...]
    measures: tuple[Measure, ...]
    setup: MeasureSetup


def has_gold(row: Row) -> bool:
    """True for a row with a reference answer, or gold passages or documents."""
    return bool(row.reference or row.reference_spans or row.reference_ids or row.reference_contexts)


def rehearsal_rows(
    project: Project, questions: tuple[RehearsedQuestion, ...], options: Rehearsing
) -> Rows:
    """The questions with the measures that their gold allows.

    Without names: measures that need no model. A measure that needs one is taken where it is named.

    Raises:
        MeasureError: A name is wrong.
    """
    gold = [
        replace(
            q.row,
            response="an answer",
            retrieved_contexts=("a passage",),
            retrieved_context_ids=("a document",),
        )
        for q in questions
        if has_gold(q.row)
    ]
    if not gold:
        return Rows(questions, (), MeasureSetup())
    setup = judging(project, options.measures)
    measures: Sequence[Measure]
    if options.measures:
        measures = parse_measures(options.measures)
    else:
        hits = project.settings.retrieve.top_k
        measures = default_measures(gold, MeasureSetup(), hits=hits).measures
        # What a row without gold can be scored by says nothing about its gold.
        measures = [m for m in measures if not str(m).startswith("KPrecision")]
    if options.search_only:
        ranked = [m for m in measures if m.definition.kind in ("retrieval", "span")]
        measures = ranking_measures(measures if options.measures else ranked) if ranked else ()
    return Rows(questions, tuple(measures), setup)


def side_job(project: Project, rows: Rows, options: Rehearsing) -> Job[SideAnswer]:
    """The job that asks every question of one side."""
    target, plan = project.target(), _plan(project, options)
    gold_rows, gold_note = _current_rows(project, rows)
    makers = [
        (q.row.id, partial(_asked, project, (target, plan), gold_rows[q.row.id], rows, options))
        for q in rows.questions
    ]
    configuration = configuration_of(project.folder, project.settings)
    settings = {k: v for k, v in configuration.settings.items() if k != "store"}
    return Job(
        kind=KIND,
        manifest={
            "version": _VERSION,
            "name": gold_note,
            "rows": values_hash(plain(q.row) for q in rows.questions),
            "measures": [str(m) for m in rows.measures],
            "judge": value_hash(str(replace(rows.setup, rubrics={}))),
            "search_only": options.search_only,
            "snapshot": target.snapshot,
            "settings": settings,
            "files": dict(configuration.files),
            "attempt": project.session.attempt,
            **({} if options.groups is None else {"as_groups": sorted(options.groups)}),
        },
        items=makers,
        encode=plain,
        sources=_sources,
        scope=options.scope,
        resume=True,
        reuse=project.session.reuse,
        retry_errors=options.retry_errors,
    )


def _plan(project: Project, options: Rehearsing) -> AskPlan:
    """How both sides are asked: as the readers of some groups, if some are named."""
    plan = project.plan(stream=False)
    filters = rights_first((*plan.retrieve.filters, *rights(project, options.groups)))
    return replace(plan, retrieve=replace(plan.retrieve, filters=filters))


def side_answers(project: Project, run: str) -> Iterator[tuple[str, SideAnswer]]:
    """(question, answer) of a run, in order; what failed or was not reached has an error."""
    for row in project.runs.rows(run):
        if row.state == "done":
            yield row.id, _answer_of(row.body)
        else:
            error = f"{row.body.get('error', '')}: {row.body.get('what', 'was not asked')}"
            yield row.id, SideAnswer(error=error.removeprefix(": "))


def _sources(answer: SideAnswer) -> Sequence[str]:
    return list(dict.fromkeys(p.document_id for p in (*answer.hits, *answer.citations)))


def _answer_of(body: Mapping[str, Any]) -> SideAnswer:
    passages = {
        name: tuple(Passage(**passage) for passage in body[name]) for name in ("citations", "hits")
    }
    return SideAnswer(**{**body, **passages})


def _current_rows(project: Project, rows: Rows) -> tuple[dict[str, Row], str]:
    """Row of each question, with its gold at its present place in the documents of this side.

    Gold of documents that changed beyond recognition is left out: its row is then not compared.
    """
    by_id = {q.row.id: q.row for q in rows.questions}
    testset = Testset("rehearsal", tuple(row for row in by_id.values() if row.reference_spans))
    if not testset.rows:
        return by_id, ""
    try:
        current = {row.id: row for row in with_current_gold(project.store, testset).rows}
    except TestsetError:
        current = {}
    for row in testset.rows:
        by_id[row.id] = current.get(row.id) or replace(row, reference_spans=())
    return by_id, ""


def _asked(
    project: Project, state: tuple[Target, AskPlan], row: Row, rows: Rows, options: Rehearsing
) -> Flow[SideAnswer]:
    """Answer one question on one side, or search for it alone, and score it."""
    target, plan = state
    if options.search_only:
        hits = (yield from retrieve(row.user_input, target, plan.retrieve)).hits
        answer = Answer(row.user_input, "", hits=tuple(hits))
    else:
        persona = project.persona(row.persona_name)
        answer = (yield from ask(row.user_input, [persona], target, plan))[0]
    scores: dict[str, float] = {}
    if rows.measures and has_gold(row):
        result = yield from answer_row(answered_by(row, answer), rows.measures, rows.setup)
        worst = {str(m): m.known_scale for m in rows.measures}
        for score in result.scores:
            scale = worst[score.measure]
            if score.value is not None:
                scores[score.measure] = score.value
            elif score.missed and scale is not None and scale.worst is not None:
                scores[score.measure] = scale.worst
    return _side_answer(answer, scores, None if options.search_only else answer.usage.cost)


def _side_answer(answer: Answer, scores: Mapping[str, float], cost: float | None) -> SideAnswer:
    texts = {hit.chunk_id: hit for hit in answer.hits}
    cited = []
    for citation in answer.citations:
        hit = texts.get(citation.chunk_id)
        cited.append(
            Passage(
                citation.document_id,
                citation.start,
                citation.end,
                _within(hit, citation.start, citation.end),
                citation.source,
                citation.page,
            )
        )
    return SideAnswer(
        text=answer.text,
        abstained=answer.abstained,
        citations=tuple(cited),
        hits=tuple(map(_passage, answer.hits)),
        model=answer.model,
        prompt=value_hash([list(turn) for turn in answer.prompt]) if answer.prompt else "",
        cost=cost,
        seconds=answer.usage.seconds,
        scores=scores,
    )


def _passage(hit: Hit) -> Passage:
    return Passage(hit.document_id, hit.start, hit.end, hit.text, hit.source, hit.page)


def _within(hit: Hit | None, start: int, end: int) -> str:
    """The text of a citation, from the passage that it is in."""
    if hit is None:
        return ""
    return hit.text[max(0, start - hit.start) : max(0, end - hit.start)]
