"""Findings of `doctor` on the tables of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...core import RagwrightError
from ...project import Project
from ...records import RecordsOptions, spec_faults
from ._index import index_is_behind
from ._records import ProjectRecords

Finding = tuple[Literal["ok", "note", "fault"], str, str]
"""State of a finding, its text, and the advised action."""


def record_findings(project: Project) -> Iterator[Finding]:
    """Yield findings on the tables of records and their index; none if there are no records."""
    records = ProjectRecords(project)
    if not records.folder.is_dir():
        return
    options = project.settings.part("records", RecordsOptions)
    for fault in spec_faults(records.folder, options.format):
        yield "fault", f"{fault.where}: {fault.what}", fault.hint or ""
    try:
        tables = records.tables
        head = tables.manifest() if tables.version else None
    except RagwrightError as error:
        yield "fault", error.what, error.hint or ""
        return
    if head is None:
        yield "note", "the tables are empty", "run: ragwright records refresh"
        return
    rows = ", ".join(f"{count:,} {name}" for name, count in head.rows.items())
    yield "ok", f"version {head.version} of {head.created}: {rows}", ""
    if index_is_behind(project, tables):
        problem = "the index is not at the newest version of the tables"
        yield "note", problem, "run: ragwright records refresh"
