"""Measures by vectors beside their null baselines; BERTScore and MoverScore by reference."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from measure_fakes import Equal, WordEmbed, run, word_vector

from ragwright.core import ConfigError, MeasureError, Row
from ragwright.flow import Runner
from ragwright.measure import (
    BertScorer,
    MeasureSetup,
    MoverScorer,
    aggregate,
    mover_score,
    parse_measure,
    parse_measures,
    qa_distances,
    score_row,
    transport,
)
from ragwright.models import Models, model_handlers

SETUP = MeasureSetup(embedder="e", token_model="folder")
PAIRS = [
    ("when was the miser written", "the miser was written in 1668"),
    ("who wrote faust", "goethe wrote faust"),
    ("where lies rome", "rome lies in italy"),
]


def rows_of(pairs: list[tuple[str, str]], same: str = "") -> list[Row]:
    return [
        Row(str(n), q, response=a, retrieved_contexts=(same or f"passage {n} {a}",))
        for n, (q, a) in enumerate(pairs)
    ]


ROWS = rows_of(PAIRS)


def distance(one: str, two: str) -> float:
    left, right = word_vector(one), word_vector(two)
    return float(1 - left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_scores_of_a_row() -> None:
    measures = parse_measures("ChunkScore, QADistance")
    row = Row("r", "red pump", response="red valve", retrieved_contexts=("red pump", "red valve"))
    chunk, qa = run(score_row(row, measures, SETUP), WordEmbed())
    assert chunk.value == pytest.approx((1 + 0.5) / 2)
    assert qa.value == pytest.approx(0.5)
    (score,) = run(score_row(Row("r", "...", response="x"), measures[1:], SETUP), WordEmbed())
    assert score.state == "errored"  # a vector without direction is no number
    assert "length 0" in score.reason


def test_token_similarity_asks_for_its_part_and_takes_the_best_reference() -> None:
    row = Row("r", "q", "two", "one", metadata={"references": ("two",)})
    equal = Equal()
    scores = run(score_row(row, parse_measures("BERTScore, BERTScore(recall)"), SETUP), equal)
    assert [score.value for score in scores] == [1.0, 1.0]
    assert set(equal.models) == {"bertscore:folder", "bertscore:folder#recall"}


def test_distances_stand_beside_their_null_baselines() -> None:
    found = run(qa_distances([*ROWS, Row("x", "?")], SETUP, seed=3), WordEmbed())
    assert found.row_ids == ("0", "1", "2")  # a row without a pair is left out
    for n, (question, answer) in enumerate(PAIRS):
        assert found.distances[n] == pytest.approx(distance(question, answer), abs=1e-5)
        others = [distance(question, a) for m, (_, a) in enumerate(PAIRS) if m != n]
        assert any(found.shuffled[n] == pytest.approx(d, abs=1e-5) for d in others)
        own_passage = distance(question, ROWS[n].retrieved_contexts[0])
        assert found.chunk[n] != pytest.approx(own_passage, abs=1e-5)
        assert found.ranks[n] == 1 + sum(d < found.distances[n] - 1e-6 for d in others)
    assert found.echoed == pytest.approx([0, 0, 0], abs=1e-6)
    means = {name: aggregate(scores).mean for name, scores in found.scores().items()}
    assert next(iter(means)) == "QADistance"
    echoed, own = means["QADistance, question echoed"], means["QADistance"]
    assert echoed is not None
    assert own is not None
    assert echoed < own  # the known failure: repeating the question wins
    assert found == run(qa_distances(ROWS, SETUP, seed=3), WordEmbed())  # the seed decides
    assert run(qa_distances(rows_of(PAIRS, "same"), SETUP), WordEmbed()).chunk == ()
    fewer = run(qa_distances(ROWS, SETUP, most=2), WordEmbed())
    assert (len(fewer.row_ids), fewer.row_ids) == (2, tuple(sorted(fewer.row_ids)))
    assert fewer.baselines()[-1].measure == "rank of the own answer of 2"
    assert fewer.baselines()[0].scale == parse_measure("QADistance").known_scale
    for rows, setup, said in ((ROWS[:1], SETUP, "at least two"), (ROWS, MeasureSetup(), "model")):
        with pytest.raises(MeasureError, match=said):
            run(qa_distances(rows, setup), WordEmbed())


# -- BERTScore against bert-score ------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(minilm: Path) -> Any:
    import bert_score

    return bert_score.BERTScorer(
        model_type=str(minilm), num_layers=6, device="cpu", use_fast_tokenizer=True
    )


def agree(theirs: Any, model: Path, pairs: list[tuple[str, str]]) -> None:
    due = theirs.score([a for a, _ in pairs], [b for _, b in pairs], batch_size=1)
    for name, values in zip(("precision", "recall", "F1"), due, strict=True):
        scorer = BertScorer(f"{model}#{name}")
        for (response, reference), value in zip(pairs, values.tolist(), strict=True):
            (ours,) = scorer.score(reference, [response])
            assert ours == pytest.approx(value, abs=1e-4), (name, response)


SPOKEN = st.lists(
    st.sampled_from(["rome", "is", "42", "Zürich", "un-", "."]), min_size=1, max_size=9
).map(" ".join)


@pytest.mark.slow
@settings(max_examples=15)
@given(SPOKEN, SPOKEN)
def test_random_words_by_bert_score(
    theirs: Any, minilm: Path, response: str, reference: str
) -> None:
    agree(theirs, minilm, [(response, reference)])


@pytest.mark.slow
def test_texts_of_any_length_are_read_whole_and_the_same_are_ideal(minilm: Path) -> None:
    scorer = BertScorer(f"{minilm}#recall")
    filler = "pumps and valves " * 300
    (without,) = scorer.score("Molière wrote the miser", [filler])
    (with_end,) = scorer.score("Molière wrote the miser", [filler + "Molière wrote the miser"])
    assert with_end > without + 0.2
    vectors, own = scorer.tokens.vectors(filler)
    assert own.sum() > scorer.tokens.window
    assert len(vectors) == len(own)
    for scorers, empty in ((BertScorer(str(minilm)), 0), (MoverScorer(str(minilm)), -1)):
        same, nothing = scorers.score("Rome lies in Italy", ["Rome lies in Italy", ""])
        assert same == pytest.approx(1)
        assert nothing == empty


@pytest.mark.slow
def test_both_are_found_by_their_names(minilm: Path, tmp_path: Path) -> None:
    row = Row("r", "?", "Rome is in Italy", "Rome lies in Italy")
    measures = parse_measures("BERTScore, BERTScore(precision), MoverScore")
    setup = MeasureSetup(token_model=str(minilm))
    models = Models()
    models.register(f"bertscore:{minilm}", BertScorer(str(minilm)))
    models.register(f"bertscore:{minilm}#precision", BertScorer(f"{minilm}#precision"))
    models.register(f"moverscore:{minilm}", MoverScorer(str(minilm)))
    with Runner(model_handlers(models)) as runner:
        scores = runner.run(score_row(row, measures, setup))
    assert [score.state for score in scores] == ["scored"] * 3
    assert scores[0].value == BertScorer(str(minilm)).score(row.reference, [row.response_text])[0]
    found = Models().reranker(f"bertscore:{minilm}#recall")  # installed names need no setting
    assert isinstance(found, BertScorer)
    assert found.part == "recall"
    assert isinstance(Models().reranker(f"moverscore:{minilm}"), MoverScorer)
    for name, said in ((str(tmp_path), "no transformer"), (f"{minilm}#F2", "F2")):
        with pytest.raises(ConfigError, match=said):
            BertScorer(name)


# -- MoverScore: transport against the assignment problem ------------------------------------------


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10_000))
def test_transport_is_an_assignment_of_shares(rows: int, columns: int, seed: int) -> None:
    """Each row split into ``columns`` equal shares and each column into ``rows``."""
    from scipy.optimize import linear_sum_assignment

    draw = np.random.default_rng(seed)
    cost = draw.random((rows, columns))
    split = np.repeat(np.repeat(cost, columns, axis=0), rows, axis=1)
    left, right = linear_sum_assignment(split)
    due = split[left, right].sum() / (rows * columns)
    assert transport(cost) == pytest.approx(due, abs=1e-9)
    cost = draw.random((rows, rows))
    due = min(sum(cost[i, p[i]] for i in range(rows)) for p in permutations(range(rows))) / rows
    assert transport(cost) == pytest.approx(due, abs=1e-9)


def test_mover_score_by_hand() -> None:
    x, y = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    both = np.concatenate([x, y])
    assert mover_score(x, x) == pytest.approx(1)
    assert mover_score(x, y) == pytest.approx(1 - math.sqrt(2))
    assert mover_score(x, both) == pytest.approx(1 - math.sqrt(2) / 2)  # half of it stays
    assert mover_score(both, both[::-1]) == pytest.approx(1)
    assert mover_score(x, -x) == pytest.approx(-1)
    # as an empty answer, of which nobody asks the model
    assert mover_score(np.zeros((0, 2)), x) == mover_score(x, np.zeros((0, 2))) == -1
