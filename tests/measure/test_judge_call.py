"""No reply scores by accident: a table of replies as judges send them, and random ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ragwright.measure import ReplyForm, read_object, read_verdict

LINES = Path(__file__).with_name("judge_replies.jsonl").read_text("utf-8").splitlines()
TABLE = [json.loads(line) for line in LINES]
LIKERT = (1, 5)


def test_replies_of_the_table_are_read_as_it_says() -> None:
    for case in TABLE:
        low, high = case.get("scale", LIKERT)
        found = read_verdict(case["text"], (low, high), case["form"], case.get("finish", "stop"))
        assert found.score == case["score"], case
        assert found.declined == case.get("declined", False), case
        assert bool(found.fault) == (found.score is None), case
        assert bool(found.reasoning) == (found.score is not None), case
        assert len(found.fault) < 300
        found.reasoning.encode("utf-8")
    assert len(TABLE) >= 300
    assert max(Counter((case["form"], case["kind"]) for case in TABLE).values()) == 1
    assert sum(case["score"] is None for case in TABLE) >= 200
    assert sum(case["score"] is not None for case in TABLE) >= 50


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "\n", " ", ":", "FINAL SCORE", "FINAL SCORE:", "final score", "4", "5", "4/5", ".",
                "**", "`", "{", "}", '"reasoning"', '"score"', ": ", ", ", '"x"', "```json", "```",
                "<think>", "</think>", "：", "four", "-", "\u2028", "４",
            ]
        ),
        st.text(max_size=6),
    ),
    max_size=14,
).map("".join)  # fmt: skip
EXACT = re.compile(
    r"[*_`]{0,3}final score:[*_`]{0,3}[ \t]*[*_`]{0,3}[1-5]\.?[*_`]{0,3}\.?", re.I | re.A
)


@pytest.mark.slow
@given(PIECES)
def test_random_text_never_scores_without_the_exact_form(text: str) -> None:
    found = read_verdict(text, LIKERT, "text")
    if found.score is not None:
        after = text.rpartition("</think>")[2]
        lines = [line.strip() for line in after.splitlines() if line.strip()]
        assert EXACT.fullmatch(lines[-1])
        assert str(found.score) in lines[-1]
        assert len(re.findall(r"final\s+score:\s*\d", after, re.I)) == 1
    found = read_verdict(text, LIKERT, "json")
    if found.score is not None:
        read = json.loads(text[text.rindex("{") : text.rindex("}") + 1])
        assert read == {"reasoning": read["reasoning"], "score": found.score}


@given(st.integers(-3, 12), st.integers(0, 3), st.integers(1, 8))
def test_every_point_of_a_scale_scores_and_no_other(score: int, low: int, width: int) -> None:
    due = score if low <= score <= low + width else None
    texts: dict[ReplyForm, str] = {
        "json": json.dumps({"reasoning": "because", "score": score}),
        "text": f"because\nFINAL SCORE: {score}",
    }
    for form, text in texts.items():
        assert read_verdict(text, (low, low + width), form).score == due


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
