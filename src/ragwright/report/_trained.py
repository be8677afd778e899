"""Results of training and of promises as text and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core import make_plain
from ..experiment import Certificate, PromiseResult, risk_bound
from ..measure import Comparison, Summary
from ..training import TunedTable, TuneResult, TutorialTable
from ._text import WIDTH, ResultBlock, fields_of, name_with_scale, number, print_result

_COMPARED = ("measure", "n", "mean_a", "mean_b", "difference", "low", "high", "verdict", "counted")


def write_tuned_headline(tuned: TuneResult) -> str:
    """Return the outcome in one sentence."""
    part = "model" if tuned.part == "embedder" else tuned.part
    trained, held = tuned.training, tuned.comparison
    if held is None:
        article = "an" if part[0] in "aeiou" else "a"
        return (
            f"no {part} was written: on the training questions it is not better "
            f"({trained.measure} {trained.before:.3f}, with {article} {part} {trained.after:.3f})"
        )
    change = f"{held.measure} {held.mean_a:.3f} -> {held.mean_b:.3f} on {held.n} held-out questions"
    if tuned.path is None:
        return f"no {part} was written: it is not proven better ({change})"
    outcome = held.worded if tuned.proven else "kept, although it is not proven better"
    return f"the {part} is {outcome}: {change}"


def make_tuned_table(tuned: TuneResult, width: int = WIDTH) -> str:
    """Return the search with and without the tuned part, then further tables."""
    training, held = tuned.training, tuned.comparison
    sides = [("training", training.questions, training.measure, training.before, training.after)]
    ends = [training.method]
    if held is not None:
        named = name_with_scale(held.measure, held.scale, held.counted)
        sides.append(("held-out", held.n, named, held.mean_a or 0.0, held.mean_b or 0.0))
        ends.append("" if held.low is None else f"{held.low:+.3f} to {held.high:+.3f}")
    rows = tuple(
        (name, str(n), measure, f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}", end)
        for (name, n, measure, before, after), end in zip(sides, ends, strict=True)
    )
    head = ("questions", "n", "measure", "without", "with", "difference", "95 % interval")
    further = [_further_block(table) for table in tuned.tables if table.rows]
    return print_result((), [ResultBlock("tuned", "", "", head, rows), *further], width=width)


def _further_block(table: TunedTable) -> ResultBlock:
    rows = (
        tuple(
            f"{value:.3f}" if isinstance(value, float) else "-" if value is None else str(value)
            for value in row
        )
        for row in table.rows
    )
    return ResultBlock(table.name, "", "", tuple(table.columns), tuple(rows))


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


def tutorial_table(table: TutorialTable, width: int = WIDTH) -> str:
    """Return means with 95 % intervals and n; below each row its difference from base."""
    first = table.rows[0].summaries
    heads = (
        _HEADS.get(s.measure, s.measure) + (f" ({' and '.join(s.counted)})" if s.counted else "")
        for s in first
    )
    lines: list[tuple[str, ...]] = []
    for row in table.rows:
        if row.skipped:
            lines.append((row.name, f"skipped: {row.skipped}", *[""] * (len(first) - 1)))
            continue
        lines.append((row.name, *map(_mean_text, row.summaries)))
        if row.comparisons:
            known = {comparison.measure: comparison for comparison in row.comparisons}
            lines.append(("  against base", *(_change_text(known.get(s.measure)) for s in first)))
    runs = tuple(f"run: {row.name}: {', '.join(row.runs)}" for row in table.rows if row.runs)
    block = ResultBlock("tutorial", "", "", ("", *heads), tuple(lines), remarks=runs)
    return print_result((), [block], notes=table.notes, width=max(width, 60))


def _mean_text(summary: Summary) -> str:
    if summary.mean is None:
        return f"no score, n {summary.n}"
    ends = "" if summary.low is None else f" ({summary.low:.3f} to {summary.high:.3f})"
    covered = "" if summary.coverage >= 1 else f", coverage {summary.coverage:.0%}"
    return f"{summary.mean:.3f}{ends}, n {summary.n}{covered}"


def _change_text(comparison: Comparison | None) -> str:
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
            "against_base": {result.measure: make_plain(result) for result in row.comparisons},
        }
        for row in table.rows
    ]
    return {"testset": table.testset, "rows": rows, "notes": list(table.notes)}


def promise_text(promised: PromiseResult, width: int = WIDTH) -> str:
    """The outcome of ``promise`` as text: the sentence, the certificate, the scores tried."""
    sentences, failed = [f"Not certified: {promised.reason}."], promised.failed
    if promised.certificate is not None:
        sentences = _certificate_lines(promised.certificate)
    elif failed is not None:
        sentences.append(
            f"on the confirm split {failed.errors} of {failed.answered} answers were wrong at the "
            "first threshold"
        )
    head = ("score, on the tune split", "AUC of right over wrong", "expected to answer")
    rows = (
        (tried.score, number(tried.auc), f"{100 * tried.coverage:.0f} %")
        for tried in promised.candidates
    )
    blocks = [ResultBlock("candidates", "", "", head, tuple(rows))]
    return print_result(sentences, blocks, notes=promised.notes, width=width)


def promise_json(promised: PromiseResult) -> dict[str, Any]:
    """The document of ``promise --json``."""
    certificate = promised.certificate
    names = ("reason", "needed", "chance", "failed", "opened", "again", "candidates", "notes")
    return {
        "certified": certificate is not None,
        "line": "" if certificate is None else certificate.line,
        "certificate": None if certificate is None else _certificate_json(certificate),
        **fields_of(promised, *names),
    }


def _certificate_json(certificate: Certificate) -> dict[str, Any]:
    return {**make_plain(certificate), "coverage": certificate.coverage}


def promise_status_text(certificate: Certificate, changes: str = "") -> str:
    """The promise in force, and what changed since: as text."""
    state = f"state         {'suspended' if changes else 'holds'}"
    why = [f"suspended: {changes}; run `ragwright promise --again`"] if changes else []
    lines = [*_certificate_lines(certificate), state, *why]
    return print_result(lines, (), notes=certificate.notes)


def promise_status_json(certificate: Certificate, changes: str = "") -> dict[str, Any]:
    """The document of ``promise --status --json``."""
    document = _certificate_json(certificate)
    return {"line": certificate.line, "certificate": document, "suspended": changes}


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
