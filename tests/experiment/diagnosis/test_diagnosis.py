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
    RowResult,
    Stage,
    diagnosis_by,
    diagnosis_of,
    read_plain,
)
from ragwright.experiment.diagnosis import Lost
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
    before = scored(measure, plain)
    kept = Row(name, f"What is {name}?", response="x", metadata={"kind": name[-1]})
    after = {stage: (scored(measure, oracles.get(stage, plain)),) for stage in STAGES}
    return DiagnosedRow(RowResult(name, (), (before,), kept), lost, oracles=after)


def concluded(rows: Sequence[DiagnosedRow], measure: str = "Contains") -> Diagnosis:
    return diagnosis_of(rows, parse_measures(measure))


def test_a_later_oracle_that_recovers_as_much_takes_no_credit() -> None:
    rows = [row(f"r{n}", 0.0, {"retrieve": 1.0, "generate": 1.0}, "retrieve") for n in range(20)]
    found = concluded(rows)
    assert found.stage == "retrieve"
    assert found.of("generate", "Contains").recovered.difference == 1.0
    assert found.of("generate", "Contains").first.difference == 0.0
    assert found.losses == {"retrieve": 20}
    assert found.of("retrieve", "Contains").rows == 20


def test_all_stages_and_measures_are_one_family_of_tests() -> None:
    rows = [row(f"r{n}", 0.0, {"filter": float(n < 5)}, "filter") for n in range(20)]
    points = concluded(rows).of("filter", "Contains").recovered
    assert points.p == pytest.approx(2 / 2**5)
    assert points.p_holm == pytest.approx(5 * 2 / 2**5)  # five stages go with the measure
    assert not concluded(rows).of("filter", "Contains").proven


def test_an_answer_that_was_not_given_is_worth_nothing() -> None:
    rows = [row(f"r{n}", None, {"filter": 1.0}, "filter") for n in range(20)]
    found = concluded(rows)
    assert found.of("filter", "Contains").recovered.difference == 1.0
    assert found.stage == "filter"


def test_less_is_more_where_the_measure_says_so() -> None:
    rows = [row(f"r{n}", 0.9, {"generate": 0.0}, "generate", "EditDistance") for n in range(20)]
    found = concluded(rows, "EditDistance")
    points = found.of("generate", "EditDistance")
    assert points.recovered.difference == pytest.approx(0.9)
    assert points.plain == pytest.approx(0.9)
    assert found.stage == "generate"


def test_a_stage_is_not_blamed_for_rows_where_nothing_is_lost() -> None:
    rows = [row(f"r{n}", 0.4, {"generate": 1.0}, "", "TokenF1") for n in range(48)]
    rows += [row(f"r{n}", 0.0, {"generate": 1.0}, "", "TokenF1") for n in range(48, 50)]
    found = concluded(rows, "TokenF1")
    assert found.losses == {"": 50}
    assert found.stage is None
    first, *further = found.verdict
    assert first == "No stage is proven to lose points."
    assert any(
        "50 of 50 rows lose nothing and could still gain: a perfect generate would add 0.616" in one
        for one in further
    )
    text = diagnosis_table(found)
    assert "Work on" not in text
    assert "an abstention is wrong" in " ".join(text.split())
    assert diagnosis_json(found)["rule"]


def test_what_a_ranking_lacks_in_the_context_is_no_lost_row() -> None:
    rows = [row(f"r{n}", 0.5, {"rerank": 1.0}, "", "nDCG@5") for n in range(20)]
    found = concluded(rows, "nDCG@5")
    assert found.stage is None
    assert any("a perfect rerank would add 0.500 points of nDCG@5" in one for one in found.verdict)
    with pytest.raises(KeyError):
        found.of("generate", "nDCG@5")


@pytest.mark.slow
def test_chance_is_hardly_ever_taken_for_a_stage() -> None:
    draw = random.Random(4)
    named = 0
    for _ in range(120):
        rows = [
            row(f"r{n}", 0.5, {s: draw.choice([0.4, 0.6]) for s in STAGES}, "filter")
            for n in range(24)
        ]
        named += concluded(rows).stage is not None
    assert named <= 12  # 6 in 120 are the nominal share; twice that has a chance below 2 in 100


def test_slices_hold_their_own_conclusions() -> None:
    rows = [row(f"{n}a", 0.0, {"filter": 1.0}, "filter") for n in range(12)]
    rows += [row(f"{n}b", 1.0, {}) for n in range(12)]
    measures = parse_measures("Contains")
    found = diagnosis_by(diagnosis_of(rows, measures), "kind", measures)
    assert found.parts["kind = a"].stage == "filter"
    assert found.parts["kind = b"].stage is None
    assert found.parts["kind = b"].losses == {"": 12}


def test_a_row_is_read_back_as_it_was_written() -> None:
    made = row("r1", 0.5, {"judge": 1.0}, "judge")
    place = GoldPlace("d", 3, 9, True, False, 2, None, None)
    whole = DiagnosedRow(
        made.plain, "judge", (place,), True, made.oracles, (scored("Contains", 0.0),), False, ("d",)
    )
    assert read_plain(DiagnosedRow, json.loads(json.dumps(make_plain(whole)))) == whole


def test_nothing_at_all_is_no_conclusion() -> None:
    found = concluded([])
    assert found.stage is None
    assert found.points == ()


def about(one: DiagnosedRow, document: str) -> DiagnosedRow:
    kept = replace(one.plain.row or Row("", ""), reference_ids={document: 1})
    return replace(one, plain=replace(one.plain, row=kept))


def test_questions_on_one_document_are_one_observation() -> None:
    """20 rows by themselves prove a stage; 20 rows about 4 documents cannot."""
    rows = [row(f"r{n}", 0.0, {"filter": 1.0}, "filter") for n in range(20)]
    alone = concluded(rows)
    assert alone.of("filter", "Contains").recovered.clusters is None
    assert alone.stage == "filter"
    shared = [about(one, f"d{n % 4}") for n, one in enumerate(rows)]
    shared = [replace(one, closed_book=(scored("Contains", 0.5),), known=True) for one in shared]
    found = concluded(shared)
    for points in (
        found.of("filter", "Contains").recovered,
        found.of("filter", "Contains").first,
    ):
        assert (points.n, points.clusters) == (20, 4)
        assert points.p == pytest.approx(2 / 2**4)
    assert found.stage is None
    assert found.context is not None
    assert found.context["Contains"].clusters == 4
    assert found.known is not None
    assert (found.known.n, found.known.clusters) == (20, 4)


@pytest.mark.parametrize("mark", [True, "true", "yes", 1])
def test_an_abstention_is_read_however_a_table_writes_it(mark: bool | str | int) -> None:
    one = row("r1", None, {"filter": 1.0}, "filter")
    kept = replace(one.plain.row or Row("", ""), metadata={"abstained": mark})
    found = concluded([replace(one, plain=replace(one.plain, row=kept))])
    assert found.notes == ("1 answer abstains: they count as the worst value",)
