"""A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it.

Importing this package is quick and touches nothing; each public name is loaded when it is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import Answer, Document, Hit, Persona, RagwrightError
    from .measure import MeasureSetup
    from .workbench import Asking, Evaluating, Session, Workbench, evaluate

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Asking",
    "Document",
    "Evaluating",
    "Hit",
    "MeasureSetup",
    "Persona",
    "RagwrightError",
    "Session",
    "Workbench",
    "evaluate",
]

_CORE = {"Answer", "Document", "Hit", "Persona", "RagwrightError"}


def __getattr__(name: str) -> Any:
    """Load a public name from its room (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'ragwright' has no attribute {name!r}")
    room = "core" if name in _CORE else "measure" if name == "MeasureSetup" else "workbench"
    return getattr(import_module(f".{room}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
