"""Kinds of stores that settings can name."""

from __future__ import annotations

import pytest

from ragwright.core import ConfigError
from ragwright.index import StoreOptions


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown store kind 'qdrant'") as raised:
        StoreOptions(kind="qdrant")
    assert "sqlite, lance" in str(raised.value)
