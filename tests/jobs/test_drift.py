"""Drift of served answers over days, what moved at that time, and one notice for each drift."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served_answers import GOOD, Days, live, outputs_at, serve_answers
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import ScriptedServer

LINES = "serve: {measure: {share: 1, window: 14}}\n"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)(LINES)) as opened:
        yield opened


@pytest.mark.slow
def test_a_fall_is_found_with_its_day_and_what_changed(bench: Workbench) -> None:
    rng, clock = random.Random(3), Days(45)
    early = live(bench, clock, 10, 0.05, rng)
    assert early.measures[0].verdict == "reference"
    assert "reference period until" in str(early.measures[0])
    quiet = live(bench, clock, 12, 0.05, rng, model="http://h/v1#small")
    assert quiet.measures[0].verdict == "unproven"
    assert "no drift proven" in str(quiet.measures[0])
    changed = clock().date().isoformat()
    report = live(bench, clock, 16, 0.7, rng, model="http://h/v1#cheap")
    [found] = report.measures
    assert found.verdict == "worse"
    assert report.worse == (found,)
    assert abs(int(found.since[-2:]) - int(changed[-2:])) <= 1 or found.since[:7] != changed[:7]
    assert [(move.part, move.before, move.after) for move in found.near] == [
        ("model", "small", "cheap")
    ]
    assert "fell from 0.8" in str(found)
    assert "the model changed" in str(found)
    assert found.reference.mean is not None
    assert found.mean_since is not None
    assert found.mean_since < found.reference.mean - 0.3
    assert found.coverage == 1.0
    assert report.trusted
    last = found.days[-1]
    assert last.low <= last.high
    assert found.moves[0].day == changed


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


def test_personas_and_configurations_served_side_by_side_are_no_change(bench: Workbench) -> None:
    clock = Days(20)
    outputs = outputs_at(bench, clock)
    for day in range(4):
        for persona, model in (("engineer", "http://h/v1#a"), ("marketing", "http://h/v1#b")):
            serve_answers(outputs, [GOOD], persona=persona, model=model, tag=persona)
        serve_answers(outputs, [GOOD], name="other", snapshot="s2", tag=f"o{day}")
        bench.measure_served()
        clock.next()
    [found] = bench.drift().measures
    assert found.moves == ()


def configured(number: int, **body: object) -> dict[str, Any]:
    """An origin under one of two configurations."""
    return {"configuration": f"c{number}", "settings": body}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ({"snapshot": "s1"}, {"snapshot": "s2"}, "corpus"),
        ({"model": "a"}, {"model": "b"}, "model"),
        (configured(1, settings={"prompt": {"rules": "x"}}),
            configured(2, settings={"prompt": {"rules": "y"}}), "prompt"),
        (configured(1, files={"personas/a.yaml": "1"}),
            configured(2, files={"personas/a.yaml": "2"}), "prompt"),
        (configured(1, settings={"retrieve": {"top_k": 3}}),
            configured(2, settings={"retrieve": {"top_k": 9}}), "configuration"),
    ],
)  # fmt: skip
def test_each_part_that_changes_is_named_once(
    bench: Workbench, before: dict[str, Any], after: dict[str, Any], part: str
) -> None:
    clock = Days(10)
    outputs = outputs_at(bench, clock)
    days = []
    for origin in (before, before, after, after):
        days.append(clock().date().isoformat())
        serve_answers(outputs, [GOOD, GOOD], **origin)
        bench.measure_served()
        clock.next()
    [found] = bench.drift().measures
    assert [(move.day, move.part) for move in found.moves] == [(days[2], part)]


def test_a_change_of_the_judge_is_named(tmp_path: Path) -> None:
    with ScriptedServer(json.dumps({"reasoning": "Seen.", "score": 4})) as server:
        clock = Days(5)
        for judge in ("old", "new"):
            folder = MakeProject(tmp_path)(
                f"judge: {{model: '{server.url}#{judge}'}}\n"
                "serve: {measure: {share: 1, measures: [Faithfulness]}}\n"
            )
            with Workbench.open(folder) as bench:
                serve_answers(outputs_at(bench, clock), [GOOD])
                assert bench.measure_served().scored == 1
                clock.next()
        with Workbench.open(folder) as bench:
            [move] = bench.drift().measures[0].moves
    assert (move.part, move.before, move.after) == ("judge", "old", "new")
