"""Question similarity and Q2, held to cases computed by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from judge_fakes import ROW, SETUP, Said, Says, run, shown
from measure_fakes import WordEmbed

from ragwright.core import Score
from ragwright.flow import Chat, Embed, Runner
from ragwright.measure import MeasureSetup, parse_measure, score_row


def score(measure: str, says: Says, setup: MeasureSetup = SETUP, **row: object) -> Score:
    (found,) = run(
        score_row(replace(ROW, **row), [parse_measure(measure)], setup),  # type: ignore[arg-type]
        says,
    )
    return found


def test_similarity_is_the_mean_cosine_of_the_written_questions() -> None:
    says = Says(json.dumps({"questions": ["when was it built", "when was it", "who knows"]}))
    found = score("QuestionSimilarity", says, user_input="when was it built")
    assert found.value == pytest.approx((1 + 3 / math.sqrt(12) + 0) / 3)
    assert found.detail.startswith("1.000 when was it built\n0.866 ")
    # the judge must not see the question it is to guess
    assert list(shown(says.seen[0])) == ["passage 1", "passage 2", "answer"]
    assert "when was it built" not in str(says.seen[0].messages)


def test_similarity_without_passages_or_embedder() -> None:
    says = Says(json.dumps({"questions": ["When?", "Who?", "Where?"]}))
    assert score("QuestionSimilarity", says, SETUP, retrieved_contexts=()).state == "scored"
    assert list(shown(says.seen[0])) == ["answer"]
    found = score("QuestionSimilarity", says, replace(SETUP, embedder=""))
    assert (found.state, "embedder" in found.reason) == ("not_applicable", True)


@pytest.mark.parametrize(
    "questions", [["a?", "b?"], ["a?", "b?", "b?"], ["a?", "b?", ""], "a? b? c?", ["a?", "b?", 3]]
)
def test_written_questions_are_read_strictly(questions: object) -> None:
    found = score("QuestionSimilarity", Says(json.dumps({"questions": questions})))
    assert found.state == "judge_invalid"


SPANS = [
    {"span": "1790", "question": "When was the mill built?"},
    {"span": "Anna Roth", "question": "Who had the mill built?"},
    {"span": "the Danube", "question": "On which river does it stand?"},
    {"span": "oak beams", "question": "Of what is it made?"},
    {"span": "red roof tiles", "question": "What was delivered?"},
]
RESPONSE = "In 1790 Anna Roth built it of oak beams at the Danube and had red roof tiles brought."
ANSWERS = {
    "When was the mill built?": "1790.",
    "Who had the mill built?": "a widow called Roth",
    "On which river does it stand?": "the Rhine",
    "Of what is it made?": "",
    "What was delivered?": "roof tiles",
}
RELATIONS = {"Anna Roth": "entailed", "the Danube": "contradicted", "red roof tiles": "neither"}


def by_hand(request: Chat) -> Said:
    texts = shown(request)
    if "claimed answer" in texts:
        return json.dumps({"reasoning": "so", "relation": RELATIONS[texts["claimed answer"]]})
    if "question" in texts:
        answer = ANSWERS[texts["question"]]
        return json.dumps({"found": bool(answer), "answer": answer})
    return json.dumps({"spans": SPANS})


def test_q2_by_hand() -> None:
    says = Says(by=by_hand)
    found = score("Q2", says, response=RESPONSE)
    # same words 1, entailed 1, contradicted 0, no answer 0, neither: F1 of 2 of 3 words
    assert found.value == pytest.approx((1 + 1 + 0 + 0 + 0.8) / 5)
    assert len(says.seen) == 1 + 5 + 3
    lines = found.detail.splitlines()
    assert lines[0].endswith("passages: 1790. (same words)")
    assert lines[3].endswith("passages: no answer (no answer)")
    assert lines[4].startswith("0.8 What was delivered?")
    known = next(shown(r) for r in says.seen if shown(r).get("claimed answer") == "the Danube")
    assert known["known answer"] == "the Rhine"


def test_q2_without_spans_is_not_applicable() -> None:
    assert score("Q2", Says('{"spans": []}')).state == "not_applicable"


@pytest.mark.parametrize(
    "spans",
    [
        [{"span": "1791", "question": "When?"}],
        [{"span": "1790", "question": ""}],
        [{"span": "1790", "question": "..."}],
        [{"span": "1790", "question": "In which year was the harbour dredged?"}],
        [{"span": "1790"}],
        [{"question": "When?", "span": "1790"}],
        [{"span": "1790", "question": "When?"}] * 2,
        [{"span": "1790", "question": f"{n}?"} for n in range(6)],
        "1790",
    ],
)
def test_spans_are_read_strictly(spans: object) -> None:
    found = score("Q2", Says(json.dumps({"spans": spans})))
    assert found.state == "judge_invalid"
    assert found.reason.startswith("choosing spans")


@pytest.mark.parametrize(
    "reply",
    [
        '{"found": true, "answer": ""}',
        '{"found": false, "answer": "1790"}',
        '{"found": "yes", "answer": "1790"}',
        '{"answer": "1790"}',
        "1790",
        '{"found": true, "answer": "..."}',
    ],
)
def test_answers_are_read_strictly(reply: str) -> None:
    def by(request: Chat) -> Said:
        return reply if "question" in shown(request) else json.dumps({"spans": SPANS[:1]})

    found = score("Q2", Says(by=by))
    assert found.state == "judge_invalid"
    assert found.reason.startswith("answering")


@pytest.mark.parametrize("relation", ["yes", "Entailed", "", None, ["entailed"]])
def test_relations_are_read_strictly(relation: object) -> None:
    def by(request: Chat) -> Said:
        if "claimed answer" in shown(request):
            return json.dumps({"reasoning": "so", "relation": relation})
        return by_hand(request)

    found = score("Q2", Says(by=by), response=RESPONSE)
    assert found.state == "judge_invalid"
    assert found.reason.startswith("comparing")


def test_dots_are_no_reasoning_over_a_relation() -> None:
    def by(request: Chat) -> Said:
        if "claimed answer" in shown(request):
            return '{"reasoning": "...", "relation": "entailed"}'
        return by_hand(request)

    assert score("Q2", Says(by=by), response=RESPONSE).state == "judge_invalid"


@pytest.mark.parametrize(
    ("measure", "name", "reply"),
    [
        ("QuestionSimilarity", "answer", '{"questions": null}'),
        ("Q2", "answer", '{"spans": null}'),
        ("Q2", "question", '{"found": null, "answer": ""}'),
        ("Q2", "claimed answer", '{"reasoning": "no", "relation": null}'),
    ],
)
def test_a_judge_that_declines_is_not_asked_again(measure: str, name: str, reply: str) -> None:
    asked: list[Chat] = []

    def by(request: Chat) -> Said:
        texts = shown(request)
        if name in texts and not (name == "question" and "claimed answer" in texts):
            asked.append(request)
            assert len(request.messages) == 2
            return reply
        return by_hand(request)

    found = score(measure, Says(by=by), response=RESPONSE)
    assert (found.state, bool(asked)) == ("judge_invalid", True)
    assert "declined" in found.reason


def test_forecasts() -> None:
    with Runner({Chat: Says("never"), Embed: WordEmbed()}) as runner:
        similar = runner.forecast(
            [lambda: score_row(ROW, [parse_measure("QuestionSimilarity")], SETUP)]
        )
        q2 = runner.forecast([lambda: score_row(ROW, [parse_measure("Q2")], SETUP)])
    assert (similar.calls.low, similar.calls.high, similar.uncertain) == (1, 2, 0)
    assert (q2.calls.low, q2.calls.high, q2.uncertain) == (11, 22, 0)
