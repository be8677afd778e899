"""The passport of judges on the terminal."""

from __future__ import annotations

from ragwright.experiment import JudgeFigures, JudgePassport, Passport, PeopleFigures
from ragwright.measure import Estimate
from ragwright.report import passport_table

JUDGE = JudgePassport(
    "stored", "recorded",
    dimensions={
        "win-rate": JudgeFigures(
            90, 45, spearman=Estimate(0.6, 0.5, 0.7), one_person=Estimate(0.45, 0.3, 0.6),
            bias=Estimate(17.97, 10.5, 20.201), advice="Use stored.",
        )
    },
)  # fmt: skip


def table(people: PeopleFigures) -> list[str]:
    return passport_table(Passport("mine", "mine.jsonl", 90, 45, (people,), (JUDGE,))).splitlines()


def test_every_digit_of_a_bias_is_shown() -> None:
    shown = "\n".join(table(PeopleFigures("win-rate", 0, 100, rows=90)))
    assert "+17.970 (+10.500 to +20.201)" in shown
    assert "0.600 (0.500 to 0.700)" in shown


def test_a_judge_is_held_against_one_person_as_people_are() -> None:
    agreement = Estimate(0.542, 0.434, 0.63)
    lines = table(PeopleFigures("win-rate", -2, 2, rows=90, twice=80, spearman=agreement))
    head, people, judge = lines[3], lines[5], lines[6]
    assert lines[2] == "win-rate (-2 to 2)"
    at = head.index("one person")
    assert people[at:].lstrip().startswith("0.542")
    assert judge[at:].lstrip().startswith("0.450")
    assert "kappa" not in head  # no judge has one


def test_without_second_labels_nothing_is_held_against_one_person() -> None:
    assert "one person" not in table(PeopleFigures("win-rate", 0, 100, rows=90))[3]
