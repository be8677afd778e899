"""A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it."""

from __future__ import annotations

from .core import Answer, Document, Hit, Persona, RagwrightError
from .workbench import Asking, Session, Workbench

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Asking",
    "Document",
    "Hit",
    "Persona",
    "RagwrightError",
    "Session",
    "Workbench",
]
