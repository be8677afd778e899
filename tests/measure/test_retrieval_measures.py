"""Retrieval measures against trec_eval's own outputs, ir_measures, and what must hold."""

from __future__ import annotations

import math
from dataclasses import replace

import ir_measures
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st

from ragwright.core import MeasureError, Row
from ragwright.experiment import score_run
from ragwright.measure import (
    definitions,
    parse_measure,
    parse_measures,
    retrieval_scores,
    score_rows,
)
from ragwright.testsets import read_run

TREC = DATA / "trec_eval_tests"


CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
THEIRS = {
    "map": "MAP",
    "recip_rank": "MRR",
    "ndcg": "nDCG",
    **{f"P_{k}": f"Precision@{k}" for k in CUTOFFS},
    **{f"recall_{k}": f"Recall@{k}" for k in CUTOFFS},
    **{f"ndcg_cut_{k}": f"nDCG@{k}" for k in CUTOFFS},
    **{f"map_cut_{k}": f"MAP@{k}" for k in CUTOFFS},
    **{f"success_{k}": f"HitRate@{k}" for k in (1, 5, 10)},
}


def trec_qrels(name: str) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in (TREC / name).read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    return qrels


def trec_rankings(name: str) -> dict[str, list[str]]:
    """Rankings by trec_eval's rule: score falling, ties by document id falling."""
    scored: dict[str, list[tuple[float, str]]] = {}
    for line in (TREC / name).read_text().splitlines():
        query, _, document, _, score, _ = line.split(maxsplit=5)
        scored.setdefault(query, []).append((float(score), document))
    return {q: [d for _, d in sorted(pairs, reverse=True)] for q, pairs in scored.items()}


def expected(name: str) -> dict[tuple[str, str], float]:
    found = {}
    for line in (TREC / name).read_text().splitlines():
        measure, query, value = line.split()
        if measure in THEIRS:
            found[query, measure] = float(value)
    return found


@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("output", "qrels", "run", "level"),
    [
        ("out.test.aq", "qrels.test", "results.test", 1),
        ("out.test.aqc", "qrels.test", "results.trunc", 1),
        ("out.test.aql", "qrels.rel_level", "results.test", 2),
    ],
)
def test_agrees_with_trec_eval_to_four_places(
    output: str, qrels: str, run: str, level: int
) -> None:
    judged, rankings, due = trec_qrels(qrels), trec_rankings(run), expected(output)
    assert len(due) > 100
    for theirs, ours in THEIRS.items():
        text = ours
        if level > 1 and not ours.startswith("nDCG"):
            name, at, cutoff = ours.partition("@")
            text = f"{name}(rel={level}){at}{cutoff}"
        values = []
        for query, grades in judged.items():
            score = retrieval_scores(parse_measure(text), rankings.get(query, []), grades)
            assert score.value is not None
            values.append(score.value)
            assert score.value == pytest.approx(due[query, theirs], abs=5.1e-5), (text, query)
        assert sum(values) / len(values) == pytest.approx(due["all", theirs], abs=5.1e-5), text


FAMILIES = {
    "P": "Precision",
    "recall": "Recall",
    "ndcg_cut": "nDCG",
    "success": "HitRate",
    "map_cut": "MAP",
}


def by_rows(qrels: str, run: str, depth: int | None = None) -> list[Row]:
    """The same judgments and rankings as rows, cut to a depth as ``-M`` does."""
    rankings = trec_rankings(run)
    return [
        Row(
            query,
            "?",
            retrieved_context_ids=tuple(rankings.get(query, ())[:depth]),
            reference_ids=grades,
        )
        for query, grades in trec_qrels(qrels).items()
    ]


@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("output", "run", "depth"),
    [("out.test.meas_params", "results.test", None), ("out.test.aqcM", "results.trunc", 100)],
)
def test_rows_give_what_trec_eval_gives(output: str, run: str, depth: int | None) -> None:
    """Other cutoffs and a cut run, through the seam that scores rows."""
    rows = by_rows("qrels.test", run, depth)
    compared = 0
    for line in (TREC / output).read_text().splitlines():
        name, query, value = line.split()
        family, _, cutoff = name.rpartition("_")
        if family not in FAMILIES or not cutoff.isdigit() or query == "all":
            continue
        (row,) = [row for row in rows if row.id == query]
        if not row.retrieved_context_ids:
            continue  # a query without an answer has no ranking: trec_eval -c counts it as 0
        ((score,),) = score_rows([row], [parse_measure(f"{FAMILIES[family]}@{cutoff}")])
        assert score.value == pytest.approx(float(value), abs=5.1e-5), line
        compared += 1
    assert compared >= 24


DOCUMENTS = [f"d{n}" for n in range(30)]
QRELS = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 4), min_size=1)
RANKING = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1)
PAIRS = {
    "nDCG@10": "nDCG@10",
    "nDCG": "nDCG",
    "Recall@7": "R@7",
    "Recall(rel=3)@7": "R(rel=3)@7",
    "Precision@5": "P@5",
    "Precision(rel=2)@5": "P(rel=2)@5",
    "MRR": "RR",
    "MRR@4": "RR@4",
    "MRR(rel=2)": "RR(rel=2)",
    "HitRate@3": "Success@3",
    "HitRate(rel=2)@3": "Success(rel=2)@3",
    "MAP": "AP",
    "MAP@10": "AP@10",
    "MAP(rel=2)@10": "AP(rel=2)@10",
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(QRELS, RANKING)
def test_agrees_with_ir_measures(qrels: dict[str, int], ranking: list[str]) -> None:
    run = {"q": {document: float(-rank) for rank, document in enumerate(ranking)}}
    theirs = {ir_measures.parse_measure(text): ours for ours, text in PAIRS.items()}
    found = {theirs[m.measure]: m.value for m in ir_measures.iter_calc(theirs, {"q": qrels}, run)}
    for ours in PAIRS:
        score = retrieval_scores(parse_measure(ours), ranking, qrels)
        if score.state == "scored":
            assert score.value == pytest.approx(found[ours], abs=1e-4), ours
        else:
            assert found[ours] == 0, ours  # where we say "undefined", others say 0


MEASURES = parse_measures("nDCG@10, nDCG, Recall@7, Precision@5, MRR@4, HitRate@3, MAP, MAP@5")


@given(QRELS, RANKING)
def test_values_stay_in_the_declared_range(qrels: dict[str, int], ranking: list[str]) -> None:
    for measure in MEASURES:
        value = retrieval_scores(measure, ranking, qrels).value
        high = measure.definition.high
        assert high is not None
        assert value is None or measure.definition.low <= value <= high


@given(QRELS)
def test_the_ideal_ranking_scores_one(qrels: dict[str, int]) -> None:
    ideal = sorted(qrels, key=lambda d: -qrels[d])
    for measure in parse_measures("nDCG@10, nDCG, Recall@30, MRR, HitRate@1, MAP"):
        score = retrieval_scores(measure, ideal, qrels)
        relevant = any(grade > 0 for grade in qrels.values())
        assert score.value == (pytest.approx(1.0) if relevant else 0.0 if qrels else None)


@pytest.mark.slow
@given(QRELS, RANKING)
def test_a_topic_without_relevant_documents_is_0_or_left_out(
    qrels: dict[str, int], ranking: list[str]
) -> None:
    for measure in parse_measures("nDCG@10, nDCG, Recall@30, MRR, HitRate@1, MAP, Precision@5"):
        score = retrieval_scores(measure, ranking, qrels)
        skipping = parse_measure(str(replace(measure, parameter="norel=skip")))
        without = retrieval_scores(skipping, ranking, qrels)
        if any(grade > 0 for grade in qrels.values()):
            assert score.value is not None
            assert math.isfinite(score.value)
            assert without.value == score.value
        else:
            assert score.value == (0.0 if qrels else None)
            assert (without.state, without.no_gold) == ("not_applicable", True)
            assert without.reason


@pytest.mark.needs_data
def test_the_mean_over_topics_without_relevant_documents_is_trec_evals() -> None:
    """trec_eval's own files, where every third topic lost its relevant documents."""
    qrels, run = trec_qrels("qrels.test"), read_run(TREC / "results.test")
    bare = {topic: dict.fromkeys(qrels[topic], 0) for topic in list(qrels)[::3] if topic in run}
    judged = {topic: bare.get(topic, grades) for topic, grades in qrels.items() if topic in run}
    assert 0 < len(bare) < len(judged)
    ours = parse_measures("nDCG@10, nDCG, MAP, MRR, Precision@10, Recall@100, HitRate@5")
    theirs = [
        ir_measures.parse_measure(t)
        for t in ["nDCG@10", "nDCG", "AP", "RR", "P@10", "R@100", "Success@5"]
    ]
    expected = ir_measures.pytrec_eval.calc_aggregate(
        theirs, judged, {topic: dict(run[topic]) for topic in judged}
    )
    found = score_run(run, judged, ours)
    for summary, name in zip(found.summaries, theirs, strict=True):
        assert summary.mean == pytest.approx(expected[name], abs=1e-4), summary.measure
        assert summary.n == len(judged)
    (note,) = [note for note in found.notes if "without a relevant document" in note]
    assert f"nDCG@10: {len(bare)} of {len(judged)} judged topics, scored 0" in note
    skipping = score_run(run, judged, parse_measures("nDCG(norel=skip)@10"))
    assert skipping.summaries[0].n == len(judged) - len(bare)
    assert "left out" in skipping.notes[0]


def test_parameters_of_a_ranking_have_one_spelling() -> None:
    assert str(parse_measure("Recall(rel=1, norel=0)@5")) == "Recall@5"
    assert str(parse_measure("Recall(rel=1,norel=skip)@5")) == "Recall(norel=skip)@5"
    both = "Recall(rel=2,norel=skip)@5"
    assert str(parse_measure(both)) == both
    assert [str(m) for m in parse_measures(f"{both}, nDCG(norel=skip)")] == [
        both,
        "nDCG(norel=skip)",
    ]


def test_the_ideal_counts_all_judged_documents_not_the_returned_ones() -> None:
    """One of three relevant documents returned, at rank 1: far from perfect."""
    qrels = {"a": 1, "b": 1, "c": 1}
    score = retrieval_scores(parse_measure("nDCG@10"), ["a"], qrels)
    assert score.value == pytest.approx(1 / (1 + 1 / math.log2(3) + 1 / 2))
    assert retrieval_scores(parse_measure("nDCG"), ["a"], qrels).value == score.value


def test_several_chunks_of_a_document_count_once_at_the_best_rank() -> None:
    qrels = {"a": 1, "b": 2, "c": 1}
    with_repeats = ["x", "a", "a", "x", "b", "a"]
    for measure in MEASURES:
        repeated = retrieval_scores(measure, with_repeats, qrels)
        assert repeated == retrieval_scores(measure, ["x", "a", "b"], qrels)


def test_nothing_returned_scores_zero_where_something_was_due() -> None:
    for measure in MEASURES:
        assert retrieval_scores(measure, [], {"a": 1}).value == 0


def test_nothing_judged_is_undefined() -> None:
    for measure in MEASURES:
        assert retrieval_scores(measure, ["a"], {}).state == "not_applicable"


def test_grades_below_zero_are_not_relevant() -> None:
    qrels = {"a": -1, "b": 1}
    for measure in MEASURES:
        negative = retrieval_scores(measure, ["a", "b"], qrels)
        assert negative == retrieval_scores(measure, ["a", "b"], {"a": 0, "b": 1})


def test_too_few_documents_do_not_raise_precision() -> None:
    assert retrieval_scores(parse_measure("Precision@5"), ["a"], {"a": 1}).value == 1 / 5


def test_every_retrieval_measure_has_a_formula() -> None:
    for definition in definitions():
        if definition.kind == "retrieval":
            text = definition.name + ("@3" if definition.cutoff == "required" else "")
            assert retrieval_scores(parse_measure(text), ["a"], {"a": 1}).state == "scored"


def test_only_ranking_measures_score_rankings() -> None:
    names = {d.name for d in definitions() if d.kind != "retrieval"}
    for name in names:
        with pytest.raises(MeasureError):
            retrieval_scores(parse_measure(name), ["a"], {"a": 1})
