"""Lookup tables of records: from files and databases, incremental, asked by command."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright import Workbench
from ragwright.project import init_project

ROWS = """\
id,who,party,body
1,Jane Doe,D,please chip in
2,"DOE, JANE",R,come to the rally
3,Zoë  ÉCLAIR,D,nothing to ask
4,Jane Doe,D,
"""

LOOKUPS = """\
rollup: {source: "${REFERENCE}", query: "select client, spelling from spellings"}
biographies: {source: people.csv, rename: {full name: name, life: biography}}
tags: {source: "${REFERENCE}", query: select * from tags order by name}
refine: records/refine.csv
contradictions: {source: "${REFERENCE}", query: select * from contradictions}
"""

TABLES = """
create table spellings (client text, spelling text);
insert into spellings values ('Jane Doe', 'DOE, JANE'), ('Zoé', 'zoë éclair'), ('Ann Lee', null);
create table tags (name text, pattern text, "column" text, definition text);
insert into tags values ('money ask', 'chip in', null, 'Asks for money.'),
    ('red hook', '^R$', 'party', null), ('rally hook', 'rally', null, null);
create table contradictions (name text, tag text);
insert into contradictions values ('never', 'money ask'), ('never', 'red hook');
"""


class Team:
    """A project whose lookup tables are in a database and in CSV files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        init_project(self.folder)
        self.database = folder / "reference.db"
        self.environment = {"REFERENCE": f"sqlite:///{self.database}"}
        self.sql(TABLES)
        self.write("source", "source: rows.csv\nkey: id\ntext: body\nkeep: [party]\n")
        self.write("rollups", "client: {column: who}\n")
        self.write("lookups", LOOKUPS)
        (self.folder / "rows.csv").write_text(ROWS, "utf-8")
        (self.folder / "people.csv").write_text('full name,life\nZoé,"Bakes, sings."\n', "utf-8")
        (self.folder / "records/refine.csv").write_text(
            "if ask_type,if party,set audience\nmoney,^D$,friends\n,R,others\n", "utf-8"
        )

    def write(self, name: str, text: str) -> None:
        """A file of the declarations."""
        (self.folder / "records").mkdir(exist_ok=True)
        (self.folder / f"records/{name}.yaml").write_text(text, "utf-8")

    def sql(self, *statements: str) -> None:
        """Change the database."""
        with sqlite3.connect(self.database) as connection:
            for statement in statements:
                connection.executescript(statement)

    def run(self, *words: str, code: int = 0) -> Any:
        """A command with --json, as values."""
        done = ragwright(self.folder, "records", *words, "--json", code=code, **self.environment)
        return json.loads(done.stdout)

    def refused(self, *words: str) -> str:
        """What a command that fails says."""
        done = ragwright(self.folder, "records", *words, code=1, **self.environment)
        return " ".join(done.stderr.split())

    def gold(self) -> dict[str, Any]:
        """Gold rows by key."""
        return {row["record_key"]: row for row in self.run("show", "gold")["rows"]}

    def changed(self, report: Any) -> list[tuple[int, int]]:
        """(inserted, updated) of bronze, silver, gold."""
        tables: Sequence[str] = ("bronze", "silver", "gold")
        return [(report[name]["inserted"], report[name]["updated"]) for name in tables]


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def test_tables_of_a_database_and_of_files_make_records(team: Team) -> None:
    assert team.run("check")["faults"] == []
    report = team.run("refresh")
    assert report["lookups"]["rollup"] == {"rows": 3, "changed": True}
    gold = team.gold()
    assert [gold[key]["client"] for key in "123"] == ["Jane Doe", "Jane Doe", "Zoé"]
    assert gold["1"]["ask_type"] == ["money"]
    assert gold["2"]["topic"] == ["rally", "red"], "red is found in the column party"
    assert [gold[key]["audience"] for key in "123"] == ["friends", "others", None]


@pytest.mark.slow
def test_a_changed_table_refreshes_only_what_follows_from_it(team: Team) -> None:
    team.run("refresh")
    again = team.run("refresh")
    assert team.changed(again) == [(0, 0)] * 3
    assert (again["index"]["written"], again["version"]) == (0, 1)
    assert not any(table["changed"] for table in again["lookups"].values())

    team.sql(
        "insert into spellings values ('Zoé Éclair', 'ZOË ÉCLAIR!')",
        "delete from spellings where client = 'Zoé'",
    )
    moved = team.run("refresh")
    assert team.changed(moved) == [(0, 0), (0, 0), (0, 1)]
    assert moved["index"]["written"] == 1
    assert [name for name, one in moved["lookups"].items() if one["changed"]] == ["rollup"]
    assert team.gold()["3"]["client"] == "Zoé Éclair"

    team.sql("update tags set pattern = '^D$' where name = 'red hook'")
    tagged = team.run("refresh")
    assert team.changed(tagged)[:2] == [(0, 0), (0, 3)]
    assert [team.gold()[key]["topic"] for key in "23"] == [["rally"], ["red"]]
    assert "1" not in team.gold(), "row 1 now has both tags of a contradiction"


def test_a_tag_of_a_column_follows_the_column(team: Team) -> None:
    team.run("refresh")
    rows = team.folder / "rows.csv"
    rows.write_text(ROWS.replace("3,Zoë  ÉCLAIR,D", "3,Zoë  ÉCLAIR,R"), "utf-8")
    assert team.changed(team.run("refresh")) == [(0, 1), (0, 1), (0, 1)]
    assert team.gold()["3"]["topic"] == ["red"]


def test_tags_of_columns_of_lists_and_numbers(team: Team) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    labels = [["river", "Straße"], [], None, ["stream"]]
    table = pa.table(
        {
            "id": ["1", "2", "3", "4"],
            "body": list("abcd"),
            "labels": labels,
            "year": [1999, 2026, None, 2026],
        }
    )
    parquet.write_table(table, team.folder / "rows.parquet")
    team.write("source", "source: rows.parquet\nkey: id\ntext: body\n")
    team.write("rollups", "{}")
    (team.folder / "records/lookups.yaml").unlink()
    team.write(
        "tags",
        """\
tags:
  street hook: {column: labels, pattern: '^straße$|^Straße$'}
  water hook: {column: labels, pattern: '^(river|stream)$'}
  new hook: {column: year, pattern: '^2026$'}
  plain hook: '^b$'
""",
    )
    assert team.run("check")["faults"] == []
    team.run("refresh")
    topics = {key: row["topic"] for key, row in team.gold().items()}
    assert topics == {
        "1": ["street", "water"],
        "2": ["new", "plain"],
        "3": [],
        "4": ["water", "new"],
    }


def test_questions_to_the_tables(team: Team) -> None:
    team.run("refresh")

    def ask(*words: str) -> Any:
        return team.run("lookup", *words)["entries"]

    assert ask("rollup", "doe, jane.") == [{"client": "Jane Doe", "spellings": ["DOE, JANE"]}]
    assert ask("biographies", "ZOË ÉCLAIR") == [{"name": "Zoé", "biography": "Bakes, sings."}]
    [tag] = ask("tags", "money")
    assert (tag["name"], tag["kind"], tag["definition"]) == (
        "money ask",
        "ask_type",
        "Asks for money.",
    )
    assert ask("refine", "others") == [{"if party": ["R"], "set audience": ["others"]}]
    assert ask("contradictions", "red hook") == [
        {"name": "never", "tags": ["money ask", "red hook"]}
    ]
    assert team.run("lookup", "rollup", "--limit", "2")["total"] == 3
    assert "nearest: Jane Doe" in team.refused("lookup", "rollup", "Jane Do")
    with Workbench.open(team.folder) as bench:
        assert bench.records.lookup("rollup", "Ann Lee")[0]["client"] == "Ann Lee"


@pytest.mark.slow
def test_drafts_and_questions_need_no_database_after_a_refresh(team: Team) -> None:
    team.run("refresh")
    team.database.unlink()
    assert team.run("lookup", "tags", "rally")["total"] == 1
    shown = ragwright(
        team.folder,
        "draft",
        "--client",
        "zoë éclair",
        "--bio",
        "-n",
        "1",
        "--show-prompt",
        "--set",
        "answer.draft.examples=1",
        "--set",
        "answer.draft.pool=3",
        code=0,
        **team.environment,
    )
    assert "Bakes, sings." in shown.stdout
    told = team.refused("refresh")
    assert "reference.db' does not exist" in told
    assert "the lookup table " in told
    assert len(team.gold()) == 3, "a table that is away loses nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("alter table tags rename column pattern to regex", "no column 'pattern'"),
        ("insert into tags values ('money ask', 'x', null, null)", "a tag 'money ask' already"),
        ("insert into tags values ('two words', 'x', null, null)", "unknown kind"),
        ("insert into tags values ('bad hook', '(', null, null)", "(query, row 1)"),
        ("insert into tags values ('far hook', 'x', 'nowhere', null)", "no column 'nowhere'"),
        ("insert into spellings values ('Ann Lee', 'doe, jane')", "is listed for"),
        ("insert into spellings values (null, 'nobody')", "the row has no client"),
        (
            "insert into contradictions values ('odd', 'no such tag'), ('odd', 'red hook')",
            "unknown tag 'no such tag'",
        ),
        ("update contradictions set tag = x'ff'", "contains binary, not text"),
        ("drop table tags", "no such table"),
    ],
)
def test_a_faulty_table_is_reported_with_its_row_and_loses_nothing(
    team: Team, change: str, said: str
) -> None:
    before = team.run("refresh")["version"], team.gold()
    team.sql(change)
    told = team.refused("refresh")
    assert said in told
    assert "records/lookups.yaml:" in told
    faults = team.run("check", code=1)["faults"]
    assert any(said in f"{fault['what']} {fault['where']}" for fault in faults)
    assert len(faults) == 1, "nothing that follows from it is reported as well"
    assert (team.run("history")["versions"][-1]["version"], team.gold()) == before


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("people.csv", "full name,life\nZoé,Bakes, sings.\n", "3 values, but the header has 2"),
        ("people.csv", "full name,life\nZoé,a\nZOË ÉCLAIR,b\n", ""),
        ("people.csv", "full name,life\nZoé,a\nzoé ,b\n", "already"),
        ("people.csv", "full name,life\nZoé,\n", "the row has no biography"),
        ("people.csv", "name\nZoé\n", "no column 'full name'"),
        ("records/refine.csv", "ask_type,set audience\nmoney,x\n", "begins with 'if'"),
        ("records/refine.csv", "if ask_type,set client\nmoney,x\n", "cannot set 'client'"),
        ("records/lookups.yaml", "tag: tags.csv\n", "did you mean tags"),
        ("records/lookups.yaml", "tags: {file: tags.csv}\n", "file"),
        ("records/lookups.yaml", "tags: tags.csv\n", "'tags.csv' does not exist"),
        ("records/lookups.yaml", 'tags: "${REFERENCE}"\n', "needs a query"),
    ],
)
def test_faulty_files_of_tables(team: Team, file: str, text: str, said: str) -> None:
    (team.folder / file).write_text(text, "utf-8")
    if not said:
        assert team.run("check")["faults"] == []
        return
    assert said in team.refused("refresh")


def test_biographies_of_rollups_with_an_unquoted_comma_are_refused(team: Team) -> None:
    team.write("rollups", "client: {column: who}\nbiographies: lives.csv\n")
    (team.folder / "records/lives.csv").write_text("name,biography\nJo,Bakes, sings.\n", "utf-8")
    told = team.refused("refresh")
    assert "records/lives.csv:2" in told
    assert "3 values, but the header has 2" in told


def test_rows_of_a_table_and_lines_of_a_file_belong_together(team: Team) -> None:
    team.write("rollups", "client: {column: who, names: {Jane Doe: [Janey]}}\n")
    team.write("tags", "tags:\n  rally hook: x\n")
    told = team.refused("refresh")
    assert "there is a tag 'rally hook' already, in records/tags.yaml:2" in told
    team.sql("delete from tags where name = 'rally hook'")
    team.run("refresh")
    assert team.run("lookup", "rollup", "janey")["entries"] == [
        {"client": "Jane Doe", "spellings": ["Janey", "DOE, JANE"]}
    ]


@pytest.mark.slow
def test_threads_share_a_large_rollup(team: Team) -> None:
    names = range(20_000)
    (team.folder / "records/lookups.yaml").write_text("rollup: names.csv\n", "utf-8")
    spellings = "".join(f"Čliént № {n},Team {n}\n" for n in names)
    (team.folder / "names.csv").write_text(f"client,spelling\n{spellings}", "utf-8")
    rows = "".join(f"{n},team {n},D,text {n}\n" for n in names)
    (team.folder / "rows.csv").write_text(f"id,who,party,body\n{rows}", "utf-8")
    ragwright(team.folder, "records", "refresh", "--no-index", "--set", "records.part_rows=1000")
    with Workbench.open(team.folder) as bench:
        gold = bench.records.rows("gold", 20_000)
    assert len(gold) == 20_000
    assert {row["client"] == f"Čliént № {row['record_key']}" for row in gold} == {True}
