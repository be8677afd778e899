"""HTTP calls to any server that speaks the OpenAI protocol.

Calls go out with the headers and over the connections of the openai SDK's client. Replies are read
here, as plain dictionaries: the SDK takes 0.5 ms of CPU more to build a request, its reply objects
hide what unusual servers sent, and its streams hide whether ``[DONE]`` came.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from ..core import (
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    canonical_json,
)
from ._door import LARGEST_REPLY, TooLargeError, bounded, masked, read_json
from ._failures import Complaint, bad_reply, batch_limit, failure
from ._limits import Heard, Queue, watched
from ._names import Target
from ._options import TimeLimits

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

T = TypeVar("T")
log = logging.getLogger("ragwright.models")

CONNECTIONS = 1024
"""Most open connections of one client; the runner's limits are far lower."""

POOLS = 8
"""Number of connection pools of a client."""

_RENAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the SDK, the HTTP client that it uses, and the headers that it sends."""

    sdk: AsyncOpenAI
    http: httpx2.AsyncClient
    headers: Mapping[str, str]


class Connections:
    """One SDK client per server, key, time to connect and size of replies.

    Each is opened on first use, on the runner's loop.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str, float, int], Client] = {}
        self._opening = asyncio.Lock()

    async def client(self, target: Target) -> Client:
        """The client for a model's server.

        It is made on another thread: importing the SDK and reading the certificates takes up to a
        second.

        Raises:
            MissingKeyError: The server needs a key and its variable is not set.
        """
        key = target.key()
        connect = TimeLimits.of(target.settings).connect
        limit = target.settings.max_reply_bytes or LARGEST_REPLY
        address = (target.base, key, connect, limit)
        client = self._clients.get(address)
        if client is not None:
            return client
        async with self._opening:
            client = self._clients.get(address)
            if client is None:
                client = await asyncio.to_thread(_open_client, target, key, connect, limit)
                self._clients[address] = client
        return client

    async def aclose(self) -> None:
        """Close every client; call it on the loop that used them."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.sdk.close()


def _open_client(target: Target, key: str, connect: float, limit: int) -> Client:
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    timeout = httpx2.Timeout(None, connect=connect)
    # A proxy must not be used for a server on this machine.
    # Late: it loads an HTTP client of the standard library, and most commands ask no server.
    from urllib.request import getproxies

    direct = target.local or not getproxies().keys() & {"http", "https", "all"}
    http = DefaultAsyncHttpxClient(
        transport=_pooled_transport(limits, target.base.startswith("https")) if direct else None,
        limits=limits,
        timeout=timeout,
        # A redirect would send the prompt, and perhaps the key, to an unconfigured address.
        follow_redirects=False,
        event_hooks={"response": [bounded(limit)]},
    )
    # Organization and project are OpenAI's: the SDK would send them to every server.
    is_openai = "api.openai.com" in target.base
    sdk = AsyncOpenAI(
        api_key=key or "none",
        admin_api_key="",
        organization=None if is_openai else "",
        project=None if is_openai else "",
        base_url=target.base,
        timeout=timeout,
        max_retries=0,
        http_client=http,
    )
    headers = sdk.default_headers | sdk.auth_headers
    return Client(sdk, http, {k: v for k, v in headers.items() if isinstance(v, str) and v})


def _pooled_transport(limits: httpx2.Limits, secure: bool) -> httpx2.AsyncBaseTransport:
    """Connections in several pools, taken in turn.

    A pool looks at every idle connection on every request, so the work grows with their
    square: with 256 in flight one pool costs 2.3 ms of CPU per call, eight cost 1.1. The
    certificates take 25 ms to read: a server without TLS does not wait for them.
    """
    import httpx2

    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without TLS nothing is verified
    context = httpx2.create_ssl_context() if secure else trusted
    pools = [httpx2.AsyncHTTPTransport(verify=context, limits=limits) for _ in range(POOLS)]
    turns = itertools.cycle(pools)

    class _Spread(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await next(turns).handle_async_request(request)

        async def aclose(self) -> None:
            for pool in pools:
                await pool.aclose()

    return _Spread()


@dataclass(slots=True)
class _Dialect:
    """Parameters that a model rejected: parameter -> its other name, or None to drop it."""

    refused: dict[str, str | None] = field(default_factory=dict)
    no_system: bool = False

    def apply(self, body: dict[str, Any]) -> tuple[str, ...]:
        """Adapt a body; returns the parameters dropped or renamed."""
        changed = []
        for name, replacement in self.refused.items():
            if name not in body:
                continue
            value = body.pop(name)
            if replacement is None:
                changed.append(name)
            else:
                body[replacement] = value
                changed.append(f"{name}->{replacement}")
        if self.no_system and any(turn["role"] == "system" for turn in body.get("messages", ())):
            body["messages"] = _without_system(body["messages"])
            changed.append("a system turn, which is put before the question")
        return tuple(changed)

    def learn(self, name: str, message: str) -> bool:
        """Remember a rejected parameter; returns False if nothing is left to try.

        It may be known already: other calls that carry it were in flight when it was learned. The
        limit on tokens is renamed, never dropped: the budget counts on it.
        """
        if name in self.refused:
            return True
        replacement = _RENAMES.get(name)
        if replacement is None:
            self.refused[name] = None
            return True
        if replacement in self.refused or (
            name == "max_completion_tokens" and replacement in message
        ):
            return False
        self.refused[name] = replacement
        return True


async def stream_events(response: httpx2.Response, heard: Heard) -> AsyncIterator[str]:
    """The data of each server-sent event, as it arrives."""
    rest, data = b"", list[bytes]()
    async for part in response.aiter_bytes():
        heard()
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


def server_identity(target: Target) -> str:
    """Base address, model, and the parameters that the settings add to every call."""
    settings = target.settings
    sent = (settings.params, settings.query_params, settings.passage_params)
    more = "".join(f" {canonical_json(dict(params))}" for params in sent if params)
    return f"{target.base}#{target.name.name}{more}"


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

_FIXED = {"model", "messages", "prompt", "input", "stream"}


@dataclass(slots=True)
class OpenAIServer:
    """One model of a server: sends bodies, learns rejected parameters, maps errors."""

    target: Target
    connections: Connections = field(default_factory=Connections)
    dialect: _Dialect = field(default_factory=_Dialect)
    queue: Queue = field(default_factory=Queue)

    @property
    def model(self) -> str:
        """The model's name as configured, for messages."""
        return self.target.name.text

    async def send(
        self, path: str, body: dict[str, Any], timeout: float | None
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Post a body; returns the parsed reply and the parameters dropped or renamed.

        Raises:
            ModelError: Typed by what may be done about it.
        """

        async def attempt(client: Client, heard: Heard) -> dict[str, Any]:
            async with self.posted(client, path, body) as response:
                raw = await self.read(response, heard)
            return self.parse(raw, response.headers)

        return await self.attempt(attempt, body, timeout)

    @asynccontextmanager
    async def posted(
        self, client: Client, path: str, body: Mapping[str, Any]
    ) -> AsyncIterator[httpx2.Response]:
        """The response to a body, before its content is read; an error status raises."""
        content = _ENCODER.encode(body).encode()
        url = f"{self.target.base.rstrip('/')}{path}"
        request = client.http.build_request("POST", url, content=content, headers=client.headers)
        response = await client.http.send(request, stream=True)
        try:
            if not response.is_success:
                from openai import APIStatusError

                await response.aread()
                raise APIStatusError("", response=response, body=None)
            yield response
        finally:
            await response.aclose()

    async def read(self, response: httpx2.Response, heard: Heard) -> bytes:
        """The body of a reply, as it arrives; each part resets the silence timer."""
        parts = []
        async for part in response.aiter_bytes():
            heard()
            parts.append(part)
        return b"".join(parts)

    async def models(self, timeout: float | None = None) -> list[str]:
        """Names of the models the server lists.

        Raises:
            ModelError: It does not answer, rejects the key, or has no list.
        """

        async def attempt(client: Client, _: Heard) -> dict[str, Any]:
            import httpx2

            response = await client.sdk.get("/models", cast_to=httpx2.Response)
            return self.parse(response.content, response.headers)

        data, _ = await self.attempt(attempt, {}, timeout)
        entries = data.get("data")
        entries = entries if isinstance(entries, list) else []
        return [str(e["id"]) for e in entries if isinstance(e, dict) and "id" in e]

    async def attempt(
        self,
        call: Callable[[Client, Heard], Awaitable[T]],
        body: dict[str, Any],
        timeout: float | None,
    ) -> tuple[T, tuple[str, ...]]:
        """Make a call, and repeat it without each parameter that the server rejects.

        Such a refusal is not billed; rejected parameters are remembered.
        """
        settings = self.target.settings
        client = await self.connections.client(self.target)
        limits, total = TimeLimits.of(settings), timeout or settings.timeout
        changed = self.dialect.apply(body)
        while True:
            try:
                async with watched(
                    self.model, self.target.base, limits, total, self.queue
                ) as heard:
                    return await call(client, heard), changed
            except Exception as error:
                raised = self._typed_error(error, body)
            if raised is not None:
                raise raised
            changed += self.dialect.apply(body)

    def _typed_error(self, error: Exception, body: Mapping[str, Any]) -> Exception | None:
        """Our error for one of the SDK's; None if the body was adapted instead."""
        import httpx2
        import openai

        if isinstance(error, openai.APIStatusError):
            response = error.response
            if response.has_redirect_location:
                return self._redirect_error(response)
            complaint = Complaint.read(response.content)
            status = error.status_code
            if status in {400, 404, 422, 500, 501} and self._adapt_dialect(body, complaint):
                return None
            return self.refusal(status, complaint, response.headers)
        if isinstance(error, openai.APIError) and error.body is not None:
            return self.upstream({"error": error.body}, {})
        cause = error.__cause__ or error
        if isinstance(error, httpx2.DecodingError) or isinstance(cause, httpx2.DecodingError):
            return self.bad_reply(f"sent data that cannot be decompressed: {cause}")
        if isinstance(error, openai.APIConnectionError | httpx2.RequestError):
            return self._connection_error(error, cause)
        if isinstance(error, UnicodeEncodeError):
            return ModelRefusedError(
                f"text for {self.model} holds half of a surrogate pair, which UTF-8 cannot encode",
                hint="normalise the source: ingest does so by default",
            )
        if isinstance(error, TooLargeError):
            return self.bad_reply(
                f"sent a reply of more than {error.args[0]:,} bytes; the rest was not read",
                "raise max_reply_bytes under models: where such replies are expected",
            )
        if isinstance(error, openai.OpenAIError | ValueError | RecursionError):
            return self.bad_reply(f"sent data that cannot be read: {error}")
        return error

    def _connection_error(self, error: Exception, cause: BaseException) -> ModelError:
        """The error for a connection that failed, before the reply or within it."""
        import httpx2
        import openai

        late = isinstance(error, openai.APITimeoutError | httpx2.TimeoutException)
        if late and "Connect" not in type(cause).__name__:
            return ModelTimeoutError(f"{self.model} did not reply in time", where=self.target.base)
        if "incomplete" in str(cause) or "without sending complete" in str(cause):
            return self.bad_reply("broke off in the middle of its reply")
        reason = self.masked(f"{type(cause).__name__}: {cause}".rstrip(": "))
        slow = "ConnectTimeout" in type(cause).__name__
        kind = ModelUnreachableError if "Connect" in type(cause).__name__ else ModelUnavailableError
        return kind(
            f"{self.model} cannot be reached: {reason}",
            where=self.target.base,
            hint="is the server running, and the base address right?"
            + (" if it is only slow: raise connect_timeout under models:" if slow else ""),
        )

    def _redirect_error(self, response: httpx2.Response) -> ModelRefusedError:
        """The error for a redirect, which is never followed; it names both hosts."""
        host = urlsplit(self.target.base).netloc
        try:
            parts = urlsplit(urljoin(self.target.base, response.headers["location"]))
            port = f":{parts.port}" if parts.port else ""
            place = f"{parts.scheme}://{parts.hostname or ''}{port}"[:200]
        except ValueError:
            place = "an invalid address"
        return ModelRefusedError(
            self.masked(
                f"{self.model} redirects from {host} to {place} ({response.status_code}); "
                "redirects are not followed, because they would send the prompt elsewhere"
            ),
            where=self.target.base,
            hint="if that server is yours, configure its address: base under models:",
        )

    def smaller_batch(self, error: ModelRefusedError, sent: int, size: int) -> int:
        """The number of texts that a server takes, where that is why it refused some.

        Raises:
            ModelRefusedError: It is another error.
        """
        takes = batch_limit(error.what.partition(" answered ")[2], sent)
        if not takes:
            raise error
        if takes < size:
            log.warning(
                "%s takes %d texts in a call: set batch_size: %d under models:",
                *(self.model, takes, takes),
            )
        return min(takes, size)

    def _adapt_dialect(self, body: Mapping[str, Any], complaint: Complaint) -> bool:
        turns = body.get("messages", ())
        if complaint.rejects_system() and any(turn["role"] == "system" for turn in turns):
            self.dialect.no_system = True
            return True
        name = complaint.rejects([key for key in body if key not in _FIXED])
        return name is not None and self.dialect.learn(name, complaint.message)

    def upstream(self, data: Mapping[str, Any], headers: Mapping[str, str]) -> ModelError:
        """The error in a reply with status 200, or in a stream."""
        error = data.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        with suppress(TypeError, ValueError):
            code = int(str(code))
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        return self.refusal(status, Complaint.of(data), headers)

    def refusal(self, status: int, complaint: Complaint, headers: Mapping[str, str]) -> ModelError:
        """The typed error for a status from 400 up, the key masked."""
        complaint = Complaint(
            self.masked(complaint.message), self.masked(complaint.code), complaint.param
        )
        return failure(
            status,
            complaint,
            headers,
            model=self.model,
            where=self.target.base,
            key_env=self.target.key_env,
        )

    def masked(self, message: str) -> str:
        """A message that may quote the server, without the key that was sent to it."""
        return masked(message, self.target.key())

    def bad_reply(self, problem: str, hint: str = "") -> ModelReplyError:
        """The error for a reply that breaks the protocol."""
        return bad_reply(self.model, self.target.base, self.masked(problem), hint)

    def json(self, raw: bytes | str) -> dict[str, Any]:
        """The object in a body or an event, its texts cleaned and the key masked.

        Raises:
            ModelReplyError: Not a JSON object.
            ModelError: An error sent with status 200, or in a stream.
        """
        try:
            data = read_json(raw, self.target.key())
        except ValueError:
            text = raw if isinstance(raw, str) else raw[:4096].decode("utf-8", "replace")
            excerpt = self.masked(text).strip()[:80]
            raise self.bad_reply(
                f"sent a reply that is not JSON: {excerpt!r}" if excerpt else "sent an empty reply",
                "check the base address (most end in /v1)" if excerpt.startswith("<") else "",
            ) from None
        if isinstance(data, list):
            data = {"results": data}  # of a reranker
        if not isinstance(data, dict):
            raise self.bad_reply("sent JSON that is not an object")
        return data

    def parse(self, raw: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The object in a body.

        Raises:
            ModelReplyError: Not a JSON object.
            ModelError: An error sent with status 200.
        """
        data = self.json(raw)
        error = data.get("error")
        if error and not data.get("choices") and not data.get("data"):
            raise self.upstream(data, headers)
        return data
