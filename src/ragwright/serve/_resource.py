"""The description of this server for programs that look for its tokens (RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ._errors import ApiError, error_reply

if TYPE_CHECKING:
    from ._admission import Caller
    from ._options import ServeOptions

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""Where the description is, with the path of the resource behind it."""

_RESOURCES = ("", "/mcp", "/v1")

router = APIRouter(include_in_schema=False)


@router.get(WELL_KNOWN)
@router.get(WELL_KNOWN + "/{path:path}")
async def protected_resource(request: Request, path: str = "") -> Response:
    """Describe the API or the agents' tools: who issues tokens for them."""
    options: ServeOptions = request.app.state.service.options
    caller: Caller = request.state.caller
    inside = f"/{path}".rstrip("/").removeprefix(options.prefix)
    if not options.sign_in.audiences or inside not in _RESOURCES:
        return error_reply(ApiError(404, "this server takes no tokens there", "not_found"), request)
    described: dict[str, Any] = {
        "resource": caller.base + inside,
        "authorization_servers": [options.sign_in.issuer],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(options.sign_in.scopes),
        "resource_name": request.app.state.service.name,
    }
    # Programs in browsers read it too; it holds nothing private.
    return JSONResponse(described, headers={"access-control-allow-origin": "*"})


def challenge(options: ServeOptions, base: str, path: str, *, refused: bool) -> str:
    """The header by which a refused program learns where it gets a token.

    Args:
        options: The settings.
        base: Address of the server.
        path: Path that was asked for.
        refused: A token or key was sent.
    """
    if not options.sign_in.audiences:
        return "Bearer"
    inside = next((at for at in _RESOURCES[1:] if f"{path}/".startswith(f"{at}/")), "")
    fault = 'error="invalid_token", ' if refused else ""
    return f'Bearer {fault}resource_metadata="{base}{WELL_KNOWN}{inside}"'
