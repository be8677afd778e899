"""``onnx:FOLDER``: a local embedding model by onnxruntime, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, require
from ._embedding import RuledEmbedder, file_hash, settle_rule
from ._folder import ModelFolder
from ._hf_tokenizer import HFTokenizer
from ._options import EmbedOptions, ModelSettings, Pooling
from ._seams import Matrix

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
        settings: The model's entry under ``models:``.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: The folder holds no ONNX file, several, or one of another kind of model.
    """

    def __init__(
        self,
        folder: str | Path,
        options: EmbedOptions | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        options = options or EmbedOptions()
        home, file, self._session = open_onnx(folder)
        self.where = str(home)
        self.folder = ModelFolder.read(home)
        self._tokenizer = HFTokenizer(home)
        self.rule = settle_rule(
            options, settings or ModelSettings(), self.folder.names, self.folder.rule
        )
        self.threads = options.threads
        self._output, self._pooled = _output_of(self._session.get_outputs(), self.folder, file)
        weights = [file_hash(f) for f in sorted(file.parent.glob(f"{file.stem}.onnx*"))]
        tokens = file_hash(home / "tokenizer.json")
        window = self.folder.window
        self.window = None if window is None else window - self._tokenizer.specials
        self.identity = (
            f"onnx:{'+'.join(w[:16] for w in weights)}:{tokens[:16]}"
            f":{self._output}:{self.window}:{self.rule.identity()}"
        )
        self.dimensions = self.measured()

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts run one by one, ``threads`` of them side by side."""
        if self.threads == 1 or len(texts) == 1:
            return np.stack([self._embed_text(text) for text in texts])
        with ThreadPoolExecutor(self.threads) as pool:
            return np.stack(list(pool.map(self._embed_text, texts)))

    def tokenizer(self) -> HFTokenizer:
        """The model's own tokenizer."""
        return self._tokenizer

    def _embed_text(self, text: str) -> NDArray[np.float32]:
        ids, types = self._tokenizer.ids(text)
        self.check(len(ids) - self._tokenizer.specials)
        output = network_output(self._session, self._output, ids, types)
        vector = output if self._pooled else pooled(output, self.rule.pooling)
        return np.asarray(vector, np.float32)


def pooled(tokens: NDArray[np.float32], mode: Pooling) -> NDArray[np.float32]:
    """One vector from token vectors of shape (tokens, width), all of them real ones."""
    if mode == "cls":
        return np.asarray(tokens[0], np.float32)
    if mode == "last":
        return np.asarray(tokens[-1], np.float32)
    if mode == "max":
        return np.asarray(tokens.max(axis=0), np.float32)
    return np.asarray(tokens.mean(axis=0, dtype=np.float32), np.float32)


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
    session = _open_session(ort, file)
    unknown = {i.name for i in session.get_inputs()} - _INPUTS
    if unknown:
        raise ConfigError(
            f"the model needs the inputs {', '.join(sorted(unknown))}, which text does not provide",
            where=str(file),
            hint="export it as a text encoder",
        )
    return (_tokenizer_folder(file) if path.suffix == ".onnx" else path), file, session


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


def _open_session(ort: Any, file: Path) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"the ONNX file cannot be opened: {error}", where=str(file)) from error


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


def _tokenizer_folder(file: Path) -> Path:
    """The folder that holds the tokenizer: the file's own, or the one above ``onnx/``."""
    parent = file.parent
    return parent if (parent / "tokenizer.json").is_file() else parent.parent


def onnx_file(folder: Path) -> Path:
    """The ONNX file of a folder.

    Raises:
        ConfigError: There is none, or there are several.
    """
    for candidate in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
        if candidate.is_file():
            return candidate
    files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if len(files) == 1:
        return files[0]
    if files:
        raise ConfigError(
            f"several ONNX files: {', '.join(f.name for f in files)}",
            where=str(folder),
            hint=f"name one, for example onnx:{files[0]}",
        )
    raise ConfigError(
        "the folder holds no ONNX file",
        where=str(folder),
        hint="export one: ragwright.models.export_onnx(model, folder)  (needs ragwright[torch])",
    )
