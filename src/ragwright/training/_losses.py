"""Losses of pairs and triplets, for the trainer of sentence-transformers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ..core import require
from ..models import Similarity

Loss: TypeAlias = Literal["ranking", "cosine"]
"""Name of the loss: see :func:`make_loss`."""

_SCALE = 20.0
_MARGIN = 0.0


def make_loss(name: Loss, model: Any, similarity: Similarity) -> Any:
    """Make a loss over batches of a question, its passage and, if mined, a negative passage.

    ``ranking``: cross-entropy of the passage among all passages of the batch, similarities times
    20 (Henderson et al. 2017, arXiv:1705.00652; MultipleNegativesRankingLoss). ``cosine``: ``1 -
    cos`` of a question and its passage plus ``max(0, cos)`` of it and the negative passage (torch's
    CosineEmbeddingLoss, margin 0).

    Raises:
        MissingExtraError: sentence-transformers is not installed.
    """
    if name == "cosine":
        return _cosine_loss(model)
    losses = require(
        "sentence_transformers.sentence_transformer.losses", "train", "training an embedding model"
    )
    if similarity == "cosine":
        return losses.MultipleNegativesRankingLoss(model, scale=_SCALE)
    util = require("sentence_transformers.util", "train", "training an embedding model")
    # The scale of cosines would saturate products of long vectors.
    return losses.MultipleNegativesRankingLoss(model, scale=1.0, similarity_fct=util.dot_score)


def _cosine_loss(model: Any) -> Any:
    torch = require("torch", "train", "training an embedding model")

    class _CosineEmbeddingLoss(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.loss = torch.nn.CosineEmbeddingLoss(margin=_MARGIN)

        def forward(self, columns: Any, labels: Any) -> Any:
            question, *passages = (self.model(column)["sentence_embedding"] for column in columns)
            total = 0.0
            for at, passage in enumerate(passages):
                sign = torch.full((len(question),), -1.0 if at else 1.0, device=question.device)
                total = total + self.loss(question, passage, sign)
            return total

    return _CosineEmbeddingLoss()
