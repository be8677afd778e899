"""Measures are values: their text parses back, and a wrong text is explained."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from ragwright.core import MeasureError, Row
from ragwright.measure import Measure, definitions, parse_measure, parse_measures


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


def test_pieces_of_a_measure() -> None:
    measure = parse_measure("Recall(rel=2)@100")
    assert (measure.name, measure.parameter, measure.cutoff) == ("Recall", "rel=2", 100)
    assert Measure("nDCG", cutoff=10) == parse_measure("nDCG@10")


def test_one_measure_has_one_text() -> None:
    assert str(parse_measure("Recall(rel=1)@5")) == "Recall@5"
    assert str(parse_measure("Recall( rel = 02 )@05")) == "Recall(rel=2)@5"


def test_several_measures_from_a_text_or_a_list() -> None:
    both = (parse_measure("nDCG@10"), parse_measure("Recall@100"))
    assert parse_measures("nDCG@10, Recall@100") == both
    assert parse_measures(["nDCG@10", both[1]]) == both


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
        ("zzz", "known:"),
        ("nDCG@ten", "nDCG@10"),
        ("nDCG@-1", "nDCG@10"),
        ("", "nDCG@10"),
    ],
)
def test_a_wrong_text_names_the_way_out(text: str, named: str) -> None:
    with pytest.raises(MeasureError) as caught:
        parse_measure(text)
    assert named in str(caught.value)


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


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("RR", "MRR"), ("RR@10", "MRR@10"), ("recip_rank", "MRR"), ("ROUGE-L", "ROUGE(L)"),
        ("rouge1", "ROUGE(1)"), ("ndcg_cut_10", "nDCG@10"), ("ndcg@10", "nDCG@10"),
        ("map_cut_100", "MAP@100"), ("P_5", "Precision@5"), ("R@100", "Recall@100"),
        ("success_1", "HitRate@1"), ("recall_100", "Recall@100"), ("faithfulness", "Claims"),
        ("Faithfulness", "Faithfulness"), ("AP", "MAP"), ("f1", "TokenF1"),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_read(text: str, ours: str) -> None:
    assert str(parse_measure(text)) == ours
