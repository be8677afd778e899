from .core import (
    Answer as Answer,
    Document as Document,
    Hit as Hit,
    Persona as Persona,
    RagwrightError as RagwrightError,
)
from .experiment import Evaluating as Evaluating, evaluate as evaluate
from .measure import MeasureSetup as MeasureSetup
from .project import Session as Session
from .workbench import Asking as Asking, Workbench as Workbench

__version__: str
