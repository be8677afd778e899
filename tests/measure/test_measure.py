"""Measures are values: their text parses back, names of other tools too, a wrong one is explained.

A name of ragas means the measure of the same definition, or an error names the nearest one.
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from ragwright.core import MeasureError, Row, Score
from ragwright.experiment import RowResult, evaluation_of
from ragwright.measure import Measure, definitions, parse_measure, parse_measures, parse_rule
from ragwright.report import summary_table


@st.composite
def texts(draw: st.DrawFn) -> str:
    definition = draw(st.sampled_from(definitions()))
    text = definition.name
    bracketed = draw(st.booleans()) or not definition.default
    if definition.parameters and bracketed:
        form = draw(st.sampled_from(definition.parameters))
        text += f"({form.replace('N', str(draw(st.integers(1, 9))))})"
    cutoffs = {"required": [True], "optional": [True, False], "none": [False]}
    if draw(st.sampled_from(cutoffs[definition.cutoff])):
        text += f"@{draw(st.integers(1, 1000))}"
    return text


@given(texts())
def test_text_parses_back(text: str) -> None:
    measure = parse_measure(text)
    assert parse_measure(str(measure)) == measure
    assert repr(measure) == str(measure)
    assert hash(parse_measure(f"  {text} ")) == hash(measure)
    assert pickle.loads(pickle.dumps(measure)) == measure


BOTH = "Recall(rel=2,norel=skip)@5"
GROUNDING = "KPrecision(content+bigrams)"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("RR", "MRR"), ("RR@10", "MRR@10"), ("recip_rank", "MRR"), ("ndcg@10", "nDCG@10"),
        ("ROUGE-L", "ROUGE(L)"), ("rouge1", "ROUGE(1)"),
        ("P@5", "Precision@5"), ("R@100", "Recall@100"),
        ("success@1", "HitRate@1"), ("recall@100", "Recall@100"), ("faithfulness", "Claims"),
        ("Faithfulness", "Faithfulness"), ("AP", "MAP"), ("f1", "TokenF1"),
        # ragas
        ("answer_relevancy", "QuestionSimilarity"), ("ResponseRelevancy", "QuestionSimilarity"),
        ("context_recall", "JudgedRecall(reference)"),
        ("context_precision", "JudgedAveragePrecision"),
        ("context_precision@3", "JudgedAveragePrecision@3"),
        # parameters have one spelling
        ("Recall(rel=1)@5", "Recall@5"), ("Recall( rel = 02 )@05", "Recall(rel=2)@5"),
        ("Recall(rel=1, norel=0)@5", "Recall@5"), (BOTH, BOTH),
        ("Recall(rel=1,norel=skip)@5", "Recall(norel=skip)@5"),
        (" KPrecision( content + bigrams ) ", GROUNDING),
        ("Rubric( house-style02 )", "Rubric(house-style02)"),
    ],
)  # fmt: skip
def test_a_measure_has_one_text_and_names_of_other_tools_are_read(text: str, ours: str) -> None:
    assert str(parse_measure(text)) == ours


def test_pieces_of_a_measure_and_several_from_a_text_or_a_list() -> None:
    measure = parse_measure("Recall(rel=2)@100")
    assert (measure.name, measure.parameter, measure.cutoff) == ("Recall", "rel=2", 100)
    assert Measure("nDCG", cutoff=10) == parse_measure("nDCG@10")
    both = (parse_measure("nDCG@10"), parse_measure("Recall@100"))
    assert parse_measures("nDCG@10, Recall@100") == both
    assert parse_measures(["nDCG@10", both[1]]) == both
    assert [str(m) for m in parse_measures(f"{BOTH}, {GROUNDING}, nDCG(norel=skip)")] == [
        *(BOTH, GROUNDING, "nDCG(norel=skip)")
    ]
    assert str(parse_rule(f"{GROUNDING}>=baseline-0.02").measure) == GROUNDING
    shown = evaluation_of(
        [RowResult("1", (), (Score("Claims", "scored", 1.0),))], parse_measures("faithfulness")
    )
    assert "Claims (0-1; faithfulness in ragas)" in summary_table(shown.summaries)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nDGC@10", "nDCG"),
        ("Recal@5", "Recall"),
        ("Recall", "Recall[(rel=N|norel=skip|rel=N,norel=skip)]@k"),
        ("Recall@0", "k from 1"),
        ("nDCG(exp)@10", "nDCG[(norel=skip)][@k]"),
        ("Recall(level=2)@10", "rel=N"),
        ("Recall(rel=0)@10", "rel=N"),
        ("ROUGE(1,best)", "unknown parameter"),
        ("zzz", "ragwright measures"),
        ("nDCG@ten", "nDCG@10"),
        ("nDCG@-1", "nDCG@10"),
        ("", "nDCG@10"),
        *(
            (text, "")
            for text in ("Rubric", "Rubric()", "Rubric(a b)", "Rubric(../x)", "Rubric(1)")
        ),
    ],
)
def test_a_wrong_text_names_the_way_out(text: str, named: str) -> None:
    with pytest.raises(MeasureError) as caught:
        parse_measure(text)
    assert named in str(caught.value)
    assert "ragas" not in named or (caught.value.hint or "").startswith("near: ")


@pytest.mark.parametrize("texts", ["", "nDCG@10, nDCG@10", "nDCG@10,,", []])
def test_lists_without_sense_are_refused(texts: str | list[str]) -> None:
    with pytest.raises(MeasureError):
        parse_measures(texts)


def test_every_measure_declares_what_it_is() -> None:
    for definition in definitions():
        assert definition.summary.endswith(".")
        assert definition.source
        assert definition.high is None or definition.low < definition.high
        assert set(definition.needs) <= set(Row.__dataclass_fields__)
    names = [d.name.lower() for d in definitions()]
    assert names == sorted(set(names))
