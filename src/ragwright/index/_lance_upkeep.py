"""Maintenance of a Lance store: indexes, their measurement, compaction, removal of versions."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _lance_tables as lance
from ._lance_search import scores_agree
from ._lance_state import Pinned, stamps_of
from ._lance_tables import matrix
from ._store import StoreOptions

_STALE_SHARE = 0.01
_KEPT = 3
_MINUTES = 60
"""Versions younger than this stay, since a reader may be opening one."""

_ORDINARY = ("id", "stamp", "vector_key", *lance.OWN_COLUMNS.values())
_LISTS = ("facets", "terms")

_SAMPLED = 200
_TRIED = 2400
"""Nearest rows of sampled passages with which depths are tried; a recall that is reached is then
measured with all passages."""

_DEPTHS_FOR = (100, 1000)
_REFINES = (2, 4, 8, 16)
_REFINED = 500
"""Codes that are compared in the time in which one candidate is refined, about."""

_SEED = 0
_BLOCK = 8192


def needs_build(
    chunks: Any, options: StoreOptions, measured_facts: Mapping[str, Any], stale: int
) -> bool:
    """True if indexes are missing, or too much has changed since they were built.

    Where search must be exact, that is any change: scores of an index that knows other chunks do
    not bound ours, and then every chunk with one of the words is read. Where it is approximate,
    ``stale`` changes and a hundredth of the chunks may be left out.
    """
    rows = chunks.count_rows()
    indexes = {index.columns[0]: index for index in chunks.list_indices()}
    near = bool(options.approximate and rows >= options.approximate_rows)
    if "words" not in indexes or "words" not in measured_facts:
        return True
    if near and "vector" in chunks.schema.names:
        vector = measured_facts.get("vector", {})
        if "vector" not in indexes or vector.get("target") != options.recall:
            return True
    added = int(indexes["words"].num_unindexed_rows or 0)
    removed = max(0, int(measured_facts["words"]["rows"]) - (rows - added))
    return bool(added + removed > (max(stale, rows * _STALE_SHARE) if near else 0))


def build(
    documents: Any, chunks: Any, options: StoreOptions, facts: Mapping[str, Any], where: str
) -> int:
    """Bring the indexes of an index spec up to date, and compact its files.

    Lists of terms and facets are indexed anew: adding rows to such an index takes longer (measured:
    60 s against 4 s for 100,000 chunks of 60 tokens). So are the words, since an index that grew
    keeps the statistics of removed chunks. The others grow; the vector index is built anew when
    there are four times as many chunks.

    Returns:
        Lists of the vector index, 0 without one.
    """
    from lancedb.index import FTS, BTree, IvfRq, LabelList

    indexed = {index.columns[0] for index in chunks.list_indices()}
    names = set(chunks.schema.names)
    new_indexes: dict[str, Any] = {name: LabelList() for name in _LISTS}
    new_indexes["words"] = FTS(  # our tokens as they are, split at spaces
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    new_indexes |= {name: BTree() for name in _ORDINARY if name in names - indexed}
    lists = int(facts.get("vector", {}).get("lists", 0)) if "vector" in indexed else 0
    if options.approximate and "vector" in names and len(chunks) >= options.approximate_rows:
        # Lance's default of 8,192 chunks a list gave a recall@100 of at most .946 at 100,000
        # chunks, all lists visited: a code is the difference from the centre of its list.
        most = math.isqrt(len(chunks))
        if most > 2 * lists:
            lists = most
            new_indexes["vector"] = IvfRq(distance_type="dot", num_partitions=lists)
    for name, config in new_indexes.items():
        lance.retry_conflicts(lambda n=name, c=config: chunks.create_index(n, config=c), where)  # type: ignore[misc]
    if not any(index.columns == ["stamp"] for index in documents.list_indices()):
        lance.retry_conflicts(lambda: documents.create_index("stamp", config=BTree()), where)
    compact([documents, chunks], where)
    return lists


def sweep_orphans(documents: Any, chunks: Any, where: str, grace: int) -> None:
    """Delete chunks that no document refers to and that no writer is about to use.

    A writer may use those that were written less than ``grace`` seconds ago.
    """
    before = time.time_ns() - grace * 10**9
    old = stamps_of(chunks, f"written < {before}")
    lance.delete_rows(chunks, "stamp", np.setdiff1d(old, stamps_of(documents)).tolist(), where)


def compact(tables: Sequence[Any], where: str) -> None:
    """Join small files, and let indexes cover rows that were added."""
    for table in tables:
        lance.retry_conflicts(table.optimize, where)


def measure_indexes(state: Pinned, options: StoreOptions, lists: int) -> dict[str, Any]:
    """Measure what a reader must know of the indexes: the chunks that they cover, and the recall.

    Args:
        state: The state that was indexed.
        options: Recall to reach.
        lists: Lists of the vector index, 0 without one.
    """
    indexes = {index.columns[0]: str(index.index_uuid) for index in state.chunks.list_indices()}
    totals = state.totals
    facts: dict[str, Any] = {"words": {"rows": totals.chunks, "length": totals.length}}
    if not state.live and state.indexes["words"][1] == 0 and scores_agree(state):
        facts["words"]["uuid"] = indexes["words"]
    if options.approximate and lists and totals.chunks >= options.approximate_rows:
        facts["vector"] = {
            "uuid": indexes["vector"],
            **_tuned_depths(state.chunks, options.recall, lists),
        }
    return facts


def _tuned_depths(chunks: Any, target: float, lists: int) -> dict[str, Any]:
    """The cheapest lists and refinement that reach the target for each number of candidates.

    They are tried on some of the sampled passages, and measured on all that reach it.
    """
    rows = chunks.count_rows()
    rng = np.random.default_rng(_SEED)
    at = np.sort(rng.choice(rows, min(rows, _SAMPLED), replace=False)).tolist()
    queries = matrix(chunks.take_offsets(at).select(["vector"]).to_arrow()["vector"])
    queries = rng.permutation(queries)
    sizes = [k for k in _DEPTHS_FOR if k < rows]
    truth = _true_similarities(chunks, queries, max(sizes) + 1)
    steps = [2**power for power in range(lists.bit_length()) if 2**power < lists] + [lists]
    depths = []
    for k in sizes:

        def recall(refine: int, probes: int, count: int = _SAMPLED, k: int = k) -> float:
            return _measured_recall(chunks, queries[:count], truth[:count, : k + 1], probes, refine)

        few, reached = max(8, _TRIED // k), 0.0
        for _, probes, refine in sorted(
            (rows / k * probes / lists + _REFINED * refine, probes, refine)
            for probes in steps
            for refine in _REFINES
        ):
            reached = recall(refine, probes, few)
            if reached >= target or (probes, refine) == (lists, _REFINES[-1]):
                reached = recall(refine, probes)
            if reached >= target:
                break
        depths.append([k, probes, refine, reached] if reached >= target else [k, 0, 0, reached])
    return {"target": target, "queries": len(queries), "lists": lists, "measured": depths}


def _true_similarities(chunks: Any, queries: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """The k highest similarities of each query, highest first; one pass over the vectors."""
    best = np.full((len(queries), k), -np.inf, np.float32)
    for batch in chunks.search().select(["vector"]).to_batches(_BLOCK):
        scores = queries @ matrix(batch["vector"]).T
        if not scores.shape[1]:
            continue
        joined = np.concatenate([best, scores], axis=1)
        best = -np.partition(-joined, k - 1, axis=1)[:, :k]
    return np.asarray(-np.sort(-best, axis=1), np.float32)


def _measured_recall(
    chunks: Any, queries: NDArray[np.float32], truth: NDArray[np.float32], probes: int, refine: int
) -> float:
    """Share of the nearest rows that are found, each query's own row left out."""
    k = truth.shape[1]
    hits = 0
    for query, best in zip(queries, truth, strict=True):
        search = chunks.search(query, vector_column_name="vector", query_type="vector")
        search = search.distance_type("dot").nprobes(probes).refine_factor(refine)
        near = 1.0 - search.select(["_distance"]).limit(k).to_arrow()["_distance"].to_numpy()
        hits += min(k, int(np.count_nonzero(near >= best[-1] - 1e-5))) - 1
    return float(hits / (len(queries) * (k - 1)))


def retire(tables: Sequence[Any], where: str) -> None:
    """Drop tags of snapshots beyond the newest few, then versions that no tag needs.

    A version stays if it is younger than an hour, or not older than the oldest tag.

    Args:
        tables: Tables with the same tags.
        where: The store, for errors.
    """
    for table in tables:
        tags = {
            name: int(tag["version"])
            for name, tag in table.tags.list().items()
            if name.startswith("s-")
        }
        newest = sorted(tags, key=lambda name: -tags[name])[:_KEPT]
        for name in set(tags) - set(newest):
            table.tags.delete(name)
        age = timedelta(minutes=_MINUTES)
        oldest = min((tag["version"] for tag in table.tags.list().values()), default=None)
        if oldest is not None:
            timestamps = {
                version["version"]: version["timestamp"] for version in table.list_versions()
            }
            since = timestamps.get(oldest)
            if isinstance(since, datetime):
                now = datetime.now(since.tzinfo)
                age = max(age, now - since + timedelta(minutes=1))
        lance.retry_conflicts(lambda t=table, a=age: t.optimize(cleanup_older_than=a), where)  # type: ignore[misc]


def purge(table: Any, where: str, *, unnamed: bool) -> None:
    """Remove deleted rows and all earlier versions from the disk, tags and indexes included.

    Lance only marks rows as deleted, compacts files that lost a tenth, and does not report which
    files hold such rows. So all rows are rewritten, and old versions are removed.

    Args:
        table: The table.
        where: The store, for errors.
        unnamed: Remove files that no version names, too, whatever their age. They are left by a
            writer that was killed or whose commit lost a conflict; nobody may be writing now.
    """
    for name in list(table.tags.list()):
        table.tags.delete(name)
    for index in list(table.list_indices()):
        lance.retry_conflicts(lambda n=index.name: table.drop_index(n), where)  # type: ignore[misc]
    column = table.schema.names[0]
    if table.count_rows():
        lance.retry_conflicts(lambda: table.update(values_sql={column: column}), where)
    lance.retry_conflicts(table.optimize, where)
    # Versions older than a millisecond are removed; 0 would warn on every call.
    time.sleep(0.005)
    age = timedelta(milliseconds=1)
    lance.retry_conflicts(
        lambda: table.optimize(cleanup_older_than=age, delete_unverified=unnamed), where
    )


def purge_folder(folder: Path) -> None:
    """Remove files that Lance's own clean-up ignores: temporary files, tables without a version.

    Raises:
        OSError: A file cannot be removed.
    """
    for table in folder.glob("*.lance"):
        if not any((table / "_versions").glob("*.manifest")):
            shutil.rmtree(table)
    for file in folder.rglob(".tmp*"):
        if file.is_file():
            file.unlink(missing_ok=True)
