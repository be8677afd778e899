"""Files of the RGB benchmark: read whole, in exact doses, every fault with its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import GoldSpan, TestsetError
from ragwright.testsets import (
    LeakCheck,
    SuiteOptions,
    gold_answer,
    load_testset,
    read_rgb,
    rgb_rows,
)

LINE = {
    "id": 0,
    "query": "Who leads team 0?",
    "answer": "Abel",
    "fakeanswer": "Bruno",
    "positive": ["Team 0 is led by Abel.", "Abel leads team 0."],
    "positive_wrong": ["Team 0 is led by Bruno.", "Bruno leads team 0."],
    "negative": ["It rains.", "Abel is here.", "It snows.", "It is warm.", "Fog.", "Wind."],
}


def rgb_file(folder: Path, *lines: dict[str, Any], name: str = "en_fact.json") -> str:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    return str(path)


def texts(spans: Iterable[GoldSpan]) -> list[str]:
    return [span.text for span in spans]


def test_a_question_has_its_parts_and_passages(tmp_path: Path) -> None:
    [one] = read_rgb(rgb_file(tmp_path, LINE), Counter())
    assert one.answer.parts == (("Abel",),)
    assert texts(one.gold) == ["Team 0 is led by Abel."]
    assert texts(one.more) == ["Abel leads team 0."]
    assert texts(one.falsified[1]) == ["Abel leads team 0.", "Bruno leads team 0."]
    assert one.fake == ("Bruno",)


def test_an_answer_of_parts_is_read_as_the_benchmark_does(tmp_path: Path) -> None:
    line = LINE | {
        "answer": [["1,313,851", "1.3 million"], "Abel"],
        "positive": [["a", "b", "d"], ["c"]],
        "asnwer1": [["1,313,851", "1.3 million"]],
        "answer2": ["Abel"],
    }
    [one] = read_rgb(rgb_file(tmp_path, line), Counter())
    assert one.answer.parts == (("1,313,851", "1.3 million"), ("Abel",))
    assert (texts(one.gold), texts(one.more)) == (["a", "c"], ["b", "d"])


def test_an_address_names_file_and_suite(tmp_path: Path) -> None:
    file = rgb_file(tmp_path, LINE)
    rejected = load_testset(f"rgb:{file}/rejection")
    assert [row.metadata["suite"] for row in rejected.rows] == ["rejection", "closed_book"]
    assert rejected.notes == ("1 passages that reveal the answer are left out",)
    contexts = rejected.rows[0].retrieved_contexts
    assert sorted(contexts) == ["Fog.", "It is warm.", "It rains.", "It snows.", "Wind."]
    # nothing in an id says what a passage is there for
    ids = {key for row in load_testset(f"rgb:{file}/all").rows for key in row.retrieved_context_ids}
    assert {key.rpartition(":")[0] for key in ids} == {"rgb:en_fact:0"}


@pytest.mark.parametrize("address", ["rgb:x.json", "rgb:x.json/nose", "rgb:/noise"])
def test_a_wrong_address_says_the_form(address: str) -> None:
    with pytest.raises(TestsetError, match="cannot read") as caught:
        load_testset(address)
    assert "rgb:FILE/SUITE" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": None},
        {"query": 3},
        {"answer": []},
        {"answer": [[]]},
        {"answer": [3]},
        {"positive": "text"},
        {"negative": [1]},
        {"fakeanswer": {"a": 1}},
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = rgb_file(tmp_path, LINE, LINE | {"id": 1} | wrong)
    with pytest.raises(TestsetError) as caught:
        read_rgb(file, Counter())
    assert caught.value.where == f"{file}:2"


def test_an_empty_file_and_a_repeated_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TestsetError, match="twice"):
        read_rgb(rgb_file(tmp_path, LINE, LINE), Counter())
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(TestsetError, match="no questions"):
        read_rgb(tmp_path / "empty.json", Counter())
    with pytest.raises(TestsetError, match="no such file"):
        load_testset(f"rgb:{tmp_path}/none.json/noise")


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("name", "questions", "several", "false", "leaks"),
    [
        ("en_fact", 100, 0, 100, 51),
        ("zh_fact", 100, 1, 100, 49),
        ("zh_int", 100, 100, 0, 409),
        ("zh_refine", 300, 43, 0, 275),
    ],
)
def test_the_real_files_are_read_whole(
    name: str, questions: int, several: int, false: int, leaks: int
) -> None:
    file = DATA / "rgb" / f"{name}.json"
    found = read_rgb(file, Counter())
    assert len(found) == questions
    assert sum(len(one.answer.parts) > 1 for one in found) == several
    assert sum(bool(one.falsified) for one in found) == false
    made = rgb_rows(f"rgb:{file}/rejection", SuiteOptions(closed_book=False))
    assert f"{leaks} passages that reveal the answer are left out" in made.notes
    for row in made.rows:
        gold = gold_answer(row)
        assert gold is not None
        check = LeakCheck(gold)
        assert not any(check.leaks(text) for text in row.retrieved_contexts)


@pytest.mark.needs_data
def test_doses_of_the_real_files_are_exact() -> None:
    file = DATA / "rgb" / "en_fact.json"
    negative = {one.row.id: set(texts(one.distractors)) for one in read_rgb(file, Counter())}
    rows = load_testset(f"rgb:{file}/noise").rows
    noise = [row for row in rows if row.metadata["suite"] == "noise"]
    for row in noise:
        given = row.retrieved_contexts
        irrelevant = sum(text in negative[str(row.metadata["base"])] for text in given)
        assert irrelevant / len(given) == row.metadata["dose"]
    assert len(set(Counter(row.metadata["dose"] for row in noise).values())) == 1
