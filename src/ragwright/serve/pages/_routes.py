"""The addresses of the pages."""

from __future__ import annotations

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from .._api import caller_of, service_of
from .._door import COOKIE
from .._errors import ApiError
from . import _ask, _compare, _drafts, _experiments, _outputs, _settings, _sources, _testsets
from ._base import STATIC, local_path, login_page, static_file

_WEEK = 7 * 24 * 3600


def page_routes() -> APIRouter:
    """Every page; none of them is part of the API's description."""
    router = APIRouter(include_in_schema=False)
    for part in (_ask, _sources, _testsets, _compare, _drafts, _experiments, _outputs, _settings):
        router.include_router(part.router)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """A script or a style sheet."""
        if name not in STATIC:
            raise ApiError(404, "file not found", "not_found")
        headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(static_file(name), media_type=STATIC[name], headers=headers)

    @router.get("/login", response_class=HTMLResponse)
    async def login(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
        """Ask for a key."""
        return login_page(request, next)

    @router.post("/login")
    async def log_in(request: Request, key: str = Form(""), next: str = Form("/")) -> Response:  # noqa: A002
        """Keep a key in a cookie that no script can read and that no other site can post with.

        Links from other sites, such as citations in a chat program, do carry it.
        """
        if service_of(request).keys.find(key.strip()) is None:
            return login_page(request, next, wrong=True)
        reply = RedirectResponse(local_path(next), 303)
        reply.set_cookie(
            COOKIE,
            key.strip(),
            max_age=_WEEK,
            httponly=True,
            samesite="lax",
            secure=caller_of(request).base.startswith("https://"),
        )
        return reply

    @router.post("/logout")
    async def log_out() -> Response:
        """Forget the key."""
        reply = RedirectResponse("/login", 303)
        reply.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return reply

    return router
