"""Measuring a project on its testset; rows of suites are answered from their own passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any

from ..answer import AskPlan, ask, condense, read_prompt
from ..core import (
    Answer,
    GoldSpan,
    Persona,
    Row,
    TestsetError,
    list_changed_options,
    text_hash,
    value_hash,
)
from ..flow import Flow, Forecast, RunSummary, gather, lookup, search_keyword
from ..measure import (
    ChosenMeasures,
    Measure,
    MeasureSetup,
    check_setup,
    default_measures,
    load_rubrics,
    model_fields,
    parse_measure,
    parse_measures,
    ranking_measures,
    set_rubric_scales,
)
from ..models import Models, transformer_folder
from ..project import (
    SERVED_SECTIONS,
    Project,
    index_settings,
    is_mined,
    list_served_sections,
    refuse_forget,
    unproven_models,
)
from ..retrieve import Target
from ..testsets import Testset, all_given, answer_from_given, project_testset, refresh_gold
from ._notes import check_gold
from ._results import Evaluation, EvaluationOptions, RowResult
from ._rows import (
    RANKING,
    answer_and_score_row,
    plan_after,
    ranking_search,
    retrieval_row,
    turns_before,
)
from ._stored_runs import RowPlan, add_row_notes, forecast_plan, plan_rows, promise_note, run_plan

_WORDS = 30
"""Number of words of a passage to search for: enough to be rare, few enough to be quick."""

_CANDIDATES = 5


def add_gold_from_texts(project: Project, testset: Testset) -> Testset:
    """Add gold spans to rows whose gold is passages alone.

    A passage becomes a span if a document of the index holds its text, ignoring white space and
    case. Documents are searched by keywords: those of its first words, else of its last ones. A row
    with gold ids or spans keeps them. A note counts the passages that were found and those missing.
    """
    without = {
        row.id
        for row in testset.rows
        if any(text.strip() for text in row.reference_contexts)
        and not row.reference_ids
        and not row.reference_spans
    }
    if not without:
        return testset
    candidates = [row for row in testset.rows if row.id in without]
    passages = dict.fromkeys(t for row in candidates for t in row.reference_contexts if t.strip())
    snapshot, document_of = project.target().snapshot, cache(project.store.document)
    names = project.runner.run(gather(_candidate_documents(snapshot, text) for text in passages))
    spans: dict[str, GoldSpan] = {}
    for text, documents in zip(passages, names, strict=True):
        pattern = re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)
        for document in filter(None, map(document_of, documents)):
            if text not in spans and (match := pattern.search(document.text)):
                spans[text] = GoldSpan(document.id, match.start(), match.end(), match[0])
    rows = tuple(
        replace(
            row,
            reference_spans=tuple(
                dict.fromkeys(spans[text] for text in row.reference_contexts if text in spans)
            ),
        )
        if row.id in without
        else row
        for row in testset.rows
    )
    found = sum(bool(row.reference_spans) for row in rows if row.id in without)
    note = f"gold passages of {found} rows were found in the index by their text"
    if missing := len(passages) - len(spans):
        note += f"; {missing} of {len(passages)} passages are not in it word for word, and not gold"
    return replace(testset, rows=rows, notes=(*testset.notes, note))


def _candidate_documents(snapshot: str, text: str) -> Flow[tuple[str, ...]]:
    """Search for documents that may hold a text, best first."""
    words = text.split()
    ids: list[str] = []
    for part in dict.fromkeys((" ".join(words[:_WORDS]), " ".join(words[-_WORDS:]))):
        candidates = yield from search_keyword(snapshot, part, _CANDIDATES)
        reply = yield from lookup(snapshot, [chunk for chunk, _ in candidates])
        ids += [hit.document_id for hit in reply.hits]
    return tuple(dict.fromkeys(ids))


def plan_evaluation(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
    *,
    sampled: bool = False,
) -> RowPlan[Testset]:
    """Plan the search for every row of a testset, or its answer, and the scoring.

    Measures of documents read the ranking that they would read without answers. ``sampled`` rows
    may all lack gold: the whole testset has been checked.

    Raises:
        TestsetError: Rows cannot be read, or lack what the measures need.
        MeasureError: A measure is unknown, or needs a model that is not set.
    """
    rows, measures = _read_testset(project, testset, measures)
    # Read once: an ingest or an edit of a file during the run has no effect.
    target, searching, plan = project.target(), project.settings.retrieve, project.plan()
    manifest: dict[str, Any] = {
        "retrieve": list_changed_options(searching) | {"filters": str(searching.filters)},
        "index_spec": project.index_spec.key,
        "snapshot": target.snapshot,
        **_searching_settings(project, target),
    }
    rows = refresh_gold(project.store, _note_unknown_gold(project, rows))
    rows = add_gold_from_texts(project, rows)
    setup = judging(project, measures) if options.answers else None
    if setup is None:
        choice = ChosenMeasures(ranking_measures(measures))
        if any(row.history for row in rows.rows):
            manifest["condensed"] = plan.options.model
        manifest["counted"] = _counted_units(rows)
    else:
        likely = _as_answered(rows.rows, near=bool(target.model) or options.vectors_vary)
        choice = choose_measures(measures, likely, setup, searching.top_k)
        check_setup(choice.measures, setup, likely)
        check_models(project.models, choice.measures, setup)
        if not sampled:
            check_gold(rows, choice.measures)
        manifest |= answering_settings(project, {row.persona_name for row in rows.rows}, plan)
        rows = add_row_notes(
            rows, choice.note, _shallow_note(rows, choice.measures, searching.top_k)
        )
    rows = add_row_notes(rows, *_run_notes(project, manifest))
    ranked = [m for m in choice.measures if _ranks(m) or setup is None]
    search = partial(ranking_search, target, searching, ranked)
    plain_search = search()

    def make_flow(row: Row) -> Flow[RowResult]:
        history, model, searching = turns_before(row), plan.options.model, plain_search
        if history:  # a question after turns is searched for as it stands alone
            searching = search(lambda text: condense(text, history, model, plan.window(model)))
        if setup is None:
            return retrieval_row(row, searching, choice.measures)
        return answer_and_score_row(row, asking, choice.measures, setup, searching, project.count)

    asking = partial(_answer_question, project.persona, target, plan)
    return plan_rows("eval", rows, choice.measures, setup, make_flow, manifest)


def _read_testset(
    project: Project, testset: str | Testset, measures: str | Sequence[Measure]
) -> tuple[Testset, str | Sequence[Measure]]:
    if measures:
        measures = parse_measures(measures)  # a misspelt name is reported before any file is read
    rows = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    return rows, measures


def _counted_units(testset: Testset) -> str:
    """Return what measures of rankings count: gold spans, gold documents, or both."""
    units = {
        "spans" if row.reference_spans else "documents"
        for row in testset.rows
        if row.reference_spans or row.reference_ids
    }
    return " and ".join(sorted(units, reverse=True))


def _ranks(measure: Measure) -> bool:
    return measure.definition.kind in RANKING


def _run_notes(project: Project, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Return notes on models that are not proven, and on the promise of the answers."""
    for key, model in unproven_models(project):
        compared = "its base" if key == "embed.model" else "the search without it"
        yield f"{key}: {model} is fine-tuned, and not proven better than {compared}"
    yield from promise_note(manifest)


def _as_answered(rows: Iterable[Row], *, near: bool) -> tuple[Row, ...]:
    """Return rows as they will be after answering, for the choice of measures.

    If the index has vectors (``near``), they will have the similarity of their passages.
    """
    return tuple(
        replace(
            row,
            response="an answer",
            retrieved_contexts=("a passage",),
            retrieved_context_ids=("a document",),
            retrieved_spans=(GoldSpan("a document", 0, 1, ""),),
            metadata={**row.metadata, **({"chunk_score": 0.0} if near else {})},
        )
        for row in rows
    )


def _answer_question(
    persona_of: Callable[[str], Persona], target: Target, plan: AskPlan, row: Row
) -> Flow[Answer]:
    persona = persona_of(row.persona_name)
    return (yield from ask(row.user_input, [persona], target, plan_after(plan, row)))[0]


def _searching_settings(project: Project, target: Target) -> Mapping[str, Any]:
    """Return everything besides the section `retrieve` that determines what is retrieved.

    These are the settings of the index, the sections of stages and channels in use, and a glossary.
    A mined glossary is left out: the snapshot determines it.
    """
    settings = project.settings
    built: dict[str, Any] = {"index": index_settings(settings)}
    for name in list_served_sections(settings.retrieve):
        if name not in SERVED_SECTIONS:
            built[name] = list_changed_options(settings.section(name))
    if target.glossary is None or is_mined(project.settings.retrieve.glossary):
        return built
    return built | {"glossary": text_hash(target.glossary.to_json())}


def answering_settings(
    project: Project, personas: Iterable[str], plan: AskPlan
) -> Mapping[str, Any]:
    """Return everything besides retrieval that determines an answer: settings and their files.

    For a database on a server only the schema is known.
    """
    settings = project.settings
    names = {settings.answer.persona, *personas} - {""}
    personas_by_name = project.personas if names else {}
    template = read_prompt(plan.prompt).fingerprint
    files: dict[str, Any] = {"template": template} if template else {}
    if plan.guard is not None:
        files["promise"] = {
            "line": plan.guard.sentence(project.target().snapshot),
            "score": plan.guard.score,
            "threshold": plan.guard.threshold,
        }
    if plan.databases:
        files["databases"] = project.databases.fingerprints()
    return files | {
        "answer": list_changed_options(settings.answer),
        "prompt": list_changed_options(settings.prompt),
        "personas": value_hash(
            [asdict(personas_by_name[name]) for name in sorted(names & personas_by_name.keys())]
        ),
    }


def check_models(models: Models, measures: Sequence[Measure], setup: MeasureSetup) -> None:
    """Refuse a model without a provider or folder, before a row reaches it.

    Raises:
        ConfigError: A measure uses a model whose provider is unknown, or a folder without a
            transformer.
    """
    fields = {field for measure in measures for field in model_fields(measure.definition)}
    for field in sorted(fields):
        name = str(getattr(setup, field))
        if name and field == "token_model":
            transformer_folder(models.folder(name), "BERTScore and MoverScore")
        elif name:
            models.settings_of(name)


def judging(project: Project, measures: str | Iterable[Measure | str] = ()) -> MeasureSetup:
    """Return the judge's settings, with the rubrics in the project folder.

    The window is that of the judge's model if the section `judge` has none. If ``measures`` name
    ``QADistance`` and no ``judge.embedder`` is set, `embed.model` makes its vectors.
    """
    setup = project.settings.judge
    names = measures.split(",") if isinstance(measures, str) else map(str, measures)
    if not setup.embedder and "QADistance" in map(str.strip, names):
        setup = replace(setup, embedder=project.settings.embed.model)
    window = setup.window
    if window is None and setup.model:
        window = project.models.settings_of(setup.model).context_window
    return replace(
        setup, rubrics={**load_rubrics(project.folder.root), **setup.rubrics}, window=window
    )


def measures_of_answers(
    project: Project, rows: Iterable[Row], measures: str | Sequence[Measure]
) -> tuple[tuple[Measure, ...], tuple[Measure, ...]]:
    """Split the measures of an evaluation into those that read the answer, and the others.

    Raises as :func:`choose_measures`.
    """
    answered_rows = _as_answered(rows, near=bool(project.target().model))
    all_measures = choose_measures(
        measures, answered_rows, judging(project), project.settings.retrieve.top_k
    ).measures
    reading = tuple(measure for measure in all_measures if measure.definition.reads("response"))
    return reading, tuple(measure for measure in all_measures if measure not in reading)


def choose_measures(
    measures: str | Sequence[Measure],
    rows: Iterable[Row],
    setup: MeasureSetup,
    hits: int | None = None,
) -> ChosenMeasures:
    """Return the named measures, or those that suit the rows.

    Raises:
        MeasureError: A name is wrong.
        TestsetError: No measure is named, and none suits.
    """
    if measures:
        return ChosenMeasures(set_rubric_scales(parse_measures(measures), setup.rubrics))
    defaults = default_measures(rows, setup, hits=hits)
    if not defaults.measures:
        raise TestsetError(
            "no measure is possible for these rows",
            hint="they need a reference, passages or ids in addition to the response: "
            "see `ragwright measures`",
        )
    return defaults


def _note_unknown_gold(project: Project, testset: Testset) -> Testset:
    """Add a note if gold is not in the index.

    Raises:
        TestsetError: No gold is in the index: every measure would be 0 for the wrong reason.
    """
    gold = {name for row in testset.rows for name in row.reference_ids}
    gold |= {span.document_id for row in testset.rows for span in row.reference_spans}
    missing = gold - set(project.store.content_hashes(project.index_spec))
    if gold and missing == gold:
        raise TestsetError(
            f"none of the {len(gold)} gold documents is in the index",
            where=testset.name,
            hint="ingest the collection that this testset belongs to",
        )
    if not missing:
        return testset
    note = f"{len(missing)} of {len(gold)} gold documents are not in the index"
    return replace(testset, notes=(*testset.notes, note))


def _shallow_note(testset: Testset, measures: Sequence[Measure], top_k: int) -> str:
    """Return a note if a cutoff on gold spans exceeds the passages of an answer."""
    deeper = [str(m) for m in measures if _ranks(m) and (m.cutoff is None or m.cutoff > top_k)]
    if not deeper or not any(row.reference_spans for row in testset.rows):
        return ""
    return (
        f"{', '.join(deeper)}: gold spans are counted in the passages of the answer, at most "
        f"{top_k} (retrieve.top_k); --retrieval-only ranks deeper"
    )


_TESTED: Mapping[str, tuple[str, ...]] = {
    "noise": ("Contains", "FalseRejectionRate"),
    "rejection": ("RejectionRate", "Contains"),
    "integration": ("Contains",),
    "counterfactual": ("ErrorDetection", "ErrorCorrection", "ErrorCorrection(all)", "Contains"),
    "sources": ("Contains",),
}
"""Measures that the curves of each suite need."""

_SUITE_NOTE = (
    "rows of capability suites: means over all doses are not informative; "
    "`ragwright suite curves` shows each dose"
)


@refuse_forget("eval")
def evaluate_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
) -> tuple[Evaluation, RunSummary]:
    """Run a testset through a project: rows of suites with their passages, others by retrieval."""
    return run_plan(project, _plan_testset(project, testset, measures, options), options)


def forecast_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_testset`."""
    return forecast_plan(project, _plan_testset(project, testset, measures, options))


def _plan_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
) -> RowPlan[Testset]:
    """Plan an evaluation; that of a suite needs no index."""
    rows, measures = _read_testset(project, testset, measures)
    if not all_given(rows.rows, rows.name):
        return plan_evaluation(project, rows, measures, options)
    if not options.answers:
        raise TestsetError(
            "rows of a capability suite have their own passages: retrieval is not run for it",
            where=rows.name,
            hint="leave out --retrieval-only",
        )
    setup = judging(project)
    wanted_measures = _suite_measures(rows.rows, measures)
    check_setup(wanted_measures, setup)
    plan = project.plan()
    personas = {name: project.persona(name) for name in {row.persona_name for row in rows.rows}}

    def make_flow(row: Row) -> Flow[RowResult]:
        persona = personas[row.persona_name]
        asking = partial(answer_from_given, persona=persona, plan=plan)
        return answer_and_score_row(row, asking, wanted_measures, setup, count=project.count)

    manifest = {**answering_settings(project, personas, plan), "given": True}
    rows = add_row_notes(rows, _SUITE_NOTE)
    return plan_rows("eval", rows, wanted_measures, setup, make_flow, manifest)


def _suite_measures(rows: Sequence[Row], measures: str | Sequence[Measure]) -> tuple[Measure, ...]:
    """Return the named measures, and those needed for the curves of the suites."""
    complete = list(parse_measures(measures)) if measures else []
    suites = {str(row.metadata["suite"]) for row in rows}
    tested = (name for suite, names in _TESTED.items() if suite in suites for name in names)
    for name in (*dict.fromkeys(tested), "Contains"):
        measure = parse_measure(name)
        if measure not in complete:
            complete.append(measure)
    return tuple(complete)
