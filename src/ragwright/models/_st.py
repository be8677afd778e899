"""``st:FOLDER``: models that sentence-transformers opens, to embed, to rerank and to train."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError, count_noun, require
from ._embedding import (
    Matrix,
    RuledEmbedder,
    VectorRule,
    WindowReranker,
    folder_hash,
    replace_surrogates,
)
from ._hub import POOLING, folder_names, prompt_prefixes
from ._names import EmbedOptions, Pooling
from ._onnx import HFTokenizer

CARD = "README.md"
"""File name of the card in a model's folder. No identity of a model depends on it."""

_WHAT = "an st: model"


class SentenceTransformerEmbedder(RuledEmbedder):
    """An embedding model by sentence-transformers (torch, on the CPU).

    Texts are run one by one, so that a vector does not depend on other texts, to the byte; this is
    about a fifth slower than batches. Nothing is fetched, and no code of the folder is run.

    Args:
        folder: The folder.
        options: Prefixes, pooling, similarity, dimensions, threads (of the whole process:
            torch has one setting).

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, or the pooling asked for is not one it can do.
    """

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        options = options or EmbedOptions()
        home = Path(folder).expanduser()
        self._model = open_quietly("SentenceTransformer", home)
        require("torch", "torch", _WHAT).set_num_threads(options.threads)
        own_rule = VectorRule(
            *prompt_prefixes(self._model.prompts or {}),
            _model_pooling(self._model),
            "dot" if self._model.similarity_fn_name == "dot" else "cosine",
        )
        self.tokens = _fast_tokenizer(self._model)
        self.window = _window_of(self._model, pair=False)
        self.settle("st", home, options, (folder_names(home), own_rule))
        set_pooling(self._model, self.rule.pooling)

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Vectors as the model gives them, its prompts left out."""
        safe = list(map(replace_surrogates, texts))
        for text in safe:
            tokens = self._model.tokenizer(text, add_special_tokens=False, verbose=False)
            self.check(len(tokens["input_ids"]))
        vectors = self._model.encode(
            safe, prompt="", batch_size=1, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, np.float32)


class CrossEncoderReranker(WindowReranker):
    """A cross-encoder by sentence-transformers: reads query and passage together.

    Pairs are run one by one, so that a score does not depend on other pairs.

    Args:
        folder: The folder.
        options: ``threads`` (of the whole process).

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, one with several labels, or one without a trained scoring head,
            such as an embedding model.
    """

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        home = Path(folder).expanduser()
        self._model = open_cross_encoder(home)
        require("torch", "torch", _WHAT).set_num_threads((options or EmbedOptions()).threads)
        self.tokens = _fast_tokenizer(self._model)
        self.window = _window_of(self._model, pair=True)
        function = type(self._model.activation_fn).__name__
        self.scale = "0-1, sigmoid" if function == "Sigmoid" else f"logit ({function})"
        self.identity = f"st:{folder_hash(home)}"

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""
        safe = [tuple(map(replace_surrogates, pair)) for pair in pairs]
        predicted = self._model.predict(
            safe, batch_size=1, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in predicted]


def open_cross_encoder(source: str | Path, *, new_head: bool = False) -> Any:
    """A cross-encoder of sentence-transformers that gives one score per pair.

    Args:
        source: A folder.
        new_head: An encoder without a head that scores pairs gets a new one.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: It cannot open the model, the model gives several labels, or its head is not
            trained.
    """
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:  # the report of missing weights: what matters of it becomes an error
        logger.setLevel(logging.ERROR)
    try:
        model = open_quietly("CrossEncoder", source)
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    if not new_head and not has_head(model):
        raise ConfigError(
            f"the model is a {model[0].auto_model.config.architectures[0]}, which has no trained "
            "head that scores a pair of texts",
            where=str(source),
            hint="name a cross-encoder",
        )
    if model.num_labels != 1:
        raise ConfigError(
            f"the model gives {count_noun(model.num_labels, 'label')}, reranking needs one score",
            where=str(source),
        )
    return model


def has_head(model: Any) -> bool:
    """False for a model whose weights lack the scoring head: its scores are noise."""
    network = getattr(model[0], "auto_model", None)
    saved = getattr(getattr(network, "config", None), "architectures", None) or ()
    opened = type(network).__name__
    return not (saved and opened.endswith("ForSequenceClassification") and opened not in saved)


def open_quietly(kind: str, source: str | Path) -> Any:
    """A model by the class of sentence-transformers named, without progress bars, on the CPU.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: It cannot open the model, or the model has no tokenizer.
    """
    st = require("sentence_transformers", "torch", _WHAT)
    home = Path(source).expanduser()
    if not home.is_dir():
        raise ConfigError(
            "no such model folder",
            where=str(home),
            hint="write st:FOLDER; for a model on the hub write hf:ORG/NAME",
        )
    with no_progress_bars(_WHAT):
        try:
            model = getattr(st, kind)(str(home.resolve()), device="cpu", trust_remote_code=False)
        except Exception as error:
            raise ConfigError(
                f"sentence-transformers cannot open {str(source)!r}: {str(error)[:300]}",
                hint="its files are damaged or incomplete, or it wants to run code of its own: "
                "copy the model again, or name a back end of yours under models:",
            ) from error
    # Without its files transformers makes a tokenizer that reads every word as unknown.
    tokenizer = getattr(model, "tokenizer", None)
    vocabulary: dict[str, int] = getattr(tokenizer, "get_vocab", dict)()
    special = {*getattr(tokenizer, "all_special_tokens", ())}
    if tokenizer is None or (vocabulary and vocabulary.keys() <= special):
        raise ConfigError(
            "the model has no tokenizer: its vocabulary is empty",
            where=str(source),
            hint="copy tokenizer.json (or vocab.txt) of the model into the folder",
        )
    return model


@contextmanager
def no_progress_bars(what: str) -> Iterator[None]:
    """Turn off the progress bars of transformers.

    Args:
        what: What needs them, for the error if they are not installed.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    bars = require("transformers.utils.logging", "torch", what)
    enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            bars.enable_progress_bar()


def set_pooling(model: Any, pooling: Pooling) -> None:
    """Let a model pool token vectors in this way.

    Raises:
        ConfigError: It pools in another way, and has no pooling layer to set.
    """
    if pooling == _model_pooling(model):
        return
    layers = [layer for layer in model if type(layer).__name__ == "Pooling"]
    if not layers:
        raise ConfigError("the model has no pooling layer to set", hint="leave pooling unset")
    layers[0].pooling_mode = "lasttoken" if pooling == "last" else pooling


def _model_pooling(model: Any) -> Pooling:
    modes = [layer.pooling_mode for layer in model if type(layer).__name__ == "Pooling"]
    return POOLING.get(modes[0], "mean") if modes and isinstance(modes[0], str) else "mean"


def _fast_tokenizer(model: Any) -> HFTokenizer | None:
    """The tokenizer of a model, None for a slow one."""
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    return None if fast is None else HFTokenizer(fast)


def _window_of(model: Any, *, pair: bool) -> int | None:
    """Most tokens of one text or of a pair, special ones left out; None for no limit."""
    window = model.max_seq_length
    specials = model.tokenizer.num_special_tokens_to_add(pair)
    return int(window) - specials if window and window < 1e9 else None


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
    model = open_quietly("SentenceTransformer", source)
    set_pooling(model, rule.pooling)
    model.prompts = {"query": rule.query_prefix, "document": rule.passage_prefix}
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
    require("torch", "train", "training a model").manual_seed(seed)
    try:
        model = open_cross_encoder(source, new_head=True)
    except ConfigError as error:
        raise ConfigError(
            f"the model cannot be trained to score pairs: {error.what}",
            where=source,
            hint="start from an encoder such as BERT, MiniLM or ModernBERT, or from a "
            "cross-encoder",
        ) from error
    return model, has_head(model)


def save_trained(model: Any, folder: Path) -> None:
    """Write a trained model as a folder that ``st:`` opens; its card is not written."""
    with warnings.catch_warnings(), no_progress_bars("training a model"):
        warnings.simplefilter("ignore")
        model.save(str(folder), create_model_card=False)


def card_head(*, proven: bool) -> list[str]:
    """The first lines of a card, as YAML between rules."""
    return ["---", f"ragwright_proven: {str(proven).lower()}", "---", ""]


def is_unproven(folder: Path) -> bool:
    """True for a folder that ``tune embedder --keep`` wrote although nothing was proven."""
    try:
        card = (folder / CARD).read_text("utf-8", "replace")
    except OSError:
        return False
    return card.startswith("\n".join(card_head(proven=False)))
