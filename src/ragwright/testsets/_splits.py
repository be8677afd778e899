"""Tune and confirm splits without a shared gold document, and the log of openings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..answer import corpus_ids
from ..core import (
    Filter,
    FilterError,
    Row,
    Span,
    TestsetError,
    appending,
    case_folded,
    current_user,
    text_hash,
)
from ..flow import Flow
from ..retrieve import Target
from ._records import objects_of

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
    ties = {row.id: (*_document_keys(row), *_question_keys(row)) for row in rows}
    clusters = join_clusters(ties)
    largest = max(Counter(clusters.values()).values(), default=0)
    if 2 * largest > len(rows):
        clusters = join_clusters({name: keys[:1] for name, keys in ties.items()})
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
        ties[row.id] = (*(places or _document_keys(row)), *_question_keys(row))
    return join_clusters(ties)


def assign_splits(
    rows: Sequence[Row], *, share: float = CONFIRM_SHARE, clusters: Mapping[str, str] | None = None
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


def _document_keys(row: Row) -> tuple[str, ...]:
    return tuple(f"document\x00{name}" for name in gold_documents(row))


def _question_keys(row: Row) -> tuple[str, ...]:
    name = row.metadata.get("conversation_id", "")
    of_turns = (f"conversation\x00{name}",) if name and "turn" in row.metadata else ()
    return (f"question\x00{case_folded(row.user_input)}", *of_turns)


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


@dataclass(frozen=True, slots=True)
class Opening:
    """One opening of a confirm split.

    Attributes:
        time: ISO 8601, UTC.
        testset: Address of the testset.
        fingerprint: Hash of the whole confirm split, regardless of the part read.
        rows: Rows that were read.
        purpose: Purpose of the opening.
        by: User.
    """

    time: str
    testset: str
    fingerprint: str
    rows: int
    purpose: str
    by: str


@dataclass(frozen=True, slots=True)
class Openings:
    """Permission to open confirm splits: each opening is logged before rows are returned.

    Attributes:
        path: The log, JSONL; created if it is missing.
        purpose: Purpose of the rows: ``confirm``, ``eval``, a sentence.
        by: User; by default the user of this machine.
        dry_run: The rows are only counted, for a dry run: nothing is logged.
    """

    path: Path
    purpose: str
    by: str = ""
    dry_run: bool = False

    def record(self, testset: str, fingerprint: str, rows: int) -> tuple[Opening, ...]:
        """Log an opening; return the earlier ones of this testset, oldest first.

        Earlier openings are those of the same rows (equal fingerprint) and, since an edited row
        changes the fingerprint, those of a testset with the same file name.

        Raises:
            TestsetError: The log cannot be read or written; the rows must then not be returned.
        """
        earlier = self.touching(self.path, testset, fingerprint)
        if self.dry_run:
            return earlier
        opening = Opening(
            datetime.now(UTC).isoformat(timespec="seconds"),
            testset,
            fingerprint,
            rows,
            self.purpose,
            self.by or current_user(),
        )
        line = json.dumps(asdict(opening), ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # half a surrogate pair (a file name that is not UTF-8) becomes an escape of JSON
            with appending(self.path, line.encode("utf-8", "backslashreplace")):
                pass
        except OSError as error:
            raise TestsetError(
                f"the opening cannot be logged: {error.strerror}",
                where=str(self.path),
                hint="the confirm split stays closed until the log can be written",
            ) from error
        return earlier

    @classmethod
    def touching(cls, path: str | Path, testset: str, fingerprint: str) -> tuple[Opening, ...]:
        """Return the openings of these rows or of a testset with the same file name, oldest first.

        Raises:
            TestsetError: A line is not an opening; with file and line.
        """
        name = _file_name(testset)
        return tuple(
            opening
            for opening in cls.of(path)
            if opening.fingerprint == fingerprint or _file_name(opening.testset) == name
        )

    @staticmethod
    def of(path: str | Path, fingerprint: str = "") -> tuple[Opening, ...]:
        """Return the openings in a log, oldest first: those of a fingerprint, or all if it is
        empty.

        Raises:
            TestsetError: A line is not an opening; with file and line.
        """
        source = Path(path)
        if not source.exists():
            return ()
        openings = (_opening_of(value, where) for where, value in objects_of(source))
        return tuple(
            opening for opening in openings if not fingerprint or opening.fingerprint == fingerprint
        )


def opening_note(earlier: tuple[Opening, ...], fingerprint: str, path: Path) -> str:
    """Return the note on earlier openings that every report must contain.

    Args:
        earlier: Openings of the same rows, or of other versions of their testset, oldest first.
        fingerprint: Fingerprint of the rows.
        path: The log.
    """
    if not earlier:
        return f"the confirm split is opened for the first time (written to {path})"
    first, times = earlier[0], len(earlier)
    others = sum(opening.fingerprint != fingerprint for opening in earlier)
    times_text = "once" if times == 1 else f"{times} times"
    versions = f", {others} of them with another version of the rows" if others else ""
    return (
        f"the confirm split was opened {times_text} before{versions}, first on {first.time[:10]} "
        "for "
        f"{first.purpose!r} by {first.by}; each opening makes its results less independent"
    )


def _opening_of(value: dict[str, Any], where: str) -> Opening:
    names = [field.name for field in fields(Opening)]
    wrong = [n for n in names if not isinstance(value.get(n), int if n == "rows" else str)]
    if wrong:
        raise TestsetError(
            f"not a valid opening: {', '.join(wrong)}",
            where=where,
            hint="only ragwright writes this log; restore it from version control",
        )
    return Opening(**{name: value[name] for name in names})


def _file_name(testset: str) -> str:
    """Return the part of an address that stays when a project is moved."""
    return testset if testset.startswith("beir:") else Path(testset).name


def find_graded_documents(row: Row) -> dict[str, None]:
    """Return the ids of the documents that answer a row: those with a grade above 0, in order."""
    return {name: None for name, grade in row.reference_ids.items() if grade > 0}


def covers(passage: Span, span: Span) -> bool:
    """True if a passage holds at least half of a gold span, as in the measures."""
    return 2 * passage.overlap(span) >= span.length


def chunk_span(chunk_id: str, document_id: str) -> Span:
    """Return the characters of a chunk in its document, from its id."""
    start, _, end = chunk_id.removeprefix(f"{document_id}:").partition("-")
    return Span(int(start), int(end))


def chunks_of(target: Target, document_id: str, filters: Sequence[Filter] = ()) -> Flow[list[str]]:
    """Return the ids of a document's chunks that meet the filters; none if it is not indexed."""
    try:
        ids, _ = yield from corpus_ids(target, (Filter("document_id", (document_id,)), *filters))
    except FilterError:  # a value that none of its chunks has, or an unknown document
        return []
    return ids


def find_best_chunk(ids: Sequence[str], document_id: str, span: Span) -> str:
    """Return the chunk with the largest part of a span, empty if none holds half of it."""
    overlaps = {key: chunk_span(key, document_id).overlap(span) for key in ids}
    best = max(overlaps, key=lambda key: overlaps[key], default="")
    return best if best and 2 * overlaps[best] >= span.length else ""


def gold_chunks(row: Row, target: Target) -> Flow[frozenset[str]]:
    """Return the ids of the chunks that answer a row's question; empty if the index has none.

    With spans these are the chunks that hold at least half of one, else all chunks of the gold
    documents.
    """
    spans = [(span.document_id, Span(span.start, span.end)) for span in row.reference_spans]
    documents = dict.fromkeys(name for name, _ in spans) or find_graded_documents(row)
    ids: set[str] = set()
    for document in documents:
        chunks = yield from chunks_of(target, document)
        if spans:
            document_spans = [span for name, span in spans if name == document]
            places = {key: chunk_span(key, document) for key in chunks}
            chunks = [
                key for key in chunks if any(covers(places[key], span) for span in document_spans)
            ]
        ids.update(chunks)
    return frozenset(ids)
