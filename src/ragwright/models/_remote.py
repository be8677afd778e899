"""The handlers that reach models on servers: they share the connections of one runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..core import ModelRefusedError, RagwrightError
from ..flow import (
    AnyHandler,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    OnDelta,
    Rerank,
    RerankReply,
    SendHandler,
)
from ._carriers import ByModel, LocalEmbedHandler, LocalRerankHandler, ReadsOnly
from ._embedding import RoughTokenizer, VectorRule, plan_windows
from ._limits import Heard, watched
from ._openai import OpenAIChat, OpenAIEmbeddings
from ._registry import Models
from ._rerank import ServerReranker
from ._seams import ChatModel
from ._thought import ReplyReader, thought_notes
from ._transport import Connections

_ROUGH = RoughTokenizer()


class _Remote(ByModel):
    """A handler that uses the network: one runner's connections and a rate limit."""

    def __init__(self, models: Models, connections: Connections) -> None:
        super().__init__(models)
        self.connections = connections
        self._chats: dict[str, ChatModel] = {}
        self._next: dict[str, float] = {}

    def chat_model(self, name: str) -> ChatModel:
        """The chat model, opened once per runner."""
        model = self._chats.get(name)
        if model is None:
            model = self._chats[name] = self.models.chat_model(name, self.connections)
        return model

    def identity(self, request: Any) -> str:
        """Base address, model and parameters of the settings."""
        return self.chat_model(request.model).identity

    def pause(self, request: Any) -> float:
        """Seconds until ``requests_per_minute`` allows a request; does not reserve it.

        A caller that waits this long and checks again does not wait inside ``send``.
        """
        place = self._next.get(request.model)
        return 0.0 if place is None else max(0.0, place - asyncio.get_running_loop().time())

    def timeout(self, request: Any) -> float | None:
        """``timeout`` of the settings; waiting for a place comes on top."""
        seconds = super().timeout(request)
        return None if seconds is None else seconds + self.pause(request)

    def watched(self, name: str) -> AbstractAsyncContextManager[Heard]:
        """The time limits of a custom back end, as for a server."""
        return watched(name, "", self.models.limits.merged(self.models.settings_of(name)))

    async def pace(self, name: str) -> None:
        """Reserve the next place that ``requests_per_minute`` allows, and wait for it.

        A caller that gives up while waiting releases the last place.
        """
        rate = self.models.settings_of(name).requests_per_minute
        if rate is None:
            return
        now = asyncio.get_running_loop().time()
        place = max(now, self._next.get(name, now))
        self._next[name] = place + 60.0 / rate
        if place > now:
            try:
                await asyncio.sleep(place - now)
            except asyncio.CancelledError:
                self._next[name] -= 60.0 / rate
                raise

    async def aclose(self) -> None:
        """Close the connections and the custom back ends that were used."""
        for chat in self._chats.values():
            await chat.aclose()
        await self.connections.aclose()


class ChatHandler(_Remote, SendHandler[Chat, ChatReply]):
    """Carries out ``Chat``."""

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """One attempt, by the model the request names."""
        await self.pace(request.model)
        model = self.chat_model(request.model)
        if isinstance(model, OpenAIChat):  # sees the server's bytes, which is more precise
            return await model.chat(request, on_delta)
        reader = ReplyReader()
        async with self.watched(request.model) as heard:

            def delta(piece: str, *, last: bool = False) -> None:
                heard()
                shown = reader.feed(piece, last=last)
                if on_delta is not None and shown:
                    on_delta(shown)

            reply = await model.chat(request, None if on_delta is None else delta)
            if on_delta is None:
                reader.feed(reply.text)
            delta("", last=True)
        finish = "length" if reader.unclosed else reply.finish
        notes = (*reply.notes, *thought_notes(reader))
        return replace(reply, text=reader.text, finish=finish, notes=notes)


class CompleteHandler(_Remote, SendHandler[Complete, CompleteReply]):
    """Carries out ``Complete``."""

    async def send(self, request: Complete, on_delta: OnDelta | None = None) -> CompleteReply:
        """One attempt, by the model the request names.

        Raises:
            ModelRefusedError: The back end offers no raw completions.
        """
        await self.pace(request.model)
        model = self.chat_model(request.model)
        try:
            if isinstance(model, OpenAIChat):
                return await model.complete(request)
            async with self.watched(request.model):
                return await model.complete(request)
        except NotImplementedError as error:
            raise ModelRefusedError(
                str(error), hint="perplexity needs a server with /completions and log-probabilities"
            ) from error


class RemoteEmbedHandler(ReadsOnly, _Remote, SendHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` through servers."""

    def __init__(self, models: Models, connections: Connections) -> None:
        super().__init__(models, connections)
        self._models: dict[str, OpenAIEmbeddings] = {}
        self._rules: dict[str, VectorRule] = {}

    def identity(self, request: Embed) -> str:
        """Everything that determines a vector: server, parameters, rule, window, ``long_texts``."""
        return self.models.embedder_identity(request.model)

    def dimensions(self, request: Embed) -> int | None:
        """``dimensions`` of the settings, else of the index; None if both are unknown."""
        configured = self.models.vector_rule(request.model).dimensions
        return configured or self.models.known_dimensions.get(request.model)

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
        raw, usage = await self._models[name].embed(
            planned.pieces, request.timeout, lambda: self.pace(name), request.role
        )
        vectors = rule.shaped(raw)
        expected = self.models.known_dimensions.get(name, vectors.shape[1])
        if vectors.shape[1] != expected:
            raise ModelRefusedError(
                f"{name} sent vectors of length {vectors.shape[1]}; the index holds vectors of "
                f"length {expected} from it",
                hint="if this name now stands for another model: ragwright ingest --embed-again",
            )
        (reply,) = planned.pooled(vectors, vectors.shape[1], rule.similarity == "cosine")
        if isinstance(reply, RagwrightError):
            raise reply
        return EmbedReply(reply, usage)


class RemoteRerankHandler(ReadsOnly, _Remote, SendHandler[Rerank, RerankReply]):
    """Carries out ``Rerank`` through servers."""

    def __init__(self, models: Models, connections: Connections) -> None:
        super().__init__(models, connections)
        self._models: dict[str, ServerReranker] = {}

    def model(self, name: str) -> ServerReranker:
        """The reranker, opened once per runner."""
        if name not in self._models:
            self._models[name] = ServerReranker(self.models.target(name), self.connections)
        return self._models[name]

    def identity(self, request: Rerank) -> str:
        """Base address, model and parameters of the settings."""
        return self.model(request.model).identity

    async def send(self, request: Rerank, on_delta: OnDelta | None = None) -> RerankReply:
        """One attempt, by the model the request names."""
        await self.pace(request.model)
        model = self.model(request.model)
        scores, usage = await model.score(request.query, request.passages, request.timeout)
        return RerankReply(scores, usage, scale=model.scale)


@dataclass(frozen=True, slots=True)
class RemoteHandlers:
    """The handlers of one runner, by what they carry out."""

    chat: ChatHandler
    complete: CompleteHandler
    embed: RemoteEmbedHandler
    rerank: RemoteRerankHandler


def remote_handlers(models: Models) -> RemoteHandlers:
    """Handlers of a runner; they share its connections."""
    connections = Connections()
    return RemoteHandlers(
        ChatHandler(models, connections),
        CompleteHandler(models, connections),
        RemoteEmbedHandler(models, connections),
        RemoteRerankHandler(models, connections),
    )


def model_handlers(models: Models) -> Mapping[type, AnyHandler | Callable[[Any], AnyHandler]]:
    """Handlers for one runner, by kind of request; those of servers share its connections.

    ``Embed`` and ``Rerank`` are routed by model: local ones go in batches off the loop,
    those of servers one by one on it. Clients of servers load at the first request to one.
    """
    remote = cache(lambda: remote_handlers(models))
    embed_here, rank_here = LocalEmbedHandler(models), LocalRerankHandler(models)

    def embedding(request: Embed) -> AnyHandler:
        return embed_here if models.is_local(request.model) else remote().embed

    def reranking(request: Rerank) -> AnyHandler:
        return rank_here if models.is_local(request.model) else remote().rerank

    return {
        Chat: lambda _: remote().chat,
        Complete: lambda _: remote().complete,
        Embed: embedding,
        Rerank: reranking,
    }
