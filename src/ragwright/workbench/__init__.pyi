from ._asking import AnswerStream as AnswerStream, Asking as Asking
from ._doctor import doctor as doctor
from ._workbench import Workbench as Workbench
