"""Sign-in by authorization code with PKCE, and its end.

What is under way is in the browser: a random id in a cookie. The ``state`` that the provider sends
back names the hash of it, encrypted by a key of the ledger; the PKCE verifier and the nonce are
derived from it. So beginning a sign-in stores nothing, a state is worth nothing in another browser
or after ten minutes, and each ends one sign-in at most.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode, urlsplit

from .._errors import ApiError
from ._people import Person, lacks_claims, name_of_subject, person_of_claims
from ._provider import Provider
from ._tokens import access_claims, identity_claims, logout_claims

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from ._options import SignInOptions

UNDER_WAY = 600
"""Seconds that a person has to sign in at the provider."""

_NEXT = 1_000
"""Most characters of the address that a person goes on to."""

_LATE = 300
"""Most seconds on the way of a token that ends sessions."""


@dataclass(frozen=True, slots=True)
class Return:
    """What the provider sends a browser back with."""

    code: str = ""
    state: str = ""
    issuer: str = ""
    error: str = ""


class Kept(Protocol):
    """What a server stores of sign-ins."""

    def cipher(self) -> Fernet:
        """The cipher of states; all workers have the same."""

    def use_once(self, name: str, ends: float) -> bool:
        """Use something that may be used once until ``ends``; False where it was used before."""

    def refused_before(self, person: str) -> float:
        """When the tokens of a person were revoked last, in seconds since 1970; else 0."""

    def end_at_provider(self, issuer: str, session: str, person: str) -> int:
        """End the sessions of a session at the provider, or else of a person; their number."""


class SignIn:
    """The sign-in of a server at its identity provider.

    Args:
        options: The provider.
        sessions: Where sessions, the key of states and what was used are stored.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self, options: SignInOptions, sessions: Kept, clock: Callable[[], float] = time.time
    ) -> None:
        self.options = options
        self._provider = Provider(options)
        self._sessions = sessions
        self._clock = clock

    async def address(self, browser: str, wanted: str, redirect: str) -> str:
        """The provider's page where a person signs in.

        Args:
            browser: Random id that the browser keeps in a cookie.
            wanted: Path that the person goes on to afterwards.
            redirect: Address that the provider sends the browser back to.

        Raises:
            ApiError: 503; the provider cannot be reached.
        """
        number = secrets.token_urlsafe(16)
        body = {
            "number": number,
            "browser": _digest("browser", browser, ""),
            "issuer": self.options.issuer,
            "next": wanted if len(wanted) <= _NEXT else "/",
        }
        cipher = await asyncio.to_thread(self._sessions.cipher)
        challenge = sha256(_digest("verifier", browser, number).encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self.options.scopes),
            "state": cipher.encrypt(json.dumps(body).encode()).decode(),
            "nonce": _digest("nonce", browser, number),
            "code_challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        address = await self._provider.endpoint("authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    async def person(self, came: Return, browser: str, redirect: str) -> tuple[Person, str]:
        """Who came back from the provider, and the path that they go on to.

        Raises:
            ApiError: 401, the state is of another browser or was used, or a token is not valid;
                503, the provider cannot be reached.
        """
        cipher = await asyncio.to_thread(self._sessions.cipher)
        body = self._open_state(cipher, came.state, browser)
        described = await self._provider.description()
        promised = described.get("authorization_response_iss_parameter_supported") is True
        if (came.issuer or promised) and came.issuer != self.options.issuer:
            raise ApiError(401, "another provider has answered", "invalid_state")
        if came.error or not came.code:
            fault = came.error if came.error.isidentifier() else "no code"
            raise ApiError(401, f"the identity provider signed nobody in ({fault:.40})", "denied")
        number = body["number"]
        if not await self._first_use(f"state {number}", UNDER_WAY):
            raise ApiError(401, "this sign-in has ended already; begin again", "invalid_state")
        verifier = _digest("verifier", browser, number)
        tokens = await self._provider.exchange(came.code, verifier, redirect)
        access, token = (str(tokens.get(name, "")) for name in ("access_token", "id_token"))
        nonce = _digest("nonce", browser, number)
        claims = dict(await identity_claims(self._provider, token, nonce, access))
        if lacks_claims(self.options, claims):
            more = await self._provider.person(access)
            if more and more.get("sub") != claims["sub"]:
                raise ApiError(401, "the provider describes somebody else", "invalid_token")
            claims = {**more, **claims}
        return person_of_claims(self.options, claims), body["next"]

    async def person_of_token(self, token: str) -> Person:
        """The person or program that an access token was issued to.

        Raises:
            ApiError: 401, it is not valid, not for this server, or was revoked; 503, the provider
                cannot be reached.
        """
        claims = await access_claims(self._provider, token)
        person = person_of_claims(self.options, claims)
        revoked = await asyncio.to_thread(self._sessions.refused_before, person.name)
        if float(claims["iat"]) <= revoked:
            raise ApiError(401, "the sessions and tokens of this person were revoked", "revoked")
        return person

    async def end(self, token: str) -> int:
        """End the sessions that the provider names in a logout token; how many there were.

        Raises:
            ApiError: 400 or 401, it is not such a token; 503, the provider cannot be reached.
        """
        claims = await logout_claims(self._provider, token)
        late = _LATE + self.options.leeway
        fresh = float(claims["iat"]) > self._clock() - late
        if not fresh or not await self._first_use(f"logout {claims['jti']}", 2 * late):
            raise ApiError(400, "the logout token is too old, or was used", "invalid_request")
        subject = claims.get("sub")
        name = name_of_subject(self.options.issuer, subject) if subject else ""
        of = (self.options.issuer, claims.get("sid", ""), name)
        return await asyncio.to_thread(self._sessions.end_at_provider, *of)

    async def leaving(self, back: str) -> str:
        """The provider's page that ends its own session, empty where it has none.

        Args:
            back: Address that it sends the browser to afterwards.
        """
        address = await self._provider.endpoint("end_session_endpoint")
        query = {"client_id": self.options.client_id, "post_logout_redirect_uri": back}
        return f"{address}?{urlencode(query)}" if address else ""

    async def _first_use(self, name: str, life: float) -> bool:
        return await asyncio.to_thread(self._sessions.use_once, name, self._clock() + life)

    def _open_state(self, cipher: Fernet, state: str, browser: str) -> dict[str, str]:
        from cryptography.fernet import InvalidToken

        try:
            text = cipher.decrypt(state.encode(), ttl=UNDER_WAY)
        except (InvalidToken, ValueError):
            text = b"{}"
        body: dict[str, str] = json.loads(text)
        is_own = hmac.compare_digest(body.get("browser", ""), _digest("browser", browser, ""))
        if not browser or not is_own or body["issuer"] != self.options.issuer:
            raise ApiError(
                401, "this sign-in was begun in another browser or too long ago", "invalid_state"
            )
        return body


def _digest(purpose: str, browser: str, number: str) -> str:
    digest = sha256(f"{purpose} {browser} {number}".encode("utf-8", "surrogatepass")).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")
