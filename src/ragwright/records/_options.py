"""Settings of the section ``records`` of a project file."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import option
from ..engines import EngineOptions


@dataclass(frozen=True, slots=True)
class RecordsOptions(EngineOptions):
    """Settings of the tables of records; their content is declared in the folder."""

    folder: str = option("records", "Folder with source.yaml, cleaning.yaml, tags.yaml, …")
    format: str = option("message", "Text format of the documents.", when="index")
    part_rows: int = option(16_384, "Rows of one Parquet file, and of one batch.", ge=16)
    keep_versions: int = option(20, "Number of table versions that are kept.", ge=1)
    wait: float = option(600.0, "Seconds to wait for another refresh to end.", ge=0)
