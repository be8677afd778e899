"""Settings of the section ``records`` of a project file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import option

EngineName: TypeAlias = Literal["local", "ray"]


@dataclass(frozen=True, slots=True)
class RecordsOptions:
    """Settings of the tables of records; their content is declared in the folder."""

    folder: str = option("records", "Folder with source.yaml, cleaning.yaml, tags.yaml, …")
    format: str = option("message", "Text format of the documents.", when="index")
    engine: EngineName = option("local", "Where steps run: local (threads) or ray (a cluster).")
    address: str = option("", "Address of the Ray cluster; empty for the one of the environment.")
    workers: int | None = option(
        None, "Steps at once; as many as there are cores by default.", ge=1
    )
    part_rows: int = option(16_384, "Rows of one Parquet file, and of one batch.", ge=16)
    keep_versions: int = option(20, "Number of table versions that can be restored.", ge=1)
    wait: float = option(600.0, "Seconds to wait for another refresh to end.", ge=0)
