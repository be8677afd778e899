"""`ragwright records`."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from ..core import Hit, count_noun
from ..drafting import DraftBatch, Drafting, DraftRequest, RecordsReport, RefreshOptions
from ..project import IngestProgress
from ..records import CheckReport, Manifest, RefreshProgress, TableName
from ..report import ResultBlock, batch_json, print_result
from ._console import EXIT_ERROR, ProgressStep, width
from ._flags import Flags, takes, tenant_name
from ._show import cost_text, do_work, ingest_step, turn_lines

records_group = typer.Typer(
    help="Turn rows into tables and documents.\n\nThe tables are bronze, silver and gold.",
    no_args_is_help=True,
)

_TABLES: tuple[TableName, ...] = ("bronze", "silver", "gold", "left_out")

_VERSION = Option(None, min=1, help="Read this earlier version.")


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """The options that name another source than the project file."""

    source: Annotated[
        str, Option(help="File, folder, pattern or database address to read instead.")
    ] = ""
    key: Annotated[str, Option(help="Column that identifies a row.")] = ""
    text: Annotated[str, Option(help="Column of the text.")] = ""
    query: Annotated[str, Option(help="Query to read from a database instead.")] = ""

    def refreshing(
        self, engine: str = "", full: bool = False, index: bool = True, dry_run: bool = False
    ) -> RefreshOptions:
        """Options of a refresh from this source."""
        return RefreshOptions(
            self.source, self.key, self.text, self.query, engine, full, index, dry_run
        )


@records_group.command("refresh")
@takes("project overrides as_json quiet output jobs max_cost served dry_run")
def refresh(
    flags: Flags,
    source: SourceFlags,
    engine: str = Option("", help="Where steps run: local, or ray.", show_default=False),
    full: bool = Option(False, "--full", help="Run every step again, also for unchanged rows."),
    index: bool = Option(True, help="Bring the index up to date too."),
    max_chars: int | None = Option(
        None, min=1, help="Leave out clean texts of this length or more, for this refresh."
    ),
) -> int:
    """Bring the tables and the index up to date.

    Unchanged rows cost next to nothing.
    """
    console = flags.console
    started = time.monotonic()
    shown: list[RefreshProgress | IngestProgress] = []

    def line() -> str | ProgressStep:
        if not shown:
            return "opening"
        now = shown[-1]
        if not isinstance(now, RefreshProgress):
            return ingest_step(now, bench.progress)
        if not now.done and not now.total:
            return now.stage
        return ProgressStep(now.done, now.total or None, "rows", before=f"{now.stage}: ")

    options = source.refreshing(engine, full, index, flags.dry_run)
    options = replace(options, max_chars=max_chars)
    with flags.open() as bench, console.progress(line, work=lambda: bench.progress):
        report = bench.records.refresh(options, shown.append)
        folder = bench.records.tables.folder
    console.show(
        report.as_dict,
        lambda: refresh_text(report, time.monotonic() - started, folder, flags.dry_run),
    )
    failed = report.index is not None and report.index.failures
    return EXIT_ERROR if failed else 0


@records_group.command("check")
@takes("project overrides seed as_json quiet output")
def check(
    flags: Flags,
    source: SourceFlags,
    rows: int = Option(
        10_000, min=1, help="Maximum number of rows on which the declarations are tested."
    ),
) -> int:
    """Test the declarations on real rows.

    It shows the first fault, or how often each pattern applies and what is left out.
    """
    with flags.open() as bench:
        report = bench.records.check(source.refreshing(), rows, flags.seed)
    flags.console.show(report.as_dict, lambda: check_text(report))
    return EXIT_ERROR if report.faults else 0


@records_group.command("show")
@takes("project as_json")
def show(
    flags: Flags,
    table: TableName = Argument(help="bronze, silver, gold or left_out."),
    limit: int = Option(10, min=1, help="Number of rows to show."),
    keys: list[str] | None = Option(None, "--key", help="Only the row with this key; repeatable."),
    version: int | None = _VERSION,
) -> None:
    """Show rows of a table."""
    with flags.open() as bench:
        rows = bench.records.rows(table, limit, keys or (), version)
    flags.console.show(lambda: {"table": table, "rows": rows}, lambda: rows_text(rows))


@records_group.command("history")
@takes("project as_json")
def history(flags: Flags) -> None:
    """List the versions of the tables that are kept."""
    with flags.open() as bench:
        versions = bench.records.tables.history()
    fields = ("version", "created", "note", "rows")
    flags.console.show(
        lambda: {"versions": [{f: getattr(v, f) for f in fields} for v in versions]},
        lambda: history_text(versions),
    )


@records_group.command("export")
@takes("project as_json quiet")
def export(
    flags: Flags,
    table: TableName = Argument(help="bronze, silver, gold or left_out."),
    output: Path = Option(
        ..., "--output", "-o", metavar="FILE", help=".parquet, .csv, .jsonl; gold: .chat.jsonl."
    ),
    version: int | None = _VERSION,
) -> None:
    """Write a table to a file for other programs."""
    console = flags.console
    flags.note_export("records export", output)
    with flags.open() as bench:
        console.make_folder_of(output)
        count = bench.records.export(table, output, version)
    if flags.as_json:
        console.json({"table": table, "file": str(output), "rows": count})
    else:
        console.remark(f"{count_noun(count, 'row')} written to {output}")


@takes("project overrides filters served as_json quiet output no_cache jobs max_cost seed dry_run")
def draft_command(
    flags: Flags,
    client: str | None = Option(None, help="Client who sends the texts."),
    ask: str | None = Option(None, help="What the client asks for."),
    topics: list[str] = Option([], "--topic", help="Topic of the texts; repeatable."),
    tones: list[str] = Option([], "--tone", help="Tone of the texts; repeatable."),
    length: str = Option("short", help="Group of lengths: short, medium, long."),
    count: int = Option(5, "-n", "--count", min=1, help="Number of texts from each model."),
    bio: bool = Option(False, "--bio", help="Show models the client's biography."),
    headlines: list[str] = Option(
        [], "--headline", help="News that a text may refer to; repeatable."
    ),
    models: list[str] = Option(
        [], "--model", "-m", help="Model that writes the texts; repeatable."
    ),
    examples: int | None = Option(None, min=1, help="Number of examples in a prompt."),
    pool: int | None = Option(None, min=1, help="Number of records from which examples are taken."),
    scope: str | None = Option(
        None, help="Tenant whose replies and outputs these are.", callback=tenant_name
    ),
    show_prompt: bool = Option(
        False, "--show-prompt", help="Show the prompts without calling a model."
    ),
    save: bool = Option(True, help="Keep prompts and texts as outputs."),
) -> int:
    """Write texts from records in a client's style.

    Lengths are checked, and near copies are marked.
    """
    given = {"--topic": topics, "--tone": tones, "--headline": headlines}
    given |= {"--client": [] if client is None else [client], "--ask": [] if ask is None else [ask]}
    for flag, texts in given.items():
        if not all(text.strip() for text in texts):
            raise BadParameter("it is empty; leave it out to allow any", param_hint=flag)
    request = DraftRequest(client or "", ask or "", tuple(topics), tuple(tones), length, count)
    request = replace(request, headlines=tuple(headlines), bio=bio)
    options = Drafting(tuple(models), show_prompt, save, scope or "", examples=examples, pool=pool)
    return _draft(flags, request, options)


def _draft(flags: Flags, request: DraftRequest, options: Drafting) -> int:
    batch = do_work(
        flags,
        lambda bench: bench.forecast_draft(request, options),
        lambda bench: bench.draft(request, options),
    )
    shows = options.preview
    flags.console.show(
        lambda: batch_json(batch), lambda: prompts_text(batch) if shows else batch_text(batch)
    )
    return 0 if batch.texts or shows else EXIT_ERROR


def batch_text(batch: DraftBatch) -> str:
    """A batch as text: texts by model with their marks, hits, cost."""
    blocks = []
    for model in batch.models:
        texts = [
            f"{number}. ({text.characters} characters)"
            f"{'   <- ' if text.marks else ''}{'; '.join(text.marks)}\n"
            f"{textwrap.indent(text.text, '   ')}"
            for number, text in enumerate(batch.texts, 1)
            if text.model == model
        ]
        blocks.append("\n".join([f"[{model}]", *(texts or ["no texts"])]))
    notes = (f"note: {note}" for note in batch.notes)
    return "\n\n".join([*blocks, _examples_text(batch.hits), *notes, _ending(batch)])


def prompts_text(batch: DraftBatch) -> str:
    """The prompts exactly as they would be sent."""
    blocks = []
    for number, prompt in enumerate(batch.prompts, 1):
        who = prompt.model or "no model configured"
        head = f"--- prompt {number} of {len(batch.prompts)}: {who}"
        blocks.append("\n".join([head, *turn_lines(prompt.messages)]))
    blocks += [_examples_text(batch.hits), *(f"note: {note}" for note in batch.notes)]
    return "\n\n".join(blocks)


def _examples_text(hits: Sequence[Hit]) -> str:
    rungs = Counter(
        f"{hit.rung.weight:g}: {', '.join(map(str, hit.rung.met)) or 'no filter'}"
        for hit in hits
        if hit.rung is not None
    )
    lines = [
        f"examples from {count_noun(len(hits), 'record')}, by the total weight of the filters "
        "they meet:",
        *(f"  {count:3d} x {rung}" for rung, count in rungs.items()),
    ]
    short = [textwrap.shorten(line, 200, placeholder=" …") for line in lines[:9]]
    return "\n".join(textwrap.fill(line, width(), subsequent_indent=" " * 8) for line in short)


def _ending(batch: DraftBatch) -> str:
    stored = "not stored" if batch.number is None else f"batch {batch.number}"
    usage = batch.usage
    known = ", from stored replies" if batch.cached else ""
    return (
        f"{stored}: {count_noun(len(batch.texts), 'text')}, {count_noun(usage.calls, 'call')}, "
        f"{usage.prompt_tokens} prompt tokens, {usage.completion_tokens} completion tokens, "
        f"{cost_text(usage)}{known}"
    )


_PATTERN = 44


def check_text(report: CheckReport) -> str:
    """A check as text."""
    blocks = [_head(report)]
    for fault in report.faults:
        more = {"where": fault.where, "do": fault.hint}
        lines = [f"  {name}: {text}" for name, text in more.items() if text]
        blocks.append("\n".join([f"fault: {fault.what}", *lines]))
    blocks += [f"note: {note}" for note in report.notes]
    if report.rows:
        blocks += [block.text(width()) for block in _check_tables(report) if block.rows]
        blocks += [_describe_records(report), *_examples(report)]
    return "\n\n".join(blocks)


def _head(report: CheckReport) -> str:
    if report.faults:
        return "a fault ends the check"
    if not report.scanned:
        return f"no faults; {report.source} gave no rows"
    read = count_noun(report.scanned, "row") + ("" if report.whole else ", there are more")
    return f"no faults; read {report.source}: {read}; tried on {report.rows:,}"


def _check_tables(report: CheckReport) -> Iterator[ResultBlock]:
    """Yield how often each pattern applies, and what is left out."""
    for use, title in (("cleaning", "step"), ("tag", "tag")):
        patterns = (
            (
                pattern.name,
                _cut(pattern.pattern.replace("\n", "\\n"), _PATTERN),
                *(f"{pattern.rows:,}", _share(pattern.rows, report.rows)),
                "" if pattern.rows else f"never matches ({pattern.where or 'changes nothing'})",
            )
            for pattern in report.patterns
            if pattern.use == use
        )
        head = (title, "pattern", "rows", "share", "remark")
        yield ResultBlock(title, "", "", head, tuple(patterns))
    rows = (
        (why, f"{count:,}", _cut(", ".join(report.left_out_keys.get(why, ())), 60))
        for why, count in report.left_out.items()
    )
    yield ResultBlock("left out", "", "", ("left out because", "rows", "such as"), tuple(rows))


def _describe_records(report: CheckReport) -> str:
    gold, of = report.gold, count_noun(report.rows, "row")
    unknown = ", ".join(f"{name} ({count:,})" for name, count in report.unknown_clients)
    facts = {
        "records": f"{gold:,} of {of}",
        "length": _shares(report.lengths),
        "with a value": _shares(report.fields, gold),
        "clients that rollups.yaml does not list": unknown,
        "variables of the text format that no record has": ", ".join(report.empty_variables),
    }
    lines = [f"{name}: {text}" for name, text in facts.items() if text]
    return "\n".join(textwrap.fill(line, width(), subsequent_indent="  ") for line in lines)


def _examples(report: CheckReport) -> Iterator[str]:
    for example in report.examples:
        tags = ", ".join(example.tags) or "none"
        lines = [
            f"row {_cut(example.key, 40)}, changed by {', '.join(example.steps)}",
            _indented("before", repr(example.before)),
            _indented("after ", repr(example.after)),
            f"  tags    {tags}",
        ]
        yield "\n".join(lines)
    for document in report.assembled:
        yield f"assembled:\n{textwrap.indent(_cut(document, 400), '  | ')}"


def _indented(name: str, text: str) -> str:
    return textwrap.fill(
        _cut(text, 400), width(), initial_indent=f"  {name}  ", subsequent_indent=" " * 10
    )


def _shares(counts: Mapping[str, int], of: int | None = None) -> str:
    total = sum(counts.values()) if of is None else of
    return ", ".join(f"{name} {count:,} ({_share(count, total)})" for name, count in counts.items())


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "-"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_CELL = 100
"""Longest cell of a row that is shown."""


def refresh_text(report: RecordsReport, seconds: float, folder: Path, dry_run: bool) -> str:
    """The result of a refresh as text."""
    done, index = report.tables, report.index
    rows = tuple(
        (
            *(name, f"{c.inserted:,}", f"{c.updated:,}", f"{c.unchanged:,}"),
            f"{done.removed[name]:,}" if name in done.removed else "",
        )
        for name, c in done.counts.items()
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in done.left_out.items())
    lines = [f"left out: {why}   (ragwright records show left_out)"] if why else []
    if index is not None:
        lines.append(
            f"index: {index.embedded:,} embedded, {index.written:,} written, "
            f"{index.unchanged:,} unchanged, {index.removed:,} removed"
        )
        lines += [f"failed: {f.source}: {f.error.what}" for f in index.failures]
    stored = f"version {done.version} in {folder}, {seconds:.1f} s"
    lines.append("dry run: nothing was stored" if dry_run else stored)
    head = ("table", "inserted", "updated", "unchanged", "removed")
    block = ResultBlock("tables", "", "", head, rows, remarks=tuple(lines))
    return print_result((), [block], notes=done.notes, width=width())


def history_text(versions: Sequence[Manifest]) -> str:
    """Versions of the tables, the newest last."""
    if not versions:
        return "no versions yet: ragwright records refresh"
    names = list(versions[-1].rows)
    rows = tuple(
        (
            *(str(v.version), v.created[:19].replace("T", " ")),
            *(f"{v.rows.get(name, 0):,}" for name in names),
            v.note,
        )
        for v in versions
    )
    return ResultBlock("history", "", "", ("version", "created", *names, "note"), rows).text(
        width()
    )


def rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows below each other, one line per column; long texts are cut."""
    if not rows:
        return "no such rows"
    width = max(len(name) for row in rows for name in row)
    blocks = [
        "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in row.items()) for row in rows
    ]
    return "\n\n".join(blocks)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    shown = " ".join(shown.split())
    return shown if len(shown) <= _CELL else f"{shown[: _CELL - 1]}…"
