"""No reply scores by accident: a table of replies as judges send them, and random ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ragwright.measure import JudgeDeclinedError, read_object, read_verdict

LINES = Path(__file__).with_name("judge_replies.jsonl").read_text("utf-8").splitlines()
TABLE = [json.loads(line) for line in LINES]
LIKERT = (1, 5)


def score_of(text: str, scale: tuple[int, int], finish: str = "") -> float | None:
    """The score of a reply; None if it is refused."""
    try:
        found = read_verdict(text, scale, finish)
    except ValueError:
        return None
    assert found.reasoning
    found.reasoning.encode("utf-8")
    return found.score


def test_replies_of_the_table_are_read_as_it_says() -> None:
    for case in TABLE:
        low, high = case.get("scale", LIKERT)
        asked = case["text"], (low, high), case.get("finish", "stop")
        assert score_of(*asked) == case["score"], case
        if case.get("declined"):
            with pytest.raises(JudgeDeclinedError):
                read_verdict(*asked)
    assert len(TABLE) >= 120
    assert max(Counter(case["kind"] for case in TABLE).values()) == 1
    assert sum(case["score"] is None for case in TABLE) >= 100


@given(st.integers(-3, 12), st.integers(0, 3), st.integers(1, 8))
def test_every_point_of_a_scale_scores_and_no_other(score: int, low: int, width: int) -> None:
    due = score if low <= score <= low + width else None
    text = json.dumps({"reasoning": "because", "score": score})
    assert score_of(text, (low, low + width)) == due


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 1}', "twice"),
        ('{"b": 1, "a": 1}', '"a" and then "b"'),
        ("[]", "not an object"),
        ("nothing", "not one JSON object"),
    ],
)
def test_an_object_has_its_keys_in_order_and_nothing_else(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_object(text, ("a", "b"))
    assert read_object('{"a": 1, "b": [2]}', ("a", "b")) == {"a": 1, "b": [2]}
