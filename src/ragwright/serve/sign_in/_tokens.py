"""Tokens of the identity provider: signature, times, audience and purpose."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._errors import ApiError
from ._provider import ALGORITHMS

if TYPE_CHECKING:
    from ._provider import Provider

_LONGEST = 16_384
"""Most characters of a token."""

_LOGGED_OUT = "http://schemas.openid.net/event/backchannel-logout"


async def access_claims(provider: Provider, token: str) -> Mapping[str, Any]:
    """The claims of an access token for this server.

    Raises:
        ApiError: 401, the token is not valid, not for this server, or no access token; 503, the
            provider cannot be reached.
    """
    claims = await _checked_claims(provider, token, provider.options.audiences)
    # An ID token says who signed in to a client. It is no permission to call an API.
    if {"nonce", "at_hash", "c_hash", "events"} & claims.keys() or claims.get("typ") == "ID":
        raise ApiError(401, "send an access token, not an ID token", "invalid_token")
    return claims


async def identity_claims(
    provider: Provider, token: str, nonce: str, access_token: str
) -> Mapping[str, Any]:
    """The claims of the ID token of a sign-in.

    Raises:
        ApiError: As :func:`access_claims`; or it is of another sign-in.
    """
    client = provider.options.client_id
    claims = await _checked_claims(provider, token, [client])
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else client) != client:
        raise ApiError(401, "the token was issued to another client", "invalid_token")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
        raise ApiError(401, "the token is of another sign-in", "invalid_token")
    if "at_hash" in claims and claims["at_hash"] != _half_hash(token, access_token):
        raise ApiError(401, "the access token is of another sign-in", "invalid_token")
    return claims


async def logout_claims(provider: Provider, token: str) -> Mapping[str, Any]:
    """The claims of a token by which the provider ends sessions.

    Raises:
        ApiError: As :func:`access_claims`; or it does not say whose sessions end.
    """
    claims = await _checked_claims(
        provider, token, [provider.options.client_id], needed=("iat", "jti", "events")
    )
    events = claims["events"]
    names_somebody = isinstance(claims.get("sid"), str) or isinstance(claims.get("sub"), str)
    is_logout = isinstance(events, dict) and isinstance(events.get(_LOGGED_OUT), dict)
    if not is_logout or "nonce" in claims or not names_somebody:
        raise ApiError(400, "this is not a logout token", "invalid_request")
    return claims


async def _checked_claims(
    provider: Provider,
    token: str,
    audiences: Sequence[str],
    needed: Sequence[str] = ("exp", "iat", "sub"),
) -> dict[str, Any]:
    import jwt

    if len(token) > _LONGEST or not audiences:
        raise ApiError(401, "the token is not for this server", "invalid_token")
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header["alg"]
        if algorithm not in ALGORITHMS:
            raise ApiError(401, f"tokens signed by {algorithm!r:.20} are refused", "invalid_token")
        key = await provider.key(header.get("kid"), algorithm)
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=list(audiences),
            issuer=provider.options.issuer,
            leeway=provider.options.leeway,
            options={
                "require": ["iss", "aud", *needed],
                "enforce_minimum_key_length": True,
            },
        )
    except jwt.ExpiredSignatureError:
        raise ApiError(401, "the token has expired", "invalid_token") from None
    except jwt.InvalidAudienceError:
        raise ApiError(401, "the token is for another audience", "invalid_token") from None
    except jwt.PyJWTError as error:
        raise ApiError(401, f"the token is refused: {error!s:.200}", "invalid_token") from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ApiError(401, "the token cannot be read", "invalid_token") from None
    return claims


def _half_hash(token: str, access_token: str) -> str:
    """The hash of an access token that its ID token holds."""
    import jwt

    algorithm = str(jwt.get_unverified_header(token)["alg"])
    bits = algorithm[-3:] if algorithm[-3:].isdigit() else "512"  # EdDSA hashes by SHA-512
    digest = hashlib.new(f"sha{bits}", access_token.encode()).digest()
    return urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
