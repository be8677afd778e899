"""HTTP and MCP over the facade: an OpenAI-compatible server, and tools for agents.

Its files need the extra ``serve``, so each is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._identity import ROLES, Identity, Role
    from ._keys import ServeKey, ServeKeys, access_place
    from ._mcp import serve_stdio
    from ._options import LogForm, ServeOptions
    from ._serve_tables import SERVE_TABLES
    from ._server import Listening, audited_routes, make_app, serve, worker_app
    from ._service import Serving

__all__ = [
    "ROLES",
    "SERVE_TABLES",
    "Identity",
    "Listening",
    "LogForm",
    "Role",
    "ServeKey",
    "ServeKeys",
    "ServeOptions",
    "Serving",
    "access_place",
    "audited_routes",
    "make_app",
    "serve",
    "serve_stdio",
    "worker_app",
]


_FILES = {
    "ROLES": "_identity",
    "SERVE_TABLES": "_serve_tables",
    "Identity": "_identity",
    "LogForm": "_options",
    "Role": "_identity",
    "ServeKey": "_keys",
    "ServeKeys": "_keys",
    "ServeOptions": "_options",
    "Serving": "_service",
    "access_place": "_keys",
    "serve_stdio": "_mcp",
}
"""Name -> its file; all others are in ``_server``."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FILES.get(name, '_server')}", __name__), name)
