"""A store of a plug-in: opened by its address, and refused where it is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragwright.core import ConfigError, PluginError
from ragwright.index import SqliteStore, Store, StoreOptions, open_store

HERE = __name__


class OwnStore(SqliteStore):
    """Stands for a store of a plug-in, which has the same constructor."""


def no_store(path: Path, options: StoreOptions, **_: Any) -> Any:
    return {"path": path}


def failing(path: Path, options: StoreOptions, **_: Any) -> Store:
    raise OSError("no route to host")


def test_a_store_is_opened_by_its_address(tmp_path: Path) -> None:
    store = open_store(StoreOptions(kind=f"{HERE}:OwnStore"), tmp_path)
    assert isinstance(store, OwnStore)
    assert list(store.pairs()) == []
    store.close()


@pytest.mark.parametrize(
    ("name", "reason"), [("no_store", "dict is not a store"), ("failing", "no route to host")]
)
def test_what_is_no_store_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        open_store(StoreOptions(kind=f"{HERE}:{name}"), tmp_path)


def test_an_unknown_kind_names_the_installed_ones() -> None:
    with pytest.raises(ConfigError, match="unknown store kind 'qdrant'") as raised:
        StoreOptions(kind="qdrant")
    assert "sqlite, lance" in str(raised.value)
