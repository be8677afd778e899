"""Tickets of a help desk, for ragwright: one of each kind of addition that most people write."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import typer

from ragwright import Workbench
from ragwright.core import Document, Hit, MalformedSourceError, Row, option
from ragwright.flow import Flow
from ragwright.ingest import Failure, SuffixReader
from ragwright.measure import custom_measure
from ragwright.project import Project
from ragwright.retrieve import Stage, Target


class TicketReader(SuffixReader):
    """Reads ``.tickets`` files: one JSON object per line."""

    name = "tickets"
    suffixes = (".tickets",)

    def read_file(self, path: Path) -> Iterator[Document | Failure]:
        """One document per ticket; a line that cannot be read is a failure of that line."""
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            where = f"{path}:{number}"
            try:
                ticket = json.loads(line)
                yield Document(
                    id=f"{path}#{ticket['id']}",
                    source=where,
                    title=ticket["subject"],
                    text=ticket["body"],
                    metadata={"day": ticket["day"], "tags": tuple(ticket["tags"])},
                )
            except (ValueError, KeyError, TypeError) as error:
                yield Failure(where, MalformedSourceError(f"not a ticket: {error}", where=where))


@custom_measure(needs=("response",), low=0, higher_is_better=False)
def words_per_sentence(row: Row) -> float | None:
    """Mean number of words in a sentence of the response."""
    sentences = [text for text in re.split(r"[.!?]+", row.response or "") if text.split()]
    return sum(len(text.split()) for text in sentences) / len(sentences) if sentences else None


@dataclass(frozen=True, slots=True)
class RecencyOptions:
    """Settings of the section ``recency``."""

    field: str = option("day", "Metadata field with the date, as 2026-11-24.")
    half_life: float = option(365.0, "Days after which a score counts half.", gt=0)
    today: str = option("", "Date that ages are counted from; empty: today.")


class Recency(Stage):
    """Lowers the scores of old documents; those without a date keep theirs."""

    name = "recency"
    settings = RecencyOptions
    depth = 50
    options: RecencyOptions

    def apply(self, question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
        """The hits by their score after ageing; ties keep their order."""
        yield from ()  # no request of its own; a stage that asks a model yields from a verb
        now = datetime.now(UTC).date()
        today = date.fromisoformat(self.options.today) if self.options.today else now
        aged = []
        for hit in hits:
            day = hit.metadata.get(self.options.field)
            days = (today - date.fromisoformat(str(day))).days if day else 0
            score = hit.score * 0.5 ** (max(0, days) / self.options.half_life)
            aged.append(replace(hit, score=round(score, 6)))
        return tuple(sorted(aged, key=lambda hit: -hit.score))


def tag_counts(documents: Iterator[Document]) -> list[tuple[str, int]]:
    """Tags and the number of tickets with each, the most frequent first."""
    counts = Counter[str]()
    for document in documents:
        tags = document.metadata.get("tags", ())
        counts.update(tags if isinstance(tags, tuple) else ())
    return counts.most_common()


def tickets(project: Path = typer.Option(Path(), "--project", "-C", help="The project.")) -> None:
    """Count the tickets of the index by tag."""
    with Workbench.open(project) as bench:
        for tag, count in tag_counts(bench.documents()):
            typer.echo(f"{count:6}  {tag}")


def check_tickets(project: Project, arguments: tuple[str, ...]) -> int:
    """Fail a job where fewer tickets are indexed than its argument says."""
    count = sum(1 for _ in project.documents())
    print(f"{count} tickets")
    return 0 if count >= int(arguments[0]) else 1
