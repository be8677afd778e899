"""``st:NAME_OR_FOLDER``: any model that sentence-transformers opens, and export to ONNX."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..core import ConfigError, RagwrightError, require, text_hash
from ._embedding import Prefixes, RuledEmbedder, VectorRule, file_hash, settle_rule
from ._folder import folder_names
from ._hf_tokenizer import HFTokenizer
from ._options import EmbedOptions, ModelSettings, Pooling
from ._seams import Matrix

_POOLING: dict[str, Pooling] = {"cls": "cls", "lasttoken": "last", "max": "max", "mean": "mean"}
_WORDS = {"last": "lasttoken"}
_WHAT = "an st: model"
_DECIDE = {".bin", ".json", ".metadata", ".model", ".safetensors", ".txt"}
"""Files that determine a model's output: weights, configuration, vocabulary."""


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
        self._batch = 1 if device == "cpu" else options.batch_size
        torch = require("torch", "torch", _WHAT)
        torch.set_num_threads(options.threads)
        prompts = self._model.prompts or {}
        own_rule = VectorRule(
            Prefixes(prompts.get("query", ""), prompts.get("passage", prompts.get("document", ""))),
            _model_pooling(self._model),
            "dot" if self._model.similarity_fn_name == "dot" else "cosine",
        )
        names = folder_names(Path(source))
        self.rule = settle_rule(options, settings or ModelSettings(), names, own_rule)
        set_pooling(self._model, self.rule.pooling)
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        self._tokenizer = HFTokenizer(fast) if fast is not None else None
        window = self._model.max_seq_length
        self._specials = self._model.tokenizer.num_special_tokens_to_add(False)
        self.window = int(window) - self._specials if window and window < 1e9 else None
        weights, tokens = model_hash(self._model), _tokenizer_hash(fast)
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


def open_quietly(kind: str, source: str | Path, device: str) -> Any:
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
    if vocabulary and vocabulary.keys() <= {*getattr(tokenizer, "all_special_tokens", ())}:
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


def folder_hash(home: Path) -> str:
    """Hash of the files of a folder that determine the model's output, without opening it.

    Contains names within the folder only, no path of this machine.
    """
    files = sorted(
        path.relative_to(home)
        for path in home.rglob("*")
        if path.suffix in _DECIDE and path.is_file()
    )
    hashes = [f"{path.as_posix()}:{file_hash(home / path)}" for path in files]
    return text_hash(" ".join(hashes))[:32]


def set_pooling(model: Any, pooling: Pooling) -> None:
    """Let a model pool token vectors in this way.

    Raises:
        ConfigError: It pools in another way, and has no pooling layer to set.
    """
    if pooling != _model_pooling(model):
        _pooling_layer(model).pooling_mode = _WORDS.get(pooling, pooling)


def _pooling_layer(model: Any) -> Any:
    for layer in model:
        if type(layer).__name__ == "Pooling":
            return layer
    raise ConfigError("the model has no pooling layer to set", hint="leave pooling unset")


def _model_pooling(model: Any) -> Pooling:
    modes = [layer.pooling_mode for layer in model if type(layer).__name__ == "Pooling"]
    return _POOLING.get(modes[0], "mean") if modes and isinstance(modes[0], str) else "mean"


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


def _tokenizer_hash(fast: Any) -> str:
    return text_hash(cast(str, fast.to_str()))[:16] if fast is not None else "slow"
