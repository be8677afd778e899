"""Results of rows, their summaries in total and in slices, and flat records of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from itertools import repeat
from typing import Any, TypeVar, cast

from ..core import (
    GoldSpan,
    MeasureError,
    Row,
    Score,
    Usage,
    canonical_json,
    count_noun,
    frame_of,
    html_table,
)
from ..measure import Measure, Summary, Tally, find_scale, is_refusal, read_mark, row_stability
from ..testsets import row_record

T = TypeVar("T")

REFUSALS = ("RejectionRate", "FalseRejectionRate")


@dataclass(slots=True)
class AnswerCounts:
    """Counts of rows, added one by one.

    Attributes:
        rows: All rows.
        answered: Rows with an answer that is no refusal; an empty one is an answer.
        abstained: Rows that the system declined to answer, by its mark or in words.
        failed: Rows without any answer: the system failed, or was not asked. A judge that fails
            leaves them answered.
        unanswerable: Rows marked ``answerable: false``; ``answerable`` likewise.
        rightly_refused: Unanswerable rows that were refused.
        wrongly_answered: Unanswerable rows that were answered.
        wrongly_refused: Answerable rows that were refused.
    """

    rows: int = 0
    answered: int = 0
    abstained: int = 0
    failed: int = 0
    unanswerable: int = 0
    answerable: int = 0
    rightly_refused: int = 0
    wrongly_answered: int = 0
    wrongly_refused: int = 0

    def add(self, result: RowResult) -> None:
        """Count one row."""
        self.rows += 1
        row = result.row
        if row is None or row.response is None:
            self.failed += 1
            return
        values = [score.value for score in result.scores if score.measure in REFUSALS]
        known = [value for value in values if value is not None]
        try:
            refused = any(known) if known else is_refusal(row)
            answerable = read_mark(row, "answerable")
        except MeasureError:  # a mark that is neither true nor false: the scores say so
            refused, answerable = False, None
        self.abstained += refused
        self.answered += not refused
        self.answerable += answerable is True
        self.wrongly_refused += answerable is True and refused
        self.unanswerable += answerable is False
        self.rightly_refused += answerable is False and refused
        self.wrongly_answered += answerable is False and not refused

    def lines(self) -> Iterator[tuple[str, int, int]]:
        """(What, rows, of how many), in order; nothing if no answers were asked for."""
        if self.failed == self.rows:
            return
        yield "answered", self.answered, self.rows
        yield "abstained", self.abstained, self.rows
        if self.failed:
            yield "no answer", self.failed, self.rows
        if self.unanswerable:
            yield "rightly refused", self.rightly_refused, self.unanswerable
            yield "answered although nothing answers", self.wrongly_answered, self.unanswerable
        if self.answerable:
            yield "refused although answerable", self.wrongly_refused, self.answerable


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """The making of an answer: prompt, usage and notes.

    Attributes:
        prompt: Messages sent, role and content; empty for a quoted answer.
        usage: Calls, tokens, money and time of the answer alone, with stored replies as when they
            were made; without judging.
        context_tokens: Tokens of its passages, by the tokens of the embedding model.
        notes: Remarks on dropped, unresolved or substituted parts.
        hits: (source, page, score) of each passage, in the order of the row's contexts.
        citations: The places that it cites, in order of first use.
    """

    prompt: tuple[tuple[str, str], ...] = ()
    usage: Usage = Usage()
    context_tokens: int = 0
    notes: tuple[str, ...] = ()
    hits: tuple[tuple[str, int | None, float], ...] = ()
    citations: tuple[GoldSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class RowResult:
    """Result of one row: its ranking and always one score per measure.

    ``row`` is the row as scored, with the answer and its passages, if answers were scored; a stored
    result with a row can be scored again. ``made`` holds the prompt and usage of the answer.
    ``shared`` holds the shared values of a row that is not stored, by field, for clustering
    (:func:`list_shared_values`).
    """

    row_id: str
    ranking: tuple[str, ...]
    scores: tuple[Score, ...]
    row: Row | None = None
    made: AnswerRecord | None = None
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results of every row in testset order, and their summary per measure.

    ``manifest`` holds what its run pinned: testset, measures, settings; empty if unknown.
    ``baselines`` are summaries of null baselines of a measure. ``counts`` says what became of the
    questions.
    """

    name: str
    summaries: tuple[Summary, ...]
    results: tuple[RowResult, ...]
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    baselines: tuple[Summary, ...] = ()
    counts: AnswerCounts = field(default_factory=AnswerCounts)

    def __getitem__(self, measure: str) -> Summary:
        """The summary of a measure by its text."""
        return {summary.measure: summary for summary in self.summaries}[measure]

    def __repr__(self) -> str:
        """Name, number of rows, and the mean of every measure."""
        means = ", ".join(
            f"{summary.measure} {'none' if summary.mean is None else f'{summary.mean:.4f}'} "
            f"(n={summary.n})"
            for summary in self.summaries
        )
        return f"<Evaluation {self.name!r}: {count_noun(len(self.results), 'row')}; {means}>"

    def _repr_html_(self) -> str:
        """Summary and rows as tables, for a notebook."""
        head = ("measure", "scale", "mean", "from", "to", "n", "coverage")
        lines = ([s.measure, s.scale, *s.deciding, s.n, s.coverage] for s in self.summaries)
        outcome = ", ".join(f"{what} {n} of {of}" for what, n, of in self.counts.lines())
        tables = html_table(head, lines, ": ".join(filter(None, (self.name, outcome)))) + _READ
        if self.results:
            records = row_records(self.results)
            names = (
                "id",
                "user_input",
                "response",
                *(summary.measure for summary in self.summaries),
            )
            tables += html_table(names, ([record[name] for name in names] for record in records))
        return tables + "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)

    def to_records(self) -> list[dict[str, Any]]:
        """One flat record per row; see :func:`row_records`."""
        return row_records(self.results)

    def to_pandas(self) -> Any:
        """A data frame with one line per row: question, answer, scores, reasons, passages.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(self.to_records())


_READ = (
    "<p>mean: an abstention on a row with gold counts as the worst value; from, to: its 95 % "
    "interval; n: rows with a score; coverage: their share of the rows.</p>"
)


def evaluation_of(
    results: Iterable[RowResult],
    measures: Sequence[Measure],
    *,
    name: str = "",
    seed: int = 0,
    clusters: Iterable[Hashable] | None = None,
    each: Callable[[RowResult], None] | None = None,
) -> Evaluation:
    """Summarise results one by one.

    Args:
        results: Read once, in their order.
        measures: Measures of the results, in their order.
        name: Name of the evaluation.
        seed: Seed of the intervals.
        clusters: One per result, if rows are not independent.
        each: Called with every result; the evaluation then holds only summaries: any
            number of rows in bounded memory.
    """
    tallies, counts = [Tally(measure) for measure in measures], AnswerCounts()
    collected: list[RowResult] = []
    take = each or collected.append
    groups = repeat(None) if clusters is None else clusters
    for result, group in zip(results, groups, strict=clusters is not None):
        for tally, score in zip(tallies, result.scores, strict=True):
            tally.add(score, group)
        counts.add(result)
        take(result)
    return Evaluation(
        name, tuple(tally.summary(seed) for tally in tallies), tuple(collected), counts=counts
    )


@cache
def _reader(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_plain(kind: type[T], values: Mapping[str, Any]) -> T:
    """Rebuild a record from its JSON values, which :func:`ragwright.core.make_plain` returned.

    Raises:
        ValueError: The values are not those of such a record.
    """
    return cast(T, _reader(cast(Any, kind)).validate_python(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run of rows.

    Attributes:
        resume: Continue the newest unfinished run of the same rows, settings and snapshot.
        retry_errors: Also run failed rows and rows with an errored score again; stored replies are
            reused, so only missing ones are requested.
        seed: Seed of flips and intervals.
        name: Name of the run, empty for its id alone.
    """

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions(RunOptions):
    """Options of an evaluation.

    Attributes:
        answers: Write answers and score them, as the command does; False: only rankings are scored.
        vectors_vary: The index may lack vectors that another trial's index has: `ChunkScore` is
            then not applicable instead of refused.
    """

    answers: bool = True
    vectors_vary: bool = False


_FIRST = ("id", "user_input", "response", "reference")
_MARKS = {"no_gold": " (no gold)", "unanswerable": " (unanswerable)"}
"""Marks of a score, after its state."""


def row_records(results: Iterable[RowResult], rows: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """Return one flat record per row, all with the same keys in the same order.

    ``id, user_input, response, reference``, and ``answered`` if a row has no answer; one key per
    measure with its value or None; passages, gold and persona if a row has them; text and number
    columns of the rows' metadata, the rest of it under ``metadata``; then
    ``MEASURE state``, ``MEASURE reason`` and, from judges, ``MEASURE detail`` and, of repeated
    judgments, ``MEASURE stability``. The state of a row
    without gold ends with ``(no gold)``. Records can be scored again (:func:`evaluate`).

    Args:
        results: Results of rows.
        rows: The rows of the test set, for results that store none: rankings, failed rows.
    """
    rows_by_id = {row.id: row for row in rows}
    parts = [_record(result, rows_by_id.get(result.row_id)) for result in results]
    records = [{**record, **scores, **details} for record, scores, details in parts]
    keys = [name for record, _, _ in parts for name in record if name != "answered"]
    unanswered = [] if all(record["answered"] for record, _, _ in parts) else ["answered"]
    measures = [name for _, scores, _ in parts for name in scores]
    reasons = [name for _, _, details in parts for name in details]
    order = dict.fromkeys((*_FIRST, *unanswered, *measures, *keys, *reasons))
    return [{name: record.get(name) for name in order} for record in records]


def question_records(results: Iterable[RowResult], rows: Iterable[Row] = ()) -> list[Any]:
    """Return one object per question, whose ``personas`` are its records of :func:`row_records`."""
    questions: dict[str, dict[str, Any]] = {}
    for record in row_records(results, rows):
        asked: dict[str, Any] = {
            name: record.pop(name) for name in ("user_input", "history") if name in record
        }
        question = questions.setdefault(canonical_json(asked), {**asked, "personas": []})
        question["personas"].append({"persona_name": "", **record})
    return list(questions.values())


def _record(
    result: RowResult, testset_row: Row | None
) -> tuple[dict[str, Any], dict[str, float | None], dict[str, str]]:
    """Return the row's own keys, its values, and the reasons for missing values."""
    row = result.row if result.row is not None and result.row.user_input else testset_row
    row = row or result.row or Row(result.row_id, "")
    if result.row is None and result.ranking:
        row = replace(row, retrieved_context_ids=result.ranking)
    scores = {score.measure: score.value for score in result.scores}
    details: dict[str, str] = {}
    for score in result.scores:
        marks = "".join(text for name, text in _MARKS.items() if getattr(score, name))
        details[f"{score.measure} state"] = score.state + marks
        details[f"{score.measure} reason"] = score.reason
        if score.detail:
            details[f"{score.measure} detail"] = score.detail
        if stability := row_stability(score, find_scale(score.measure)):
            details[f"{score.measure} stability"] = stability
    record = row_record(row)
    metadata: Mapping[str, Any] = record.pop("metadata", {})
    known_keys = {*record, *scores, *details, *_FIRST, "answered", "metadata"}
    columns = {  # the user's own texts and numbers
        name: value
        for name, value in metadata.items()
        if isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and not name.startswith("ragwright:")
        and name not in known_keys
    }
    rest = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in metadata.items()
        if name not in columns
    }
    lists = {n: list(v) if isinstance(v, tuple) else v for n, v in record.items()}
    lists["answered"] = row.response is not None
    return {**lists, **columns, **({"metadata": rest} if rest else {})}, scores, details
