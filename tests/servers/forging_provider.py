"""An identity provider that issues what a sound one never would, such as expired tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class ForgingProvider:
    """The documents of a provider, and tokens with any claims, signed in any way.

    Attributes:
        issuer: Its address.
        reads: Paths that were read.
        down: Every reply is an error.
        described: Changes of its description.
    """

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.reads: list[str] = []
        self.down = False
        self.described: dict[str, Any] = {}
        self.key = rsa.generate_private_key(65537, 2048)
        self.other = ec.generate_private_key(ec.SECP256R1())
        self.names = {"rsa": "1", "ec": "2"}

    def token(
        self, audience: Any, *, by: Any = None, algorithm: str = "RS256", **claims: Any
    ) -> str:
        """A token that is sound but for what is named; a claim of None is left out."""
        now = int(time.time())
        sound = {"iss": self.issuer, "aud": audience, "sub": "ann", "groups": ["staff"]}
        full = {**sound, "iat": now, "exp": now + 60, **claims}
        header = {"kid": claims.pop("kid", self.names["rsa"])}
        full.pop("kid", None)
        kept = {name: value for name, value in full.items() if value is not None}
        return jwt.encode(kept, by or self.key, algorithm, header)

    def document(self, path: str) -> dict[str, Any]:
        """What is at a path."""
        if path.endswith("/keys"):
            keys = [RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)]
            keys.append(ECAlgorithm.to_jwk(self.other.public_key(), as_dict=True))
            named = zip(keys, self.names.values(), strict=True)
            return {"keys": [{**key, "kid": name} for key, name in named]}
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/begin",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **self.described,
        }


@contextmanager
def forging_provider() -> Iterator[ForgingProvider]:
    """A running provider."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.reads.append(self.path)
            body = json.dumps(provider.document(self.path)).encode()
            self.send_response(500 if provider.down else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = ForgingProvider(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
