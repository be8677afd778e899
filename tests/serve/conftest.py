"""The small project served: open, behind keys, and with a model that writes its answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import Running, handbook, key, written_by

from ragwright.testing import ScriptedServer


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with handbook(tmp_path_factory.mktemp("offline")) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with handbook(tmp_path_factory.mktemp("keyed")) as running:
        key(running.folder, "first")
        yield running


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    """The model of ``writing``; tests say what it plays."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory, model: ScriptedServer) -> Iterator[Running]:
    with handbook(tmp_path_factory.mktemp("writing"), written_by(model)) as running:
        yield running
