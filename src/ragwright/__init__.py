"""A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it.

Importing this package is quick and touches nothing; each public name is loaded when it is
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core import Answer, Document, Hit, Persona, RagwrightError
    from .experiment import Evaluating, evaluate
    from .measure import MeasureSetup
    from .project import Session
    from .workbench import Asking, Workbench

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

_ROOMS = {
    "Answer": "core",
    "Asking": "workbench",
    "Document": "core",
    "Evaluating": "experiment",
    "Hit": "core",
    "MeasureSetup": "measure",
    "Persona": "core",
    "RagwrightError": "core",
    "Session": "project",
    "Workbench": "workbench",
    "evaluate": "experiment",
}


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_ROOMS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
