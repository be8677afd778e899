"""`tune embedder` and `tune reranker`: train, and write the model if it wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError, Row, case_folded, require, text_hash
from ..flow import Flow, gather
from ..index import View
from ..models import VectorRule, open_trainable, open_trainable_reranker
from ..project import Project, refuse_forget
from ..retrieve import IterateOptions, RerankOptions, SelectOptions, rerank_method, retrieve, rrf
from ..testsets import gold_chunks, split_clusters
from ._course import Kind, tune_model
from ._questions import HeldBackQuestions, ModelTuneOptions, Negatives, Pair, enough, passage_texts
from ._trainer import Lesson, training_setup
from ._tutorial import TunedTable, TuneResult

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Weights of the search's own order (``retrieve.rerank.search_weight``) that are tried."""

_CUTOFF = 10


@refuse_forget("tune")
def tune_reranker(
    project: Project, testset: str = "", options: ModelTuneOptions | None = None
) -> TuneResult:
    """Train a cross-encoder that reorders the hits, and write it if it wins held-out questions.

    It starts from ``options.base``; by default from the present reranking model, else from the
    embedding model, which gets a new head that scores pairs. The weight of the search's own order
    (``retrieve.rerank.search_weight``) is chosen with it, on questions that were not trained on.

    Args:
        project: The project, without or with a reranking model; the search without the new model
            is the one to beat.
        testset: Questions with gold: the tune split is trained on, the confirm split decides.
            Without one, questions are made from the documents and split by document.
        options: Sources and settings.

    Raises:
        ConfigError: There is no model to start from, or it cannot be trained to score pairs.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    return tune_model(_Reranker(project, options or ModelTuneOptions()), testset)


class _Reranker(Kind):
    part = "reranker"
    setting = "retrieve.rerank.model"
    measure = "MRR@10, reranked"
    title = "A reranking model trained on a project's own questions"

    def __init__(self, project: Project, options: ModelTuneOptions) -> None:
        super().__init__(project, options)
        self._has_head = False

    @property
    def base(self) -> str:
        """The base, as :func:`tune_reranker` chooses it."""
        rerank, embed = self.project.settings.retrieve.rerank, self.project.settings.embed
        local = rerank.model.startswith(("st:", "hf:", "onnx:"))
        return self.options.base or (rerank.model if local else "") or embed.model

    def check(self) -> str:
        """Return the source of the weights; raises ConfigError as :func:`tune_reranker`."""
        settings = self.project.settings.retrieve
        method = settings.rerank.method
        if not self.base:
            raise ConfigError(
                "no model is set to start from",
                where=str(self.project.folder.file),
                hint="add --base hf:ORG/NAME or --base st:FOLDER: a cross-encoder, or any encoder",
            )
        trial = replace(settings.rerank, model="st:trial")
        if rerank_method(trial) != "score":
            raise ConfigError(
                f"a trained reranker scores, and retrieve.rerank.method is {method}",
                where=str(self.project.folder.file),
                hint="set retrieve.rerank.method: auto",
            )
        return self.project.models.trainable(self.base)

    def open(self, source: str) -> Any:
        """Open the cross-encoder, with a new head if the base has none."""
        model, self._has_head = open_trainable_reranker(source, self.options.training.seed)
        return model

    def pairs(self, rows: Sequence[Row], negatives: Negatives) -> list[Pair]:
        """Return pairs with the hits of the project's search."""
        return search_pairs(self.project, rows, negatives, self.options.training.seed)

    def unseen(self, pairs: Sequence[Pair]) -> HeldBackQuestions:
        """Return questions with the hits to reorder."""
        return search_unseen(self.project, pairs)

    def lesson(self, model: Any, pairs: Sequence[Pair], unseen: HeldBackQuestions) -> Lesson:
        """Return labelled pairs with the binary cross-entropy of each."""
        losses = require("sentence_transformers.cross_encoder.losses", "train", "training a model")
        rows = [
            (pair.question, text, float(not at))
            for pair in pairs
            for at, text in enumerate((pair.positive, *pair.negatives))
        ]
        names = ("question", "passage", "label")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        loss = losses.BinaryCrossEntropyLoss(model)
        alone = _mrr(list(map(_rank, unseen.hits, unseen.gold)))
        return Lesson(
            model,
            "CrossEncoder",
            columns,
            loss,
            lambda m: max(self._by_weight(m, unseen).values()),
            least=alone,
            fresh=not self._has_head,
        )

    @property
    def mergeable(self) -> bool:
        """False for a new head: the weights before training are random."""
        return self._has_head

    def mrr(self, model: Any, questions: HeldBackQuestions) -> float:
        """Return MRR@10 of the questions with the best weight of the search's order."""
        with training_setup(model, self.options.training):
            return max(self._by_weight(model, questions).values())

    def settle(self, model: Any, tuned: TuneResult, unseen: HeldBackQuestions) -> TuneResult:
        """Choose the weight of the search's order: the best one for the unseen questions."""
        with training_setup(model, self.options.training):
            by_weight = self._by_weight(model, unseen)
        weight = max(WEIGHTS, key=lambda weight: (by_weight[weight], -weight))
        alone = _mrr(list(map(_rank, unseen.hits, unseen.gold)))
        rows: list[tuple[str | float, float]] = [*by_weight.items(), ("search alone", alone)]
        columns = ("weight of the search", "unseen MRR@10")
        table = TunedTable("search_weight", columns, tuple(rows))
        figures = replace(tuned.training, after=by_weight[weight])
        return replace(
            tuned, training=figures, tables=(*tuned.tables, table), beside={"search_weight": weight}
        )

    def _by_weight(self, model: Any, questions: HeldBackQuestions) -> dict[float, float]:
        """Return MRR@10 of the reordered hits, by weight of the search's own order."""
        texts = [
            (question, questions.passages[key])
            for question, hits in zip(questions.questions, questions.hits, strict=True)
            for key in hits
        ]
        batch = self.options.training.batch
        predicted = (
            model.predict(texts, batch_size=batch, show_progress_bar=False).tolist()
            if texts
            else ()
        )
        scores = iter(predicted)
        ranks: dict[float, list[int]] = {weight: [] for weight in WEIGHTS}
        for hits, gold in zip(questions.hits, questions.gold, strict=True):
            by_model = {key: round(next(scores), 6) for key in hits}
            reordered = sorted(hits, key=lambda key: -by_model[key])
            for weight in WEIGHTS:
                final: Sequence[str] = reordered
                if weight:
                    fused = dict(rrf([reordered, hits], weights=(1.0, weight)))
                    final = sorted(hits, key=lambda key: -fused[key])
                ranks[weight].append(_rank(final, gold))
        return {weight: _mrr(places) for weight, places in ranks.items()}


def _rank(hits: Sequence[str], gold: frozenset[str]) -> int:
    """Return the rank of the first hit that answers; 0 if none of the first ten does."""
    return next((at for at, key in enumerate(hits[:_CUTOFF], 1) if key in gold), 0)


def _mrr(ranks: Sequence[int]) -> float:
    return math.fsum(1 / rank for rank in ranks if rank) / max(1, len(ranks))


@refuse_forget("tune")
def tune_embedder(
    project: Project, testset: str = "", options: ModelTuneOptions | None = None
) -> TuneResult:
    """Fine-tune the embedding model, and write it if it wins on held-out questions.

    With ``options.keep`` it is always written; its card then states that it is not proven better,
    as do `doctor` and every evaluation with it.

    Args:
        project: The project; ``embed.model`` is the model to start from.
        testset: Questions with gold: the tune split is trained on, the confirm split decides.
            Without one, questions are made from the documents and split by document.
        options: Sources and settings.

    Raises:
        ConfigError: No embedding model is set, or it cannot be trained.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    return tune_model(_Embedder(project, options or ModelTuneOptions()), testset)


class _Embedder(Kind):
    part = "embedder"
    setting = "embed.model"
    measure = "MRR@10, dense"
    title = "A fine-tuned embedding model"

    @property
    def base(self) -> str:
        return self.project.settings.embed.model

    def check(self) -> str:
        """Return the source of the weights; raises ConfigError as :func:`tune_embedder`."""
        project = self.project
        if not self.base:
            raise ConfigError(
                "no embedding model is set to start from",
                where=str(project.folder.file),
                hint="set embed.model, for example hf:sentence-transformers/all-MiniLM-L6-v2",
            )
        return project.models.trainable(self.base)

    def open(self, source: str) -> Any:
        return open_trainable(source, self._rule)

    @property
    def _rule(self) -> VectorRule:
        return self.project.models.vector_rule(self.base)

    def lesson(self, model: Any, pairs: Sequence[Pair], unseen: HeldBackQuestions) -> Lesson:
        """Return pairs, or triplets where passages that do not answer were mined.

        The loss is the cross-entropy of the passage among all passages of the batch (Henderson et
        al. 2017, arXiv:1705.00652).
        """
        losses = require(
            "sentence_transformers.sentence_transformer.losses", "train", "training a model"
        )
        rule = self._rule
        columns: dict[str, Sequence[Any]] = {
            "anchor": [rule.query_prefix + pair.question for pair in pairs],
            "positive": [rule.passage_prefix + pair.positive for pair in pairs],
        }
        if all(pair.negatives for pair in pairs):
            columns["negative"] = [rule.passage_prefix + pair.negatives[0] for pair in pairs]
        loss = losses.MultipleNegativesRankingLoss(model)
        if rule.similarity != "cosine":
            util = require("sentence_transformers.util", "train", "training a model")
            # The scale of cosines would saturate products of long vectors.
            loss = losses.MultipleNegativesRankingLoss(
                model, scale=1.0, similarity_fct=util.dot_score
            )
        evaluator = self._evaluator(model, unseen)
        return Lesson(model, "SentenceTransformer", columns, loss, lambda m: _mrr_of(evaluator, m))

    def mrr(self, model: Any, questions: HeldBackQuestions) -> float:
        with training_setup(model, self.options.training):
            return _mrr_of(self._evaluator(model, questions), model)

    def _evaluator(self, model: Any, unseen: HeldBackQuestions) -> Any:
        """Return an evaluator for MRR@10 of the questions, among the passages of the pool."""
        evaluation = require(
            "sentence_transformers.sentence_transformer.evaluation", "train", "training a model"
        )
        rule = self._rule
        gold = [sorted(set(gold) & unseen.passages.keys()) for gold in unseen.gold]
        return evaluation.InformationRetrievalEvaluator(
            {str(at): rule.query_prefix + text for at, text in enumerate(unseen.questions)},
            {key: rule.passage_prefix + text for key, text in unseen.passages.items()},
            {str(at): set(keys) for at, keys in enumerate(gold)},
            name="unseen",
            batch_size=self.options.training.batch,
            mrr_at_k=[10],
            write_csv=False,
            score_functions={"model": model.similarity},
        )

    def withdraw(self, variant: Project) -> None:
        store = self.project.store
        if variant.index_spec != self.project.index_spec:
            store.remove(sorted(store.content_hashes(variant.index_spec)), variant.index_spec)

    def digest(self, trial: Path, variant: Project) -> str:
        return text_hash(variant.index_spec.embedder)[:8]


def _mrr_of(evaluator: Any, model: Any) -> float:
    return float(evaluator(model)["unseen_model_mrr@10"])


NEGATIVES = 4
"""Passages that do not answer, for each training question of a reranker."""


_REORDERED = 15
"""First hits that a question which is not trained on has reordered: scoring pairs is slow."""


def search_pairs(
    project: Project, rows: Sequence[Row], negatives: Negatives, seed: int
) -> list[Pair]:
    """Return pairs of the rows whose gold is in the index, with hits that do not answer.

    The search is the project's, without reranking and selection, to ``retrieve.rerank.candidates``
    hits. Of several chunks that answer, the first one that it finds is used. Wrong passages are
    drawn from its hits, or with ``random`` from all chunks: up to four, without those that have the
    text of one that answers.

    Raises:
        TestsetError: Fewer than 20 pairs.
    """
    target = project.target()
    options = project.settings.retrieve
    search = replace(
        options,
        top_k=options.rerank.candidates,
        context_tokens=None,
        rerank=RerankOptions(),
        select=SelectOptions(),
        iterate=IterateOptions(),
    )

    def search_for(row: Row) -> Flow[tuple[Row, frozenset[str], tuple[str, ...]]]:
        gold = yield from gold_chunks(row, target)
        if not gold:
            return row, gold, ()
        retrieved = yield from retrieve(row.user_input, target, search)
        return row, gold, tuple(hit.chunk_id for hit in retrieved.hits)

    questions = project.runner.run(gather(search_for(row) for row in rows))
    answered = [question for question in questions if question[1]]
    clusters = split_clusters([row for row, _, _ in answered])
    sampler = _NegativeSampler(project.views.view(target.snapshot), negatives, seed)
    kept: dict[tuple[str, str], Pair] = {}
    for row, gold, hits in answered:
        pair = sampler.pair(row, gold, hits, clusters[row.id])
        if pair.negatives or negatives == "none":
            kept.setdefault((pair.question, pair.positive), pair)
    return enough(list(kept.values()), len(rows), len(answered))


class _NegativeSampler:
    """Draws passages that do not answer."""

    def __init__(self, view: View, kind: Negatives, seed: int) -> None:
        self._view = view
        self._kind = kind
        self._random = np.random.default_rng(seed)
        self._chunks = view.every(1_000_000) if kind == "random" else ()

    def pair(self, row: Row, gold: frozenset[str], hits: tuple[str, ...], cluster: str) -> Pair:
        keys = [key for key in hits if key in gold] or sorted(gold)
        texts = passage_texts(self._view, keys)
        negatives: tuple[str, ...] = ()
        if self._kind != "none":
            pool = hits if self._kind == "hard" else self._chunks
            order = self._random.permutation(len(pool))[: 4 * NEGATIVES]
            drawn = [pool[int(at)] for at in order if pool[int(at)] not in gold]
            answering = {case_folded(text) for text in texts}
            wrong = passage_texts(self._view, drawn)
            negatives = tuple(t for t in wrong if case_folded(t) not in answering)[:NEGATIVES]
        source = str(row.metadata.get("source") or "testset")
        return Pair(row.user_input, texts[0], gold, source, cluster, negatives, hits)


def search_unseen(project: Project, pairs: Sequence[Pair]) -> HeldBackQuestions:
    """Return the questions of pairs that are not trained on, and the first 15 hits to reorder."""
    view = project.views.view(project.target().snapshot)
    hits = tuple(pair.near[:_REORDERED] for pair in pairs)
    names = sorted({key for keys in hits for key in keys})
    return HeldBackQuestions(
        tuple(pair.question for pair in pairs),
        tuple(pair.gold for pair in pairs),
        dict(zip(names, passage_texts(view, names), strict=True)),
        hits,
    )
