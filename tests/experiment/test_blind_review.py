"""People score blind: nothing tells systems apart, and what they write is read strictly."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Row, TestsetError
from ragwright.experiment import Label, blind_sheet, read_key, read_labels, write_blind_sheet
from ragwright.measure import parse_measures
from ragwright.testsets import write_rows

MEASURES = parse_measures("ExactMatch, KF1(content)")
EXACT, KF1 = "ExactMatch (0-1)", "KF1(content) (0-1)"


def rows(said: str) -> list[Row]:
    return [Row(f"r{at}", f"q{at}", f"{said} {at}", "gold", ("one", "two")) for at in range(6)]


BOTH = {"ours": rows("it"), "theirs": rows("that")}
ITEMS, KEY = blind_sheet(BOTH, MEASURES, seed=3)


def filled(path: Path, values: dict[str, dict[str, Any]]) -> Path:
    """The sheet as a person hands it back."""
    items = [{**item, **values.get(item["item"], {})} for item in ITEMS]
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as out:
            names = ["item", "user_input", "response", EXACT, KF1, "comment"]
            writer = csv.DictWriter(out, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(items)
    else:
        path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return path


def test_a_sheet_hides_who_said_what() -> None:
    assert list(ITEMS[0])[-3:] == [EXACT, KF1, "comment"]
    assert len(ITEMS) == len(KEY.answers) == 12
    text = json.dumps(ITEMS)
    assert "ours" not in text
    assert "theirs" not in text
    order = [KEY.answers[str(item["item"])][0] for item in ITEMS]
    assert order not in (sorted(order), ["ours", "theirs"] * 6)
    assert blind_sheet(BOTH, MEASURES, seed=3) == (ITEMS, KEY)
    other, _ = blind_sheet(BOTH, MEASURES, seed=4)
    assert [i["response"] for i in other] != [i["response"] for i in ITEMS]
    for item in ITEMS:
        system, row_id = KEY.answers[str(item["item"])]
        assert item["response"] == f"{'it' if system == 'ours' else 'that'} {row_id[1:]}"


@pytest.mark.parametrize("name", ["ada.jsonl", "ada.csv"])
def test_what_people_write_is_read_back(tmp_path: Path, name: str) -> None:
    path = filled(tmp_path / name, {"1": {EXACT: "1", "comment": "fine"}, "7": {EXACT: 0}})
    assert read_labels(path, KEY) == [
        Label(*KEY.answers["1"], "ExactMatch", 1.0, "ada"),
        Label(*KEY.answers["7"], "ExactMatch", 0.0, "ada"),
    ]


def test_the_written_sheet_reads_back_when_it_is_filled_in(tmp_path: Path) -> None:
    said = [*rows("it")[:2], Row("f", "?", response='=HYPERLINK("x")')]
    write_rows(said, tmp_path / "ours.jsonl")
    path, names = tmp_path / "sheet.csv", [str(tmp_path / "ours.jsonl")]
    count, key_file = write_blind_sheet(tmp_path, names, "ExactMatch,KF1(content)", path, seed=1)
    assert (count, key_file) == (3, tmp_path / "sheet.key.json")
    key = read_key(key_file)
    assert {row for _, row in key.answers.values()} == {"r0", "r1", "f"}
    with pytest.raises(TestsetError, match="has no score"):
        read_labels(path, key)
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.reader(file))
    assert "'=HYPERLINK" in path.read_text("utf-8-sig")  # a spreadsheet does not run it
    table[1][table[0].index(KF1)] = "1"
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows(table)
    (label,) = read_labels(path, key)
    assert label == Label(*key.answers["1"], "KF1(content)", 1.0, "sheet")


WRONG: list[Any] = ["2", "-1", "0.5", "yes", "1/1", True, 0.5, [1]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({EXACT: value}, "not a whole number from 0 to 1") for value in WRONG),
        ({"item": "99"}, "not in the key"),
        ({"item": None}, "not in the key"),
        ({"Kindness (1-5)": 3}, "unknown column"),
        ({"ExactMatch": 1}, "unknown column"),
    ],
)
def test_a_wrong_cell_has_its_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = filled(tmp_path / "ada.jsonl", {"4": change})
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
