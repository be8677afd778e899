from ._local import LocalEngine as LocalEngine
from ._options import (
    EngineName as EngineName,
    EngineOptions as EngineOptions,
    open_engine as open_engine,
    settled_engine as settled_engine,
)
from ._quiet import quiet as quiet
from ._ray import (
    RayEngine as RayEngine,
    check_storage as check_storage,
    node_name as node_name,
    packed_error as packed_error,
)
from ._seams import Engine as Engine, Result as Result, Task as Task, Work as Work
