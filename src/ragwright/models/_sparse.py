"""Learned sparse models by sentence-transformers: SPLADE, inference-free and CSR models.

An encoding holds the dimensions with a weight, ascending, as uint32, then the weights as float32.
The score of a chunk is the product of its vector and the query's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import models as room  # the engine of a folder loads when it is opened
from ..core import ConfigError, require
from ._embedding import plan_windows
from ._folder import is_late, local_engine, read_json
from ._hf_tokenizer import HFTokenizer
from ._options import EmbedOptions
from ._rerank import without_load_report
from ._seams import Encoder, Tokenizer
from ._st import folder_hash, model_hash, open_quietly

Role = Literal["query", "passage"]

_MAKE_SPARSE = ("SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding")
"""Layers that make a vector sparse; a model without any is an embedding model."""

_LOOK_UP = "SparseStaticEmbedding"

_HINT = (
    "name a sparse encoder, such as hf:naver/splade-v3-distilbert, or a folder that "
    "sentence-transformers' SparseEncoder.save wrote"
)


class SparseEncoder(Encoder):
    """Base of sparse encoders: windows, roles and the form of an encoding.

    A text of more tokens than the window holds is cut into windows of equal length, and each
    dimension gets its greatest weight over them, as SPLADE's max pooling does within a window.
    """

    instant: bool = False

    def encode_batch(self, texts: Sequence[str], role: Role) -> list[bytes]:
        """One encoding per text, each encoded by itself, so that it depends on no other text."""
        tokenizer, window = self.tokenizer(role), self.window(role)
        planned = plan_windows([texts], "", tokenizer, window, (self.identity, "pool"))
        [counts] = planned.counts
        assert isinstance(counts, list), "pooling never fails"
        pieces = iter(planned.pieces)
        return [_encoding(self.weights(next(pieces), role) for _ in range(n)) for n in counts]

    def term(self, number: int) -> str:
        """The token of a dimension; its number where the dimensions are no tokens."""
        tokenizer = self.tokenizer("query")
        token = tokenizer.token(number) if isinstance(tokenizer, HFTokenizer) else None
        return f"#{number}" if token is None else token

    def tokenizer(self, role: Role) -> Tokenizer | None:
        """The tokenizer of a role, None where the model has none of the fast kind."""
        raise NotImplementedError

    def window(self, role: Role) -> int | None:
        """Most tokens of one text, special ones left out; None for no limit."""
        raise NotImplementedError

    def weights(self, text: str, role: Role) -> NDArray[np.float32]:
        """The weight of every dimension for a text that fits the window."""
        raise NotImplementedError


def _encoding(windows: Iterable[NDArray[np.float32]]) -> bytes:
    """The encoding of a text from the weights of its windows."""
    weights: NDArray[np.float32] = np.maximum.reduce(list(windows))
    terms = np.flatnonzero(weights)
    return terms.astype(np.uint32).tobytes() + weights[terms].tobytes()


class TermTable:
    """The query side of an inference-free model: the weight of each token of its vocabulary.

    It needs neither torch nor a run of the model.

    Args:
        folder: The folder of the layer: tokenizer, and weights as safetensors or ``idf.json``.

    Raises:
        MissingExtraError: tokenizers or safetensors is not installed.
        ConfigError: The folder holds no weights, or others than one per token.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = HFTokenizer(folder)
        config = read_json(folder / "config.json")
        named = str(config.get("path") or "")
        if named.endswith(".json"):
            self._weights = self._of_words(read_json(folder / Path(named).name))
        else:
            self._weights = _stored_weights(folder)

    def _of_words(self, idf: dict[str, float]) -> NDArray[np.float32]:
        weights = np.zeros(self.tokenizer.size, np.float32)
        for token, weight in idf.items():
            number = self.tokenizer.number(token)
            if number is not None:
                weights[number] = weight
        return weights

    def weights(self, text: str) -> NDArray[np.float32]:
        """The weight of each token that the text holds, 0 for the others."""
        tokens = self.tokenizer.plain_ids(text)
        weights = np.zeros_like(self._weights)
        weights[tokens] = self._weights[tokens]
        return weights


def _stored_weights(folder: Path) -> NDArray[np.float32]:
    numpy_files = require("safetensors.numpy", "embed", "an inference-free model")
    file = folder / "model.safetensors"
    if not file.is_file():
        raise ConfigError(
            "the layer has no model.safetensors",
            where=str(folder),
            hint="its files are incomplete: copy the model into the folder again",
        )
    arrays = numpy_files.load_file(str(file))
    weight = np.asarray(arrays.get("weight", np.empty((0, 0))), np.float32)
    if weight.ndim != 1:
        raise ConfigError("the layer has no weight per token", where=str(file))
    return weight


class SparseTransformer(SparseEncoder):
    """A sparse encoder by sentence-transformers (torch, on the CPU by default).

    Torch and the model load when a passage is encoded, or a query that needs the model.

    Args:
        source: A folder, or a name on the hub.
        options: ``threads`` (of the whole process: torch has one setting).
        device: A torch device.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, an embedding model without a sparse layer, no weights, or a
            similarity other than a product or a cosine.
    """

    def __init__(
        self, source: str | Path, options: EmbedOptions | None = None, device: str = "cpu"
    ) -> None:
        self._source, self._device = str(source), device
        self._threads = (options or EmbedOptions()).threads
        self._opening = threading.Lock()
        self._model: Any = None
        self._table: TermTable | None = None
        home = Path(source).expanduser()
        if not home.is_dir():
            self.identity = f"sparse:{model_hash(self._opened())}"
            return
        kinds = checked_layers(home)
        query = query_layers(home)
        if query and all(kind == _LOOK_UP for kind, _ in query) and not _query_prompt(home):
            self._table = TermTable(query[0][1])
            self.instant = True
        elif not kinds:
            _refuse_other_architecture(home)
        self.identity = f"sparse:{folder_hash(home)}"

    def tokenizer(self, role: Role) -> Tokenizer | None:
        """The tokenizer of a role, None for a slow one."""
        if role == "query" and self._table is not None:
            return self._table.tokenizer
        fast = getattr(self._first_layer(role).tokenizer, "backend_tokenizer", None)
        return HFTokenizer(fast) if fast is not None else None

    def window(self, role: Role) -> int | None:
        """Most tokens of one text, special ones left out."""
        if role == "query" and self._table is not None:
            return None
        layer = self._first_layer(role)
        most = layer.max_seq_length
        if not most or most > 1e9:
            return None
        return int(most) - int(layer.tokenizer.num_special_tokens_to_add(False))

    def weights(self, text: str, role: Role) -> NDArray[np.float32]:
        """The weight of every dimension for a text that fits the window."""
        if role == "query" and self._table is not None:
            return self._table.weights(text)
        model = self._opened()
        encode = model.encode_query if role == "query" else model.encode_document
        safe = text.encode("utf-8", "replace").decode("utf-8")
        tensor = encode([safe], show_progress_bar=False, convert_to_sparse_tensor=False)[0]
        weights = np.asarray(tensor.cpu().numpy(), np.float32)
        if model.similarity_fn_name == "cosine":
            weights = weights / max(float(np.sqrt(np.dot(weights, weights))), 1e-12)
        return weights

    def _first_layer(self, role: Role) -> Any:
        """The layer that reads the text."""
        first = self._opened()[0]
        routes = getattr(first, "sub_modules", None)
        return first if routes is None else routes["query" if role == "query" else "document"][0]

    def _opened(self) -> Any:
        with self._opening:
            if self._model is None:
                with without_load_report():
                    model = open_quietly("SparseEncoder", self._source, self._device)
                if model.similarity_fn_name not in ("dot", "cosine"):
                    raise ConfigError(
                        f"the model compares by {model.similarity_fn_name}, and postings by a "
                        "product or a cosine",
                        where=self._source,
                        hint=_HINT,
                    )
                require("torch", "torch", "a sparse model").set_num_threads(self._threads)
                self._model = model
            return self._model


def open_sparse_encoder(source: str, options: EmbedOptions) -> Encoder:
    """The sparse encoder of a folder or of a name on the hub, by what the folder holds."""
    home = Path(source).expanduser()
    if home.suffix == ".onnx" or local_engine(home) == "onnx":
        return room.OnnxSparseEncoder(home, options)
    return SparseTransformer(source, options)


def checked_layers(home: Path) -> list[str]:
    """Kinds of the layers of a folder; empty for a model of transformers, without a list of them.

    Raises:
        ConfigError: None of them makes vectors sparse, or the folder holds no weights.
    """
    if not any(home.rglob("*.safetensors")) and not any(home.rglob("pytorch_model*.bin")):
        raise ConfigError(
            "the folder holds no weights: no model.safetensors in it or in its layers",
            where=str(home),
            hint="copy the whole model into the folder",
        )
    kinds = [kind for kind, _ in _layers(read_json(home / "modules.json"), home)]
    routes = _routes(home)
    kinds += [kind for layers in routes.values() for kind, _ in layers]
    if is_late(home):
        raise ConfigError(
            "not a learned sparse model: the folder holds a late-interaction model",
            where=str(home),
            hint=f"{_HINT}; a late-interaction model belongs under late.model",
        )
    if kinds and not any(kind in _MAKE_SPARSE for kind in kinds):
        raise ConfigError(
            f"this is an embedding model ({', '.join(kinds)}): its vectors are dense",
            where=str(home),
            hint=f"{_HINT}; a dense model belongs under embed.model",
        )
    return kinds


def query_layers(home: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each layer that a query goes through."""
    layers = _layers(read_json(home / "modules.json"), home)
    return _routes(home).get("query", []) if layers and layers[0][0] == "Router" else layers


def _routes(home: Path) -> dict[str, list[tuple[str, Path]]]:
    """The layers of each route of a model that encodes queries and documents differently."""
    routes: dict[str, list[tuple[str, Path]]] = {}
    for file in home.rglob("router_config.json"):
        config = read_json(file)
        types = config.get("types") or {}
        for route, names in (config.get("structure") or {}).items():
            routes[route] = [(_kind(types.get(name, "")), file.parent / name) for name in names]
    return routes


def _layers(modules: Any, home: Path) -> list[tuple[str, Path]]:
    entries = modules if isinstance(modules, list) else []
    return [(_kind(entry.get("type", "")), home / entry.get("path", "")) for entry in entries]


def _kind(name: str) -> str:
    return str(name).rpartition(".")[2]


def _query_prompt(home: Path) -> str:
    """The text that the model puts before queries."""
    settings = read_json(home / "config_sentence_transformers.json")
    prompts = settings.get("prompts") or {}
    return str(prompts.get("query") or prompts.get(settings.get("default_prompt_name")) or "")


def _refuse_other_architecture(home: Path) -> None:
    """Refuse a bare transformer without a masked language model: its sparse layer is untrained."""
    architectures = read_json(home / "config.json").get("architectures") or []
    if not any(str(name).endswith("ForMaskedLM") for name in architectures):
        raise ConfigError(
            f"the folder holds {', '.join(architectures) or 'no model'}, which has no trained head "
            "that weighs terms",
            where=str(home),
            hint=_HINT,
        )
