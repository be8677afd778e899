"""Plain text tables, JSON documents and CSV of results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..core import Answer, Hit, Score, Snippet, count_noun, csv_lines, make_plain
from ..drafting import DraftBatch
from ..experiment import AnswerCounts, RowResult
from ..measure import (
    LEAST_P,
    Comparison,
    Comparisons,
    GateOutcome,
    MeasureScale,
    Summary,
    name_in_ragas,
)

WIDTH = 100
"""Most characters of a line if possible: a terminal, a log, a mail."""


def text_table(
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    width: int = WIDTH,
    whole: Sequence[int] = (),
) -> str:
    """Lay out rows in columns, the first row underlined; columns in ``right`` are right-aligned.

    If lines would exceed ``width``, cells are wrapped: heads first, then texts. Cells of the
    columns in ``whole`` are not, so that they can be copied.
    """
    widths = _column_widths(rows, right, width, whole)
    lines = []
    for row in rows:
        broken = [  # words are cut only if wider than the column
            [cell] if len(cell) <= size else textwrap.wrap(cell, size) or [""]
            for cell, size in zip(row, widths, strict=True)
        ]
        for cells in zip_longest(*broken, fillvalue=""):
            padded = [
                cell.rjust(size) if at in right else cell.ljust(size)
                for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("  ".join(padded).rstrip())
        if row is rows[0]:
            lines.append("  ".join("-" * size for size in widths))
    return "\n".join(lines)


def _column_widths(
    rows: Sequence[Sequence[str]], right: Sequence[int], width: int, whole: Sequence[int]
) -> list[int]:
    """The width of each column: as needed, with the widest narrowed until all fit."""
    columns = [[len(row[at]) for row in rows] for at in range(len(rows[0]))]
    widths = [max(column) for column in columns]
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        return widths
    numbers = [max((*column[1:], 6)) if at in right else 20 for at, column in enumerate(columns)]
    narrow = [min(floor, 10) for floor in numbers]
    words = [
        max((len(word) for cell in cells for word in cell.split()), default=0)
        for cells in ((row[at] for row in rows) for at in range(len(widths)))
    ]
    # Words are cut only where nothing else makes the lines fit.
    heads = [list(map(max, floors, words)) for floors in (numbers, narrow)]
    for floors in (*heads, numbers, narrow):
        while sum(widths) + 2 * (len(widths) - 1) > width:
            spare = [
                (size, at)
                for at, size in enumerate(widths)
                if size > floors[at] and at not in whole
            ]
            if not spare:
                break
            widths[max(spare)[1]] -= 1
    return widths


def _line(text: str, width: int) -> str:
    """A sentence below a table, with further lines indented."""
    lines = textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def summary_table(
    summaries: Iterable[Summary],
    *,
    notes: Iterable[str] = (),
    run: str = "",
    width: int = WIDTH,
) -> str:
    """Return measures with scale, mean, interval, n and coverage.

    Below: the states of rows without a score, the bounds of the mean with them at the ends of the
    scale, and the histograms of judged measures.
    """
    summaries = tuple(summaries)
    missed = any(s.missed for s in summaries)
    rows = [["measure", *mean_heads(missed), "median", "sd", "n", "coverage"]]
    below: dict[str, list[str]] = {}
    for s in summaries:
        means = (*mean_cells(s, missed), number(s.median), number(s.sd))
        name = name_with_scale(s.measure, s.scale, s.counted)
        rows.append([name, *means, str(s.n), f"{s.coverage:.1%}"])
        for sentence in _describe_mean(s):
            below.setdefault(sentence, []).append(s.measure)
    right = (at for at, head in enumerate(rows[0]) if head not in ("measure", _INTERVAL))
    lines = [text_table(rows, right=tuple(right), width=width)]
    lines += [
        _line(f"{', '.join(measures)}: {sentence}", width) for sentence, measures in below.items()
    ]
    lines += [f"run: {run}"] if run else []
    return "\n".join([*lines, *(_line(f"note: {note}", width) for note in notes)])


_INTERVAL = "95 % interval"


def mean_heads(missed: bool) -> tuple[str, ...]:
    """Return the heads of a mean: two means if systems abstained on rows with gold."""
    if not missed:
        return "mean", _INTERVAL
    return "mean, abstained = worst", _INTERVAL, "mean of answered"


def mean_cells(s: Summary, missed: bool) -> tuple[str, ...]:
    """Return the cells of a summary under :func:`mean_heads`."""
    mean, low, high = s.deciding
    return number(mean), interval(low, high), *((number(s.mean),) if missed else ())


def _describe_mean(s: Summary) -> Iterator[str]:
    """Details of a mean: rows without a score, histogram, clusters."""
    lost = s.lost
    failed = lost.pop("judge_invalid", 0)
    if failed:
        yield judge_failed_text(failed, s.judge_range)
    missing = [f"{state} {count}" for state, count in lost.items()]
    if missing:
        bounds = ""
        if s.n and s.worst is not None and s.best is not None:
            low, high = sorted((s.worst, s.best))
            bounds = f"; mean {low:.4f} to {high:.4f} whatever their scores"
        yield f"without a score: {', '.join(missing)}{bounds}"
    if s.no_gold:
        yield f"without gold, not counted: {s.no_gold} of {sum(s.states.values())} rows"
    if s.missed and s.scale is not None and s.scale.worst is not None:
        yield (
            f"{count_noun(s.missed, 'abstention counts', 'abstentions count')} as "
            f"{s.scale.worst:g} in the first mean (the rows have gold); the other columns are of "
            "the answered rows"
        )
    if s.unanswerable:
        yield f"abstained on unanswerable rows, not counted: {s.unanswerable}"
    if s.histogram:
        yield ", ".join(f"{value}: {count}" for value, count in s.histogram.items())
    if s.stability:
        rows = ", ".join(f"{name} {count}" for name, count in sorted(s.stability.items()))
        yield f"repeated rows: {rows} (right: beyond the middle of the scale in every repeat)"
    if s.clusters is not None:
        yield f"{count_noun(s.n, 'row')} in {s.clusters} clusters"


def judge_failed_text(failed: int, ends: tuple[float, float] | None) -> str:
    """Say on how many rows a judge failed, and how far they could move the mean."""
    moved = (
        "" if ends is None else f"; with their scores the mean is {ends[0]:.4f} to {ends[1]:.4f}"
    )
    return f"the judge failed, judge_invalid {failed}{moved}"


def counts_table(counts: AnswerCounts, width: int = WIDTH) -> str:
    """Return what became of the questions; empty if no answers were asked for."""
    rows = [[what, str(count), f"of {of}"] for what, count, of in counts.lines()]
    return text_table([["outcome", "rows", ""], *rows], right=(1,), width=width) if rows else ""


def rows_table(results: Sequence[RowResult], width: int = WIDTH) -> str:
    """Return a line per row: its value of every measure, or its state if it has none."""
    measures = dict.fromkeys(score.measure for result in results for score in result.scores)
    rows = [["row", "question", *measures]]
    for result in results:
        known = {score.measure: score for score in result.scores}
        question = "" if result.row is None else " ".join(result.row.user_input.split())
        cells = [_score_cell(known.get(name)) for name in measures]
        rows.append([result.row_id, textwrap.shorten(question, 40, placeholder=" …"), *cells])
    return text_table(rows, right=range(2, len(rows[0])), width=width)


def _score_cell(score: Score | None) -> str:
    if score is None:
        return "-"
    return number(score.value) if score.value is not None else score.state


def slice_table(parts: Mapping[str, Sequence[Summary]], by: str, width: int = WIDTH) -> str:
    """Return a line per slice and measure, with mean, interval and n."""
    missed = any(s.missed for summaries in parts.values() for s in summaries)
    rows = [[by, "measure", *mean_heads(missed), "n", "coverage"]]
    for value, summaries in parts.items():
        rows += [
            [
                value or "(none)",
                name_with_scale(s.measure, s.scale, s.counted),
                *mean_cells(s, missed),
                str(s.n),
                f"{s.coverage:.1%}",
            ]
            for s in summaries
        ]
    return text_table(rows, right=(2, *range(4, len(rows[0]))), width=width)


def unequal_depths(comparisons: Comparisons) -> list[str]:
    """Say which measures the two runs have at different depths, and how to score both at one."""
    depths: dict[str, list[int]] = {}
    for name in comparisons.missing:
        stem, mark, depth = name.partition("@")
        if mark and depth.isdigit():
            depths.setdefault(stem, []).append(int(depth))
    shallow = [f"{stem}@{min(each)}" for stem, each in depths.items() if len(each) > 1]
    if not shallow:
        return []
    measures = ",".join(shallow)
    return [
        f"the runs measure different depths. To compare {measures}, score each of them: "
        f"ragwright score RUN --measures {measures}"
    ]


def comparison_table(
    comparisons: Comparisons, *, names: tuple[str, str] = ("A", "B"), width: int = WIDTH
) -> str:
    """Compare B with A, measure by measure, with a sentence for each."""
    a, b = names
    missed = any(c.with_abstained is not None for c in comparisons.measures)
    rows = [["measure", a, b, f"{b} - {a}", *COMPARISON_HEAD]]
    rows[0] += ["both answered", "coverage"] if missed else []
    for c in comparisons.measures:
        answered = (format_signed(c.difference), f"{c.coverage:.1%}") if missed else ()
        rows.append([*comparison_cells(c), *answered])
    lines = [
        *(_line(c.text, width) for c in comparisons.measures),
        "",
        text_table(rows, right=(1, 2, 3, 5, 7, *((8, 9) if missed else ())), width=width),
    ]
    if missed:
        lines.append(_line(ABSTAINED_AT_WORST, width))
    for c in comparisons.measures:
        lines += [f"{c.measure}: {sentence}" for sentence in _describe_difference(c, a, b)]
    only = ((a, comparisons.only_a), (b, comparisons.only_b))
    lines += [f"rows only in {name}, left out: {_some(ids)}" for name, ids in only if ids]
    if comparisons.missing:
        lines.append(f"measures of only one run, left out: {_some(comparisons.missing)}")
        lines += [_line(f"note: {note}", width) for note in unequal_depths(comparisons)]
    return "\n".join(lines)


def _describe_difference(c: Comparison, a: str, b: str) -> Iterator[str]:
    """Details of a comparison: rows left out, and rows whose state changed."""
    if c.only_a or c.only_b:
        only_a = count_noun(c.only_a, "row has", "rows have")
        yield f"{only_a} a score only in {a}, {c.only_b} only in {b}"
    if c.no_gold:
        yield f"{count_noun(c.no_gold, 'row')} without gold for it, left out"
    if c.unanswerable:
        yield f"{c.unanswerable} unanswerable rows where one run abstained, left out"
    for change, ids in c.moved.items():
        yield f"{change} in {count_noun(len(ids), 'row')}: {_some(ids)}"


ABSTAINED_AT_WORST = (
    "An abstention on a row with gold counts as the worst value of the measure. Both answered: the "
    "difference on the rows that both answered, which are the coverage."
)


def interval(low: float | None, high: float | None) -> str:
    """Return both ends, or a dash."""
    return "-" if low is None or high is None else f"{low:.4f} .. {high:.4f}"


COMPARISON_HEAD = ("95 % interval", "p (Holm)", "wins/ties/losses", "n")


def comparison_cells(
    c: Comparison, interval: Callable[[float | None, float | None], str] = interval
) -> list[str]:
    """Return measure, both means, difference, interval, p, wins and rows of what decides."""
    side = c.deciding
    return [
        name_with_scale(c.measure, c.scale, c.counted),
        number(side.mean_a),
        number(side.mean_b),
        format_signed(side.difference),
        interval(side.low, side.high),
        p_cell(side.p_holm),
        f"{side.wins}/{side.ties}/{side.losses}",
        str(side.n),
    ]


def gate_table(outcome: GateOutcome, width: int = WIDTH) -> str:
    """Return each rule with its outcome, and the overall outcome last."""
    rows = [["rule", "outcome", "because"]]
    rows += [[check.rule, check.state, check.reason] for check in outcome.checks]
    hints = dict.fromkeys(f"to do: {check.hint}" for check in outcome.checks if check.hint)
    warnings = [f"warning: {warning}" for warning in outcome.warnings]
    return "\n".join([text_table(rows, width=width), *hints, *warnings, f"gate: {outcome.state}"])


def name_with_scale(measure: str, scale: MeasureScale | None, counted: Iterable[str] = ()) -> str:
    """Return a measure with its scale, since other tools use its name for other scales.

    It also says what a measure of retrieval counted (spans, documents), where lower is better, and
    what ragas calls a measure of the same definition.
    """
    if scale is None:
        return measure
    theirs = name_in_ragas(measure)
    in_ragas = f"; {theirs} in ragas" if theirs else ""
    direction = "" if scale.higher_is_better else ", lower is better"
    kinds = f", {' and '.join(gold)}" if (gold := list(counted)) else ""
    return f"{measure} ({scale}{kinds}{direction}{in_ragas})"


def number(value: float | None) -> str:
    """Return four digits, or a dash if undefined."""
    return "-" if value is None else f"{value:.4f}"


def format_signed(value: float | None) -> str:
    """Return four digits with a sign, or a dash if undefined."""
    return "-" if value is None else f"{value:+.4f}"


def share(value: float | None) -> str:
    """Return a whole percentage, or a dash if undefined."""
    return "-" if value is None else f"{value:.0%}"


def p_cell(value: float | None) -> str:
    """Return a p-value as a cell: four digits, ``< 0.001``, or a dash."""
    return "< 0.001" if value is not None and value < LEAST_P else number(value)


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def make_json(value: Any) -> Any:
    """Return a record as JSON values: its fields by name, lists in place of tuples."""
    return _as_lists(make_plain(value))


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_lists(inner) for key, inner in value.items()}
    return [_as_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


def fields_of(record: Any, *names: str) -> dict[str, Any]:
    """Return fields and properties of a record as JSON values, in this order."""
    return {name: make_json(getattr(record, name)) for name in names}


def group_by_measure(summaries: Iterable[Summary]) -> dict[str, Any]:
    """Return summaries as plain values under their measures."""
    return {
        summary.measure: {
            **{k: v for k, v in make_json(summary).items() if k != "measure"},
            **({"judge_range": list(ends)} if (ends := summary.judge_range) else {}),
        }
        for summary in summaries
    }


def summary_json(
    summaries: Iterable[Summary],
    *,
    run: str = "",
    notes: Iterable[str] = (),
    slices: Mapping[str, Mapping[str, Iterable[Summary]]] | None = None,
    baselines: Iterable[Summary] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
    counts: AnswerCounts | None = None,
) -> dict[str, Any]:
    """The document of ``eval --json``: ``{"measures": {name: {"mean", …}}, "run", "notes"}``.

    ``slices`` (field -> value -> summaries) adds ``"slices"`` of the same shape, ``baselines`` the
    key ``"baselines"`` of the shape of ``"measures"``, ``rows`` the key ``"rows"``, and ``counts``,
    first, ``"outcome"``.
    """
    document: dict[str, Any] = {
        **({"outcome": make_json(counts)} if counts and any(counts.lines()) else {}),
        "measures": group_by_measure(summaries),
        "run": run,
        "notes": list(notes),
    }
    if slices:
        document["slices"] = {
            by: {value: group_by_measure(part) for value, part in values.items()}
            for by, values in slices.items()
        }
    if null := group_by_measure(baselines):
        document["baselines"] = null
    if rows is not None:
        document["rows"] = list(rows)
    return document


def comparison_json(comparisons: Comparisons) -> dict[str, Any]:
    """The document of ``compare --json``; every measure with its verdict and sentence.

    Where a run abstained on rows with gold, ``with_abstained`` is the comparison that decides.
    """
    measures = {
        comparison.measure: make_json(comparison) | {"text": comparison.text}
        for comparison in comparisons.measures
    }
    return {"measures": measures, **fields_of(comparisons, "only_a", "only_b", "missing")}


def gate_json(outcome: GateOutcome) -> dict[str, Any]:
    """The document of ``gate --json``: ``{"outcome", "checks": […], "warnings": […]}``."""
    return {"outcome": outcome.state, **fields_of(outcome, "checks", "warnings")}


def summary_csv(summaries: Iterable[Summary]) -> str:
    """Return a line per measure; the states follow the numbers, one column each."""
    summaries = tuple(summaries)
    states = list(dict.fromkeys(state for summary in summaries for state in summary.states))
    numbers = ("mean", "low", "high", "interval", "median", "sd", "n", "coverage", "worst", "best")
    ends, counts, last = (
        ("scale_low", "scale_high"),
        ("no_gold", "unanswerable"),
        ("counted", "seed"),
    )
    abstained = ("missed", "mean_with_abstained", "low_with_abstained", "high_with_abstained")
    rows: list[Sequence[Any]] = [["measure", *ends, *numbers, *counts, *last, *states, *abstained]]
    rows += [
        [
            summary.measure,
            *((None, None) if summary.scale is None else summary.scale.ends),
            *(getattr(summary, name) for name in (*numbers, *counts)),
            " and ".join(summary.counted),
            summary.seed,
            *(summary.states.get(state, 0) for state in states),
            *(getattr(summary, name) for name in abstained),
        ]
        for summary in summaries
    ]
    return "".join(csv_lines(rows))


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as ``retrieve --json`` prints it."""
    document: dict[str, Any] = make_json(hit)
    return document


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as ``ask --json`` prints it."""
    return {
        **fields_of(answer, "persona", "text", "abstained", "citations"),
        "snippets": [snippet_json(snippet) for snippet in answer.snippets],
        **fields_of(answer, "route", "route_reason", "model", "cached", "usage", "notes"),
        **({} if answer.promise is None else fields_of(answer, "promise")),
        "hits": [hit_json(hit) for hit in answer.hits],
    }


def snippet_json(snippet: Snippet) -> dict[str, Any]:
    """Return a snippet: its text, where its best sentence is in it, and its place."""
    return fields_of(
        snippet,
        *("text", "marked", "document_id", "source", "page", "start", "end", "heading", "score"),
    )


def batch_json(batch: DraftBatch) -> dict[str, Any]:
    """Return a batch as ``draft --json`` prints it."""
    return {
        "batch": batch.number,
        **fields_of(batch, "request", "models", "query", "mode"),
        "hits": [hit_json(hit) for hit in batch.hits],
        "prompts": [
            make_json(prompt)
            | {
                "messages": [
                    {"role": role, "content": content} for role, content in prompt.messages
                ]
            }
            for prompt in batch.prompts
        ],
        "texts": [
            {
                **fields_of(text, "text", "model", "prompt", "marks", "characters", "usage"),
                "cost": text.usage.cost,
            }
            for text in batch.texts
        ],
        **fields_of(batch, "notes", "usage"),
        "cost": batch.usage.cost,
        **fields_of(batch, "cached", "snapshot", "partial"),
    }
