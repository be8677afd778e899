"""`records export --delta`: tables for other engines, brought up to date and forgotten."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The sample of records, refreshed."""
    ragwright(tmp_path, "init", "--template", "records", "-q")
    ragwright(tmp_path, "records", "refresh", "-q")
    return tmp_path


def exported(project: Path, *words: str) -> dict[str, Any]:
    done = ragwright(project, "records", "export", "--delta", "lake", "--json", *words)
    found: dict[str, Any] = json.loads(done.stdout)["tables"]
    return found


@pytest.mark.slow
def test_an_export_follows_the_tables(project: Path) -> None:
    import deltalake

    first = exported(project)
    assert [*first] == ["bronze", "silver", "gold", "left_out"]
    assert exported(project) == {
        name: {**one, "written": 0, "removed": 0} for name, one in first.items()
    }
    messages = project / "records" / "messages.csv"
    with messages.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[5]["body"] += " And thank you once more."
    with messages.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    ragwright(project, "records", "refresh", "-q")
    shown = ragwright(project, "records", "export", "--delta", "lake").stdout
    assert "files written" in shown
    gold = deltalake.DeltaTable(project / "lake" / "gold").to_pandas()
    assert len(gold) == first["gold"]["rows"] > 0
    assert gold["text"].str.endswith("And thank you once more.").sum() == 1
    assert exported(project, "--version", "1")["gold"]["rows"] == len(gold)


@pytest.mark.slow
def test_forget_reaches_the_export(project: Path) -> None:
    import deltalake

    exported(project)
    gold = deltalake.DeltaTable(project / "lake" / "gold").to_pandas()
    key = gold["record_key"][0]
    gone = json.loads(ragwright(project, "forget", f"record:{key}", "--json").stdout)
    assert gone["exported"] == 3
    after = deltalake.DeltaTable(project / "lake" / "gold").to_pandas()
    assert key not in set(after["record_key"])
    assert len(after) == len(gold) - 1
    (project / "lake").rename(project / "elsewhere")
    other = after["record_key"][0]
    done = ragwright(project, "forget", f"record:{other}")
    assert "lake are not there any more" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_the_tables_are_there_already(project: Path) -> None:
    import deltalake

    own = project / ".ragwright" / "data" / "records"
    before = sorted(own.rglob("*"))
    done = ragwright(project, "records", "export", "--delta", str(own), "--json")
    for name, counts in json.loads(done.stdout)["tables"].items():
        delta = deltalake.DeltaTable(own / name, version=counts["version"])
        assert len(delta.to_pandas()) == counts["rows"]
        assert counts["written"] == counts["removed"] == 0
    assert sorted(own.rglob("*")) == before
    copied = ragwright(project, "records", "export", "--delta", "lake")
    assert str(own) in "".join(copied.stderr.split("\n"))


@pytest.mark.slow
def test_what_cannot_be_asked_together(project: Path) -> None:
    for words in (("gold", "--delta", "lake"), ("gold",), ("-o", "gold.csv"), ()):
        done = ragwright(project, "records", "export", *words, code=1)
        assert "--delta" in done.stderr
    assert not (project / "lake").exists()


def test_the_extra_is_named_where_it_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    done = ragwright(project, "records", "export", "--delta", "lake", code=1)
    assert "pip install 'ragwright[records]'" in done.stderr
    assert not (project / "lake").exists()
