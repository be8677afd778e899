"""Models by name, opened on first use, and the handlers through which flows reach them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from ..core import (
    ConfigError,
    ModelRefusedError,
    PluginError,
    RagwrightError,
    Usage,
    addition,
    list_names,
    load_object,
)
from ._analysis import LexicalReranker
from ._embedding import (
    ChatModel,
    Embedder,
    Reranker,
    Tokenizer,
    VectorRule,
    folder_hash,
    settle_rule,
)
from ._hub import Hub, local_engine
from ._names import (
    NO_MODEL,
    PROVIDERS,
    EmbedOptions,
    ModelSettings,
    ModelTarget,
    TimeLimits,
    find_model,
    list_providers,
)
from ._onnx import OnnxEmbedder, OnnxReranker, StaticEmbedder
from ._openai import OpenAIChat
from ._st import CrossEncoderReranker, SentenceTransformerEmbedder, is_unproven
from ._transport import Connections, OpenAIServer, server_identity

Backend: TypeAlias = ChatModel | Embedder | Reranker
MadeT = TypeVar("MadeT")


class Models:
    """All models that a project names: servers, local folders, custom back ends.

    Args:
        settings: Entries under ``models:``, by model name or provider.
        embed: The ``embed`` section; it applies to the model it names.
        root: The project's folder: relative folders in names start there if they exist. Names stay
            as configured, in keys as in settings.
        limits: How long servers may be silent unless a model's settings say otherwise.

    ``known_dimensions`` may hold the lengths of servers' vectors, for dry runs.

    Nothing is opened or read before a model is used. One instance serves any
    number of runners; :func:`model_handlers` makes the connections of one runner.
    """

    def __init__(
        self,
        settings: Mapping[str, ModelSettings] | None = None,
        embed: EmbedOptions | None = None,
        root: Path | None = None,
        limits: TimeLimits | None = None,
    ) -> None:
        self.root = root
        self.limits = limits or TimeLimits()
        self.known_dimensions: dict[str, int] = {}
        self.settings = dict(settings or {})
        self.hub = Hub(root)
        self.embed = embed or EmbedOptions()
        self._backends: dict[str, Backend | None] = {}
        self._made: dict[tuple[str, str], Any] = {}
        self._making = threading.RLock()

    def _once(self, kind: str, name: str, make: Callable[[], MadeT]) -> MadeT:
        """Return what is made once for a name."""
        with self._making:
            if (kind, name) not in self._made:
                self._made[kind, name] = make()
        return self._made[kind, name]  # type: ignore[no-any-return]

    def register(self, name: str, backend: Backend) -> None:
        """Register a back end made in Python under a name; it overrides settings."""
        self._backends[name] = _make_backend(backend, (), name)

    def target(self, name: str) -> ModelTarget:
        """The location and the settings of a model.

        Raises:
            ConfigError: The name is unknown.
        """
        return self._once("target", name, lambda: find_model(name, self.settings, self.limits))

    def backend(self, name: str) -> Backend | None:
        """The custom back end of a name: registered, from settings, or installed.

        A plug-in for a whole provider is called with the model's part of the name; where that is
        itself a local model (``bertscore:st:FOLDER``), with its folder. None if the name
        means a server or a folder.

        Raises:
            PluginError: The plug-in cannot be loaded, or is not a back end.
        """
        if name not in self._backends:
            self._backends.setdefault(name, self._plugin(name))
        return self._backends[name]

    def _plugin(self, name: str) -> Backend | None:
        if name == LexicalReranker.name:
            return LexicalReranker()
        provider, colon, rest = name.partition(":")
        entries = self.settings
        for key, arguments in ((name, ()), (provider, (rest,) if colon else ())):
            entry = entries.get(key)
            if entry is not None and entry.backend:
                return _make_backend(
                    load_object(entry.backend, where=f"models: {key}"), arguments, name
                )
        if provider in list_providers(entries) or name in entries:
            return None
        installed = addition("models", provider)
        if installed is None:
            return None
        return _make_backend(installed.load(), (self._within(rest),) if colon else (), name)

    def _within(self, rest: str) -> str:
        """The model's part of a plug-in's name; one that is itself a local model, as its folder."""
        source, mark, part = rest.partition("#")
        provider, colon, _ = source.partition(":")
        if colon and (provider not in PROVIDERS or PROVIDERS[provider].kind != "folder"):
            return rest
        return f"{self.folder(source) if colon else self._place(source)}{mark}{part}"

    def _place(self, name: str) -> str:
        """A folder of the project, if it has one of this name; else the name."""
        inside = None if self.root is None or not name else self.root / name
        return name if inside is None or not inside.exists() else str(inside.resolve())

    def chat_model(self, name: str, connections: Connections | None = None) -> ChatModel:
        """The chat model of a name.

        Raises:
            ConfigError: The name is unknown, or it is not a chat model.
        """
        own = self.backend(name)
        if isinstance(own, ChatModel):
            return own
        target = None if own is not None else self.target(name)
        if target is None or target.kind != "server":
            raise _wrong(name, "chat", own)
        return OpenAIChat(target, connections)

    def embedder(self, name: str) -> Embedder | None:
        """The local embedder of a name, opened once; None where a server embeds.

        Raises:
            ConfigError: The name is unknown, it is not an embedder, or its folder is wrong.
            MissingExtraError: The extra that opens it is not installed.
        """
        own = self.backend(name)
        if isinstance(own, Embedder):
            return own
        target = None if own is not None else self.target(name)
        if target is None or target.kind == "object":
            raise _wrong(name, "embedding", own)
        if target.kind == "server":
            return None

        def open_embedder() -> Embedder:
            source, engine = self._located(target)
            return _ENGINES[engine](source, self._options(name))

        return self._once("embedder", name, open_embedder)

    def folder(self, text: str) -> Path:
        """The folder of a local model: given as one, or named ``st:FOLDER`` or ``hf:ORG/NAME``.

        A model of the hub is fetched if need be. The folder may not exist.

        Raises:
            ConfigError: A server or a custom back end is named.
        """
        provider, colon, _ = text.partition(":")
        if not colon or provider not in list_providers(self.settings) or Path(text).exists():
            return Path(self._place(text)).expanduser()
        target = self.target(text)
        if target.kind != "folder":
            raise ConfigError(
                f"{text!r} is not a local model", hint="name a folder, st:FOLDER or hf:ORG/NAME"
            )
        return Path(self._located(target)[0]).expanduser()

    def trainable(self, name: str) -> str:
        """The folder of an embedding model's PyTorch weights.

        Raises:
            ConfigError: A server or a custom back end embeds, its vectors are static, or its folder
                has no such weights; with what can be done instead.
        """
        target = None if self.backend(name) is not None else self.target(name)
        if target is None or target.kind != "folder":
            server = target is not None and target.kind == "server"
            why = "a server holds its weights" if server else "it is a custom back end"
        else:
            source, engine = self._located(target)
            why = "it is a table of word vectors without layers" if engine == "static" else ""
        if target is None or why:
            raise ConfigError(
                f"{name} cannot be fine-tuned: {why}",
                hint="name a model with PyTorch weights: embed.model: hf:ORG/NAME or st:FOLDER",
            )
        folder = Path(source)
        if folder.is_dir() and not (
            any(folder.rglob("*.safetensors")) or any(folder.rglob("pytorch_model*.bin"))
        ):
            hub = target.name.partition("@")[0] if target.provider == "hf" else "FOLDER"
            raise ConfigError(
                f"{name} has no PyTorch weights here, only ONNX, which cannot be trained",
                where=source,
                hint=f"set embed.model: st:{hub}, with model.safetensors in it, and ingest",
            )
        return source

    def is_unproven(self, name: str) -> bool:
        """True for a fine-tuned model that was kept although it is not proven better."""
        _, _, place = name.partition(":")
        return bool(place) and is_unproven((self.root or Path()) / place)

    def reranker(self, name: str) -> Reranker:
        """The local reranker of a name, opened once: a custom one, or a cross-encoder.

        Raises:
            ConfigError: The name is unknown, or it is not a local reranker.
            MissingExtraError: The extra that opens it is not installed.
        """
        own = self.backend(name)
        if isinstance(own, Reranker):
            return own
        if own is None and self.target(name).provider in _CROSS:

            def open_reranker() -> Reranker:
                source, engine = self._located(self.target(name))
                kind = OnnxReranker if engine == "onnx" else CrossEncoderReranker
                return kind(source, self._options(name))

            return self._once("reranker", name, open_reranker)
        raise _wrong(name, "reranking", own)

    def reranker_identity(self, name: str) -> str:
        """Everything besides query and passages that determines a local reranker's scores.

        A cross-encoder in a folder is not opened for this; its files are read once.
        """
        if self.backend(name) is None and self.target(name).provider in _CROSS:
            source, engine = self._located(self.target(name))
            home = Path(source).expanduser()
            if home.is_dir():
                return self._once("files", name, lambda: f"{engine}:{folder_hash(home)}")
        return self.reranker(name).identity

    def tokenizer(self, name: str) -> Tokenizer | None:
        """The tokens that an embedding model counts; None for a server's."""
        embedder = self.embedder(name)
        return None if embedder is None else embedder.tokenizer()

    def vector_rule(self, name: str) -> VectorRule:
        """Prefixes and similarity that apply to an embedding model."""
        embedder = self.embedder(name)
        rule = getattr(embedder, "rule", None)
        if isinstance(rule, VectorRule):
            return rule
        names = [self.target(name).name] if embedder is None else []
        return settle_rule(self._options(name), names, VectorRule())

    def embedder_identity(self, name: str) -> str:
        """Everything besides the texts that determines a model's vectors.

        Weights and tokenizer, or the server's address and the parameters sent to it; the
        rule; the window, and the treatment of longer texts. Contains no path of this machine.

        Keys of stored vectors contain it; models that may differ never share one.
        """
        embedder = self.embedder(name)
        if embedder is None:
            target = self.target(name)
            own, window = server_identity(target), target.settings.context_window
        else:
            own, window = embedder.identity, embedder.window
        # The treatment of texts beyond the window determines their vectors.
        long_texts = "" if window is None else f":{self.embed.long_texts}"
        return f"{own}:{window}:{self.vector_rule(name).identity()}{long_texts}"

    def free(self, name: str) -> bool:
        """True where calls cost nothing: local work, a server here, or a price of zero."""
        entry = self.settings_of(name)
        own = self.backend(name) is not None or self.target(name).free
        return own and entry.price_in is None and entry.price_out is None

    def price(self, name: str, usage: Usage) -> float | None:
        """Money for a usage; None where the model costs and no price is configured."""
        entry = self.settings_of(name)
        if self.free(name):
            return 0.0
        if entry.price_in is None or (entry.price_out is None and usage.completion_tokens):
            return None
        out = entry.price_out or 0.0
        return (usage.prompt_tokens * entry.price_in + usage.completion_tokens * out) / 1e6

    def settings_of(self, name: str) -> ModelSettings:
        """The settings that apply to a model, its provider's included."""
        if name != NO_MODEL and self.backend(name) is None:
            return self.target(name).settings
        group = self.settings.get(name.partition(":")[0])
        return self.settings.get(name) or group or ModelSettings()

    def is_local(self, name: str) -> bool:
        """True where this process does the work, False where a server does; opens nothing."""
        return (
            name == NO_MODEL or self.backend(name) is not None or self.target(name).kind != "server"
        )

    def _located(self, target: ModelTarget) -> tuple[str, str]:
        """The source of a local model, and what opens it; one on the hub is fetched if need be.

        A static model that is named ``st:`` is opened as what it is.
        """
        if target.provider != "hf":
            source, engine = self._place(target.name), target.provider
            static = engine == "st" and local_engine(Path(source).expanduser()) == "static"
            return source, "static" if static else engine
        folder = self.hub.folder(target.name)
        return str(folder), local_engine(folder)

    def _options(self, name: str) -> EmbedOptions:
        """The ``embed`` section for the model it names; for others its threads alone."""
        return self.embed if name == self.embed.model else EmbedOptions(threads=self.embed.threads)


_ENGINES: Mapping[str, Callable[[str, EmbedOptions], Embedder]] = {
    "onnx": OnnxEmbedder,
    "st": SentenceTransformerEmbedder,
    "static": StaticEmbedder,
}
"""The function that opens an embedding model, by provider."""

_CROSS = {"hf", "onnx", "st"}
"""Providers of local cross-encoders."""


def _make_backend(plugin: Any, arguments: tuple[str, ...], name: str) -> Backend:
    """A plug-in's object, made where it is a class or a factory."""
    backend = plugin
    if callable(plugin) and not isinstance(plugin, Backend):
        try:
            backend = plugin(*arguments)
        except RagwrightError:
            raise
        except Exception as error:
            raise PluginError(
                f"{getattr(plugin, '__name__', plugin)!r} failed: {error}",
                where=name,
                hint="a plug-in for one model takes no argument, one for a provider the model's "
                "name",
            ) from error
    if isinstance(backend, Backend):
        return backend
    raise PluginError(
        f"{type(backend).__name__} is not a ChatModel, Embedder or Reranker",
        where=name,
        hint="derive it from one of these classes of ragwright.models",
    )


def _wrong(name: str, wanted: str, own: object) -> ConfigError:
    kind = type(own).__name__ if own is not None else "a model of another kind"
    return ConfigError(
        f"{name!r} is {kind}, not a {wanted} model",
        hint=f"name a {wanted} model, or register a back end for it",
    )


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """Result of the check of one model: state and one sentence (with what to do)."""

    model: str
    state: Literal["ok", "warning", "error"]
    text: str


def check_model(models: Models, name: str, timeout: float = 10.0) -> ModelFinding:
    """Check whether a model can be used, without paying for a reply.

    A server is asked for its list of models; a local one is opened and embeds one word. Must not be
    called on an event loop.
    """
    try:
        if not models.is_local(name):
            return asyncio.run(_check_server(models, name, timeout))
        backend = models.backend(name)
        embedder = (
            models.embedder(name) if backend is None or isinstance(backend, Embedder) else None
        )
        if embedder is None:
            return ModelFinding(name, "ok", f"{type(backend).__name__}, a custom back end")
        width = embedder.embed_batch(["word"]).shape[1]
        window = "without a limit" if embedder.window is None else f"{embedder.window} tokens"
        return ModelFinding(name, "ok", f"local, {width} dimensions, window {window}")
    except RagwrightError as error:
        return ModelFinding(name, "error", str(error))


async def _check_server(models: Models, name: str, timeout: float) -> ModelFinding:
    target = models.target(name)
    connections = Connections()
    try:
        names = await OpenAIServer(target, connections).models(timeout)
    except ModelRefusedError:
        return ModelFinding(name, "warning", f"{target.base} answers, but has no list of models")
    finally:
        await connections.aclose()
    model = target.name
    if model in names or f"{model}:latest" in names or f"models/{model}" in names:
        return ModelFinding(name, "ok", f"{target.base} has it")
    return ModelFinding(
        name,
        "warning",
        f"{target.base} answers, but does not list {model!r} (it lists {list_names(names, 5)})",
    )
