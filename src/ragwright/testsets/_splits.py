"""Tune and confirm: two splits of rows that share no gold document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from ..core import Row, TestsetError, case_folded, text_hash

Split: TypeAlias = Literal["all", "tune", "confirm"]
"""Splits of a testset."""

CONFIRM_SHARE = 0.4
"""Share of the clusters in the confirm split."""

_NAMED = ("tune", "confirm")


def split_of(row: Row) -> str:
    """Return the split in a row's metadata, empty if there is none.

    Raises:
        TestsetError: It has another value.
    """
    name = row.metadata.get("split", "")
    if name != "" and name not in _NAMED:
        raise TestsetError(
            f"row {row.id!r} names the split {name!r}",
            hint="write tune or confirm, or leave it empty",
        )
    return str(name)


def names_splits(rows: Iterable[Row]) -> bool:
    """True if at least one row names its split."""
    return any(split_of(row) for row in rows)


def gold_documents(row: Row) -> tuple[str, ...]:
    """Return the ids of a row's gold documents, sorted, each once."""
    return tuple(sorted({*row.reference_ids, *(s.document_id for s in row.reference_spans)}))


def split_clusters(rows: Sequence[Row]) -> dict[str, str]:
    """Return the cluster of each row; rows of a cluster stay in one split.

    Rows that share a gold document, a question or a conversation, directly or through other rows,
    are one cluster. Its name is its first gold document by id; without gold, its first row id. If a
    cluster would hold more than half of the rows (multi-hop collections), only the first gold
    document of each row is used.
    """
    clusters = join_clusters({row.id: _linking_keys(row) for row in rows})
    largest = max(Counter(clusters.values()).values(), default=0)
    if 2 * largest > len(rows):
        clusters = join_clusters({row.id: _linking_keys(row)[:1] for row in rows})
    return clusters


def fold_clusters(rows: Sequence[Row], least: int) -> dict[str, str]:
    """Return the cluster of each row; rows of a cluster stay in one fold of a cross-validation.

    As :func:`split_clusters`; if that gives fewer than ``least`` clusters (a manual of one file),
    clusters are rows that share a gold passage or a question: rows with overlapping gold spans, and
    rows whose gold is the same document without a place in it.
    """
    clusters = split_clusters(rows)
    if len(set(clusters.values())) >= least:
        return clusters
    passage_at = _passage_keys(rows)
    ties = {}
    for row in rows:
        places = [passage_at[span.document_id, span.start] for span in row.reference_spans]
        links = (_question_key(row), *_conversation_keys(row))
        ties[row.id] = (*(places or _document_keys(row)), *links)
    return join_clusters(ties)


def assign_splits(
    rows: Sequence[Row],
    *,
    share: float = CONFIRM_SHARE,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Assign each row to ``tune`` or ``confirm``, the same on every machine.

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
    declared: dict[str, set[str]] = {}
    for row in rows:
        if split := split_of(row):
            declared.setdefault(clusters[row.id], set()).add(split)
    splits = {}
    for row in rows:
        cluster = clusters[row.id]
        if own_split := split_of(row):
            splits[row.id] = own_split
        elif cluster in declared:
            splits[row.id] = "confirm" if declared[cluster] == {"confirm"} else "tune"
        else:
            # A number in [0, 1) that depends only on the cluster's name.
            uniform = int(text_hash(f"split\x00{cluster}")[:12], 16) / 16**12
            splits[row.id] = "confirm" if uniform < share else "tune"
    return splits


def find_shared_gold(rows: Sequence[Row], placed: Mapping[str, str]) -> tuple[str, ...]:
    """Return gold documents in both splits, sorted: a leak from tuning to confirmation."""
    seen: dict[str, set[str]] = {}
    for row in rows:
        for document in gold_documents(row):
            seen.setdefault(document, set()).add(placed[row.id])
    return tuple(sorted(name for name, splits in seen.items() if len(splits) > 1))


def read_split(split: str) -> Split:
    """Return a split by its name.

    Raises:
        TestsetError: The split is unknown.
    """
    for name in get_args(Split):
        if split == name:
            known: Split = name
            return known
    raise TestsetError(f"unknown split {split!r}", hint=f"one of {', '.join(get_args(Split))}")


def _linking_keys(row: Row) -> tuple[str, ...]:
    """Return the keys that link a row to others: its gold documents, its question, its
    conversation.
    """
    return (*_document_keys(row), _question_key(row), *_conversation_keys(row))


def _document_keys(row: Row) -> tuple[str, ...]:
    return tuple(f"document\x00{name}" for name in gold_documents(row))


def _question_key(row: Row) -> str:
    return f"question\x00{case_folded(row.user_input)}"


def _conversation_keys(row: Row) -> tuple[str, ...]:
    """Return a key that the turns of one conversation share; none for a single question."""
    name = row.metadata.get("conversation_id", "")
    return (f"conversation\x00{name}",) if name and "turn" in row.metadata else ()


def _passage_keys(rows: Iterable[Row]) -> dict[tuple[str, int], str]:
    """Return a passage key for the document and start of each gold span; overlapping spans share
    it.
    """
    spans = {(s.document_id, s.start, s.end) for row in rows for s in row.reference_spans}
    keys: dict[tuple[str, int], str] = {}
    document, first, reach = "", 0, 0
    for name, start, end in sorted(spans):
        if name != document or start >= reach:
            document, first, reach = name, start, end
        reach = max(reach, end)
        keys[name, start] = f"document\x00{name}:{first}"
    return keys


def join_clusters(ties: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the cluster name of each row, by union-find over shared keys."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        parents.setdefault(name, name)
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for keys in ties.values():
        for other in keys[1:]:
            parents[root(other)] = root(keys[0])
    names: dict[str, str] = {}
    for row, keys in ties.items():
        for tie in keys:
            kind, _, name = tie.partition("\x00")
            # A document before any row, then the smallest: \x01 sorts before \x02.
            cluster_name = f"\x01{name}" if kind == "document" else f"\x02{row}"
            root_key = root(keys[0])
            names[root_key] = min(names.get(root_key, cluster_name), cluster_name)
    return {row: names[root(keys[0])][1:] for row, keys in ties.items()}
