from ._callers import (
    caller_of as caller_of,
    made_target as made_target,
    takes_turns as takes_turns,
)
from ._handler import SystemHandler as SystemHandler
from ._http import endpoint as endpoint, sends_turns as sends_turns
from ._open import (
    Systems as Systems,
    UnderTest as UnderTest,
    open_system as open_system,
    read_system as read_system,
)
from ._options import SystemOptions as SystemOptions
from ._replies import reply_of as reply_of, text_of as text_of
