from ._asking import AnswerStream as AnswerStream, Asking as Asking
from ._workbench import Workbench as Workbench
