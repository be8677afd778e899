"""Opens the weights of a model for training, and saves them as a folder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..core import ConfigError, counted, require
from ._embedding import VectorRule
from ._rerank import has_head, without_load_report
from ._st import no_progress_bars, open_quietly, set_pooling

_WHAT = "training a model"


def open_trainable(source: str, rule: VectorRule) -> Any:
    """A model of sentence-transformers that makes vectors by a rule.

    Prefixes are not added by the model: put them before the texts. The rule is saved with the
    model, so that its folder needs no settings beside it.

    Args:
        source: As :meth:`Models.trainable` returns it.
        rule: Prefixes, pooling and similarity.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: It cannot open the model, or the model has no tokenizer.
    """
    model = open_quietly("SentenceTransformer", source, "cpu")
    if getattr(model, "tokenizer", None) is None:
        raise ConfigError("the model has no tokenizer", where=source)
    set_pooling(model, rule.pooling)
    model.prompts = {"query": rule.prefixes.query, "document": rule.prefixes.passage}
    model.default_prompt_name = None
    model.similarity_fn_name = rule.similarity
    return model


def open_trainable_reranker(source: str, seed: int) -> tuple[Any, bool]:
    """A cross-encoder of sentence-transformers, and whether its head was trained before.

    An encoder without a head that scores pairs gets a new one, its weights drawn by the seed.

    Args:
        source: As :meth:`Models.trainable` returns it.
        seed: Seed of a new head.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: It cannot open the model, the model has no encoder that reads a pair of texts,
            no tokenizer, or several labels.
    """
    torch = require("torch", "train", _WHAT)
    hint = "start from an encoder such as BERT, MiniLM or ModernBERT, or from a cross-encoder"
    torch.manual_seed(seed)
    try:
        with without_load_report():
            model = open_quietly("CrossEncoder", source, "cpu")
    except ConfigError as error:
        raise ConfigError(
            f"the model cannot be trained to score pairs: {error.what}", where=source, hint=hint
        ) from error
    if getattr(model, "tokenizer", None) is None:
        raise ConfigError("the model has no tokenizer", where=source)
    trained = has_head(model)
    if model.num_labels != 1:
        raise ConfigError(
            f"the model gives {counted(model.num_labels, 'label')}, reranking needs one score",
            where=source,
            hint=hint,
        )
    return model, trained


def save_trained(model: Any, folder: Path) -> None:
    """Write a trained model as a folder that ``st:`` opens; its card is not written."""
    with warnings.catch_warnings(), no_progress_bars(_WHAT):
        warnings.simplefilter("ignore")
        model.save(str(folder), create_model_card=False)
