"""People score blind: nothing tells systems apart, and what they write is read strictly."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Row, TestsetError
from ragwright.experiment import (
    Label,
    blind_sheet,
    read_key,
    read_labels,
    write_key,
    write_sheet,
)
from ragwright.measure import parse_measures

MEASURES = parse_measures("ExactMatch, KF1(content)")


def rows(said: str) -> list[Row]:
    return [Row(f"r{at}", f"q{at}", f"{said} {at}", "gold", ("one", "two")) for at in range(6)]


BOTH = {"ours": rows("it"), "theirs": rows("that")}
SHEET, KEY = blind_sheet(BOTH, MEASURES, seed=3)
EXACT, KF1 = SHEET.columns


def filled(path: Path, values: dict[str, dict[str, Any]]) -> Path:
    """The sheet as a person hands it back."""
    items = [{**item, **values.get(item["item"], {})} for item in SHEET.items]
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as out:
            names = ["item", "user_input", "response", *SHEET.columns, "comment"]
            writer = csv.DictWriter(out, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(items)
    else:
        path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return path


def test_a_sheet_hides_who_said_what() -> None:
    assert SHEET.columns == ("ExactMatch (0-1)", "KF1(content) (0-1)")
    assert len(SHEET.items) == len(KEY.answers) == 12
    text = json.dumps(SHEET.items)
    assert "ours" not in text
    assert "theirs" not in text
    order = [KEY.answers[str(item["item"])][0] for item in SHEET.items]
    assert order not in (sorted(order), ["ours", "theirs"] * 6)
    assert blind_sheet(BOTH, MEASURES, seed=3) == (SHEET, KEY)
    other, _ = blind_sheet(BOTH, MEASURES, seed=4)
    assert [i["response"] for i in other.items] != [i["response"] for i in SHEET.items]
    for item in SHEET.items:
        system, row_id = KEY.answers[str(item["item"])]
        assert item["response"] == f"{'it' if system == 'ours' else 'that'} {row_id[1:]}"


@pytest.mark.parametrize("name", ["ada.jsonl", "ada.csv"])
def test_what_people_write_is_read_back(tmp_path: Path, name: str) -> None:
    path = filled(tmp_path / name, {"01": {EXACT: "1", "comment": "fine"}, "07": {EXACT: 0}})
    write_key(KEY, tmp_path / "key.json")
    key = read_key(tmp_path / "key.json")
    assert key == KEY
    assert read_labels(path, key) == (
        Label(*KEY.answers["01"], "ExactMatch", 1.0, "ada", KEY.shown["01"]),
        Label(*KEY.answers["07"], "ExactMatch", 0.0, "ada", KEY.shown["07"]),
    )


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.jsonl", "sheet.tsv"])
def test_the_written_sheet_reads_back_when_it_is_filled_in(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_sheet(SHEET, path)
    with pytest.raises(TestsetError, match="has no score"):
        read_labels(path, KEY)
    if name == "sheet.jsonl":
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        lines[0][KF1] = 1
        path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    else:
        separator = "\t" if name.endswith("tsv") else ","
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = list(csv.reader(file, delimiter=separator))
        table[1][table[0].index(KF1)] = "1"
        with path.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, delimiter=separator).writerows(table)
    (label,) = read_labels(path, KEY, "bo")
    assert (label.measure, label.value, label.rater) == ("KF1(content)", 1.0, "bo")


def test_spreadsheets_neither_run_formulas_nor_lose_items(tmp_path: Path) -> None:
    sheet, key = blind_sheet({"s": [Row("1", "?", response='=HYPERLINK("x")')]}, MEASURES)
    assert key.seed == 0
    write_sheet(sheet, tmp_path / "s.csv")
    assert "'=HYPERLINK" in (tmp_path / "s.csv").read_text("utf-8-sig")
    path = filled(tmp_path / "ada.csv", {"01": {EXACT: "1"}})
    path.write_text(path.read_text("utf-8").replace("\n01,", "\n1,"), "utf-8")
    assert read_labels(path, KEY)[0].row_id == KEY.answers["01"][1]


WRONG: list[Any] = ["2", "-1", "0.5", "yes", "1/1", True, 0.5, [1]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({EXACT: value}, "not a whole number from 0 to 1") for value in WRONG),
        ({"item": "99"}, "not in the key"),
        ({"item": None}, "not in the key"),
        ({"item": "02"}, "occurs twice"),
        ({"Kindness (1-5)": 3}, "unknown column"),
        ({"ExactMatch": 1}, "unknown column"),
    ],
)
def test_a_wrong_cell_has_its_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = filled(tmp_path / "ada.jsonl", {"04": change})
    with pytest.raises(TestsetError, match=said) as caught:
        read_labels(path, KEY)
    assert caught.value.where == f"{path}:4"


def test_what_cannot_be_reviewed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text('{"answers": []}', "utf-8")
    for sheet, measures, said in (
        (rows("x"), "Perplexity", "whole ends"),
        ([Row("1", "?")], "ExactMatch", "nothing to review"),
        ([*rows("x"), *rows("y")], "ExactMatch", "occurs twice"),
    ):
        with pytest.raises(TestsetError, match=said):
            blind_sheet({"s": sheet}, parse_measures(measures))
    for name, said in (("none.json", "no such file"), ("key.json", "not the key")):
        with pytest.raises(TestsetError, match=said):
            read_key(tmp_path / name)
