"""Results as text and as documented JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from typer import Exit

from .. import experiment, flow, measure, models, report
from ..answer import NO_MODEL_LINE, marks_of_answer
from ..core import Answer, Citation, ConfigError, Hit, Row, Snippet, Usage, count_noun, require
from ..experiment import Evaluation, RowResult, SweepForecast
from ..flow import Forecast, Progress, Range, TraceEntry
from ..ingest import failure_lines
from ..measure import Summary
from ..project import IngestProgress, IngestReport, Session
from ..retrieve import Explanation, Retrieved
from ..workbench import Workbench
from ._console import MARKED, Console, ProgressStep, table, width
from ._flags import Flags

Result = TypeVar("Result")

Counted: TypeAlias = tuple[int, int, str]
"""Finished amount, total and unit."""


def turn_lines(turns: Iterable[tuple[str, str]]) -> list[str]:
    """The turns of a prompt as text: the role, and below it the text."""
    return [f"{role}:\n{textwrap.indent(text, '  ')}" for role, text in turns]


def place(hit: Hit | Citation) -> str:
    """The place of a passage: source, page, characters, and the confidence of OCR."""
    page = f", page {hit.page}" if hit.page is not None else ""
    return (
        f"{hit.source}{page}, characters {hit.start}-{hit.end}"
        f"{_ocr(hit.ocr if isinstance(hit, Citation) else hit.ocr_at(hit.page))}"
    )


def _ocr(confidence: float | None) -> str:
    return "" if confidence is None else f" (OCR, confidence {confidence:.2f})"


def hits_text(retrieved: Retrieved, why: Explanation | None = None) -> str:
    """Hits as text: rank, score per channel, place, the beginning of the text.

    With an explanation also the terms, and per hit its matches and relaxation level.
    """
    blocks = [] if why is None else [_search_text(retrieved, why)]
    for hit in retrieved.hits:
        channels = "  ".join(
            f"{name} #{c.rank} {c.score:.3f}" for name, c in sorted(hit.channels.items())
        )
        head = f"{hit.rank}. {hit.title or hit.document_id}   [{channels or f'{hit.score:.4f}'}]"
        lines = [place(hit), *([] if why is None else _hit_lines(hit, why))]
        body = excerpt(hit.text, retrieved.query)
        lines.append(textwrap.fill(body, width() - 3))
        blocks.append("\n".join([head, textwrap.indent("\n".join(lines), "   ")]))
    blocks += [] if retrieved.hits else ["no hits"]
    return "\n\n".join([*blocks, *(f"note: {note}" for note in retrieved.notes)])


def _search_text(retrieved: Retrieved, why: Explanation) -> str:
    rows = [
        [why.words.get(term.token, term.token), str(term.chunks), f"{term.idf:.3f}"]
        for term in why.terms
    ]
    weights = why.reason or ", ".join(f"{k} {v:.2f}" for k, v in why.weights.items())
    lines = [
        f"query: {retrieved.query}",
        table([["word", "chunks", "idf"], *rows], right=(1, 2)) if rows else "",
        f"the embedding model sees: {' | '.join(why.pieces)}" if why.pieces else "",
        f"weights: {weights}" if weights else "",
    ]
    lines += [
        f"relaxation level {weight:g} ({', '.join(met) or 'no filter met'}): "
        f"{count_noun(count, 'chunk')}"
        for met, weight, count in why.ladder
    ]
    return "\n".join(filter(None, lines))


def _hit_lines(hit: Hit, why: Explanation) -> list[str]:
    tokens = why.matched.get(hit.chunk_id, ())
    matched = ", ".join(dict.fromkeys(why.words.get(token, token) for token in tokens)) or "-"
    head = textwrap.shorten(" / ".join((why.heads.get(hit.chunk_id) or "").splitlines()), 160)
    seen, rung = why.seen.get(hit.chunk_id), ""
    if hit.rung is not None:
        met, missed = (", ".join(map(str, each)) for each in (hit.rung.met, hit.rung.missed))
        rung = f"level {hit.rung.weight:g}: meets {met or 'none'}; misses {missed or 'none'}"
    near = [
        f"near the query: {score:.3f} {textwrap.shorten(sentence, 120, placeholder=' …')}"
        for score, sentence in why.nearest.get(hit.chunk_id, ())
    ]
    lines = [
        f"score {hit.score:.6f}; matched: {matched}",
        f"searched under: {head}" if head else "",
        "" if seen is None else f"the model sees: {' | '.join(seen[:24])} …",
        *near,
        f"relaxation {rung}" if rung else "",
    ]
    return [line for line in lines if line]


_LINE_MARKS = re.compile(r"\A\s*#\s+|^\s{0,3}(?:#{2,6}\s+|(?:```|~~~).*$)", re.MULTILINE)
"""Marks of headings and of code blocks; a single # within a text mostly begins a comment."""


def excerpt(text: str, query: str, width: int = 320) -> str:
    """Cut the part of a text around the first word of the query in it, else its start.

    On one line, without Markdown's marks of headings and code blocks.
    """
    plain = " ".join(_LINE_MARKS.sub("", text).split())
    low = plain.casefold()
    words = sorted(set(re.findall(r"\w{3,}", query.casefold())), key=lambda w: (-len(w), w))
    begin = max(0, next((low.find(word) for word in words if word in low), 0) - width // 4)
    if begin:
        begin = plain.find(" ", begin) + 1
    return ("… " if begin else "") + textwrap.shorten(plain[begin:], width, placeholder=" …")


def answer_text(answer: Answer, streamed: bool = False) -> str:
    """An answer as text: text, sources, how it was made."""
    origin = _origin(answer)
    lines = [f"[{answer.persona}]  ({origin})" if answer.persona else f"({origin})"]
    marks = marks_of_answer(answer)
    if answer.snippets:
        lines += snippet_lines(
            answer.snippets, {cited.chunk_id: cited.ocr for cited in answer.citations}
        )
    elif not streamed:
        lines.append(_wrapped(marks.text))
    if marks.spans and not answer.snippets:
        lines += ["sources:", *(f"  [{s.number}] {place(s.citation)}" for s in marks.spans)]
    lines += [] if answer.promise is None else [answer.promise.line]
    said = "In no document" in answer.text
    notes = [n for n in answer.notes if not (said and n.startswith("no keyword hits: not in"))]
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines)


def snippet_lines(snippets: Sequence[Snippet], ocr: Mapping[str, float | None]) -> list[str]:
    """Snippets as text: heading, place, and the units with the best sentence marked."""
    lines = [NO_MODEL_LINE]
    for number, snippet in enumerate(snippets, 1):
        page = f", page {snippet.page}" if snippet.page is not None else ""
        text, (start, end) = snippet.text, snippet.marked
        lines += [
            "",
            (f"[{number}] {snippet.heading}\n    " if snippet.heading else f"[{number}] ")
            + f"{snippet.source}{page}, characters {snippet.start}-{snippet.end}"
            + _ocr(ocr.get(snippet.chunk_id)),
            textwrap.indent(
                f"{text[:start]}{MARKED[0]}{text[start:end]}{MARKED[1]}{text[end:]}", "    "
            ),
        ]
    return lines


def _wrapped(text: str) -> str:
    """Wrap a text to the terminal; lines of code are not changed."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = line.startswith(("```", "~~~"))
        lines.append(line if fenced or fence else textwrap.fill(line, width()))
        fenced ^= fence
    return "\n".join(lines)


def _origin(answer: Answer) -> str:
    """Who wrote the text of an answer, and the route if it is not the index."""
    if answer.route == "index" and not (answer.hits or answer.cached or answer.usage.calls):
        origin = "no model was asked"
    elif answer.model != models.NO_MODEL:
        origin = f"written by {answer.model}{', from the stored reply' if answer.cached else ''}"
    elif answer.route == "none":
        origin = "nothing was looked up"
    else:
        origin = "no model wrote this"
    return origin if answer.route == "index" else f"{origin}; {answer.route}: {answer.route_reason}"


def trace_text(trace: Sequence[TraceEntry]) -> str:
    """Every request of an answer, its prompt, hits, tokens, time and cost."""
    blocks = []
    for number, entry in enumerate(trace, 1):
        state = "stored" if entry.cached else f"{entry.seconds * 1000:.1f} ms"
        blocks.append(f"{number}. {type(entry.request).__name__}  ({state})\n{_detail(entry)}")
    usage = sum((getattr(e.reply, "usage", Usage()) for e in trace if not e.cached), Usage())
    if not usage.calls:
        blocks.append("no call to a model server; nothing was paid for")
    elif len(trace) > 1:
        blocks.append(
            f"total: {count_noun(usage.calls, 'call')}, {usage.prompt_tokens} prompt tokens, "
            f"{usage.completion_tokens} completion tokens, {cost_text(usage)}"
        )
    return "\n\n".join(blocks)


def cost_text(usage: Usage) -> str:
    """What calls cost; a server of this machine without a price counts as 0 in budgets alone."""
    if usage.cost is None or (usage.calls and not usage.cost):
        return "no price known"
    return f"cost {usage.cost:.6f}"


def _detail(entry: TraceEntry) -> str:
    fields = asdict(entry.request)
    turns = [(turn["role"], turn["content"]) for turn in fields.pop("messages", ())]
    lines = [
        f"{name}: {count_noun(len(value), 'text') if isinstance(value, tuple) else value}"
        for name, value in fields.items()
        if value and name not in ("vector", "timeout")
    ]
    lines += turn_lines(turns)
    reply = entry.reply
    if isinstance(reply, flow.ChatReply):
        lines += turn_lines([(f"reply ({reply.finish})", reply.text)])
        lines.append(
            f"tokens: {reply.usage.prompt_tokens} in, {reply.usage.completion_tokens} out, "
            f"{cost_text(reply.usage)}"
        )
    elif isinstance(reply, flow.SearchReply):
        lines += [f"{score:10.4f}  {key}" for key, score in reply.candidates[:10]]
        if len(reply.candidates) > 10:
            lines.append(f"… {len(reply.candidates)} candidates in all")
    lines += [] if entry.error is None else [f"failed: {entry.error}"]
    return textwrap.indent("\n".join(lines), "   ")


def ingest_text(report: IngestReport, seconds: float) -> str:
    """The result of an ingest, with every failure and its reason."""
    counts = report.counts
    lines = [
        f"documents: {counts.added} added, {counts.changed} changed, {counts.unchanged} "
        f"unchanged, {counts.removed} removed, {len(report.failures)} failed"
        + (f", {len(report.skipped)} skipped" if report.skipped else "")
        + (f", {len(report.warnings)} with warnings" if report.warnings else ""),
        f"chunks: {counts.chunks_added} added, {counts.chunks_removed} removed"
        + (f", {report.embedded} embedded" if report.embedded else ""),
        f"time: {seconds:.1f} s",
    ]
    lines += [f"note: {note}" for note in report.notes]
    lines += failure_lines((*report.warnings, *report.skipped, *report.failures))
    return "\n".join(lines)


def stop_if_dry(flags: Flags, forecast: Callable[[], Forecast | SweepForecast]) -> None:
    """With ``--dry-run`` print the forecast, as text or as JSON, and end the command."""
    if flags.dry_run:
        found = forecast()
        flags.console.show(lambda: asdict(found), lambda: forecast_text(found))
        raise Exit


def do_work(
    flags: Flags,
    forecast: Callable[[Workbench], Forecast | SweepForecast],
    work: Callable[[Workbench], Result],
    session: Session | None = None,
) -> Result:
    """Do the work of a command in its project with progress; with ``--dry-run`` show its price."""
    with flags.open(session) as bench:
        stop_if_dry(flags, lambda: forecast(bench))
        with show_progress(flags.console, bench):
            return work(bench)


def show_list(
    flags: Flags, key: str, items: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str
) -> None:
    """Print items as a table of these columns, as ``{key: items}``, or that there are none."""
    rows = [[_cell(item[name]) for name in columns] for item in items]
    head = [name.replace("_", " ") for name in columns]
    first = items[0] if items else {}
    right = [at for at, name in enumerate(columns) if isinstance(first.get(name), int | float)]
    flags.console.show(
        lambda: {key: items}, lambda: table([head, *rows], right, (0,)) if items else empty
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def ingest_step(progress: IngestProgress, runner: Progress) -> ProgressStep:
    """Progress of an ingest: by the chunks to embed, else by bytes of local files or documents.

    The total of the chunks is known once all sources are read; until then it is the count so far.
    """
    counts = f"{count_noun(progress.read, 'document')} read, "
    done, total = progress.bytes_done / 1e6, progress.bytes_total / 1e6 or None
    done = done if total is None else min(done, total)
    unit, known, expected = "MB", "", total
    if progress.texts:
        files = "" if total is None else f"{done:,.1f}/{total:,.1f} MB, "
        known = "" if progress.all_read else f"{progress.texts:,} found so far, "
        counts = f"{files}{counts}"
        done, total = progress.embedded, float(progress.texts) if progress.all_read else None
        unit, expected = "chunks embedded", progress.expected
    elif total is None:
        done, unit, counts = progress.read, "documents read", ""
    scans = progress.scans
    if scans.pages:
        pace = f", {scans.seconds / scans.pages:.1f} s per page"
        counts += f"{count_noun(scans.pages, 'page')} by OCR{pace}, "
    name = scans.current or progress.current
    # the end of a path identifies the file better than its beginning
    current = f"{'…' if len(name) > 36 else ''}{name[-36:]}, " if name else ""
    return ProgressStep(
        done,
        total,
        unit,
        expected=expected,
        cost=runner.cost,
        before=_wait_text(runner),
        after=f"{known}{current}{counts}{progress.unchanged:,} unchanged, "
        f"{progress.failed:,} failed, {count_noun(progress.chunks, 'chunk')} indexed",
    )


def show_progress(
    console: Console,
    bench: Workbench,
    counted: Callable[[], Counted] | None = None,
    line: Callable[[], str | ProgressStep] | None = None,
) -> AbstractContextManager[None]:
    """Show the progress of a project's runner while a block runs, with its warnings.

    ``counted`` returns the finished amount, the total and the unit, if not the run's rows;
    ``line`` the whole line, if it is another one.
    """

    def step() -> ProgressStep:
        rows = runner_step(bench.progress)
        if counted is None:
            return rows
        done, total, unit = counted()
        inner = f"{rows.done:,}/{rows.total:,} {rows.unit} of these, " if rows.total else ""
        return replace(rows, done=done, total=total, unit=unit, after=f"{inner}{rows.after}")

    return console.progress(line or step, lambda: bench.progress.warnings, lambda: bench.progress)


def runner_step(progress: Progress) -> ProgressStep:
    """Progress of a run: by its rows, or by calls if no rows are known."""
    before = _wait_text(progress)
    counts = f"{progress.reused:,} reused, {progress.retries:,} retries"
    if not progress.total and not progress.finished:
        return ProgressStep(
            progress.calls, None, "calls", cost=progress.cost, before=before, after=counts
        )
    return ProgressStep(
        progress.finished,
        progress.total,
        progress.unit,
        cost=progress.cost,
        before=before,
        after=f"{count_noun(progress.calls, 'call')}, {counts}",
    )


def _wait_text(progress: Progress) -> str:
    """The current wait, shown first, since the end of a line may be cut."""
    wait = progress.waiting
    if wait is None:
        return ""
    why = f"Retry-After of {wait.lane}" if wait.asked else f"before the next request to {wait.lane}"
    return f"waiting {wait.seconds:.0f} s: {why}; "


def forecast_text(forecast: Forecast | SweepForecast) -> str:
    """A dry run as text."""
    if isinstance(forecast, SweepForecast):
        head = f"trials: {forecast.trials} on {count_noun(forecast.rows, 'row')}"
        invalid = f"; {forecast.invalid} combinations of values are invalid"
        notes = (f"note: {note}" for note in forecast.notes)
        head += invalid if forecast.invalid else ""
        return "\n".join([head, forecast_text(forecast.forecast), *notes])
    lines = [
        f"calls: {_range(forecast.calls)}" + ("" if forecast.calls.exact else "  (branches)"),
        f"answered from stored replies: {forecast.reused}",
        f"prompt tokens: {_range(forecast.prompt_tokens)} (estimated)",
        f"completion tokens: {_range(forecast.completion_tokens)} (estimated)",
        "cost: "
        + ("no price known" if forecast.known_cost is None else _range(forecast.known_cost, 6)),
        "time: "
        + (
            "not known before a first call"
            if forecast.seconds is None
            else f"{_range(forecast.seconds, 1)} s"
        ),
    ]
    lines += [f"  {name}: {count_noun(calls, 'call')}" for name, calls in forecast.models.items()]
    if forecast.uncertain:
        lines.append(
            f"{forecast.uncertain} flows could not be followed to their end: at least this many "
            "calls"
        )
    return "\n".join(lines)


def price_line(forecast: Forecast) -> str:
    """The expected calls and cost in one line, shown before the work begins."""
    named = ", ".join(forecast.models) or "no model"
    cost = "no price is known (`models:`)"
    if forecast.known_cost is not None:
        cost = f"cost {_range(forecast.known_cost, 6)}, estimated"
    stored = f", {forecast.reused} more from stored replies" if forecast.reused else ""
    return (
        f"calling {named}: {_range(forecast.calls)} calls{stored}; {cost}. "
        "--measures selects others, --max-cost limits it"
    )


def _range(value: Range, digits: int = 0) -> str:
    if value.exact:
        return f"{value.expected:.{digits}f}"
    return f"{value.low:.{digits}f} .. {value.expected:.{digits}f} .. {value.high:.{digits}f}"


_QUESTIONS = ".questions.json"
_TABLES = (".csv", ".parquet")
_SUFFIXES = (*_TABLES, ".jsonl", ".json", _QUESTIONS, ".txt")
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
    if kind == ".parquet":
        require("pyarrow.parquet", "records", "writing Parquet files")


def _kind(output: Path | None) -> str:
    name = "" if output is None else output.name.lower()
    return _QUESTIONS if name.endswith(_QUESTIONS) else Path(name).suffix


def show_evaluation(
    flags: Flags,
    evaluation: Evaluation,
    run: str,
    *,
    rows: Sequence[Row] = (),
    few: Sequence[RowResult] = (),
) -> None:
    """Print an evaluation as a table, or in the form that the output file's suffix names.

    ``.csv`` and ``.parquet`` hold a line per row, with question, answer, scores, reasons and
    passages; ``.json`` the document that ``--json --rows`` prints; ``.jsonl`` everything, for
    `compare`, `gate` and `passport`; ``.questions.json`` an object per question with its personas
    inside. Fields to slice by are read from
    ``rows``, else from the rows that the results keep. ``few`` rows are shown one by one below the
    table.
    """
    console, kind = flags.console, _kind(flags.output)
    rows = rows or [result.row for result in evaluation.results if result.row is not None]
    sliced = {field: _sliced(evaluation, rows, field) for field in flags.by or ()}
    if kind in _TABLES:
        console.data(report.row_file(experiment.row_records(evaluation.results, rows), kind))
    elif kind == _QUESTIONS:
        console.json(experiment.question_records(evaluation.results, rows))
    elif kind == ".jsonl":
        console.result(experiment.results_jsonl(evaluation).rstrip("\n"))
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
        blocks = [
            report.counts_block({"rows": evaluation.counts}),
            report.measures_block({"": (*evaluation.summaries, *evaluation.baselines)}),
            *([report.rows_block(few)] if 0 < len(few) <= _FEW else []),
            *(report.measures_block(parts, field) for field, parts in sliced.items()),
        ]
        wide, notes = console.columns(), evaluation.notes
        console.result(report.print_result((), blocks, run=run, notes=notes, width=wide))


_FEW = 10
"""Rows that are shown one by one; in a project all rows are in the run."""


def take_few(flags: Flags, few: list[RowResult]) -> Callable[[RowResult], None] | None:
    """The callback for each row, which keeps them while there are few; None if all are kept."""

    def take(result: RowResult) -> None:
        if len(few) <= _FEW:
            few.append(result)

    rowwise = _kind(flags.output) in {*_TABLES, ".jsonl", ".json", _QUESTIONS}
    return None if flags.by or rowwise or flags.with_rows else take


def say_price(console: Console, forecast: Forecast) -> None:
    """Show the price first: judging costs money, and is the default if a judge is set."""
    if forecast.calls.high:
        console.remark(price_line(forecast))


def _sliced(
    evaluation: Evaluation, rows: Sequence[Row], field: str
) -> dict[str, Sequence[Summary]]:
    measures = [
        measure.set_scale(measure.parse_measure(s.measure), s.scale) for s in evaluation.summaries
    ]
    parts = experiment.slices(evaluation.results, rows, field, measures)
    return {part.value: part.summaries for part in parts}


def is_trusted(evaluation: Evaluation) -> bool:
    """True if at least one measure has a scored row."""
    return any(summary.n for summary in evaluation.summaries)
