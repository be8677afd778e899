"""The server from outside: below a path of a proxy, and for pages of other origins."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ._logs import REQUEST_ID
from ._service import Service


class OtherOrigins(CORSMiddleware):
    """ASGI middleware: lets scripts of the origins of ``serve.cors`` call the server.

    It stands before the door, since a browser sends no key with the request by which it asks for
    permission. Cookies are not allowed: such a script sends a key of its own.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(
            app,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=(REQUEST_ID, "retry-after"),
        )
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the headers that an allowed origin needs."""
        if self._service.options.cors:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        """True for an origin of the settings, which may change while the server runs."""
        return origin in self._service.options.cors


def clean_requests(app: ASGIApp, prefix: str) -> ASGIApp:
    """ASGI middleware: HEAD is asked as GET, and paths of the API in their clean form.

    The server sends no body for HEAD. An agent's connection is not opened by it: it has no end.
    """

    async def cleaned(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = re.sub(r"^/+", "/", scope["path"])
            path = re.sub(rf"^((?:{re.escape(prefix)})?/v1)/+(.*?)/*$", r"\1/\2", path)
            as_get = scope["method"] == "HEAD" and "/mcp" not in path
            scope = {
                **scope,
                "path": path,
                "raw_path": path.encode(),
                "method": "GET" if as_get else scope["method"],
            }
        await app(scope, receive, send)

    return cleaned


class BelowPath:
    """ASGI middleware: serves below the path of a proxy, whether or not the proxy removes it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the path from the request, and put it before the addresses of redirects."""
        prefix = self._service.options.prefix
        if scope["type"] != "http" or not prefix:
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == prefix or path.startswith(f"{prefix}/"):
            scope["path"] = path[len(prefix) :] or "/"
            scope["raw_path"] = scope["path"].encode("utf-8")
        scope["app_root_path"] = prefix  # Starlette begins the addresses of a request with it
        host = Headers(scope=scope).get("host", "")

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "location" in headers:
                    headers["location"] = _below_prefix(prefix, headers["location"], host)
            await send(message)

        await self._app(scope, receive, sent)


def _below_prefix(prefix: str, location: str, host: str) -> str:
    """An address of this server with the prefix before its path."""
    parts = urlsplit(location)
    own = parts.netloc in ("", host) and parts.path.startswith("/")
    if not own or parts.path == prefix or parts.path.startswith(f"{prefix}/"):
        return location
    return parts._replace(path=prefix + parts.path).geturl()
