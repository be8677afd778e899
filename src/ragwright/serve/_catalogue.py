"""The documents that a caller may see, listed once for each state of the index."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from ..answer import corpus_ids
from ..core import GROUPS, Filter, FilterError, Hit, MetaValue
from ..flow import Flow, lookup
from ..retrieve import Target
from ..workbench import AskOptions, Workbench

_AT_ONCE = 500
"""Chunks looked up by one request."""

_KEPT = 8
"""Catalogues that are kept: states of indexes, times rights of callers."""

_KINDS: Mapping[str, str] = {
    "pdf": "PDF",
    "docx": "Word",
    "doc": "Word",
    "odt": "OpenDocument",
    "pptx": "PowerPoint",
    "xlsx": "Excel",
    "csv": "table",
    "tsv": "table",
    "md": "Markdown",
    "html": "web page",
    "htm": "web page",
    "txt": "text",
    "eml": "e-mail",
    "epub": "book",
}


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A document in a list.

    Attributes:
        id: Its id.
        title: Its title.
        source: Its path or address.
        kind: What it is, in a word.
        chunks: Chunks of it that may be seen.
        date: When it was changed, else made, as it says itself; empty where it does not.
        groups: Groups of readers that it is for; to a reader those that it belongs to itself.
    """

    id: str
    title: str
    source: str
    kind: str = ""
    chunks: int = 0
    date: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """All documents that a caller may see, by id."""

    sources: tuple[ListedSource, ...] = ()

    @cached_property
    def kinds(self) -> Mapping[str, int]:
        """Number of documents of each kind, the most frequent first."""
        return dict(Counter(source.kind for source in self.sources).most_common())

    @cached_property
    def groups(self) -> Mapping[str, int]:
        """Number of documents for each group of readers, by name."""
        return dict(sorted(Counter(g for s in self.sources for g in s.groups).items()))

    @cached_property
    def _ids(self) -> list[str]:
        return [source.id for source in self.sources]

    @cached_property
    def _names(self) -> list[str]:
        return [f"{source.id}\n{source.title}".casefold() for source in self.sources]

    def seen_by(self, groups: Sequence[str]) -> Catalogue:
        """The catalogue without the groups that a reader does not belong to."""
        own = frozenset(groups)
        return Catalogue(
            tuple(
                replace(source, groups=tuple(name for name in source.groups if name in own))
                for source in self.sources
            )
        )

    def find(self, text: str = "", kind: str = "", group: str = "") -> list[ListedSource]:
        """The documents whose name or title contains a text, ignoring case, by id."""
        wanted = text.casefold()
        return [
            source
            for source, names in zip(self.sources, self._names, strict=True)
            if wanted in names
            and (not kind or source.kind == kind)
            and (not group or group in source.groups)
        ]

    def behind(self, after: str, most: int) -> Sequence[ListedSource]:
        """Documents behind an id, which need not exist."""
        start = bisect_right(self._ids, after)
        return self.sources[start : start + most]


class Catalogues:
    """Catalogues by state of the index and rights; those used last are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Catalogue] = OrderedDict()

    async def of(self, bench: Workbench, asking: AskOptions) -> Catalogue:
        """The catalogue of a caller; made anew where the index or its rights are new."""
        if asking.target is None:
            return Catalogue()
        project = bench.project
        filters = asking.searching(project.settings.retrieve).filters
        key = (asking.target.snapshot, repr(filters))
        known = self._kept.get(key)
        if known is None:
            flow = _listed_sources(asking.target, filters)
            try:
                known = Catalogue(await project.runner.arun(flow, scope=asking.scope))
            except FilterError:  # no document has what the rights ask for
                known = Catalogue()
            self._kept[key] = known
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return known


def _listed_sources(target: Target, filters: Sequence[Filter]) -> Flow[tuple[ListedSource, ...]]:
    """The documents with a chunk that meets the filters, by id."""
    right = next((condition for condition in filters if condition.missing is not None), None)
    ids, _ = yield from corpus_ids(target, filters)
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for chunk in ids:
        document = chunk.rpartition(":")[0]  # the id of a chunk begins with that of its document
        first.setdefault(document, chunk)
        counts[document] += 1
    sources: list[ListedSource] = []
    wanted = list(first.values())
    for at in range(0, len(wanted), _AT_ONCE):
        for hit in (yield from lookup(target.snapshot, wanted[at : at + _AT_ONCE])).hits:
            source = _listed_source(hit, counts[hit.chunk_id.rpartition(":")[0]])
            if right is not None:  # readers do not learn which other groups may read it
                own = tuple(group for group in source.groups if group in right.values)
                source = replace(source, groups=own)
            sources.append(source)
    return tuple(sorted(sources, key=lambda source: source.id))


def _listed_source(hit: Hit, chunks: int) -> ListedSource:
    facts = hit.metadata
    date = str(facts.get("modified") or facts.get("created") or "")[:10]
    groups = _texts(facts.get(GROUPS, ()))
    kind = _kind(hit.source or hit.document_id)
    return ListedSource(hit.document_id, hit.title, hit.source, kind, chunks, date, groups)


def _kind(source: str) -> str:
    if source.startswith(("http://", "https://")):
        return "web page"
    suffix = PurePosixPath(source).suffix.lower().lstrip(".")
    return _KINDS.get(suffix, suffix.upper() or "other")


def _texts(value: MetaValue | Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
