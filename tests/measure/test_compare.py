"""Two systems row by row: tests, intervals, corrections and words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from ragwright.core import MeasureError, Score
from ragwright.measure import (
    Comparison,
    MeasureScale,
    compare_rows,
    holm,
    p_text,
    permutation_p,
    smallest_difference,
)


def rows(values: Sequence[float | None], measure: str = "nDCG@10") -> dict[str, list[Score]]:
    return {
        str(at): [
            Score(measure, "errored", reason="why")
            if value is None
            else Score(measure, "scored", value)
        ]
        for at, value in enumerate(values)
    }


def compared(
    a: Sequence[float | None], b: Sequence[float | None], measure: str = "nDCG@10"
) -> Comparison:
    return compare_rows(rows(a, measure), rows(b, measure))[measure]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=12))
def test_the_exact_test_is_scipys(steps: list[int]) -> None:
    differences = np.array(steps) / 20
    ours, exact = permutation_p(differences, 0)
    theirs = scipy.stats.permutation_test(
        (differences,),
        lambda x, axis: np.round(np.mean(x, axis=axis), 12),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert exact
    # theirs doubles the smaller tail; the sign-flip distribution is symmetric, so both agree
    assert ours == pytest.approx(min(1.0, theirs.pvalue), abs=1e-9)


def test_many_rows_draw_flips_and_agree_with_the_t_test() -> None:
    differences = np.random.default_rng(3).normal(0.02, 0.1, 150)
    ours, exact = permutation_p(differences, 1)
    assert not exact
    assert ours == pytest.approx(scipy.stats.ttest_1samp(differences, 0).pvalue, abs=0.01)
    assert permutation_p(np.full(100, 0.1), 0)[0] == pytest.approx(1 / 10_001)
    assert permutation_p(np.zeros(5), 0) == (1.0, True)


@pytest.mark.slow
def test_equal_systems_are_called_different_about_5_times_in_100() -> None:
    generator = np.random.default_rng(8)
    wrong = 0
    for at in range(200):
        a, b = generator.uniform(0, 1, (2, 25))
        found = compare_rows(rows(list(a)), rows(list(b)), seed=at)["nDCG@10"]
        wrong += found.verdict != "no change proven"
    assert wrong <= 20


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_method(values: list[float]) -> None:
    found = holm(values)
    m = len(values)
    ordered = sorted(values)
    for value, corrected in zip(values, found, strict=True):
        rank = max(at for at, other in enumerate(ordered) if other == value)
        slow = max(min(1.0, (m - at) * ordered[at]) for at in range(rank + 1))
        assert corrected == pytest.approx(slow)
        assert value <= corrected <= 1


def test_what_is_seen_is_told() -> None:
    a, b = [0.1] * 10 + [0.5] * 10, [0.7] * 10 + [0.5] * 9 + [0.4]
    found = compared(a, b)
    assert (found.wins, found.ties, found.losses) == (10, 9, 1)
    assert found.difference == pytest.approx(0.295)
    assert (found.mean_a, found.mean_b) == pytest.approx((0.3, 0.595))
    assert (found.n, found.coverage, found.exact) == (20, 1.0, True)
    assert found.effect == pytest.approx(0.295 / np.std(np.subtract(b, a), ddof=1))
    assert (found.verdict, found.more_rows) == ("better", 0)
    assert found.text.startswith("nDCG@10: better, +0.2950 (95 % interval +0.0")


def test_lower_may_be_better() -> None:
    found = compared([0.9, 0.8] * 20, [0.5] * 40, "QADistance")
    assert found.difference is not None
    assert found.difference < 0
    assert (found.verdict, found.wins) == ("better", 40)


def test_a_run_equals_itself() -> None:
    found = compared([0.1, 0.5, 0.9] * 4, [0.1, 0.5, 0.9] * 4)
    assert (found.difference, found.p, found.ties) == (0, 1, 12)
    unseen = 1 - 0.025 ** (1 / 12)  # share of all rows that twelve can have missed
    assert (found.low, found.high) == pytest.approx((-unseen, unseen))
    assert (found.verdict, found.more_rows) == ("no change proven", None)
    assert found.smallest == pytest.approx(unseen / (1 - unseen))
    # the same difference on every row: fewer than 39 say too little of the others
    shifted = compared([0.1, 0.5] * 6, [0.2, 0.6] * 6)
    assert (shifted.low, shifted.high) == pytest.approx((0.1 - 1.1 * unseen, 0.1 + 0.9 * unseen))
    assert shifted.verdict == "no change proven"
    assert shifted.outlook() == "about 27 more rows would tell it from 0"
    for half, verdict in ((19, "no change proven"), (20, "better")):
        assert compared([0.1, 0.5] * half, [0.2, 0.6] * half).verdict == verdict
    assert compared([0.1], [0.2]).more_rows is None


def test_only_a_proof_says_that_no_number_of_rows_would_do() -> None:
    few = compared([0.5, 0.1, 0.9, 0.4, 0.2, 0.8], [0.6, 0.1, 0.8, 0.5, 0.1, 0.9])
    assert few.outlook() == "too few rows to tell how many more would tell it from 0"
    assert few.more_rows is None
    assert few.more_rows_low is not None
    assert few.more_rows_low > 0
    assert compared([0.1, 0.5] * 6, [0.1, 0.5] * 6).outlook() == "no row differs"
    many = replace(few, more_rows_low=100_001)
    assert many.outlook() == "it cannot be told from 0 by any number of rows you could collect"


def test_an_interval_without_0_beside_no_proof_is_explained() -> None:
    draw = np.random.default_rng(1)
    names = ("nDCG@10", "MRR@10", "Recall@10", "MAP@10")
    a = {f"r{n}": [Score(name, "scored", 0.5) for name in names] for n in range(40)}
    b = {
        key: [
            Score(names[0], "scored", 0.5 + draw.normal(0.045, 0.12)),
            *(Score(name, "scored", 0.5 + draw.normal(0, 0.1)) for name in names[1:]),
        ]
        for key in a
    }
    found = compare_rows(a, b)[names[0]]
    assert found.p is not None
    assert found.p_holm is not None
    assert found.p <= 0.05 < found.p_holm
    assert found.low is not None
    assert found.low > 0
    assert found.verdict == "no change proven"
    assert "the interval is not corrected for the number of tests, p = 0." in found.text


def test_a_few_rows_prove_nothing_and_say_what_would() -> None:
    generator = np.random.default_rng(2)
    a = generator.uniform(0.3, 0.7, 20)
    b = a + generator.normal(0.03, 0.1, 20)
    found = compared(list(a), list(b))
    assert found.verdict == "no change proven"
    assert found.smallest is not None
    error = float(np.std(b - a, ddof=1)) / math.sqrt(20)
    assert found.smallest == pytest.approx((1.959964 + 0.841621) * error, rel=1e-3)
    assert found.more_rows is not None
    assert found.difference is not None
    due = 20 * (found.smallest / found.difference) ** 2
    assert found.more_rows == math.ceil(due - 20)
    assert found.text.endswith(f"; {found.outlook()}.")
    assert re.fullmatch(
        r"about [\d,]+ more rows \([\d,]+ to [\d,]+\) would tell .*", found.outlook()
    )


def test_rows_needed_allow_for_rows_that_a_sample_can_miss() -> None:
    """That many rows of the same kind are the first whose smallest difference is the one seen."""
    gains = [0.08, 0.1, 0.12, 0.1] * 3
    found = compared([0.5] * 12, [0.5 + gain for gain in gains])
    assert found.verdict == "no change proven"
    assert found.more_rows is not None
    whole = 12 + found.more_rows
    for size in (whole - whole % 4, whole - whole % 4 + 4):
        more = compared([0.5] * size, [0.5 + gain for gain in (gains * 9)[:size]])
        assert more.smallest is not None
        assert (more.smallest <= 0.1) == (size >= whole)


def test_rare_rows_count_for_every_measure_compared() -> None:
    """45 rows bound what they can miss for one measure; of ten, one may well miss a loss."""
    names = [f"Recall@{k}" for k in range(1, 11)]
    before, after = (
        {str(at): [Score(name, "scored", value) for name in names] for at in range(45)}
        for value in (0.5, 0.6)
    )
    assert {one.verdict for one in compare_rows(before, after).measures} == {"no change proven"}
    alone = compare_rows(*({key: v[:1] for key, v in side.items()} for side in (before, after)))
    assert alone["Recall@1"].verdict == "better"


@pytest.mark.slow
def test_the_smallest_difference_is_found_in_80_of_100_tries() -> None:
    generator = np.random.default_rng(4)
    n, sd = 50, 0.2
    size = smallest_difference(sd / math.sqrt(n))
    found = sum(permutation_p(generator.normal(size, sd, n), at)[0] <= 0.05 for at in range(300))
    assert 0.72 <= found / 300 <= 0.88


def test_rows_of_one_side_are_named_and_lost_scores_counted() -> None:
    a = rows([0.1, 0.2, None, 0.4, 0.5])
    b = rows([0.1, None, 0.3, 0.4, 0.5])
    del b["4"]
    b["new"] = [Score("nDCG@10", "scored", 1.0)]
    found = compare_rows(a, b)
    assert (found.only_a, found.only_b) == (("4",), ("new",))
    one = found["nDCG@10"]
    assert (one.n, one.only_a, one.only_b) == (2, 2, 2)
    assert one.coverage == 2 / 6
    with pytest.raises(KeyError):
        found["MRR"]


def test_no_row_with_both_scores_says_nothing() -> None:
    found = compared([0.1, None], [None, 0.2])
    assert (found.n, found.difference, found.verdict) == (0, None, "no change proven")
    assert "so they cannot be compared" in found.text
    one = compared([0.1], [0.2])
    assert (one.n, one.low, one.verdict) == (1, None, "no change proven")


def test_systems_that_share_nothing_are_refused() -> None:
    with pytest.raises(MeasureError, match="no row in common"):
        compare_rows({"1": [Score("MRR", "errored")]}, {"2": [Score("MRR", "errored")]})
    with pytest.raises(MeasureError, match="no measure in common"):
        compare_rows(rows([0.5], "MRR"), rows([0.5]))
    with pytest.raises(MeasureError, match="two scores"):
        compare_rows({"1": [Score("MRR", "errored")] * 2}, rows([0.5], "MRR"))


def test_many_measures_are_corrected_together() -> None:
    generator = np.random.default_rng(1)
    names = [f"Recall@{k}" for k in range(1, 11)]
    a: dict[str, list[Score]] = {}
    b: dict[str, list[Score]] = {}
    for at in range(80):
        base = generator.uniform(0.2, 0.8, 10)
        shift = np.where(np.arange(10) == 0, 0.1, generator.normal(0, 0.05, 10))
        a[str(at)] = [Score(n, "scored", v) for n, v in zip(names, base, strict=True)]
        b[str(at)] = [Score(n, "scored", v) for n, v in zip(names, base + shift, strict=True)]
    found = compare_rows(a, b)
    assert found["Recall@1"].verdict == "better"
    assert all(c.p is not None and c.p_holm is not None and c.p <= c.p_holm for c in found.measures)
    alone = compare_rows(*({k: v[1:2] for k, v in side.items()} for side in (a, b)))["Recall@2"]
    together = found["Recall@2"]
    assert alone.smallest is not None
    assert together.smallest is not None
    assert together.smallest > alone.smallest


def test_rows_of_one_document_prove_less() -> None:
    """The same 4 documents ten times over are four observations, not forty."""
    steps = np.repeat([0.1, 0.12, 0.08, 0.11], 10)
    a = rows([0.5] * 40)
    b = rows(list(0.5 + steps))
    clusters = {str(at): f"d{at // 10}" for at in range(40)}
    blind = compare_rows(a, b)["nDCG@10"]
    aware = compare_rows(a, b, clusters=clusters)["nDCG@10"]
    assert blind.verdict == "better"
    assert aware.verdict == "no change proven"  # 2 of 16 flips at best
    assert (aware.p, aware.clusters, aware.difference) == (0.125, 4, blind.difference)
    with pytest.raises(MeasureError, match="no cluster"):
        compare_rows(a, b, clusters={"0": "d"})


def test_equal_seeds_give_equal_comparisons() -> None:
    generator = np.random.default_rng(6)
    a, b = (rows(list(generator.uniform(0, 1, 60))) for _ in range(2))
    assert compare_rows(a, b, seed=4) == compare_rows(a, b, seed=4)


def test_lost_judgments_do_not_flip_a_ranking() -> None:
    """B is worse, and its unparsable replies read as 0 in A's place would hide that.

    The pattern of rjmurillo/ai-agents#3915: a gap of 1.67 between two prompts came from replies
    that could not be parsed and counted 0.
    """
    true_a, true_b = [4.0] * 30, [4.0] * 25 + [3.0] * 5
    lost = set(range(10))  # A's judge failed on these
    a: list[float | None] = [None if at in lost else v for at, v in enumerate(true_a)]
    as_zero = sum(v or 0.0 for v in a) / 30
    assert as_zero < sum(true_b) / 30  # what others print: B wins
    found = compared(a, list(true_b), "KPrecision")
    assert found.mean_a is not None
    assert found.mean_b is not None
    assert found.mean_a > found.mean_b
    assert (found.n, found.only_b, found.coverage) == (20, 10, 20 / 30)
    assert found.verdict != "better"


def test_comparisons_are_plain_mappings_of_scores() -> None:
    side: Mapping[str, Sequence[Score]] = {"1": (Score("Theirs", "scored", 3.0),)}
    assert compare_rows(side, side)["Theirs"].ties == 1


def test_a_very_small_p_value_is_a_bound() -> None:
    assert p_text(0.0004) == "p < 0.001"
    assert p_text(0.0125) == "p = 0.0125"


def test_without_a_known_direction_there_is_no_verdict() -> None:
    sides = [
        {str(at): [Score("Rubric(rude)", "scored", value)] for at, value in enumerate(values)}
        for values in ([1.0] * 10, [3.0, 4.0] * 5)
    ]
    found = compare_rows(*sides)["Rubric(rude)"]
    assert found.verdict == "no change proven"
    assert found.more_rows == 0
    assert "no verdict" in found.text
    assert "it is unknown whether higher is better" in found.text
    scale = MeasureScale(1, 5, higher_is_better=False)
    assert compare_rows(*sides, scales={"Rubric(rude)": scale})["Rubric(rude)"].verdict == "worse"


def test_numbers_that_cannot_be_compared_get_no_verdict() -> None:
    sides = rows([0.1] * 10), rows([0.9] * 10)
    assert compare_rows(*sides)["nDCG@10"].verdict == "better"
    found = compare_rows(*sides, incomparable={"nDCG@10": "two judges scored them"})["nDCG@10"]
    assert found.verdict == "no change proven"
    assert "no verdict, +0.8000" in found.text
    assert "two judges scored them." in found.text


def test_a_scale_without_an_end_leaves_lost_rows_unbounded() -> None:
    whole: list[float | None] = [9.0, 8.0] * 10
    less: list[float | None] = [3.0, 4.0] * 10
    assert compared(whole, less, "Perplexity").verdict == "better"
    found = compared(whole, [*less[:19], None], "Perplexity")
    assert (found.lost, found.lowest, found.verdict) == (1, None, "no change proven")
    assert "on an unbounded scale they could reverse it" in found.text


def test_rows_without_gold_are_not_lost() -> None:
    sides = rows([0.1] * 10), rows([0.9] * 10)
    for side in sides:
        side["bare"] = [Score("nDCG@10", "not_applicable", reason="no gold", no_gold=True)]
    found = compare_rows(*sides)["nDCG@10"]
    assert (found.lost, found.verdict) == (0, "better")
    assert found.lowest == found.highest == pytest.approx(0.8)


def test_few_clusters_want_more_of_them_before_any_difference_can_show() -> None:
    a = {f"r{n}": (Score("TokenF1", "scored", 0.5),) for n in range(16)}
    b = {f"r{n}": (Score("TokenF1", "scored", 0.6 + n / 1000),) for n in range(16)}
    [found] = compare_rows(a, b, clusters={f"r{n}": n // 4 for n in range(16)}).measures
    assert found.p == 0.125
    assert found.verdict == "no change proven"
    assert found.more_rows is not None
    assert found.more_rows >= 8  # six clusters of four rows are the fewest that can prove anything
