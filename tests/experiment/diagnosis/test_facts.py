"""Right answers and facts kept, as far as words can tell."""

from __future__ import annotations

import pytest

from ragwright.core import Row
from ragwright.experiment import facts_kept, is_right

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
    ],
)
def test_right_by_the_gold_answer(reference: str, response: str, right: bool | None) -> None:
    assert is_right(Row("1", "?", reference=reference), response) is right


def test_any_accepted_answer_will_do() -> None:
    row = Row("1", "?", reference="NYC", metadata={"references": ("New York City",)})
    assert is_right(row, "In New York City.")


def test_facts_are_counted_once_each() -> None:
    assert facts_kept("Torque 12 Nm, torque 12 Nm.", "A torque of 12.") == pytest.approx(2 / 3)
    assert facts_kept("of the", "anything") is None
    assert facts_kept("l'huile moteur", "Une huile de moteur", "fr") == 1.0
