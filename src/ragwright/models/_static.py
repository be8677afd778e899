"""Static embedding models (model2vec): one vector per token, no network to run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError, require
from ._embedding import Prefixes, RuledEmbedder, VectorRule, file_hash, settle_rule
from ._folder import folder_names
from ._hf_tokenizer import HFTokenizer
from ._options import EmbedOptions, ModelSettings
from ._seams import Matrix


class StaticEmbedder(RuledEmbedder):
    """A static model in a folder: the mean of its tokens' vectors, without a window.

    Args:
        folder: The folder, as model2vec or sentence-transformers writes it.
        options: Prefixes, similarity, dimensions; None takes them from the files.
        settings: The model's entry under ``models:``.

    Raises:
        MissingExtraError: model2vec is not installed.
        ConfigError: The folder holds no static model.
    """

    def __init__(
        self,
        folder: str | Path,
        options: EmbedOptions | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        model2vec = require("model2vec", "embed", "a static model")
        home = Path(folder).expanduser()
        self.where = str(home)
        logging.getLogger("model2vec").setLevel(logging.ERROR)
        try:
            self._model: Any = model2vec.StaticModel.from_pretrained(home, force_download=False)
        except Exception as error:
            raise ConfigError(
                f"model2vec cannot open the folder: {error}", where=str(home)
            ) from error
        self._tokenizer = HFTokenizer(self._model.tokenizer)
        self.rule = settle_rule(
            options or EmbedOptions(),
            settings or ModelSettings(),
            folder_names(home),
            VectorRule(Prefixes()),
        )
        weights = [file_hash(f)[:16] for f in sorted(home.glob("*.safetensors"))]
        self.identity = f"static:{'+'.join(weights)}:{self._tokenizer.name}:{self.rule.identity()}"
        self.dimensions = self.measured()

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Means of the vectors of the texts' tokens."""
        safe = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors = self._model.encode(
            safe, max_length=None, use_multiprocessing=False, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)

    def tokenizer(self) -> HFTokenizer:
        """The model's own tokenizer."""
        return self._tokenizer
