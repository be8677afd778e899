"""Generators and personas side by side: what is one observation, and what is an abstention."""

from __future__ import annotations

import pytest

from ragwright.core import Row, Score
from ragwright.experiment import GridRow, PersonaModelGrid, RowResult, grid_of
from ragwright.measure import parse_measures

MEASURES = parse_measures("Contains")


def read(at: int, persona: str, generator: str, document: str, mark: object = False) -> GridRow:
    value = float(generator == "good")
    kept = Row(
        f"q{at}",
        f"What is {at}?",
        response="x",
        persona_name=persona,
        reference_ids={document: 1},
        metadata={"abstained": mark},  # type: ignore[dict-item]
    )
    key = f"q{at} | {persona} | {generator}"
    result = RowResult(key, (), (Score("Contains", "scored", value),), kept)
    share = Score("FactsKept", "scored", value if persona == "engineer" else 0.0)
    return GridRow(f"q{at}", persona, generator, result, (share,))


def came_to(documents: int, mark: object = False) -> PersonaModelGrid:
    rows = [
        read(at, persona, generator, f"d{at % documents}", mark)
        for at in range(16)
        for persona in ("engineer", "marketing")
        for generator in ("good", "bad")
    ]
    return grid_of(rows, MEASURES)


def test_questions_on_one_document_are_one_observation() -> None:
    alone, shared = came_to(16), came_to(4)
    assert [pair.comparison.clusters for pair in alone.pairs] == [None, None]
    assert alone.best == {"engineer": "good", "marketing": "good"}
    assert [pair.comparison.clusters for pair in shared.pairs] == [4, 4]
    assert [pair.comparison.p for pair in shared.pairs] == [pytest.approx(2 / 2**4)] * 2
    assert shared.best == {}
    assert [pair.comparison.clusters for pair in shared.facts] == [4, 4]
    assert shared.cells["engineer", "good", "Contains"].clusters == 4
    assert shared.kept["engineer", "good", "FactsKept"].clusters == 4


@pytest.mark.parametrize("mark", [True, "yes", 1])
def test_an_abstention_is_read_however_a_table_writes_it(mark: object) -> None:
    assert came_to(16, mark).notes[0].startswith("64 answers abstain")
