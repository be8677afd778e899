"""BERTScore and MoverScore compare two texts token by token with a local transformer.

They are implemented as rerankers (scores of passages for a query), so that the work is batched,
runs off the event loop and is never done twice. Their model names are ``bertscore:FOLDER`` (F1),
``bertscore:FOLDER#precision``, ``bertscore:FOLDER#recall`` and ``moverscore:FOLDER``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, require
from ..models import Reranker, folder_hash, no_progress_bars, transformer_folder

Matrix = NDArray[np.float64]
Tokens = tuple[Matrix, NDArray[np.bool_]]
_PARTS = ("F1", "precision", "recall")
_WHAT = "BERTScore and MoverScore"
_KEPT_TOKENS = 10_000
"""Tokens whose vectors are cached: 30 MB at 384 numbers each."""


class TokenModel:
    """Vectors of the tokens of texts, by the last layer of a transformer in a folder.

    Nothing is downloaded or cut: a text longer than the model's window is read in several windows,
    each between the model's own special tokens.

    Raises:
        MissingExtraError: transformers and torch are not installed.
        ConfigError: The folder does not hold a transformer, or one that cannot be opened.
    """

    def __init__(self, folder: str) -> None:
        home = transformer_folder(Path(folder.removeprefix("st:")).expanduser(), _WHAT)
        transformers = require("transformers", "torch", _WHAT)
        self._torch = require("torch", "torch", _WHAT)
        try:
            with no_progress_bars(_WHAT):
                self.tokenizer = transformers.AutoTokenizer.from_pretrained(
                    str(home), local_files_only=True
                )
                self.model = transformers.AutoModel.from_pretrained(
                    str(home), local_files_only=True
                )
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"the transformer cannot be opened: {error}",
                where=str(home),
                hint="the folder needs config.json, a tokenizer and PyTorch weights "
                "(model.safetensors)",
            ) from error
        self.model.eval()
        limits = [self.tokenizer.model_max_length]
        limits.append(getattr(self.model.config, "max_position_embeddings", limits[0]))
        self.window = int(min(limits))
        self.identity = folder_hash(home)
        self._known: OrderedDict[str, Tokens] = OrderedDict()
        self._lock = threading.Lock()

    def vectors(self, text: str) -> Tokens:
        """Unit vectors of all tokens, shape (tokens, dimensions), and a mask of the text's own.

        The others are special tokens: they may be matched, but are not counted. Recent texts are
        cached, since several measures use the same ones.
        """
        with self._lock:
            tokens = self._known.get(text)
            if tokens is None:
                tokens = self._known[text] = self._token_vectors(text)
                while sum(len(mask) for _, mask in self._known.values()) > _KEPT_TOKENS:
                    self._known.popitem(last=False)
            self._known[text] = tokens
            self._known.move_to_end(text)
        return tokens

    def _token_vectors(self, text: str) -> Tokens:
        encoded = self.tokenizer(
            text.strip(),
            truncation=True,
            max_length=self.window,
            return_overflowing_tokens=True,
            return_special_tokens_mask=True,
        )
        parts, masks = [], []
        names = [name for name in self.tokenizer.model_input_names if name in encoded]
        for at, special in enumerate(encoded["special_tokens_mask"]):
            with self._torch.no_grad():
                inputs = {name: self._torch.tensor([encoded[name][at]]) for name in names}
                hidden = self.model(**inputs).last_hidden_state[0]
            parts.append(hidden.double().numpy())
            masks.append(np.array(special) == 0)
        rows = np.concatenate(parts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.concatenate(masks)


class BertScorer(Reranker):
    """BERTScore of each passage (a response) against a query (its reference).

    Args:
        source: ``FOLDER``, or ``FOLDER#precision`` or ``FOLDER#recall``.
    """

    def __init__(self, source: str) -> None:
        folder, _, part = source.partition("#")
        self.part = part or _PARTS[0]
        if self.part not in _PARTS:
            raise ConfigError(f"BERTScore has no {self.part!r}", hint=f"one of {', '.join(_PARTS)}")
        self.tokens = token_model(folder)
        self.identity = f"bertscore:{self.part}:{self.tokens.identity}"
        self.scale = f"BERTScore {self.part}, -1 to 1"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage; 0 if a text has no tokens."""
        reference = self.tokens.vectors(query)
        return [bert_score(self.tokens.vectors(text), reference, self.part) for text in passages]


class MoverScorer(Reranker):
    """MoverScore of each passage (a response) against a query (its reference)."""

    def __init__(self, source: str) -> None:
        self.tokens = token_model(source)
        self.identity = f"moverscore:{self.tokens.identity}"
        self.scale = "MoverScore, -1 to 1"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage; -1, the end of the scale, if a text has no tokens."""
        reference = _own_vectors(self.tokens.vectors(query))
        return [
            mover_score(_own_vectors(self.tokens.vectors(text)), reference) for text in passages
        ]


def bert_score(response: Tokens, reference: Tokens, part: str = "F1") -> float:
    """Greedy matching by cosine (Zhang et al. 2020), special tokens matched but not counted."""
    (response_vectors, response_mask), (reference_vectors, reference_mask) = response, reference
    if not response_mask.any() or not reference_mask.any():
        return 0.0
    similar = np.clip(response_vectors @ reference_vectors.T, -1.0, 1.0)
    precision = float(similar.max(axis=1)[response_mask].mean())
    recall = float(similar.max(axis=0)[reference_mask].mean())
    if part == "precision":
        return precision
    if part == "recall":
        return recall
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def mover_score(response: Matrix, reference: Matrix) -> float:
    """1 - the least mean Euclidean distance of moving all tokens of one text onto the other's.

    Args:
        response: Unit vectors, shape (tokens, dimensions); all tokens have equal weight.
        reference: Likewise.

    The exact transport takes about 0.1 s for 200 tokens against 200, 1 s for 500 against 500.
    """
    if not len(response) or not len(reference):
        return -1.0
    squared = np.maximum(2 - 2 * response @ reference.T, 0.0)
    return 1.0 - transport(np.sqrt(squared))


def transport(cost: Matrix) -> float:
    """Least cost of moving equal weights of the rows to equal weights of the columns (exact).

    Raises:
        MissingExtraError: scipy is not installed.
    """
    optimize = require("scipy.optimize", "torch", "MoverScore")
    sparse = require("scipy.sparse", "torch", "MoverScore")
    rows, columns = cost.shape
    sums = sparse.vstack(
        [
            sparse.kron(sparse.eye(rows), np.ones((1, columns))),
            sparse.kron(np.ones((1, rows)), sparse.eye(columns)),
        ]
    ).tocsr()
    weights = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    # The last equation follows from the others; without it rounding cannot make them disagree.
    solution = optimize.linprog(
        cost.ravel(), A_eq=sums[:-1], b_eq=weights[:-1], bounds=(0, None), method="highs"
    )
    if not solution.success:
        raise ArithmeticError(f"no transport was found: {solution.message}")
    return float(solution.fun)


@lru_cache(maxsize=2)
def token_model(folder: str) -> TokenModel:
    """The token model in a folder, opened once."""
    return TokenModel(folder)


def _own_vectors(tokens: Tokens) -> Matrix:
    vectors, mask = tokens
    own_rows: Any = vectors[mask]
    return np.asarray(own_rows, np.float64)
