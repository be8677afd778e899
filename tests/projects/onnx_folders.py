"""Models of sentence-transformers as folders that ``onnx:`` opens."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any


def export_onnx(source: Path, folder: Path) -> Path:
    """Write the network of an embedding model, or of a cross-encoder, beside its configuration."""
    import sentence_transformers as st
    import torch

    config = json.loads((source / "config.json").read_text("utf-8"))
    cross = "ForSequenceClassification" in str(config.get("architectures"))
    model: Any = (st.CrossEncoder if cross else st.SentenceTransformer)(str(source), device="cpu")
    output = "logits" if cross else "last_hidden_state"
    texts = ["a text", "another text, longer"]
    tokens = model.tokenizer(
        *((texts, texts[::-1]) if cross else (texts,)), padding=True, return_tensors="pt"
    )
    names = [n for n in ("input_ids", "attention_mask", "token_type_ids") if n in tokens]

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = model[0].auto_model

        def forward(self, *tensors: Any) -> Any:
            return getattr(self.network(**dict(zip(names, tensors, strict=True))), output)

    skip = shutil.ignore_patterns("*.safetensors", "*.bin", "*.md")
    shutil.copytree(source, folder, ignore=skip, dirs_exist_ok=True)
    axes = {name: {0: "texts", 1: "tokens"} for name in names}
    axes[output] = {0: "texts"} if cross else {0: "texts", 1: "tokens"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Network().eval(),
            tuple(tokens[name] for name in names),
            str(folder / "model.onnx"),
            input_names=names,
            output_names=[output],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return folder
