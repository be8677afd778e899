"""Results of evaluations in the requested form: table, JSON, CSV or JUnit XML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import experiment, measure, report
from ._show import price_line

if TYPE_CHECKING:
    from ..core import Row
    from ..experiment import Evaluation, RowResult
    from ..flow import Forecast
    from ..measure import Summary
    from ._console import Console

Sliced: TypeAlias = "Mapping[str, Mapping[str, Sequence[Summary]]]"


def show_evaluation(
    console: Console,
    evaluation: Evaluation,
    run: str,
    as_json: bool,
    *,
    output: Path | None = None,
    by: Sequence[str] = (),
    rows: Sequence[Row] = (),
    few: Sequence[RowResult] = (),
) -> None:
    """An evaluation as a table, or in the form given by the output file's suffix.

    ``.jsonl`` contains everything about every row, for `compare`, `gate` and `calibrate`;
    ``.csv`` every row's scores, ``.summary.csv`` the means, ``.xml`` JUnit, ``.json`` the
    document that ``--json`` prints. Fields to slice by are read from ``rows``, else from the rows
    that the results keep. ``few`` rows are shown one by one below the table.
    """
    rows = rows or [result.row for result in evaluation.results if result.row is not None]
    sliced = {field: _sliced(evaluation, rows, field) for field in by}
    name = "" if output is None else output.name.lower()
    if name.endswith(".jsonl"):
        console.result(experiment.results_jsonl(evaluation).rstrip("\n"))
    elif name.endswith(".summary.csv"):
        console.result(report.summary_csv(evaluation.summaries).rstrip("\n"))
    elif name.endswith(".csv"):
        console.result(report.rows_csv(evaluation.results).rstrip("\n"))
    elif name.endswith(".xml"):
        console.result(report.rows_junit(evaluation.results).rstrip("\n"))
    elif as_json or name.endswith(".json"):
        console.json(_document(evaluation, run, sliced))
    else:
        shown = (*evaluation.summaries, *evaluation.baselines)
        wide = console.columns()
        blocks = [report.summary_table(shown, notes=evaluation.notes, run=run, width=wide)]
        if few:
            blocks.append(report.rows_table(few, wide))
        blocks += [report.slice_table(parts, field, wide) for field, parts in sliced.items()]
        console.result("\n\n".join(blocks))


def rows_shown(output: Path | None, by: Sequence[str] = ()) -> bool:
    """True if :func:`show_evaluation` needs the results of rows, not only summaries."""
    name = "" if output is None else output.name.lower()
    rowwise = name.endswith((".jsonl", ".csv", ".xml")) and not name.endswith(".summary.csv")
    return bool(by) or rowwise


class FewRows:
    """Takes each row of a scoring and holds a few; in a project all are in the run."""

    most = 10

    def __init__(self) -> None:
        self._count = 0
        self._rows: list[RowResult] = []

    def take(self, result: RowResult) -> None:
        """Count a row; hold it while there are few."""
        self._count += 1
        if self._count <= self.most:
            self._rows.append(result)

    @property
    def rows(self) -> Sequence[RowResult]:
        """The rows where they are few; none where there are more."""
        return self._rows if self._count <= self.most else ()

    def each(
        self, output: Path | None, by: Sequence[str] = ()
    ) -> Callable[[RowResult], None] | None:
        """What gets each row: nothing, so that all are held, where all are shown."""
        return None if rows_shown(output, by) else self.take


def say_price(console: Console, forecast: Forecast) -> None:
    """Judging costs money, and is the default if a judge is set, so the price is shown first."""
    if forecast.calls.high:
        console.remark(price_line(forecast))


def _document(evaluation: Evaluation, run: str, sliced: Sliced) -> dict[str, Any]:
    return report.summary_json(
        evaluation.summaries,
        run=run,
        notes=evaluation.notes,
        slices=sliced,
        baselines=evaluation.baselines,
    )


def _sliced(
    evaluation: Evaluation, rows: Sequence[Row], field: str
) -> dict[str, Sequence[Summary]]:
    """Summaries of the rows that share a value of a field."""
    measures = [
        measure.on_scale(measure.parse_measure(s.measure), s.scale) for s in evaluation.summaries
    ]
    found = experiment.slices(evaluation.results, rows, field, measures)
    return {part.value: part.summaries for part in found}


def trusted(evaluation: Evaluation) -> bool:
    """True if at least one measure has a scored row."""
    return any(summary.n for summary in evaluation.summaries)
