"""Tune and confirm: rows fall into two splits that share no gold document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from ..core import Row, TestsetError, text_hash

Split: TypeAlias = Literal["all", "tune", "confirm"]
"""Splits of a testset."""

CONFIRM_SHARE = 0.4
"""Share of the clusters in the confirm split."""

_NAMED = ("tune", "confirm")


def split_of(row: Row) -> str:
    """The split in a row's metadata, empty if there is none.

    Raises:
        TestsetError: It has another value.
    """
    named = row.metadata.get("split", "")
    if named != "" and named not in _NAMED:
        raise TestsetError(
            f"row {row.id!r} names the split {named!r}",
            hint="write tune or confirm, or leave it empty",
        )
    return str(named)


def names_splits(rows: Iterable[Row]) -> bool:
    """True if at least one row names its split."""
    return any(split_of(row) for row in rows)


def gold_documents(row: Row) -> tuple[str, ...]:
    """Ids of a row's gold documents, sorted, each once."""
    return tuple(sorted({*row.reference_ids, *(s.document_id for s in row.reference_spans)}))


def split_clusters(rows: Sequence[Row]) -> dict[str, str]:
    """Row id -> name of the cluster that is kept together.

    Rows that share a gold document or a question, directly or through other rows, are one cluster.
    Its name is its first gold document by id; without gold, its first row id. If a cluster would
    hold more than half of the rows (multi-hop collections), only the first gold document of each
    row is used.
    """
    found = joined({row.id: _ties(row) for row in rows})
    largest = max(Counter(found.values()).values(), default=0)
    if 2 * largest > len(rows):
        found = joined({row.id: _ties(row)[:1] for row in rows})
    return found


def fold_clusters(rows: Sequence[Row], least: int) -> dict[str, str]:
    """Row id -> name of the cluster that is kept in one fold of a cross-validation.

    As :func:`split_clusters`; where that gives fewer than ``least`` clusters (a manual of one
    file), rows are kept together that share a gold passage or a question: rows with overlapping
    gold spans, and rows whose gold is the same document without a place in it.
    """
    found = split_clusters(rows)
    if len(set(found.values())) >= least:
        return found
    passage_at = _passages(rows)
    ties = {}
    for row in rows:
        places = [passage_at[span.document_id, span.start] for span in row.reference_spans]
        ties[row.id] = (*(places or _documents(row)), _question(row))
    return joined(ties)


def assign_splits(
    rows: Sequence[Row],
    *,
    share: float = CONFIRM_SHARE,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Row id -> ``tune`` or ``confirm``, the same on every machine.

    A row that names its split keeps it, and the rest of its cluster follows; if a cluster names
    both, its unnamed rows are for tuning. Other clusters are assigned by the hash of their name, so
    later rows do not move others.

    Args:
        rows: All rows of a testset.
        share: Expected share of clusters in the confirm split, 0 to 1.
        clusters: Row id -> cluster; :func:`split_clusters` by default.

    Raises:
        TestsetError: A row names an unknown split.
    """
    clusters = split_clusters(rows) if clusters is None else clusters
    named: dict[str, set[str]] = {}
    for row in rows:
        if split := split_of(row):
            named.setdefault(clusters[row.id], set()).add(split)
    placed = {}
    for row in rows:
        cluster = clusters[row.id]
        if own := split_of(row):
            placed[row.id] = own
        elif cluster in named:
            placed[row.id] = "confirm" if named[cluster] == {"confirm"} else "tune"
        else:
            placed[row.id] = "confirm" if _uniform(cluster) < share else "tune"
    return placed


def shared_gold(rows: Sequence[Row], placed: Mapping[str, str]) -> tuple[str, ...]:
    """Gold documents in both splits, sorted: a leak from tuning to confirmation."""
    seen: dict[str, set[str]] = {}
    for row in rows:
        for document in gold_documents(row):
            seen.setdefault(document, set()).add(placed[row.id])
    return tuple(sorted(name for name, splits in seen.items() if len(splits) > 1))


def known_split(split: str) -> Split:
    """A split by its name.

    Raises:
        TestsetError: The split is unknown.
    """
    for name in get_args(Split):
        if split == name:
            known: Split = name
            return known
    raise TestsetError(f"unknown split {split!r}", hint=f"one of {', '.join(get_args(Split))}")


def _ties(row: Row) -> tuple[str, ...]:
    """Keys that link a row to others: its gold documents, then its question."""
    return (*_documents(row), _question(row))


def _documents(row: Row) -> tuple[str, ...]:
    return tuple(f"document\x00{name}" for name in gold_documents(row))


def _question(row: Row) -> str:
    return f"question\x00{' '.join(row.user_input.casefold().split())}"


def _passages(rows: Iterable[Row]) -> dict[tuple[str, int], str]:
    """Document and start of a gold span -> key of the passage; overlapping spans are one."""
    spans = {(s.document_id, s.start, s.end) for row in rows for s in row.reference_spans}
    found: dict[tuple[str, int], str] = {}
    document, first, reach = "", 0, 0
    for name, start, end in sorted(spans):
        if name != document or start >= reach:
            document, first, reach = name, start, end
        reach = max(reach, end)
        found[name, start] = f"document\x00{name}:{first}"
    return found


def joined(ties: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Row id -> cluster name, by union-find over shared keys."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        parents.setdefault(name, name)
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for held in ties.values():
        for other in held[1:]:
            parents[root(other)] = root(held[0])
    names: dict[str, str] = {}
    for row, held in ties.items():
        for tie in held:
            kind, _, name = tie.partition("\x00")
            # A document before any row, then the smallest: \x01 sorts before \x02.
            own = f"\x01{name}" if kind == "document" else f"\x02{row}"
            place = root(held[0])
            names[place] = min(names.get(place, own), own)
    return {row: names[root(held[0])][1:] for row, held in ties.items()}


def _uniform(name: str) -> float:
    """A number in [0, 1) that depends only on the name."""
    return int(text_hash(f"split\x00{name}")[:12], 16) / 16**12
