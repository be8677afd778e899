"""The headline of a report: a verdict and its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..core import MeasureError, count_noun
from ..measure import Comparison, Comparisons, compare_rows, find_measure
from ._baseline import shift_text
from ._results import judge_failed_text
from ._subject import ScoredRun, Subject
from ._text import name_with_scale, settings_text


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline of a report.

    Attributes:
        text: One sentence.
        state: ``better``, ``worse``, ``open`` (nothing is proven) or ``plain`` (nothing compared).
        sentences: Further sentences.
        comparisons: The comparison behind it, if two entries are compared.
        names: Names of these two.
    """

    text: str
    state: str = "plain"
    sentences: tuple[str, ...] = ()
    comparisons: Comparisons | None = None
    names: tuple[str, str] = ("", "")


def headline_of(subject: Subject) -> Headline:
    """Return the verdict of a report, from the stored rows of its entries."""
    if subject.ablation is not None:
        first, *others = subject.ablation.verdict or ("No part was left out.",)
        headline = Headline(first, sentences=tuple(others))
    elif not any(entry.rows for entry in subject.entries):
        headline = Headline("Nothing was measured.")
    elif subject.baselines:
        headline = _distances(subject)
    else:
        headline = _study(subject) if subject.kind == "study" else _runs(subject)
    return replace(headline, sentences=(*headline.sentences, *_limits(subject)))


def compare_entries(subject: Subject, a: ScoredRun, b: ScoredRun) -> Comparisons | None:
    """Compare the rows of b with those of a; None if they share no row or no measure."""
    sides = [{row.row_id: row.scores for row in entry.read()} for entry in (a, b)]
    scales = {s.measure: s.scale for entry in (a, b) for s in entry.summaries}
    with suppress(MeasureError):
        return compare_rows(
            *sides, scales=scales, clusters=subject.clusters or None, questions=subject.questions
        )
    return None


def values_of(entry: ScoredRun) -> str:
    """Return the settings of an entry as text."""
    shown = settings_text(entry.shown)
    if entry.values or not shown:
        return shown or "the current settings"
    return f"the current settings ({shown})"


_STATE_OF = {"smaller": "better", "about equal": "plain", "larger": "worse"}


def _distances(subject: Subject) -> Headline:
    """The verdict of a baseline; of two, that of comparing their answers."""
    baselines = subject.baselines[: subject.about]
    if len(baselines) == 1:
        shift = baselines[0].shift
        sides = subject.entries[:2]
        return Headline(
            f"S_e against S_b: {shift.outcome}.",
            _STATE_OF.get(shift.outcome, "open"),
            (shift_text(shift).removeprefix(f"{shift.outcome}. "),),
            compare_entries(subject, *sides),
            (sides[0].label, sides[1].label),
        )
    shifts = tuple(f"{baseline.label}: {shift_text(baseline.shift)}" for baseline in baselines)
    if len({baseline.embedder for baseline in baselines}) > 1:
        text = "The two have different embedding models: their distances cannot be compared."
        ways = [
            f"{baseline.label} {baseline.relative_shift:+.0%}"
            for baseline in baselines
            if baseline.relative_shift is not None
        ]
        share = f"Of the way from S_b to shuffled answers: {', '.join(ways)}." if ways else ""
        return Headline(text, "open", (*([share] if share else []), *shifts))
    headline = _runs(subject)
    return replace(headline, sentences=(*headline.sentences, *shifts))


def _study(subject: Subject) -> Headline:
    best, incumbent = subject.best, subject.entry(subject.incumbent)
    goal = subject.goal
    if best is None:
        failed = sum(entry.state != "done" for entry in subject.entries)
        failures = f"{failed} of {len(subject.entries)} trials failed."
        return Headline("No trial has a result.", sentences=(failures,))
    board = subject.boards[0].entries
    if incumbent is None or incumbent.id not in board or len(board) < 2:
        return Headline(
            f"{best.id} has the best {goal} of {len(board)} trials: {_mean(best, goal)}.",
            sentences=(
                f"{best.id} is {values_of(best)}.",
                "There is no other trial to compare it with.",
            ),
        )
    if best.id == incumbent.id:
        same = sum(
            entry.id in board and entry.id != best.id and entry.value(goal) == best.value(goal)
            for entry in subject.entries
        )
        rest = len(board) - 1 - same
        beside = f", {same} the same" if same else ""
        return Headline(
            f"No trial beats the current settings on {goal}.",
            "open",
            (
                f"The current settings score {_mean(best, goal)}; "
                f"{count_noun(rest, 'trial scores', 'trials score')} less{beside}.",
            ),
        )
    verdict = subject.verdict
    if verdict is not None and verdict.selection.difference <= 0:
        return Headline(verdict.text, "open")
    chosen = best if verdict is None else subject.entry(verdict.selection.best) or best
    confirmed = verdict.confirmations[:1] if verdict is not None else ()
    text = (
        f"Not confirmed yet: {chosen.id} leads the current settings on {goal}, on the "
        f"{subject.questions or 'questions'} that chose it."
    )
    advice = (
        "The best of many trials looks better than it is: `ragwright confirm` compares the two on "
        "held-out questions."
    )
    proven = any(first.outcome in ("better", "worse") for first in confirmed)
    return Headline(
        text if verdict is None else verdict.text,
        confirmed[0].outcome if proven else "open",
        (f"{chosen.id} is {values_of(chosen)}.", *(() if confirmed else (advice,))),
        compare_entries(subject, incumbent, chosen),
        ("current", chosen.id),
    )


def _runs(subject: Subject) -> Headline:
    if subject.diagnosis is not None and subject.diagnosis.verdict:
        first, *rest = subject.diagnosis.verdict
        return Headline(first, sentences=tuple(rest))
    if len(subject.entries) < 2:
        [entry] = subject.entries
        scored = [s for s in entry.summaries if s.n]
        if not scored:
            return Headline(
                f"None of the {entry.rows} rows has a score.",
                sentences=tuple(
                    f"{s.measure}: {_counts(s.states) or 'no row'}." for s in entry.summaries
                ),
            )
        needs = {s.measure: find_measure(s.measure) for s in scored}
        answers = [  # measures of answers against their references
            s
            for s in scored
            if (known := needs[s.measure])
            and {"response", "reference"} <= {*known.definition.needs}
        ]
        lead = (answers or scored)[0]
        name = name_with_scale(lead.measure, lead.scale, lead.counted)
        return Headline(
            f"{name} is {_mean(entry, lead.measure)}.",
            sentences=(
                "One run cannot show an improvement: compare two with `ragwright report A B`.",
            ),
        )
    pair = subject.entries[:2]
    comparisons = compare_entries(subject, *pair)
    names = (pair[0].label or pair[0].id, pair[1].label or pair[1].id)
    if comparisons is None or not comparisons.measures:
        return Headline("The two runs have no scored row in common.", "open", (), None, names)
    proven = [
        comparison
        for comparison in comparisons.measures
        if comparison.verdict != "no change proven"
    ]
    verdicts = {comparison.verdict for comparison in proven}
    state = verdicts.pop() if len(verdicts) == 1 else "open"
    changes = "; ".join(
        f"{comparison.worded} by {_chance_text(comparison)} of {comparison.measure}"
        for comparison in proven
    )
    text = (
        f"{names[1]} compared with {names[0]}: {changes}."
        if proven
        else f"No difference between {names[0]} and {names[1]} is proven."
    )
    evidence = tuple(comparison.text for comparison in comparisons.measures)
    return Headline(text, state, evidence, comparisons, names)


def _limits(subject: Subject) -> tuple[str, ...]:
    often = "once" if subject.openings == 1 else f"{subject.openings} times"
    opened = f"been opened {often} so far" if subject.openings else "not been opened"
    stopped = f"Stopped early: {subject.stopped}. The results below cover only what was finished."
    return (
        *([stopped] if subject.stopped else []),
        *(
            [f"The confirm split of this testset has {opened}."]
            if subject.openings or (subject.kind == "study" and subject.openings == 0)
            else []
        ),
    )


def _chance_text(comparison: Comparison) -> str:
    side = comparison.deciding
    ends = f" (95 % interval {side.low:+.4f} to {side.high:+.4f})" if side.low is not None else ""
    return f"{side.difference:+.4f}{ends}"


def _mean(entry: ScoredRun, name: str) -> str:
    summary, value = entry.summary(name), entry.value(name)
    if summary is None:
        return "unknown" if value is None else f"{value:.4g}"
    mean, low, high = summary.deciding
    ends = f" ({low:.4f} to {high:.4f})" if low is not None else ""
    missed = 0 if summary.mean_with_abstained is None else summary.missed
    lost: Counter[Any] = Counter(summary.lost)
    lost -= Counter(abstained=missed)
    counted, failed = summary.n + missed, lost.pop("judge_invalid", 0)
    rows = count_noun(counted, "row")
    if lost or failed:
        others = [_counts(lost)] if lost else []
        others += [judge_failed_text(failed, summary.judge_range)] if failed else []
        total = counted + failed + sum(lost.values())
        rows = f"{counted} of {total} rows; the others: {'; '.join(others)}"
    if missed and summary.scale is not None:
        abstained = count_noun(missed, "abstention counts", "abstentions count")
        rows += f"; {abstained} as {summary.scale.worst or 0:g}"
    return f"{mean:.4f}{ends} on {rows}"


def _counts(lost: Mapping[Any, int]) -> str:
    return ", ".join(f"{state} {count}" for state, count in lost.items() if count)
