"""`records check`: every fault with its place, and what declarations do to real rows."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest
from command_line import ragwright
from pyarrow import parquet
from story_tools import write_files

from ragwright import records
from ragwright.core import RecordsError
from ragwright.project import init_project
from ragwright.records.stages import BronzeRows

Rows = Sequence[tuple[object, ...]]

ROWS = [
    ("1", "Ann", "Please give $5 now!!!!!! https://x.example"),
    ("2", "ANN ", "Sign the petition, thank you"),
    ("3", "Bob", "We are angry. Please give $5 and thank you"),
    ("4", "Bob", ""),
    ("5", "Cy", "Sign the petition, thank you"),
    ("6", "Cy", "x" * 60),
]
SOURCE = "source: rows.csv\nkey: id\ntext: body\n"
CLEANING = """\
max_characters: 50
steps:
  - links: ['https?://\\S+', 'ftp://\\S+']
  - max_repeat: 3
  - strip
"""
TAGS = """\
tags:
  money ask: '(?i)give \\$'
  sign ask: '(?i)petition'
  angry tone: '(?i)angry'
  grateful tone: '(?i)thank you'
  dragon hook: '(?i)dragons'
"""
RULES = """\
length_groups: {short: 30, long: null}
refine:
  - {if: {ask_type: money}, set: {gift_type: gift}}
  - {if: {ask_type: money}, set: {gift_type: other}}
  - {if: {ask_type: sign, text: thank}, set: {ask_type: signature}}
contradictions:
  - {name: angry thanks, tags: [angry tone, grateful tone]}
  - {name: both asks, tags: [money ask, sign ask]}
"""
FILES = {
    "source": SOURCE,
    "cleaning": CLEANING,
    "tags": TAGS,
    "rollups": "client: {column: sender, names: {Ann: [Anne]}}\n",
    "rules": RULES,
}


def project(folder: Path, rows: Rows | pa.Table = ROWS, **files: str) -> tuple[Path, Path]:
    """A folder of declarations and its rows; ``message`` is a text format."""
    declared = folder / "records"
    for name, text in {**FILES, **files}.items():
        where = name if name in FILES else f"text_formats/{name}"
        write_files(declared, {f"{where}.yaml": dedent(text)})
    if isinstance(rows, pa.Table):
        parquet.write_table(rows, folder / "rows.parquet")
    else:
        with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "sender", "body"), *rows])
    return declared, folder


def checked(folder: Path, rows: Rows | pa.Table = ROWS, **files: Any) -> records.CheckReport:
    """A check of a project; ``given`` are values in place of declared ones."""
    given = files.pop("given", {})
    return records.check_records(*project(folder, rows, **files), given)


def printed(folder: Path, *words: str) -> str:
    """What `ragwright records check` says of the declarations in a folder."""
    (folder / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    return ragwright(folder, "records", "check", *words, code=None).stdout


def pattern(report: records.CheckReport, text: str) -> records.PatternFacts:
    [found] = [one for one in report.patterns if one.pattern == text]
    return found


def tags(report: records.CheckReport) -> Mapping[str, int]:
    return {one.name: one.rows for one in report.patterns if one.use == "tag"}


@pytest.mark.slow
def test_what_each_pattern_and_rule_does_is_counted_and_nothing_is_written(tmp_path: Path) -> None:
    folders = project(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    report = records.check_records(*folders)
    assert sorted(tmp_path.rglob("*")) == before
    assert not report.faults
    assert (report.scanned, report.rows, report.whole) == (6, 6, True)
    assert pattern(report, "https?://\\S+").rows == 1
    assert pattern(report, r"(?s)(.)\1{3,}").rows == 2
    counted = {"money ask": 2, "sign ask": 2, "angry tone": 1, "grateful tone": 3, "dragon hook": 0}
    assert tags(report) == counted
    never = [(one.name, one.where) for one in report.never]
    assert never == [("links", "records/cleaning.yaml:3"), ("dragon hook", "records/tags.yaml:6")]
    # rows that fall out say why, and the others are shared out
    why = {"contradiction: angry thanks": 1, "contradiction: both asks": 0}
    assert report.left_out == {"empty": 1, "duplicate": 1} | why
    assert report.left_out_keys["duplicate"] == ["5"]
    assert report.left_out_keys["contradiction: angry thanks"] == ["3"]
    assert (report.lengths, report.fields["gift_type"]) == ({"short": 3, "long": 0}, 1)
    assert report.unknown_clients == (("Cy", 1),)
    assert report.empty_variables == ("topic",)
    # examples show the rows where most steps acted
    first = report.examples[0]
    assert (first.key, first.steps) == ("1", ("links", "max_repeat", "strip"))
    assert (first.before, first.after) == (ROWS[0][2], "Please give $5 now!!!")
    assert first.tags == ("money ask",)
    assert report.assembled == (
        "A short signature text message from Ann written with an emphasis on grateful:\n\n"
        "Sign the petition, thank you",
        "A short text message from Cy:\n\nxxx",
    )
    # the text and the document tell the same
    text = printed(tmp_path)
    assert "no faults" in text
    assert "never matches (records/tags.yaml:6)" in text
    assert "contradiction: both asks" in text
    document = json.loads(json.dumps(report.as_dict()))
    assert document["lengths"] == {"short": 3, "long": 0}
    assert {one["name"] for one in document["patterns"]} >= {"links", "dragon hook"}


HERE, QUERY = "sqlite:///here.db", "selec 1"
NO_FORMAT, BAD_RENAME = {"rollups": "{}\n"}, f"{SOURCE}rename: "
PARQUET = {"source": "source: rows.parquet\nkey: id\ntext: body\n", "rollups": "{}\n"}
LOST: list[tuple[dict[str, str], Rows | pa.Table, dict[str, str], list[tuple[str, str]]]] = [
    # what was given in place of a declaration has the flag as its place
    ({"source": "nowhere.csv"}, ROWS, {}, [("--source", "no such file")]),
    ({"key": "idd"}, ROWS, {}, [("--key", "no column 'idd'")]),
    ({"source": "sqlite:///rows.db", "query": ""}, ROWS, {}, [("--source", "no such file")]),
    ({"source": HERE, "query": ""}, ROWS, {}, [("--source", "there is none")]),
    ({"source": HERE, "query": QUERY}, ROWS, {}, [("--query", "cannot be read")]),
    ({}, ROWS, {"source": f"{BAD_RENAME}{{body2: text2}}\n", **NO_FORMAT},
        [("records/source.yaml:4", "rename: the source has no column 'body2'")]),
    ({}, pa.table({"id": [1, 2], "body": [b"abc", b"\xff"]}), PARQUET,
        [("records/source.yaml:3", "not text")]),
    ({}, [*ROWS, ("", "Di", "no key")], {},
        [("rows.csv, row 7", "the key 'id' of a row is empty")]),
    ({}, [*ROWS, ("2", "Di", "another")], {},
        [("rows.csv, row 2 and rows.csv, row 7", "two different rows have the key '2' (id)")]),
    ({}, ROWS, {"tags": "tags:\n  money ask: x\n  sad tone: '(unclosed'\n"},
        [("records/tags.yaml:3", "does not compile")]),
    ({}, ROWS, {"source": f"{SOURCE}require: [sendr]\n"}, [("records/source.yaml:4", "'sendr'")]),
    ({}, ROWS, {"rollups": "client: {column: sendr}\n"}, [("records/rollups.yaml:1", "'sendr'")]),
    ({}, [], {}, []),
]  # fmt: skip


@pytest.mark.parametrize(("given", "rows", "files", "faults"), LOST)
def test_what_keeps_rows_from_being_read_is_told_once_with_its_place(
    tmp_path: Path,
    given: dict[str, str],
    rows: Rows | pa.Table,
    files: dict[str, str],
    faults: list[tuple[str, str]],
) -> None:
    sqlite3.connect(tmp_path / "here.db").close()
    report = checked(tmp_path, rows, given=given, **files)
    assert [fault.where for fault in report.faults] == [where for where, _ in faults]
    for fault, (_, told) in zip(report.faults, faults, strict=True):
        assert told in fault.what
    assert report.rows == 0 or not given
    assert not report.lengths


def test_no_control_character_reaches_a_terminal(tmp_path: Path) -> None:
    project(tmp_path, [("1\x1b[2J", "Ann\x07", "Please give $5!!!!!! \x1b[31mnow\x9b1m")])
    shown = printed(tmp_path)
    assert "\\x1b[31mnow" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)
    project(tmp_path, [])
    assert "gave no rows" in printed(tmp_path)


def test_who_has_no_key_column_is_shown_a_way_and_other_columns_can_be_named(
    tmp_path: Path,
) -> None:
    report = checked(tmp_path, given={"text": "sender"}, rollups="{}\n")
    assert (report.faults, tags(report)["money ask"]) == ((), 0)
    report = checked(tmp_path, source=f"{SOURCE}require: [body]\n")
    assert report.left_out["required column is empty: body"] == 1
    assert (report.rows, "empty" in report.left_out) == (5, False)
    [fault] = checked(tmp_path, source="source: rows.csv\ntext: body\n").faults
    assert "Rows without a key" in fault.hint
    spec = records.load_spec(tmp_path / "records").source.instead({"key": "nr"})
    told = r"(?s)the source has no column 'nr'.*Rows without a key"
    with pytest.raises(RecordsError, match=told):
        list(BronzeRows(records.open_source(spec, tmp_path), spec).batches())


@pytest.mark.slow
def test_a_sample_is_drawn_evenly_and_again_the_same(tmp_path: Path) -> None:
    rows = [(str(n), "Ann", f"message {n:04}") for n in range(10_000)]
    tenths = "".join(f"  t{n} hook: 'message {n}'\n" for n in range(10))
    folders = project(tmp_path, rows, tags=f"tags:\n{tenths}", rules="{}\n")
    first, second, other = (
        records.check_records(*folders, rows=500, seed=seed) for seed in (0, 0, 1)
    )
    assert (first.scanned, first.rows, first.whole) == (10_000, 500, True)
    assert tags(first) == tags(second) != tags(other)
    assert min(tags(first).values()) > 25, "every tenth of the source is in the sample"


@pytest.mark.slow
def test_a_pattern_that_hangs_is_a_fault(tmp_path: Path) -> None:
    named = "pattern_seconds: 0.2\ntags:\n  evil hook: '(x|xx)+y'\n  money ask: '(?i)give \\$'\n"
    report = checked(tmp_path, tags=named, rules="{}\n", cleaning="max_characters: 500\n")
    [fault] = report.faults
    assert "'6'" in fault.what
    assert fault.where == "records/tags.yaml:3"


@pytest.mark.slow
def test_the_template_has_no_fault_and_nothing_that_never_acts(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    report = records.check_records(tmp_path / "records", tmp_path)
    assert not report.faults
    assert [one.name for one in report.never] == ["control_characters"], "a guard, and no pattern"
    reasons = {why.partition(":")[0] for why in report.left_out}
    assert reasons == {"empty", "too long", "duplicate", "contradiction"}
    assert report.gold >= 30, "as many as a pool of examples takes"
    assert all(report.lengths.values())
    assert report.unknown_clients == (("Harbour Street Clinic", 4),)


def test_tags_that_come_to_one_value_share_it(tmp_path: Path) -> None:
    """Users of a field expect one value where the words are the same."""
    named = (
        "tags:\n  donation ask: donate\n  donation_ask: now\n  Donation ASK: please\n"
        "  housing hook: {pattern: rent, display: homes}\n  homes hook: homes\n"
        "  bus hook: {pattern: bus, display: transport}\n"
        "  rail hook: {pattern: rail, display: transport}\n"
    )
    rows = [(1, "Ann", "donate"), (2, "Ann", "please"), (3, "Ann", "rent and homes")]
    report = checked(tmp_path, rows, tags=named, rules="length_groups: {short: null}\n")
    assert not report.faults
    spec = records.load_spec(tmp_path / "records")
    assert spec.tags.displays("ask_type") == ("donation",)
    assert spec.tags.displays("topic") == ("homes", "transport")
