"""Upgrades of projects that older versions left."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright import Workbench
from ragwright.ledger import ledger_tables
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

LEDGER = ".ragwright/data/ledger.sqlite"
COLUMNS_OF_3 = (
    "number, name, hash, role, configurations, filters, per_minute, daily_budget, created"
)
KEYS_OF_3 = (
    "number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, hash TEXT NOT NULL "
    "UNIQUE, role TEXT NOT NULL, configurations TEXT NOT NULL, filters TEXT NOT NULL, "
    "per_minute INTEGER, daily_budget REAL, created TEXT NOT NULL"
)
SINCE_4 = ("audit_events", "served_reserved")
"""Tables of the ledger that version 3 did not have."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A project whose ledger has version 3, with a key."""
    folder = MakeProject(tmp_path)("serve: {name: book}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    ServeKeys(ProjectFolder(folder)).add(ServeKey("ann"))
    with closing(sqlite3.connect(folder / LEDGER)) as ledger, ledger:
        for name in SINCE_4:
            ledger.execute(f"DROP TABLE {name}")
        ledger.execute("ALTER TABLE serve_keys RENAME TO present")
        ledger.execute(f"CREATE TABLE serve_keys ({KEYS_OF_3})")
        ledger.execute(f"INSERT INTO serve_keys SELECT {COLUMNS_OF_3} FROM present")
        ledger.execute("DROP TABLE present")
        ledger.execute("PRAGMA user_version = 3")
    return folder


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    data = folder / ".ragwright/data"
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in data.glob("*.sqlite")}


def planned(folder: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ragwright(folder, "upgrade", *words, "--json").stdout)
    return found


def test_a_dry_run_names_what_is_migrated_and_writes_nothing(old: Path) -> None:
    before = state(old)
    [step] = planned(old, "--dry-run")["to_migrate"]
    assert (step["what"], step["state"]) == ("ledger.sqlite", "version 3")
    assert step["backup"] == "ledger.sqlite.v3.bak"
    assert step["bytes"] > 0
    assert state(old) == before
    shown = ragwright(old, "upgrade", "--dry-run").stdout
    assert "1 file to migrate; the copies need" in shown


def test_an_upgrade_migrates_keeps_a_copy_and_every_row(old: Path) -> None:
    done = planned(old)
    assert [step["what"] for step in done["migrated"]] == ["ledger.sqlite"]
    assert (old / f"{LEDGER}.v3.bak").exists()
    [key] = ServeKeys(ProjectFolder(old)).all()
    assert (key.name, key.groups) == ("ann", ())
    with closing(sqlite3.connect(old / LEDGER)) as ledger:
        assert ledger.execute("PRAGMA user_version").fetchone() == (ledger_tables().version,)
    again = planned(old)
    assert (again["migrated"], again["left"]) == ([], [])
    assert "nothing to do" in ragwright(old, "upgrade").stdout


def test_settings_that_are_gone_are_named_with_their_line(old: Path) -> None:
    (old / "ragwright.yaml").write_text("sources: [docs/]\nretrieve: {top_q: 3}\n", "utf-8")
    steps = planned(old, "--dry-run")["left"]
    [settings] = [step for step in steps if step["what"] == "settings"]
    assert "ragwright.yaml:2" in settings["state"]
    assert "top_k" in settings["action"]
    assert "top_q" in ragwright(old, "upgrade", code=1).stderr


def test_newer_files_are_refused_with_what_to_do(old: Path) -> None:
    with closing(sqlite3.connect(old / LEDGER)) as ledger, ledger:
        ledger.execute("PRAGMA user_version = 99")
    [step] = planned(old, "--dry-run")["left"]
    assert "version 99" in step["state"]
    assert "pip install" in step["action"]


def test_an_index_of_other_settings_is_to_be_ingested_again(old: Path) -> None:
    planned(old)
    (old / "ragwright.yaml").write_text("sources: [docs/]\nchunk: {size: 300}\n", "utf-8")
    assert any("ingest" in step["action"] for step in planned(old, "--dry-run")["left"])
