"""`tune reranker`: train a cross-encoder on what the search finds, and write it if it wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import ConfigError, Row, require
from ..models import open_trainable_reranker
from ..project import Project, refuse_forget
from ..retrieve import rerank_method, rrf
from ._course import Kind, ModelTuneOptions, tune_model
from ._pairs import HeldBackQuestions, MiningOptions, Pair
from ._searched import search_pairs, search_unseen
from ._trainer import Lesson, training_setup
from ._tuned import TunedTable, TuneResult

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


@dataclass(frozen=True, slots=True)
class _Order:
    """Search order of a question's hits: which of them answer, and their ids."""

    question: str
    hits: tuple[str, ...]
    gold: frozenset[str]


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
        if settings.retriever:
            raise ConfigError(
                "a reranker orders the hits of ragwright's own search, and retrieve.retriever is "
                f"{settings.retriever}",
                where=str(self.project.folder.file),
                hint="add --set retrieve.retriever= to search with ragwright",
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

    def pairs(self, rows: Sequence[Row], mining: MiningOptions) -> list[Pair]:
        """Return pairs with the hits of the project's search."""
        return search_pairs(self.project, rows, mining)

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
        alone = _mrr([_rank(order.hits, order.gold) for order in _orders(unseen)])
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
        alone = _mrr([_rank(order.hits, order.gold) for order in _orders(unseen)])
        rows: list[tuple[str | float, float]] = [*by_weight.items(), ("search alone", alone)]
        columns = ("weight of the search", "unseen MRR@10")
        table = TunedTable("search_weight", columns, tuple(rows))
        figures = replace(tuned.training, after=by_weight[weight])
        tables = (*tuned.tables, table)
        return replace(tuned, training=figures, tables=tables, beside={"search_weight": weight})

    def _by_weight(self, model: Any, questions: HeldBackQuestions) -> dict[float, float]:
        """Return MRR@10 of the reordered hits, by weight of the search's own order."""
        orders = _orders(questions)
        texts = [
            (order.question, questions.passages[key]) for order in orders for key in order.hits
        ]
        scores = iter(
            model.predict(
                texts, batch_size=self.options.training.batch, show_progress_bar=False
            ).tolist()
            if texts
            else ()
        )
        ranks: dict[float, list[int]] = {weight: [] for weight in WEIGHTS}
        for order in orders:
            by_model = {key: round(next(scores), 6) for key in order.hits}
            reordered = sorted(order.hits, key=lambda key: -by_model[key])
            for weight in WEIGHTS:
                final: Sequence[str] = reordered
                if weight:
                    fused = dict(rrf([reordered, order.hits], weights=(1.0, weight)))
                    final = sorted(order.hits, key=lambda key: -fused[key])
                ranks[weight].append(_rank(final, order.gold))
        return {weight: _mrr(places) for weight, places in ranks.items()}


def _orders(questions: HeldBackQuestions) -> list[_Order]:
    parts = zip(questions.questions, questions.hits, questions.gold, strict=True)
    return [_Order(*part) for part in parts]


def _rank(hits: Sequence[str], gold: frozenset[str]) -> int:
    """Return the rank of the first hit that answers; 0 if none of the first ten does."""
    return next((at for at, key in enumerate(hits[:_CUTOFF], 1) if key in gold), 0)


def _mrr(ranks: Sequence[int]) -> float:
    return math.fsum(1 / rank for rank in ranks if rank) / max(1, len(ranks))
