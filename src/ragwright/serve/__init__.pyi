from ._identity import ROLES as ROLES, Identity as Identity, Role as Role
from ._keys import ServeKey as ServeKey, ServeKeys as ServeKeys, access_place as access_place
from ._mcp import serve_stdio as serve_stdio
from ._options import ServeOptions as ServeOptions
from ._serve_tables import SERVE_TABLES as SERVE_TABLES
from ._server import (
    Listening as Listening,
    audited_routes as audited_routes,
    make_app as make_app,
    serve as serve,
    worker_app as worker_app,
)
from ._service import Serving as Serving
