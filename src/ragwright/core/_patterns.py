"""Regular expressions of modules that every command loads."""

from __future__ import annotations

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self.text = text
        self.wanted = flags

    def __getattr__(self, name: str) -> Any:
        # Methods are kept, so that all calls after the first go to the compiled pattern.
        method = getattr(re.compile(self.text, self.wanted), name)
        setattr(self, name, method)
        return method


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when one of its methods is first called.

    For patterns that most commands never use: compiling one takes 0.1 to 5 ms. It has the
    attributes of a ``re.Pattern`` without being an instance of it: call its methods, do not
    give it to functions of ``re``.

    Raises:
        re.error: At the first use, if the text is not a regular expression.
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))
