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
from typing import Any

from ..core import ConfigError, MissingKeyError, ModelError, RagwrightError, replacing, require
from ..ledger import folder_locked

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
class HubName:
    """A name on the hub taken apart.

    Attributes:
        repo: ``ORG/NAME``.
        revision: Branch, tag or commit asked for; empty for the main branch.
    """

    repo: str
    revision: str = ""

    @classmethod
    def parse(cls, text: str) -> HubName:
        """Parse ``ORG/NAME`` or ``ORG/NAME@REVISION``.

        Raises:
            ConfigError: The text is of neither form.
        """
        repo, _, revision = text.partition("@")
        if not _NAME.fullmatch(repo) or ".." in repo or (("@" in text) and not revision):
            raise ConfigError(
                f"{text!r} is not the name of a model on the hub",
                hint="write hf:ORG/NAME or hf:ORG/NAME@REVISION, for example "
                "hf:sentence-transformers/all-MiniLM-L6-v2",
            )
        return cls(repo, revision)

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}" if self.revision else self.repo


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
            name = HubName.parse(text)
            pin = self.pins().get(str(name))
            cached_folder = self._pinned_folder(name, pin)
            self._folders[text] = (
                cached_folder if cached_folder is not None else self._fetched_folder(name, pin)
            )
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
        """The folder of a model that was fetched before; None where it must be fetched."""
        name = HubName.parse(text)
        return self._pinned_folder(name, self.pins().get(str(name)))

    def _pinned_folder(self, name: HubName, pin: Pin | None) -> Path | None:
        """The folder in the cache, where every pinned file is in it."""
        if pin is None:
            return None
        hub = _hub_library()
        folder = None
        for file in pin.files:
            cached_path = hub.try_to_load_from_cache(name.repo, file, revision=pin.revision)
            if not isinstance(cached_path, str):
                return None
            folder = Path(cached_path)
            for _ in PurePosixPath(file).parts:
                folder = folder.parent
        return folder

    def _fetched_folder(self, name: HubName, pin: Pin | None) -> Path:
        hub = _hub_library()
        revision = pin.revision if pin is not None else name.revision or None
        with _typed_hub_errors(name, pinned=pin is not None):
            try:
                info = hub.HfApi().model_info(name.repo, revision=revision, files_metadata=True)
            except Exception as error:
                if pin is not None or not _is_unreachable(error):
                    raise
                return self._newest_cached(hub, name)
            sizes = {s.rfilename: s.size or 0 for s in info.siblings or ()}
            files = pin.files if pin is not None else chosen_files(str(name), list(sizes))
            megabytes = sum(sizes.get(file, 0) for file in files) / 1e6
            log.info("fetching hf:%s: %d files, %.0f MB", name, len(files), megabytes)
            with _terminal_bars(hub):
                folder = hub.snapshot_download(
                    name.repo, revision=info.sha, allow_patterns=list(files)
                )
            folder = Path(folder)
            _verify_hashes(folder, {s.rfilename: s.lfs for s in info.siblings or ()}, files)
        self._write_pin(name, Pin(str(info.sha), tuple(files)))
        return folder

    def _newest_cached(self, hub: Any, name: HubName) -> Path:
        """The newest commit in the cache, for a project that has not pinned one."""
        folder = Path(
            hub.snapshot_download(name.repo, revision=name.revision or None, local_files_only=True)
        )
        present = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        self._write_pin(name, Pin(folder.name, chosen_files(str(name), present)))
        log.info("the hub cannot be reached; hf:%s is used as it is in the cache", name)
        return folder

    def _write_pin(self, name: HubName, pin: Pin) -> None:
        if self.root is None:
            return
        path = self.root / LOCK_FILE
        try:
            with folder_locked(self.root, "pinning a model"):
                pins = {**self.pins(), str(name): pin}
                models = {
                    key: {"revision": pins[key].revision, "files": list(pins[key].files)}
                    for key in sorted(pins)
                }
                with replacing(path) as file:
                    file.write((json.dumps({"models": models}, indent=2) + "\n").encode())
        except OSError as error:
            log.warning(
                "hf:%s is not pinned: %s cannot be written (%s)", name, path, error.strerror
            )


def cached_models() -> list[tuple[str, int]]:
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
    # Else it fetches a list of programs once a day to name the one that runs it.
    _hub_constants().HF_HUB_DISABLE_TELEMETRY = True
    require("huggingface_hub.errors", "embed", "an hf: model")
    return hub


def chosen_files(name: str, files: Sequence[str]) -> tuple[str, ...]:
    """The files of a repository that are needed: settings, tokenizer and one set of weights.

    ONNX where there is one and the model has no layers that its file would lack; else
    safetensors. What is not installed is passed over where the other can be had.

    Raises:
        ConfigError: Neither is there.
    """
    settings = [
        file
        for file in files
        if PurePosixPath(file).suffix in _SETTINGS
        and ("/" not in file or _LAYER.fullmatch(file))
        and not file.endswith(".safetensors.index.json")
    ]
    layers = {match.group(1) for file in files if (match := _LAYER.fullmatch(file))}
    further = any(not _IN_ONNX.fullmatch(layer) for layer in layers)
    onnx = next((file for file in _ONNX if file in files), None)
    torch = [file for file in files if _is_torch(file)]
    runs = _are_installed("onnxruntime", "tokenizers") or not _are_installed(
        "sentence_transformers"
    )
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
    return tuple(sorted({*settings, *weights}))


def _is_torch(file: str) -> bool:
    path = PurePosixPath(file)
    home = len(path.parts) == 1 or _LAYER.fullmatch(file) is not None
    return home and _WEIGHTS.fullmatch(path.name) is not None


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


@contextmanager
def _terminal_bars(hub: Any) -> Iterator[None]:
    """Show the hub's progress bars on a terminal alone."""
    enabled = not hub.utils.are_progress_bars_disabled()
    quiet = enabled and not sys.stderr.isatty()
    if quiet:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if quiet:
            hub.utils.enable_progress_bars()


def _is_unreachable(error: BaseException) -> bool:
    """True if the hub sent no reply, or one that says it is out of service."""
    return _got_no_reply(error) or (_hub_status(error) or 0) >= 500


def _hub_constants() -> Any:
    """The settings that huggingface_hub read from the environment."""
    return require("huggingface_hub.constants", "embed", "an hf: model")


def _got_no_reply(error: BaseException) -> bool:
    """True if an error means that no reply arrived from the hub."""
    errors = _hub_library().errors
    away = (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)
    # Errors of the HTTP client that huggingface_hub brings (httpx or its successor).
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, (*away, ConnectionError, TimeoutError)) or "TransportError" in kinds


def _hub_status(error: BaseException) -> int | None:
    """The HTTP status of an error reply of the hub."""
    response = getattr(error, "response", None)
    if response is None or not isinstance(error, _hub_library().errors.HfHubHTTPError):
        return None
    return int(response.status_code)


@contextmanager
def _typed_hub_errors(name: HubName, *, pinned: bool) -> Iterator[None]:
    """Turn errors of huggingface_hub into ours: what happened and what to do."""
    try:
        yield
    except RagwrightError:
        raise
    except Exception as error:
        typed = _typed_hub_error(error, name, pinned=pinned)
        if typed is None:
            raise
        raise typed from error


def _typed_hub_error(error: Exception, name: HubName, *, pinned: bool) -> RagwrightError | None:
    """Our error for one of huggingface_hub or of the disk; None if it is neither."""
    errors = _hub_library().errors
    where = f"hf:{name}"
    if _got_no_reply(error) and _hub_constants().HF_HUB_OFFLINE:
        return ModelError(
            "the model is not in the cache, and HF_HUB_OFFLINE forbids fetching it",
            where=where,
            hint="unset HF_HUB_OFFLINE once; or name a folder: onnx:FOLDER or st:FOLDER",
        )
    if _got_no_reply(error):
        return ModelError(
            "the hub cannot be reached, and the model is not in the cache",
            where=where,
            hint="connect once to fetch it; or name a folder: onnx:FOLDER or st:FOLDER. "
            "HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy",
        )
    if isinstance(error, errors.GatedRepoError):
        return MissingKeyError(
            "the model is gated: its owner must grant you access",
            where=where,
            hint=f"ask for it at {_hub_constants().ENDPOINT}/{name.repo}, then export HF_TOKEN=…",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        if pinned:
            problem = "the hub no longer has the pinned revision"
            hint = f"delete its entry in {LOCK_FILE} to pin the newest revision"
            return ConfigError(problem, where=where, hint=hint)
        return ConfigError("no such revision", where=where, hint="check the part after @")
    if isinstance(error, errors.RepositoryNotFoundError):
        return ConfigError(
            "the hub has no such model, or it is private",
            where=where,
            hint="check the name (ORG/NAME); for a private model export HF_TOKEN=…",
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _refused_by_hub(_hub_status(error), where)
    if isinstance(error, OSError):
        return ModelError(
            f"the model cannot be stored: {error.strerror or error}",
            where=str(error.filename or where),
            hint="free space, or choose another folder with HF_HOME",
        )
    return None


def _refused_by_hub(status: int | None, where: str) -> RagwrightError:
    if status in {401, 403}:
        return MissingKeyError(
            f"the hub refuses access ({status})",
            where=where,
            hint="export HF_TOKEN=… with a token that may read the model",
        )
    return ModelError(
        f"the hub answers with the error {'?' if status is None else status}",
        where=where,
        hint="try again later",
    )
