"""What holds for all tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ragwright.core import RagwrightError
from ragwright.flow import RetryPolicy


@pytest.fixture(autouse=True, scope="session")
def _short_pauses() -> Iterator[None]:
    """Retries with the default policy wait a twentieth; their number and order stay.

    Tests that give a policy of their own get what they give.
    """
    usual, before = RetryPolicy(), RetryPolicy.pause

    def pause(
        self: RetryPolicy, error: RagwrightError, attempt: int, chance: random.Random
    ) -> float | None:
        short = replace(self, base=self.base / 20) if self == usual else self
        return before(short, error, attempt, chance)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetryPolicy, "pause", pause)
        yield
