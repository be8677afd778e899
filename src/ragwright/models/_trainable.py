"""Opens the weights of an embedding model for training, and saves them as a folder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..core import ConfigError
from ._embedding import VectorRule
from ._st import no_progress_bars, open_quietly, set_pooling

_WHAT = "training an embedding model"


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


def save_trained(model: Any, folder: Path) -> None:
    """Write a trained model as a folder that ``st:`` opens; its card is not written."""
    with warnings.catch_warnings(), no_progress_bars(_WHAT):
        warnings.simplefilter("ignore")
        model.save(str(folder), create_model_card=False)
