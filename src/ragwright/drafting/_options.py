"""Settings of one draft."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Filter
from ..flow import TraceEntry


@dataclass(frozen=True, slots=True)
class Drafting:
    """Settings of one draft, in addition to the project's.

    Attributes:
        models: Models that write, in place of the configured ones.
        preview: Show the prompts without sending them; nothing is stored.
        save: Store prompts and texts in the table of outputs.
        scope: Visibility of replies and outputs (tenant, permissions).
        trace: List that gets an entry for each request.
        filters: Hard filters in addition to the project's own.
        timeout: Most seconds; texts written until then are stored, marked partial.
        examples: Examples in a prompt, in place of ``answer.draft.examples``.
        pool: Records to choose examples from, in place of ``answer.draft.pool``.
    """

    models: tuple[str, ...] = ()
    preview: bool = False
    save: bool = True
    scope: str = ""
    trace: list[TraceEntry] | None = None
    filters: tuple[Filter, ...] = ()
    timeout: float | None = None
    examples: int | None = None
    pool: int | None = None
