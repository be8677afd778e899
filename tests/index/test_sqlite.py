"""The embedded store keeps the suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from index_suite import IndexSuite, StoreFactory

from ragwright.index import SqliteStore


class TestSqliteStore(IndexSuite):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        return lambda: SqliteStore(tmp_path / "data" / "store.sqlite")
