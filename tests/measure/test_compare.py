"""Two systems row by row: tests, intervals, corrections, words, and what lost rows could do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from ragwright.core import MeasureError, Score
from ragwright.measure import Comparison, MeasureScale, compare_rows, holm, p_text, permutation_p

TRIES = 100
Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Side = dict[str, list[Score]]


def rows(values: Sequence[float | None] | Values, *measures: str) -> Side:
    """The same scores by one or several measures."""
    return {
        str(at): [
            Score(measure, "errored", reason="why")
            if value is None
            else Score(measure, "scored", float(value))
            for measure in measures or ("nDCG@10",)
        ]
        for at, value in enumerate(values)
    }


def compared(
    a: Sequence[float | None] | Values,
    b: Sequence[float | None] | Values,
    measure: str = "nDCG@10",
    seed: int = 0,
) -> Comparison:
    return compare_rows(rows(a, measure), rows(b, measure), seed=seed)[measure]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=12))
def test_the_exact_test_is_scipys(steps: list[int]) -> None:
    differences = np.array(steps) / 20
    ours = permutation_p(differences, 0)
    theirs = scipy.stats.permutation_test(
        (differences,),
        lambda x, axis: np.round(np.mean(x, axis=axis), 12),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    # theirs doubles the smaller tail; the sign-flip distribution is symmetric, so both agree
    assert ours == pytest.approx(min(1.0, theirs.pvalue), abs=1e-9)


def test_many_rows_draw_flips_and_agree_with_the_t_test() -> None:
    differences = np.random.default_rng(3).normal(0.02, 0.1, 150)
    ours = permutation_p(differences, 1)
    assert ours == pytest.approx(scipy.stats.ttest_1samp(differences, 0).pvalue, abs=0.01)
    assert permutation_p(np.full(100, 0.1), 0) == pytest.approx(1 / 10_001)
    assert permutation_p(np.zeros(5), 0) == 1.0
    assert (p_text(0.0004), p_text(0.0125)) == ("p < 0.001", "p = 0.0125")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_method(values: list[float]) -> None:
    m, ordered = len(values), sorted(values)
    for value, corrected in zip(values, holm(values), strict=True):
        rank = max(at for at, other in enumerate(ordered) if other == value)
        slow = max(min(1.0, (m - at) * ordered[at]) for at in range(rank + 1))
        assert corrected == pytest.approx(slow)
        assert value <= corrected <= 1


def test_what_is_seen_is_told() -> None:
    a, b = [0.1] * 10 + [0.5] * 10, [0.7] * 10 + [0.5] * 9 + [0.4]
    found = compared(a, b)
    assert (found.wins, found.ties, found.losses) == (10, 9, 1)
    assert (found.difference, found.mean_a, found.mean_b) == pytest.approx((0.295, 0.3, 0.595))
    assert (found.n, found.coverage) == (20, 1.0)
    assert (found.verdict, found.outlook()) == ("better", "")
    assert found.text.startswith("nDCG@10: better, +0.2950 (95 % interval +0.0")
    lower = compared([0.9, 0.8] * 20, [0.5] * 40, "QADistance")
    assert (lower.verdict, lower.wins) == ("better", 40)
    assert lower.difference == pytest.approx(-0.35)


def test_a_run_equals_itself() -> None:
    found = compared([0.1, 0.5, 0.9] * 4, [0.1, 0.5, 0.9] * 4)
    assert (found.difference, found.p, found.ties) == (0, 1, 12)
    unseen = 1 - 0.025 ** (1 / 12)  # share of all rows that twelve can have missed
    assert (found.low, found.high) == pytest.approx((-unseen, unseen))
    assert (found.verdict, found.outlook()) == ("no change proven", "no row differs")
    assert found.smallest == pytest.approx(unseen / (1 - unseen))
    # the same difference on every row: fewer than 39 say too little of the others
    shifted = compared([0.1, 0.5] * 6, [0.2, 0.6] * 6)
    assert (shifted.low, shifted.high) == pytest.approx((0.1 - 1.1 * unseen, 0.1 + 0.9 * unseen))
    assert shifted.verdict == "no change proven"
    assert shifted.outlook().startswith("this many rows can prove a difference of about 0.")
    for half, verdict in ((19, "no change proven"), (20, "better")):
        assert compared([0.1, 0.5] * half, [0.2, 0.6] * half).verdict == verdict
    assert compared([0.1], [0.2]).outlook() == "1 row cannot prove a difference"


def test_a_few_rows_prove_nothing_and_say_what_would() -> None:
    generator = np.random.default_rng(2)
    a = generator.uniform(0.3, 0.7, 20)
    b = a + generator.normal(0.03, 0.1, 20)
    found = compared(a, b)
    assert found.verdict == "no change proven"
    error = float(np.std(b - a, ddof=1)) / math.sqrt(20)
    assert found.smallest == pytest.approx((1.959964 + 0.841621) * error, rel=1e-3)
    assert found.text.endswith(f"; {found.outlook()}.")


def test_the_smallest_difference_allows_for_rows_that_a_sample_can_miss() -> None:
    """The first number of rows whose smallest difference is the one seen proves it."""
    gains = [0.08, 0.1, 0.12, 0.1] * 3
    found = compared([0.5] * 12, [0.5 + gain for gain in gains])
    assert found.verdict == "no change proven"
    whole = next(n for n in range(12, 200) if (found.provable(n) or 1) <= 0.1)
    for size in (whole - whole % 4, whole - whole % 4 + 4):
        more = compared([0.5] * size, [0.5 + gain for gain in (gains * 9)[:size]])
        assert more.smallest is not None
        assert (more.smallest <= 0.1) == (size >= whole)


def test_rows_of_one_side_are_named_and_lost_scores_counted() -> None:
    a, b = rows([0.1, 0.2, None, 0.4, 0.5]), rows([0.1, None, 0.3, 0.4, 0.5])
    del b["4"]
    b["new"] = [Score("nDCG@10", "scored", 1.0)]
    found = compare_rows(a, b)
    assert (found.only_a, found.only_b) == (("4",), ("new",))
    one = found["nDCG@10"]
    assert (one.n, one.only_a, one.only_b, one.coverage) == (2, 2, 2, 2 / 6)
    with pytest.raises(KeyError):
        found["MRR"]
    none = compared([0.1, None], [None, 0.2])
    assert (none.n, none.difference, none.verdict) == (0, None, "no change proven")
    assert "so they cannot be compared" in none.text
    one = compared([0.1], [0.2])
    assert (one.n, one.low, one.verdict) == (1, None, "no change proven")
    side: Mapping[str, Sequence[Score]] = {"1": (Score("Theirs", "scored", 3.0),)}
    assert compare_rows(side, side)["Theirs"].ties == 1  # plain mappings of scores


LOST = [Score("MRR", "errored")]


@pytest.mark.parametrize(
    ("a", "b", "clusters", "said"),
    [
        ({"1": LOST}, {"2": LOST}, None, "no row in common"),
        (rows([0.5], "MRR"), rows([0.5]), None, "no measure in common"),
        ({"1": LOST * 2}, rows([0.5], "MRR"), None, "two scores"),
        (rows([0.5] * 2), rows([0.5] * 2), {"0": "d"}, "no cluster"),
    ],
)
def test_what_shares_nothing_is_refused(
    a: Side, b: Side, clusters: Mapping[str, object] | None, said: str
) -> None:
    with pytest.raises(MeasureError, match=said):
        compare_rows(a, b, clusters=clusters)


def test_many_measures_are_corrected_together() -> None:
    generator = np.random.default_rng(1)
    names = [f"Recall@{k}" for k in range(1, 11)]
    a: Side = {}
    b: Side = {}
    for at in range(80):
        base = generator.uniform(0.2, 0.8, 10)
        shift = np.where(np.arange(10) == 0, 0.1, generator.normal(0, 0.05, 10))
        a[str(at)] = [Score(n, "scored", v) for n, v in zip(names, base, strict=True)]
        b[str(at)] = [Score(n, "scored", v) for n, v in zip(names, base + shift, strict=True)]
    found = compare_rows(a, b)
    assert found["Recall@1"].verdict == "better"
    assert all(c.p is not None and c.p_holm is not None and c.p <= c.p_holm for c in found.measures)
    alone = compare_rows(*({k: v[1:2] for k, v in side.items()} for side in (a, b)))["Recall@2"]
    assert (found["Recall@2"].smallest or 0) > (alone.smallest or 0) > 0
    # 45 rows bound what they can miss for one measure; of ten, one may well miss a loss
    before, after = rows([0.5] * 45, *names), rows([0.6] * 45, *names)
    assert {one.verdict for one in compare_rows(before, after).measures} == {"no change proven"}
    assert compared([0.5] * 45, [0.6] * 45, "Recall@1").verdict == "better"


def test_an_interval_without_0_beside_no_proof_is_explained() -> None:
    draw = np.random.default_rng(1)
    names = ("nDCG@10", "MRR@10", "Recall@10", "MAP@10")
    a, b = rows([0.5] * 40, *names), rows([0.5] * 40, *names)
    for key in a:
        gains = [draw.normal(0.045, 0.12), *(draw.normal(0, 0.1) for _ in names[1:])]
        b[key] = [Score(n, "scored", 0.5 + gain) for n, gain in zip(names, gains, strict=True)]
    found = compare_rows(a, b)[names[0]]
    assert found.p is not None
    assert found.p_holm is not None
    assert found.p <= 0.05 < found.p_holm
    assert (found.low or 0) > 0
    assert found.verdict == "no change proven"
    assert "the interval is not corrected for the number of tests, p = 0." in found.text


def test_rows_of_one_document_prove_less() -> None:
    """The same 4 documents ten times over are four observations, not forty."""
    a, b = rows([0.5] * 40), rows(0.5 + np.repeat([0.1, 0.12, 0.08, 0.11], 10))
    blind = compare_rows(a, b)["nDCG@10"]
    aware = compare_rows(a, b, clusters={str(at): at // 10 for at in range(40)})["nDCG@10"]
    assert blind.verdict == "better"
    assert aware.verdict == "no change proven"  # 2 of 16 flips at best
    assert (aware.p, aware.clusters, aware.difference) == (0.125, 4, blind.difference)
    # six clusters of four rows are the fewest that can prove anything
    a, b = rows([0.5] * 16), rows(0.6 + np.arange(16) / 1000)
    few = compare_rows(a, b, clusters={str(n): n // 4 for n in range(16)})["nDCG@10"]
    assert (few.p, few.verdict) == (0.125, "no change proven")


def test_lost_judgments_do_not_flip_a_ranking() -> None:
    """B is worse, and its unparsable replies read as 0 in A's place would hide that.

    The pattern of rjmurillo/ai-agents#3915: a gap of 1.67 between two prompts came from replies
    that could not be parsed and counted 0.
    """
    found = compared([None] * 10 + [4.0] * 20, [4.0] * 25 + [3.0] * 5, "KPrecision")
    assert (found.mean_a or 0) > (found.mean_b or 5)
    assert (found.n, found.only_b, found.coverage) == (20, 10, 20 / 30)
    assert found.verdict != "better"
    # good on fifty rows, hardly judged on the rest: beyond doubt on those, and no winner
    evasive: list[float | None] = [5.0] * 50 + [None] * 70
    steady = [4.0] * 120
    hardly = compared(steady, evasive, "Faithfulness")
    assert (hardly.p or 1) < 0.001
    assert hardly.verdict == "no change proven"
    assert hardly.coverage == pytest.approx(50 / 120)
    assert hardly.lowest == pytest.approx((50 * 1 - 70 * 3) / 120)
    could = "70 rows lack a score in one of the two runs, and they could reverse it"
    assert "no verdict" in hardly.text
    assert could in hardly.text
    other_way = compared(evasive, steady, "Faithfulness")
    assert other_way.verdict == "no change proven"
    assert other_way.highest == pytest.approx((70 * 3 - 50 * 1) / 120)
    whole: list[float | None] = [9.0, 8.0] * 10
    less: list[float | None] = [3.0, 4.0] * 10
    assert compared(whole, less, "Perplexity").verdict == "better"
    found = compared(whole, [*less[:19], None], "Perplexity")
    assert (found.lost, found.lowest, found.verdict) == (1, None, "no change proven")
    assert "on an unbounded scale they could reverse it" in found.text
    sides = rows([0.1] * 10), rows([0.9] * 10)
    for side in sides:  # rows without gold are not lost
        side["bare"] = [Score("nDCG@10", "not_applicable", reason="no gold", no_gold=True)]
    found = compare_rows(*sides)["nDCG@10"]
    assert (found.lost, found.verdict) == (0, "better")
    assert found.lowest == found.highest == pytest.approx(0.8)


def test_without_a_known_direction_or_by_two_judges_there_is_no_verdict() -> None:
    sides = rows([1.0] * 10, "Rubric(rude)"), rows([3.0, 4.0] * 5, "Rubric(rude)")
    found = compare_rows(*sides)["Rubric(rude)"]
    assert (found.verdict, found.outlook()) == ("no change proven", "")
    assert "no verdict" in found.text
    assert "it is unknown whether higher is better" in found.text
    scale = MeasureScale(1, 5, higher_is_better=False)
    assert compare_rows(*sides, scales={"Rubric(rude)": scale})["Rubric(rude)"].verdict == "worse"
    sides = rows([0.1] * 10), rows([0.9] * 10)
    assert compare_rows(*sides)["nDCG@10"].verdict == "better"
    found = compare_rows(*sides, incomparable={"nDCG@10": "two judges scored them"})["nDCG@10"]
    assert found.verdict == "no change proven"
    assert "no verdict, +0.8000" in found.text
    assert "two judges scored them." in found.text


# -- Rates of verdicts under nulls that a bootstrap or a test alone gets wrong ---------------------
# docs/guide/statistics.md has the tables.


def most(rate: float) -> float:
    """A rate and three standard errors of what so many tries show of it."""
    return rate + 3 * float(np.sqrt(rate * (1 - rate) / TRIES))


def of_differences(values: Values, seed: int = 0) -> Comparison:
    """Two runs whose scores, from 0 to 1, differ by these values."""
    kept = np.round(np.clip(values, -1, 1), 6)
    a = np.where(kept < 0, 1.0, 0.0)
    return compared(a, a + kept, "TokenF1", seed)


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 20, 50])
def test_many_small_gains_do_not_hide_a_few_large_losses(size: int) -> None:
    """90 % gain 0.05 and 10 % lose 0.45: the mean difference is 0."""
    draw = np.random.default_rng(size)
    found = [
        of_differences(np.where(draw.random(size) < 0.1, -0.45, 0.05), at).verdict
        for at in range(TRIES)
    ]
    assert found.count("better") / TRIES <= most(0.025)
    assert found.count("worse") / TRIES <= most(0.025)
    gains = of_differences(np.full(size, 0.05))
    assert (gains.p or 1) < 0.01 < (gains.p_rare or 0)
    assert "rare kinds of rows that are not in this sample could reverse it" in gains.text
