from ._doctor import Check as Check, doctor as doctor
from ._workbench import Asking as Asking, Workbench as Workbench
