"""`tune ranker`: learn an order of the hits on the tune split, and write it if it wins."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import ConfigError, Row, text_hash
from ..flow import Flow, Lookup, LookupReply, gather, send
from ..project import at_work
from ..retrieve import (
    FEATURES,
    Asked,
    ExpandOptions,
    IterateOptions,
    Ranker,
    RerankOptions,
    Retrieved,
    RetrieveOptions,
    SelectOptions,
    Target,
    features,
    retrieve,
)
from ..testsets import (
    Testset,
    fold_clusters,
    gold_chunks,
    graded_documents,
    project_testset,
    with_current_gold,
)
from ._questions import standalone_questions
from ._ranker_fit import FOLDS, SETTINGS, RankedQuestion, RankerFit, fit_ranker
from ._tuned import HoldOut, TrainingFigures, Tuned, TunedTable, held_out, held_out_card

if TYPE_CHECKING:
    from ..project import Project

_MOST_GRADE = 4


@dataclass(frozen=True, slots=True)
class RankerTuning:
    """Options of tuning a ranker.

    Attributes:
        output: File to write, relative to the project folder; empty names one in ``rankers/``.
        measure: Ranking measure that decides on the held-out questions.
        depth: Hits of the search that it orders.
        seed: Seed of folds, trees and intervals.
        cluster: What dependent held-out questions have in common.
    """

    output: str = ""
    measure: str = "MRR@10"
    depth: int = 50
    seed: int = 0
    cluster: str = ""


@at_work("tune")
def tune_ranker(project: Project, testset: str, options: RankerTuning | None = None) -> Tuned:
    """Learn a ranking of the search's hits on the tune split, and write it if it wins.

    Each training question is searched as the project does, without reranking and selection; the
    trees learn from the features of its first ``depth`` hits. The held-out comparison searches as
    the project does, with and without the ranker, on the confirm split.

    Raises:
        MissingExtraError: LightGBM is not installed.
        ConfigError: A ranker is in use already, or an own retriever, which a ranker cannot order.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few training questions have gold among their hits.
        StoppedError: The budget or a key stopped it.
    """
    options = options or RankerTuning()
    _check_unranked(project)
    rows, left_out = standalone_questions(
        project_testset(project.folder, testset, "tune", purpose="tune")
    )
    questions, mode, encoders = _ranked_questions(
        project, with_current_gold(project.store, rows), options
    )
    fit = fit_ranker(questions, options.seed)
    gold_note = f"{len(questions)} of {len(rows.rows)} training questions have gold in the index"
    notes = (*left_out, gold_note)
    tuned = replace(_ranker_result(fit, mode, options), notes=notes)
    if fit.after <= fit.before:
        return tuned
    card: dict[str, Any] = {
        "model": project.settings.embed.model,
        "testset": testset,
        "questions": fit.questions,
        "seed": options.seed,
        "settings": dict(SETTINGS),
        "mrr_before": fit.before,
        "mrr_cross_validated": fit.after,
        "features": {effect.name: effect.gain for effect in fit.effects},
    }
    embedder = project.pair.embedder if mode != "keyword" else ""
    ranker = Ranker(fit.trees, options.depth, mode, embedder, card, encoders=encoders)
    digest = text_hash(fit.trees.value.tobytes().hex() + fit.trees.threshold.tobytes().hex())[:12]
    trial = project.folder.cache / f"ranker-{digest}.json"
    ranker.save(trial)
    try:
        rule = HoldOut(testset, options.measure, options.seed, options.cluster)
        comparison, opened = held_out(project, [f"retrieve.ranker={json.dumps(str(trial))}"], rule)
    finally:
        trial.unlink(missing_ok=True)
    tuned = replace(tuned, comparison=comparison, notes=(*tuned.notes, *opened))
    if comparison.verdict != "better":
        return tuned
    path = project.folder.root / (options.output or f"rankers/{digest}.json")
    replace(ranker, card={**card, "held_out": held_out_card(comparison)}).save(path)
    return replace(tuned, path=path)


def _check_unranked(project: Project) -> None:
    settings = project.settings.retrieve
    where = str(project.folder.file)
    if settings.ranker:
        raise ConfigError(
            f"retrieve.ranker is {settings.ranker} already",
            where=where,
            hint="add --set retrieve.ranker= to make one from the search alone",
        )
    if settings.retriever:
        raise ConfigError(
            f"a ranker orders the hits of ragwright's own search, and retrieve.retriever is "
            f"{settings.retriever}",
            where=where,
            hint="add --set retrieve.retriever= to search with ragwright",
        )


def _ranked_questions(
    project: Project, rows: Testset, options: RankerTuning
) -> tuple[list[RankedQuestion], str, dict[str, str]]:
    """Return features and grades of the hits of each question with gold; the search's mode; the
    encoders of its channels.
    """
    target = replace(project.target(), ranker=None)
    search = replace(
        project.settings.retrieve,
        top_k=options.depth,
        context_tokens=None,
        rerank=RerankOptions(),
        select=SelectOptions(),
        expand=ExpandOptions(),
        iterate=IterateOptions(),
    )
    clusters = fold_clusters(rows.rows, FOLDS)

    def question_of_row(row: Row) -> Flow[tuple[RankedQuestion, Retrieved] | None]:
        gold = yield from gold_chunks(row, target)
        if not gold:
            return None
        return (yield from _ranked_question(row, gold, target, search, clusters[row.id]))

    by_row = project.runner.run(gather(question_of_row(row) for row in rows.rows))
    ranked = [question for question in by_row if question is not None]
    modes = sorted({retrieved.mode for _, retrieved in ranked})
    names = {name for _, retrieved in ranked for name in retrieved.explanation.weights}
    encoders = target.searched_encoders({*modes, *names})
    return [question for question, _ in ranked], modes[0] if modes else "", encoders


def _ranked_question(
    row: Row, gold: frozenset[str], target: Target, search: RetrieveOptions, cluster: str
) -> Flow[tuple[RankedQuestion, Retrieved]]:
    retrieved = yield from retrieve(row.user_input, target, search)
    hits = retrieved.hits
    if not hits:
        empty = np.zeros((0, len(FEATURES))), np.zeros(0, np.int64)
        return RankedQuestion(*empty, cluster), retrieved
    keys = tuple(hit.chunk_id for hit in hits)
    uses_vectors = (
        retrieved.mode != "keyword"
    )  # a ranker of keyword search belongs to no embedding model
    reply = yield from send(Lookup(target.snapshot, keys, vectors=uses_vectors), LookupReply)
    asked_query = Asked.of(retrieved.query, retrieved.explanation.terms, target.analyzer)
    grades = np.zeros(len(hits), np.int64)
    documents = {} if row.reference_spans else graded_documents(row)
    seen: set[str] = set()
    for position, hit in enumerate(hits):
        if hit.chunk_id not in gold:
            continue
        grade = row.reference_ids[hit.document_id] if hit.document_id in documents else 1
        # Measures of documents count only the best chunk of a document.
        is_repeated = hit.document_id in documents and hit.document_id in seen
        grades[position] = -1 if is_repeated else min(int(np.ceil(grade)), _MOST_GRADE)
        seen.add(hit.document_id)
    table = features(hits, asked_query, reply.vectors)
    return RankedQuestion(table, grades, cluster), retrieved


def _ranker_result(fit: RankerFit, mode: str, options: RankerTuning) -> Tuned:
    figures = TrainingFigures(
        fit.questions,
        "MRR@10",
        fit.before,
        fit.after,
        settings={"mode": mode, "depth": options.depth, **SETTINGS},
    )
    columns = ("feature", "share of gain", "direction", "MRR@10 without it", "what it is")
    rows = [
        (effect.name, effect.gain, effect.direction, effect.without, FEATURES[effect.name])
        for effect in fit.effects
        if effect.gain
    ]
    effects = TunedTable("features", columns, tuple(rows))
    return Tuned("ranker", "retrieve.ranker", None, mode, figures, tables=(effects,))
