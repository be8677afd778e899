"""`tune adapter`: fit on the tune split, keep only what wins on the confirm split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core import ConfigError, Filter, Row, TestsetError, text_hash
from ...flow import RunSummary, embed, gather
from ...measure import Comparison
from ...project import at_work, load_settings
from ...retrieve import Adapter
from ...testsets import Testset, project_testset, with_current_gold
from ..evaluations import Evaluating, Evaluation, compare_evaluations, evaluate_testset
from ._adapter_fit import AdapterFit, Matrix, fit_adapter

if TYPE_CHECKING:
    from ...index import View
    from ...project import Project

_DEPTH = 10
_BLOCK = 64
_CHUNKS = 10_000
"""Most chunks of a question's gold documents that are looked at."""


@dataclass(frozen=True, slots=True)
class AdapterTuning:
    """How an adapter is made.

    Attributes:
        output: File to write, relative to the project folder; empty names one in ``adapters/``.
        measure: Ranking measure that decides on the held-out questions.
        seed: Seed of folds and intervals.
    """

    output: str = ""
    measure: str = "MRR@10"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TunedAdapter:
    """What tuning an adapter came to.

    Attributes:
        path: The file that was written; None where the adapter did not win.
        model: The embedding model.
        fit: What cross-validation on the training questions says.
        comparison: The search with the adapter against the search without, on held-out questions;
            None where cross-validation found no gain, and they were not opened.
        notes: What a reader should know.
    """

    path: Path | None
    model: str
    fit: AdapterFit
    comparison: Comparison | None = None
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The outcome in one sentence."""
        if self.comparison is None:
            return (
                "no adapter: on the training questions none ranks better than the embedding model "
                f"alone (MRR@10 {self.fit.before:.3f}, with an adapter {self.fit.after:.3f})"
            )
        one = self.comparison
        change = f"{one.measure} {one.mean_a:.3f} -> {one.mean_b:.3f} on {one.n} held-out questions"
        if self.path is None:
            return f"no adapter was written: it is not proven better ({change})"
        return f"the adapter is better: {change}"


@at_work("tune")
def tune_adapter(project: Project, testset: str, how: AdapterTuning | None = None) -> TunedAdapter:
    """Fit a linear adapter on the tune split, and write it if it wins on the confirm split.

    No passage is embedded again. The held-out comparison searches as the project does, so an
    adapter must improve the whole search, keywords included.

    Raises:
        ConfigError: No embedding model is set, or an adapter is in use already.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few training questions have gold in the index.
        StoppedError: The budget or a key stopped it.
    """
    options = how or AdapterTuning()
    model = project.settings.embed.model
    if not model:
        raise ConfigError(
            "an adapter moves query vectors, and no embedding model is set",
            where=str(project.folder.file),
            hint="set embed.model, for example hf:sentence-transformers/all-MiniLM-L6-v2",
        )
    if project.settings.retrieve.adapter:
        raise ConfigError(
            f"retrieve.adapter is {project.settings.retrieve.adapter} already",
            where=str(project.folder.file),
            hint="add --set retrieve.adapter= to make one from the embedding model alone",
        )
    rows = project_testset(project.folder, testset, "tune", purpose="tune")
    fit, used = _fitted(project, with_current_gold(project.store, rows), options.seed)
    notes = (f"{used} of {len(rows.rows)} training questions have gold in the index",)
    if fit.after <= fit.before:
        return TunedAdapter(None, model, fit, notes=notes)
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
    beside = path.with_name(f".{path.stem}.{digest}.trial.npz")
    adapter.save(beside)
    try:
        comparison = _held_out(project, testset, beside, options)
    finally:
        beside.unlink(missing_ok=True)
    if comparison.verdict != "better":
        return TunedAdapter(None, model, fit, comparison, notes)
    held = {"measure": comparison.measure, "n": comparison.n, "before": comparison.mean_a}
    held |= {"after": comparison.mean_b, "low": comparison.low, "high": comparison.high}
    replace(adapter, card={**card, "held_out": held}).save(path)
    return TunedAdapter(path, model, fit, comparison, notes)


def _fitted(project: Project, rows: Testset, seed: int) -> tuple[AdapterFit, int]:
    target = project.target()
    view = project.views.view(target.snapshot)
    kept, gold = [], []
    for row in rows.rows:
        chunks = _gold_chunks(view, row)
        if chunks:
            kept.append(row)
            gold.append(chunks)
    questions = [row.user_input or "" for row in kept]
    blocks = [questions[at : at + _BLOCK] for at in range(0, len(questions), _BLOCK)]
    found = project.runner.run(gather(embed(target.model, block) for block in blocks))
    none: Matrix = np.zeros((0, target.dimensions), np.float32)
    queries: Matrix = np.concatenate([none, *found])
    passages = np.zeros_like(queries)
    for at, chunks in enumerate(gold):
        vectors = view.vectors(sorted(chunks))
        assert vectors is not None, "the index has an embedding model"
        passages[at] = vectors[int(np.argmax(vectors @ queries[at]))]

    def ranked(given: Matrix) -> list[list[str]]:
        lengths = np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-12)
        replies = view.dense(np.asarray(given / lengths, np.float32), _DEPTH)
        return [[chunk for chunk, _ in reply] for reply in replies]

    return fit_adapter(queries, passages, [frozenset(g) for g in gold], ranked, seed), len(kept)


def _gold_chunks(view: View, row: Row) -> frozenset[str]:
    """Ids of the chunks that answer a question: those over its spans, else of its documents."""
    spans = row.reference_spans
    names = {span.document_id for span in spans} or set(row.reference_ids)
    if not names:
        return frozenset()
    ids = view.every(_CHUNKS, [Filter("document_id", tuple(sorted(names)))])
    if not spans:
        return frozenset(ids)
    return frozenset(
        hit.chunk_id
        for hit in view.lookup(ids)
        for span in spans
        if hit.document_id == span.document_id and hit.start < span.end and span.start < hit.end
    )


def _held_out(project: Project, testset: str, adapter: Path, options: AdapterTuning) -> Comparison:
    """The search with the adapter against the one without, on the confirm split."""
    rows = project_testset(project.folder, testset, "confirm", purpose="tune")
    over = (*project.session.overrides, f"retrieve.adapter={adapter}")
    adapted = project.variant(load_settings(project.folder.file, over))
    sides: list[Evaluation] = []
    for one in (project, adapted):
        found, summary = evaluate_testset(one, rows, options.measure, Evaluating(seed=options.seed))
        _whole(summary)
        sides.append(found)
    compared = compare_evaluations(*sides, seed=options.seed).measures
    if not compared:
        raise TestsetError(f"no held-out question is scored by {options.measure}")
    return compared[0]


def _whole(summary: RunSummary) -> None:
    """Runs that were cut off cannot be compared."""
    if summary.reason is not None:
        raise summary.reason


def tuned_json(found: TunedAdapter) -> dict[str, Any]:
    """The outcome as JSON."""
    one: Sequence[str] = (
        "measure",
        "n",
        "mean_a",
        "mean_b",
        "difference",
        "low",
        "high",
        "verdict",
    )
    comparison = found.comparison
    return {
        "written": None if found.path is None else str(found.path),
        "model": found.model,
        "headline": found.headline,
        "training": {
            "questions": found.fit.pairs,
            "mrr_before": found.fit.before,
            "mrr_cross_validated": found.fit.after,
            "strength": found.fit.strength,
        },
        "held_out": None
        if comparison is None
        else {name: getattr(comparison, name) for name in one},
        "notes": list(found.notes),
    }
