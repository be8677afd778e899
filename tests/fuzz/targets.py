"""Every target, by module."""

from __future__ import annotations

from . import Target
from .replies import TARGETS as REPLIES

TARGETS: tuple[Target, ...] = (*REPLIES,)
