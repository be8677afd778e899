"""Evaluations, comparisons, gates and leaderboards as blocks, text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import shorten
from typing import Any, Literal, TypeAlias

from ..core import GoldSpan, Score, count_noun, make_plain
from ..experiment import AnswerCounts, Evaluation, RowResult, StudyVerdict, WeakRow, weak_rows
from ..measure import Comparisons, GateOutcome, Summary, p_text, parse_rule
from ._charts import intervals, whisker
from ._subject import Subject
from ._text import (
    WIDTH,
    ResultBlock,
    fields_of,
    format_signed,
    interval,
    name_with_scale,
    number,
    p_cell,
    print_result,
    shorten_list,
    shorten_names,
)


def measures_block(groups: Mapping[str, Iterable[Summary]], by: str = "") -> ResultBlock:
    """Return a line per measure: scale, mean, interval, n and coverage.

    The remarks hold the states of rows without a score, the bounds of the mean with them at the
    ends of the scale, and the histograms of judged measures.

    Args:
        groups: Group of rows -> its summaries.
        by: What tells the groups apart, the head of a first column; then there are no remarks.
    """
    pairs = [(group, s) for group, summaries in groups.items() for s in summaries]
    missed = any(s.missed for _, s in pairs)
    means = ("mean, abstained = worst", _INTERVAL, "mean of answered")
    rows = [
        (
            *((group or "(none)",) if by else ()),
            name_with_scale(s.measure, s.scale, s.counted),
            number(s.deciding[0]),
            interval(*s.deciding[1:]),
            *((number(s.mean),) if missed else ()),
            number(s.median),
            number(s.sd),
            str(s.n),
            f"{s.coverage:.1%}",
        )
        for group, s in pairs
    ]
    remarks: dict[str, list[str]] = {}
    for _, s in () if by else pairs:
        for sentence in _describe_mean(s):
            remarks.setdefault(sentence, []).append(s.measure)
    heads = (*((by,) if by else ()), "measure", *(means if missed else ("mean", _INTERVAL)))
    return ResultBlock(
        f"measures-{by}" if by else "measures",
        "",
        "",
        (*heads, "median", "sd", "n", "coverage"),
        tuple(rows),
        remarks=tuple(f"{', '.join(names)}: {sentence}" for sentence, names in remarks.items()),
    )


_INTERVAL = "95 % interval"


def summary_table(
    summaries: Iterable[Summary], *, notes: Iterable[str] = (), run: str = "", width: int = WIDTH
) -> str:
    """Return :func:`measures_block` of one group as text, with the run and notes below."""
    return print_result((), [measures_block({"": summaries})], run=run, notes=notes, width=width)


def _describe_mean(s: Summary) -> list[str]:
    lost, bounds = s.lost, ""
    failed = lost.pop("judge_invalid", 0)
    lost = {} if lost == {"abstained": s.missed} else lost  # the line of abstentions counts them
    missing = ", ".join(f"{state} {count}" for state, count in lost.items())
    if s.n and s.worst is not None and s.best is not None:
        low, high = sorted((s.worst, s.best))
        bounds = f"; mean {low:.4f} to {high:.4f} whatever their scores"
    worst = None if s.scale is None else s.scale.worst
    stable = ", ".join(f"{name} {count}" for name, count in sorted(s.stability.items()))
    details: list[tuple[object, str]] = [
        (failed, judge_failed_text(failed, s.judge_range)),
        (missing, f"without a score: {missing}{bounds}"),
        (s.no_gold, f"without gold, not counted: {s.no_gold} of {sum(s.states.values())} rows"),
        (
            s.missed and worst is not None,
            f"{count_noun(s.missed, 'abstention counts', 'abstentions count')} as {worst or 0:g} "
            "in the first mean (the rows have gold); the other columns are of the answered rows",
        ),
        (s.unanswerable, f"abstained on unanswerable rows, not counted: {s.unanswerable}"),
        (s.histogram, ", ".join(f"{value}: {count}" for value, count in s.histogram.items())),
        (
            stable,
            f"repeated rows: {stable} (right: beyond the middle of the scale in every repeat)",
        ),
        (s.clusters is not None, f"{count_noun(s.n, 'row')} in {s.clusters} clusters"),
    ]
    return [text for known, text in details if known]


def judge_failed_text(failed: int, ends: tuple[float, float] | None) -> str:
    """Say on how many rows a judge failed, and how far they could move the mean."""
    moved = (
        "" if ends is None else f"; with their scores the mean is {ends[0]:.4f} to {ends[1]:.4f}"
    )
    return f"the judge failed, judge_invalid {failed}{moved}"


def counts_block(counts: Mapping[str, AnswerCounts]) -> ResultBlock:
    """Return what became of the questions of each run; no lines if no answers were asked for."""
    sides = [{what: f"{n} of {of}" for what, n, of in side.lines()} for side in counts.values()]
    rows = (
        (what, *(side.get(what, "-") for side in sides)) for what in dict.fromkeys(chain(*sides))
    )
    return ResultBlock("outcome", "", "", ("outcome", *shorten_names(*counts)), tuple(rows))


def rows_block(results: Sequence[RowResult]) -> ResultBlock:
    """Return a line per row: its value of every measure, or its state if it has none."""
    measures = dict.fromkeys(score.measure for result in results for score in result.scores)
    rows = []
    for result in results:
        known = {score.measure: score for score in result.scores}
        question = "" if result.row is None else " ".join(result.row.user_input.split())
        cells = (_score_cell(known.get(name)) for name in measures)
        rows.append((result.row_id, shorten(question, 40, placeholder=" …"), *cells))
    return ResultBlock("rows", "", "", ("row", "question", *measures), tuple(rows))


def _score_cell(score: Score | None) -> str:
    if score is not None and score.value is None:
        return score.state
    return number(None if score is None else score.value)


def comparison_block(comparisons: Comparisons, names: tuple[str, str]) -> ResultBlock:
    """Return a line per measure that compares the second with the first, and its interval drawn."""
    a, b = shorten_names(*names)
    sides = [(c, c.deciding) for c in comparisons.measures]
    rows = [
        (
            name_with_scale(c.measure, c.scale, c.counted),
            number(side.mean_a),
            number(side.mean_b),
            format_signed(side.difference),
            interval(side.low, side.high),
            p_cell(side.p_holm),
            f"{side.wins}/{side.ties}/{side.losses}",
            str(side.n),
        )
        for c, side in sides
    ]
    points = [
        whisker(c.measure, side.difference, side.low, side.high)
        for c, side in sides
        if side.difference is not None
    ]
    head = ("measure", a, b, "difference", _INTERVAL, "p (Holm)", "wins/ties/losses", "n")
    return ResultBlock(
        "differences",
        "",
        "Difference of the means on the rows both have, with its 95 % interval. An interval that "
        "contains 0 proves no change.",
        head,
        tuple(rows),
        intervals(points, x="difference") if points else None,
        "rows",
        tuple(_describe_differences(comparisons, a, b)),
    )


def comparison_table(
    comparisons: Comparisons, *, names: tuple[str, str] = ("A", "B"), width: int = WIDTH
) -> str:
    """Compare B with A, measure by measure, with a sentence for each."""
    return print_result(
        (c.text for c in comparisons.measures), [comparison_block(comparisons, names)], width=width
    )


def _describe_differences(comparisons: Comparisons, a: str, b: str) -> list[str]:
    said: dict[str, list[str]] = {}
    for c in comparisons.measures:
        only_a = count_noun(c.only_a, "row has", "rows have")
        without, silent = count_noun(c.no_gold, "row"), f"{c.unanswerable} unanswerable rows"
        alone = (c.only_a or c.only_b) and not c.moved  # else the rows are named
        facts: list[tuple[object, str]] = [
            (alone, f"{only_a} a score only in {a}, {c.only_b} only in {b}"),
            (c.no_gold, f"{without} without gold for it, left out"),
            (c.unanswerable, f"{silent} where one run abstained, left out"),
            *(
                (ids, f"{change} in {count_noun(len(ids), 'row')}: {shorten_list(ids)}")
                for change, ids in c.moved.items()
            ),
        ]
        for text in (text for known, text in facts if known):
            said.setdefault(text, []).append(c.measure)
    missing = comparisons.missing
    details: list[tuple[object, str]] = [
        (names, f"{', '.join(names)}: {text}") for text, names in said.items()
    ]
    details += [
        (ids, f"rows only in {name}, left out: {shorten_list(ids)}")
        for name, ids in ((a, comparisons.only_a), (b, comparisons.only_b))
    ]
    left = f"measures of only one run, left out: {shorten_list(missing)}"
    details.append((missing, f"{left} (eval --measures names the same ones for both)"))
    return [text for known, text in details if known]


def rules_block(outcome: GateOutcome) -> ResultBlock:
    """Return each rule of a gate with its outcome; the remarks say what to do."""
    hints = dict.fromkeys(f"to do: {check.hint}" for check in outcome.checks if check.hint)
    rows = tuple((check.rule, check.state, check.reason) for check in outcome.checks)
    remarks = (*hints, *(f"warning: {warning}" for warning in outcome.warnings))
    return ResultBlock("rules", "", "", ("rule", "outcome", "because"), rows, remarks=remarks)


def gate_table(outcome: GateOutcome, width: int = WIDTH) -> str:
    """Return each rule with its outcome, and the overall outcome last."""
    return f"{rules_block(outcome).text(width)}\ngate: {outcome.state}"


def verdict_block(verdict: StudyVerdict) -> ResultBlock:
    """Return the effect of each confirmed trial on the tune split and on the held-out rows."""
    rows = []
    for trial in verdict.confirmations:
        for split, comparison in (("tune", trial.tune), ("confirm", trial.confirmed)):
            if comparison is not None:
                side, last = comparison.deciding, split == "confirm"
                rows.append(
                    (
                        f"{trial.trial} {trial.objective}, {split} split",
                        str(side.n),
                        number(side.mean_a),
                        number(side.mean_b),
                        format_signed(side.difference),
                        interval(side.low, side.high),
                        p_cell(trial.p if last else side.p),
                        trial.outcome if last else "",
                    )
                )
    selection = verdict.selection
    optimism = (
        f"expected optimism from picking the best of {selection.candidates}: at least "
        f"{selection.optimism:.4f}; lead without it: at most {selection.expected:+.4f} "
        f"({p_text(selection.p)}, corrected for the choice)"
    )
    head = ("", "rows", "current", "trial", "difference", _INTERVAL, "p", "")
    return ResultBlock("confirmed", "", "", head, tuple(rows), remarks=(optimism,) if rows else ())


def verdict_table(verdict: StudyVerdict, run: str = "", width: int = WIDTH) -> str:
    """Return the verdict as text; below it the two splits side by side."""
    blocks = [verdict_block(verdict)]
    return print_result([verdict.text], blocks, run=run, notes=verdict.notes, width=width)


def verdict_json(verdict: StudyVerdict, run: str = "") -> dict[str, Any]:
    """The document of ``confirm --json``."""
    selection = make_plain(verdict.selection) | {"expected": verdict.selection.expected}
    rest = fields_of(verdict, "confirmations", "openings", "notes")
    return {"text": verdict.text, "selection": selection, **rest, "run": run}


def weak_of(subject: Subject) -> list[WeakRow]:
    """Return the lowest rows of a run, or of the compared entry of a report."""
    entry = subject.focus[-1] if subject.focus else None
    if entry is None or not entry.rows or subject.baselines:
        return []
    results = list(entry.read())
    return [row for name in subject.measures for row in weak_rows(results, name, most=5)]


def failing(results: Sequence[RowResult], outcome: GateOutcome) -> list[WeakRow]:
    """Return the lowest rows of the measures whose rules are not met."""
    rows: list[WeakRow] = []
    for check in outcome.checks:
        if check.state != "passed":
            rule = parse_rule(check.rule)
            below = rule.bound if rule.margin is None else None
            rows += weak_rows(results, check.measure, below=below)
    return list(dict.fromkeys(rows))


def weak_blocks(rows: Iterable[WeakRow]) -> list[ResultBlock]:
    """Return a table of low rows, if there are any."""
    scores: dict[tuple[str, str], list[str]] = {}
    for weak in rows:
        value = weak.state if weak.value is None else f"{weak.value:.3f}"
        question = shorten(weak.question, 100, placeholder=" …")
        scores.setdefault((weak.id, question), []).append(f"{weak.measure} {value}")
    ordered = sorted(
        scores.items(), key=lambda row: (row[1][0].endswith(" abstained"), -len(row[1]))
    )
    lines = tuple((*row, ", ".join(low)) for row, low in ordered)
    head = ("row", "question", "low scores")
    block = ResultBlock("worst-rows", "Worst rows", "", head, lines, section="weak")
    return [block] if lines else []


def failing_text(results: Sequence[RowResult], outcome: GateOutcome, width: int = WIDTH) -> str:
    """Return :func:`failing` as a table; empty if every rule is met."""
    return print_result((), weak_blocks(failing(results, outcome)), width=width)


ChangeKind: TypeAlias = Literal[
    "text", "now abstains", "now answers", "lost citations", "new citations", "now fails", "failed"
]

_SHOWN = 20
"""Answers that the text shows."""
_CELL = 160
"""Characters of a question or an answer that the text shows."""


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A row whose answer differs between two runs.

    Attributes:
        row_id: The row.
        user_input: Its question.
        kinds: What differs; ``failed`` if the first run has no answer, ``now fails`` if the second.
        a: Answer of the first run; None if it has none.
        b: Answer of the second run.
        lost: Citations of the first answer, of which the second cites no character.
        gained: Citations of the second answer, of which the first cites no character.
    """

    row_id: str
    user_input: str
    kinds: tuple[ChangeKind, ...]
    a: str | None
    b: str | None
    lost: tuple[GoldSpan, ...] = ()
    gained: tuple[GoldSpan, ...] = ()


def answer_changes(a: Evaluation, b: Evaluation) -> tuple[tuple[AnswerChange, ...], int]:
    """The rows whose answers differ, in the order of the first run, and how many were compared.

    Rows that only one run holds, or that neither answers (those of rankings alone), are not
    compared. Citations are known only of the project's own answers.
    """
    others = {result.row_id: result for result in b.results}
    changes = [
        change
        for result in a.results
        if (other := others.get(result.row_id)) is not None
        and (change := _compare_answers(result, other)) is not None
    ]
    return tuple(change for change in changes if change.kinds), len(changes)


def _compare_answers(a: RowResult, b: RowResult) -> AnswerChange | None:
    if a.row is None or b.row is None or a.row.response is b.row.response is None:
        return None
    texts = a.row.response, b.row.response
    question = a.row.user_input
    if texts[0] is None or texts[1] is None:
        return AnswerChange(
            a.row_id, question, ("failed" if texts[0] is None else "now fails",), *texts
        )
    abstained = [row.metadata.get("abstained") is True for row in (a.row, b.row)]
    cited = [result.made.citations if result.made else () for result in (a, b)]
    lost, gained = _find_uncited(cited[0], cited[1]), _find_uncited(cited[1], cited[0])
    changed: Mapping[ChangeKind, object] = {
        "now abstains": abstained == [False, True],
        "now answers": abstained == [True, False],
        "text": a.row.response_text.strip() != b.row.response_text.strip(),
        "lost citations": lost,
        "new citations": gained,
    }
    kinds = tuple(kind for kind, differs in changed.items() if differs)
    return AnswerChange(a.row_id, question, kinds, *texts, lost, gained)


def _find_uncited(spans: Sequence[GoldSpan], others: Sequence[GoldSpan]) -> tuple[GoldSpan, ...]:
    return tuple(
        span
        for span in spans
        if not any(
            span.document_id == other.document_id
            and span.start < other.end
            and other.start < span.end
            for other in others
        )
    )


def answers_block(
    changes: Sequence[AnswerChange], compared: int, names: tuple[str, str] = ("A", "B")
) -> ResultBlock:
    """How many answers differ and in what, and the first of them."""
    counts = Counter(kind for change in changes for kind in change.kinds)
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
    head = f"answers that differ: {len(changes)} of {compared}{f' ({kinds})' if kinds else ''}"
    rows = tuple(
        (
            change.row_id,
            *(shorten(text or "-", _CELL) for text in (change.user_input, change.a)),
            "the same text" if change.b == change.a else shorten(change.b or "-", _CELL),
            ", ".join(change.kinds),
        )
        for change in changes[:_SHOWN]
    )
    left = len(changes) - len(rows)
    more = (f"{count_noun(left, 'more row')}: --json shows all",) if left else ()
    heads = ("row", "question", *shorten_names(*names), "what differs")
    return ResultBlock("answers", head if compared else "", "", heads, rows, remarks=more)
