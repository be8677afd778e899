"""Nuggets: the formulas of TREC RAG 2024 by hand, and a judge that is read strictly."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from judge_fakes import ROW, SETUP, Says, run, shown

from ragwright.core import MeasureError, Nugget, Row, Score
from ragwright.flow import Chat, Runner
from ragwright.measure import (
    MeasureSetup,
    parse_measure,
    score_row,
    score_rows,
    with_assignments,
)

NUGGETS = (
    Nugget("The mill was built in 1790", "vital", "support"),
    Nugget("Anna Roth built the mill", "vital", "partial_support"),
    Nugget("The mill has four wheels", "okay", "not_support"),
    Nugget("Roth was a miller", "okay", "support"),
)
GOLD = replace(ROW, nuggets=NUGGETS)


def assignments(*kinds: str) -> str:
    entries = [
        {"nugget": n, "reasoning": f"reason\n{n}", "assignment": kind}
        for n, kind in enumerate(kinds, 1)
    ]
    return json.dumps({"assignments": entries})


GOOD = assignments("support", "partial_support", "not_support", "support")


def score(measure: str, says: Says, row: Row = GOLD, setup: MeasureSetup = SETUP) -> Score:
    (scored,) = run(score_row(row, [parse_measure(measure)], setup), says)
    return scored


VALUES = [
    ("", 2.5 / 4),
    ("strict", 2 / 4),
    ("vital", 1.5 / 2),
    ("vital+strict", 1 / 2),
    ("weighted", 2 / 3),
    ("weighted+strict", 1.5 / 3),
]


@pytest.mark.parametrize(("variant", "value"), VALUES)
def test_variants_by_hand(variant: str, value: float) -> None:
    brackets = f"({variant})" if variant else ""
    assert score(f"Nuggets{brackets}", Says(GOOD)).value == pytest.approx(value)
    recorded = "+".join(filter(None, ["assigned", variant]))
    ((offline,),) = score_rows([GOLD], [parse_measure(f"Nuggets({recorded})")])
    assert offline.value == pytest.approx(value)


def test_names_parse_back_and_parts_have_one_order() -> None:
    measure = parse_measure("Nuggets(strict+words+vital)")
    assert str(measure) == "Nuggets(words+vital+strict)"
    assert parse_measure(str(measure)) == measure
    assert (measure.definition.model, measure.definition.kind) == ("none", "text")
    assert str(parse_measure("Nuggets(all)")) == "Nuggets"
    for wrong in ("Nuggets(vital+weighted)", "Nuggets(words+assigned)", "Nuggets(strict+strict)"):
        with pytest.raises(MeasureError, match="unknown parameter"):
            parse_measure(wrong)


def test_the_judge_sees_texts_alone_and_every_variant_shares_its_calls() -> None:
    says = Says(GOOD)
    measures = [parse_measure(name) for name in ("Nuggets", "Nuggets(vital)", "Nuggets(strict)")]
    scores = run(score_row(GOLD, measures, SETUP), says)
    assert [round(s.value or 0, 3) for s in scores] == [0.625, 0.75, 0.5]
    (call,) = says.seen
    assert list(shown(call)) == ["question", "answer", *(f"nugget {n}" for n in range(1, 5))]
    assert "okay" not in "".join(shown(call).values())
    assert scores[0].detail.splitlines()[1] == "~ vital: Anna Roth built the mill (reason 2)"
    assigned = with_assignments(replace(GOLD, nuggets=NUGGETS), scores[0])
    assert assigned is not None
    assert assigned.nuggets == NUGGETS
    assert with_assignments(GOLD, replace(scores[0], detail="")) is None


def test_more_than_ten_nuggets_are_asked_in_several_calls() -> None:
    many = tuple(Nugget(f"fact {n}") for n in range(12))

    def by(request: Chat) -> str:
        count = sum(name.startswith("nugget") for name in shown(request))
        return assignments(*(["support"] * count))

    says = Says(by=by)
    assert score("Nuggets", says, replace(ROW, nuggets=many)).value == 1
    assert len(says.seen) == 2
    with Runner({Chat: Says("never")}) as runner:
        row = replace(ROW, nuggets=many)
        cost = runner.forecast([lambda: score_row(row, [parse_measure("Nuggets")], SETUP)])
    assert (cost.calls.low, cost.calls.high) == (2, 4)


@pytest.mark.parametrize(
    "reply",
    [
        "support, partial_support",
        assignments("support"),
        assignments(*["support"] * 5),
        GOOD.replace("not_support", "no"),
        GOOD.replace('"nugget": 2', '"nugget": 1'),
        GOOD.replace('"nugget": 2', '"nugget": 2.0'),
        GOOD.replace('"reasoning": "reason\\n3"', '"reasoning": ""'),
        GOOD.replace('"assignment": "not_support"', '"verdict": "not_support"'),
        GOOD.replace("reason\\n1", "It gives the year but not the builder."),
    ],
)
def test_assignments_are_read_strictly(reply: str) -> None:
    says = Says(reply)
    scored = score("Nuggets", says)
    assert (scored.state, len(says.seen)) == ("judge_invalid", 2)
    mended = score("Nuggets", Says(reply, GOOD))
    assert mended.value == 0.625


def test_a_judge_that_declines_is_not_asked_again() -> None:
    for reply in ('{"assignments": null}', GOOD.replace('"not_support"', "null")):
        says = Says(reply)
        scored = score("Nuggets", says)
        assert (scored.state, len(says.seen)) == ("judge_invalid", 1)


def test_rows_without_what_counts_have_no_gold() -> None:
    okay = replace(ROW, nuggets=NUGGETS[2:])
    for name in ("Nuggets(vital)", "Nuggets(words+vital)"):
        scored = score(name, Says(GOOD), okay)
        assert (scored.state, scored.no_gold) == ("not_applicable", True)
    none = score("Nuggets", Says(GOOD), ROW)
    assert (none.state, none.no_gold) == ("not_applicable", True)
    unassigned = replace(GOLD, nuggets=(Nugget("a"),))
    assert "is not recorded" in score("Nuggets(assigned)", Says(GOOD), unassigned).reason
    failed = replace(GOLD, nuggets=(Nugget("a", assignment="failed"),))
    assert "failed" in score("Nuggets(assigned)", Says(GOOD), failed).reason


def test_an_empty_answer_supports_nothing_and_a_withheld_one_abstained() -> None:
    says = Says(GOOD)
    empty = score("Nuggets", says, replace(GOLD, response=" "))
    assert (empty.value, says.seen) == (0, [])
    assert score("Nuggets(words)", says, replace(GOLD, response="")).value == 0
    withheld = replace(GOLD, response="", metadata={"abstained": True})
    scored = score("Nuggets(words)", says, withheld)
    assert (scored.state, scored.missed) == ("abstained", True)


def test_words_count_the_share_of_a_nuggets_content_words() -> None:
    row = replace(
        ROW,
        response="Built in 1790, the mill stands.",
        nuggets=(Nugget("The mill was built in 1790"), Nugget("Anna Roth built it", "okay")),
    )
    assert score("Nuggets(words)", Says(""), row).value == pytest.approx((1 + 1 / 3) / 2)
    assert score("Nuggets(words+strict)", Says(""), row).value == 0.5
    assert score("Nuggets(words+weighted)", Says(""), row).value == pytest.approx((1 + 1 / 6) / 1.5)
