"""Settings of the store."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import ConfigError, option


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Location and behaviour of the store."""

    kind: str = option("sqlite", "Store: sqlite (embedded), or lance (scales out).", when="index")
    path: str = option(
        "",
        "File or folder of the store, from the project folder; empty for .ragwright/data.",
        when="index",
    )
    views: str = option(
        "", "Folder of saved views, from the project folder; empty for .ragwright/cache/views."
    )
    k1: float = option(1.2, "BM25: saturation of repeated words (k1).", ge=0.0)
    b: float = option(0.75, "BM25: how strongly long chunks are penalised (b).", ge=0.0, le=1.0)
    approximate: bool = option(
        False,
        "Answer dense searches of large segments from an approximate index ([ann]); its measured "
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
        "Least number of chunks of a segment for which the approximate index is built.",
        ge=1000,
    )
    durability: str = option(
        "normal", "Safe against a killed process (normal), or against power loss too (full)."
    )
    busy_seconds: float = option(30.0, "Seconds to wait for another process's write.", ge=0.0)
    max_mb: int = option(0, "Most megabytes the SQLite file may take, 0 for no limit.", ge=0)

    def __post_init__(self) -> None:
        """Refuse kinds and durabilities that do not exist."""
        if self.kind not in ("sqlite", "lance"):
            raise ConfigError(f"unknown store kind {self.kind!r}", hint="one of sqlite, lance")
        if self.durability not in ("normal", "full"):
            raise ConfigError(f"unknown durability {self.durability!r}", hint="one of normal, full")
