"""Models by name, opened when first asked for, and the handlers through which flows reach them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..core import (
    ConfigError,
    ModelRefusedError,
    PluginError,
    RagwrightError,
    Usage,
    entry_point,
    load_object,
)
from ..flow import (
    AnyHandler,
    BatchHandler,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Handler,
    OnDelta,
    Rerank,
    RerankReply,
    SendHandler,
)
from ._embedding import (
    EmbedOptions,
    RoughTokenizer,
    VectorRule,
    embed_texts,
    plan_windows,
    settle_rule,
)
from ._extractive import ExtractiveReranker
from ._names import Directory, ModelSettings, Target
from ._onnx import OnnxEmbedder
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._seams import ChatModel, Embedder, Reranker, Tokenizer
from ._st import SentenceTransformerEmbedder
from ._transport import Connections

Backend: TypeAlias = ChatModel | Embedder | Reranker

_CONCURRENCY = 16
_ROUGH = RoughTokenizer()

_NONE = np.zeros((0, 0), np.float32)


class Models:
    """Every model a project names: servers, local folders, back ends of one's own.

    Args:
        settings: Entries under ``models:``, by model name or provider.
        embed: The ``embed`` section; it applies to the model it names.

    Nothing is opened, read or asked for before a model is used. One instance serves any
    number of runners; :meth:`handlers` makes the connections of one runner.
    """

    def __init__(
        self,
        settings: Mapping[str, ModelSettings] | None = None,
        embed: EmbedOptions | None = None,
    ) -> None:
        self.directory = Directory(dict(settings or {}))
        self.embed = embed or EmbedOptions()
        self._backends: dict[str, Backend | None] = {"extractive": ExtractiveReranker()}
        self._targets: dict[str, Target] = {}
        self._local: dict[str, Embedder] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def register(self, name: str, backend: Backend) -> None:
        """Let a name stand for a back end made in Python; it wins over any setting."""
        if not isinstance(backend, ChatModel | Embedder | Reranker):
            raise PluginError(
                f"{type(backend).__name__} is no ChatModel, Embedder or Reranker",
                where=name,
                hint="derive it from one of the seams in ragwright.models",
            )
        self._backends[name] = backend
        self._local.pop(name, None)

    def target(self, name: str) -> Target:
        """Where a model is found and what the settings say of it.

        Raises:
            ConfigError: Nobody answers to the name.
        """
        found = self._targets.get(name)
        if found is None:
            found = self._targets[name] = self.directory.find(name)
        return found

    def backend(self, name: str) -> Backend | None:
        """The back end of one's own behind a name: registered, from settings, or installed.

        A plug-in that stands for a whole provider is called with the model's part of the
        name. None where the name is a server's or a folder's.

        Raises:
            PluginError: What the settings name cannot be loaded, or is no back end.
        """
        if name not in self._backends:
            made = self._plugin(name)
            with self._lock:
                if made is None:
                    self._backends.setdefault(name, None)
                elif name not in self._backends:
                    self.register(name, made)
        return self._backends[name]

    def _plugin(self, name: str) -> Backend | None:
        provider, colon, rest = name.partition(":")
        entries = self.directory.settings
        for key, given in ((name, ()), (provider, (rest,) if colon else ())):
            entry = entries.get(key)
            if entry is not None and entry.backend:
                found = load_object(entry.backend, where=f"models: {key}")
                return _made(found, given, name)
        if provider in self.directory.names() or name in entries:
            return None
        found = entry_point("models", provider)
        return None if found is None else _made(found, (rest,) if colon else (), name)

    def chat_model(self, name: str, connections: Connections | None = None) -> ChatModel:
        """The chat model of a name.

        Raises:
            ConfigError: Nobody answers to the name, or it is no chat model.
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
            ConfigError: Nobody answers to the name, it is no embedder, or its folder is wrong.
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
        with self._opening:
            if name not in self._local:
                open_ = OnnxEmbedder if target.name.provider == "onnx" else _open_st
                self._local[name] = open_(target.name.name, self._options(name), target.settings)
            return self._local[name]

    def reranker(self, name: str) -> Reranker:
        """The reranker of a name.

        Raises:
            ConfigError: It is no reranker.
        """
        own = self.backend(name)
        if isinstance(own, Reranker):
            return own
        raise _wrong(name, "reranking", own)

    def tokenizer(self, name: str) -> Tokenizer | None:
        """The tokens that an embedding model counts; None for a server's."""
        found = self.embedder(name)
        return None if found is None else found.tokenizer()

    def vector_rule(self, name: str) -> VectorRule:
        """Prefixes and similarity that apply to an embedding model."""
        found = self.embedder(name)
        rule = getattr(found, "rule", None)
        if isinstance(rule, VectorRule):
            return rule
        settings = self.directory.settings.get(name, ModelSettings())
        names: tuple[str, ...] = ()
        if found is None:
            target = self.target(name)
            settings, names = target.settings, (target.name.name,)
        return settle_rule(self._options(name), settings, names, VectorRule())

    def embedder_identity(self, name: str) -> str:
        """What decides the vectors of a model: weights and tokenizer, or address, and the rule.

        Keys of stored vectors hold it; two models that could differ never share one.
        """
        found = self.embedder(name)
        if found is None:
            target = self.target(name)
            rule = self.vector_rule(name)
            return f"{target.base}#{target.name.name}:{rule.identity()}"
        if isinstance(getattr(found, "rule", None), VectorRule):
            return found.identity
        return f"{found.identity}:{self.vector_rule(name).identity()}"

    def free(self, name: str) -> bool:
        """True where calls cost nothing: local work, a server here, or a price of zero."""
        entry = self._priced(name)
        own = self.backend(name) is not None or self.target(name).free
        return own and entry.price_in is None and entry.price_out is None

    def price(self, name: str, usage: Usage) -> float | None:
        """Money for a usage; None where the model costs and no price is configured."""
        entry = self._priced(name)
        if self.free(name):
            return 0.0
        if entry.price_in is None or (entry.price_out is None and usage.completion_tokens):
            return None
        out = entry.price_out or 0.0
        return (usage.prompt_tokens * entry.price_in + usage.completion_tokens * out) / 1e6

    def _priced(self, name: str) -> ModelSettings:
        if self.backend(name) is None:
            return self.target(name).settings
        entries = self.directory.settings
        return entries.get(name) or entries.get(name.partition(":")[0]) or ModelSettings()

    def is_local(self, name: str) -> bool:
        """True where this process embeds, False where a server does; opens nothing."""
        own = self.backend(name)
        return isinstance(own, Embedder) or (own is None and self.target(name).kind == "folder")

    def handlers(self) -> Mapping[type, AnyHandler | Callable[[Any], AnyHandler]]:
        """Handlers for one runner, by kind of request; they share its connections.

        ``Embed`` is routed by model: local ones in batches off the loop, servers on it.
        """
        connections = Connections()
        local, remote = LocalEmbedHandler(self), RemoteEmbedHandler(self, connections)

        def route(request: Embed) -> AnyHandler:
            return local if self.is_local(request.model) else remote

        return {
            Chat: ChatHandler(self, connections),
            Complete: CompleteHandler(self, connections),
            Embed: route,
            Rerank: RerankHandler(self),
        }

    def _options(self, name: str) -> EmbedOptions:
        """The ``embed`` section for the model it names; for others its threads alone."""
        if name == self.embed.model:
            return self.embed
        return EmbedOptions(threads=self.embed.threads, batch_size=self.embed.batch_size)


def _open_st(source: str, options: EmbedOptions, settings: ModelSettings) -> Embedder:
    return SentenceTransformerEmbedder(source, options, settings)


def _made(found: Any, given: tuple[str, ...], name: str) -> Backend:
    """A plug-in's object, made where it is a class or a factory."""
    if isinstance(found, ChatModel | Embedder | Reranker):
        return found
    if not callable(found):
        raise PluginError(f"{found!r} is no back end and makes none", where=name)
    try:
        made = found(*given)
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"{getattr(found, '__name__', found)!r} failed: {error}",
            where=name,
            hint="a plug-in for one model takes no argument, one for a provider the model's name",
        ) from error
    if not isinstance(made, ChatModel | Embedder | Reranker):
        raise PluginError(
            f"{type(made).__name__} is no ChatModel, Embedder or Reranker", where=name
        )
    return made


def _wrong(name: str, wanted: str, own: object) -> ConfigError:
    kind = type(own).__name__ if own is not None else "a model of another kind"
    return ConfigError(
        f"{name!r} is {kind}, not a {wanted} model",
        hint="write the name of one that is, or register a back end for it",
    )


class _ByModel(Handler[Any, Any]):
    """What every handler of models answers alike: lane, limit, price, by the model's name."""

    def __init__(self, models: Models) -> None:
        self.models = models

    def lane(self, request: Any) -> str:
        """The model's name."""
        return str(request.model)

    def limit(self, lane: str) -> int | None:
        """``concurrency`` of the settings, and no more than go out in a minute.

        What waits for its place in the minute waits within the time limit of its attempt.
        """
        entry = self.models._priced(lane)
        if entry.requests_per_minute is None:
            return entry.concurrency
        return min(entry.concurrency or _CONCURRENCY, entry.requests_per_minute)

    def paid(self, request: Any) -> bool:
        """True unless the model is local, free, or served by this machine without a price."""
        return not self.models.free(request.model)

    def price(self, request: Any, usage: Usage) -> float | None:
        """Money by ``price_in`` and ``price_out``."""
        return self.models.price(request.model, usage)


class _Remote(_ByModel):
    """A handler that goes over the network: one runner's connections, and a steady pace."""

    def __init__(self, models: Models, connections: Connections) -> None:
        super().__init__(models)
        self.connections = connections
        self._chats: dict[str, ChatModel] = {}
        self._next: dict[str, float] = {}

    def chat_model(self, name: str) -> ChatModel:
        """The model, made once a runner."""
        found = self._chats.get(name)
        if found is None:
            found = self._chats[name] = self.models.chat_model(name, self.connections)
        return found

    def identity(self, request: Any) -> str:
        """Base address, model and parameters of the settings."""
        return self.chat_model(request.model).identity

    async def pace(self, name: str) -> None:
        """Wait for the next place that ``requests_per_minute`` leaves."""
        rate = self.models._priced(name).requests_per_minute
        if rate is None:
            return
        now = asyncio.get_running_loop().time()
        place = max(now, self._next.get(name, now))
        self._next[name] = place + 60.0 / rate
        if place > now:
            await asyncio.sleep(place - now)

    async def aclose(self) -> None:
        """Close the connections, and the back ends of one's own that were used."""
        for chat in self._chats.values():
            await chat.aclose()
        await self.connections.aclose()


class ChatHandler(_Remote, SendHandler[Chat, ChatReply]):
    """Carries out ``Chat``."""

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """One attempt, by the model the request names."""
        await self.pace(request.model)
        return await self.chat_model(request.model).chat(request, on_delta)


class CompleteHandler(_Remote, SendHandler[Complete, CompleteReply]):
    """Carries out ``Complete``."""

    async def send(self, request: Complete, on_delta: OnDelta | None = None) -> CompleteReply:
        """One attempt, by the model the request names.

        Raises:
            ModelRefusedError: The back end offers no raw completions.
        """
        await self.pace(request.model)
        try:
            return await self.chat_model(request.model).complete(request)
        except NotImplementedError as error:
            raise ModelRefusedError(
                str(error), hint="perplexity needs a server with /completions and log-probabilities"
            ) from error


class RemoteEmbedHandler(_Remote, SendHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` by servers."""

    def __init__(self, models: Models, connections: Connections) -> None:
        super().__init__(models, connections)
        self._models: dict[str, OpenAIEmbeddings] = {}
        self._rules: dict[str, VectorRule] = {}

    def identity(self, request: Embed) -> str:
        """Base address, model, prefixes, similarity and dimensions."""
        return self.models.embedder_identity(request.model)

    async def send(self, request: Embed, on_delta: OnDelta | None = None) -> EmbedReply:
        """One attempt; prefixes put in front, vectors of length 1 where similarity is cosine.

        With ``context_window`` in the settings, texts that a pessimistic count finds longer
        are pooled over windows or refused; without it, the server decides.
        """
        name = request.model
        rule = self._rules.get(name)
        if rule is None:
            rule = self._rules[name] = self.models.vector_rule(name)
            target = self.models.target(name)
            if rule.dimensions is not None:
                settings = replace(target.settings, dimensions=rule.dimensions)
                target = replace(target, settings=settings)
            self._models[name] = OpenAIEmbeddings(target, self.connections)
        planned = plan_windows(
            [request.texts],
            rule.prefixes.of(request.role),
            _ROUGH,
            self._models[name].target.settings.context_window,
            (name, self.models.embed.long_texts),
        )
        await self.pace(name)
        found, usage = await self._models[name].embed(planned.pieces, request.timeout)
        vectors = rule.shaped(found)
        (reply,) = planned.pooled(vectors, vectors.shape[1], rule.similarity == "cosine")
        if isinstance(reply, RagwrightError):
            raise reply
        return EmbedReply(reply, usage)


class LocalEmbedHandler(_ByModel, BatchHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` by local models, off the loop; the model is opened there too."""

    def identity(self, request: Embed) -> str:
        """Hash of weights and tokenizer, with the rule.

        It opens the model: do so before the run (``models.embedder(name)``), or the first
        query waits for it on the loop.
        """
        return self.models.embedder_identity(request.model)

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        """Replies in order; requests of one model and role are embedded in one go."""
        groups: dict[tuple[str, str], list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault((request.model, request.role), []).append(index)
        replies: list[EmbedReply | RagwrightError] = [EmbedReply(_NONE)] * len(requests)
        for (name, _), members in groups.items():
            for index, reply in zip(
                members, self._group(name, [requests[i] for i in members]), strict=True
            ):
                replies[index] = reply
        return replies

    def _group(self, name: str, requests: Sequence[Embed]) -> list[EmbedReply | RagwrightError]:
        try:
            embedder = self.models.embedder(name)
            assert embedder is not None, "the route sends servers elsewhere"
            rule = self.models.vector_rule(name)
            found = embed_texts(
                embedder,
                [request.texts for request in requests],
                rule.prefixes.of(requests[0].role),
                long_texts=self.models.embed.long_texts,
                normalise=rule.similarity == "cosine",
            )
        except RagwrightError as error:
            return [error] * len(requests)
        return [v if isinstance(v, RagwrightError) else EmbedReply(v) for v in found]


class RerankHandler(_ByModel, BatchHandler[Rerank, RerankReply]):
    """Carries out ``Rerank`` by local rerankers, off the loop."""

    def identity(self, request: Rerank) -> str:
        """The reranker's own."""
        return self.models.reranker(request.model).identity

    def durable(self, request: Rerank) -> bool:
        """False for the built-in one: it is quicker than reading its replies back."""
        return not isinstance(self.models.reranker(request.model), ExtractiveReranker)

    def carry(self, requests: Sequence[Rerank]) -> Sequence[RerankReply | RagwrightError]:
        """Replies in order, one score a passage."""
        return [self._one(request) for request in requests]

    def _one(self, request: Rerank) -> RerankReply | RagwrightError:
        try:
            reranker = self.models.reranker(request.model)
            scores = tuple(float(s) for s in reranker.score(request.query, request.passages))
            if len(scores) != len(request.passages):
                raise PluginError(
                    f"{len(scores)} scores for {len(request.passages)} passages",
                    where=request.model,
                )
        except RagwrightError as error:
            return error
        return RerankReply(scores, scale=reranker.scale)
