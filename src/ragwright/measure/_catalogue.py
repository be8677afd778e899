"""All built-in measures: their needs, range, direction and source."""

from __future__ import annotations

from ._define_judged import JUDGED
from ._define_models import EMBEDDING, LOGPROB
from ._define_retrieval import RETRIEVAL
from ._define_text import CAPABILITY, TEXT
from ._definition import Definition

_DEFINITIONS = (*RETRIEVAL, *TEXT, *EMBEDDING, *LOGPROB, *CAPABILITY, *JUDGED)

_BY_NAME = {definition.name: definition for definition in _DEFINITIONS}


def definitions() -> tuple[Definition, ...]:
    """Every measure, sorted by name."""
    return tuple(sorted(_DEFINITIONS, key=lambda definition: definition.name.lower()))


def find(name: str) -> Definition | None:
    """The measure with this name, None if there is none."""
    return _BY_NAME.get(name)
