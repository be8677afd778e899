"""HTTP calls to any server that speaks the OpenAI protocol.

Calls go out with the headers and over the connections of the openai SDK's client. Replies are read
here, as plain dictionaries: the SDK's reply objects hide what unusual servers sent, and its streams
hide whether ``[DONE]`` came.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ..core import (
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    canonical_json,
)
from ._failures import Complaint, Heard, Queue, batch_limit, failure, watch_silence
from ._names import ModelTarget, is_on_this_machine
from ._replies import mask_key, read_json

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
log = logging.getLogger("ragwright.models")

LARGEST_REPLY = 64 * 2**20
"""Most bytes of one reply, decompressed."""

CONNECTIONS = 1024
"""Most open connections of one client; the runner's limits are far lower."""

_RENAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(slots=True)
class Connections:
    """One HTTP client per server, key and time to connect.

    Each is opened on first use, on the runner's loop.
    """

    _clients: dict[tuple[str, str, float], httpx2.AsyncClient] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def client(self, target: ModelTarget) -> httpx2.AsyncClient:
        """The client for a model's server.

        It is made on another thread: importing the SDK and reading the certificates takes up to a
        second.

        Raises:
            MissingKeyError: The server needs a key and its variable is not set.
        """
        address = (target.base, target.key(), target.limits.connect)
        async with self._opening:
            if address not in self._clients:
                self._clients[address] = await asyncio.to_thread(_open_client, *address)
            return self._clients[address]

    async def aclose(self) -> None:
        """Close every client; call it on the loop that used them."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()


def _open_client(base: str, key: str, connect: float) -> httpx2.AsyncClient:
    """A client of the SDK's making, with the headers that the SDK would send."""
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    client = DefaultAsyncHttpxClient(
        limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        timeout=httpx2.Timeout(None, connect=connect),
        # A proxy must not be used for a server on this machine.
        trust_env=not is_on_this_machine(base),
        # A redirect would send the prompt, and perhaps the key, to an unconfigured address.
        follow_redirects=False,
    )
    # Organization and project are OpenAI's: the SDK would send them to every server.
    others = None if "api.openai.com" in base else ""
    sdk = AsyncOpenAI(
        api_key=key or "none",
        admin_api_key="",
        organization=others,
        project=others,
        base_url=base,
        http_client=client,
    )
    headers = sdk.default_headers | sdk.auth_headers
    client.headers.update({k: v for k, v in headers.items() if isinstance(v, str) and v})
    return client


async def stream_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each server-sent event, as it arrives."""
    rest, data = b"", list[bytes]()
    async for part in pieces:
        *lines, rest = re.split(rb"\r\n|\r(?!\Z)|\n", rest + part)
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data).decode()
                data.clear()
    data += [rest[5:].strip()] if rest.startswith(b"data:") else []
    if data:
        yield b"\n".join(data).decode()


def _without_system(turns: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Turns without system turns: their texts are put before that of the first user turn."""
    system = [turn["content"] for turn in turns if turn["role"] == "system"]
    others = [dict(turn) for turn in turns if turn["role"] != "system"]
    first = next((turn for turn in others if turn["role"] == "user"), None)
    if first is None:
        others.insert(0, first := {"role": "user", "content": ""})
    first["content"] = "\n\n".join(filter(None, (*system, first["content"])))
    return others


def server_identity(target: ModelTarget) -> str:
    """Base address, model, and the parameters that the settings add to every call."""
    settings = target.settings
    sent = (settings.params, settings.query_params, settings.passage_params)
    more = "".join(f" {canonical_json(dict(params))}" for params in sent if params)
    return f"{target.base}#{target.name}{more}"


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

_FIXED = {"model", "messages", "prompt", "input", "stream"}


@dataclass(slots=True)
class OpenAIServer:
    """One model of a server: sends bodies, learns what it refuses, maps errors.

    Attributes:
        refused: Parameter that the model rejected -> its other name, or None to drop it.
        no_system: The model rejected a system turn.
        most: Items that it takes in one call.
    """

    target: ModelTarget
    connections: Connections = field(default_factory=Connections)
    queue: Queue = field(default_factory=Queue)
    refused: dict[str, str | None] = field(default_factory=dict)
    no_system: bool = False
    most: int = 1000

    @property
    def model(self) -> str:
        """The model's name as configured, for messages."""
        return self.target.text

    async def send(
        self, path: str, body: dict[str, Any], timeout: float | None
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Post a body; returns the parsed reply and the parameters dropped or renamed.

        Raises:
            ModelError: Typed by what may be done about it.
        """
        return await self.attempt(path, body, timeout, self.read)

    async def attempt(
        self,
        path: str,
        body: dict[str, Any],
        timeout: float | None,
        read: Callable[[httpx2.Response, Heard], Awaitable[T]],
    ) -> tuple[T, tuple[str, ...]]:
        """Post a body and read the response; repeat it without each parameter that is rejected.

        Such a refusal is not billed; rejected parameters are remembered. An empty body means GET.
        """
        client = await self.connections.client(self.target)
        total = timeout or self.target.settings.timeout
        watch = (self.model, self.target.base, self.target.limits, total, self.queue)
        url = f"{self.target.base.rstrip('/')}{path}"
        changed = self._adapt(body)
        while True:
            try:
                content = _ENCODER.encode(body).encode() if body else None
                method = "POST" if body else "GET"
                async with (
                    watch_silence(*watch) as heard,
                    client.stream(method, url, content=content) as response,
                ):
                    if response.is_success:
                        return await read(response, heard), changed
                    refusal = b"".join([piece async for piece in self.pieces(response, heard)])
            except Exception as error:
                raise self._typed_error(error) from None
            self._learn(response, refusal, body)
            changed += self._adapt(body)

    async def read(self, response: httpx2.Response, heard: Heard) -> dict[str, Any]:
        """The object in a reply, its texts cleaned and the key masked.

        Raises:
            ModelReplyError: Not a JSON object.
            ModelError: An error sent with status 200.
        """
        raw = b"".join([piece async for piece in self.pieces(response, heard)])
        try:
            data = read_json(raw, self.target.key())
        except ValueError:
            excerpt = self.masked(raw[:4096].decode("utf-8", "replace")).strip()[:80]
            raise self.bad_reply(
                f"sent a reply that is not JSON: {excerpt!r}" if excerpt else "sent an empty reply",
                "check the base address (most end in /v1)" if excerpt.startswith("<") else "",
            ) from None
        if isinstance(data, list):
            data = {"results": data}  # of a reranker
        if not isinstance(data, dict):
            raise self.bad_reply("sent JSON that is not an object")
        if data.get("error") and not data.get("choices") and not data.get("data"):
            raise self.upstream(data, response.headers)
        return data

    async def pieces(self, response: httpx2.Response, heard: Heard) -> AsyncIterator[bytes]:
        """The pieces of a response, decompressed; each resets the silence timer.

        Raises:
            ModelReplyError: They are too large together; the rest is not read.
        """
        size = 0
        async for piece in response.aiter_bytes():
            heard()
            size += len(piece)
            if size > LARGEST_REPLY:
                raise self.bad_reply(
                    f"sent a reply of more than {LARGEST_REPLY:,} bytes; the rest was not read"
                )
            yield piece

    async def send_in_parts(
        self, items: Sequence[str], send: Callable[[Sequence[str]], Awaitable[T]]
    ) -> list[T]:
        """Replies to items, in calls of at most :attr:`most`, one after the other.

        A smaller number that the server takes is learnt from its refusal.
        """
        replies: list[T] = []
        start = 0
        while start < len(items):
            part = items[start : start + self.most]
            try:
                replies.append(await send(part))
            except ModelRefusedError as error:
                takes = batch_limit(error.what.partition(" answered ")[2], len(part))
                if not takes:
                    raise
                self.most = min(self.most, takes)
                log.warning(
                    "%s takes %d texts in a call: set batch_size: %d under models:",
                    *(self.model, self.most, self.most),
                )
            else:
                start += len(part)
        return replies

    async def models(self, timeout: float | None = None) -> list[str]:
        """Names of the models the server lists.

        Raises:
            ModelError: It does not answer, rejects the key, or has no list.
        """
        data, _ = await self.send("/models", {}, timeout)
        entries = data.get("data")
        entries = entries if isinstance(entries, list) else []
        return [str(e["id"]) for e in entries if isinstance(e, dict) and "id" in e]

    def _adapt(self, body: dict[str, Any]) -> tuple[str, ...]:
        """Leave out what the model rejected; returns the parameters dropped or renamed."""
        changed = []
        for name, replacement in self.refused.items():
            if name not in body:
                continue
            value = body.pop(name)
            if replacement is not None:
                body[replacement] = value
            changed.append(name if replacement is None else f"{name}->{replacement}")
        if self.no_system and any(turn["role"] == "system" for turn in body.get("messages", ())):
            body["messages"] = _without_system(body["messages"])
            changed.append("a system turn, which is put before the question")
        return tuple(changed)

    def _learn(self, response: httpx2.Response, content: bytes, body: Mapping[str, Any]) -> None:
        """Remember what a server rejects."""
        status = response.status_code
        if response.has_redirect_location:
            # never followed; the error names both hosts
            host, place = urlsplit(self.target.base).netloc, response.headers["location"][:200]
            raise ModelRefusedError(
                self.masked(
                    f"{self.model} redirects from {host} to {place} ({status}); "
                    "redirects are not followed, because they would send the prompt elsewhere"
                ),
                where=self.target.base,
                hint="if that server is yours, configure its address: base under models:",
            )
        complaint = Complaint.read(content)
        if status not in {400, 404, 422, 500, 501} or not self._remember(body, complaint):
            raise failure(status, complaint, response.headers, self.target)

    def _remember(self, body: Mapping[str, Any], complaint: Complaint) -> bool:
        """Remember what a complaint is about; returns False if nothing is left to try.

        It may be known already: other calls that carry it were in flight when it was learned. The
        limit on tokens is renamed, never dropped: the budget counts on it.
        """
        turns = body.get("messages", ())
        if complaint.rejects_system() and any(turn["role"] == "system" for turn in turns):
            self.no_system = True
            return True
        name = complaint.rejects([key for key in body if key not in _FIXED])
        if name is None or name in self.refused:
            return name is not None
        replacement = _RENAMES.get(name)
        if replacement in self.refused or (
            name == "max_completion_tokens" and "max_tokens" in complaint.message
        ):
            return False
        self.refused[name] = replacement
        return True

    def _typed_error(self, error: Exception) -> Exception:
        """Our error for one of the HTTP client's."""
        import httpx2

        undecoded = isinstance(error, httpx2.DecodingError)
        if isinstance(error, httpx2.RequestError) and not undecoded:
            return self._connection_error(error)
        if isinstance(error, UnicodeEncodeError):
            return ModelRefusedError(
                f"text for {self.model} holds half of a surrogate pair, which UTF-8 cannot encode",
                hint="normalise the source: ingest does so by default",
            )
        if undecoded or isinstance(error, ValueError | RecursionError):
            what = "decompressed" if undecoded else "read"
            return self.bad_reply(f"sent data that cannot be {what}: {error}")
        return error

    def _connection_error(self, error: httpx2.RequestError) -> ModelError:
        """The error for a connection that failed, before the reply or within it."""
        name = type(error).__name__
        if name.endswith("Timeout") and name != "ConnectTimeout":
            return ModelTimeoutError(f"{self.model} did not reply in time", where=self.target.base)
        if "incomplete" in str(error) or "without sending complete" in str(error):
            return self.bad_reply("broke off in the middle of its reply")
        return (ModelUnreachableError if "Connect" in name else ModelUnavailableError)(
            f"{self.model} cannot be reached: " + self.masked(f"{name}: {error}".rstrip(": ")),
            where=self.target.base,
            hint="is the server running, and the base address right?",
        )

    def upstream(self, data: Mapping[str, Any], headers: Mapping[str, str]) -> ModelError:
        """The error in a reply with status 200, or in a stream."""
        complaint = Complaint.of(data)
        status = int(complaint.code) if re.fullmatch(r"[45]\d\d", complaint.code) else 502
        return failure(status, complaint, headers, self.target)

    def masked(self, message: str) -> str:
        """A message that may quote the server, without the key that was sent to it."""
        return mask_key(message, self.target.key())

    def bad_reply(self, problem: str, hint: str = "") -> ModelReplyError:
        """The error for a reply that breaks the protocol."""
        problem = f"{self.model} {self.masked(problem)}"
        return ModelReplyError(problem, where=self.target.base, hint=hint or None)
