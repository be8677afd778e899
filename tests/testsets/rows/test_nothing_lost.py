"""No row vanishes: a file is read to its end, or refused with the place of what is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragwright.app import command_line
from ragwright.core import Row, TestsetError
from ragwright.testsets import iter_rows, load_testset, read_rows, rows_of

ONE = {"user_input": "a", "response": "b", "reference": "b"}
TWO = {"user_input": "c", "response": "d", "reference": "e"}


def written(folder: Path, text: str, name: str = "rows.json") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_second_array_is_refused_with_its_line(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    first, second = (json.dumps([row], indent=indent) for row in (ONE, TWO))
    path = written(tmp_path, f"{first}\n{second}\n", name)
    with pytest.raises(TestsetError, match="continues after the end of its rows") as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:{first.count(chr(10)) + 2}"


def test_what_follows_many_empty_lines_is_refused(tmp_path: Path) -> None:
    blank = " \n" * 40_000
    path = written(tmp_path, json.dumps([ONE]) + blank)
    assert len(read_rows(path)) == 1
    path = written(tmp_path, json.dumps([ONE]) + blank + "[]")
    with pytest.raises(TestsetError, match="continues") as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:40001"


@pytest.mark.parametrize("rest", ["]", "}", "x", '{"results": []}', ","])
def test_what_follows_wrapped_rows_is_refused(tmp_path: Path, rest: str) -> None:
    long = {**ONE, "note": "x" * 100_000}
    path = written(tmp_path, json.dumps({"results": [long], "metrics": {"f1": 0.5}}) + rest)
    with pytest.raises(TestsetError, match="continues") as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:1"


@pytest.mark.parametrize("size", [1, 100_000])
def test_metrics_beside_wrapped_rows_are_no_rows(tmp_path: Path, size: int) -> None:
    row = {**ONE, "note": "x" * size}
    text = json.dumps({"results": [row], "metrics": {"f1": [0.5, 1]}, "version": "1"})
    assert len(read_rows(written(tmp_path, text))) == 1
    assert len(read_rows(written(tmp_path, text.replace("{", "{\n", 1)))) == 1


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("beside", [{"more": [TWO]}, {"results": [TWO]}, {"data": [TWO]}])
def test_rows_beside_wrapped_rows_are_refused(
    tmp_path: Path, size: int, beside: dict[str, Any]
) -> None:
    rows = json.dumps([{**ONE, "note": "x" * size}])
    text = f'{{"results": {rows}, {json.dumps(beside)[1:]}'
    for number, content in enumerate((text, text.replace("{", "{\n", 1))):
        with pytest.raises(TestsetError) as caught:
            read_rows(written(tmp_path, content, f"{number}.json"))
        assert f"{number}.json:" in (caught.value.where or "")


def test_an_object_of_rows_that_may_be_a_row_itself_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"results": [ONE], "question": "which?"}, indent=1))
    with pytest.raises(TestsetError, match="is also a row itself"):
        read_rows(path)


@pytest.mark.parametrize("name", ["user_input", "question", "query", "input", "request"])
def test_a_row_with_a_column_named_results_is_a_row(tmp_path: Path, name: str) -> None:
    row = {name: "a", "response": "b", "reference": "b", "results": ["x", "y"]}
    lines = f"{json.dumps(row)}\n{json.dumps(TWO)}\n"
    first, second = read_rows(written(tmp_path, lines, "rows.jsonl"))
    assert (first.user_input, second.user_input) == ("a", "c")
    assert first.metadata["results"] in (("x", "y"), '["x", "y"]')
    (pretty,) = read_rows(written(tmp_path, json.dumps(row, indent=1)))
    (array,) = read_rows(written(tmp_path, json.dumps([row])))
    assert pretty == array == first


def test_a_row_with_columns_and_data_is_a_row(tmp_path: Path) -> None:
    row = {**ONE, "columns": ["x"], "data": ["y"]}
    (read,) = read_rows(written(tmp_path, json.dumps(row), "rows.jsonl"))
    assert (read.user_input, read.metadata["data"]) == ("a", ("y",))


@pytest.mark.parametrize("cells", [["a"], ["a", "b", "c"]])
def test_a_split_table_with_other_cells_than_columns_is_refused(
    tmp_path: Path, cells: list[str]
) -> None:
    table = {"columns": ["user_input", "response"], "data": [["x", "y"], cells]}
    with pytest.raises(TestsetError, match=f"{len(cells)} cells") as caught:
        read_rows(written(tmp_path, json.dumps(table)))
    assert (caught.value.where or "").endswith("#2")


@pytest.mark.parametrize("array", [False, True])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, array: bool) -> None:
    row = '{"user_input": "a", "response": "b", "response": "c"}'
    text = f"[{json.dumps(ONE)},\n{row}]" if array else f"{json.dumps(ONE)}\n{row}\n"
    path = written(tmp_path, text)
    with pytest.raises(TestsetError, match="'response' is given twice") as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20000,
        '{"user_input": ' + "[" * 20000,
        '[{"a": ' + '{"a": ' * 20000,
        "{" * 20000,
        '[{"user_input": "a", "x": ' + "[" * 20000 + "]" * 20000 + "}]",
    ],
)
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.csv"])
def test_deep_nesting_is_a_typed_error(tmp_path: Path, text: str, name: str) -> None:
    if name.endswith(".csv"):
        text = text if text.startswith("[") else "[" * 20_000
        text = f"user_input,contexts\na,{text.replace(',', '')}\n".replace('"', "")
    path = written(tmp_path, text, name)
    with pytest.raises(TestsetError) as caught:
        read_rows(path)
    assert (caught.value.where or "").startswith(f"{path}:")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "column",
    [
        "anwser",
        "asnwer",
        "anser",
        "retreived_contexts",
        "grund_trut",
        "qestion",
        "quary",
        "qurey",
        "refernece",
    ],
)
def test_a_misspelt_column_is_refused_and_the_known_one_named(tmp_path: Path, column: str) -> None:
    path = written(tmp_path, json.dumps({"user_input": "a", "reference": "b", column: "b"}))
    with pytest.raises(TestsetError, match=f"unknown column '{column}'") as caught:
        read_rows(path)
    assert "did you mean" in (caught.value.hint or "")
    assert caught.value.where == f"{path}:1"


def test_columns_of_ones_own_stay_metadata() -> None:
    names = (
        "ids idx uid name names team topic topics note notes tags text title source category url "
        "difficulty language answerable falsified abstained split review persona created model "
        "prompt score label type question_type answer_type query_time results result page domain "
        "hint hints author quality test query_lang response_time answer_start input_lang queries "
        "question_id user_id answer_id"
    )
    own = dict.fromkeys(names.split(), "x")
    (row,) = rows_of([{"user_input": "a", "reference": "b", **own}])
    assert row.metadata == own


LONE = json.dumps("x\ud83d")
ROWS = (
    f'{{"user_input": {LONE}, "response": "b", "reference": "b", "note": {LONE}}}\n'
    + json.dumps(TWO)
)


def test_half_a_character_in_a_row_is_replaced_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS, "rows.jsonl")
    first, second = iter_rows(path)
    assert (first.user_input, first.metadata["note"]) == ("x\ufffd", "x\ufffd")
    assert first.metadata["half_characters"] == ("user_input", "note")
    assert second.metadata == {}
    assert "half a character" in load_testset(str(path)).notes[0]
    spans = {"retrieved_contexts": ["\udc00"], "reference_ids": {"\ud800": 1}}
    (held,) = rows_of([Row("i", "\ud800", metadata={"k": ("\udc00",)})])
    assert (held.user_input, held.metadata["k"]) == ("\ufffd", ("\ufffd",))
    (read,) = rows_of([{"user_input": "a", **spans}])
    assert (read.retrieved_contexts, read.reference_ids) == (("\ufffd",), {"\ufffd": 1})
    (whole,) = iter_rows(written(tmp_path, '{"user_input": "\\ud83d\\ude00"}'))
    assert (whole.user_input, whole.metadata) == ("\U0001f600", {})


@pytest.mark.slow
def test_half_a_character_ends_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "sources: [docs]\n", "ragwright.yaml")
    (tmp_path / "docs").mkdir()
    written(tmp_path / "docs", "Zebras run fast.", "a.md")
    written(tmp_path, ROWS, "t.jsonl")

    def run(*words: str) -> str:
        done = CliRunner().invoke(command_line([words[0]]), [*words, "--json"])
        assert done.exit_code in (0, 101), done.output  # 101: no answer was found
        return done.stdout

    run("ingest")
    for words in (
        ("eval", "--testset", "t.jsonl", "--measures", "ExactMatch"),
        ("eval", "--testset", "t.jsonl", "--measures", "ExactMatch", "--resume"),
        ("score", "t.jsonl", "--measures", "ExactMatch"),
    ):
        told = json.loads(run(*words))
        assert told["measures"]["ExactMatch"]["states"].get("errored", 0) == 0
        assert [n for n in told["notes"] if "1 of 2 rows hold half a character" in n], told["notes"]
    assert json.loads(run("ask", "zebras\udcff"))["answers"]
    assert "hits" in json.loads(run("retrieve", "zebras\udcff"))
