"""What is changed in a rehearsal, and by which questions it is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from ._records import ReaderGroup


@dataclass(frozen=True, slots=True)
class Rehearsing:
    """Options of a rehearsal.

    Attributes:
        settings: ``key=value`` texts that are changed.
        config: ``served``, a run of ``ragwright eval`` or of a sweep's trial, ``tuned`` for the
            best trial of the latest sweep, or a file of settings; empty for the project's own.
        sources: Sources that are read into a copy of the index; ``NEW=OLD`` takes OLD's place.
        prune: Also remove documents of these sources that are no longer there.
        testset: Rows that are asked; empty for none.
        served: Also ask the questions that were served; None if there is no test set.
        scope: Whose served questions (the tenant); empty for those without one.
        groups: Groups of readers as whom both sides are asked; None to see everything.
        since: ISO 8601: only questions served then or later.
        limit: Most questions: of those served the most asked, of a test set by the seed.
        measures: Measures for rows with gold; empty for those that suit and need no model.
        search_only: Compare the passages only; no answers are written.
        readers: Groups of readers with their filters.
        must_differ: Refuse a change that changes no setting.
        retry_errors: Ask failed questions again.
        seed: Seed of the choice of rows.
    """

    settings: tuple[str, ...] = ()
    config: str = ""
    sources: tuple[str, ...] = ()
    prune: bool = False
    testset: str = ""
    served: bool | None = None
    scope: str = ""
    groups: tuple[str, ...] | None = None
    since: str = ""
    limit: int | None = None
    measures: str = ""
    search_only: bool = False
    readers: tuple[ReaderGroup, ...] = ()
    must_differ: bool = True
    retry_errors: bool = False
    seed: int = 0
