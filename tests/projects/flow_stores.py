"""A plug-in: stores of the runner, in files and, where both have to behave alike, in databases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright.flow import Replies, Runs
from ragwright.ledger import Place, SharedPlace

NUMBERS = itertools.count()


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[Replies]:
    store = Replies(tmp_path / "replies.db")
    yield store
    store.close()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    store = Runs(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.fixture
def shared(postgres: str) -> SharedPlace:
    return SharedPlace(f"postgresql://admin@/postgres?host={postgres}", f"s{next(NUMBERS)}")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs_postgres]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A file, then a database: what holds for a store in one holds in the other."""
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    found: SharedPlace = request.getfixturevalue("shared")
    return found
