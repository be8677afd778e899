"""Reads the configuration files of a sentence-transformers folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ..core import ConfigError
from ._embedding import Prefixes, VectorRule
from ._options import Pooling

POOLING: dict[str, Pooling] = {
    "cls": "cls",
    "cls_token": "cls",
    "lasttoken": "last",
    "max": "max",
    "max_tokens": "max",
    "mean": "mean",
    "mean_tokens": "mean",
}

_LAYERS = {"Transformer", "Pooling", "Normalize"}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The configuration of a model's folder.

    Attributes:
        path: The folder.
        names: The model's own name and the folder's name.
        rule: Pooling, similarity and prefixes by its own files.
        window: Most tokens, special ones included, by the smallest limit stated.
        layers: Modules after the transformer that are neither pooling nor normalising.
        sigmoid: A cross-encoder's logit becomes its score by a sigmoid, unless its files say
            otherwise.
    """

    path: Path
    names: tuple[str, ...]
    rule: VectorRule
    window: int | None
    layers: tuple[str, ...]
    sigmoid: bool = True

    @classmethod
    def read(cls, path: Path) -> ModelFolder:
        """Read a folder; missing files mean the usual values (mean, cosine, no prefix).

        Raises:
            ConfigError: No such folder, a damaged file, or an unknown pooling.
        """
        if not path.is_dir():
            raise ConfigError(
                "no such model folder", where=str(path), hint="write onnx:FOLDER or st:FOLDER"
            )
        config = read_json(path / "config.json")
        modules = read_json(path / "modules.json")
        entries = modules if isinstance(modules, list) else []
        kinds = [str(m.get("type", "")).rpartition(".")[2] for m in entries]
        places = {kind: str(m.get("path", "")) for kind, m in zip(kinds, entries, strict=True)}
        pooling = read_json(path / places.get("Pooling", "1_Pooling") / "config.json")
        settings = read_json(path / "config_sentence_transformers.json")
        rule = VectorRule(
            _prefixes_of(settings.get("prompts") or {}),
            _folder_pooling(pooling, path),
            "dot" if settings.get("similarity_fn_name") == "dot" else "cosine",
        )
        names = (*folder_names(path), str(config.get("_name_or_path") or ""))
        layers = tuple(kind for kind in kinds if kind not in _LAYERS)
        own_settings = config.get("sentence_transformers") or {}
        older = config.get("sbert_ce_default_activation_function")
        newest = settings.get("activation_fn")
        function = str(newest or own_settings.get("activation_fn") or older or "Sigmoid")
        sigmoid = not function.endswith("Identity")
        return cls(path, names, rule, _folder_window(path, config), layers, sigmoid)


def folder_names(path: Path) -> tuple[str, ...]:
    """The names of a model in a folder: in the hub's cache its name on the hub."""
    repo = path.parent.parent.name
    if path.parent.name == "snapshots" and repo.startswith("models--"):
        return (repo.removeprefix("models--").replace("--", "/"),)
    return (path.name,)


def local_engine(path: Path) -> Literal["onnx", "static", "st"]:
    """The engine that opens a folder: onnxruntime where it holds ONNX, model2vec, or
    sentence-transformers.

    Raises:
        ConfigError: A damaged file.
    """
    if any((path / file).is_file() for file in ("onnx/model.onnx", "model.onnx")):
        return "onnx"
    modules = read_json(path / "modules.json")
    kinds = [str(m.get("type", "")) for m in modules] if isinstance(modules, list) else []
    if any(kind.endswith("StaticEmbedding") for kind in kinds):
        return "static"
    return "static" if read_json(path / "config.json").get("model_type") == "model2vec" else "st"


def transformer_folder(path: Path, what: str) -> Path:
    """The folder that holds a model's transformer: its own, or that of the layer.

    Args:
        path: The folder, as transformers or sentence-transformers writes it.
        what: What needs a transformer, for the error.

    Raises:
        ConfigError: It holds none: there is no such folder, or its vectors are static.
    """
    if local_engine(path) == "static":
        raise ConfigError(
            f"{what} need a transformer; this model is a table of word vectors without context",
            where=str(path),
            hint="name the folder of a transformer, for example of all-MiniLM-L6-v2",
        )
    modules = read_json(path / "modules.json")
    layers = [str(m.get("path", "")) for m in modules] if isinstance(modules, list) else []
    for place in ("", *layers[:1]):
        if (path / place / "config.json").is_file():
            return path / place
    raise ConfigError(
        "the folder holds no transformer" if path.is_dir() else "no such model folder",
        where=str(path),
        hint="give a folder with config.json, weights and tokenizer: FOLDER, st:FOLDER or "
        "hf:ORG/NAME",
    )


def is_cross(home: Path) -> bool:
    """True for a folder that holds a cross-encoder, by its configuration alone."""
    kind = read_json(home / "config_sentence_transformers.json").get("model_type")
    if kind is not None:
        return bool(kind == "CrossEncoder")
    classes = read_json(home / "config.json").get("architectures") or ()
    return any(str(name).endswith("ForSequenceClassification") for name in classes)


def read_json(path: Path) -> Any:
    """The content of a JSON file, an empty mapping where there is no file.

    Raises:
        ConfigError: It is not JSON.
    """
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"not readable as JSON: {error}", where=str(path)) from error


def _prefixes_of(prompts: dict[str, str]) -> Prefixes:
    query = prompts.get("query") or prompts.get("search_query") or ""
    passage = next(
        (prompts[n] for n in ("passage", "document", "search_document") if prompts.get(n)), ""
    )
    return Prefixes(query, passage)


def _folder_pooling(config: dict[str, Any], path: Path) -> Pooling:
    mode = config.get("pooling_mode")
    if mode is None:
        set_ = [
            k.removeprefix("pooling_mode_")
            for k, v in config.items()
            if k.startswith("pooling_mode_") and v
        ]
        mode = set_ if len(set_) > 1 else (set_ or ["mean"])[0]
    if isinstance(mode, str) and mode in POOLING:
        return POOLING[mode]
    raise ConfigError(
        f"pooling {mode!r} is not known",
        where=str(path / "1_Pooling"),
        hint=f"known are {', '.join(sorted(set(POOLING.values())))}; or open the model by st:",
    )


def _folder_window(path: Path, config: dict[str, Any]) -> int | None:
    limits = [
        read_json(path / "sentence_bert_config.json").get("max_seq_length"),
        config.get("max_position_embeddings"),
        read_json(path / "tokenizer_config.json").get("model_max_length"),
    ]
    if limits[1] is not None and config.get("model_type") in {
        "roberta",
        "xlm-roberta",
        "camembert",
    }:
        limits[1] -= int(config.get("pad_token_id") or 1) + 1  # positions start after padding
    sizes = [int(cast(int, n)) for n in limits if isinstance(n, int | float) and 0 < n < 1e9]
    return min(sizes) if sizes else None
