"""Gold passages (``reference_contexts``) as gold spans, where the index holds their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...core import GoldSpan, Row
from ...flow import Flow, gather, lookup, search_keyword
from ...project import Project
from ...testsets import Testset

_WORDS = 30
"""Words of a passage that are searched for: enough to be rare, few enough to be quick."""

_CANDIDATES = 5


def with_gold_from_texts(project: Project, testset: Testset) -> Testset:
    """The testset, with gold spans for rows whose gold is passages alone.

    A passage is gold where a document of the index holds its text; white space and case do not
    count. Its documents are found by keywords: those of its first words, else of its last ones. A
    row with gold ids or spans keeps them. A note counts what was found and what was not.
    """
    due = [row for row in testset.rows if _has_texts_alone(row)]
    if not due:
        return testset
    snapshot = project.target().snapshot
    texts: dict[str, str | None] = {}

    def text_of(name: str) -> str:
        if name not in texts:
            document = project.store.document(name)
            texts[name] = None if document is None else document.text
        return texts[name] or ""

    wanted = list(dict.fromkeys(t for row in due for t in row.reference_contexts if t.strip()))
    names = project.runner.run(gather(_documents(snapshot, text) for text in wanted))
    spans = {text: _span(text, found, text_of) for text, found in zip(wanted, names, strict=True)}
    placed = {row.id: _placed(row, spans) for row in due}
    rows = tuple(placed.get(row.id, row) for row in testset.rows)
    found_rows = sum(bool(row.reference_spans) for row in placed.values())
    missing = sum(span is None for span in spans.values())
    note = f"gold passages of {found_rows} rows were found in the index by their text"
    if missing:
        note += f"; {missing} of {len(wanted)} passages are not in it word for word, and not gold"
    return replace(testset, rows=rows, notes=(*testset.notes, note))


def _has_texts_alone(row: Row) -> bool:
    texts = any(text.strip() for text in row.reference_contexts)
    return texts and not row.reference_ids and not row.reference_spans


def _documents(snapshot: str, text: str) -> Flow[tuple[str, ...]]:
    """Documents that may hold a text, best first."""
    words = text.split()
    ids: list[str] = []
    for part in dict.fromkeys((" ".join(words[:_WORDS]), " ".join(words[-_WORDS:]))):
        candidates = yield from search_keyword(snapshot, part, _CANDIDATES)
        reply = yield from lookup(snapshot, [chunk for chunk, _ in candidates])
        ids += [hit.document_id for hit in reply.hits]
    return tuple(dict.fromkeys(ids))


def _span(text: str, names: tuple[str, ...], text_of: Callable[[str], str]) -> GoldSpan | None:
    """The first place of a text in these documents; None where none holds it."""
    pattern = re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)
    return next(_places(pattern, names, text_of), None)


def _places(
    pattern: re.Pattern[str], names: tuple[str, ...], text_of: Callable[[str], str]
) -> Iterator[GoldSpan]:
    for name in names:
        found = pattern.search(text_of(name))
        if found:
            yield GoldSpan(name, found.start(), found.end(), found[0])


def _placed(row: Row, spans: dict[str, GoldSpan | None]) -> Row:
    own = [spans.get(text) for text in row.reference_contexts]
    return replace(
        row, reference_spans=tuple(dict.fromkeys(span for span in own if span is not None))
    )
