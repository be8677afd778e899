"""Results of evaluations in the requested form: a table, or a file of summaries or rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .. import experiment, measure, report
from ..core import ConfigError, Row
from ..experiment import Evaluation, RowResult
from ..flow import Forecast
from ..measure import Summary
from ._console import Console
from ._flags import Flags
from ._show import price_line

_SUMMARY = ".summary.csv"
_TABLES = (".csv", ".parquet", ".xlsx")
_SUFFIXES = (*_TABLES, ".jsonl", ".json", _SUMMARY, ".xml", ".txt")
"""Endings of the file of ``-o``; one without an ending (``/dev/stdout``) gets the table."""


def check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written as its name says, before any call is made.

    Raises:
        ConfigError: Its ending is unknown; the known ones are listed.
        MissingExtraError: A package is missing for it.
    """
    kind = _kind(output)
    if kind and kind not in _SUFFIXES:
        raise ConfigError(
            f"unknown ending {kind!r}", where=f"-o {output}", hint=f"use {', '.join(_SUFFIXES)}"
        )
    report.check_row_file(kind)


def _kind(output: Path | None) -> str:
    name = "" if output is None else output.name.lower()
    return _SUMMARY if name.endswith(_SUMMARY) else Path(name).suffix


def show_evaluation(
    flags: Flags,
    evaluation: Evaluation,
    run: str,
    *,
    rows: Sequence[Row] = (),
    few: Sequence[RowResult] = (),
) -> None:
    """Print an evaluation as a table, or in the form that the output file's suffix names.

    ``.csv``, ``.parquet`` and ``.xlsx`` hold a line per row, with question, answer, scores, reasons
    and passages; ``.json`` the document that ``--json --rows`` prints; ``.jsonl`` everything, for
    `compare`, `gate` and `passport`; ``.summary.csv`` the means; ``.xml`` JUnit. Fields to slice by
    are read from ``rows``, else from the rows that the results keep. ``few`` rows are shown one by
    one below the table.
    """
    console, kind = flags.console, _kind(flags.output)
    rows = rows or [result.row for result in evaluation.results if result.row is not None]
    sliced = {field: _sliced(evaluation, rows, field) for field in flags.by or ()}
    if kind in _TABLES:
        file = report.row_file(experiment.row_records(evaluation.results, rows), kind)
        console.data(file.data)
        if file.note:
            console.remark(f"note: {file.note}")
    elif kind == ".jsonl":
        console.result(experiment.results_jsonl(evaluation).rstrip("\n"))
    elif kind == _SUMMARY:
        console.result(report.summary_csv(evaluation.summaries).rstrip("\n"))
    elif kind == ".xml":
        console.result(report.rows_junit(evaluation.results).rstrip("\n"))
    elif flags.as_json or kind == ".json":
        every = flags.with_rows or kind == ".json"
        console.json(
            report.summary_json(
                evaluation.summaries,
                run=run,
                notes=evaluation.notes,
                slices=sliced,
                baselines=evaluation.baselines,
                rows=experiment.row_records(evaluation.results, rows) if every else None,
                counts=evaluation.counts,
            )
        )
    else:
        shown = (*evaluation.summaries, *evaluation.baselines)
        wide = console.columns()
        opening = report.counts_table(evaluation.counts, wide)
        blocks = [opening] if opening else []
        blocks.append(report.summary_table(shown, notes=evaluation.notes, run=run, width=wide))
        if few:
            blocks.append(report.rows_table(few, wide))
        blocks += [report.slice_table(parts, field, wide) for field, parts in sliced.items()]
        console.result("\n\n".join(blocks))


def rows_shown(flags: Flags) -> bool:
    """True if :func:`show_evaluation` needs the results of rows, not only summaries."""
    rowwise = _kind(flags.output) in {*_TABLES, ".jsonl", ".json", ".xml"}
    return bool(flags.by) or rowwise or flags.with_rows


class FewRows:
    """The first rows of a scoring; in a project all rows are in the run."""

    most = 10

    def __init__(self) -> None:
        self._count = 0
        self._rows: list[RowResult] = []

    def take(self, result: RowResult) -> None:
        """Count a row; keep it while there are few."""
        self._count += 1
        if self._count <= self.most:
            self._rows.append(result)

    @property
    def rows(self) -> Sequence[RowResult]:
        """All rows if they are few, else none."""
        return self._rows if self._count <= self.most else ()

    def each(self, flags: Flags) -> Callable[[RowResult], None] | None:
        """The callback for each row; None, so that all rows are kept, if all are shown."""
        return None if rows_shown(flags) else self.take


def say_price(console: Console, forecast: Forecast) -> None:
    """Show the price first: judging costs money, and is the default if a judge is set."""
    if forecast.calls.high:
        console.remark(price_line(forecast))


def _sliced(
    evaluation: Evaluation, rows: Sequence[Row], field: str
) -> dict[str, Sequence[Summary]]:
    """Summaries of the rows that share a value of a field."""
    measures = [
        measure.set_scale(measure.parse_measure(s.measure), s.scale) for s in evaluation.summaries
    ]
    parts = experiment.slices(evaluation.results, rows, field, measures)
    return {part.value: part.summaries for part in parts}


def is_trusted(evaluation: Evaluation) -> bool:
    """True if at least one measure has a scored row."""
    return any(summary.n for summary in evaluation.summaries)
