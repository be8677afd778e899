"""`ragwright log`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

from typer import Option

from ...core import ConfigError, count_noun, suggest_name
from ...operations import (
    EVENT_KINDS,
    AuditLog,
    Event,
    EventQuery,
    audit_log,
    event_json,
    owner_event,
    record,
)
from ...project import ProjectFolder, load_settings
from .._console import table, visible, write
from .._flags import Flags, takes

_LAST = 50
"""Events of the table, the newest."""


@takes("project overrides as_json output quiet")
def command(
    flags: Flags,
    kind: str = Option("", help=f"Events of a kind: {', '.join(EVENT_KINDS)}."),
    who: str = Option("", help="Events of a key, a person or a user of the machine."),
    document: str = Option("", help="Events in which this document was shown or used."),
    request: str = Option("", help="Events of the request with this id."),
    since: str = Option("", metavar="TIME", help="From this UTC time on: 2026-11-26T08:00."),
    until: str = Option("", metavar="TIME", help="Before this UTC time."),
    last: int | None = Option(
        None, min=1, help=f"The newest events only; {_LAST} in a table by default."
    ),
    lines: bool = Option(False, "--lines", help="Print every event as a line of JSON (JSONL)."),
) -> None:
    """Show the audit log: who did what.

    It says who asked, saw, changed, exported and erased what.
    """
    if kind and kind not in EVENT_KINDS:
        raise ConfigError(
            f"unknown kind {kind!r}", where="--kind", hint=suggest_name(kind, EVENT_KINDS)
        )
    exported = lines or flags.writes_json or flags.output is not None
    most = last if last is not None or exported else _LAST
    begin, end = _utc(since, "--since"), _utc(until, "--until")
    query = EventQuery(kind, who, document, request, begin, end, most)
    folder = ProjectFolder(flags.project).require()
    settings = load_settings(folder.settings, flags.settings)
    if exported and flags.output is None:  # else that is noted for every command
        record(folder, settings, owner_event("exported", "log", "audit log"))
    with closing(audit_log(folder, settings)) as log:
        if lines or (flags.output is not None and flags.output.suffix == ".jsonl"):
            _write_lines(flags, log, query)
            return
        events = list(log.select(query))
        begun = log.begun
    flags.console.show(
        lambda: {"events": [event_json(*event) for event in events]},
        lambda: _shown(events, begun),
    )


def _utc(text: str, option: str) -> str:
    """A typed time as events have it, in UTC; empty for none."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a time",
            where=option,
            hint="write a time in UTC: 2026-11-26 or 2026-11-26T08:00",
        ) from error
    return (time.astimezone(UTC) if time.tzinfo else time).replace(tzinfo=None).isoformat()


def _write_lines(flags: Flags, log: AuditLog, query: EventQuery) -> None:
    lines = (
        json.dumps(event_json(number, event), ensure_ascii=False)
        for number, event in log.select(query)
    )
    if flags.output is None:
        for line in lines:
            write(sys.stdout, f"{visible(line)}\n")
        return
    flags.console.make_folder_of(flags.output)
    count = 0
    with flags.output.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    flags.console.remark(f"{count_noun(count, 'event')} written to {flags.output}")


def _shown(events: list[tuple[int, Event]], begun: bool) -> str:
    if not events:
        return "no such event" if begun else "the audit log is empty: it begins with the first key"
    rows = [["at", "who", "from", "event", "what", "outcome", "request"], *_rows(events)]
    return table(rows)


def _rows(events: list[tuple[int, Event]]) -> Iterator[list[str]]:
    for _, event in events:
        documents = ", ".join(event.documents[:3]) + (" …" if len(event.documents) > 3 else "")
        what = "; ".join(filter(None, (event.action, event.subject, documents, event.question)))
        facts = [event.at[:19], event.who or "-", event.origin, event.kind, what]
        yield [*facts, event.outcome, event.request]
