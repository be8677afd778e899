"""Learned sparse models by onnxruntime, without torch, and their export."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, require
from ._embedding import file_hash
from ._folder import ModelFolder
from ._hf_tokenizer import HFTokenizer
from ._onnx import network_output, open_onnx
from ._onnx_export import two_texts, write_network
from ._options import EmbedOptions
from ._rerank import without_load_report
from ._seams import Tokenizer
from ._sparse import Role, SparseEncoder, TermTable, checked_layers, query_layers
from ._st import folder_hash, no_progress_bars, open_quietly

_OUTPUT = "term_weights"
_TABLE = "query_table"
"""Folder of the table of an inference-free model, beside its ONNX file."""

_WHAT = "exporting a sparse model to ONNX"


class OnnxSparseEncoder(SparseEncoder):
    """A sparse encoder that :func:`export_sparse_onnx` wrote.

    Args:
        folder: The folder, or an ONNX file in it.
        options: Taken for the same form as other encoders; a text is run by one thread.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: No such file, or one that gives no term weights.
    """

    def __init__(self, folder: str | Path, options: EmbedOptions | None = None) -> None:
        home, file, self._session = open_onnx(folder)
        outputs = [output.name for output in self._session.get_outputs()]
        if _OUTPUT not in outputs:
            raise ConfigError(
                f"the file gives {', '.join(outputs)}, not the weights of terms",
                where=str(file),
                hint="export a sparse model: ragwright.models.export_sparse_onnx(model, folder)",
            )
        self._tokenizer = HFTokenizer(home)
        window = ModelFolder.read(home).window
        self._window = None if window is None else window - self._tokenizer.specials
        table = home / _TABLE
        self._table = TermTable(table) if table.is_dir() else None
        self.instant = self._table is not None
        weights = [file_hash(part)[:16] for part in sorted(file.parent.glob(f"{file.stem}.onnx*"))]
        self.identity = f"sparse-onnx:{'+'.join(weights)}:{folder_hash(home)}"

    def tokenizer(self, role: Role) -> Tokenizer:
        """The tokenizer of a role."""
        table = self._table if role == "query" else None
        return self._tokenizer if table is None else table.tokenizer

    def window(self, role: Role) -> int | None:
        """Most tokens of one text, special ones left out."""
        return None if role == "query" and self._table is not None else self._window

    def weights(self, text: str, role: Role) -> NDArray[np.float32]:
        """The weight of every dimension for a text that fits the window."""
        if role == "query" and self._table is not None:
            return self._table.weights(text)
        ids, types = self._tokenizer.ids(text)
        return network_output(self._session, _OUTPUT, ids, types)


def export_sparse_onnx(source: str | Path, folder: str | Path) -> Path:
    """Write a SPLADE or inference-free model as a folder that ``sparse.model: onnx:`` opens.

    The file holds the transformer, its head and the pooling. Of an inference-free model it holds
    the side of the documents; the table of the queries is copied beside it. CSR models and models
    with prompts are refused.

    Args:
        source: A folder of sentence-transformers.
        folder: Where to write; made if need be.

    Returns:
        The folder.

    Raises:
        MissingExtraError: sentence-transformers or onnx is not installed.
        ConfigError: The model has layers or prompts that the file cannot hold, or exporting fails.
    """
    require("onnx", "torch", _WHAT)
    home = Path(source).expanduser()
    checked_layers(home)
    with without_load_report():
        model = open_quietly("SparseEncoder", str(home), "cpu")
    layers, table = _document_layers(model, home)
    out = Path(folder).expanduser()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, no_progress_bars(_WHAT):
        written = Path(temporary) / "model.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _write_weights(layers, written)
            layers[0].tokenizer.save_pretrained(str(out))
            layers[0].auto_model.config.save_pretrained(str(out))
        shutil.move(written, out / "model.onnx")
    limit = {"max_seq_length": layers[0].max_seq_length}
    (out / "sentence_bert_config.json").write_text(json.dumps(limit), "utf-8")
    if table is not None:
        shutil.copytree(table, out / _TABLE, dirs_exist_ok=True)
    return out


def _document_layers(model: Any, home: Path) -> tuple[list[Any], Path | None]:
    """The layers that a document goes through, and the folder of the table of queries."""
    layers = list(model)
    table = None
    if type(layers[0]).__name__ == "Router":
        layers = list(layers[0].sub_modules["document"]) + layers[1:]
        query = query_layers(home)
        if [kind for kind, _ in query] != ["SparseStaticEmbedding"]:
            raise ConfigError(
                "a model with two transformers cannot be exported",
                where=str(home),
                hint="use the model by st:",
            )
        table = query[0][1]
    kinds = [type(layer).__name__ for layer in layers]
    if len(kinds) != 2 or kinds[1] != "SpladePooling" or model.similarity_fn_name == "cosine":
        raise ConfigError(
            f"layers {', '.join(kinds)} cannot be exported: a transformer with SpladePooling can",
            where=str(home),
            hint="use the model by st:",
        )
    if any((model.prompts or {}).values()):
        raise ConfigError(
            "the model puts prompts before texts, which the file cannot hold",
            where=str(home),
            hint="use the model by st:",
        )
    return layers, table


def _write_weights(layers: list[Any], path: Path) -> None:
    """Write the network that leads from tokens to the weights of terms."""
    torch = require("torch", "torch", _WHAT)
    network, pooling = layers[0].auto_model, layers[1]

    def weights(inputs: dict[str, Any]) -> Any:
        logits = network(**inputs).logits
        mask = inputs["attention_mask"].unsqueeze(-1).to(logits.dtype)
        terms = torch.log1p(torch.relu(logits * mask))
        if pooling.activation_function == "log1p_relu":
            terms = torch.log1p(terms)
        if pooling.pooling_strategy == "max":
            return terms.max(dim=1).values
        return terms.sum(dim=1)

    write_network(two_texts(layers[0]), [network], weights, (_OUTPUT, ("texts",)), path)
