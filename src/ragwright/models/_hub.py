"""``hf:ORG/NAME``: a model of the Hugging Face hub, fetched once, pinned, offline afterwards."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, cast

from ..core import (
    ConfigError,
    MissingExtraError,
    MissingKeyError,
    ModelError,
    RagwrightError,
    replacing,
    require,
)
from ..ledger import folder_locked
from ._embedding import VectorRule, file_hash
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

_Pin: TypeAlias = tuple[str, list[str]]
"""Commit of a model (40 hexadecimal digits), and the sorted names of its files in use."""


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
            self._folders[text] = self.located(text) or self._fetch(text)
        return self._folders[text]

    def pins(self) -> dict[str, _Pin]:
        """The pins in ``ragwright.lock``, by name on the hub.

        Raises:
            ConfigError: The file is damaged.
        """
        path = None if self.root is None else self.root / LOCK_FILE
        if path is None or not path.is_file():
            return {}
        try:
            models = json.loads(path.read_text("utf-8"))["models"]
            return {n: (str(m["revision"]), list(m["files"])) for n, m in models.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not readable: {error!r}",
                where=str(path),
                hint="restore the file, or delete it to pin the newest revisions",
            ) from error

    def located(self, text: str) -> Path | None:
        """The folder of a model in the cache, if every pinned file is in it."""
        hub, (repo, _) = _hub_library(), _repo_and_revision(text)
        if text not in self.pins():
            return None
        revision, files = self.pins()[text]
        try:
            folder = Path(
                hub.snapshot_download(
                    repo, revision=revision, allow_patterns=files, local_files_only=True
                )
            )
        except hub.errors.LocalEntryNotFoundError:
            return None
        return folder if all((folder / file).is_file() for file in files) else None

    def _fetch(self, text: str) -> Path:
        hub, (repo, wanted) = _hub_library(), _repo_and_revision(text)
        revision, files = self.pins().get(text, (wanted, []))
        hashes: dict[str, Any] = {}
        try:
            try:
                info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True)
                revision, hashes = info.sha, {s.rfilename: s.lfs for s in info.siblings or ()}
            except Exception as error:
                if files or (_status(error) or 500) < 500:
                    raise
                cached = Path(hub.snapshot_download(repo, revision=wanted, local_files_only=True))
                log.info("the hub cannot be reached; hf:%s is used as it is in the cache", text)
                revision = cached.name
                hashes = {path.relative_to(cached).as_posix(): None for path in cached.rglob("*")}
            files = files or _choose_files(text, list(hashes))
            log.info("fetching hf:%s: %d files", text, len(files))
            folder = Path(hub.snapshot_download(repo, revision=revision, allow_patterns=files))
        except RagwrightError:
            raise
        except Exception as error:
            raise _typed_error(error, text) from error
        for file in files:
            _verify_hash(folder / file, getattr(hashes.get(file), "sha256", None))
        self._write_pin(text, (str(revision), files))
        return folder

    def _write_pin(self, text: str, pin: _Pin) -> None:
        if self.root is None:
            return
        path = self.root / LOCK_FILE
        try:
            with folder_locked(self.root, "pinning a model"), replacing(path) as file:
                pins = sorted({**self.pins(), text: pin}.items())
                models = {name: {"revision": r, "files": files} for name, (r, files) in pins}
                file.write((json.dumps({"models": models}, indent=2) + "\n").encode())
        except OSError as error:
            log.warning(
                "hf:%s is not pinned: %s cannot be written (%s)", text, path, error.strerror
            )


def list_cached_models() -> list[tuple[str, int]]:
    """Names and bytes of the models in the hub's cache; empty where there is no cache."""
    try:
        hub = _hub_library()
    except MissingExtraError:
        return []
    try:
        repos = hub.scan_cache_dir().repos
    except (hub.errors.CacheNotFound, OSError):
        return []
    return sorted((r.repo_id, r.size_on_disk) for r in repos if r.repo_type == "model")


def _hub_library() -> Any:
    """``huggingface_hub``, without the data on this machine that it would send along.

    It shows no progress bars outside of a terminal.
    """
    hub = require("huggingface_hub", "embed", "an hf: model")
    for part in ("constants", "errors", "utils"):
        require(f"huggingface_hub.{part}", "embed", "an hf: model")
    # Else it fetches a list of programs once a day to name the one that runs it.
    hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    return hub


def _repo_and_revision(text: str) -> tuple[str, str | None]:
    """``ORG/NAME`` or ``ORG/NAME@REVISION`` taken apart; None is the main branch."""
    repo, _, revision = text.partition("@")
    if not _NAME.fullmatch(repo) or ".." in repo or text.endswith("@"):
        raise ConfigError(
            f"{text!r} is not the name of a model on the hub",
            hint="write hf:ORG/NAME or hf:ORG/NAME@REVISION, for example "
            "hf:sentence-transformers/all-MiniLM-L6-v2",
        )
    return repo, revision or None


def _choose_files(name: str, files: Sequence[str]) -> list[str]:
    """The files of a repository that are needed: settings, tokenizer and one set of weights.

    ONNX where there is one and the model has no layers that its file would lack; else
    safetensors.

    Raises:
        ConfigError: Neither is there.
    """
    layers = {file: match[1] for file in files if (match := _LAYER.fullmatch(file))}
    own = [file for file in files if "/" not in file or file in layers]
    torch = [file for file in own if _WEIGHTS.fullmatch(PurePosixPath(file).name)]
    onnx = next((file for file in _ONNX if file in files), None)
    further = any(not _IN_ONNX.fullmatch(layer) for layer in layers.values())
    weights = torch
    if onnx is not None and not (torch and further):
        weights = [file for file in files if file.startswith(onnx)]
    if not weights:
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
    return sorted({*settings, *weights})


def _verify_hash(path: Path, expected: str | None) -> None:
    """Compare a large file with the hash that the hub states; a wrong one is deleted."""
    if expected is None or file_hash(path) == expected:
        return
    path.resolve().unlink()
    path.unlink()
    raise ModelError(
        f"{path.name} arrived damaged: its SHA-256 is not the one that the hub states",
        where=str(path.parent),
        hint="run the command again",
    )


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error reply of the hub; None where no reply arrived."""
    response = getattr(error, "response", None)
    missing = isinstance(error, _hub_library().errors.LocalEntryNotFoundError)
    return None if response is None or missing else int(response.status_code)


_FAULTS: tuple[tuple[str, type[RagwrightError], str, str], ...] = (
    (
        "GatedRepoError",
        MissingKeyError,
        "the model is gated: its owner must grant you access",
        "ask for it on the model's page of the hub, then export HF_TOKEN=…",
    ),
    (
        "RevisionNotFoundError",
        ConfigError,
        "the hub has no such revision",
        f"check the part after @, or delete the model's entry in {LOCK_FILE}",
    ),
    (
        "RepositoryNotFoundError",
        ConfigError,
        "the hub has no such model, or it is private",
        "check the name (ORG/NAME); for a private model export HF_TOKEN=…",
    ),
)
"""Errors of huggingface_hub, by name: ours, what happened, and what to do."""


def _typed_error(error: Exception, name: str) -> RagwrightError:
    """Our error for one of huggingface_hub or of the disk: what happened and what to do."""
    hub, status = _hub_library(), _status(error)
    cases: list[tuple[object, type[RagwrightError], str, str]] = [
        *((isinstance(error, getattr(hub.errors, k)), ours, w, h) for k, ours, w, h in _FAULTS),
        (
            status in {401, 403},
            MissingKeyError,
            f"the hub refuses access ({status})",
            "export HF_TOKEN=… with a valid token",
        ),
        (
            status is not None,
            ModelError,
            f"the hub answers with the error {status}",
            "try again later",
        ),
        (
            getattr(error, "errno", None) is not None
            and not isinstance(error, ConnectionError | TimeoutError),
            ModelError,
            f"the model cannot be stored: {getattr(error, 'strerror', None) or error}",
            "free space, or choose another folder with HF_HOME",
        ),
        (
            hub.constants.HF_HUB_OFFLINE,
            ModelError,
            "the model is not in the cache, and HF_HUB_OFFLINE forbids fetching it",
            "unset HF_HUB_OFFLINE once; or name a folder: onnx:FOLDER or st:FOLDER",
        ),
        (
            True,
            ModelError,
            "the hub cannot be reached, and the model is not in the cache",
            "connect once to fetch it; or name a folder: onnx:FOLDER or st:FOLDER. HF_ENDPOINT "
            "names a mirror, HTTPS_PROXY a proxy",
        ),
    ]
    _, ours, what, hint = next(case for case in cases if case[0])
    return ours(what, where=f"hf:{name}", hint=hint)


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
        names: The model's own name and the folder's name.
        rule: Pooling, similarity and prefixes by its own files.
        window: Most tokens, special ones included, by the smallest limit stated.
        layers: Modules after the transformer that are neither pooling nor normalising.
        sigmoid: A cross-encoder's logit becomes its score by a sigmoid, unless its files say
            otherwise.
    """

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
        places = {str(m.get("type")).rpartition(".")[2]: str(m.get("path")) for m in _modules(path)}
        pooling = read_json(path / places.get("Pooling", "1_Pooling") / "config.json")
        settings = read_json(path / "config_sentence_transformers.json")
        rule = VectorRule(
            *prompt_prefixes(settings.get("prompts") or {}),
            _folder_pooling(pooling, path),
            "dot" if settings.get("similarity_fn_name") == "dot" else "cosine",
        )
        names = (*folder_names(path), str(config.get("_name_or_path") or ""))
        layers = tuple(kind for kind in places if kind not in _LAYERS)
        functions = (
            settings.get("activation_fn"),
            (config.get("sentence_transformers") or {}).get("activation_fn"),
            config.get("sbert_ce_default_activation_function"),
        )
        sigmoid = not str(next(filter(None, functions), "")).endswith("Identity")
        return cls(names, rule, _folder_window(path, config), layers, sigmoid)


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
    static = any(str(module.get("type")).endswith("StaticEmbedding") for module in _modules(path))
    kind = read_json(path / "config.json").get("model_type")
    return "static" if static or kind == "model2vec" else "st"


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
    for place in ("", *(str(module.get("path")) for module in _modules(path)[:1])):
        if (path / place / "config.json").is_file():
            return path / place
    raise ConfigError(
        "the folder holds no transformer" if path.is_dir() else "no such model folder",
        where=str(path),
        hint="give a folder with config.json, weights and tokenizer: FOLDER, st:FOLDER or "
        "hf:ORG/NAME",
    )


def _modules(home: Path) -> list[dict[str, Any]]:
    """The modules of a sentence-transformers model; empty if `modules.json` lists none."""
    modules = read_json(home / "modules.json")
    return modules if isinstance(modules, list) else []


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


def prompt_prefixes(prompts: Mapping[str, str]) -> tuple[str, str]:
    """The prefixes of queries and of passages among the prompts of sentence-transformers."""
    query = prompts.get("query") or prompts.get("search_query") or ""
    passages = (prompts.get(name) for name in ("passage", "document", "search_document"))
    return query, next(filter(None, passages), "")


def _folder_pooling(config: dict[str, Any], path: Path) -> Pooling:
    on = (key for key, value in config.items() if key.startswith("pooling_mode_") and value)
    modes = "+".join(key.removeprefix("pooling_mode_") for key in on)
    mode = str(config.get("pooling_mode") or modes or "mean")
    if mode not in POOLING:
        raise ConfigError(
            f"pooling {mode!r} is not known",
            where=str(path / "1_Pooling"),
            hint=f"known are {', '.join(sorted(set(POOLING.values())))}; or open the model by st:",
        )
    return POOLING[mode]


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
