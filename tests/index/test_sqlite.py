"""The embedded store keeps the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.index import SqliteStore
from ragwright.testing import IndexSuite, StoreFactory


class TestSqliteStore(IndexSuite):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        return lambda: SqliteStore(tmp_path / "data" / "store.sqlite")
