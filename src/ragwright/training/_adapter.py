"""`tune adapter`: fit on the tune split, and write the adapter if it wins on the confirm split."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import ConfigError, text_hash
from ..flow import embed, gather
from ..project import at_work
from ..retrieve import Adapter
from ..testsets import Testset, fold_clusters, gold_chunks, project_testset, with_current_gold
from ._adapter_fit import FOLDS, AdapterFit, Matrix, fit_adapter
from ._questions import standalone_questions
from ._tuned import HoldOut, TrainingFigures, Tuned, held_out, held_out_card

if TYPE_CHECKING:
    from ..project import Project

_DEPTH = 10
_BLOCK = 64


@dataclass(frozen=True, slots=True)
class AdapterTuning:
    """Options of tuning an adapter.

    Attributes:
        output: File to write, relative to the project folder; empty names one in ``adapters/``.
        measure: Ranking measure that decides on the held-out questions.
        seed: Seed of folds and intervals.
        cluster: What dependent held-out questions have in common.
    """

    output: str = ""
    measure: str = "MRR@10"
    seed: int = 0
    cluster: str = ""


@at_work("tune")
def tune_adapter(project: Project, testset: str, options: AdapterTuning | None = None) -> Tuned:
    """Fit a linear adapter on the tune split, and write it if it wins on the confirm split.

    No passage is embedded again. The held-out comparison searches as the project does, so an
    adapter must improve the whole search, keywords included.

    Raises:
        ConfigError: No embedding model is set, the search uses no vectors, or an adapter is in use
            already.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few training questions have gold in the index, or all share their gold.
        StoppedError: The budget or a key stopped it.
    """
    options = options or AdapterTuning()
    model = _adaptable_model(project)
    rows, left_out = standalone_questions(
        project_testset(project.folder, testset, "tune", purpose="tune")
    )
    fit = _fit_on_rows(project, with_current_gold(project.store, rows), options.seed)
    gold_note = f"{fit.pairs} of {len(rows.rows)} training questions have gold in the index"
    notes = (*left_out, gold_note)
    figures = TrainingFigures(
        fit.pairs, "MRR@10, dense", fit.before, fit.after, settings={"strength": fit.strength}
    )
    tuned = Tuned("adapter", "retrieve.adapter", None, model, figures, notes=notes)
    if fit.after <= fit.before:
        return tuned
    card: dict[str, Any] = {
        "model": model,
        "embedder": project.pair.embedder,
        "testset": testset,
        "pairs": fit.pairs,
        "strength": fit.strength,
        "seed": options.seed,
        "mrr_before": fit.before,
        "mrr_cross_validated": fit.after,
    }
    adapter = Adapter(fit.matrix, card)
    digest = text_hash(fit.matrix.tobytes().hex())[:12]
    path = project.folder.root / (options.output or f"adapters/{digest}.npz")
    trial = project.folder.cache / f"adapter-{digest}.npz"
    adapter.save(trial)
    try:
        rule = HoldOut(testset, options.measure, options.seed, options.cluster)
        comparison, opened = held_out(project, [f"retrieve.adapter={json.dumps(str(trial))}"], rule)
    finally:
        trial.unlink(missing_ok=True)
    tuned = replace(tuned, comparison=comparison, notes=(*notes, *opened))
    if comparison.verdict != "better":
        return tuned
    replace(adapter, card={**card, "held_out": held_out_card(comparison)}).save(path)
    return replace(tuned, path=path)


def _adaptable_model(project: Project) -> str:
    """Return the embedding model, or refuse settings under which no adapter can be made.

    Raises:
        ConfigError: See :func:`tune_adapter`.
    """
    model = project.settings.embed.model
    if not model:
        raise ConfigError(
            "an adapter moves query vectors, and no embedding model is set",
            where=str(project.folder.file),
            hint="set embed.model, for example hf:sentence-transformers/all-MiniLM-L6-v2",
        )
    if project.settings.retrieve.search == "keyword":
        raise ConfigError(
            "an adapter moves query vectors, and the search is by keyword",
            where="retrieve.search",
            hint="use hybrid or dense: --set retrieve.search=hybrid",
        )
    if project.settings.retrieve.adapter:
        raise ConfigError(
            f"retrieve.adapter is {project.settings.retrieve.adapter} already",
            where=str(project.folder.file),
            hint="add --set retrieve.adapter= to make one from the embedding model alone",
        )
    return model


def _fit_on_rows(project: Project, rows: Testset, seed: int) -> AdapterFit:
    target = project.target()
    view = project.views.view(target.snapshot)
    gold_by_row = project.runner.run(gather(gold_chunks(row, target) for row in rows.rows))
    pairs = [(row, chunks) for row, chunks in zip(rows.rows, gold_by_row, strict=True) if chunks]
    rows_with_gold, gold = [row for row, _ in pairs], [chunks for _, chunks in pairs]
    questions = [row.user_input or "" for row in rows_with_gold]
    blocks = [questions[at : at + _BLOCK] for at in range(0, len(questions), _BLOCK)]
    question_vectors = project.runner.run(gather(embed(target.model, block) for block in blocks))
    empty: Matrix = np.zeros((0, target.dimensions), np.float32)
    queries: Matrix = np.concatenate([empty, *question_vectors])
    passages = np.zeros_like(queries)
    for position, chunks in enumerate(gold):
        vectors = view.vectors(sorted(chunks))
        assert vectors is not None, "the index has an embedding model"
        passages[position] = vectors[int(np.argmax(vectors @ queries[position]))]

    def ranked(vectors_to_search: Matrix) -> list[list[str]]:
        lengths = np.maximum(np.linalg.norm(vectors_to_search, axis=1, keepdims=True), 1e-12)
        replies = view.dense(np.asarray(vectors_to_search / lengths, np.float32), _DEPTH)
        return [[chunk for chunk, _ in reply] for reply in replies]

    cluster_of = fold_clusters(rows.rows, FOLDS)
    clusters = [cluster_of[row.id] for row in rows_with_gold]
    return fit_adapter(queries, passages, gold, clusters, ranked, seed)
