"""The additions of the package, held to ragwright's conformance suites."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ragwright_tickets import Recency, RecencyOptions, TicketReader

from ragwright.core import Row
from ragwright.ingest import Reader
from ragwright.testing import (
    CommandSuite,
    MeasureSuite,
    ReaderSuite,
    StageSuite,
    StepSuite,
)

DESK = Path(__file__).parents[1] / "desk"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The project of the example, ingested."""
    folder = tmp_path / "desk"
    shutil.copytree(DESK, folder)
    subprocess.run([sys.executable, "-m", "ragwright", "ingest", "-q"], cwd=folder, check=False)
    return folder


class TestReader(ReaderSuite):
    @pytest.fixture
    def reader(self) -> Reader:
        return TicketReader()

    @pytest.fixture
    def source(self) -> str:
        return str(DESK / "2026.tickets")

    @pytest.fixture
    def missing(self) -> str:
        return str(DESK / "2027.tickets")


class TestMeasure(MeasureSuite):
    measure = "WordsPerSentence"
    rows = (Row("1", "How?", response="One. Two words."), Row("2", "How?", response="No stop"))


class TestStage(StageSuite):
    def make(self) -> Recency:
        return Recency(RecencyOptions(field="", today="2026-11-24"))


class TestCommand(CommandSuite):
    command = "tickets"

    @pytest.fixture
    def folder(self, desk: Path) -> Path:
        return desk


class TestStep(StepSuite):
    step = "check-tickets"
    arguments = ("3",)

    @pytest.fixture
    def folder(self, desk: Path) -> Path:
        return desk
