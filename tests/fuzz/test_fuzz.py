from __future__ import annotations

import os

import pytest

from . import Target, explore
from .targets import TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_only_typed_errors_come_out(target: Target) -> None:
    seconds = float(os.environ.get("RAGWRIGHT_FUZZ_SECONDS", "0"))
    assert explore(target, seconds=seconds) > len(target.corpus)
