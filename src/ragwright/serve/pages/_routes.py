"""The addresses of the pages."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from .._errors import ApiError
from . import (
    _ask,
    _compare,
    _drafts,
    _experiments,
    _login,
    _outputs,
    _settings,
    _sources,
    _testsets,
)
from ._base import STATIC, static_file

_PAGES = (
    _ask,
    _sources,
    _testsets,
    _compare,
    _drafts,
    _experiments,
    _outputs,
    _settings,
    _login,
)


def page_routes() -> APIRouter:
    """Every page; none of them is part of the API's description."""
    router = APIRouter(include_in_schema=False)
    for part in _PAGES:
        router.include_router(part.router)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """A script or a style sheet."""
        if name not in STATIC:
            raise ApiError(404, "file not found", "not_found")
        headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(static_file(name), media_type=STATIC[name], headers=headers)

    return router
