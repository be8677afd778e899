"""A refresh of what changed ends where a refresh from nothing ends, and touches nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragwright.core import DatabaseError, DuplicateKeyError
from ragwright.records import (
    LocalEngine,
    RefreshPlan,
    RefreshReport,
    RowSource,
    Tables,
    load_spec,
    refresh,
)

pa = pytest.importorskip("pyarrow")
pytest.importorskip("daft")

Row = dict[str, Any]

SOURCE = "source: rows.jsonl\nkey: id\ntext: body\nkeep: [party]\n"
CLEANING = "max_characters: 60\nsteps:\n  - odd:\n      - '!+': '!'\n  - strip\n"
TAGS = "tags:\n  give ask: '(?i)give'\n  urgent tone: '(?i)now'\n  health hook: '(?i)health'\n"
RULES = "contradictions:\n  - {name: both, tags: [give ask, health hook]}\n"
FORMAT = (
    "prompt_variables: [length, ask_type, topic, tone, text]\n"
    'prompt_structure: "A %s %s message about %s with %s:\\n\\n%s"\n'
)


class Rows(RowSource):
    """Rows in memory; ``fails_after`` batches it breaks off."""

    def __init__(self, rows: list[Row], stamp: str = "", fails_after: int | None = None) -> None:
        self.rows, self._stamp, self.fails_after = rows, stamp, fails_after
        self.asked = 0

    def stamp(self) -> str:
        return self._stamp

    def batches(self, rows: int, since: str = "") -> Iterator[Any]:
        self.asked += 1
        for number, at in enumerate(range(0, len(self.rows), rows)):
            if self.fails_after is not None and number >= self.fails_after:
                raise DatabaseError("the server went away", where="rows")
            yield pa.Table.from_pylist(
                self.rows[at : at + rows],
                pa.schema([("id", pa.string()), ("body", pa.string()), ("party", pa.string())]),
            )


def declare(folder: Path, **files: str) -> Path:
    """A folder of declarations; the given files in place of the usual ones."""
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"source": SOURCE, "cleaning": CLEANING, "tags": TAGS, "rules": RULES}
    for name, text in {**usual, **files}.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    (folder / "text_formats").mkdir(exist_ok=True)
    (folder / "text_formats" / "message.yaml").write_text(FORMAT, "utf-8")
    return folder


def refreshed(folder: Path, tables: Path, source: RowSource, **how: Any) -> RefreshReport:
    plan = RefreshPlan(load_spec(folder), part_rows=16, **how)
    with LocalEngine(2) as engine:
        return refresh(plan, Tables(tables), source, engine)


def content(tables: Path) -> dict[str, dict[str, Row]]:
    """Every table as key -> row."""
    opened = Tables(tables)
    found = {}
    for name in ("bronze", "silver", "gold", "left_out"):
        rows = [row for batch in opened.read(name) for row in batch.to_pylist()]
        found[name] = {row["record_key"]: row for row in rows}
        assert len(found[name]) == len(rows) == opened.rows(name)
    return found


def row(key: str, body: str | None, party: str = "D") -> Row:
    return {"id": key, "body": body, "party": party}


def counts(report: RefreshReport, table: str) -> tuple[int, int, int]:
    found = report.counts[table]
    return found.inserted, found.updated, found.unchanged


def test_rows_go_from_the_source_to_gold_and_what_falls_out_says_why(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    rows = [
        row("a", "Give now!!!"),
        row("b", "Give now!"),  # the same once it is clean
        row("c", "Your health"),
        row("d", "Give for health"),  # contradictory
        row("e", "x" * 60),
        row("f", "   "),
        row("g", None),
    ]
    report = refreshed(folder, tmp_path / "tables", Rows(rows))
    assert counts(report, "bronze") == (7, 0, 0)
    assert counts(report, "silver") == (4, 0, 0)
    assert counts(report, "gold") == (2, 0, 0)
    found = content(tmp_path / "tables")
    assert found["bronze"]["a"]["body"] == "Give now!!!"
    assert found["silver"]["a"]["text"] == "Give now!"
    assert found["silver"]["a"]["tags"] == ["give ask", "urgent tone"]
    assert found["gold"]["a"]["document"] == "A short give with urgent:\n\nGive now!"
    assert found["gold"]["a"]["party"] == "D"
    why = {key: one["left_out"] for key, one in found["left_out"].items()}
    assert why["b"] == "duplicate of a"
    assert "both" in why["d"]
    assert set(why) == {"b", "d", "e", "f", "g"}


def test_a_rerun_without_changes_writes_nothing(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    rows = [row(f"{number}", f"Give now {number}") for number in range(50)]
    refreshed(folder, tmp_path / "tables", Rows(rows))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*.parquet")}
    report = refreshed(folder, tmp_path / "tables", Rows(rows))
    assert [counts(report, name) for name in ("bronze", "silver", "gold")] == [(0, 0, 50)] * 3
    assert report.version == 1
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*.parquet")}
    assert after == before


def test_a_source_that_looks_the_same_is_not_read(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    rows = [row("a", "Give")]
    refreshed(folder, tmp_path / "tables", Rows(rows, "s1"))
    same = Rows(rows, "s1")
    report = refreshed(folder, tmp_path / "tables", same)
    assert same.asked == 0
    assert counts(report, "bronze") == (0, 0, 1)
    other = Rows(rows, "s2")
    refreshed(folder, tmp_path / "tables", other)
    assert other.asked == 1


def test_a_dry_run_counts_and_keeps_nothing(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    report = refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]), dry_run=True)
    assert counts(report, "gold") == (1, 0, 0)
    assert Tables(tmp_path / "tables").version == 0
    assert not list((tmp_path / "tables").rglob("*.parquet"))


def test_a_source_that_fails_half_way_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]))
    before = content(tmp_path / "tables")
    many = [row(f"{number}", f"Now {number}") for number in range(100)]
    with pytest.raises(DatabaseError):
        refreshed(folder, tmp_path / "tables", Rows(many, fails_after=3))
    assert content(tmp_path / "tables") == before
    assert Tables(tmp_path / "tables").version == 1


def test_two_rows_with_one_key_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]))
    twice = [row("a", "Give"), *(row(f"{n}", "Now") for n in range(40)), row("a", "Now")]
    with pytest.raises(DuplicateKeyError, match="a"):
        refreshed(folder, tmp_path / "tables", Rows(twice))
    assert len(content(tmp_path / "tables")["bronze"]) == 1


KEYS = st.sampled_from("abcdefgh")
WORDS = st.sampled_from(["give", "now", "health", "!!", "other", "x" * 70, " "])
BODIES = st.none() | st.lists(WORDS, max_size=3).map(" ".join)
EDITS = st.dictionaries(KEYS, st.tuples(BODIES, st.sampled_from("DR")), max_size=6)
OTHER = {
    "tags": [
        TAGS,
        TAGS.replace("(?i)now", "(?i)now|other"),
        "tags:\n  health hook: '(?i)health'\n  give ask: '(?i)give'\n",
        TAGS + "  other hook: other\n",
    ],
    "cleaning": [CLEANING, CLEANING.replace("60", "20"), CLEANING.replace("'!+': '!'", "'!+'")],
    "rules": [RULES, "duplicates_by: [party]\n", "length_groups: {short: 5, long: null}\n"],
    "source": [SOURCE, SOURCE.replace("[party]", "[]")],
}
RULES_TAGGED = "give ask"
CHANGES = st.fixed_dictionaries({name: st.sampled_from(texts) for name, texts in OTHER.items()})


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.tuples(EDITS, CHANGES), min_size=1, max_size=4))
def test_step_by_step_ends_where_a_refresh_from_nothing_ends(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[dict[str, Any], dict[str, str]]]
) -> None:
    base = tmp_path_factory.mktemp("steps")
    bronze: dict[str, Row] = {}
    for number, (edits, files) in enumerate(steps):
        folder = declare(base / "records", **files)
        now = [row(key, body, party) for key, (body, party) in edits.items()]
        bronze |= {one["id"]: one for one in now}
        refreshed(folder, base / "tables", Rows(now))
        refreshed(folder, base / f"fresh{number}", Rows(list(bronze.values())))
        assert content(base / "tables") == content(base / f"fresh{number}")
