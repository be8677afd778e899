"""BERTScore against bert-score, MoverScore against the assignment problem and by hand."""

from __future__ import annotations

import csv
import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st

from ragwright.core import ConfigError, Row
from ragwright.flow import Runner
from ragwright.measure import (
    BertScorer,
    MeasureSetup,
    MoverScorer,
    mover_score,
    parse_measures,
    score_row,
    transport,
)
from ragwright.models import Models, model_handlers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(minilm: Path) -> Path:
    return minilm


@pytest.fixture(scope="module")
def theirs(model: Path) -> Any:
    import bert_score

    return bert_score.BERTScorer(
        model_type=str(model), num_layers=6, device="cpu", use_fast_tokenizer=True
    )


def agree(theirs: Any, model: Path, pairs: list[tuple[str, str]]) -> None:
    due = theirs.score([a for a, _ in pairs], [b for _, b in pairs], batch_size=1)
    for name, values in zip(("precision", "recall", "F1"), due, strict=True):
        scorer = BertScorer(f"{model}#{name}")
        for (response, reference), value in zip(pairs, values.tolist(), strict=True):
            (ours,) = scorer.score(reference, [response])
            assert ours == pytest.approx(value, abs=1e-4), (name, response)


WORDS = st.lists(
    st.sampled_from(["rome", "is", "42", "Zürich", "un-", "."]), min_size=1, max_size=9
)


@settings(deadline=None, max_examples=15)
@given(WORDS, WORDS)
def test_agrees_with_bert_score_on_random_words(
    theirs: Any, model: Path, response: list[str], reference: list[str]
) -> None:
    agree(theirs, model, [(" ".join(response), " ".join(reference))])


@pytest.mark.needs_data
def test_agrees_with_bert_score_on_real_replies(theirs: Any, model: Path) -> None:
    with (DATA / "q2" / "dodeca_consistent.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:12]
    agree(theirs, model, [(row["response"], row["knowledge"]) for row in rows])


def test_a_text_beyond_the_window_is_read_whole(model: Path) -> None:
    scorer = BertScorer(f"{model}#recall")
    filler = "pumps and valves " * 300
    (without,) = scorer.score("Molière wrote the miser", [filler])
    (with_end,) = scorer.score("Molière wrote the miser", [filler + "Molière wrote the miser"])
    assert with_end > without + 0.2
    vectors, own = scorer.tokens.vectors(filler)
    assert own.sum() > scorer.tokens.window
    assert len(vectors) == len(own)


def test_the_same_texts_are_ideal(model: Path) -> None:
    for scorer, empty in ((BertScorer(str(model)), 0), (MoverScorer(str(model)), -1)):
        assert scorer.score("Rome lies in Italy", ["Rome lies in Italy"])[0] == pytest.approx(1)
        assert scorer.score("Rome lies in Italy", [""])[0] == empty


def test_both_are_found_by_their_names_through_a_runner(model: Path) -> None:
    row = Row("r", "?", "Rome is in Italy", "Rome lies in Italy")
    measures = parse_measures("BERTScore, BERTScore(precision), MoverScore")
    setup = MeasureSetup(token_model=str(model))
    models = Models()
    models.register(f"bertscore:{model}", BertScorer(str(model)))
    models.register(f"bertscore:{model}#precision", BertScorer(f"{model}#precision"))
    models.register(f"moverscore:{model}", MoverScorer(str(model)))
    with Runner(model_handlers(models)) as runner:
        scores = runner.run(score_row(row, measures, setup))
    assert [score.state for score in scores] == ["scored"] * 3
    assert scores[0].value == BertScorer(str(model)).score(row.reference, [row.response_text])[0]


def test_installed_names_need_no_setting(model: Path) -> None:
    found = Models().reranker(f"bertscore:{model}#recall")
    assert isinstance(found, BertScorer)
    assert found.part == "recall"
    assert isinstance(Models().reranker(f"moverscore:{model}"), MoverScorer)


def test_a_folder_without_a_model_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigError, match="no transformer"):
        BertScorer(str(tmp_path))
    with pytest.raises(ConfigError, match="F2"):
        BertScorer(f"{model}#F2")


# -- transport ---------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_equal_numbers_of_tokens_are_an_assignment(size: int, seed: int) -> None:
    cost = np.random.default_rng(seed).random((size, size))
    due = min(sum(cost[i, p[i]] for i in range(size)) for p in permutations(range(size))) / size
    assert transport(cost) == pytest.approx(due, abs=1e-9)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_unequal_numbers_are_an_assignment_of_shares(rows: int, columns: int, seed: int) -> None:
    """Each row split into ``columns`` equal shares and each column into ``rows``."""
    from scipy.optimize import linear_sum_assignment

    cost = np.random.default_rng(seed).random((rows, columns))
    split = np.repeat(np.repeat(cost, columns, axis=0), rows, axis=1)
    left, right = linear_sum_assignment(split)
    due = split[left, right].sum() / (rows * columns)
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
