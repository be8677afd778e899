"""Settings of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..core import ConfigError, holds_secret, option


@dataclass(frozen=True, slots=True)
class LanceSizes:
    """Numbers of chunks from which a Lance store works differently; the defaults were measured.

    Attributes:
        indexed: Indexes are built from this many on; fewer are read in milliseconds.
        stale: Changes after which indexes are renewed where search is approximate.
        read: A relaxation level up to this size is read whole, about as fast as one search.
        exact: Chunks under hard filters up to which dense search is always exact.
        joined: Writes of a process after which it joins the small files of documents, which every
            write reads.
    """

    indexed: int = 5_000
    stale: int = 1_000
    read: int = 5_000
    exact: int = 20_000
    joined: int = 50


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Location and behaviour of the store."""

    kind: Literal["sqlite", "lance"] = option(
        "sqlite",
        "Store: sqlite (embedded) or lance (scales out).",
        when="index",
    )
    path: str = option(
        "",
        "File or folder of the store, from the project folder; empty for .ragwright/data.",
        when="index",
    )
    uri: str = option(
        "",
        "Folder or address (s3://, gs://, az://) of a lance store; empty for store.path. "
        "Credentials come from the environment.",
        when="index",
    )
    cache_mb: int = option(
        512, "Most megabytes of a lance store's indexes that one process keeps in memory.", ge=32
    )
    k1: float = option(1.2, "BM25: saturation of repeated words (k1).", ge=0.0)
    b: float = option(0.75, "BM25: how strongly long chunks are penalised (b).", ge=0.0, le=1.0)
    approximate: bool = option(
        False,
        "Answer dense searches of a large lance store from an approximate index; its measured "
        "recall is stated with every answer.",
    )
    recall: float = option(
        0.98,
        "Recall@100 and @1000 to which the approximate index is tuned; if it cannot reach them, "
        "search is exact.",
        ge=0.0,
        le=1.0,
    )
    approximate_rows: int = option(
        50_000,
        "Least number of chunks for which the approximate index is built.",
        ge=1000,
    )
    busy_seconds: float = option(30.0, "Seconds to wait for another process's write.", ge=0.0)
    max_mb: int = option(0, "Most megabytes the SQLite file may take, 0 for no limit.", ge=0)

    def __post_init__(self) -> None:
        """Refuse keys that the kind does not have, and secrets."""
        if self.uri and self.kind != "lance":
            raise ConfigError("store.uri needs store.kind lance", hint="set kind: lance")
        if holds_secret(self.uri):
            raise ConfigError(
                "store.uri holds a secret",
                hint="leave it out: credentials of an object store come from the environment",
            )
        if self.approximate and self.kind != "lance":
            raise ConfigError(
                "store.approximate needs store.kind lance: the sqlite store searches exactly",
                hint="set store.kind: lance and run ragwright ingest again, or remove "
                "store.approximate",
            )
