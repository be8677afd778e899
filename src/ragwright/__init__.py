"""A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it.

Importing this package is quick and touches nothing; each public name is loaded when it is
first used.
"""

from typing import TYPE_CHECKING

from ._late import load_late

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core import Answer, Document, Hit, Persona, RagwrightError
    from .experiment import EvaluationOptions, compare_evaluations, evaluate
    from .measure import MeasureSetup
    from .project import Session
    from .workbench import AskOptions, Workbench

__all__ = [
    "Answer",
    "AskOptions",
    "Document",
    "EvaluationOptions",
    "Hit",
    "MeasureSetup",
    "Persona",
    "RagwrightError",
    "Session",
    "Workbench",
    "compare_evaluations",
    "evaluate",
]

__getattr__ = load_late(
    __name__,
    {
        "core": "Answer Document Hit Persona RagwrightError",
        "experiment": "EvaluationOptions compare_evaluations evaluate",
        "measure": "MeasureSetup",
        "project": "Session",
        "workbench": "AskOptions Workbench",
    },
)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
