"""Systems under test: functions, pipelines of other libraries, endpoints."""

from ._callers import caller_of, make_target, takes_turns
from ._handler import SystemHandler
from ._http import endpoint, sends_turns
from ._open import Systems, UnderTest, open_system, read_system
from ._options import SystemOptions
from ._replies import reply_of, text_of

__all__ = [
    "SystemHandler",
    "SystemOptions",
    "Systems",
    "UnderTest",
    "caller_of",
    "endpoint",
    "make_target",
    "open_system",
    "read_system",
    "reply_of",
    "sends_turns",
    "takes_turns",
    "text_of",
]
