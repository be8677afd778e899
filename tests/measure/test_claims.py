"""Claims and needed pieces: strict lists, shares, and the judge's words kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from judge_fakes import ROW, SETUP, Said, Says, run, shown

from ragwright.core import Score
from ragwright.flow import Chat, Runner
from ragwright.measure import MeasureSetup, parse_measure, score_row

CLAIMS = ("The mill was built in 1790.", "Anna Roth built the mill.", "Roth was a miller.")


def verdicts(*held: bool) -> str:
    entries = [
        {"claim": n, "reasoning": f"reason {n}", "supported": h} for n, h in enumerate(held, 1)
    ]
    return json.dumps({"verdicts": entries})


def score(measure: str, says: Says, setup: MeasureSetup = SETUP, **row: object) -> Score:
    (found,) = run(
        score_row(replace(ROW, **row), [parse_measure(measure)], setup),  # type: ignore[arg-type]
        says,
    )
    return found


def test_supported_claims_over_all_claims() -> None:
    says = Says(json.dumps({"claims": CLAIMS}), verdicts(True, True, False))
    found = score("Claims", says)
    assert found.value == pytest.approx(2 / 3)
    assert found.detail.splitlines() == [
        "+ The mill was built in 1790. (reason 1)",
        "+ Anna Roth built the mill. (reason 2)",
        "- Roth was a miller. (reason 3)",
    ]
    listing, checking = says.seen
    assert list(shown(listing)) == ["question", "answer"]
    assert list(shown(checking)) == [
        "question", "passage 1", "passage 2", "claim 1", "claim 2", "claim 3",
    ]  # fmt: skip


def test_completeness_checks_the_claims_of_the_reference_against_the_response() -> None:
    says = Says(json.dumps({"claims": CLAIMS[:2]}), verdicts(True, False))
    found = score("Completeness", says)
    assert found.value == 0.5
    listing, checking = says.seen
    assert shown(listing)["answer"] == ROW.reference
    assert shown(checking)["passage 1"] == ROW.response
    assert list(shown(checking)) == ["question", "passage 1", "claim 1", "claim 2"]
    without = score("Completeness", says, reference="")
    assert (without.state, without.no_gold) == ("not_applicable", True)
    nothing = score("Completeness", Says('{"claims": []}'))
    assert nothing.reason == "the reference makes no claims"


def test_a_response_that_claims_nothing_is_not_applicable() -> None:
    found = score("Claims", Says('{"claims": []}'))
    assert (found.state, found.value) == ("not_applicable", None)


@pytest.mark.parametrize(
    "listing",
    [
        "1. The mill was built in 1790.",
        '{"claims": "The mill was built."}',
        '{"claims": ["a", ""]}',
        '{"claims": ["a", 3]}',
        '{"claims": ["a", "a"]}',
        '{"statements": ["a"]}',
        '{"claims": ["a"], "note": "b"}',
        '["a"]',
        '{"claims": ["...", "…"]}',
        '{"claims": ["Ravel Oudry was born in Lyon."]}',
    ],
)
def test_a_list_of_claims_is_read_strictly(listing: str) -> None:
    says = Says(listing)
    found = score("Claims", says)
    assert (found.state, len(says.seen)) == ("judge_invalid", 2)
    assert found.reason.startswith("listing the claims")


ENTRY = {"claim": 1, "reasoning": "r", "supported": True}


@pytest.mark.parametrize(
    "reply",
    [
        verdicts(True),
        verdicts(True, True, True, True),
        json.dumps({"verdicts": [ENTRY, ENTRY, ENTRY]}),
        json.dumps({"verdicts": [True, True, False]}),
        verdicts(True, True, True).replace("true", '"yes"'),
        verdicts(True, True, True).replace("true", "1"),
        verdicts(True, True, True).replace('"reason 2"', '""'),
        verdicts(True, True, True).replace('"claim": 1', '"claim": true'),
        verdicts(True, True, True).replace('"claim": 1', '"claim": 1.0'),
        verdicts(True, True, True).replace('"supported"', '"verdict"'),
        "yes, yes, no",
        verdicts(True, True, True).replace('"reason 2"', '"..."'),
        verdicts(True, True, True).replace('"reason 2"', '"Passage 1 gives 1846, not 1848."'),
    ],
)
def test_verdicts_are_read_strictly(reply: str) -> None:
    found = score("Claims", Says(json.dumps({"claims": CLAIMS}), reply))
    assert found.state == "judge_invalid"
    assert found.reason.startswith("checking the claims")


@pytest.mark.parametrize(
    ("measure", "replies"),
    [
        ("Claims", ['{"claims": null}']),
        ("Claims", [json.dumps({"claims": CLAIMS}), '{"verdicts": null}']),
        ("Claims", ['{"claims": ["a"]}', verdicts(True).replace("true", "null")]),
        ("JudgedRecall", ['{"needed": null}']),
    ],
)
def test_a_judge_that_declines_is_not_asked_again(measure: str, replies: list[str]) -> None:
    says = Says(*replies)
    found = score(measure, says)
    assert (found.state, len(says.seen)) == ("judge_invalid", len(replies))
    assert "declined" in found.reason


def test_the_forms_and_examples_of_the_prompts_are_no_pieces() -> None:
    template = {"piece": "...", "reasoning": "...", "held": True}
    for entry in (
        template,
        {**template, "piece": "the age of the mill"},
        {"piece": "the height", "reasoning": "Passage 1 gives 61 metres.", "held": True},
    ):
        found = score("JudgedRecall", Says(json.dumps({"needed": [entry]})))
        assert found.state == "judge_invalid"


def test_recall_is_the_share_of_needed_pieces_that_are_held() -> None:
    def reply(change: Callable[[str], str] = str) -> str:
        return change(
            json.dumps(
                {
                    "needed": [
                        {"piece": "the year", "reasoning": "Passage 1.", "held": True},
                        {"piece": "the builder", "reasoning": "Nobody named.", "held": False},
                    ]
                }
            )
        )

    found = score("JudgedRecall", Says(reply()))
    assert found.value == 0.5
    assert found.detail == "+ the year (Passage 1.)\n- the builder (Nobody named.)"
    for wrong in ('{"needed": []}', reply(lambda t: t.replace("true", "null")), "all of it"):
        assert score("JudgedRecall", Says(wrong)).state == "judge_invalid"


def test_repeats_of_claims_are_whole_judgments() -> None:
    def by(request: Chat) -> Said:
        if "claim 1" not in shown(request):
            return json.dumps({"claims": CLAIMS[: 1 + request.sample]})
        return verdicts(*(n == 0 for n in range(1 + request.sample)))

    found = score("Claims", Says(by=by), replace(SETUP, repeat=2))
    assert found.parts == {"sample 1": 1.0, "sample 2": 0.5}
    assert found.value == 0.75


def test_forecast_of_claims() -> None:
    with Runner({Chat: Says("never")}) as runner:
        cost = runner.forecast([lambda: score_row(ROW, [parse_measure("Claims")], SETUP)])
    assert (cost.calls.low, cost.calls.high, cost.uncertain) == (2, 4, 0)
