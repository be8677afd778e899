"""Gold spans: a slow second implementation on chunking_eval, and what must hold."""

from __future__ import annotations

import csv
import json
import math
from functools import cache

import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, strategies as st

from ragwright.core import Document, GoldSpan, Row
from ragwright.ingest import ChunkOptions, make_chunker
from ragwright.measure import parse_measures, score_rows
from ragwright.models import WordTokenizer, make_analyzer

MEASURES = parse_measures(
    "HitRate@1, HitRate@5, Recall@1, Recall@5, Precision@5, MRR, MRR@3, nDCG@1, nDCG@5, nDCG, "
    "SpanPrecision@1, SpanPrecision@5, SpanIoU@1, SpanIoU@5"
)


def slow(name: str, k: int, retrieved: list[GoldSpan], gold: list[GoldSpan]) -> float:
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


def check(retrieved: list[GoldSpan], gold: list[GoldSpan]) -> dict[str, float]:
    row = Row("r", "?", retrieved_spans=tuple(retrieved), reference_spans=tuple(gold))
    (scores,) = score_rows([row], MEASURES)
    for measure, score in zip(MEASURES, scores, strict=True):
        k = measure.cutoff or len(retrieved) + 100
        due = slow(measure.name, k, retrieved, gold)
        assert score.value == pytest.approx(due, abs=1e-12), measure
        assert 0 <= due <= 1 + 1e-12
    return {str(m): s.value for m, s in zip(MEASURES, scores, strict=True) if s.value is not None}


SPAN = st.builds(
    lambda document, start, length: GoldSpan(document, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 60),
    st.integers(1, 40),
)


@given(st.lists(SPAN, min_size=1, max_size=8), st.lists(SPAN, min_size=1, max_size=5))
def test_agrees_with_counting_characters_one_by_one(
    retrieved: list[GoldSpan], gold: list[GoldSpan]
) -> None:
    check(retrieved, gold)


@cache
def corpora() -> dict[str, str]:
    folder = DATA / "chunking_eval" / "corpora"
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("size", [100, 400])
def test_agrees_on_chunking_eval(size: int) -> None:
    """Real chunks ranked by shared words, real gold; theirs where passages do not overlap."""
    analyzer = make_analyzer()
    chunker = make_chunker(ChunkOptions("tokens", size, 0), WordTokenizer())
    names = ("state_of_the_union", "wikitexts")
    pieces = {
        name: [
            (GoldSpan(name, s.start, s.end), set(analyzer.tokens(corpora()[name][s.start : s.end])))
            for s in chunker.cut(Document(id=name, source=name, text=corpora()[name]))
        ]
        for name in names
    }
    with (DATA / "chunking_eval" / "questions_df.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["corpus_id"] in names]
    total = 0.0
    for row in rows[::4]:
        name, asked = row["corpus_id"], set(analyzer.tokens(row["question"]))
        gold = [
            GoldSpan(name, reference["start_index"], reference["end_index"])
            for reference in json.loads(row["references"])
        ]
        ranked = sorted(pieces[name], key=lambda piece: (-len(asked & piece[1]), piece[0].start))
        top = [span for span, _ in ranked[:5]]
        found = check(top, gold)
        assert found["SpanIoU@5"] == pytest.approx(published_iou(top, gold))
        total += found["Recall@5"]
    assert total > 0


def published_iou(chunks: list[GoldSpan], gold: list[GoldSpan]) -> float:
    """As chunking_evaluation computes it; equal to ours while chunks do not overlap."""
    seen: set[tuple[int, int]] = set()
    unused = {(c, c + 1) for g in gold for c in range(g.start, g.end)}
    for chunk in chunks:
        for start, end in sorted(unused):
            if chunk.start <= start and end <= chunk.end:
                seen.add((start, end))
    unused -= seen
    length = sum(chunk.end - chunk.start for chunk in chunks)
    return len(seen) / (length + len(unused))


def test_one_passage_that_holds_all_and_several_that_hold_one_each_are_both_ideal() -> None:
    gold = [GoldSpan("d", 0, 10), GoldSpan("d", 20, 30)]
    assert check([GoldSpan("d", 0, 30)], gold)["nDCG@5"] == pytest.approx(1)
    assert check([GoldSpan("d", 0, 10), GoldSpan("d", 20, 30)], gold)["nDCG@5"] == pytest.approx(1)


def test_a_span_is_earned_once_and_by_half_of_it() -> None:
    gold = [GoldSpan("d", 0, 10)]
    twice = check([GoldSpan("d", 0, 10), GoldSpan("d", 0, 12)], gold)
    assert twice["Precision@5"] == pytest.approx(1 / 5)
    assert check([GoldSpan("d", 5, 40)], gold)["HitRate@1"] == 1
    assert check([GoldSpan("d", 6, 40)], gold)["HitRate@1"] == 0
    assert check([GoldSpan("e", 0, 10)], gold)["HitRate@1"] == 0


def test_spans_have_no_grades_and_win_over_ids() -> None:
    row = Row(
        "r",
        "?",
        retrieved_context_ids=("x",),
        reference_ids={"d": 1},
        retrieved_spans=(GoldSpan("d", 0, 9),),
        reference_spans=(GoldSpan("d", 0, 9),),
    )
    ((spans, graded, average),) = score_rows(
        [row], parse_measures("Recall@5, Recall(rel=2)@5, MAP")
    )
    assert spans.value == 1.0
    assert graded.state == "not_applicable"
    assert average.value == 0.0  # MAP knows documents alone


def test_a_search_that_found_nothing_scores_nothing() -> None:
    row = Row("r", "?", reference_spans=(GoldSpan("d", 0, 10, ""),), metadata={"retrieved": True})
    ((*scores,),) = score_rows([row], parse_measures("SpanPrecision@5, SpanIoU@5, Recall@5"))
    assert [(score.state, score.value) for score in scores] == [("scored", 0.0)] * 3
