"""HTTP and MCP over the facade: an OpenAI-compatible server, and tools for agents.

Its files need the extra ``serve``, so each is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from .._late import load_late

if TYPE_CHECKING:
    from ._app import ListenAddress, make_app, serve, worker_app
    from ._keys import ROLES, Identity, Role, ServeKey, ServeKeys, access_place
    from ._mcp import serve_stdio
    from ._options import LogForm, ServeOptions
    from ._serve_tables import SERVE_TABLES
    from ._service import ServedProject

__all__ = [
    "ROLES",
    "SERVE_TABLES",
    "Identity",
    "ListenAddress",
    "LogForm",
    "Role",
    "ServeKey",
    "ServeKeys",
    "ServeOptions",
    "ServedProject",
    "access_place",
    "make_app",
    "serve",
    "serve_stdio",
    "worker_app",
]

__getattr__ = load_late(
    __name__,
    {
        "_keys": "ROLES Identity Role ServeKey ServeKeys access_place",
        "_mcp": "serve_stdio",
        "_options": "LogForm ServeOptions",
        "_serve_tables": "SERVE_TABLES",
        "_app": "ListenAddress make_app serve worker_app",
        "_service": "ServedProject",
    },
)
