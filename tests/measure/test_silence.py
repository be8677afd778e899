"""An empty answer is an answer: no system gains by it without its showing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from judge_fakes import ROW, SETUP, Says, run as judged, verdict
from measure_fakes import Equal, Told, WordEmbed, run

from ragwright.core import Row
from ragwright.flow import CompleteReply
from ragwright.measure import (
    Measure,
    MeasureSetup,
    aggregate,
    definitions,
    parse_measure,
    score_row,
    score_rows,
)

OFFLINE = [
    Measure(definition.name, form.replace("N", "2"))
    for definition in definitions()
    if definition.model == "none" and "response" in definition.needs
    for form in definition.parameters or ("",)
    if form != "squad"  # where the reference is nothing but articles, SQuAD's rule wants silence
]
WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "...", "é", "1668"]), max_size=5)
TEXTS = WORDS.map(" ".join)
NOT_ASKED = "not_applicable"


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=2, max_size=4),
    st.sampled_from(OFFLINE),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_silence_never_raises_a_mean_unseen(
    texts: list[tuple[str, str, str]], measure: Measure, silent: set[int]
) -> None:
    rows = [
        Row(str(at), "?", said, gold, (known,), metadata={"answerable": False, "falsified": True})
        for at, (said, gold, known) in enumerate(texts)
    ]
    mute = [replace(row, response="") if at in silent else row for at, row in enumerate(rows)]
    before, after = (
        aggregate([scores[0] for scores in score_rows(each, [measure])]) for each in (rows, mute)
    )
    if before.mean is None or after.mean is None:
        assert after.n <= before.n
        return
    sign = 1 if measure.definition.higher_is_better else -1
    gained = sign * (after.mean - before.mean) > 1e-9
    if gained:
        assert after.n < before.n
        assert after.coverage < before.coverage
        assert after.worst is not None
        assert sign * after.worst <= sign * before.mean + 1e-9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ExactMatch", 0.0),
        ("TokenF1", 0.0),
        ("Contains", 0.0),
        ("EditDistance", 1.0),
        ("BLEU(4)", 0.0),
        ("ROUGE(L)", 0.0),
        ("ROUGE(2)", 0.0),
        ("KF1", 0.0),
        ("KPrecision", None),
        ("BERTScore", 0.0),
        ("MoverScore", -1.0),
        ("QADistance", None),
        ("Perplexity", None),
    ],
)
@pytest.mark.parametrize("response", ["", " \n"])
def test_what_an_empty_answer_scores(text: str, value: float | None, response: str) -> None:
    row = Row("r", "who", response, "Ada wrote it", ("Ada wrote it.",))
    setup = MeasureSetup(embedder="e", token_model="folder", completer="c")
    (score,) = run(
        score_row(row, [parse_measure(text)], setup), WordEmbed(), Equal(), Told(CompleteReply(""))
    )
    assert score.value == value
    assert value is not None or (score.state, score.no_gold) == (NOT_ASKED, False)
    (missing,) = run(score_row(replace(row, response=None), [parse_measure(text)], setup))
    assert missing.reason == "the row has no response"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("AnswerRelevance", 1.0),
        ("Pairwise", 1.0),
        ("Rubric(AnswersQuestion)", 0.0),
        ("Faithfulness", None),
        ("Groundedness", None),
        ("Comprehensive", None),
        ("Claims", None),
        ("Completeness", 0.0),
        ("Q2", None),
        ("QuestionSimilarity", None),
    ],
)
def test_no_judge_is_asked_about_an_empty_answer(text: str, value: float | None) -> None:
    says = Says(verdict(5))
    (score,) = judged(score_row(replace(ROW, response=" "), [parse_measure(text)], SETUP), says)
    assert score.value == value
    if value is None:
        assert (score.state, score.no_gold) == (NOT_ASKED, False)
        assert "the response is empty" in score.reason
    else:
        assert score.detail.startswith("the response is empty")
    if text != "Comprehensive":  # which asks about the passages all the same
        assert not says.seen
    withheld = replace(ROW, response="", metadata={"abstained": True})
    (score,) = judged(score_row(withheld, [parse_measure(text)], SETUP), says)
    assert score.state == "abstained"
