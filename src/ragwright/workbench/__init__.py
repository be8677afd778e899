"""The facade: one class with a method for each command, and `doctor`."""

from ._asking import AnswerStream, AskOptions, doctor
from ._workbench import Workbench

__all__ = ["AnswerStream", "AskOptions", "Workbench", "doctor"]
