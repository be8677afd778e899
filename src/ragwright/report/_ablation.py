"""Results of ablations, of tuning and of promises as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from ..experiment import (
    Ablation,
    Certificate,
    PartEffect,
    PartResult,
    PromiseResult,
    risk_bound,
)
from ..measure import Comparison, Summary
from ..training import TunedTable, TuneResult, TutorialTable
from ._text import (
    WIDTH,
    fields_of,
    format_signed,
    interval,
    make_json,
    name_with_scale,
    number,
    p_cell,
    text_table,
)

HEADS = {
    "leave one out": "Parts left out one at a time: the complete prompt against the one without",
    "preset": "Presets: the complete prompt against the preset; above 0 the complete one is better",
}
"""Design -> heading of its table."""


def ablation_table(ablation: Ablation, *, run: str = "", width: int = 0) -> str:
    """Return the verdict, a table for every measure and design, and the confirm split."""
    text, wide = width or WIDTH, width or _WIDE
    blocks = ["\n".join(fill(line, text) for line in ablation.verdict)]
    measures = dict.fromkeys(effect.measure for part in ablation.parts for effect in part.effects)
    for measure in measures:
        for design in dict.fromkeys(part.design for part in ablation.parts):
            parts = [part for part in ablation.parts if part.design == design]
            blocks.append(_table(measure, design, parts, wide))
    if ablation.openings:
        blocks.append(_confirm_table(ablation, wide))
    tail = [fill(_LEGEND, text)]
    if ablation.never:
        tail.append(fill(f"not in the prompt of any row: {', '.join(ablation.never)}", text))
    tail += [fill(f"note: {note}", text, subsequent_indent="  ") for note in ablation.notes]
    tail += [f"run: {run}"] if run else []
    return "\n\n".join([*blocks, "\n".join(tail)])


_LEGEND = (
    "effect: what the part adds; positive is better. p is corrected for all parts of a "
    "table (Holm), personas separately from all rows. loss up to: the most that deleting it may "
    "cost; safe if that is below the margin for every measure and persona. "
    "tokens: its length in a prompt, by the project's tokenizer."
)


def ablation_json(ablation: Ablation, *, run: str = "", sweep: str = "") -> dict[str, Any]:
    """The document of ``ablate --json``.

    ``{"verdict", "testset", "rows", "personas", "margin", "parts": [{"part", "design", "tokens",
    "cost", "safe", "holds", "state", "effects": […], "confirmed": […]}], "together", "openings",
    "never", "notes", "run", "sweep"}``; differences are in the direction that is good.
    """
    return {
        **fields_of(ablation, "verdict", "testset", "rows", "personas", "margin"),
        "parts": [_part_json(part) for part in ablation.parts],
        "together": None if ablation.together is None else _part_json(ablation.together),
        **fields_of(ablation, "openings", "confirm_rows", "never", "notes"),
        "run": run,
        "sweep": sweep,
    }


_EFFECT = (
    *("measure", "persona", "n", "clusters", "with_part", "without", "difference", "low", "high"),
    *("p", "p_holm", "verdict", "loss", "margin", "within"),
)
"""Keys of an effect."""


def _part_json(part: PartResult) -> dict[str, Any]:
    return {
        **fields_of(part, "part", "design"),
        "trial": None if part.trial is None else f"T{part.trial:03d}",
        **fields_of(part, "tokens", "cost", "safe", "holds", "state"),
        "effects": [fields_of(effect, *_EFFECT) for effect in part.effects],
        "confirmed": [fields_of(effect, *_EFFECT) for effect in part.confirmed],
    }


def _table(measure: str, design: str, parts: Sequence[PartResult], width: int) -> str:
    rows = [["part", "persona", "with", "without", "effect", "95 % interval", "p", "n"]]
    rows[0] += ["loss up to", "tokens", "per 1,000", ""]
    for part in parts:
        effects = [effect for effect in part.effects if effect.measure == measure]
        rows += [_cells(part, effect, first=at == 0) for at, effect in enumerate(effects)]
    # the columns that have values
    kept = [at for at in range(len(rows[0])) if any(row[at] not in ("", "-") for row in rows[1:])]
    rows = [[row[at] for at in kept] for row in rows]
    right = [at for at, name in enumerate(rows[0]) if name in _NUMBERS]
    head = fill(f"{measure}. {HEADS[design]}", WIDTH)
    return f"{head}\n{text_table(rows, right=right, width=width)}"


_WIDE = 140
"""Characters of the widest table, since names of presets are long."""

_NUMBERS = {"with", "without", "effect", "p", "n", "loss up to", "tokens", "per 1,000"}


def _cells(part: PartResult, effect: PartEffect, *, first: bool) -> list[str]:
    verdict: str = effect.verdict
    if part.safe and first:
        verdict = part.state
    elif part.design == "preset" and verdict != "no effect proven":
        verdict = "worse than the complete prompt" if verdict == "helps" else "better"
    several = any(other.persona for other in part.effects)
    return [
        part.label if first else "",
        (effect.persona or "all") if several else "",
        number(effect.with_part),
        number(effect.without),
        format_signed(effect.difference),
        interval(effect.low, effect.high),
        p_cell(effect.p_holm),
        str(effect.n),
        number(effect.loss),
        _short(part.tokens) if first else "",
        _short(part.cost or None) if first else "",
        verdict,
    ]


def _confirm_table(ablation: Ablation, width: int) -> str:
    """Results of the confirm split for each deletion, and for all at once."""
    rows = [
        ["deleted", "measure", "persona", "effect", "95 % interval", "loss up to", "margin", ""]
    ]
    tested: Iterable[PartResult] = [part for part in ablation.parts if part.confirmed]
    for part in [*tested, *([] if ablation.together is None else [ablation.together])]:
        for effect in part.confirmed:
            rows.append(
                [
                    part.part,
                    effect.measure,
                    effect.persona or "all",
                    format_signed(effect.difference),
                    interval(effect.low, effect.high),
                    number(effect.loss),
                    number(effect.margin),
                    "within" if effect.within else "not shown",
                ]
            )
    head = f"The confirm split, {ablation.confirm_rows} held-out rows"
    return f"{head}\n{text_table(rows, right=(3, 5, 6), width=width)}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


_COMPARED = ("measure", "n", "mean_a", "mean_b", "difference", "low", "high", "verdict", "counted")


def write_tuned_headline(tuned: TuneResult) -> str:
    """Return the outcome in one sentence."""
    part = "model" if tuned.part == "embedder" else tuned.part
    article = "an" if part[0] in "aeiou" else "a"
    if tuned.comparison is None:
        trained = tuned.training
        return (
            f"no {part} was written: on the training questions it is not better "
            f"({trained.measure} {trained.before:.3f}, with {article} {part} {trained.after:.3f})"
        )
    held = tuned.comparison
    change = f"{held.measure} {held.mean_a:.3f} -> {held.mean_b:.3f} on {held.n} held-out questions"
    if tuned.path is None:
        return f"no {part} was written: it is not proven better ({change})"
    if not tuned.proven:
        return f"the {part} is kept, although it is not proven better: {change}"
    return f"the {part} is {held.worded}: {change}"


def make_tuned_table(tuned: TuneResult, width: int = 100) -> str:
    """Return the search with and without the tuned part, then further tables."""
    training, held = tuned.training, tuned.comparison
    rows = [
        ["questions", "n", "measure", "without", "with", "difference", "95 % interval"],
        [
            "training",
            str(training.questions),
            training.measure,
            f"{training.before:.3f}",
            f"{training.after:.3f}",
            f"{training.after - training.before:+.3f}",
            training.method,
        ],
    ]
    if held is not None:
        ends = "" if held.low is None else f"{held.low:+.3f} to {held.high:+.3f}"
        figures = (f"{held.mean_a:.3f}", f"{held.mean_b:.3f}", f"{held.difference:+.3f}")
        named = name_with_scale(held.measure, held.scale, held.counted)
        rows.append(["held-out", str(held.n), named, *figures, ends])
    tables = [text_table(rows, right=(1, 3, 4, 5), width=width)]
    tables += [_further(table, width) for table in tuned.tables if table.rows]
    return "\n\n".join(tables)


def _further(table: TunedTable, width: int) -> str:
    cells = [
        [
            f"{value:.3f}" if isinstance(value, float) else "-" if value is None else str(value)
            for value in row
        ]
        for row in table.rows
    ]
    numbers = [
        at
        for at in range(len(table.columns))
        if not any(isinstance(row[at], str) for row in table.rows)
    ]
    return text_table([list(table.columns), *cells], right=numbers, width=width)


def write_tuned_use(tuned: TuneResult, root: Path) -> str:
    """Return the line of ragwright.yaml that uses it; empty if nothing was written."""
    if tuned.path is None:
        return ""
    inside = tuned.path.is_relative_to(root)
    value = tuned.value or str(tuned.path.relative_to(root) if inside else tuned.path)
    section, _, key = tuned.setting.rpartition(".")
    entries = {key: value, **{name: f"{entry:g}" for name, entry in tuned.beside.items()}}
    line = ", ".join(f"{name}: {entry}" for name, entry in entries.items())
    for name in reversed(section.split(".")):
        line = f"{name}: {{{line}}}"
    remark = "" if tuned.proven else "   # not proven better"
    return f"to use it, write in ragwright.yaml: {line}{remark}"


def make_tuned_json(tuned: TuneResult) -> dict[str, Any]:
    """Return ``proven, written, headline, training, held_out`` and further tables as JSON."""
    training, held = tuned.training, tuned.comparison
    path = None if tuned.path is None else str(tuned.path)
    figures = fields_of(training, "questions", "measure", "before", "after", "method")
    return {
        **fields_of(tuned, "part", "proven"),
        "written": path,
        "setting": tuned.setting,
        "value": tuned.value or path,
        "beside": dict(tuned.beside),
        "base": tuned.base,
        "headline": write_tuned_headline(tuned),
        "training": {**figures, **training.settings},
        "held_out": None if held is None else fields_of(held, *_COMPARED),
        **{
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in tuned.tables
        },
        "notes": list(tuned.notes),
    }


_HEADS = {"Rubric(AnswersQuestion)": "answer relevance", "Groundedness": "groundedness"}


def tutorial_table(table: TutorialTable, width: int = 100) -> str:
    """Return means with 95 % intervals and n; below each row its difference from base."""
    measures = [summary.measure for summary in table.rows[0].summaries]
    lines = [["", *map(_head, table.rows[0].summaries)]]
    for row in table.rows:
        if row.skipped:
            lines.append([row.name, f"skipped: {row.skipped}", *[""] * (len(measures) - 1)])
            continue
        lines.append([row.name, *(_cell(summary) for summary in row.summaries)])
        if row.comparisons:
            known = {summary.measure: summary for summary in row.comparisons}
            lines.append(["  against base", *(_change(known.get(name)) for name in measures)])
    return text_table(lines, width=max(width, 60))


def _head(summary: Summary) -> str:
    """A measure, and whether it counted spans or documents."""
    named = _HEADS.get(summary.measure, summary.measure)
    return f"{named} ({' and '.join(summary.counted)})" if summary.counted else named


def _cell(summary: Summary) -> str:
    if summary.mean is None:
        return f"no score, n {summary.n}"
    ends = "" if summary.low is None else f" ({summary.low:.3f} to {summary.high:.3f})"
    covered = "" if summary.coverage >= 1 else f", coverage {summary.coverage:.0%}"
    return f"{summary.mean:.3f}{ends}, n {summary.n}{covered}"


def _change(comparison: Comparison | None) -> str:
    if comparison is None or comparison.difference is None:
        return "not compared"
    ends = "" if comparison.low is None else f" ({comparison.low:+.3f} to {comparison.high:+.3f})"
    return f"{comparison.difference:+.3f}{ends} {comparison.worded}"


def tutorial_json(table: TutorialTable) -> dict[str, Any]:
    """Return the table as JSON: ``testset, rows, notes``; each row with its runs and measures."""
    numbers = ("mean", "low", "high", "n", "coverage", "counted")
    rows = [
        {
            **fields_of(row, "name", "settings", "runs"),
            "skipped": row.skipped or None,
            "measures": {result.measure: fields_of(result, *numbers) for result in row.summaries},
            "against_base": {result.measure: make_json(result) for result in row.comparisons},
        }
        for row in table.rows
    ]
    return {"testset": table.testset, "rows": rows, "notes": list(table.notes)}


def promise_text(promised: PromiseResult, width: int = WIDTH) -> str:
    """The outcome of ``promise`` as text: the sentence, the certificate, the scores tried."""
    lines = [f"Not certified: {promised.reason}."] if promised.certificate is None else []
    if promised.certificate is not None:
        lines += _certificate_lines(promised.certificate)
    if promised.failed is not None and promised.certificate is None:
        failed = promised.failed
        lines.append(
            f"on the confirm split {failed.errors} of {failed.answered} answers were wrong at the "
            "first threshold"
        )
    rows = [["score, on the tune split", "AUC of right over wrong", "expected to answer"]]
    rows += [
        [candidate.score, number(candidate.auc), f"{100 * candidate.coverage:.0f} %"]
        for candidate in promised.candidates
    ]
    lines += ["", text_table(rows, right=(1, 2), width=width)]
    lines += [f"note: {note}" for note in promised.notes]
    return "\n".join(lines)


def promise_json(promised: PromiseResult) -> dict[str, Any]:
    """The document of ``promise --json``."""
    certificate = promised.certificate
    return {
        "certified": certificate is not None,
        "line": "" if certificate is None else certificate.line,
        "certificate": None if certificate is None else certificate_json(certificate),
        **fields_of(
            promised, "reason", "needed", "chance", "failed", "opened", "again", "candidates"
        ),
        "notes": list(promised.notes),
    }


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """A certificate with its coverage, as in ``promise --json``."""
    document: dict[str, Any] = make_json(certificate)
    return document | {"coverage": certificate.coverage}


def promise_status_text(certificate: Certificate, changes: str = "") -> str:
    """The promise in force, and what changed since: as text."""
    lines = _certificate_lines(certificate)
    lines.append(f"state         {'suspended' if changes else 'holds'}")
    if changes:
        lines.append(f"suspended: {changes}; run `ragwright promise --again`")
    return "\n".join([*lines, *(f"note: {note}" for note in certificate.notes)])


def promise_status_json(certificate: Certificate, changes: str = "") -> dict[str, Any]:
    """The document of ``promise --status --json``."""
    return {
        "line": certificate.line,
        "certificate": certificate_json(certificate),
        "suspended": changes,
    }


def _certificate_lines(certificate: Certificate) -> list[str]:
    bound = risk_bound(certificate.errors, certificate.answered, certificate.alpha)
    return [
        f"{certificate.line}.",
        f"certificate   promises/{certificate.number}.json",
        f"threshold     {certificate.score} >= {certificate.threshold:.6g}",
        f"confirm split {certificate.errors} of {certificate.answered} answers wrong; upper bound "
        f"{bound:.4f} with confidence {1 - certificate.alpha:.4g}",
        f"by luck       chance {certificate.luck:.1%}; the chance of passing was "
        f"{certificate.chance:.0%}, both estimated on the tune split",
        f"rule          {certificate.rule}",
    ]
