"""Notes on an evaluation for its readers, and its weak slices and rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

from ...core import Row, Score, TestsetError, count_noun
from ...measure import (
    GOLD,
    Measure,
    content_words,
    find_scale,
    flip_rate,
    judge_spread,
    lacks_gold,
    split_plain_words,
)
from ...testsets import Testset, half_note, holds_half, unread_columns, unread_note
from ._results import RowResult, row_values

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
            f"{examples}. If they are refusals, add their words to `judge.rejection_cues`"
        )


def _is_unrelated(row: Row) -> bool:
    """True if an answer shares no content word with its passages and its reference."""
    answer_words = set(content_words(row.response_text, "auto"))
    return not any(
        answer_words & set(content_words(text, "auto"))
        for text in (*row.retrieved_contexts, row.reference)
    )


_REPORTED_STATES = frozenset({"errored", "judge_invalid", "not_applicable"})
_GROUNDED = "KPrecision"
_MOST, _LONGEST = 5, 160


class NoteCollector:
    """Collects notes on results one at a time; rows are not stored."""

    def __init__(self, measures: Iterable[Measure] = ()) -> None:
        self._columns = {m.parameter for m in measures if m.name == "Column"}
        self._unread: dict[str, None] = {}
        self._halves: list[bool] = []
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._judgments: dict[str, list[Score]] = {}
        self._refusals = RefusalNotes()
        self._grounding: list[bool] = []

    def add(self, result: RowResult) -> None:
        """Add the scores of one row."""
        self._refusals.add(result)
        row = result.row
        self._halves.append(row is not None and holds_half(row))
        self._unread.update(dict.fromkeys(unread_columns(row) if row else ()))
        for score in result.scores:
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
        yield from half_note(sum(self._halves), len(self._halves))
        yield from unread_note(name for name in self._unread if name not in self._columns)
        # The most common reasons for missing scores, except missing gold.
        most = sorted(self._counts.items(), key=lambda pair: -max(pair[1].values()))
        for (state, reason), by_measure in most[:_MOST]:
            shortened = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …"
            counts = ", ".join(f"{measure} {count}" for measure, count in by_measure.items())
            yield f"{state} ({counts}): {shortened}"
        yield from self._refusals.notes()
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


_FEWEST = 3
"""Fewest scored rows of a slice, and of the others."""

_MOST_VALUES = 30
"""Most values of a field that divides rows into slices; a field with more names rows."""

_LEVEL = 0.05
_MOST_WEAK = 5
_MARKS = frozenset({"abstained", "snippet_score", "chunk_score", "retrieved"})
"""Metadata that the program writes into a row."""


@dataclass(frozen=True, slots=True)
class WeakSlice:
    """Rows with a common value that score far worse than the others.

    Attributes:
        by: Field: ``persona_name`` or a metadata field; ``value`` is the shared value.
        mean: Mean over the slice, of ``n`` rows; ``rest`` over the ``others``.
        p: Probability of so low a mean for a slice drawn at random from these rows, two-sided,
            multiplied by the number of slices that were looked at.
    """

    measure: str
    by: str
    value: str
    mean: float
    n: int
    rest: float
    others: int
    p: float

    @property
    def text(self) -> str:
        """One sentence, without a full stop."""
        return (
            f"{self.measure} is {self.mean:.3f} on the {count_noun(self.n, 'row')} with "
            f"{self.by} = {self.value}, and {self.rest:.3f} on the {self.others} others"
        )


@dataclass(frozen=True, slots=True)
class WeakRow:
    """A row with a low value, or without one: its id, question, value and state."""

    measure: str
    id: str
    question: str
    value: float | None
    state: str


def weak_slices(results: Sequence[RowResult], measures: Iterable[str]) -> tuple[WeakSlice, ...]:
    """Return slices proven weaker than the other rows, the most points lost first.

    Fields are the persona and the metadata of the rows. The test is that of a sample mean drawn
    without replacement (normal approximation), corrected for all slices and measures (Bonferroni).
    """
    tested = [(part, name) for name in measures for part in _slices_of_measure(results, name)]
    weak = []
    for part, name in tested:
        lost = (part.rest - part.mean) * (1 if _is_upward(name) else -1)
        p = min(1.0, part.p * len(tested))
        if lost > 0 and p < _LEVEL:
            weak.append((lost * part.n, replace(part, p=round(p, 6))))
    return tuple(part for _, part in sorted(weak, key=lambda pair: (-pair[0], pair[1].value)))


def _is_upward(measure: str) -> bool:
    scale = find_scale(measure)
    return scale is None or scale.higher_is_better


def _slices_of_measure(results: Sequence[RowResult], measure: str) -> Iterator[WeakSlice]:
    """Return every slice with its uncorrected p."""
    members: dict[str, dict[str, list[float]]] = {}
    values: list[float] = []
    for result in results:
        row = result.row
        value = next((s.value for s in result.scores if s.measure == measure), None)
        if value is None or row is None:
            continue
        values.append(value)
        for by in ("persona_name", *(name for name in row.metadata if name not in _MARKS)):
            for field_value in row_values(row, by):
                members.setdefault(by, {}).setdefault(field_value, []).append(value)
    total, count = sum(values), len(values)
    spread = stdev(values) if count >= 2 * _FEWEST else 0.0
    for by, groups in members.items():
        if not spread or not 2 <= len(groups) <= _MOST_VALUES:
            continue
        for name, sliced in groups.items():
            n, others = len(sliced), count - len(sliced)
            if name and min(n, others) >= _FEWEST:
                mean, rest = sum(sliced) / n, (total - sum(sliced)) / others
                z = (mean - total / count) / (spread * math.sqrt((1 - n / count) / n))
                p = math.erfc(abs(z) / math.sqrt(2))
                yield WeakSlice(measure, by, name, mean, n, rest, others, p)


def weak_rows(
    results: Iterable[RowResult],
    measure: str,
    *,
    below: float | None = None,
    most: int = _MOST_WEAK,
) -> tuple[WeakRow, ...]:
    """Return the rows that score worst, worst first; rows that failed are first.

    Args:
        results: Stored results.
        measure: Their measure.
        below: Only rows worse than this bound; None for all that do not have the best value.
        most: Most rows.
    """
    scale = find_scale(measure)
    sign = 1 if _is_upward(measure) else -1
    best = None if scale is None else scale.high if sign > 0 else scale.low
    bound = best if below is None else below
    ordered: list[tuple[float, WeakRow]] = []
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
                ordered.append((merit, row))
    return tuple(row for _, row in sorted(ordered, key=lambda pair: pair[0])[:most])
