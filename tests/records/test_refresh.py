"""A refresh of what changed ends where a refresh from nothing ends, here and on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray_cluster
from hypothesis import HealthCheck, given, settings, strategies as st
from story_tools import write_files

from ragwright.core import DatabaseError, DuplicateKeyError
from ragwright.ingest import LocalEngine
from ragwright.records import (
    RecordTables,
    RefreshPlan,
    RefreshReport,
    RowBatch,
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

    def batches(self, since: str = "") -> Iterator[RowBatch]:
        self.asked += 1
        schema = pa.schema([(name, pa.string()) for name in self.names])
        # A source without a row still says which columns it has.
        for number, at in enumerate(range(0, max(1, len(self.rows)), 16)):
            if self.fails_after is not None and number >= self.fails_after:
                raise DatabaseError("the server went away", where="rows")
            rows = pa.Table.from_pylist(self.rows[at : at + 16], schema)
            yield RowBatch(rows, "rows", range(at + 1, at + 17))


class Place:
    def __init__(self, folder: Path) -> None:
        self.records, self.tables = folder / "records", folder / "tables"
        self.declare()

    def declare(self, **files: str) -> None:
        """Write the given declarations, the usual ones in place of others."""
        usual = {"source": SOURCE, "cleaning": CLEANING, "tags": TAGS, "rules": RULES, **files}
        write_files(self.records, {f"{name}.yaml": text for name, text in usual.items()})
        write_files(self.records, {"text_formats/message.yaml": FORMAT})

    def refresh(self, *rows: Row, tables: Path | None = None, **how: Any) -> RefreshReport:
        given = {name: how.pop(name) for name in ("stamp", "fails_after", "more") if name in how}
        source = how.pop("source", None) or Rows(list(rows), **given)
        plan = RefreshPlan(load_spec(self.records), **how)
        with LocalEngine(2) as engine:
            return refresh(plan, RecordTables(tables or self.tables), source, engine)

    def content(self, tables: Path | None = None) -> dict[str, dict[str, Row]]:
        opened = RecordTables(tables or self.tables)
        found = {}
        for name in ("bronze", "silver", "gold", "left_out"):
            rows = [row for batch in opened.read(name) for row in batch.to_pylist()]
            found[name] = {row["record_key"]: row for row in rows}
            assert len(found[name]) == len(rows) == opened.rows(name)
        return found

    def left_out(self) -> dict[str, str]:
        return {key: row["left_out"] for key, row in self.content()["left_out"].items()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def row(key: object, body: str | None, party: str | None = "D", **more: Any) -> Row:
    return {"id": str(key), "body": body, "party": party, **more}


def counts(report: RefreshReport, table: str) -> tuple[int, int, int]:
    found = report.counts[table]
    return found.inserted, found.updated, found.unchanged


def test_rows_go_from_the_source_to_gold_and_what_falls_out_says_why(place: Place) -> None:
    rows = [
        row("a", "Give now!!!"),
        row("b", "Give now!"),  # the same once it is clean
        row("c", "Your health"),
        row("d", "Give for health"),  # contradictory
        row("e", "x" * 60),
        row("f", "   "),
        row("g", None),
    ]
    dry = place.refresh(*rows, dry_run=True)
    assert counts(dry, "gold") == (2, 0, 0)
    assert RecordTables(place.tables).version == 0
    assert not list(place.tables.rglob("*.parquet"))
    report = place.refresh(*rows)
    found = [counts(report, name) for name in ("bronze", "silver", "gold")]
    assert found == [(7, 0, 0), (4, 0, 0), (2, 0, 0)]
    bronze, silver, gold = (place.content()[name]["a"] for name in ("bronze", "silver", "gold"))
    assert (bronze["body"], silver["text"]) == ("Give now!!!", "Give now!")
    assert silver["tags"] == ["give ask", "urgent tone"]
    assert gold["document"] == "A short give with urgent:\n\nGive now!"
    assert gold["party"] == "D"
    why = place.left_out()
    assert why["b"] == "duplicate of a"
    assert "both" in why["d"]
    assert set(why) == {"b", "d", "e", "f", "g"}


def test_a_rerun_without_changes_writes_nothing_and_may_not_even_read(place: Place) -> None:
    rows = [row(number, f"Give now {number}") for number in range(50)]
    place.refresh(*rows, stamp="s1")
    before = {path: path.stat().st_mtime_ns for path in place.tables.rglob("*.parquet")}
    report = place.refresh(*rows)
    assert [counts(report, name) for name in ("bronze", "silver", "gold")] == [(0, 0, 50)] * 3
    assert report.version == 1
    after = {path: path.stat().st_mtime_ns for path in place.tables.rglob("*.parquet")}
    assert after == before
    place.refresh(*rows, row("a", "Give"), stamp="s1")
    same, other = Rows(rows, "s1"), Rows(rows, "s2")
    assert counts(place.refresh(source=same), "bronze") == (0, 0, 51)
    place.refresh(source=other)
    assert (same.asked, other.asked) == (0, 1)


def test_a_refresh_that_fails_leaves_the_tables_as_they_were(place: Place) -> None:
    place.refresh(row("a", "Give"))
    before = place.content()
    many = [row(number, f"Now {number}") for number in range(100)]
    with pytest.raises(DatabaseError):
        place.refresh(*many, fails_after=3)
    with pytest.raises(DuplicateKeyError, match="a"):
        place.refresh(row("a", "Give"), *many[:40], row("a", "Now"))
    assert place.content() == before
    assert RecordTables(place.tables).version == 1


GROWN = {
    "source": SOURCE.replace("[party]", "[party, drive]"),
    "rules": "duplicates_by: [drive]\nrefine:\n  - {if: {drive: spring}, set: {season: warm}}\n",
    "rollups": "client: {column: drive}\n",
}


NEEDY = SOURCE + "require: [party]\n"


@pytest.mark.slow
def test_a_row_that_lacks_what_is_required_leaves_every_table_until_it_is_whole(
    place: Place,
) -> None:
    place.declare(source=NEEDY)
    whole = [row("a", "Give a"), row("b", "Give b"), row("c", "Give b")]
    place.refresh(*whole)
    assert place.left_out()["c"] == "duplicate of b"
    report = place.refresh(row("b", "[redacted]", " "), row("d", "Now", ""))
    assert report.removed == {"bronze": 1, "silver": 1, "gold": 1}
    assert report.left_out == {"required column is empty": 2}
    found = place.content()
    # c is nobody's duplicate any more
    assert [set(found[name]) for name in ("bronze", "silver", "gold")] == [{"a", "c"}] * 3
    assert place.left_out() == dict.fromkeys("bd", "required column is empty: party")
    assert found["left_out"]["b"]["stage"] == "bronze"
    # no other declaration brings back what the source has taken away
    place.declare(source=NEEDY, cleaning=CLEANING.replace("60", "50"))
    place.refresh()
    assert set(place.content()["gold"]) == {"a", "c"}
    # equal to what it was before it was blanked
    place.refresh(whole[1])
    assert set(place.content()["gold"]) == {"a", "b"}
    left = place.left_out()
    assert (set(left), left["c"]) == ({"c", "d"}, "duplicate of b")


@pytest.mark.parametrize("which", ["first", "last"])
def test_a_row_that_lacks_what_is_required_is_no_rival_to_a_whole_one(
    place: Place, which: str
) -> None:
    place.declare(source=f"{NEEDY}on_duplicate: {which}\n")
    blank = [row(number, None, "") for number in range(20)]
    twice = [row("a", "Give", ""), row("a", "Now"), *blank, row("a", "Other", None)]
    for _ in range(2):
        place.refresh(*twice)
        assert place.content()["gold"]["a"]["text"] == "Now"
        assert set(place.left_out()) == {one["id"] for one in blank}


WORDS = st.sampled_from(["give", "now", "health", "!!", "other", "x" * 70, " "])
BODIES = st.none() | st.lists(WORDS, max_size=3).map(" ".join)
DRIVES = st.sampled_from([None, "", "spring"])
EDITS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.tuples(BODIES, st.sampled_from(["D", "R", ""]), DRIVES),
    max_size=6,
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
    "source": [SOURCE, SOURCE.replace("[party]", "[]"), NEEDY],
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
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_step_by_step_ends_where_a_refresh_from_nothing_ends(
    tmp_path_factory: pytest.TempPathFactory,
    steps: tuple[list[tuple[dict[str, Any], dict[str, str]]], ...],
) -> None:
    base = tmp_path_factory.mktemp("steps")
    place, sent, declared = Place(base), dict[str, Row](), ""
    first, later = steps
    for number, (edits, files) in enumerate([*first, *later]):
        more = ("drive",) if number >= len(first) else ()
        place.declare(**files)
        edited = {
            key: row(key, body, party, **({"drive": drive} if more else {}))
            for key, (body, party, drive) in edits.items()
        }
        sent |= edited
        # what is required is looked at in rows that come, so all come where that changed
        now = edited if files["source"] == declared else sent
        declared = files["source"]
        place.refresh(*now.values(), more=more)
        fresh = base / f"fresh{number}"
        place.refresh(*sent.values(), more=more, tables=fresh)
        assert filled(place.content()) == filled(place.content(fresh))


def filled(content: dict[str, dict[str, Row]]) -> dict[str, dict[str, Row]]:
    """Without nulls: a column may be there, all null, or not."""
    return {
        name: {key: {n: v for n, v in one.items() if v is not None} for key, one in rows.items()}
        for name, rows in content.items()
    }


@pytest.mark.slow
@pytest.mark.needs_ray
def test_a_cluster_refreshes_as_this_machine_does_and_its_failures_are_told(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    paths = [str(Path(ray_cluster.__file__).parent), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, ray_cluster.__file__, str(tmp_path)],
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "failed" not in found, found["failed"]
    compared, failures = found["compared"], found["failures"]
    assert compared["equal"]
    same, report = compared["reports"]
    assert same, report
    rows = compared["rows"]
    assert (rows["bronze"], rows["left_out"] > 0) == (ray_cluster.ROWS, True)
    assert compared["hashes"] > 100
    assert rows["gold"] > 100
    assert "sign ask" in compared["tags"], "patterns that only Python runs work there too"
    for table in ("bronze", "silver", "gold"):  # nothing changed is nothing written
        again = compared["again"][table]
        assert [again[n] for n in ("inserted", "updated", "unchanged")] == [0, 0, rows[table]]
    # outcomes come in the order of the tasks; workers send no usage figures and open no store
    assert failures["keys"] == [str(n) for n in range(36)]
    assert failures["none"] == 0
    seen = [line.split() for line in failures["seen"]]
    assert len({process for process, *_ in seen}) == 2
    assert {tuple(more) for _, *more in seen} == {("1,0,0", "0")}
    assert failures["die_once"] == {"kind": "none", "said": "12"}
    assert found["still_there"] is True, "closing leaves the cluster of others"
    told = {
        "house": ("PatternError", "the pattern took too long", "where: row 7", "do: mend it"),
        "plain": ("ZeroDivisionError", "ray_cluster.py"),
        "odd": ("", "Odd"),  # an error that cannot travel
        "killed": ("EngineError", "3 workers died"),
        "closed": ("EngineError",),
        "unset": ("ConfigError", "RAY_ADDRESS", "ray start --head"),
        "refused": ("ConfigError", "no Ray cluster can be reached", "127.0.0.1:1"),
        "client": ("ConfigError", "client protocol", "ray://127.0.0.1:10001"),
    }
    for case, (kind, *words) in told.items():
        error = {**failures, **found}[case]
        assert error["kind"] == kind or not kind
        assert [word for word in words if word not in error["said"]] == []
