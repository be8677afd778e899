"""Retrieval measures against trec_eval's own outputs, ir_measures, slow counts, and by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import ir_measures
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, strategies as st

from ragwright.core import GoldSpan, MeasureError, Row
from ragwright.experiment import score_run
from ragwright.measure import (
    definitions,
    parse_measure,
    parse_measures,
    retrieval_scores,
    score_rows,
)
from ragwright.testsets import read_qrels, read_run

TREC = DATA / "trec_eval_tests"
FAMILIES = {"P": "Precision", "recall": "Recall", "ndcg_cut": "nDCG", "success": "HitRate"}
FAMILIES |= {"map_cut": "MAP"}
WHOLE = {"map": "MAP", "recip_rank": "MRR", "ndcg": "nDCG"}


def figures(output: str) -> Iterator[tuple[str, str, float]]:
    """(measure of ours, topic or "all", value) of an output of trec_eval."""
    for line in (TREC / output).read_text().splitlines():
        name, topic, value = line.split()
        family, _, cutoff = name.rpartition("_")
        if name in WHOLE:
            yield WHOLE[name], topic, float(value)
        elif family in FAMILIES and cutoff.isdigit():
            yield f"{FAMILIES[family]}@{cutoff}", topic, float(value)


def rankings(name: str) -> dict[str, tuple[str, ...]]:
    """Rankings by trec_eval's rule, sorted here once more: score falling, ties by id falling."""
    scored: dict[str, list[tuple[float, str]]] = {}
    for line in (TREC / name).read_text().splitlines():
        query, _, document, _, score, _ = line.split(maxsplit=5)
        scored.setdefault(query, []).append((float(score), document))
    return {q: tuple(d for _, d in sorted(pairs, reverse=True)) for q, pairs in scored.items()}


@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("output", "qrels", "run", "level", "depth", "least"),
    [
        ("out.test.aq", "qrels.test", "results.test", 1, None, 100),
        ("out.test.aqc", "qrels.test", "results.trunc", 1, None, 100),
        ("out.test.aql", "qrels.rel_level", "results.test", 2, None, 100),
        # other cutoffs, and a run cut as -M does
        ("out.test.meas_params", "qrels.test", "results.test", 1, None, 24),
        ("out.test.aqcM", "qrels.test", "results.trunc", 1, 100, 24),
    ],
)
def test_agrees_with_trec_eval_to_four_places(
    output: str, qrels: str, run: str, level: int, depth: int | None, least: int
) -> None:
    judged, ranked = read_qrels(TREC / qrels), rankings(run)
    found: dict[str, list[float]] = {}
    for text, topic, due in figures(output):
        name, at, cutoff = text.partition("@")
        graded = level == 1 or name == "nDCG"
        measure = parse_measure(text if graded else f"{name}(rel={level}){at}{cutoff}")
        if topic == "all":
            assert sum(found[text]) / len(judged) == pytest.approx(due, abs=5.1e-5), text
            continue
        row = Row(topic, "?", reference_ids=judged[topic], metadata={"retrieved": True})
        row = replace(row, retrieved_context_ids=ranked.get(topic, ())[:depth])
        ((score,),) = score_rows([row], [measure])
        assert score.value == pytest.approx(due, abs=5.1e-5), (text, topic)
        direct = retrieval_scores(measure, row.retrieved_context_ids, judged[topic])
        assert direct.value == score.value
        assert score.value is not None
        found.setdefault(text, []).append(score.value)
    assert sum(map(len, found.values())) >= least


DOCUMENTS = [f"d{n}" for n in range(30)]
QRELS = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 4), min_size=1)
RANKING = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1)
PAIRS = {
    "nDCG@10": "nDCG@10", "nDCG": "nDCG", "Recall@7": "R@7", "Recall(rel=3)@7": "R(rel=3)@7",
    "Precision@5": "P@5", "Precision(rel=2)@5": "P(rel=2)@5", "MRR": "RR", "MRR@4": "RR@4",
    "MRR(rel=2)": "RR(rel=2)", "HitRate@3": "Success@3", "HitRate(rel=2)@3": "Success(rel=2)@3",
    "MAP": "AP", "MAP@10": "AP@10", "MAP(rel=2)@10": "AP(rel=2)@10",
}  # fmt: skip


@pytest.mark.slow
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


def test_rankings_by_hand() -> None:
    """The ideal counts all judged documents; of several chunks the best rank of each document."""
    qrels = {"a": 1, "b": 1, "c": 1}
    for text in ("nDCG@10", "nDCG"):
        score = retrieval_scores(parse_measure(text), ["a"], qrels)
        assert score.value == pytest.approx(1 / (1 + 1 / math.log2(3) + 1 / 2))
    assert retrieval_scores(parse_measure("Precision@5"), ["a"], {"a": 1}).value == 1 / 5
    for measure in MEASURES:
        repeated = retrieval_scores(measure, ["x", "a", "a", "x", "b", "a"], {**qrels, "b": 2})
        assert repeated == retrieval_scores(measure, ["x", "a", "b"], {**qrels, "b": 2})
        assert retrieval_scores(measure, [], {"a": 1}).value == 0
        assert retrieval_scores(measure, ["a"], {}).state == "not_applicable"
        assert retrieval_scores(measure, ["a"], {"b": 0}).value == 0
        skipping = retrieval_scores(replace(measure, parameter="norel=skip"), ["a"], {"b": 0})
        assert (skipping.state, skipping.no_gold) == ("not_applicable", True)
        negative = retrieval_scores(measure, ["a", "b"], {"a": -1, "b": 1})
        assert negative == retrieval_scores(measure, ["a", "b"], {"a": 0, "b": 1})
    row = Row("r", "?", retrieved_context_ids=("x", "a", "a"), reference_ids={"a": 1, "b": 1})
    ((recall, rank),) = score_rows([row], parse_measures("Recall@2, MRR"))
    assert (recall.value, rank.value) == (0.5, 0.5)


def test_every_retrieval_measure_and_no_other_scores_a_ranking() -> None:
    for definition in definitions():
        if definition.kind == "retrieval":
            text = definition.name + ("@3" if definition.cutoff == "required" else "")
            assert retrieval_scores(parse_measure(text), ["a"], {"a": 1}).state == "scored"
        else:
            with pytest.raises(MeasureError):
                retrieval_scores(parse_measure(definition.name), ["a"], {"a": 1})


# -- Gold spans: a slow second implementation, on chunking_eval too, and what must hold ------------

OF_SPANS = parse_measures(
    "HitRate@1, HitRate@5, Recall@1, Recall@5, Precision@5, MRR, MRR@3, nDCG@1, nDCG@5, nDCG, "
    "SpanPrecision@1, SpanPrecision@5, SpanIoU@1, SpanIoU@5"
)


def slow(name: str, k: int, retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> float:
    """Every measure once more, by sets of single characters."""
    found = [{(s.document_id, c) for c in range(s.start, s.end)} for s in retrieved[:k]]
    wanted = [frozenset((s.document_id, c) for c in range(s.start, s.end)) for s in gold]
    wanted = list(dict.fromkeys(wanted))
    everything, all_gold = set().union(*found), set().union(*wanted)
    if name == "SpanPrecision":
        return len(everything & all_gold) / len(everything)
    if name == "SpanIoU":
        return len(everything & all_gold) / len(everything | all_gold)
    first = []  # rank at which each span that is found at all is first covered
    for span in wanted:
        ranks = [r for r, hit in enumerate(found, 1) if len(hit & span) >= len(span) / 2]
        first += ranks[:1]
    if name == "HitRate":
        return 1.0 if first else 0.0
    if name == "Recall":
        return len(first) / len(wanted)
    if name == "Precision":
        return len(set(first)) / k
    if name == "MRR":
        return 1 / min(first) if first else 0.0
    taken: list[int] = []
    for rank in sorted(first):
        taken.append(max(rank, taken[-1] + 1 if taken else 1))
    gain = sum(1 / math.log2(place + 1) for place in taken if place <= k)
    return gain / sum(1 / math.log2(n + 1) for n in range(1, min(k, len(wanted)) + 1))


def check(retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> dict[str, float]:
    row = Row("r", "?", retrieved_spans=tuple(retrieved), reference_spans=tuple(gold))
    (scores,) = score_rows([row], OF_SPANS)
    for measure, score in zip(OF_SPANS, scores, strict=True):
        k = measure.cutoff or len(retrieved) + 100
        due = slow(measure.name, k, retrieved, gold)
        assert score.value == pytest.approx(due, abs=1e-12), measure
        assert 0 <= due <= 1 + 1e-12
    return {str(m): s.value for m, s in zip(OF_SPANS, scores, strict=True) if s.value is not None}


SPAN = st.builds(
    lambda document, start, length: GoldSpan(document, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 60),
    st.integers(1, 40),
)


@given(st.lists(SPAN, min_size=1, max_size=8), st.lists(SPAN, min_size=1, max_size=5))
def test_agrees_with_counting_characters(retrieved: list[GoldSpan], gold: list[GoldSpan]) -> None:
    check(retrieved, gold)


def test_a_span_is_earned_once_and_by_half_of_it() -> None:
    two = [GoldSpan("d", 0, 10), GoldSpan("d", 20, 30)]
    for ideal in ([GoldSpan("d", 0, 30)], two):  # one passage that holds all, or one each
        assert check(ideal, two)["nDCG@5"] == pytest.approx(1)
    # as chunking_evaluation computes it: what is found, over all chunks and the gold that is not
    assert check([GoldSpan("d", 5, 25)], two)["SpanIoU@5"] == pytest.approx(10 / (20 + 10))
    gold = two[:1]
    twice = check([GoldSpan("d", 0, 10), GoldSpan("d", 0, 12)], gold)
    assert twice["Precision@5"] == pytest.approx(1 / 5)
    for document, start, hit in (("d", 5, 1), ("d", 6, 0), ("e", 0, 0)):
        assert check([GoldSpan(document, start, 40)], gold)["HitRate@1"] == hit


def test_spans_have_no_grades_and_win_over_ids_and_nothing_found_is_nothing_scored() -> None:
    spans = {name: (GoldSpan("d", 0, 9),) for name in ("retrieved_spans", "reference_spans")}
    ids = {"retrieved_context_ids": ("x",), "reference_ids": {"d": 1}}
    row = Row("r", "?", **spans, **ids)  # type: ignore[arg-type]
    measures = parse_measures("Recall@5, Recall(rel=2)@5, MAP, SpanPrecision@5, SpanIoU@5")
    ((spanned, graded, average, *_),) = score_rows([row], measures)
    assert spanned.value == 1.0
    assert graded.state == "not_applicable"
    assert average.value == 0.0  # MAP knows documents alone
    for gold in ({"reference_spans": spans["reference_spans"]}, {"reference_ids": {"d": 1}}):
        bare = Row("1", "?", **gold)
        taken = [measures[0], *measures[3:]] if "reference_spans" in gold else measures[:1]
        ((*scores,),) = score_rows([replace(bare, metadata={"retrieved": True})], taken)
        assert {(score.state, score.value) for score in scores} == {("scored", 0.0)}
        assert next(score_rows([bare], taken))[0].state == "not_applicable"


@pytest.mark.needs_data
def test_the_mean_over_topics_without_relevant_documents_is_trec_evals() -> None:
    """trec_eval's own files, where every third topic lost its relevant documents."""
    qrels, run = read_qrels(TREC / "qrels.test"), read_run(TREC / "results.test")
    bare = {topic: dict.fromkeys(qrels[topic], 0) for topic in list(qrels)[::3] if topic in run}
    judged = {topic: bare.get(topic, grades) for topic, grades in qrels.items() if topic in run}
    assert 0 < len(bare) < len(judged)
    ours = parse_measures("nDCG@10, nDCG, MAP, MRR, Precision@10, Recall@100, HitRate@5")
    names = ("nDCG@10", "nDCG", "AP", "RR", "P@10", "R@100", "Success@5")
    theirs = [ir_measures.parse_measure(name) for name in names]
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
