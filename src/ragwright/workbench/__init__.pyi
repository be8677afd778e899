from ._asking import AnswerStream as AnswerStream, Asking as Asking
from ._doctor import Check as Check, doctor as doctor
from ._workbench import Workbench as Workbench
