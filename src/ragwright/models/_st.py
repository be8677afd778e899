"""``st:FOLDER``: models that sentence-transformers opens, to embed, to rerank and to train."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError, RagwrightError, count_noun, require, text_hash
from ._embedding import (
    Matrix,
    Prefixes,
    RuledEmbedder,
    VectorRule,
    WindowReranker,
    file_hash,
    settle_rule,
)
from ._hub import POOLING, folder_identity, folder_names, is_cross
from ._names import EmbedOptions, ModelSettings, Pooling
from ._onnx import HFTokenizer

CARD = "README.md"
"""File name of the card in a model's folder. No identity of a model depends on it."""

_BATCH = 32
"""Most texts that one call holds, on other devices than a CPU."""

_WHAT = "an st: model"


class SentenceTransformerEmbedder(RuledEmbedder):
    """An embedding model by sentence-transformers (torch, on the CPU by default).

    On the CPU texts are run one by one, so that a vector does not depend on other texts, to the
    byte; this is about a fifth slower than batches. On another device they are batched and a vector
    may vary in the seventh digit.

    The hub's own switches (``HF_HUB_OFFLINE``, ``HF_HOME``) are respected; no code from the
    hub is run.

    Args:
        source: A folder, or a name on the hub.
        options: Prefixes, pooling, similarity, dimensions, threads (of the whole process:
            torch has one setting).
        settings: The model's entry under ``models:``.
        device: A torch device.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, or the pooling asked for is not one it can do.
    """

    def __init__(
        self,
        source: str | Path,
        options: EmbedOptions | None = None,
        settings: ModelSettings | None = None,
        device: str = "cpu",
    ) -> None:
        options = options or EmbedOptions()
        self._model = open_quietly("SentenceTransformer", str(source), device)
        self.where = str(source)
        self._batch = 1 if device == "cpu" else _BATCH
        require("torch", "torch", _WHAT).set_num_threads(options.threads)
        prompts = self._model.prompts or {}
        own_rule = VectorRule(
            Prefixes(prompts.get("query", ""), prompts.get("passage", prompts.get("document", ""))),
            _model_pooling(self._model),
            "dot" if self._model.similarity_fn_name == "dot" else "cosine",
        )
        names = folder_names(Path(source))
        self.rule = settle_rule(options, settings or ModelSettings(), names, own_rule)
        set_pooling(self._model, self.rule.pooling)
        self._tokenizer, tokens = _fast_tokenizer(self._model)
        self.window = _window_of(self._model, pair=False)
        weights = model_hash(self._model)
        self.identity = f"st:{weights}:{tokens}:{self.window}:{self.rule.identity()}"
        self.dimensions = self.measured()

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Vectors as the model gives them, its prompts left out."""
        safe = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        for text in safe:
            self.check(self._token_count(text))
        vectors = self._model.encode(
            safe, prompt="", batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, np.float32)

    def tokenizer(self) -> HFTokenizer | None:
        """The model's own tokenizer, None if it is a slow tokenizer."""
        return self._tokenizer

    def _token_count(self, text: str) -> int:
        """Tokens of a text; 0 if it surely fits the window, which saves counting."""
        if self.window is None or len(text.encode()) <= self.window:
            return 0
        if self._tokenizer is not None:
            return self._tokenizer.count(text)
        return len(self._model.tokenizer(text, add_special_tokens=False)["input_ids"])


class CrossEncoderReranker(WindowReranker):
    """A cross-encoder by sentence-transformers: reads query and passage together.

    On the CPU pairs are run one by one, so that a score does not depend on other pairs.

    Args:
        source: A folder, or a name on the hub.
        options: ``threads`` (of the whole process).
        device: A torch device.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, one with several labels, or one without a trained scoring head,
            such as an embedding model.
    """

    def __init__(
        self, source: str | Path, options: EmbedOptions | None = None, device: str = "cpu"
    ) -> None:
        options = options or EmbedOptions()
        self._model = open_cross_encoder(source, device)
        require("torch", "torch", _WHAT).set_num_threads(options.threads)
        self._batch = 1 if device == "cpu" else _BATCH
        self._tokenizer, tokens = _fast_tokenizer(self._model)
        self.window = _window_of(self._model, pair=True)
        function = type(self._model.activation_fn).__name__
        self.scale = "0-1, sigmoid" if function == "Sigmoid" else f"logit ({function})"
        self.identity = folder_identity(source) or (
            f"cross:{model_hash(self._model)}:{tokens}:{self.window}:{function}"
        )

    def tokenizer(self) -> HFTokenizer | None:
        """The model's own tokenizer, None if it is a slow tokenizer."""
        return self._tokenizer

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""
        safe = [tuple(t.encode("utf-8", "replace").decode("utf-8") for t in pair) for pair in pairs]
        predicted = self._model.predict(
            safe, batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in predicted]


def open_cross_encoder(source: str | Path, device: str = "cpu", *, new_head: bool = False) -> Any:
    """A cross-encoder of sentence-transformers that gives one score per pair.

    Args:
        source: A folder, or a name on the hub.
        device: A torch device.
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
        model = open_quietly("CrossEncoder", source, device)
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    if not new_head and not has_head(model):
        raise ConfigError(
            f"the model is a {model[0].auto_model.config.architectures[0]}, which has no trained "
            "head that scores a pair of texts",
            where=str(source),
            hint="name a cross-encoder; to rerank by an embedding model write embed:MODEL",
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


def open_quietly(kind: str, source: str | Path, device: str = "cpu") -> Any:
    """A model by the class of sentence-transformers named, without progress bars.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: It cannot open the model, or the model has no tokenizer.
    """
    st = require("sentence_transformers", "torch", _WHAT)
    home = Path(source).expanduser()
    _refuse_code(home)
    try:
        with no_progress_bars(_WHAT):
            model = getattr(st, kind)(
                str(home.resolve()) if home.is_dir() else str(source),
                device=device,
                trust_remote_code=False,
            )
    except RagwrightError:
        raise
    except Exception as error:
        if not home.is_dir():
            raise ConfigError(
                "no such model folder",
                where=str(home),
                hint="write st:FOLDER; for a model on the hub write hf:ORG/NAME",
            ) from error
        raise ConfigError(
            f"sentence-transformers cannot open {str(source)!r}: {str(error)[:300]}",
            hint="its files are damaged or incomplete: copy the model into the folder again",
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


def _refuse_code(home: Path) -> None:
    """Refuse a folder whose files name classes other than those of the installed library.

    Versions of sentence-transformers before 6 import them from the folder although remote code is
    off: the folder's Python files would run.

    Raises:
        ConfigError: A file names such a class, or cannot be read.
    """
    for file in sorted([*home.rglob("modules.json"), *home.rglob("router_config.json")]):
        try:
            content = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the file cannot be read: {error}", where=str(file)) from error
        entries = content if isinstance(content, list) else [content]
        types = [entry.get("type") for entry in entries if isinstance(entry, dict)]
        for entry in entries:
            routed = entry.get("types") if isinstance(entry, dict) else None
            types += routed.values() if isinstance(routed, dict) else []
        for name in types:
            own = isinstance(name, str) and name.startswith("sentence_transformers.")
            if isinstance(name, str) and not own:
                raise ConfigError(
                    f"the model wants to run code of its own: the class {name!r}",
                    where=str(file),
                    hint="if you trust it, open it in a module of yours, and name that under "
                    "models: as backend",
                )


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


def _fast_tokenizer(model: Any) -> tuple[HFTokenizer | None, str]:
    """The tokenizer of a model and its hash; None and ``slow`` for a slow tokenizer."""
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    return (None, "slow") if fast is None else (HFTokenizer(fast), text_hash(fast.to_str())[:16])


def _window_of(model: Any, *, pair: bool) -> int | None:
    """Most tokens of one text or of a pair, special ones left out; None for no limit."""
    window = model.max_seq_length
    specials = model.tokenizer.num_special_tokens_to_add(pair)
    return int(window) - specials if window and window < 1e9 else None


def model_hash(model: Any) -> str:
    """Hash of layers and weights: of the files if they are in a folder, else of the tensors."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)  # static: none
    folder = Path(str(getattr(config, "_name_or_path", "") or ""))
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")])
    further = any(layer.state_dict() for layer in list(model)[1:])  # a Dense has its own file
    parts = [type(layer).__name__ for layer in model]
    if folder.is_absolute() and files and not further:
        return text_hash("+".join([*parts, *(file_hash(f) for f in files)]))[:16]
    for name, tensor in sorted(model.state_dict().items()):
        data = tensor.detach().cpu().float().numpy()
        parts.append(f"{name}:{text_hash(data.tobytes().decode('latin-1'))}")
    return text_hash("+".join(parts))[:16]


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


_EXPORT = "exporting to ONNX"


def export_onnx(source: str | Path, folder: str | Path) -> Path:
    """Write a sentence-transformers model as a folder that ``onnx:`` opens; returns it.

    The file of an embedding model holds the transformer; pooling and normalising are read from the
    configuration copied beside it. Models with further layers (Dense) are refused. Of a
    cross-encoder the file holds the scoring head too.

    Args:
        source: A folder or a name on the hub.
        folder: Where to write; made if need be.

    Raises:
        MissingExtraError: sentence-transformers or onnx is not installed.
        ConfigError: The model has layers that the file cannot hold, or exporting fails.
    """
    require("onnx", "torch", _EXPORT)
    cross = is_cross(Path(source).expanduser())
    model = open_cross_encoder(source) if cross else open_quietly("SentenceTransformer", source)
    further = {type(layer).__name__ for layer in model} - {
        "Transformer",
        *(() if cross else ("Pooling", "Normalize")),
    }
    if further:
        raise ConfigError(
            f"layers {', '.join(sorted(further))} cannot be exported",
            where=str(source),
            hint="use the model by st:",
        )
    out = Path(folder).expanduser()
    with tempfile.TemporaryDirectory() as temporary:
        saved, written = Path(temporary) / "model", Path(temporary) / "model.onnx"
        with warnings.catch_warnings(), no_progress_bars(_EXPORT):
            warnings.simplefilter("ignore")
            model.save(str(saved), create_model_card=False)
            _write_network(model, written, cross=cross)
        skip = shutil.ignore_patterns("*.safetensors", "*.bin", "*.md")
        shutil.copytree(saved, out, ignore=skip, dirs_exist_ok=True)
        shutil.move(written, out / "model.onnx")
    return out


def _write_network(model: Any, path: Path, *, cross: bool) -> None:
    """Write what a model's network computes from the ids of texts, or of pairs, as an ONNX file.

    Raises:
        ConfigError: Exporting fails.
    """
    torch = require("torch", "torch", _EXPORT)
    output = "logits" if cross else "last_hidden_state"
    texts = ["a text", "another text, longer"]
    columns = (texts, texts[::-1]) if cross else (texts,)
    tokens = model.tokenizer(*columns, padding=True, return_tensors="pt")
    names = [n for n in ("input_ids", "attention_mask", "token_type_ids") if n in tokens]

    class _Network(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = model[0].auto_model

        def forward(self, *tensors: Any) -> Any:
            return getattr(self.network(**dict(zip(names, tensors, strict=True))), output)

    axes = {name: {0: "texts", 1: "tokens"} for name in names}
    axes[output] = {0: "texts"} if cross else {0: "texts", 1: "tokens"}
    try:
        torch.onnx.export(
            _Network().eval(),
            tuple(tokens[name] for name in names),
            str(path),
            input_names=names,
            output_names=[output],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,  # the older exporter's graph runs 5 to 20 % faster
        )
    except Exception as error:
        raise ConfigError(
            f"exporting failed: {str(error)[:300]}", hint="use the model by st:"
        ) from error
