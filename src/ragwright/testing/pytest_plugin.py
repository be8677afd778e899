"""The plug-in that pytest loads where ragwright is installed: the fixture ``rag_gate``.

It imports nothing of ragwright until a test asks for the fixture.
"""

from __future__ import annotations

import pytest

from ._fixture import RagGate, hold


@pytest.fixture
def rag_gate() -> RagGate:
    """Holds rows, or a system and its questions, to rules: ``rag_gate(rows, "TokenF1>=0.6")``.

    See :func:`ragwright.testing.hold`.
    """
    return hold
