"""Drift of served answers over days."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from served_answers import Days, live
from small_project import MakeProject

from ragwright import Workbench

LINES = "serve: {measure: {share: 1, window: 14}}\n"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)(LINES)) as opened:
        yield opened


@pytest.mark.slow
def test_a_fall_is_found(bench: Workbench) -> None:
    rng, clock = random.Random(3), Days(45)
    early = live(bench, clock, 10, 0.05, rng)
    assert early.measures[0].verdict == "reference"
    assert "reference period until" in str(early.measures[0])
    quiet = live(bench, clock, 12, 0.05, rng, model="http://h/v1#small")
    assert quiet.measures[0].verdict == "unproven"
    assert "no drift proven" in str(quiet.measures[0])
    report = live(bench, clock, 16, 0.7, rng, model="http://h/v1#cheap")
    [found] = report.measures
    assert found.verdict == "worse"
    assert report.worse == (found,)
    assert "fell from 0.8" in str(found)
    assert found.reference.mean is not None
    assert found.current.mean is not None
    assert found.current.mean < found.reference.mean - 0.2
    assert found.coverage == 1.0
    assert report.trusted
    last = found.days[-1]
    assert last.low <= last.high


@pytest.mark.slow
def test_the_verdict_lasts_when_a_new_period_begins_and_ends_when_it_is_over(
    bench: Workbench,
) -> None:
    rng, clock = random.Random(4), Days(80)
    live(bench, clock, 14, 0.05, rng)
    assert live(bench, clock, 14, 0.6, rng).measures[0].verdict == "worse"
    first = live(bench, clock, 1, 0.6, rng).measures[0]
    assert first.verdict == "worse", "one day of a new period proves nothing by itself"
    live(bench, clock, 13, 0.05, rng)
    assert live(bench, clock, 2, 0.05, rng).measures[0].verdict == "unproven"
