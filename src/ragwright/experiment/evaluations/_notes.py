"""Notes on an evaluation for its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...core import Row, Score, TestsetError, count_noun
from ...measure import (
    GOLD,
    Measure,
    content_words,
    flip_rate,
    judge_spread,
    lacks_gold,
    split_plain_words,
)
from ...testsets import Testset
from ._results import Evaluation, RowResult

_REFUSALS = ("RejectionRate", "FalseRejectionRate")
_SHORT = 15
"""Most words of an answer that may be a plain refusal."""
_SHOWN = 3


class RefusalNotes:
    """Collects answers that count as answers although they may be refusals."""

    def __init__(self) -> None:
        self._measures: dict[str, None] = {}
        self._answers: dict[tuple[str, ...], dict[str, str]] = {}

    def add(self, result: RowResult) -> None:
        """Add one row."""
        values = {
            score.measure: score.value
            for score in result.scores
            if score.measure in _REFUSALS and score.value is not None
        }
        self._measures.update(dict.fromkeys(values))
        row = result.row
        if row is None or not values or any(values.values()):
            return
        words = tuple(split_plain_words(row.response_text))
        if words and len(words) <= _SHORT and _is_unrelated(row):
            self._answers.setdefault(words, {})[row.id] = " ".join(row.response_text.split())

    def notes(self) -> Iterator[str]:
        """Return notes on the cues of refusals, and on what they may have missed."""
        if not self._measures:
            return
        measures = ", ".join(self._measures)
        yield f"{measures}: a refusal is recognised by the words in `judge.rejection_cues`"
        repeated = [rows for rows in self._answers.values() if len(rows) > 1]
        if not repeated:
            return
        repeated.sort(key=len, reverse=True)
        examples = ", ".join(
            f'"{next(iter(rows.values()))}" ({count_noun(len(rows), "row")})'
            for rows in repeated[:_SHOWN]
        )
        total = count_noun(sum(map(len, repeated)), "short answer")
        yield (
            f"{measures}: {total} that share no word with their passages occur several times: "
            f"{examples}. If they are refusals, add their words to `judge.further_rejection_cues`"
        )


def _is_unrelated(row: Row) -> bool:
    """True if an answer shares no content word with its passages and its reference."""
    answer_words = set(content_words(row.response_text, "auto"))
    texts = (*row.retrieved_contexts, row.reference)
    return not any(answer_words & set(content_words(text, "auto")) for text in texts)


_REPORTED_STATES = frozenset({"errored", "judge_invalid", "not_applicable"})
_GROUNDED = "KPrecision"
_MOST, _LONGEST = 5, 160


class NoteCollector:
    """Collects notes on results one at a time; rows are not stored."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._judgments: dict[str, list[Score]] = {}
        self._refusals = RefusalNotes()
        self._grounding: list[bool] = []

    def add(self, result: RowResult) -> None:
        """Add the scores of one row."""
        self._refusals.add(result)
        row = result.row
        for score in result.scores:
            if row is not None and score.value is not None and score.measure.startswith(_GROUNDED):
                self._grounding.append(_is_quote(row))
            if score.state in _REPORTED_STATES and not score.no_gold:
                # Replies of a judge are quoted after this mark and differ for each row.
                reason = score.reason.partition("«")[0].strip(" :")
                key = score.state, reason
                self._counts.setdefault(key, Counter())[score.measure] += 1
            if score.parts:
                judgment = Score(score.measure, score.state, score.value, parts=score.parts)
                self._judgments.setdefault(score.measure, []).append(judgment)

    def notes(self) -> tuple[str, ...]:
        """Return notes on missing scores, recognised refusals, and the judge's consistency."""
        return (
            *self._missing_score_notes(),
            *self._refusals.notes(),
            *self._consistency(),
            *self._quotes(),
        )

    def _quotes(self) -> Iterator[str]:
        """Say that quotes are grounded by construction."""
        quotes, rows = sum(self._grounding), len(self._grounding)
        if 2 * quotes > rows:
            yield (
                f"{_GROUNDED}: {quotes} of {rows} answers are quotes of their passages, for which "
                "it is about 1 by construction; a measure against references says more"
            )

    def _missing_score_notes(self) -> Iterator[str]:
        """Return the most common reasons for missing scores, except missing gold."""
        most = sorted(self._counts.items(), key=lambda pair: -max(pair[1].values()))
        for (state, reason), by_measure in most[:_MOST]:
            shortened = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …"
            counts = ", ".join(f"{measure} {count}" for measure, count in by_measure.items())
            yield f"{state} ({counts}): {shortened}"

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


def _is_quote(row: Row) -> bool:
    """True if a passage holds the whole answer, word for word."""
    words = " ".join(row.response_text.split())
    return any(words in " ".join(text.split()) for text in row.retrieved_contexts)


def add_notes(evaluation: Evaluation) -> Evaluation:
    """Add notes on missing scores and on the consistency of the judge."""
    collector = NoteCollector()
    for result in evaluation.results:
        collector.add(result)
    return replace(evaluation, notes=(*evaluation.notes, *collector.notes()))


def check_gold(testset: Testset, measures: Sequence[Measure]) -> None:
    """Refuse a run in which no row has the gold that the measures need.

    Raises:
        TestsetError: No row has it; the message names what is missing.
    """
    if (
        testset.rows
        and measures
        and len(list_measures_without_gold(testset, measures)) == len(measures)
    ):
        raise TestsetError(
            f"no row has what {', '.join(map(str, measures))} compares with",
            where=testset.name,
            hint="give the rows a `reference` (ground_truth, expected_output), reference_contexts "
            "or reference_ids; or name measures without gold, such as KPrecision",
        )


def list_measures_without_gold(testset: Testset, measures: Sequence[Measure]) -> tuple[str, ...]:
    """Return the measures for which no row of a testset has gold."""
    return tuple(
        str(measure)
        for measure in measures
        if all(lacks_gold(row, measure.definition) for row in testset.rows)
    )


def gold_warning(testset: Testset, measures: Sequence[Measure]) -> str:
    """Return a warning about missing gold before any question is asked; empty if there is none.

    Args:
        testset: The rows to ask.
        measures: The measures that were named; none for the defaults.
    """
    if not testset.rows:
        return ""
    if measures:
        without = list_measures_without_gold(testset, measures)
        if not without:
            return ""
        return (
            f"no row of {testset.name} has what {', '.join(without)} compares with: "
            f"{'it' if len(without) == 1 else 'they'} will have no score"
        )
    if any(getattr(row, name) for row in testset.rows for name in GOLD):
        return ""
    return (
        f"no row of {testset.name} has a reference answer or gold passages: only what needs "
        "neither is measured, such as whether answers follow from their passages"
    )
