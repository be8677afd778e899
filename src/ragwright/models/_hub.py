"""``hf:ORG/NAME``: a model of the Hugging Face hub, fetched once, pinned, offline afterwards."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from ..core import (
    ConfigError,
    MissingKeyError,
    ModelError,
    RagwrightError,
    replacing,
    require,
    text_hash,
)
from ..ledger import folder_locked
from ._embedding import Prefixes, VectorRule, file_hash
from ._names import Pooling

log = logging.getLogger("ragwright.models")

LOCK_FILE = "ragwright.lock"
"""File of a project that holds the revisions and files of its models from the hub."""

_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
_SETTINGS = {".json", ".metadata", ".txt", ".model"}
_WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?")
_ONNX = ("onnx/model.onnx", "model.onnx")
_LAYER = re.compile(r"((?:(?:query|document)_)?\d+_\w+)/[\w.-]+")
_IN_ONNX = re.compile(r"0_Transformer|\d+_(Pooling|Normalize)")


@dataclass(frozen=True, slots=True)
class Pin:
    """The files and the revision of a hub model that a project uses.

    Attributes:
        revision: The commit, 40 hexadecimal digits.
        files: Names of its files in the repository, sorted.
    """

    revision: str
    files: tuple[str, ...]


@dataclass(slots=True)
class Hub:
    """Models of the hub as folders of its cache, pinned in the project's ``ragwright.lock``.

    ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME``, ``HF_HUB_OFFLINE`` and the variables of proxies are
    read by ``huggingface_hub``.

    Attributes:
        root: The project's folder; None where there is no project, and nothing is pinned.
    """

    root: Path | None = None
    _folders: dict[str, Path] = field(default_factory=dict)

    def folder(self, text: str) -> Path:
        """The folder that holds a model, fetched if need be.

        A pinned model whose files are in the cache is used without the network. Without a pin the
        newest commit is fetched and pinned; where the hub cannot be reached, the newest commit in
        the cache is.

        Raises:
            ConfigError: No such model or revision, or no files that can be run here.
            MissingKeyError: The model is gated or private, and the token does not open it.
            MissingExtraError: huggingface_hub is not installed.
            ModelError: The hub cannot be reached, or the disk is full.
        """
        if text not in self._folders:
            self._folders[text] = self.located(text) or self._fetch(text, self.pins().get(text))
        return self._folders[text]

    def pins(self) -> dict[str, Pin]:
        """The pins in ``ragwright.lock``, by name on the hub.

        Raises:
            ConfigError: The file is damaged.
        """
        path = None if self.root is None else self.root / LOCK_FILE
        if path is None or not path.is_file():
            return {}
        try:
            models = json.loads(path.read_text("utf-8"))["models"]
            return {n: Pin(str(m["revision"]), tuple(m["files"])) for n, m in models.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not readable: {error!r}",
                where=str(path),
                hint="restore the file, or delete it to pin the newest revisions",
            ) from error

    def located(self, text: str) -> Path | None:
        """The folder of a model in the cache, if every pinned file is in it."""
        hub, repo, pin = _hub_library(), _repo_and_revision(text)[0], self.pins().get(text)
        if pin is None:
            return None
        try:
            folder = Path(
                hub.snapshot_download(
                    repo,
                    revision=pin.revision,
                    allow_patterns=list(pin.files),
                    local_files_only=True,
                )
            )
        except hub.errors.LocalEntryNotFoundError:
            return None
        return folder if all((folder / file).is_file() for file in pin.files) else None

    def _fetch(self, text: str, pin: Pin | None) -> Path:
        hub, (repo, wanted) = _hub_library(), _repo_and_revision(text)
        revision = pin.revision if pin is not None else wanted
        try:
            try:
                info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True)
            except Exception as error:
                if pin is not None or (_status(error) or 500) < 500:
                    raise
                return self._newest_cached(hub, text)
            sizes = {s.rfilename: s.size or 0 for s in info.siblings or ()}
            files = pin.files if pin is not None else _choose_files(text, list(sizes))
            megabytes = sum(sizes.get(file, 0) for file in files) / 1e6
            log.info("fetching hf:%s: %d files, %.0f MB", text, len(files), megabytes)
            with _quiet(hub):
                folder = Path(
                    hub.snapshot_download(repo, revision=info.sha, allow_patterns=list(files))
                )
            _verify_hashes(folder, {s.rfilename: s.lfs for s in info.siblings or ()}, files)
        except RagwrightError:
            raise
        except Exception as error:
            raise _typed_error(error, text, pinned=pin is not None) from error
        self._write_pin(text, Pin(str(info.sha), tuple(files)))
        return folder

    def _newest_cached(self, hub: Any, text: str) -> Path:
        """The newest commit in the cache, for a project that has not pinned one."""
        repo, revision = _repo_and_revision(text)
        folder = Path(hub.snapshot_download(repo, revision=revision, local_files_only=True))
        present = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        self._write_pin(text, Pin(folder.name, _choose_files(text, present)))
        log.info("the hub cannot be reached; hf:%s is used as it is in the cache", text)
        return folder

    def _write_pin(self, text: str, pin: Pin) -> None:
        if self.root is None:
            return
        path = self.root / LOCK_FILE
        try:
            with folder_locked(self.root, "pinning a model"), replacing(path) as file:
                pins = sorted({**self.pins(), text: pin}.items())
                models = {name: {"revision": p.revision, "files": p.files} for name, p in pins}
                file.write((json.dumps({"models": models}, indent=2) + "\n").encode())
        except OSError as error:
            log.warning(
                "hf:%s is not pinned: %s cannot be written (%s)", text, path, error.strerror
            )


def list_cached_models() -> list[tuple[str, int]]:
    """Names and bytes of the models in the hub's cache; empty where there is no cache."""
    if not _are_installed("huggingface_hub"):
        return []
    hub = _hub_library()
    try:
        cache_info = hub.scan_cache_dir()
    except (hub.errors.CacheNotFound, OSError):
        return []
    return sorted((r.repo_id, r.size_on_disk) for r in cache_info.repos if r.repo_type == "model")


def _hub_library() -> Any:
    """``huggingface_hub``, without the data on this machine that it would send along."""
    hub = require("huggingface_hub", "embed", "an hf: model")
    for part in ("constants", "errors", "utils"):
        require(f"huggingface_hub.{part}", "embed", "an hf: model")
    # Else it fetches a list of programs once a day to name the one that runs it.
    hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    return hub


@contextmanager
def _quiet(hub: Any) -> Iterator[None]:
    """Show no progress bars outside of a terminal; those of other users of the hub come back."""
    shown = not (sys.stderr.isatty() or hub.utils.are_progress_bars_disabled())
    if shown:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            hub.utils.enable_progress_bars()


def _repo_and_revision(text: str) -> tuple[str, str | None]:
    """``ORG/NAME`` or ``ORG/NAME@REVISION`` taken apart; None is the main branch.

    Raises:
        ConfigError: The text is of neither form.
    """
    repo, _, revision = text.partition("@")
    if not _NAME.fullmatch(repo) or ".." in repo or text.endswith("@"):
        raise ConfigError(
            f"{text!r} is not the name of a model on the hub",
            hint="write hf:ORG/NAME or hf:ORG/NAME@REVISION, for example "
            "hf:sentence-transformers/all-MiniLM-L6-v2",
        )
    return repo, revision or None


def _choose_files(name: str, files: Sequence[str]) -> tuple[str, ...]:
    """The files of a repository that are needed: settings, tokenizer and one set of weights.

    ONNX where there is one and the model has no layers that its file would lack; else
    safetensors. What is not installed is passed over where the other can be had.

    Raises:
        ConfigError: Neither is there.
    """
    layers = {file: match[1] for file in files if (match := _LAYER.fullmatch(file))}
    own = [file for file in files if "/" not in file or file in layers]
    torch = [file for file in own if _WEIGHTS.fullmatch(PurePosixPath(file).name)]
    onnx = next((file for file in _ONNX if file in files), None)
    runs = _are_installed("onnxruntime", "tokenizers") or not _are_installed(
        "sentence_transformers"
    )
    further = any(not _IN_ONNX.fullmatch(layer) for layer in layers.values())
    if onnx is not None and not (torch and (further or not runs)):
        weights = [file for file in files if file.startswith(onnx)]
    elif torch:
        weights = torch
    else:
        have = sorted({PurePosixPath(f).suffix for f in files} & {".bin", ".gguf", ".h5", ".onnx"})
        raise ConfigError(
            "the model has no model.safetensors and no onnx/model.onnx"
            + (f"; it has {', '.join(have)}" if have else ""),
            where=f"hf:{name}",
            hint="choose another model, or a revision that holds one: hf:ORG/NAME@REVISION",
        )
    settings = [
        file
        for file in own
        if PurePosixPath(file).suffix in _SETTINGS and not file.endswith(".safetensors.index.json")
    ]
    return tuple(sorted({*settings, *weights}))


def _are_installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _verify_hashes(folder: Path, stored: Mapping[str, Any], files: Sequence[str]) -> None:
    """Compare large files with the hashes that the hub states; a wrong one is deleted.

    Raises:
        ModelError: A file is not what the hub states.
    """
    for file in files:
        expected = getattr(stored.get(file), "sha256", None)
        path = folder / file
        if not expected or not path.is_file():
            continue
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != expected:
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise ModelError(
                f"{file} arrived damaged: its SHA-256 is not the one that the hub states",
                where=str(folder),
                hint="run the command again",
            )


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error reply of the hub; None where no reply arrived."""
    errors = _hub_library().errors
    response = getattr(error, "response", None)
    if response is None or isinstance(error, errors.LocalEntryNotFoundError):
        return None
    return int(response.status_code)


def _typed_error(error: Exception, name: str, *, pinned: bool) -> RagwrightError:
    """Our error for one of huggingface_hub or of the disk: what happened and what to do."""
    errors, constants = _hub_library().errors, _hub_library().constants
    where, status = f"hf:{name}", _status(error)
    if isinstance(error, errors.GatedRepoError):
        return MissingKeyError(
            "the model is gated: its owner must grant you access",
            where=where,
            hint=f"ask for it at {constants.ENDPOINT}/{_repo_and_revision(name)[0]}, then export "
            "HF_TOKEN=…",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        hint = f"delete its entry in {LOCK_FILE} to pin the newest revision"
        return ConfigError(
            "the hub no longer has the pinned revision" if pinned else "no such revision",
            where=where,
            hint=hint if pinned else "check the part after @",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return ConfigError(
            "the hub has no such model, or it is private",
            where=where,
            hint="check the name (ORG/NAME); for a private model export HF_TOKEN=…",
        )
    if status in {401, 403}:
        return MissingKeyError(
            f"the hub refuses access ({status})",
            where=where,
            hint="export HF_TOKEN=… with a token that may read the model",
        )
    if status is not None:
        return ModelError(
            f"the hub answers with the error {status}", where=where, hint="try again later"
        )
    away = isinstance(error, ConnectionError | TimeoutError)
    if isinstance(error, OSError) and error.errno is not None and not away:
        return ModelError(
            f"the model cannot be stored: {error.strerror or error}",
            where=str(error.filename or where),
            hint="free space, or choose another folder with HF_HOME",
        )
    if constants.HF_HUB_OFFLINE:
        return ModelError(
            "the model is not in the cache, and HF_HUB_OFFLINE forbids fetching it",
            where=where,
            hint="unset HF_HUB_OFFLINE once; or name a folder: onnx:FOLDER or st:FOLDER",
        )
    return ModelError(
        "the hub cannot be reached, and the model is not in the cache",
        where=where,
        hint="connect once to fetch it; or name a folder: onnx:FOLDER or st:FOLDER. "
        "HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy",
    )


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


_DECIDE = {".bin", ".json", ".metadata", ".model", ".safetensors", ".txt"}
"""Files that determine a model's output: weights, configuration, vocabulary."""


def folder_identity(source: str | Path) -> str | None:
    """Identity of a cross-encoder by the files of its folder, without opening it.

    None for a name on the hub: its files are only known after it is opened.
    """
    home = Path(source).expanduser()
    return f"cross:{folder_hash(home)}" if home.is_dir() else None


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
