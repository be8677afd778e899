"""What the reader of an evaluation should know beside its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ..experiment import Evaluation
from ..measure import flip_rate, judge_spread

_TOLD = frozenset({"errored", "judge_invalid", "not_applicable"})
_MOST, _LONGEST = 5, 160


def with_notes(evaluation: Evaluation) -> Evaluation:
    """The evaluation, with why rows lack scores, and how steady its judge was where that shows."""
    return replace(
        evaluation, notes=(*evaluation.notes, *_reasons(evaluation), *_judge_notes(evaluation))
    )


def _reasons(evaluation: Evaluation) -> Iterator[str]:
    """The reasons that most rows lack a score for; missing gold is no fault of a system."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for result in evaluation.results:
        for score in result.scores:
            if score.state in _TOLD and not score.no_gold:
                # Replies of a judge are quoted behind this mark, each row another one.
                reason = score.reason.partition("«")[0].strip(" :")
                counts.setdefault((score.state, reason), Counter())[score.measure] += 1
    most = sorted(counts.items(), key=lambda pair: -max(pair[1].values()))
    for (state, reason), by_measure in most[:_MOST]:
        said = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …"
        named = ", ".join(f"{measure} {count}" for measure, count in by_measure.items())
        yield f"{state} ({named}): {said}"


def _judge_notes(evaluation: Evaluation) -> Iterator[str]:
    for at, summary in enumerate(evaluation.summaries):
        scores = [result.scores[at] for result in evaluation.results]
        spread, flips = judge_spread(scores), flip_rate(scores)
        if spread.sd is not None:
            yield (
                f"{summary.measure}: two judgments of one row differ by {spread.difference:.2f} on "
                f"average (sd {spread.sd:.2f}, {spread.rows} rows); the interval is over rows"
            )
        if flips.rate is not None:
            yield (
                f"{summary.measure}: in {flips.flipped} of {flips.judgments} judgments the score "
                f"hangs on the order ({flips.rate:.0%})"
            )
