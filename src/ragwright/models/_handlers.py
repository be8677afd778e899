"""The handlers through which flows reach models: local ones, servers, and the choice between."""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from ..core import (
    ModelRefusedError,
    PluginError,
    RagwrightError,
    SystemCallError,
    Usage,
    count_noun,
)
from ..flow import (
    AnyHandler,
    AskSystem,
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
    SystemReply,
)
from ._analysis import LexicalReranker
from ._embedding import ChatModel, RoughTokenizer, cut_texts, embed_texts, pool_vectors
from ._failures import watch_silence
from ._openai import OpenAIChat, OpenAIEmbeddings, ServerReranker
from ._registry import Models
from ._replies import ReplyReader, read_chat
from ._systems import Systems, UnderTest, reply_of, text_of
from ._transport import Connections

_CONCURRENCY = 16
_ROUGH = RoughTokenizer()


class ByModel(Handler[Any, Any]):
    """The common part of all model handlers: lane, limit and price by the model's name."""

    def __init__(self, models: Models, connections: Connections) -> None:
        self.models = models
        self.connections = connections
        self.opened: dict[str, Any] = {}
        self._next: dict[str, float] = {}

    def lane(self, request: Any) -> str:
        """The model's name."""
        return str(request.model)

    def limit(self, lane: str) -> int | None:
        """``concurrency`` of the settings, at most ``requests_per_minute``."""
        entry = self.models.settings_of(lane)
        if entry.requests_per_minute is None:
            return entry.concurrency
        return min(entry.concurrency or _CONCURRENCY, entry.requests_per_minute)

    def timeout(self, request: Any) -> float | None:
        """``timeout`` of the settings."""
        return self.models.settings_of(request.model).timeout

    def longest_reply(self, request: Any) -> int | None:
        """``max_tokens`` among the parameters of the settings."""
        params = self.models.settings_of(request.model).params
        tokens = params.get("max_completion_tokens", params.get("max_tokens"))
        return tokens if isinstance(tokens, int) else None

    def paid(self, request: Any) -> bool:
        """True unless the model is local, free, or served by this machine without a price."""
        return not self.models.free(request.model)

    def price(self, request: Any, usage: Usage) -> float | None:
        """Money by ``price_in`` and ``price_out``.

        Models without output text are paid for what they read: completion tokens that some servers
        report are ignored.
        """
        if isinstance(request, Embed | Rerank):
            usage = replace(usage, completion_tokens=0)
        return self.models.price(request.model, usage)


_TEXTS = 64
"""Texts that a local model embeds at once: an ingest counts them, and a query waits for them."""


class LocalEmbedHandler(ByModel, BatchHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` by local models, off the loop; the model is opened there too."""

    def identity(self, request: Embed) -> str:
        """Hash of weights and tokenizer, with the rule.

        Opens the model: call it before the run (``models.embedder(name)``), or the first
        query waits for it on the loop.
        """
        return self.models.embedder_identity(request.model)

    def together(self, requests: Sequence[Embed]) -> int:
        """The first requests of one model and role with up to 64 texts in all: each ends soon."""
        kind, texts = (requests[0].model, requests[0].role), 0
        for count, request in enumerate(requests[: self.max_batch]):
            texts += len(request.texts)
            if count and (texts > _TEXTS or (request.model, request.role) != kind):
                return count
        return self.max_batch

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        """Replies in order; requests of one model and role are embedded in one go."""
        name, role = requests[0].model, requests[0].role
        try:
            embedder = self.models.embedder(name)
            assert embedder is not None, "the route sends servers elsewhere"
            rule = self.models.vector_rule(name)
            results = embed_texts(
                embedder,
                [request.texts for request in requests],
                rule.prefix(role),
                long_texts=self.models.embed.long_texts,
                normalise=rule.similarity == "cosine",
            )
        except RagwrightError as error:
            return [error] * len(requests)
        return [v if isinstance(v, RagwrightError) else EmbedReply(v) for v in results]


class LocalRerankHandler(ByModel, BatchHandler[Rerank, RerankReply]):
    """Carries out ``Rerank`` by local rerankers, off the loop."""

    def identity(self, request: Rerank) -> str:
        """The reranker's own identity."""
        return self.models.reranker_identity(request.model)

    def durable(self, request: Rerank) -> bool:
        """False for the built-in one: it is faster than reading stored replies."""
        return not isinstance(self.models.backend(request.model), LexicalReranker)

    def reply_to(self, requests: Sequence[Rerank]) -> Sequence[RerankReply | RagwrightError]:
        """Replies in order, one score per passage."""
        return [self._reply_or_error(request) for request in requests]

    def _reply_or_error(self, request: Rerank) -> RerankReply | RagwrightError:
        try:
            reranker = self.models.reranker(request.model)
            scores = tuple(float(s) for s in reranker.score(request.query, request.passages))
            if len(scores) != len(request.passages):
                raise PluginError(
                    f"{count_noun(len(scores), 'score')} for "
                    f"{count_noun(len(request.passages), 'passage')}",
                    where=request.model,
                )
        except RagwrightError as error:
            return error
        return RerankReply(scores, scale=reranker.scale)


class RemoteHandler(ByModel):
    """Base of the handlers that use the network: one runner's connections and a rate limit."""

    @abstractmethod
    def open_model(self, name: str) -> Any:
        """Open the model of a name."""

    def model(self, name: str) -> Any:
        """The model of a name, opened once per runner."""
        if name not in self.opened:
            self.opened[name] = self.open_model(name)
        return self.opened[name]

    def identity(self, request: Any) -> str:
        """Base address, model and parameters of the settings."""
        return str(self.model(request.model).identity)

    def timeout(self, request: Any) -> float | None:
        """``timeout`` of the settings; waiting for a place comes on top."""
        seconds, place = super().timeout(request), self._next.get(request.model)
        if seconds is None or place is None:
            return seconds
        return seconds + max(0.0, place - asyncio.get_running_loop().time())

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
        """Close the connections that were used."""
        if self.opened:
            await self.connections.aclose()


class ChatHandler(RemoteHandler, SendHandler[Chat | Complete, ChatReply | CompleteReply]):
    """Carries out ``Chat`` and ``Complete``."""

    def open_model(self, name: str) -> ChatModel:
        """Open a server's model or a custom back end."""
        return self.models.chat_model(name, self.connections)

    async def aclose(self) -> None:
        """Close the custom back ends that were used, and the connections."""
        for chat in self.opened.values():
            await chat.aclose()
        await super().aclose()

    async def send(
        self, request: Chat | Complete, on_delta: OnDelta | None = None
    ) -> ChatReply | CompleteReply:
        """One attempt, by the model the request names.

        Raises:
            ModelRefusedError: The back end offers no raw completions.
        """
        await self.pace(request.model)
        model: ChatModel = self.model(request.model)
        if isinstance(model, OpenAIChat):  # sees the server's bytes, which is more precise
            if isinstance(request, Chat):
                return await model.chat(request, on_delta)
            return await model.complete(request)
        try:
            async with watch_silence(request.model, "", self.models.limits) as heard:
                if isinstance(request, Complete):
                    return await model.complete(request)
                return await read_chat(ReplyReader(), partial(model.chat, request), on_delta, heard)
        except NotImplementedError as error:
            raise ModelRefusedError(
                str(error), hint="perplexity needs a server with /completions and log-probabilities"
            ) from error


class RemoteEmbedHandler(RemoteHandler, SendHandler[Embed, EmbedReply]):
    """Carries out ``Embed`` through servers."""

    def open_model(self, name: str) -> OpenAIEmbeddings:
        """Open a server's embedding model."""
        dimensions = self.models.vector_rule(name).dimensions
        return OpenAIEmbeddings(self.models.target(name), self.connections, dimensions)

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
        rule, model = self.models.vector_rule(name), self.model(name)
        pieces, counts = cut_texts(
            request.texts,
            rule.prefix(request.role),
            _ROUGH,
            model.target.settings.context_window,
            (name, self.models.embed.long_texts),
        )
        raw, usage = await model.embed(
            pieces, request.timeout, lambda: self.pace(name), request.role
        )
        vectors = rule.shaped(raw)
        expected = self.models.known_dimensions.get(name, vectors.shape[1])
        if vectors.shape[1] != expected:
            raise ModelRefusedError(
                f"{name} sent vectors of length {vectors.shape[1]}; the index holds vectors of "
                f"length {expected} from it",
                hint="if this name now stands for another model: ragwright ingest --embed-again",
            )
        return EmbedReply(pool_vectors(vectors, counts, rule.similarity == "cosine"), usage)


class RemoteRerankHandler(RemoteHandler, SendHandler[Rerank, RerankReply]):
    """Carries out ``Rerank`` through servers."""

    def open_model(self, name: str) -> ServerReranker:
        """Open a server's reranking model."""
        return ServerReranker(self.models.target(name), self.connections)

    async def send(self, request: Rerank, on_delta: OnDelta | None = None) -> RerankReply:
        """One attempt, by the model the request names."""
        await self.pace(request.model)
        model = self.model(request.model)
        scores, usage = await model.score(request.query, request.passages, request.timeout)
        return RerankReply(scores, usage, scale=model.scale)


def model_handlers(models: Models) -> Mapping[type, AnyHandler | Callable[[Any], AnyHandler]]:
    """Handlers for one runner, by kind of request; those of servers share its connections.

    ``Embed`` and ``Rerank`` are routed by model: local ones go in batches off the loop,
    those of servers one by one on it.
    """
    connections = Connections()
    chat = ChatHandler(models, connections)
    embed = LocalEmbedHandler(models, connections), RemoteEmbedHandler(models, connections)
    rerank = LocalRerankHandler(models, connections), RemoteRerankHandler(models, connections)
    return {
        Chat: chat,
        Complete: chat,
        Embed: lambda request: embed[not models.is_local(request.model)],
        Rerank: lambda request: rerank[not models.is_local(request.model)],
    }


class SystemHandler(SendHandler[AskSystem, SystemReply]):
    """Asks systems in threads of their own; coroutines run on the runner's loop.

    A thread whose time is up cannot be ended: it is left behind, and where as many are left
    behind as may be in work, the system is not asked again until one of them ends.

    Args:
        systems: Those that are open, by name.
    """

    def __init__(self, systems: Systems) -> None:
        self.systems = systems
        self._late: dict[str, list[Future[SystemReply]]] = {}

    def identity(self, request: AskSystem) -> str:
        """The version or the run, and all that decides how the system is asked and read."""
        return self.systems[request.system].identity

    def lane(self, request: AskSystem) -> str:
        """The system's name."""
        return request.system

    def limit(self, lane: str) -> int | None:
        """Its ``concurrency``."""
        return self.systems[lane].options.concurrency

    def paid(self, request: AskSystem) -> bool:
        """True, since only its price tells what a system costs."""
        return True

    def price(self, request: AskSystem, usage: Usage) -> float | None:
        """Its ``price``."""
        return self.systems[request.system].options.price

    async def send(self, request: AskSystem, on_delta: OnDelta | None = None) -> SystemReply:
        """Ask once; errors of the system become typed, with what it raised or returned."""
        system = self.systems[request.system]
        options, name = system.options, system.name
        late = self._late[name] = [f for f in self._late.get(name, ()) if not f.done()]
        if len(late) >= options.concurrency:
            raise SystemCallError(
                f"not asked: {len(late)} earlier questions still run after their "
                f"{options.timeout:g} s",
                where=name,
                hint="see where the system hangs, or raise `timeout` in its file",
            )
        future: Future[SystemReply] = Future()
        future.set_running_or_notify_cancel()  # a thread cannot be ended
        threading.Thread(
            target=_answer,
            args=(future, system, request, asyncio.get_running_loop()),
            name="system",
            daemon=True,
        ).start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), options.timeout)
        except TimeoutError as error:
            self._late[name].append(future)
            raise SystemCallError(
                f"no answer within {options.timeout:g} s",
                where=name,
                hint="raise `timeout` in the system's file, or lower -j",
            ) from error


def _answer(
    future: Future[SystemReply],
    system: UnderTest,
    request: AskSystem,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """In a thread: ask, read pieces to their end, tell the future what came back."""
    options = system.options
    try:
        reply = system.ask(request.question, request.history)
        if inspect.isawaitable(reply) or inspect.isasyncgen(reply):
            work = asyncio.wait_for(_await_reply(reply), options.timeout)
            reply = asyncio.run_coroutine_threadsafe(work, loop).result()
        if inspect.isgenerator(reply):
            reply = _joined_pieces(list(reply))
        future.set_result(reply_of(reply, options.ids if options.call else ""))
    except RagwrightError as error:
        error.where = error.where or system.name
        future.set_exception(error)
    except BaseException as error:
        named = SystemCallError(f"{type(error).__name__}: {error}", where=system.name)
        named.__cause__ = error
        future.set_exception(named)


async def _await_reply(reply: Any) -> Any:
    if inspect.isasyncgen(reply):
        return _joined_pieces([piece async for piece in reply])
    return await reply


def _joined_pieces(pieces: list[Any]) -> Any:
    """Pieces of a text as the text; a last one that is not a piece of a text is the reply."""
    if pieces and not isinstance(pieces[-1], str) and not hasattr(pieces[-1], "content"):
        return pieces[-1]
    return "".join(map(text_of, pieces))
