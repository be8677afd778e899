"""Writes models of sentence-transformers as folders that ``onnx:`` opens, without torch."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ..core import ConfigError, require
from ._folder import is_cross
from ._st import no_progress_bars, open_cross_encoder, open_quietly

_WHAT = "exporting to ONNX"


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
    require("onnx", "torch", _WHAT)
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
        with warnings.catch_warnings(), no_progress_bars(_WHAT):
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
    torch = require("torch", "torch", _WHAT)
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
