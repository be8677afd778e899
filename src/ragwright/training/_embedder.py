"""`tune embedder`: fine-tune the embedding model, and write it if it wins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core import ConfigError, require, text_hash
from ..models import VectorRule, open_trainable
from ..project import Project, refuse_forget
from ._course import Kind, ModelTuneOptions, tune_model
from ._pairs import HeldBackQuestions, Pair
from ._trainer import Lesson, training_setup
from ._tuned import TuneResult


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
        prefixes = self._rule.prefixes
        columns: dict[str, Sequence[Any]] = {
            "anchor": [prefixes.query + pair.question for pair in pairs],
            "positive": [prefixes.passage + pair.positive for pair in pairs],
        }
        if all(pair.negatives for pair in pairs):
            columns["negative"] = [prefixes.passage + pair.negatives[0] for pair in pairs]
        loss = losses.MultipleNegativesRankingLoss(model)
        if self._rule.similarity != "cosine":
            util = require("sentence_transformers.util", "train", "training a model")
            # The scale of cosines would saturate products of long vectors.
            loss = losses.MultipleNegativesRankingLoss(
                model, scale=1.0, similarity_fct=util.dot_score
            )
        evaluator = self._evaluator(model, unseen)
        return Lesson(
            model,
            "SentenceTransformer",
            columns,
            loss,
            lambda m: _mrr_of(evaluator, m),
        )

    def mrr(self, model: Any, questions: HeldBackQuestions) -> float:
        with training_setup(model, self.options.training):
            return _mrr_of(self._evaluator(model, questions), model)

    def _evaluator(self, model: Any, unseen: HeldBackQuestions) -> Any:
        """Return an evaluator for MRR@10 of the questions, among the passages of the pool."""
        evaluation = require(
            "sentence_transformers.sentence_transformer.evaluation", "train", "training a model"
        )
        prefixes = self._rule.prefixes
        gold = [sorted(set(gold) & unseen.passages.keys()) for gold in unseen.gold]
        return evaluation.InformationRetrievalEvaluator(
            {str(at): prefixes.query + text for at, text in enumerate(unseen.questions)},
            {key: prefixes.passage + text for key, text in unseen.passages.items()},
            {str(at): set(keys) for at, keys in enumerate(gold)},
            name="unseen",
            batch_size=self.options.training.batch,
            mrr_at_k=[10],
            write_csv=False,
            score_functions={"model": model.similarity},
        )

    def withdraw(self, variant: Project) -> None:
        store = self.project.store
        if variant.pair != self.project.pair:
            store.remove(sorted(store.content_hashes(variant.pair)), variant.pair)

    def digest(self, trial: Path, variant: Project) -> str:
        return text_hash(variant.pair.embedder)[:8]


def _mrr_of(evaluator: Any, model: Any) -> float:
    return float(evaluator(model)["unseen_model_mrr@10"])
