"""Claims, needed pieces, questions and Q2: held to cases by hand, replies read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from measure_fakes import ROW, SETUP, Says, WordEmbed, judged, shown

from ragwright.flow import Chat, Embed, Runner
from ragwright.measure import parse_measure, score_row

CLAIMS = ("The mill was built in 1790.", "Anna Roth built the mill.", "Roth was a miller.")
LISTED = json.dumps({"claims": CLAIMS})


def verdicts(*held: bool) -> str:
    entries = [
        {"claim": n, "reasoning": f"reason {n}", "supported": h} for n, h in enumerate(held, 1)
    ]
    return json.dumps({"verdicts": entries})


def test_supported_claims_over_all_claims() -> None:
    says = Says(LISTED, verdicts(True, True, False))
    found = judged("Claims", says)
    assert found.value == pytest.approx(2 / 3)
    assert found.detail.splitlines() == [
        "+ The mill was built in 1790. (reason 1)",
        "+ Anna Roth built the mill. (reason 2)",
        "- Roth was a miller. (reason 3)",
    ]
    listing, checking = (list(shown(request)) for request in says.seen)
    assert listing == ["question", "answer"]
    assert checking == ["question", "passage 1", "passage 2", "claim 1", "claim 2", "claim 3"]
    nothing = judged("Claims", Says('{"claims": []}'))
    assert (nothing.state, nothing.value) == ("not_applicable", None)

    def by(request: Chat) -> str:
        if "claim 1" not in shown(request):
            return json.dumps({"claims": CLAIMS[: 1 + request.sample]})
        return verdicts(*(n == 0 for n in range(1 + request.sample)))

    repeated = judged("Claims", Says(by=by), replace(SETUP, repeat=2))
    assert repeated.parts == {"sample 1": 1.0, "sample 2": 0.5}
    assert repeated.value == 0.75


def test_completeness_checks_the_claims_of_the_reference_against_the_response() -> None:
    says = Says(json.dumps({"claims": CLAIMS[:2]}), verdicts(True, False))
    assert judged("Completeness", says).value == 0.5
    listing, checking = says.seen
    assert shown(listing)["answer"] == ROW.reference
    assert shown(checking)["passage 1"] == ROW.response
    assert list(shown(checking)) == ["question", "passage 1", "claim 1", "claim 2"]
    without = judged("Completeness", says, reference="")
    assert (without.state, without.no_gold) == ("not_applicable", True)
    assert judged("Completeness", Says('{"claims": []}')).reason == "the reference makes no claims"


PIECES = [
    {"piece": "the year", "reasoning": "Passage 1.", "held": True},
    {"piece": "the builder", "reasoning": "Nobody named.", "held": False},
]
NEEDED = json.dumps({"needed": PIECES})


def test_recall_is_the_share_of_needed_pieces_that_are_held() -> None:
    found = judged("JudgedRecall", Says(NEEDED))
    assert found.value == 0.5
    assert found.detail == "+ the year (Passage 1.)\n- the builder (Nobody named.)"


def test_similarity_is_the_mean_cosine_of_the_written_questions() -> None:
    says = Says(json.dumps({"questions": ["when was it built", "when was it", "who knows"]}))
    found = judged("QuestionSimilarity", says, user_input="when was it built")
    assert found.value == pytest.approx((1 + 3 / math.sqrt(12) + 0) / 3)
    assert found.detail.startswith("1.000 when was it built\n0.866 ")
    # the judge must not see the question it is to guess
    assert list(shown(says.seen[0])) == ["passage 1", "passage 2", "answer"]
    assert "when was it built" not in str(says.seen[0].messages)
    assert judged("QuestionSimilarity", says, retrieved_contexts=()).state == "scored"
    assert list(shown(says.seen[1])) == ["answer"]
    found = judged("QuestionSimilarity", says, replace(SETUP, embedder=""))
    assert (found.state, "embedder" in found.reason) == ("not_applicable", True)


SPANS = [
    {"span": "1790", "question": "When was the mill built?"},
    {"span": "Anna Roth", "question": "Who had the mill built?"},
    {"span": "the Danube", "question": "On which river does it stand?"},
    {"span": "oak beams", "question": "Of what is it made?"},
    {"span": "red roof tiles", "question": "What was delivered?"},
]
RESPONSE = "In 1790 Anna Roth built it of oak beams at the Danube and had red roof tiles brought."
KNOWN = ("1790.", "a widow called Roth", "the Rhine", "", "roof tiles")
ANSWERS = {span["question"]: answer for span, answer in zip(SPANS, KNOWN, strict=True)}
RELATIONS = {"Anna Roth": "entailed", "the Danube": "contradicted", "red roof tiles": "neither"}
FIRST = {"Claims": LISTED, "Q2": json.dumps({"spans": SPANS})}


def step(request: Chat) -> str:
    texts = shown(request)
    named = {"claim 1": "check", "claimed answer": "compare", "answer": "first"}
    return next((named[name] for name in named if name in texts), "answer")


def by_hand(measure: str, request: Chat) -> str:
    """A good reply to every step of a measure."""
    texts, at = shown(request), step(request)
    if at == "first":
        return FIRST[measure]
    if at == "check":
        return verdicts(True, True, True)
    if at == "compare":
        return json.dumps({"reasoning": "so", "relation": RELATIONS[texts["claimed answer"]]})
    answer = ANSWERS[texts["question"]]
    return json.dumps({"found": bool(answer), "answer": answer})


def test_q2_by_hand() -> None:
    says = Says(by=lambda request: by_hand("Q2", request))
    found = judged("Q2", says, response=RESPONSE)
    # same words 1, entailed 1, contradicted 0, no answer 0, neither: F1 of 2 of 3 words
    assert found.value == pytest.approx((1 + 1 + 0 + 0 + 0.8) / 5)
    assert len(says.seen) == 1 + 5 + 3
    lines = found.detail.splitlines()
    assert lines[0].endswith("passages: 1790. (same words)")
    assert lines[3].endswith("passages: no answer (no answer)")
    assert lines[4].startswith("0.8 What was delivered?")
    known = next(shown(r) for r in says.seen if shown(r).get("claimed answer") == "the Danube")
    assert known["known answer"] == "the Rhine"
    assert judged("Q2", Says('{"spans": []}')).state == "not_applicable"


def spans(*given: dict[str, str]) -> str:
    return json.dumps({"spans": given})


def questions(*given: object) -> str:
    return json.dumps({"questions": given})


ALL = verdicts(True, True, True)
ENTRY = {"claim": 1, "reasoning": "r", "supported": True}
PIECE = {"piece": "...", "reasoning": "...", "held": True}
DREDGED = "In which year was the harbour dredged?"
WHEN = {"span": "1790", "question": "When?"}
SAID = {
    ("Claims", "first"): "listing the claims",
    ("Claims", "check"): "checking the claims",
    ("Q2", "first"): "choosing spans",
    ("Q2", "answer"): "answering",
    ("Q2", "compare"): "comparing",
}
STRICT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Claims", "first"): (
        "1. The mill was built in 1790.",
        '{"claims": "The mill was built."}',
        '{"claims": ["a", ""]}',
        '{"claims": ["a", "a"]}',
        '{"claims": ["a"], "note": "b"}',
        '{"claims": ["Ravel Oudry was born in Lyon."]}',  # of the prompt's example
    ),
    ("Claims", "check"): (
        verdicts(True),
        verdicts(True, True, True, True),
        json.dumps({"verdicts": [ENTRY, ENTRY, ENTRY]}),
        json.dumps({"verdicts": [True, True, False]}),
        ALL.replace("true", '"yes"'),
        ALL.replace('"reason 2"', '""'),
        ALL.replace('"claim": 1', '"claim": true'),
        ALL.replace('"supported"', '"verdict"'),
        ALL.replace('"reason 2"', '"..."'),
        ALL.replace('"reason 2"', '"Passage 1 gives 1846, not 1848."'),
    ),
    ("JudgedRecall", "answer"): (
        json.dumps({"needed": [PIECE]}),
        json.dumps({"needed": [{**PIECES[0], "reasoning": "Passage 1 gives 61 metres."}]}),
        '{"needed": []}',
    ),
    ("QuestionSimilarity", "first"): (
        questions("a?", "b?"),
        questions("a?", "b?", "b?"),
        questions("a?", "b?", ""),
        '{"questions": "a? b? c?"}',
    ),
    ("Q2", "first"): (
        spans({"span": "1791", "question": "When?"}),
        *(spans({"span": "1790", "question": asked}) for asked in ("", "...", DREDGED)),
        spans({"span": "1790"}),
        spans({"question": "When?", "span": "1790"}),
        spans(WHEN, WHEN),
        spans(*({"span": "1790", "question": f"{n}?"} for n in range(6))),
    ),
    ("Q2", "answer"): (
        '{"found": true, "answer": ""}',
        '{"found": false, "answer": "1790"}',
        '{"found": "yes", "answer": "1790"}',
        '{"found": true, "answer": "..."}',
    ),
    ("Q2", "compare"): (
        *(f'{{"reasoning": "so", "relation": {r}}}' for r in ('"yes"', '"Entailed"', '""')),
        '{"reasoning": "so", "relation": ["entailed"]}',
        '{"reasoning": "...", "relation": "entailed"}',
    ),
}
DECLINED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Claims", "first"): ('{"claims": null}',),
    ("Claims", "check"): ('{"verdicts": null}', ALL.replace("true", "null")),
    ("JudgedRecall", "answer"): ('{"needed": null}', NEEDED.replace("true", "null")),
    ("QuestionSimilarity", "first"): ('{"questions": null}',),
    ("Q2", "first"): ('{"spans": null}',),
    ("Q2", "answer"): ('{"found": null, "answer": ""}',),
    ("Q2", "compare"): ('{"reasoning": "no", "relation": null}',),
}
REPLIES = [
    (measure, at, reply, table is DECLINED)
    for table in (STRICT, DECLINED)
    for (measure, at), replies in table.items()
    for reply in replies
]


@pytest.mark.parametrize(("measure", "at", "reply", "declined"), REPLIES)
def test_each_step_is_read_strictly_asked_twice_and_a_judge_that_declines_once(
    measure: str, at: str, reply: str, declined: bool
) -> None:
    says = Says(by=lambda r: reply if step(r) == at else by_hand(measure, r))
    found = judged(measure, says, response=RESPONSE)
    assert (found.state, found.value) == ("judge_invalid", None)
    assert found.reason.startswith(SAID.get((measure, at), ""))
    turns = {len(request.messages) for request in says.seen if step(request) == at}
    assert turns == ({2} if declined else {2, 4})
    assert ("declined" in found.reason) == declined


def claims_by(lists: Mapping[str, list[str]], *held: str) -> Says:
    """A judge that lists the claims of an answer, and holds those that are named."""

    def by(request: Chat) -> str:
        texts = shown(request)
        if step(request) == "first":
            return json.dumps({"claims": lists[texts["answer"]]})
        return verdicts(*(text in held for name, text in texts.items() if name[:6] == "claim "))

    return Says(by=by)


def test_context_recall_of_ragas_counts_the_claims_of_the_reference() -> None:
    says = claims_by({"the gold": ["a1", "a2", "a3", "a4"]}, "a1", "a2", "a3")
    found = judged("context_recall", says, reference="the gold", response="something else")
    assert found.value == 0.75
    assert judged("context_recall", says, reference="").no_gold


def test_forecasts() -> None:
    due = {"Claims": (2, 4), "QuestionSimilarity": (1, 2), "Q2": (11, 22)}
    with Runner({Chat: Says("never"), Embed: WordEmbed()}) as runner:
        for text, calls in due.items():
            flow = [lambda text=text: score_row(ROW, [parse_measure(text)], SETUP)]
            cost = runner.forecast(flow)
            assert (cost.calls.low, cost.calls.high, cost.uncertain) == (*calls, 0)
