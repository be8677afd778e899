"""Conclusions from oracles: who is credited, what is proven, and what chance makes of it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragwright.core import Row, Score, make_plain
from ragwright.experiment import (
    STAGES,
    DiagnosedRow,
    Diagnosis,
    GoldPlace,
    Lost,
    RowResult,
    Stage,
    diagnosis_of,
    facts_kept,
    is_right,
    read_plain,
)
from ragwright.measure import parse_measures
from ragwright.report import diagnosis_json, diagnosis_table


def scored(measure: str, value: float | None) -> Score:
    if value is None:
        return Score(measure, "abstained", reason="no answer")
    return Score(measure, "scored", value)


def row(
    name: str,
    plain: float | None,
    oracles: dict[Stage, float | None],
    lost: Lost = "",
    measure: str = "Contains",
) -> DiagnosedRow:
    kept = Row(name, f"What is {name}?", response="x", metadata={"kind": name[-1]})
    after = {stage: (scored(measure, oracles.get(stage, plain)),) for stage in STAGES}
    return DiagnosedRow(RowResult(name, (), (scored(measure, plain),), kept), lost, oracles=after)


def alike(
    plain: float | None,
    oracles: dict[Stage, float | None],
    lost: Lost = "",
    measure: str = "Contains",
) -> list[DiagnosedRow]:
    return [row(f"r{n}", plain, oracles, lost, measure) for n in range(20)]


def concluded(rows: Sequence[DiagnosedRow], measure: str = "Contains") -> Diagnosis:
    return diagnosis_of(rows, parse_measures(measure))


def test_all_stages_and_measures_are_one_family_of_tests() -> None:
    found = concluded([row(f"r{n}", 0.0, {"filter": float(n < 5)}, "filter") for n in range(20)])
    points = found.of("filter", "Contains")
    assert points.recovered.p == pytest.approx(2 / 2**5)
    assert points.recovered.p_holm == pytest.approx(5 * 2 / 2**5)  # five stages, one measure
    assert not points.proven


@pytest.mark.parametrize(
    ("plain", "stage", "oracle", "measure", "difference"),
    [(None, "filter", 1.0, "Contains", 1.0), (0.9, "generate", 0.0, "EditDistance", 0.9)],
    ids=["an answer that was not given is worth nothing", "less is more for this measure"],
)
def test_points_are_those_of_the_measure(
    plain: float | None, stage: Stage, oracle: float, measure: str, difference: float
) -> None:
    found = concluded(alike(plain, {stage: oracle}, stage, measure), measure)
    points = found.of(stage, measure)
    assert points.recovered.difference == pytest.approx(difference)
    assert points.plain == pytest.approx(plain or 0.0)
    assert found.stage == stage


def test_a_stage_is_not_blamed_for_rows_where_nothing_is_lost() -> None:
    oracles: dict[Stage, float | None] = {"generate": 1.0}
    rows = [row(f"r{n}", 0.4 if n < 48 else 0.0, oracles, "", "TokenF1") for n in range(50)]
    found = concluded(rows, "TokenF1")
    assert (found.losses, found.stage) == ({"": 50}, None)
    assert found.verdict[0] == "No stage is proven to lose points."
    text = diagnosis_table(found)
    assert "Work on" not in text
    assert "an abstention is wrong" in " ".join(text.split())
    assert diagnosis_json(found)["rule"]


@pytest.mark.slow
def test_chance_is_hardly_ever_taken_for_a_stage() -> None:
    draw = random.Random(4)
    named = 0
    for _ in range(60):
        rows = [
            row(f"r{n}", 0.5, {s: draw.choice([0.4, 0.6]) for s in STAGES}, "filter")
            for n in range(24)
        ]
        named += concluded(rows).stage is not None
    assert named <= 7  # 3 in 60 are the nominal share; 8 or more have a chance of 1 in 100


def test_a_row_is_read_back_as_it_was_written() -> None:
    made = row("r1", 0.5, {"judge": 1.0}, "judge")
    place = GoldPlace("d", 3, 9, True, False, 2, None, None)
    more = (True, made.oracles, ("d",))
    whole = DiagnosedRow(made.plain, "judge", (place,), *more)
    assert concluded([]).points == ()  # nothing at all is no conclusion
    assert read_plain(DiagnosedRow, json.loads(json.dumps(make_plain(whole)))) == whole


def about(one: DiagnosedRow, document: str) -> DiagnosedRow:
    kept = replace(one.plain.row or Row("", ""), reference_ids={document: 1})
    return replace(one, plain=replace(one.plain, row=kept))


def test_questions_on_one_document_are_one_observation() -> None:
    """20 rows by themselves prove a stage; 20 rows about 4 documents cannot."""
    rows = alike(0.0, {"filter": 1.0}, "filter")
    alone = concluded(rows)
    assert alone.of("filter", "Contains").recovered.clusters is None
    assert alone.stage == "filter"
    shared = [about(one, f"d{n % 4}") for n, one in enumerate(rows)]
    found = concluded(shared)
    points = found.of("filter", "Contains")
    for one in (points.recovered, points.first):
        assert (one.n, one.clusters) == (20, 4)
        assert one.p == pytest.approx(2 / 2**4)
    assert found.stage is None


# -- right answers and facts kept, as far as words can tell ------------------------------------

LONG = "The brake fluid must be changed every two years and the coolant every five years."


@pytest.mark.parametrize(
    ("reference", "response", "right"),
    [
        ("Denver Broncos", "It was the Denver Broncos who won.", True),
        ("Denver Broncos", "It was Denver, not the Broncos.", False),
        ("15,000 km", "Every 15,000 km.", True),
        ("15,000 km", "Every 10,000 km.", False),
        (LONG, "Change the brake fluid every two years, and coolant after five years.", True),
        (LONG, "It depends on the car.", False),
        ("", "Anything.", None),
        ("NYC", "In New York City.", True),  # any accepted answer will do
    ],
)
def test_right_by_the_gold_answer(reference: str, response: str, right: bool | None) -> None:
    more = {"references": ("New York City",)} if reference == "NYC" else {}
    assert is_right(Row("1", "?", reference=reference, metadata=more), response) is right


def test_facts_are_counted_once_each() -> None:
    assert facts_kept("Torque 12 Nm, torque 12 Nm.", "A torque of 12.") == pytest.approx(2 / 3)
    assert facts_kept("of the", "anything") is None
    assert facts_kept("l'huile moteur", "Une huile de moteur", "fr") == 1.0
