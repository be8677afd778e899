"""The identity provider over HTTP: its description, keys, tokens and claims."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

from .._errors import ApiError
from .._identity import is_loopback

if TYPE_CHECKING:
    from ssl import SSLContext

    import jwt

    from ._options import SignInOptions

log = logging.getLogger("ragwright.serve")

ALGORITHMS: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""Algorithms of signatures that are accepted, and the type of their keys; none has a shared key."""

_DESCRIBED = 3600.0
"""Seconds after which the provider's description is read again."""

_KEYS = 300.0
"""Seconds after which its keys are read again: a withdrawn key works no longer than this."""

_STALE = 3600.0
"""Seconds that keys are used while the provider cannot be reached."""

_PAUSE = 10.0
"""Seconds between two readings that a failure or an unknown key causes."""

_TIMEOUT = 10.0
_LARGEST = 1_000_000
"""Most bytes of a reply."""


class Provider:
    """An identity provider; what it says of itself is kept for a while.

    Args:
        options: Which one, and as whom it is asked.
        clock: Returns seconds that only grow.
    """

    def __init__(self, options: SignInOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        self._described = _Kept(_DESCRIBED, clock)
        self._published = _Kept(_KEYS, clock)
        self._unknown = float("-inf")
        self._rotating = asyncio.Lock()
        self._context: SSLContext | None = None

    async def endpoint(self, name: str) -> str:
        """An address of the provider's description, empty where it has none.

        Raises:
            ApiError: 503; the provider cannot be reached, or describes another issuer.
        """
        described = await self.description()
        address = described.get(name, "")
        if not isinstance(address, str) or (address and not _is_safe(address)):
            raise self._failed(f"its {name} is not an https address")
        return address

    async def description(self) -> Mapping[str, Any]:
        """The provider's description of itself.

        Raises:
            ApiError: As :meth:`endpoint`.
        """
        return await self._read(self._described, self._read_description)

    async def key(self, name: str | None, algorithm: str) -> jwt.PyJWK:
        """The public key of this id that signs by an algorithm; read again where it is unknown.

        Raises:
            ApiError: 401, the provider has no such key; 503, it cannot be reached.
        """
        jwk = _fitting(await self._keys(), name, algorithm)
        if jwk is None:
            async with self._rotating:  # who waits finds what the first one has read
                jwk = _fitting(await self._keys(), name, algorithm)
                if jwk is None and self._clock() >= self._unknown + _PAUSE:
                    self._unknown = self._clock()
                    self._published.expire()
                    jwk = _fitting(await self._keys(), name, algorithm)
        key = None if jwk is None else _opened_key(jwk, algorithm)
        if key is None:
            raise ApiError(401, "the token is signed with an unknown key", "invalid_token")
        return key

    async def exchange(self, code: str, verifier: str, redirect: str) -> Mapping[str, Any]:
        """The tokens for a code.

        Raises:
            ApiError: 401, the provider refuses the code; 503, it cannot be reached.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        headers = {"accept": "application/json"}
        name, secret = self.options.client_id, self._secret
        methods = (await self.description()).get("token_endpoint_auth_methods_supported")
        if secret and "client_secret_basic" in (methods or ["client_secret_basic"]):
            pair = f"{quote_plus(name)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": name} | ({"client_secret": secret} if secret else {})
        address = await self.endpoint("token_endpoint")
        status, reply = await self._request("POST", address, headers, form)
        if status != 200:
            fault = reply.get("error")
            log.warning("the identity provider refuses the code: %s %.80r", status, fault)
            raise ApiError(401, "the identity provider refuses the code", "invalid_grant")
        return reply

    async def person(self, access_token: str) -> Mapping[str, Any]:
        """The claims at the provider's user endpoint; none where it has no such endpoint.

        Raises:
            ApiError: 503; it cannot be reached, or refuses its own token.
        """
        address = await self.endpoint("userinfo_endpoint")
        if not address:
            return {}
        headers = {"authorization": f"Bearer {access_token}", "accept": "application/json"}
        status, reply = await self._request("GET", address, headers)
        if status != 200:
            raise self._failed(f"its user endpoint answers with status {status}")
        return reply

    @property
    def _secret(self) -> str:
        return os.environ.get(self.options.client_secret_env, "")

    async def _keys(self) -> Sequence[Any]:
        async def read() -> Mapping[str, Any]:
            published = await self._document(await self.endpoint("jwks_uri"))
            if not isinstance(published.get("keys"), list):
                raise self._failed("its keys cannot be read")
            return published

        keys: Sequence[Any] = (await self._read(self._published, read))["keys"]
        return keys

    async def _read(
        self, kept: _Kept, read: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> Mapping[str, Any]:
        """What is kept, or what is read where that is too old; nobody waits for a mere refresh."""
        if kept.value is not None and (kept.fresh or (kept.usable and kept.lock.locked())):
            return kept.value
        async with kept.lock:
            if not kept.fresh and kept.may_try:
                kept.tried()
                try:
                    kept.keep(await read())
                except ApiError:
                    if not kept.usable:
                        raise
            if kept.value is None or not kept.usable:
                raise self._failed("it could not be reached a moment ago")
            return kept.value

    async def _read_description(self) -> Mapping[str, Any]:
        address = f"{self.options.issuer.rstrip('/')}/.well-known/openid-configuration"
        described = await self._document(address)
        if described.get("issuer") != self.options.issuer:
            raise self._failed(f"it calls itself {described.get('issuer')!r:.200}")
        return described

    async def _document(self, address: str) -> Mapping[str, Any]:
        status, document = await self._request("GET", address, {"accept": "application/json"})
        if status != 200:
            raise self._failed(f"{address} answers with status {status}")
        return document

    async def _request(
        self, method: str, address: str, headers: Mapping[str, str], form: Any = None
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON object of a reply; redirects are not followed.

        Raises:
            ApiError: 503; no reply, or one that cannot be read.
        """
        import httpx2

        body = b""
        try:
            async with (
                asyncio.timeout(_TIMEOUT),
                httpx2.AsyncClient(
                    verify=await self._trusted(),
                    timeout=_TIMEOUT,
                    follow_redirects=False,
                    trust_env=not is_loopback(urlsplit(address).hostname or ""),
                ) as client,
                client.stream(method, address, headers=headers, data=form) as reply,
            ):
                async for piece in reply.aiter_bytes():
                    body += piece
                    if len(body) > _LARGEST:
                        raise self._failed(f"{address} sends more than {_LARGEST:,} bytes")
            document = json.loads(body)
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            raise self._failed(f"{address}: {error or type(error).__name__}") from error
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            if reply.status_code == 200:
                raise self._failed(f"{address} does not answer in JSON")
            document = {}
        return reply.status_code, document

    async def _trusted(self) -> SSLContext:
        """The certificates that are trusted; to read them takes too long for the event loop."""
        import httpx2

        if self._context is None:
            self._context = await asyncio.to_thread(httpx2.create_ssl_context)
        return self._context

    def _failed(self, fault: str) -> ApiError:
        log.warning("the identity provider %s cannot be used: %s", self.options.issuer, fault)
        message = "the identity provider cannot be reached; the server's log says more"
        return ApiError(503, message, "provider_away", retry_after=_PAUSE)


class _Kept:
    """A document that is kept for a while; ``lock`` is held while it is read."""

    def __init__(self, life: float, clock: Callable[[], float]) -> None:
        self.value: Mapping[str, Any] | None = None
        self._life = life
        self._clock = clock
        self._read = self._tried = float("-inf")
        self.lock = asyncio.Lock()

    @property
    def fresh(self) -> bool:
        return self._clock() < self._read + self._life

    @property
    def usable(self) -> bool:
        """True while it may be used although it is old."""
        return self.value is not None and self._clock() < self._read + self._life + _STALE

    @property
    def may_try(self) -> bool:
        """True unless it was read in vain a moment ago."""
        return self._clock() >= self._tried + _PAUSE

    def tried(self) -> None:
        """Note an attempt to read it."""
        self._tried = self._clock()

    def keep(self, value: Mapping[str, Any]) -> None:
        self.value, self._read, self._tried = value, self._clock(), float("-inf")

    def expire(self) -> None:
        """Read it again at its next use."""
        self._read = min(self._read, self._clock() - self._life)


def _fitting(keys: Sequence[Any], name: str | None, algorithm: str) -> Mapping[str, Any] | None:
    """The key of this id that fits an algorithm; without an id the only one that fits."""
    fitting = [
        key
        for key in keys
        if isinstance(key, dict)
        and key.get("kty") == ALGORITHMS[algorithm]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and (name is None or key.get("kid") == name)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _opened_key(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    import jwt

    try:
        return jwt.PyJWK.from_dict(dict(key), algorithm)
    except jwt.PyJWTError as error:
        log.warning("a key of the identity provider cannot be used: %s", error)
        return None


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    )
