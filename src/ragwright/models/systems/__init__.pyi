from ._callers import caller_of as caller_of
from ._handler import SystemHandler as SystemHandler
from ._http import endpoint as endpoint
from ._open import (
    Systems as Systems,
    UnderTest as UnderTest,
    open_system as open_system,
    read_system as read_system,
)
from ._options import SystemOptions as SystemOptions
from ._replies import reply_of as reply_of, text_of as text_of
