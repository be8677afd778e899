"""`tune ranker`: learn an order of the hits on the tune split, keep it if it wins on the other."""

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
from ._ranker_fit import FOLDS, SETTINGS, RankedQuestion, RankerFit, fit_ranker
from ._tuned import HoldOut, TrainingFigures, Tuned, TunedTable, held_out, held_out_card

if TYPE_CHECKING:
    from ..project import Project

_MOST_GRADE = 4


@dataclass(frozen=True, slots=True)
class RankerTuning:
    """How a ranker is made.

    Attributes:
        output: File to write, relative to the project folder; empty names one in ``rankers/``.
        measure: Ranking measure that decides on the held-out questions.
        depth: Hits of the search that it orders.
        seed: Seed of folds, trees and intervals.
        cluster: What held-out questions share that are not independent.
    """

    output: str = ""
    measure: str = "MRR@10"
    depth: int = 50
    seed: int = 0
    cluster: str = ""


@at_work("tune")
def tune_ranker(project: Project, testset: str, how: RankerTuning | None = None) -> Tuned:
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
    options = how or RankerTuning()
    _check(project)
    rows = project_testset(project.folder, testset, "tune", purpose="tune")
    questions, mode, gold = _questions(project, with_current_gold(project.store, rows), options)
    fit = fit_ranker(questions, options.seed)
    notes = (f"{gold} of {len(rows.rows)} training questions have gold in the index",)
    found = replace(_result(fit, mode, options), notes=notes)
    if fit.after <= fit.before:
        return found
    card: dict[str, Any] = {
        "model": project.settings.embed.model,
        "testset": testset,
        "questions": fit.questions,
        "seed": options.seed,
        "settings": dict(SETTINGS),
        "mrr_before": fit.before,
        "mrr_cross_validated": fit.after,
        "features": {one.name: one.gain for one in fit.effects},
    }
    embedder = project.pair.embedder if mode != "keyword" else ""
    ranker = Ranker(fit.trees, options.depth, mode, embedder, card)
    digest = text_hash(fit.trees.value.tobytes().hex() + fit.trees.threshold.tobytes().hex())[:12]
    trial = project.folder.cache / f"ranker-{digest}.json"
    ranker.save(trial)
    try:
        rule = HoldOut(testset, options.measure, options.seed, options.cluster)
        comparison, opened = held_out(project, [f"retrieve.ranker={json.dumps(str(trial))}"], rule)
    finally:
        trial.unlink(missing_ok=True)
    found = replace(found, comparison=comparison, notes=(*found.notes, *opened))
    if comparison.verdict != "better":
        return found
    path = project.folder.root / (options.output or f"rankers/{digest}.json")
    replace(ranker, card={**card, "held_out": held_out_card(comparison)}).save(path)
    return replace(found, path=path)


def _check(project: Project) -> None:
    now = project.settings.retrieve
    where = str(project.folder.file)
    if now.ranker:
        raise ConfigError(
            f"retrieve.ranker is {now.ranker} already",
            where=where,
            hint="add --set retrieve.ranker= to make one from the search alone",
        )
    if now.retriever:
        raise ConfigError(
            f"a ranker orders the hits of ragwright's own search, and retrieve.retriever is "
            f"{now.retriever}",
            where=where,
            hint="add --set retrieve.retriever= to search with ragwright",
        )


def _questions(
    project: Project, rows: Testset, options: RankerTuning
) -> tuple[list[RankedQuestion], str, int]:
    """Features and grades of the hits of each question with gold, and the searched channels."""
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

    def each(row: Row) -> Flow[tuple[RankedQuestion, str] | None]:
        gold = yield from gold_chunks(row, target)
        if not gold:
            return None
        return (yield from _asked(row, gold, target, search, clusters[row.id]))

    found = project.runner.run(gather(each(row) for row in rows.rows))
    kept = [one for one in found if one is not None]
    modes = sorted({mode for _, mode in kept})
    return [one for one, _ in kept], modes[0] if modes else "", len(kept)


def _asked(
    row: Row, gold: frozenset[str], target: Target, search: RetrieveOptions, cluster: str
) -> Flow[tuple[RankedQuestion, str]]:
    found = yield from retrieve(row.user_input, target, search)
    hits = found.hits
    if not hits:
        none = np.zeros((0, len(FEATURES))), np.zeros(0, np.int64)
        return RankedQuestion(*none, cluster), found.mode
    keys = tuple(hit.chunk_id for hit in hits)
    near = found.mode != "keyword"  # a ranker of keyword search belongs to no embedding model
    reply = yield from send(Lookup(target.snapshot, keys, vectors=near), LookupReply)
    asked = Asked.of(found.query, found.explanation.terms, target.analyzer)
    grades = np.zeros(len(hits), np.int64)
    documents = {} if row.reference_spans else graded_documents(row)
    seen: set[str] = set()
    for at, hit in enumerate(hits):
        if hit.chunk_id not in gold:
            continue
        grade = row.reference_ids[hit.document_id] if hit.document_id in documents else 1
        # Measures of documents count the best chunk of a document; the others teach nothing.
        again = hit.document_id in documents and hit.document_id in seen
        grades[at] = -1 if again else min(int(np.ceil(grade)), _MOST_GRADE)
        seen.add(hit.document_id)
    return RankedQuestion(features(hits, asked, reply.vectors), grades, cluster), found.mode


def _result(fit: RankerFit, mode: str, options: RankerTuning) -> Tuned:
    figures = TrainingFigures(
        fit.questions,
        "MRR@10",
        fit.before,
        fit.after,
        settings={"mode": mode, "depth": options.depth, **SETTINGS},
    )
    columns = ("feature", "share of gain", "direction", "MRR@10 without it", "what it is")
    rows = [
        (one.name, one.gain, one.direction, one.without, FEATURES[one.name])
        for one in fit.effects
        if one.gain
    ]
    effects = TunedTable("features", columns, tuple(rows))
    return Tuned("ranker", "retrieve.ranker", None, mode, figures, tables=(effects,))
