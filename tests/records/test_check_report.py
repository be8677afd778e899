"""`records check`: every fault with its place, and what declarations do to real rows."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.core import DatabaseError, DuplicateKeyError, RecordsError
from ragwright.project import init_project
from ragwright.records import (
    CheckOptions,
    CheckReport,
    PatternFacts,
    RowSource,
    check_records,
    load_spec,
    open_source,
)
from ragwright.records.stages import BronzeRows

ROWS = [
    ("1", "Ann", "Please give $5 now!!!!!! https://x.example"),
    ("2", "ANN ", "Sign the petition, thank you"),
    ("3", "Bob", "We are angry. Please give $5 and thank you"),
    ("4", "Bob", ""),
    ("5", "Cy", "Sign the petition, thank you"),
    ("6", "Cy", "x" * 60),
]

FILES = {
    "source": "source: rows.csv\nkey: id\ntext: body\n",
    "cleaning": """\
        max_characters: 50
        steps:
          - links: ['https?://\\S+', 'ftp://\\S+']
          - max_repeat: 3
          - strip
        """,
    "tags": """\
        tags:
          money ask: '(?i)give \\$'
          sign ask: '(?i)petition'
          angry tone: '(?i)angry'
          grateful tone: '(?i)thank you'
          dragon hook: '(?i)dragons'
        """,
    "rollups": "client: {column: sender, names: {Ann: [Anne]}}\n",
    "rules": """\
        length_groups: {short: 30, long: null}
        refine:
          - {if: {ask_type: money}, set: {gift_type: gift}}
          - {if: {ask_type: money}, set: {gift_type: other}}
          - {if: {ask_type: sign, text: thank}, set: {ask_type: signature}}
        contradictions:
          - {name: angry thanks, tags: [angry tone, grateful tone]}
          - {name: both asks, tags: [money ask, sign ask]}
        """,
}


def project(
    folder: Path, rows: Sequence[tuple[object, ...]] = ROWS, **files: str
) -> tuple[Path, Path]:
    """A folder of declarations and its rows."""
    declared = folder / "records"
    declared.mkdir()
    for name, text in {**FILES, **files}.items():
        lines = text.splitlines()
        margin = len(lines[0]) - len(lines[0].lstrip())
        plain = "\n".join(line[margin:] for line in lines) + "\n"
        (declared / f"{name}.yaml").write_text(plain, "utf-8")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "sender", "body"), *rows])
    return declared, folder


def printed(folder: Path, *words: str) -> str:
    """What `ragwright records check` says of the declarations in a folder."""
    (folder / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    return ragwright(folder, "records", "check", *words, code=None).stdout


def pattern(report: CheckReport, text: str) -> PatternFacts:
    [found] = [one for one in report.patterns if one.pattern == text]
    return found


def tags(report: CheckReport) -> Mapping[str, int]:
    return {one.name: one.rows for one in report.patterns if one.use == "tag"}


@pytest.mark.slow
def test_what_each_pattern_and_rule_does_is_counted(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path))
    assert not report.faults
    assert (report.scanned, report.rows, report.whole) == (6, 6, True)
    assert pattern(report, "https?://\\S+").rows == 1
    assert pattern(report, "max_repeat: 3").rows == 2
    assert tags(report) == {
        "money ask": 2,
        "sign ask": 2,
        "angry tone": 1,
        "grateful tone": 3,
        "dragon hook": 0,
    }
    assert [(one.name, one.where) for one in report.never] == [
        ("links", "records/cleaning.yaml:3"),
        ("dragon hook", "records/tags.yaml:6"),
    ]
    rules = [(one.kind, one.name, one.rows, one.where) for one in report.rules]
    assert rules == [
        ("contradiction", "angry thanks", 1, "records/rules.yaml:7"),
        ("contradiction", "both asks", 0, "records/rules.yaml:8"),
        ("refinement", "gift_type = gift", 2, "records/rules.yaml:3"),
        ("refinement", "gift_type = other", 0, "records/rules.yaml:4"),
        ("refinement", "ask_type = signature", 1, "records/rules.yaml:5"),
    ]


def test_rows_that_fall_out_say_why_and_the_others_are_shared_out(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path))
    assert report.left_out == {"empty": 1, "duplicate": 1, "contradiction": 1}
    assert report.left_out_keys["duplicate"] == ("5",)
    assert report.left_out_keys["contradiction"] == ("3",)
    assert report.lengths == {"short": 3, "long": 0}
    assert report.fields["gift_type"] == 1
    assert report.unknown_clients == (("Cy", 1),)
    assert report.unused_fields == ("gift_type",)
    assert report.empty_variables == ("topic",)


def test_examples_show_the_rows_where_most_steps_acted(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path))
    first = report.examples[0]
    assert (first.key, first.steps) == ("1", ("links", "max_repeat", "strip"))
    assert first.before == ROWS[0][2]
    assert first.after == "Please give $5 now!!!"
    assert first.tags == ("money ask",)
    most, fewest = report.assembled
    assert most == (
        "A short signature text message from Ann written with an emphasis on grateful:\n\n"
        "Sign the petition, thank you"
    )
    assert fewest == "A short text message from Cy:\n\nxxx"


def test_every_fault_is_told_with_its_line_and_the_rest_is_tried(tmp_path: Path) -> None:
    broken: dict[str, Any] = {
        "tags": """\
            tags:
              money ask: '(?i)give \\$'
              loud: '!!'
              sad tone: '(unclosed'
              grateful tone: '(?i)thank you'
            """,
        "cleaning": "max_characters: 50\nsteps:\n  - stripp\n  - strip\n",
        "rules": "contradictions:\n  - {name: a, tags: [money ask, bad tone]}\n",
        "source": "source: rows.csv\nkey: id\ntext: body\nkeep: [chanel]\nrequire: [sendr]\n",
        "rollups": "client: {column: sendr}\n",
    }
    report = check_records(*project(tmp_path, **broken))
    told = {fault.where: fault for fault in report.faults}
    assert {where for where in told if where} >= {
        "records/tags.yaml:3",
        "records/tags.yaml:4",
        "records/cleaning.yaml:3",
        "records/rules.yaml:2",
        "records/source.yaml:4",
        "records/source.yaml:5",
        "records/rollups.yaml:1",
    }
    assert len(report.faults) == 7, "none is told twice"
    assert "'sender'" in told["records/source.yaml:5"].hint
    assert "'strip'" in told["records/cleaning.yaml:3"].hint
    assert tags(report) == {"money ask": 2, "grateful tone": 3}


@pytest.mark.parametrize(
    ("variables", "structure", "faults"),
    [
        ("[length, ask_typ, text]", "A %s %s", 2),
        ("[length, client, text]", "A %s %d %s 100% %s", 1),
        ("[length, ask_typ, text]", "A %s %s: %s", 1),
        ("[length, client]", "A %s %s", 1),
        ("[text, length, text]", "%s %s %s", 1),
        ("[gift_type, text]", "%s %s", 0),
    ],
)
def test_a_text_format_at_fault_does_not_stop_the_rest(
    tmp_path: Path, variables: str, structure: str, faults: int
) -> None:
    declared, base = project(tmp_path)
    written = f"prompt_variables: {variables}\nprompt_structure: '{structure}'\n"
    (declared / "text_formats").mkdir()
    (declared / "text_formats" / "message.yaml").write_text(written, "utf-8")
    report = check_records(declared, base)
    assert len(report.faults) == faults, report.faults
    assert all("text_formats/message.yaml" in fault.where for fault in report.faults)
    assert report.gold == 3
    assert tags(report)["money ask"] == 2
    assert printed(base)


def test_what_check_says_of_text_formats_agrees_with_a_refresh(tmp_path: Path) -> None:
    """A fault is what stops a refresh; the same in a format that is not in use is a note."""
    declared, base = project(tmp_path)
    written = "prompt_variables: [text]\nprompt_structure: '%s %s'\n"
    (declared / "text_formats").mkdir()
    (declared / "text_formats" / "plain.yaml").write_text(written, "utf-8")
    [fault] = check_records(declared, base).faults
    assert fault.where == "records/text_formats"
    (declared / "text_formats" / "message.yaml").write_text(written.replace(" %s", ""), "utf-8")
    report = check_records(declared, base)
    assert not report.faults
    [note] = report.notes
    assert note.where.startswith("records/text_formats/plain.yaml")
    assert "not in use" in note.what


def test_numbers_that_max_repeat_changes_are_noted(tmp_path: Path) -> None:
    rows = [("1", "Ann", "soooooo good"), ("2", "Ann", "We raised $10000!!!!!"), ("3", "Bo", "x")]
    (tmp_path / "a").mkdir()
    report = check_records(*project(tmp_path / "a", rows, rules="{}\n"))
    [note] = report.notes
    assert (
        note.what == "max_repeat changes digits in 1 row: '$10000' becomes '$1000' on the row '2'"
    )
    assert note.where == "records/cleaning.yaml:4"
    assert "max_repeat: {times: 3, except: digits}" in note.hint
    assert "note: max_repeat" in printed(tmp_path / "a")
    (tmp_path / "b").mkdir()
    spared = FILES["cleaning"].replace("max_repeat: 3", "max_repeat: {times: 3, except: digits}")
    report = check_records(*project(tmp_path / "b", rows, rules="{}\n", cleaning=spared))
    assert not report.notes
    assert pattern(report, "max_repeat: 3 except digits").rows == 2
    (tmp_path / "c").mkdir()
    cleaning = FILES["cleaning"].replace("characters: 50", "characters: 500000")
    long = [("1", "Ann", f"{'12' * 100_000}7777{'12' * 9}")]
    [note] = check_records(*project(tmp_path / "c", long, rules="{}\n", cleaning=cleaning)).notes
    assert "7777" in note.what
    assert len(note.what) < 150
    assert "We raised $10000!!!" in [one.after for one in report.examples]


def test_a_source_that_is_not_read_is_told_once(tmp_path: Path) -> None:
    declared, base = project(tmp_path, source="source: rows.csv\n\tkey: id\n")
    [fault] = check_records(declared, base).faults
    assert fault.where == "records/source.yaml:2"
    (declared / "source.yaml").rename(declared / "sources.yaml")
    [fault] = check_records(declared, base).faults
    assert (fault.where, fault.hint) == ("records/sources.yaml", "rename it to source.yaml")


def test_files_that_nobody_reads_are_noted(tmp_path: Path) -> None:
    declared, base = project(tmp_path)
    (declared / "notes.yaml").write_text("", "utf-8")
    (declared / "tag.yaml").write_text("", "utf-8")
    report = check_records(declared, base)
    assert not report.faults
    assert [note.where for note in report.notes] == ["records/notes.yaml", "records/tag.yaml"]
    assert report.notes[1].hint == "tags.yaml is read"


def test_no_control_character_reaches_a_terminal(tmp_path: Path) -> None:
    rows = [("1\x1b[2J", "Ann\x07", "Please give $5!!!!!! \x1b[31mnow\x9b1m")]
    project(tmp_path, rows)
    shown = printed(tmp_path)
    assert "\\x1b[31mnow" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_keys_that_are_missing_or_name_two_rows_are_faults(tmp_path: Path) -> None:
    rows = [*ROWS, ("", "Di", "no key"), ("", "Di", "nor here"), ("2", "Di", "another"), ROWS[0]]
    report = check_records(*project(tmp_path, rows))
    null, twice = report.faults
    assert null.what == "2 rows have no 'id'; the first is rows.csv, row 7"
    assert null.where == "records/source.yaml:2"
    assert twice.what == "two different rows have the key '2' (id)"
    assert twice.where == "rows.csv, row 2 and rows.csv, row 9"
    assert report.scanned == 10


def test_places_are_those_of_the_source_also_far_down(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [(at, "Ann", f"text {at}") for at in range(1, 5001)]
    rows[99] = (100, "", "left out")
    rows += [("8", "Bo", "another"), ("", "Bo", "no key")]
    source = "source: rows.csv\nkey: id\ntext: body\nrequire: [sender]\n"
    declared, base = project(tmp_path, rows, source=source, rules="{}\n")
    report = check_records(declared, base)
    null, twice = report.faults
    assert null.what == "1 row has no 'id'; the first is rows.csv, row 5002"
    assert twice.where == "rows.csv, row 8 and rows.csv, row 5001"
    spec = load_spec(declared).source
    with pytest.raises(DuplicateKeyError) as caught:
        list(BronzeRows(open_source(spec, base), spec, rows=5001).batches())
    assert (caught.value.what, caught.value.where) == (twice.what, twice.where)


def test_reading_stops_where_the_key_is_missing_and_that_is_told(tmp_path: Path) -> None:
    rows = [(str(n), "Ann", f"message {n}") for n in range(5000)]
    report = check_records(*project(tmp_path, rows), CheckOptions(given={"key": "nr"}))
    [fault] = report.faults
    assert "Rows without a key" in fault.hint
    assert (report.stopped, report.whole) == (True, False)
    head = printed(tmp_path, "--key", "nr").splitlines()[0]
    assert head == "1 fault; reading rows.csv stopped at the first rows: a column is missing"


def test_rows_without_a_required_value_are_counted(tmp_path: Path) -> None:
    source = "source: rows.csv\nkey: id\ntext: body\nrequire: [body]\n"
    report = check_records(*project(tmp_path, source=source))
    assert report.lacking == {"body": 1}
    assert report.rows == 5
    assert "empty" not in report.left_out


@pytest.mark.parametrize(
    ("given", "told", "where"),
    [
        ({"source": "nowhere.csv"}, "does not exist", "--source"),
        ({"source": "nowhere.csv", "query": ""}, "does not exist", "--source"),
        ({"key": "idd"}, "no column 'idd'", "--key"),
        ({"text": "bdy"}, "no column 'bdy'", "--text"),
        ({"source": "sqlite:///rows.db", "query": ""}, "does not exist", "--source"),
        ({"source": "${NO_SUCH_VARIABLE}", "query": ""}, "is not set", "--source"),
        ({"source": "postgresql://a:b@h/d", "query": "x"}, "holds a password", "--source"),
        ({"source": "sqlite:///here.db", "query": ""}, "there is none", "--source"),
        ({"source": "sqlite:///here.db", "query": "selec 1"}, "cannot be read", "--query"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_fault(
    tmp_path: Path, given: dict[str, str], told: str, where: str
) -> None:
    """It is told with the flag that it came by."""
    sqlite3.connect(tmp_path / "here.db").close()
    report = check_records(*project(tmp_path), CheckOptions(given=given))
    assert [fault.where for fault in report.faults] == [where]
    assert [told in fault.what for fault in report.faults] == [True]
    assert report.rows == 0


def test_who_has_no_key_column_is_shown_a_way(tmp_path: Path) -> None:
    declared, base = project(tmp_path)
    (declared / "source.yaml").write_text("source: rows.csv\ntext: body\n", "utf-8")
    [fault] = check_records(declared, base).faults
    assert "Rows without a key" in fault.hint
    spec = replace(load_spec(declared).source, key="nr")
    with pytest.raises(RecordsError, match="the source has no column 'nr'") as caught:
        list(BronzeRows(open_source(spec, base), spec).batches())
    assert "Rows without a key" in str(caught.value.hint)


def test_a_missing_file_says_which_folder_was_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    how = CheckOptions(given={"source": "nope.csv"})
    [fault] = check_records(Path("records"), Path(), how).faults
    assert fault.hint == f"in {tmp_path.resolve()} there are: rows.csv"
    (tmp_path / "rows.csv").unlink()
    [fault] = check_records(Path("records"), Path(), how).faults
    assert fault.hint == f"looked in {tmp_path.resolve()}"


def test_columns_can_be_named_in_place_of_the_declared_ones(tmp_path: Path) -> None:
    folders = project(tmp_path, rollups="{}\n")
    report = check_records(*folders, CheckOptions(given={"text": "sender"}))
    assert not report.faults
    assert tags(report)["money ask"] == 0


@pytest.mark.slow
def test_a_sample_is_drawn_evenly_and_again_the_same(tmp_path: Path) -> None:
    rows = [(str(n), "Ann", f"message {n:04}") for n in range(10_000)]
    tenths = [f"  t{n} hook: 'message {n}'" for n in range(10)]
    folders = project(tmp_path, rows, tags="\n".join(["tags:", *tenths]), rules="{}\n")
    how = CheckOptions(rows=500, examples=0)
    first, second = check_records(*folders, how), check_records(*folders, how)
    assert (first.scanned, first.rows, first.whole) == (10_000, 500, True)
    assert first.assembled == second.assembled
    other = check_records(*folders, CheckOptions(rows=500, examples=0, seed=1))
    assert other.assembled != first.assembled
    assert min(tags(first).values()) > 25, "every tenth of the source is in the sample"


@pytest.mark.slow
def test_a_pattern_that_hangs_is_a_fault_and_the_others_are_tried(tmp_path: Path) -> None:
    named = "pattern_seconds: 0.2\ntags:\n  evil hook: '(x|xx)+y'\n  money ask: '(?i)give \\$'\n"
    files: dict[str, Any] = {"tags": named, "rules": "{}\n", "cleaning": "max_characters: 500\n"}
    report = check_records(*project(tmp_path, **files))
    [fault] = report.faults
    assert "'6'" in fault.what
    assert fault.where == "records/tags.yaml:3"
    assert tags(report) == {"money ask": 2}


def test_the_text_and_the_document_tell_the_same(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path))
    text = printed(tmp_path)
    assert "no faults" in text
    assert "never matches (records/tags.yaml:6)" in text
    assert "never hits (records/rules.yaml:8)" in text
    assert "never sets anything (records/rules.yaml:4)" in text
    assert "not used by the text format: gift_type" in text
    document = json.loads(json.dumps(report.as_dict()))
    assert document["lengths"] == {"short": 3, "long": 0}
    assert {one["name"] for one in document["patterns"]} >= {"links", "dragon hook"}


@pytest.mark.slow
def test_the_template_has_no_fault_and_nothing_that_never_acts(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    report = check_records(tmp_path / "records", tmp_path)
    assert not report.faults
    assert [one.name for one in report.never] == ["control_characters"], "a guard, and no pattern"
    assert set(report.left_out) == {"empty", "too long", "duplicate", "contradiction"}
    assert report.gold >= 30, "as many as a pool of examples takes"
    assert all(report.lengths.values())
    assert report.unknown_clients == (("Harbour Street Clinic", 4),)


def test_tags_that_come_to_one_value_share_it(tmp_path: Path) -> None:
    """Users of a field expect one value where the words are the same."""
    tags = (
        "tags:\n  donation ask: donate\n  donation_ask: now\n  Donation ASK: please\n"
        "  housing hook: {pattern: rent, display: homes}\n  homes hook: homes\n"
        "  bus hook: {pattern: bus, display: transport}\n"
        "  rail hook: {pattern: rail, display: transport}\n"
    )
    rows = [(1, "Ann", "donate"), (2, "Ann", "please"), (3, "Ann", "rent and homes")]
    report = check_records(
        *project(tmp_path, rows, tags=tags, rules="length_groups: {short: null}")
    )
    assert not report.faults
    spec = load_spec(tmp_path / "records")
    assert spec.tags.displays("ask_type") == ("donation",)
    assert spec.tags.displays("topic") == ("homes", "transport")


def test_documents_that_begin_with_a_blank_are_noted(tmp_path: Path) -> None:
    rules = "length_groups: {short: 30}\n"
    rows = [*ROWS[:2], ("7", "Bob", "y" * 25), ("9", "Bob", "Please sign the petition, thank you")]
    report = check_records(*project(tmp_path, rows, rules=rules))
    [note] = report.notes
    assert note.what == "1 record begins with a blank or a comma when assembled, such as '9'"
    assert note.where == "records/text_formats/message.yaml"
    assert "'length'" in note.hint


def test_an_empty_source_is_no_fault(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path, []))
    assert (report.faults, report.rows) == ((), 0)
    assert "gave no rows" in printed(tmp_path)


@pytest.mark.parametrize(
    ("rename", "told"),
    [
        ("{body2: text2}", "rename: 'body2' is not a column"),
        ("{sender: body}", "two columns are called 'body'"),
        ("{sender: record_key}", "'record_key'"),
    ],
)
def test_names_that_do_not_fit_are_faults(tmp_path: Path, rename: str, told: str) -> None:
    source = f"source: rows.csv\nkey: id\ntext: body\nrename: {rename}\n"
    report = check_records(*project(tmp_path, source=source, rollups="{}\n"))
    assert told in report.faults[0].what
    assert report.faults[0].where == "records/source.yaml:4"


class HalfWay(RowSource):
    """Rows, and then no more."""

    def stamp(self) -> str:
        return ""

    def batches(self, rows: int, since: str = "") -> Iterator[Any]:
        import pyarrow as pa

        yield pa.table({"id": ["1"], "sender": ["Ann"], "body": ["Please give $5"]})
        raise DatabaseError("the server closed the connection", where="db.example")


def test_rows_that_came_before_the_source_failed_are_tried(tmp_path: Path) -> None:
    report = check_records(*project(tmp_path), source=HalfWay())
    assert [fault.what for fault in report.faults] == ["the server closed the connection"]
    assert tags(report)["money ask"] == 1


def test_nothing_is_written(tmp_path: Path) -> None:
    folders = project(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    check_records(*folders)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("values", [[b"abc", b"\xff"], [["a"], ["b", "c"]]])
def test_a_text_column_without_texts_is_a_fault(tmp_path: Path, values: list[object]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    source = "source: rows.parquet\nkey: id\ntext: body\n"
    folders = project(tmp_path, source=source, rollups="{}\n")
    parquet.write_table(pa.table({"id": [1, 2], "body": values}), tmp_path / "rows.parquet")
    [fault] = check_records(*folders).faults
    assert "not text" in fault.what
    assert fault.where == "records/source.yaml:3"


@pytest.mark.slow
def test_texts_of_other_types_and_huge_ones_are_tried(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    source = "source: rows.parquet\nkey: id\ntext: body\n"
    folders = project(tmp_path, source=source, rollups="{}\n")
    numbers = pa.table({"id": [1.0, 2.0], "body": [7, None]})
    parquet.write_table(numbers, tmp_path / "rows.parquet")
    report = check_records(*folders)
    assert not report.faults
    assert report.left_out_keys["no text"] == ("2",)
    huge = pa.table({"id": [1, 2], "body": ["petition " * 1_200_000, "\U0001f9a6 sign"]})
    parquet.write_table(huge, tmp_path / "rows.parquet")
    report = check_records(*folders)
    assert not report.faults
    assert report.left_out["too long"] == 1
    assert len(printed(tmp_path)) < 20_000
