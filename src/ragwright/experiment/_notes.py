"""Notes on an evaluation for its readers, and its lowest rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..core import Score, TestsetError, count_noun
from ..measure import Measure, find_scale, flip_rate, judge_spread, lacks_gold
from ..testsets import Testset
from ._results import REFUSALS, RowResult

_REPORTED_STATES = frozenset({"errored", "judge_invalid", "not_applicable"})
_GROUNDED = "KPrecision"
_MOST, _LONGEST = 5, 160


class NoteCollector:
    """Collects notes on results one at a time; rows are not stored."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._judgments: dict[str, list[Score]] = {}
        self._refusals: dict[str, None] = {}
        self._grounding: list[bool] = []

    def add(self, result: RowResult) -> None:
        """Add the scores of one row."""
        row = result.row
        for score in result.scores:
            if score.measure in REFUSALS and score.value is not None:
                self._refusals[score.measure] = None
            if row is not None and score.value is not None and score.measure.startswith(_GROUNDED):
                # A quote: a passage holds the whole answer, word for word.
                words = " ".join(row.response_text.split())
                self._grounding.append(
                    any(words in " ".join(text.split()) for text in row.retrieved_contexts)
                )
            if score.state in _REPORTED_STATES and not score.no_gold:
                # Replies of a judge are quoted after this mark and differ for each row.
                reason = score.reason.partition("«")[0].strip(" :")
                key = score.state, reason
                self._counts.setdefault(key, Counter())[score.measure] += 1
            if score.parts:
                judgment = Score(score.measure, score.state, score.value, parts=score.parts)
                self._judgments.setdefault(score.measure, []).append(judgment)

    def notes(self) -> Iterator[str]:
        """Return notes on texts, missing scores, refusals, and the judge's consistency."""
        # The most common reasons for missing scores, except missing gold.
        most = sorted(self._counts.items(), key=lambda pair: -max(pair[1].values()))
        for (state, reason), by_measure in most[:_MOST]:
            shortened = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …"
            counts = ", ".join(f"{measure} {count}" for measure, count in by_measure.items())
            yield f"{state} ({counts}): {shortened}"
        if self._refusals:
            measures = ", ".join(self._refusals)
            yield f"{measures}: a refusal is recognised by the words in `judge.rejection_cues`"
        yield from self._consistency()
        quotes, rows = sum(self._grounding), len(self._grounding)
        if 2 * quotes > rows:
            yield (
                f"{_GROUNDED}: {quotes} of {rows} answers are quotes of their passages, for which "
                "it is about 1 by construction; a measure against references says more"
            )

    def _consistency(self) -> Iterator[str]:
        for measure, scores in self._judgments.items():
            spread, flips = judge_spread(scores), flip_rate(scores)
            if spread.sd is not None:
                yield (
                    f"{measure}: two judgments of one row differ by {spread.difference:.2f} on "
                    f"average (sd {spread.sd:.2f}, {count_noun(spread.rows, 'row')}); the "
                    "interval is over rows"
                )
            if flips.rate is not None:
                yield (
                    f"{measure}: in {flips.flipped} of {flips.judgments} judgments the score "
                    f"depends on the order ({flips.rate:.0%})"
                )


def check_gold(testset: Testset, measures: Sequence[Measure]) -> None:
    """Refuse a run in which no row has the gold that the measures need.

    Raises:
        TestsetError: No row has it; the message names what is missing.
    """
    if (
        testset.rows
        and measures
        and all(lacks_gold(row, m.definition) for row in testset.rows for m in measures)
    ):
        raise TestsetError(
            f"no row has what {', '.join(map(str, measures))} compares with",
            where=testset.name,
            hint="give the rows a `reference` (ground_truth, expected_output), reference_contexts "
            "or reference_ids; or name measures without gold, such as KPrecision",
        )


_MOST_WEAK = 5


@dataclass(frozen=True, slots=True)
class WeakRow:
    """A row with a low value, or without one: its id, question, value and state."""

    measure: str
    id: str
    question: str
    value: float | None
    state: str


def weak_rows(
    results: Iterable[RowResult],
    measure: str,
    *,
    below: float | None = None,
    most: int = _MOST_WEAK,
) -> tuple[WeakRow, ...]:
    """Return the rows that score worst, worst first: failed rows first, abstentions last.

    Args:
        results: Stored results.
        measure: Their measure.
        below: Only rows worse than this bound; None for all that do not have the best value.
        most: Most rows.
    """
    scale = find_scale(measure)
    sign = 1 if scale is None or scale.higher_is_better else -1
    best = None if scale is None else scale.high if sign > 0 else scale.low
    bound = best if below is None else below
    ordered: list[tuple[bool, float, WeakRow]] = []
    for result in results:
        question = "" if result.row is None else result.row.user_input
        for score in result.scores:
            failed = score.state in ("abstained", "errored", "judge_invalid")
            if score.measure != measure or (score.value is None and not failed):
                continue
            if score.unanswerable and score.value is None:
                continue
            merit = -math.inf if score.value is None else score.value * sign
            if bound is None or merit < bound * sign:
                row = WeakRow(measure, result.row_id, question, score.value, score.state)
                ordered.append((score.state == "abstained", merit, row))
    return tuple(row for *_, row in sorted(ordered, key=lambda known: known[:2])[:most])
