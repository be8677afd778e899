"""Option records: each room declares its settings once, as data.

A room's options are a frozen dataclass whose fields are made with :func:`option`. The
project file, ``--set``, the documentation and the rebuild rule are all derived from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ._yaml import Placed

When: TypeAlias = Literal["index", "query"]


def option(default: Any, doc: str, *, when: When = "query", **limits: Any) -> Any:
    """A field of an option record.

    Args:
        default: Value when the project file does not name the key; a callable makes one.
        doc: One sentence for the reference page.
        when: ``index`` where a change needs a rebuild, ``query`` where it does not.
        limits: Bounds checked at the door: ``ge``, ``le``, ``gt``, ``lt``, ``min_length``.
    """
    metadata = {"doc": doc, "when": when, "limits": limits}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True)
class NamedOptions:
    """A section of the project file whose keys are names, such as ``jobs``.

    Attributes:
        options: Option record of the keys below each name.
        read: Reads the plain value of the section; raises ConfigError with file and line.
    """

    options: type[Any]
    read: Callable[[Any, Placed], Mapping[str, Any]]
