"""The plug-in that pytest loads where ragwright is installed: the fixture ``rag_gate``.

It stands outside the room ``testing`` and imports nothing of ragwright until a test asks for the
fixture: pytest loads it at every start, in projects that do not use it too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from .testing import RagGate


@pytest.fixture
def rag_gate() -> RagGate:
    """Holds rows, or a system and its questions, to rules: ``rag_gate(rows, "TokenF1>=0.6")``.

    See :func:`ragwright.testing.hold`.
    """
    return cast("RagGate", import_module("ragwright.testing").hold)
