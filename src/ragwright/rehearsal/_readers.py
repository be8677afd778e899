"""What groups of readers, each under its filters, would see more or less of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core import Filter, RagwrightError, rights_first
from ..flow import Flow
from ..retrieve import parse_filter, retrieve
from ._records import ChangedDocument, GroupView, ReaderGroup
from ._sides import rights

if TYPE_CHECKING:
    from ._asking import Rows
    from ._options import Rehearsing
    from ._sides import Side, Sides

_PAGE = 5_000
"""Chunks that are listed at once."""


def group_views(sides: Sides, rows: Rows, options: Rehearsing) -> tuple[GroupView, ...]:
    """What each group of readers would see; searches only, no answers are written."""
    return tuple(_group_view(sides, rows, group) for group in options.readers)


def _group_view(sides: Sides, rows: Rows, group: ReaderGroup) -> GroupView:
    filters = tuple(map(parse_filter, group.filters))
    both = (sides.before, sides.after)
    try:
        each = [(side, (*rights(side.project, group.groups or None), *filters)) for side in both]
        old, new = (visible_documents(side, conditions) for side, conditions in each)
        before, after = (_passages(side, rows, conditions) for side, conditions in each)
    except RagwrightError as error:
        return GroupView(group, error=error.what)
    return GroupView(
        group,
        tuple(sorted(new - old)),
        tuple(sorted(old - new)),
        tuple(name for name in before if after[name] - before[name]),
        tuple(name for name in before if before[name] - after[name]),
    )


def seen_documents(sides: Sides, options: Rehearsing) -> tuple[ChangedDocument, ...]:
    """The documents that differ; of those, what readers see on one side where groups ask."""
    if options.groups is None:
        return sides.documents
    seen: set[str] = set()
    for side in (sides.before, sides.after):
        seen |= visible_documents(side, rights(side.project, options.groups))
    return tuple(change for change in sides.documents if change.document_id in seen)


def visible_documents(side: Side, filters: Sequence[Filter]) -> set[str]:
    """Documents of a side that the filters leave."""
    project = side.project
    view = project.views.current(project.pair)
    all_filters = rights_first((*project.settings.retrieve.filters, *filters))
    visible: set[str] = set()
    after = ""
    while page := view.every(_PAGE, all_filters, after):
        visible.update(chunk.rpartition(":")[0] for chunk in page)
        after = page[-1]
    return visible


def _passages(side: Side, rows: Rows, filters: tuple[Filter, ...]) -> Mapping[str, set[str]]:
    """Question -> texts of its passages under the filters."""
    project = side.project
    target, options = project.target(), project.settings.retrieve
    narrowed = replace(options, filters=rights_first((*options.filters, *filters)))

    def search(query: str) -> Flow[set[str]]:
        return {hit.text for hit in (yield from retrieve(query, target, narrowed)).hits}

    questions = rows.questions
    texts = project.runner.map(search(question.row.user_input) for question in questions)
    return {q.row.id: passages for q, passages in zip(questions, texts, strict=True)}
