"""What source.yaml declares: where rows come from, and what their columns are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from ..core import value_hash

OnDuplicate: TypeAlias = Literal["error", "first", "last"]


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source of rows. Columns are named as they are after ``rename``.

    Attributes:
        source: File, folder, glob, or the address of a database.
        query: Statement to read rows by; databases only.
        key: Column that names a row.
        text: Column that holds its text.
        hash: Columns that decide whether a row changed; all where empty.
        keep: Columns that documents carry as metadata.
        rename: Column of the source -> its name here.
        require: Columns that must not be empty; other rows are left out.
        watermark: Column that says which rows are newer.
        on_duplicate: What to do with two different rows of one key.
        encoding: Of text files; UTF-8 where empty.
        delimiter: Of delimited files; found out where empty.
        where: Where it was written, for messages; not part of what it says.
    """

    source: str
    key: str
    text: str
    query: str = ""
    hash: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    watermark: str = ""
    on_duplicate: OnDuplicate = "error"
    encoding: str = ""
    delimiter: str = ""
    where: str = field(default="", compare=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything but where it was written."""
        return value_hash({**asdict(self), "rename": dict(self.rename), "where": ""})
