"""Measures by vectors, and the null baselines beside a distance."""

from __future__ import annotations

import numpy as np
import pytest
from measure_fakes import Equal, WordEmbed, run, word_vector

from ragwright.core import MeasureError, Row
from ragwright.measure import (
    MeasureSetup,
    _embedded,
    aggregate,
    parse_measure,
    parse_measures,
    qa_distances,
    score_row,
)

SETUP = MeasureSetup(embedder="e", token_model="folder")
PAIRS = [
    ("when was the miser written", "the miser was written in 1668"),
    ("who wrote faust", "goethe wrote faust"),
    ("where lies rome", "rome lies in italy"),
]
ROWS = [
    Row(str(n), q, response=a, retrieved_contexts=(f"passage {n} {a}",))
    for n, (q, a) in enumerate(PAIRS)
]


def distance(one: str, two: str) -> float:
    left, right = word_vector(one), word_vector(two)
    return float(1 - left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_scores_of_a_row() -> None:
    measures = parse_measures("ChunkScore, QADistance")
    row = Row("r", "red pump", response="red valve", retrieved_contexts=("red pump", "red valve"))
    chunk, qa = run(score_row(row, measures, SETUP), WordEmbed())
    assert chunk.value == pytest.approx((1 + 0.5) / 2)
    assert qa.value == pytest.approx(0.5)


def test_a_chunk_score_kept_with_the_row_is_used_as_it_is() -> None:
    row = Row("r", "q", retrieved_contexts=("c",), metadata={"chunk_score": 0.625})
    (score,) = run(score_row(row, parse_measures("ChunkScore")))  # no model, no handler
    assert score.value == 0.625


def test_token_similarity_asks_for_its_part_and_takes_the_best_reference() -> None:
    row = Row("r", "q", "two", "one", metadata={"references": ("two",)})
    equal = Equal()
    scores = run(score_row(row, parse_measures("BERTScore, BERTScore(recall)"), SETUP), equal)
    assert [score.value for score in scores] == [1.0, 1.0]
    assert set(equal.models) == {"bertscore:folder", "bertscore:folder#recall"}


def test_distances_stand_beside_their_null_baselines() -> None:
    found = run(qa_distances(ROWS, SETUP, seed=3), WordEmbed())
    assert found.row_ids == ("0", "1", "2")
    for n, (question, answer) in enumerate(PAIRS):
        assert found.own[n] == pytest.approx(distance(question, answer), abs=1e-5)
        others = [distance(question, a) for m, (_, a) in enumerate(PAIRS) if m != n]
        assert any(found.shuffled[n] == pytest.approx(d, abs=1e-5) for d in others)
        own_passage = distance(question, ROWS[n].retrieved_contexts[0])
        assert found.chunk[n] != pytest.approx(own_passage, abs=1e-5)
        assert found.ranks[n] == 1 + sum(d < found.own[n] - 1e-6 for d in others)
    assert found.echoed == pytest.approx([0, 0, 0], abs=1e-6)
    means = {name: aggregate(scores).mean for name, scores in found.scores().items()}
    assert next(iter(means)) == "QADistance"
    echoed, own = means["QADistance, question echoed"], means["QADistance"]
    assert echoed is not None
    assert own is not None
    assert echoed < own  # the known failure: repeating the question wins


def test_the_seed_decides_the_baselines() -> None:
    one = run(qa_distances(ROWS, SETUP, seed=1), WordEmbed())
    assert one == run(qa_distances(ROWS, SETUP, seed=1), WordEmbed())


def test_rows_without_a_pair_are_left_out_and_one_is_too_few() -> None:
    rows = [*ROWS, Row("x", "?")]
    assert run(qa_distances(rows, SETUP), WordEmbed()).row_ids == ("0", "1", "2")
    with pytest.raises(MeasureError, match="baselines need at least two"):
        run(qa_distances(ROWS[:1], SETUP), WordEmbed())
    with pytest.raises(MeasureError, match="embedding model"):
        run(qa_distances(ROWS, MeasureSetup()), WordEmbed())


def test_a_row_of_the_same_passages_has_no_random_chunk() -> None:
    rows = [
        Row(str(n), q, response=a, retrieved_contexts=("same",)) for n, (q, a) in enumerate(PAIRS)
    ]
    assert run(qa_distances(rows, SETUP), WordEmbed()).chunk == ()


def test_a_vector_without_direction_is_an_error_not_a_number() -> None:
    row = Row("r", "...", response="x")
    (score,) = run(score_row(row, parse_measures("QADistance"), SETUP), WordEmbed())
    assert score.state == "errored"
    assert "length 0" in score.reason


def test_many_rows_have_cheap_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks in blocks are those of the whole table; no list of other passages is made a row."""
    monkeypatch.setattr(_embedded, "_BATCH", 7)
    words = [f"{chr(97 + n % 26)}{n}" for n in range(50)]
    rows = [
        Row(str(n), f"{w} pump", response=f"{w} valve", retrieved_contexts=(w, words[n - 1]))
        for n, w in enumerate(words)
    ]
    found = run(qa_distances(rows, SETUP), WordEmbed())
    texts = [row.response_text for row in rows]
    whole = np.array([[distance(row.user_input, text) for text in texts] for row in rows]).round(6)
    assert found.ranks == tuple(1 + (whole < whole.diagonal()[:, None] - 2e-6).sum(axis=1))
    chosen = _embedded._other_chunks(rows, np.random.default_rng(0))
    assert len(set(chosen)) > 20
    assert all(t not in row.retrieved_contexts for t, row in zip(chosen, rows, strict=True))
    fewer = run(qa_distances(rows, SETUP, most=20), WordEmbed())
    assert len(fewer.row_ids) == 20
    assert list(fewer.row_ids) == sorted(fewer.row_ids, key=int)
    assert [s.measure for s in fewer.baselines()][-1] == "rank of the own answer of 20"
    assert fewer.baselines()[0].scale == parse_measure("QADistance").known_scale


def test_a_passage_that_is_hard_to_draw_is_found() -> None:
    texts = [f"t{n}" for n in range(400)]
    draw = np.random.default_rng(0)
    assert _embedded._draw_other(texts, frozenset(texts[1:]), draw) == "t0"
