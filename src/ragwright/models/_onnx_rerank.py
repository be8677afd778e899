"""``onnx:FOLDER`` under ``retrieve.rerank``: a cross-encoder by onnxruntime, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ..core import ConfigError
from ._folder import ModelFolder
from ._hf_tokenizer import HFTokenizer
from ._onnx import network_output, open_onnx
from ._options import EmbedOptions
from ._rerank import best_windows, folder_identity
from ._seams import Reranker


class OnnxReranker(Reranker):
    """A cross-encoder in a folder with an ONNX file and a ``tokenizer.json``.

    Pairs are run one by one, so that a score does not depend on other pairs. A passage that does
    not fit beside the query gets the score of its best window, as :class:`CrossEncoderReranker`
    gives it.

    Args:
        folder: The folder, or an ONNX file in it.
        options: ``threads``: pairs that run side by side.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: The folder holds no ONNX file, or a model that does not score pairs.
    """

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        home, file, self._session = open_onnx(folder)
        self._tokenizer = HFTokenizer(home)
        self._threads = (options or EmbedOptions()).threads
        output = self._session.get_outputs()[0]
        if len(output.shape) != 2 or output.shape[1] not in {1, "1"}:
            raise ConfigError(
                f"the output {output.name!r} has the shape {output.shape}; a cross-encoder gives "
                "one score per pair",
                where=str(file),
                hint="name a cross-encoder; to rerank by an embedding model write embed:MODEL",
            )
        self._output = output.name
        model = ModelFolder.read(home)
        self._sigmoid = model.sigmoid
        self.scale = "0-1, sigmoid" if self._sigmoid else "logit (Identity)"
        self.window = None if model.window is None else model.window - self._tokenizer.pair_specials
        self.identity = f"{folder_identity(home)}:{file.name}:{file.stat().st_size}"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, higher is better.

        Raises:
            ModelRefusedError: The query alone fills the window.
        """
        return best_windows(query, passages, self._tokenizer, self.window, self)

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""
        if self._threads == 1 or len(pairs) == 1:
            return [self._pair_score(pair) for pair in pairs]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(self._pair_score, pairs))

    def _pair_score(self, pair: tuple[str, str]) -> float:
        ids, types = self._tokenizer.pair_ids(*pair)
        logit = float(network_output(self._session, self._output, ids, types)[0])
        if not self._sigmoid:
            return logit
        # Written with tanh, which does not overflow.
        return float(0.5 * (1.0 + np.tanh(0.5 * logit)))
