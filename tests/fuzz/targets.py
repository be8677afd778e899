"""Every target, by module."""

from __future__ import annotations

from . import Target
from .documents import TARGETS as DOCUMENTS
from .files import TARGETS as FILES
from .replies import TARGETS as REPLIES

TARGETS: tuple[Target, ...] = (*DOCUMENTS, *FILES, *REPLIES)
