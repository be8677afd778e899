"""HTTP and MCP over the facade: an OpenAI-compatible server, and tools for agents."""

from ._identity import ROLES, Identity, Role
from ._keys import ServeKey, ServeKeys, access_place
from ._logs import LogForm
from ._mcp import serve_stdio
from ._options import ServeOptions
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
