"""A ranking that unusable judge replies flip in other tools, replayed: ours does not flip.

The ways of counting are those that tools are on record for: an unusable reply as 0 (NeMo, DSPy,
ApeRAG, RAGChecker), dropped in silence (ragas), the smallest number found in it (TruLens).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from judge_fakes import ROW, SETUP, Says, run, verdict

from ragwright.core import Row, Score
from ragwright.flow import Chat
from ragwright.measure import Summary, aggregate, compare_rows, parse_measures, score_row

ROWS = [replace(ROW, id=f"r{n}", user_input=f"question {n:03}?") for n in range(120)]
UNUSABLE = "Of the 3 statements all are supported, so 5/5, I am 0.5 certain."
STRONG = [verdict(5)] * 92 + [UNUSABLE] * 28
"""Better on every row; on 28 of them the judge says so in the wrong form."""
STEADY = [verdict(4)] * 120
EVASIVE = [verdict(5)] * 50 + ["I'm sorry, I cannot judge this text."] * 70
"""Good on fifty rows; the judge refuses to look at the rest."""


def as_zero(replies: Sequence[str]) -> float:
    return fmean(float(found) if (found := usable(reply)) else 0.0 for reply in replies)


def dropped(replies: Sequence[str]) -> float:
    return fmean(float(found) for reply in replies if (found := usable(reply)))


def smallest_number(replies: Sequence[str]) -> float:
    return fmean(min(map(float, re.findall(r"\d+(?:\.\d+)?", r)), default=0.0) for r in replies)


def usable(reply: str) -> str | None:
    found = re.search(r'"score": (\d)', reply)
    return found[1] if found else None


def judged(replies: Sequence[str], second: str | None = None) -> dict[str, Sequence[Score]]:
    """Scores of a system by row; the judge says the same twice, or ``second`` when re-asked."""
    said = {row.user_input: reply for row, reply in zip(ROWS, replies, strict=True)}

    def by(request: Chat) -> str:
        if len(request.messages) > 2 and second is not None:
            return second
        return next(reply for asked, reply in said.items() if asked in request.messages[1].content)

    def scores(row: Row) -> Sequence[Score]:
        return run(score_row(row, parse_measures("Faithfulness"), SETUP), Says(by=by))

    return {row.id: scores(row) for row in ROWS}


def summary(scores: dict[str, Sequence[Score]]) -> Summary:
    return aggregate([found[0] for found in scores.values()])


@pytest.mark.parametrize("count", [as_zero, smallest_number])
def test_elsewhere_the_better_system_loses(count: Callable[[Sequence[str]], float]) -> None:
    assert count(STRONG) < count(STEADY)


def test_elsewhere_the_system_that_is_hardly_judged_wins_in_silence() -> None:
    assert dropped(EVASIVE) > dropped(STEADY)


def test_here_the_better_system_stays_ahead_and_the_missing_rows_are_said() -> None:
    strong, steady = judged(STRONG), judged(STEADY)
    found = summary(strong)
    assert (found.mean, found.n) == (5.0, 92)
    assert found.coverage == pytest.approx(92 / 120)
    assert found.states == {"scored": 92, "judge_invalid": 28}
    # what the 28 rows could still do to the mean, at worst and at best
    assert found.worst == pytest.approx((92 * 5 + 28 * 1) / 120)
    assert found.best == 5.0
    comparison = compare_rows(steady, strong)["Faithfulness"]
    assert comparison.verdict == "better"  # not even these rows could turn it
    assert (comparison.n, comparison.only_a, comparison.lost) == (92, 28, 28)
    assert comparison.lowest == pytest.approx((92 * 1 - 28 * 3) / 120)
    reasons = {score.reason for (score,) in strong.values() if score.value is None}
    assert all("5/5" in reason for reason in reasons)


@pytest.mark.slow
def test_here_a_system_that_is_hardly_judged_does_not_win_unseen() -> None:
    evasive, steady = judged(EVASIVE), judged(STEADY)
    found = summary(evasive)
    assert found.coverage == pytest.approx(50 / 120)
    assert found.worst is not None
    assert found.worst < 4 < 5.0  # its rows without a score may well put it behind
    comparison = compare_rows(steady, evasive)["Faithfulness"]
    assert comparison.p is not None
    assert comparison.p < 0.001  # on the fifty rows alone it is beyond doubt
    assert comparison.verdict == "no change proven"
    assert comparison.coverage == pytest.approx(50 / 120)
    assert comparison.lowest == pytest.approx((50 * 1 - 70 * 3) / 120)
    assert "no verdict" in comparison.text
    assert (
        "70 rows lack a score in one of the two runs, and they could reverse it" in comparison.text
    )
    other_way = compare_rows(evasive, steady)["Faithfulness"]
    assert other_way.verdict == "no change proven"
    assert other_way.highest == pytest.approx((70 * 3 - 50 * 1) / 120)


def test_most_unusable_replies_are_mended_by_the_judge_itself() -> None:
    found = summary(judged(STRONG, second=verdict(5)))
    assert (found.mean, found.coverage) == (5.0, 1.0)
