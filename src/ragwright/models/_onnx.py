"""``onnx:FOLDER`` and ``static:FOLDER``: local models by onnxruntime and model2vec, no torch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, Span, require, text_hash
from ._embedding import (
    Matrix,
    RuledEmbedder,
    Tokenizer,
    VectorRule,
    WindowReranker,
    folder_hash,
    replace_surrogates,
)
from ._hub import ModelFolder, folder_names
from ._names import EmbedOptions, Pooling


class HFTokenizer(Tokenizer):
    """A Hugging Face tokenizer as character spans, without special tokens or truncation.

    Args:
        source: A ``tokenizer.json``, the folder that holds one, or a ``tokenizers.Tokenizer``
            (which is copied, so that its truncation and padding stay as they are).

    A character that takes several tokens (byte-level vocabularies) gives spans that overlap.
    """

    def __init__(self, source: str | Path | Any) -> None:
        tokenizers = require("tokenizers", "embed", "a model's own tokenizer")
        if isinstance(source, str | Path):
            path = Path(source)
            path = path / "tokenizer.json" if path.is_dir() else path
            if not path.is_file():
                raise ConfigError(
                    "no tokenizer.json", where=str(path), hint="point to a model's folder"
                )
            try:
                self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            except Exception as error:
                raise ConfigError(
                    f"tokenizer.json cannot be read: {error}", where=str(path)
                ) from error
        else:
            self._tokenizer = tokenizers.Tokenizer.from_str(source.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # named by its content: another vocabulary makes other chunks
        self.name = f"hf:{text_hash(self._tokenizer.to_str())[:12]}"

    def spans(self, text: str) -> list[Span]:
        """Character span of every token."""
        return [Span(a, b) for a, b in self._encoded(text, special=False).offsets]

    def pieces(self, text: str) -> list[str]:
        """The tokens as written in the text; those within a word begin with ``##``."""
        encoding = self._encoded(text, special=False)
        pieces, words = [], encoding.word_ids
        for at, (start, end) in enumerate(encoding.offsets):
            inside = at and words[at] is not None and words[at] == words[at - 1]
            pieces.append(f"{'##' if inside else ''}{text[start:end]}")
        return pieces

    def bounds(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and end character of every token, as arrays of one length."""
        offsets = np.array(self._encoded(text, special=False).offsets, np.int64).reshape(-1, 2)
        return offsets[:, 0], offsets[:, 1]

    def count(self, text: str) -> int:
        """Number of tokens."""
        return len(self._encoded(text, special=False).ids)

    def ids(self, *texts: str) -> tuple[list[int], list[int]]:
        """Token ids and type ids of one text or of a pair, special tokens included."""
        encoding = self._encoded(*texts, special=True)
        return encoding.ids, encoding.type_ids

    def specials(self, *, pair: bool = False) -> int:
        """Number of special tokens added to one text, or to a pair."""
        return int(self._tokenizer.num_special_tokens_to_add(pair))

    def _encoded(self, *texts: str, special: bool) -> Any:
        # One input at a time: encode_batch would start threads of its own.
        return self._tokenizer.encode(*map(replace_surrogates, texts), add_special_tokens=special)


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_INPUTS = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}


class OnnxEmbedder(RuledEmbedder):
    """An embedding model in a folder with an ONNX file and a ``tokenizer.json``.

    Every text is run by itself at its own length, so its vector does not depend on other texts or
    on the number of threads, to the byte; measured on a CPU, this is no slower than padded batches.
    Threads run texts side by side, one thread a text, and never spin.

    Args:
        folder: The folder, or an ONNX file in it.
        options: Prefixes, pooling, similarity, dimensions, threads; None takes them from the
            files.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: The folder holds no ONNX file, several, or one of another kind of model.
    """

    tokens: HFTokenizer

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        options = options or EmbedOptions()
        home, file, self._session = open_onnx(folder)
        config = ModelFolder.read(home)
        self.tokens = HFTokenizer(home)
        self.threads = options.threads
        self._output, self._pooled = _output_of(self._session.get_outputs(), config, file)
        self.window = None if config.window is None else config.window - self.tokens.specials()
        self.settle(f"onnx:{file.name}", home, options, (config.names, config.rule))

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts run one by one, ``threads`` of them side by side."""
        return np.stack(_map_threads(self._embed_text, texts, self.threads))

    def _embed_text(self, text: str) -> NDArray[np.float32]:
        ids, types = self.tokens.ids(text)
        self.check(len(ids) - self.tokens.specials())
        output = network_output(self._session, self._output, ids, types)
        vector = output if self._pooled else _POOLERS[self.rule.pooling](output)
        return np.asarray(vector, np.float32)


class OnnxReranker(WindowReranker):
    """A cross-encoder in a folder with an ONNX file and a ``tokenizer.json``.

    Pairs are run one by one, so that a score does not depend on other pairs.

    Args:
        folder: The folder, or an ONNX file in it.
        options: ``threads``: pairs that run side by side.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: The folder holds no ONNX file, or a model that does not score pairs.
    """

    tokens: HFTokenizer

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        home, file, self._session = open_onnx(folder)
        self.tokens = HFTokenizer(home)
        self._threads = (options or EmbedOptions()).threads
        output = self._session.get_outputs()[0]
        if len(output.shape) != 2 or output.shape[1] not in {1, "1"}:
            raise ConfigError(
                f"the output {output.name!r} has the shape {output.shape}; a cross-encoder gives "
                "one score per pair",
                where=str(file),
                hint="name a cross-encoder",
            )
        self._output = output.name
        model = ModelFolder.read(home)
        self._sigmoid = model.sigmoid
        self.scale = "0-1, sigmoid" if self._sigmoid else "logit (Identity)"
        specials = self.tokens.specials(pair=True)
        self.window = None if model.window is None else model.window - specials
        self.identity = f"onnx:{file.name}:{folder_hash(home)}"

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""
        return _map_threads(self._pair_score, pairs, self._threads)

    def _pair_score(self, pair: tuple[str, str]) -> float:
        ids, types = self.tokens.ids(*pair)
        logit = float(network_output(self._session, self._output, ids, types)[0])
        if not self._sigmoid:
            return logit
        # Written with tanh, which does not overflow.
        return float(0.5 * (1.0 + np.tanh(0.5 * logit)))


class StaticEmbedder(RuledEmbedder):
    """A static model in a folder: the mean of its tokens' vectors, without a window.

    Args:
        folder: The folder, as model2vec or sentence-transformers writes it.
        options: Prefixes, similarity, dimensions; None takes them from the files.

    Raises:
        MissingExtraError: model2vec is not installed.
        ConfigError: The folder holds no static model.
    """

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        model2vec = require("model2vec", "embed", "a static model")
        home = Path(folder).expanduser()
        logging.getLogger("model2vec").setLevel(logging.ERROR)
        try:
            self._model: Any = model2vec.StaticModel.from_pretrained(home, force_download=False)
        except Exception as error:
            raise ConfigError(
                f"model2vec cannot open the folder: {error}", where=str(home)
            ) from error
        self.tokens = HFTokenizer(self._model.tokenizer)
        self.settle("static", home, options or EmbedOptions(), (folder_names(home), VectorRule()))

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Means of the vectors of the texts' tokens."""
        safe = list(map(replace_surrogates, texts))
        vectors = self._model.encode(
            safe, max_length=None, use_multiprocessing=False, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)


def _map_threads(
    run: Callable[[ItemT], ResultT], items: Sequence[ItemT], threads: int
) -> list[ResultT]:
    """The results in order; ``threads`` items run side by side."""
    if threads == 1 or len(items) == 1:
        return [run(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, items))


_POOLERS: Mapping[Pooling, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "cls": lambda tokens: tokens[0],
    "last": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(axis=0),
    "mean": lambda tokens: tokens.mean(axis=0, dtype=np.float32),
}
"""How one vector is made from token vectors of shape (tokens, width), all of them real ones."""


def open_onnx(folder: str | Path) -> tuple[Path, Path, Any]:
    """The model's folder, its ONNX file, and the session that runs it.

    Args:
        folder: The folder, or an ONNX file in it.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ConfigError: No ONNX file, several, or one that needs other inputs than text.
    """
    ort = require("onnxruntime", "embed", "an onnx: model")
    path = Path(folder).expanduser()
    file = path if path.suffix == ".onnx" else onnx_file(path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"the ONNX file cannot be opened: {error}", where=str(file)) from error
    unknown = {i.name for i in session.get_inputs()} - _INPUTS
    if unknown:
        raise ConfigError(
            f"the model needs the inputs {', '.join(sorted(unknown))}, which text does not provide",
            where=str(file),
            hint="export it as a text encoder",
        )
    if path == file:  # the tokenizer is beside the file, or above its folder ``onnx/``
        path = file.parent if (file.parent / "tokenizer.json").is_file() else file.parent.parent
    return path, file, session


def network_output(
    session: Any, output: str, ids: Sequence[int], types: Sequence[int]
) -> NDArray[np.float32]:
    """What a session gives for the tokens of one text, or of one pair of texts.

    Args:
        session: The session of :func:`open_onnx`.
        output: Name of the output.
        ids: Ids of the tokens.
        types: The text of the pair that each token is of, 0 or 1.
    """
    inputs = {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "token_type_ids": types,
        "position_ids": range(len(ids)),
    }
    feed = {i.name: np.array([inputs[i.name]], np.int64) for i in session.get_inputs()}
    return np.asarray(session.run([output], feed)[0][0], np.float32)


def _output_of(outputs: Sequence[Any], folder: ModelFolder, file: Path) -> tuple[str, bool]:
    """Name of the output to read, and whether it is already one vector per text."""
    by_name = {o.name: o for o in outputs}
    if folder.layers:
        # Layers after the transformer are in the file only where it ends in a sentence vector.
        if "sentence_embedding" in by_name:
            return "sentence_embedding", True
        raise ConfigError(
            f"the ONNX file lacks the model's further layers: {', '.join(folder.layers)}",
            where=str(file),
            hint="open it by st:, or export it whole, with the output sentence_embedding",
        )
    for name in ("last_hidden_state", "token_embeddings"):
        if name in by_name:
            return name, False
    first = outputs[0]
    if len(first.shape) not in {2, 3}:
        raise ConfigError(f"the output {first.name!r} is not a vector", where=str(file))
    return first.name, len(first.shape) == 2


def onnx_file(folder: Path) -> Path:
    """The ONNX file of a folder.

    Raises:
        ConfigError: There is none, or there are several.
    """
    usual = [f for f in (folder / "model.onnx", folder / "onnx" / "model.onnx") if f.is_file()]
    files = usual[:1] or sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if len(files) == 1:
        return files[0]
    raise ConfigError(
        f"several ONNX files: {', '.join(f.name for f in files)}"
        if files
        else "the folder holds no ONNX file",
        where=str(folder),
        hint=f"name one, for example onnx:{files[0]}"
        if files
        else "export one with optimum: optimum-cli export onnx --model FOLDER OUT",
    )
