"""Tables as sources: rows are documents, parts of files are what is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ragwright import Workbench
from ragwright.core import ConfigError, Document
from ragwright.ingest import Failure, SourceOptions, TableReader, catch_failures, files_of

COLUMNS = SourceOptions(
    text_column="body", id_column="key", title_column="head", metadata_columns=("year",)
)


def rows(count: int, first: int = 0) -> Any:
    numbers = range(first, first + count)
    return pa.table(
        {
            "key": [f"k{n}" for n in numbers],
            "body": [f"The pump {n} needs oil." for n in numbers],
            "head": [f"Pump {n}" for n in numbers],
            "year": [2000 + n % 20 for n in numbers],
        }
    )


def read(reader: TableReader, source: str) -> list[Document | Failure]:
    def fetch(url: str) -> Any:
        raise AssertionError(url)

    return list(catch_failures(reader.read(source, fetch), source, reader))


def test_parts_together_are_all_rows_in_order(tmp_path: Path) -> None:
    parquet.write_table(rows(9000), tmp_path / "t.parquet", row_group_size=5000)
    reader = TableReader(COLUMNS, tmp_path)
    found = files_of(reader, "t.parquet")
    assert found is not None
    assert len(list(found)) == 2  # of 5,000 and 4,000 rows
    documents = read(reader, "t.parquet")
    assert [d.id for d in documents if isinstance(d, Document)] == [f"k{n}" for n in range(9000)]
    first = documents[0]
    assert isinstance(first, Document)
    assert (first.title, first.metadata, first.source) == (
        "Pump 0",
        {"year": 2000},
        "t.parquet#k0",
    )


def test_faults_are_named(tmp_path: Path) -> None:
    table = rows(3).set_column(0, "key", pa.array(["a", None, "c"]))
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    reader = TableReader(COLUMNS, tmp_path)
    [_, failed, _] = read(reader, "t.parquet")
    assert isinstance(failed, Failure)
    assert failed.source == "t.parquet, row 1"
    [broken] = read(reader, "broken.parquet")
    [gone] = read(reader, "gone.parquet")
    [remote] = read(reader, "s3://bucket/t.parquet")
    wrong = SourceOptions(text_column="bodi", id_column="key")
    [column] = read(TableReader(wrong, tmp_path), "t.parquet")
    said = [str(one.error) for one in (broken, gone, remote, column) if isinstance(one, Failure)]
    for text, words in zip(
        said,
        ("cannot be read", "no Parquet file", "mounted", "did you mean 'body'"),
        strict=True,
    ):
        assert words in text


def test_columns_are_keys_of_a_source(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    for part in range(2):
        parquet.write_table(rows(40, 40 * part), tmp_path / f"tables/{part}.parquet")
    file = tmp_path / "ragwright.yaml"
    file.write_text("sources: [{source: tables, text_column: body, id_column: key}]\n", "utf-8")
    with Workbench.open(tmp_path) as bench:
        assert bench.ingest().counts.added == 80
        parquet.write_table(rows(39, 40), tmp_path / "tables/1.parquet")
        again = bench.ingest(prune=True).counts
        assert (again.added, again.unchanged, again.removed) == (0, 79, 1)
        assert bench.retrieve("pump 17").hits[0].document_id == "k17"
    file.write_text("sources: [{source: tables, text_column: body}]\n", "utf-8")
    with pytest.raises(ConfigError, match="id_column"):
        Workbench.open(tmp_path).close()


def test_a_delta_table_is_read_at_its_present_version(tmp_path: Path) -> None:
    import deltalake

    deltalake.write_deltalake(str(tmp_path / "d"), rows(10))
    deltalake.write_deltalake(str(tmp_path / "d"), rows(5, 100), mode="overwrite")
    found = read(TableReader(COLUMNS, tmp_path), "d")
    assert [d.id for d in found if isinstance(d, Document)] == [f"k{n}" for n in range(100, 105)]
