"""A refresh of what changed ends where a refresh from nothing ends, and touches nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ragwright.core import DatabaseError, DuplicateKeyError, RecordsError
from ragwright.ingest import LocalEngine
from ragwright.records import (
    RecordTables,
    RefreshPlan,
    RefreshReport,
    RowSource,
    load_spec,
    refresh,
)

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
    """Rows in memory; ``fails_after`` batches it breaks off, ``more`` are further columns."""

    def __init__(
        self,
        rows: list[Row],
        stamp: str = "",
        fails_after: int | None = None,
        more: tuple[str, ...] = (),
    ) -> None:
        self.rows, self._stamp, self.fails_after = rows, stamp, fails_after
        self.names = ("id", "body", "party", *more)
        self.asked = 0

    def stamp(self) -> str:
        return self._stamp

    def batches(self, rows: int, since: str = "") -> Iterator[Any]:
        self.asked += 1
        # A source without a row still says which columns it has.
        for number, at in enumerate(range(0, max(1, len(self.rows)), rows)):
            if self.fails_after is not None and number >= self.fails_after:
                raise DatabaseError("the server went away", where="rows")
            yield pa.Table.from_pylist(
                self.rows[at : at + rows], pa.schema([(name, pa.string()) for name in self.names])
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
        return refresh(plan, RecordTables(tables), source, engine)


def content(tables: Path) -> dict[str, dict[str, Row]]:
    """Every table as key -> row."""
    opened = RecordTables(tables)
    found = {}
    for name in ("bronze", "silver", "gold", "left_out"):
        rows = [row for batch in opened.read(name) for row in batch.to_pylist()]
        found[name] = {row["record_key"]: row for row in rows}
        assert len(found[name]) == len(rows) == opened.rows(name)
    return found


def row(key: str, body: str | None, party: str | None = "D") -> Row:
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
    assert RecordTables(tmp_path / "tables").version == 0
    assert not list((tmp_path / "tables").rglob("*.parquet"))


def test_a_source_that_fails_half_way_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]))
    before = content(tmp_path / "tables")
    many = [row(f"{number}", f"Now {number}") for number in range(100)]
    with pytest.raises(DatabaseError):
        refreshed(folder, tmp_path / "tables", Rows(many, fails_after=3))
    assert content(tmp_path / "tables") == before
    assert RecordTables(tmp_path / "tables").version == 1


def test_two_rows_with_one_key_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = declare(tmp_path / "records")
    refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]))
    twice = [row("a", "Give"), *(row(f"{n}", "Now") for n in range(40)), row("a", "Now")]
    with pytest.raises(DuplicateKeyError, match="a"):
        refreshed(folder, tmp_path / "tables", Rows(twice))
    assert len(content(tmp_path / "tables")["bronze"]) == 1


@pytest.mark.slow
def test_rows_of_another_source_are_told_from_those_there_were(tmp_path: Path) -> None:
    folder, tables = declare(tmp_path / "records"), tmp_path / "tables"
    first = refreshed(folder, tables, Rows([row("a", "Give a"), row("b", "Give b")]))
    again = refreshed(folder, tables, Rows([row("a", "Give!")]))
    assert (*first.notes, *again.notes) == ()
    other = "postgresql+psycopg://me:hush-hush@h/db"
    declare(folder, source=SOURCE.replace("rows.jsonl", other) + "query: select 1\n")
    [note] = refreshed(folder, tables, Rows([row("a", "Now"), row("z", "Now z")])).notes
    for told in ("another source", "rows.jsonl", "1 row that was there"):
        assert told in note
    declare(folder, source=SOURCE.replace("rows.jsonl", other) + "query: select 2\n")
    [note] = refreshed(folder, tables, Rows([row("a", "Now")])).notes
    assert "another query" in note
    assert "0 rows that were there" in note
    assert "hush-hush" not in note + str(RecordTables(tables).manifest().lineage)
    assert not refreshed(folder, tables, Rows([row("a", "Now")])).notes


GROWN = {
    "source": SOURCE.replace("[party]", "[party, drive]"),
    "rules": "duplicates_by: [drive]\nrefine:\n  - {if: {drive: spring}, set: {season: warm}}\n",
    "rollups": "client: {column: drive}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("drives", [[None, None, "spring"], [None, None, None]])
def test_a_column_that_the_source_gains_is_null_in_rows_from_before(
    tmp_path: Path, drives: list[str | None]
) -> None:
    rows = [row("a", "Give a"), row("b", "Give b"), row("c", "Give c")]
    refreshed(declare(tmp_path / "records"), tmp_path / "tables", Rows(rows[:2]))
    now = [{**one, "drive": drive} for one, drive in zip(rows, drives, strict=True)]
    # the column is there for a while before anybody asks for it
    refreshed(tmp_path / "records", tmp_path / "tables", Rows(now, more=("drive",)))
    folder = declare(tmp_path / "records", **GROWN)
    report = refreshed(folder, tmp_path / "tables", Rows(now, "s", more=("drive",)))
    assert counts(report, "bronze") == (0, 0, 3)
    gold = content(tmp_path / "tables")["gold"]
    assert [gold[key].get("drive") for key in "abc"] == drives
    assert [gold[key]["client"] for key in "abc"] == drives
    assert [gold[key].get("season") for key in "abc"] == [drive and "warm" for drive in drives]
    full = refreshed(folder, tmp_path / "tables", Rows(now, more=("drive",)), full=True)
    assert counts(full, "gold") == (0, 0, 3)
    # known still where the source is not read again
    declare(tmp_path / "records", **{**GROWN, "rules": GROWN["rules"].replace("warm", "mild")})
    refreshed(folder, tmp_path / "tables", Rows(now, "s", more=("drive",)))
    assert not content(tmp_path / "tables")["left_out"]


def test_a_text_column_that_the_source_gains_is_empty_in_rows_from_before(tmp_path: Path) -> None:
    folder, tables = declare(tmp_path / "records"), tmp_path / "tables"
    refreshed(folder, tables, Rows([row("a", "Give a"), row("b", "Give b")]))
    declare(folder, source=SOURCE.replace("text: body", "text: words"))
    now = [{**row("a", "Give a"), "words": None}, {**row("b", "Give b"), "words": "Now b"}]
    refreshed(folder, tables, Rows(now, more=("words",)))
    found = content(tables)
    assert {key: one["text"] for key, one in found["gold"].items()} == {"b": "Now b"}
    assert found["left_out"]["a"]["left_out"] == "no text"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"rollups": "client: {column: nowhere}\n"}, "nowhere"),
        ({"rules": "refine:\n  - {if: {nowhere: x}, set: {season: warm}}\n"}, "nowhere"),
        ({"rules": "duplicates_by: [nowhere]\n"}, "nowhere"),
        ({"source": SOURCE.replace("[party]", "[body]")}, "body"),
    ],
)
def test_a_column_that_no_row_ever_had_is_refused(
    tmp_path: Path, files: dict[str, str], told: str
) -> None:
    folder = declare(tmp_path / "records", **files)
    with pytest.raises(RecordsError, match=told):
        refreshed(folder, tmp_path / "tables", Rows([row("a", "Give")]))


NEEDY = {"source": SOURCE + "require: [party]\n"}


@pytest.mark.slow
def test_a_row_that_lacks_what_is_required_leaves_every_table_until_it_is_whole(
    tmp_path: Path,
) -> None:
    folder, tables = declare(tmp_path / "records", **NEEDY), tmp_path / "tables"
    whole = [row("a", "Give a"), row("b", "Give b"), row("c", "Give b")]
    refreshed(folder, tables, Rows(whole))
    assert content(tables)["left_out"]["c"]["left_out"] == "duplicate of b"
    report = refreshed(folder, tables, Rows([row("b", "[redacted]", " "), row("d", "Now", "")]))
    assert report.removed == {"bronze": 1, "silver": 1, "gold": 1}
    assert report.left_out == {"required column is empty": 2}
    found = content(tables)
    assert {name: set(rows) for name, rows in found.items()} == {
        "bronze": {"a", "c"},
        "silver": {"a", "c"},
        "gold": {"a", "c"},  # c is nobody's duplicate any more
        "left_out": {"b", "d"},
    }
    assert found["left_out"]["b"]["stage"] == "bronze"
    assert found["left_out"]["b"]["left_out"] == "required column is empty: party"
    # no other declaration brings back what the source has taken away
    declare(folder, **NEEDY, cleaning=CLEANING.replace("60", "50"))
    refreshed(folder, tables, Rows([]))
    assert set(content(tables)["gold"]) == {"a", "c"}
    # equal to what it was before it was blanked
    refreshed(folder, tables, Rows(whole[1:2]))
    found = content(tables)
    assert set(found["gold"]) == {"a", "b"}
    assert found["left_out"]["c"]["left_out"] == "duplicate of b"
    assert set(found["left_out"]) == {"c", "d"}


@pytest.mark.parametrize("which", ["first", "last"])
def test_a_row_that_lacks_what_is_required_is_no_rival_to_a_whole_one(
    tmp_path: Path, which: str
) -> None:
    source = f"{NEEDY['source']}on_duplicate: {which}\n"
    folder, tables = declare(tmp_path / "records", source=source), tmp_path / "tables"
    blank = [row(f"{number}", None, "") for number in range(20)]
    twice = [row("a", "Give", ""), row("a", "Now"), *blank, row("a", "Other", None)]
    for _ in range(2):
        refreshed(folder, tables, Rows(twice))
        found = content(tables)
        assert found["gold"]["a"]["text"] == "Now"
        assert set(found["left_out"]) == {one["id"] for one in blank}


KEYS = st.sampled_from("abcdefgh")
WORDS = st.sampled_from(["give", "now", "health", "!!", "other", "x" * 70, " "])
BODIES = st.none() | st.lists(WORDS, max_size=3).map(" ".join)
DRIVES = st.sampled_from([None, "", "spring"])
EDITS = st.dictionaries(
    KEYS, st.tuples(BODIES, st.sampled_from(["D", "R", ""]), DRIVES), max_size=6
)
OTHER = {
    "tags": [
        TAGS,
        TAGS.replace("(?i)now", "(?i)now|other"),
        "tags:\n  health hook: '(?i)health'\n  give ask: '(?i)give'\n",
        TAGS + "  other hook: other\n",
    ],
    "cleaning": [CLEANING, CLEANING.replace("60", "20"), CLEANING.replace("'!+': '!'", "'!+'")],
    "rules": [RULES, "duplicates_by: [party]\n", "length_groups: {short: 5, long: null}\n"],
    "source": [SOURCE, SOURCE.replace("[party]", "[]"), NEEDY["source"]],
}
LATER = {  # once the source has the column
    "tags": OTHER["tags"],
    "cleaning": OTHER["cleaning"],
    "rules": [*OTHER["rules"], GROWN["rules"]],
    "source": [*OTHER["source"], GROWN["source"], GROWN["source"] + "require: [drive]\n"],
    "rollups": ["", GROWN["rollups"]],
}
CHANGES, LATER_CHANGES = (
    st.fixed_dictionaries({name: st.sampled_from(texts) for name, texts in files.items()})
    for files in (OTHER, LATER)
)
STEPS = st.tuples(
    st.lists(st.tuples(EDITS, CHANGES), min_size=1, max_size=3),
    st.lists(st.tuples(EDITS, LATER_CHANGES), max_size=3),
)


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_step_by_step_ends_where_a_refresh_from_nothing_ends(
    tmp_path_factory: pytest.TempPathFactory,
    steps: tuple[list[tuple[dict[str, Any], dict[str, str]]], ...],
) -> None:
    base = tmp_path_factory.mktemp("steps")
    sent: dict[str, Row] = {}
    declared = ""
    first, later = steps
    for number, (edits, files) in enumerate([*first, *later]):
        more = ("drive",) if number >= len(first) else ()
        folder = declare(base / "records", **files)
        edited = {
            key: {**row(key, body, party), **({"drive": drive} if more else {})}
            for key, (body, party, drive) in edits.items()
        }
        sent |= edited
        every = Rows(list(sent.values()), more=more)
        # what is required is looked at in rows that come, so all come where that changed
        now = Rows(list(edited.values()), more=more) if files["source"] == declared else every
        declared = files["source"]
        refreshed(folder, base / "tables", now)
        refreshed(folder, base / f"fresh{number}", every)
        assert filled(base / "tables") == filled(base / f"fresh{number}")


def filled(tables: Path) -> dict[str, dict[str, Row]]:
    """:func:`content` without nulls: a column may be there, all null, or not."""
    return {
        name: {
            key: {column: value for column, value in one.items() if value is not None}
            for key, one in rows.items()
        }
        for name, rows in content(tables).items()
    }
