"""A certified identity provider on this machine: npm's `oidc-provider`, run by Node."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2

from ragwright.ledger import FileLock

VERSION = "9.13.3"
SECRET = "not a real secret: +/"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragwright-tests"


def package() -> Path:
    """The installed package, kept between runs."""
    folder = _CACHE / f"oidc-provider-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "install.lock", "installing oidc-provider", wait=300):
        if not (folder / "installed").exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            command += ["--prefix", str(folder), f"oidc-provider@{VERSION}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, f"npm cannot install oidc-provider: {done.stderr[-200:]}"
            (folder / "installed").touch()
    return folder / "node_modules" / "oidc-provider" / "lib" / "index.js"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def identity_provider(server: str, realm: Path | None = None) -> Iterator[str]:
    """The issuer of a running provider that knows the server at this address as a client.

    Args:
        server: Address of the server.
        realm: An export of Keycloak, whose people and client are used.
    """
    port = free_port()
    variables = {"PACKAGE": package().as_uri(), "PORT": str(port), "SERVER": server}
    variables |= {"REALM": str(realm or "")}
    script = Path(__file__).with_suffix(".mjs")
    with subprocess.Popen(
        ["node", str(script)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "listening" in process.stdout.readline(), "the provider did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def came_back(
    http: httpx2.Client, address: str, login: str, returned: str = "/login/return"
) -> str:
    """Sign in at the provider's own forms; the address that it sends the browser back to."""
    reply = http.get(address)
    for _ in range(8):
        if reply.is_redirect:
            address = urljoin(str(reply.url), reply.headers["location"])
            if returned in address:
                return address
            reply = http.get(address)
            continue
        form = re.search(r'action="([^"]+)"', reply.text)
        assert form is not None, reply.text
        data = {"prompt": "login", "login": login, "password": "any"}
        reply = http.post(urljoin(str(reply.url), form[1]), data=data)
    raise AssertionError("the provider never sent the browser back")


def access_token(issuer: str, audience: str, login: str) -> str:
    """The token for an audience that a program gets once its user has signed in."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    client = {"client_id": "chat-program", "redirect_uri": "http://127.0.0.1/returned"}
    query = {
        **client,
        "response_type": "code",
        "scope": "openid ask",
        "resource": audience,
        "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    with httpx2.Client(timeout=20) as http:
        address = f"{issuer}/auth?{urlencode(query)}"
        returned = urlsplit(came_back(http, address, login, client["redirect_uri"]))
        form = {
            **client,
            "grant_type": "authorization_code",
            "code": parse_qs(returned.query)["code"][0],
            "code_verifier": verifier,
            "resource": audience,
        }
        token: str = http.post(f"{issuer}/token", data=form).json()["access_token"]
    return token
