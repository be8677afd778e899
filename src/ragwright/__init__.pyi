from .core import Answer, Document, Hit, Persona, RagwrightError
from .measure import MeasureSetup
from .workbench import Asking, Evaluating, Session, Workbench, evaluate

__version__: str

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
