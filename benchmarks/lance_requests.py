"""Requests and bytes of a search of the Lance store behind a local S3 server.

    python -m benchmarks.lance_requests --rows 100000 --folder DIR [--publish]

The folder is one that ``benchmarks.lance_scale`` filled. moto serves its files in place. The first
query is that of a newly opened store, whose caches are empty; later queries are different ones,
after some warm-up queries. A query is a keyword search and a dense search for 100 candidates each,
and the texts of 10 chunks. Times are not shown, since a local server lacks the latency of an
object store.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.lance_scale import DEPTH, PAIR, SHARES, SHOWN, options, questions
from benchmarks.publish import Section, Table, publish, section_lines, versions
from ragwright.core import Filter
from ragwright.index import LanceStore, View

BEFORE, AFTER = {True: 1, False: 20}, {True: 2, False: 20}
"""Queries that fill the caches, and those that are counted then, with filters and without."""

Question = tuple[str, Any]


@dataclass(frozen=True)
class Asked:
    """Requests that read an object, other requests (lists, tags), and bytes sent by the server."""

    reads: int
    others: int
    sent: int


def load(folder: Path, bucket: Any, name: str) -> int:
    """Serve the files of a folder as objects; their number.

    moto reads the whole of an object for each range of it, so these are mapped into memory.
    """
    key_of = import_module("moto.s3.models").FakeKey
    account = import_module("moto.core").DEFAULT_ACCOUNT_ID
    backend = import_module("moto.backends").get_backend("s3")[account]["aws"]
    plain, mapped = key_of.value, {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or not file.stat().st_size:
            continue
        key = f"rag/{file.relative_to(folder).as_posix()}"
        bucket.client.put_object(Bucket=name, Key=key, Body=b"")
        with file.open("rb") as opened:
            mapped[key] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        backend.get_object(name, key).contentsize = file.stat().st_size

    def value(key: Any) -> Any:
        content = mapped.get(key.name)
        if content is None:
            return plain.fget(key)
        return content if len(content) > 2**20 else content[:]

    key_of.value = property(value, plain.fset)
    return len(mapped)


def asked(bucket: Any, work: Callable[[], Any]) -> Asked:
    """What some work asks of the server."""
    start, sent = len(bucket.requests), bucket.sent
    work()
    requests = bucket.requests[start:]
    reads = sum(
        method in ("GET", "HEAD") and path.count("/") > 2 and not path.endswith("/")
        for method, path in requests
    )
    return Asked(reads, len(requests) - reads, bucket.sent - sent)


def query(view: View, question: Question, filters: tuple[Filter, ...]) -> None:
    """Both searches, and the texts of the best chunks."""
    text, vector = question
    view.keyword(text, DEPTH, filters)
    hits = view.dense(vector[None, :], DEPTH, filters)[0]
    view.lookup([name for name, _ in hits[:SHOWN]])


def opened(store: LanceStore, views: list[View]) -> None:
    """Open the present state."""
    views.append(store.view(PAIR))


def row(step: str, some: list[Asked]) -> dict[str, Any]:
    """One row: means, and the most bytes."""
    return {
        "step": step,
        "reads": round(statistics.mean(cost.reads for cost in some), 1),
        "lists and writes": round(statistics.mean(cost.others for cost in some), 1),
        "MB": statistics.mean(cost.sent for cost in some) / 1e6,
        "most MB": max(cost.sent for cost in some) / 1e6,
    }


def measured(bucket: Any, folder: Path) -> list[dict[str, Any]]:
    """Ask everything of the server, and count."""
    known = questions(folder)
    opening: list[Asked] = []
    first: dict[str, list[Asked]] = {name: [] for name in SHARES}
    place = f"s3://{import_module('tests.servers.s3_server').NAME}/rag"
    for name, filters in SHARES.items():
        store = LanceStore(place, options("lance approximate"))
        views: list[View] = []
        opening.append(asked(bucket, partial(opened, store, views)))
        first[name].append(asked(bucket, partial(query, views[0], known[0], filters)))
        store.close()
    rows = [row("open the index", opening)]
    rows += [row(f"first query, {name} of the chunks", some) for name, some in first.items()]
    store = LanceStore(place, options("lance approximate"))
    view = store.view(PAIR)
    for name, filters in SHARES.items():
        warming, counted = BEFORE[bool(filters)], AFTER[bool(filters)]
        for question in known[:warming]:
            query(view, question, filters)
        later = known[warming : warming + counted]
        some = [asked(bucket, partial(query, view, question, filters)) for question in later]
        rows.append(row(f"later query, {name} of the chunks", some))
    store.snapshot(PAIR)
    looks = [asked(bucket, lambda: store.snapshot(PAIR)) for _ in SHARES]
    rows.append(row("look for a newer state", looks))
    return rows


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    s3_server = import_module("tests.servers.s3_server")
    with s3_server.serving() as bucket:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": s3_server.KEY,
            "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
            "AWS_ENDPOINT": bucket.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
        objects = load(chosen.folder / "store.lance", bucket, s3_server.NAME)
        rows = measured(bucket, chosen.folder)
    section = Section(
        f"The index of {chosen.rows:,} chunks behind an S3 server",
        [Table(rows, "Requests and megabytes of one step, means")],
        [
            f"{objects} objects; a first query is asked of a newly opened store, later ones are "
            f"the mean of {AFTER[False]} queries after {BEFORE[False]} others, with filters of "
            f"{AFTER[True]} after {BEFORE[True]}.",
            "A query is a keyword search and a dense search for 100 candidates each, and the texts "
            "of 10 chunks. moto serves; `gs://` and `az://` were not run.",
        ],
        f"python -m benchmarks.lance_requests --rows {chosen.rows} --folder DIR --publish",
        "scale",
        len(str(chosen.rows)) + 10,
        conditions=versions("lancedb", "moto"),
    )
    if chosen.publish:
        publish(f"lance-requests-{chosen.rows}", section)
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
