"""Rows of other tools, read as they are; what could mean two things is refused."""

from __future__ import annotations

import csv
import json
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import Row, TestsetError
from ragwright.measure import parse_measures, score_rows
from ragwright.testsets import iter_rows, read_rows, rows_of

RAGAS = {
    "question": "How often?",
    "contexts": ["Every two years.", "It is red."],
    "answer": "Every two years",
    "ground_truth": "every 2 years",
}
DEEPEVAL = {
    "input": "How often?",
    "actual_output": "Every two years",
    "expected_output": "every 2 years",
    "context": ["The ideal passage."],
    "retrieval_context": ["Every two years.", "It is red."],
    "additional_metadata": {"team": "a"},
}
MLFLOW = {
    "inputs": {"question": "How often?"},
    "outputs": {
        "response": "Every two years",
        "retrieved_context": [
            {"doc_uri": "a.md", "content": "Every two years."},
            {"doc_uri": "b.md", "content": "It is red."},
        ],
    },
    "expectations": {
        "expected_response": "every 2 years",
        "expected_facts": ["two years"],
        "expected_retrieved_context": [{"doc_uri": "a.md"}],
    },
}
RAGCHECKER = {
    "results": [
        {
            "query_id": "7",
            "query": "How often?",
            "gt_answer": "every 2 years",
            "response": "Every two years",
            "retrieved_context": [
                {"doc_id": "a.md", "text": "Every two years."},
                {"doc_id": "b.md", "text": "It is red."},
            ],
            "response_claims": [["brake fluid", "changed", "every two years"]],
        }
    ]
}
ANSWERED = {
    "user_input": "How often?",
    "response": "Every two years",
    "reference": "every 2 years",
    "retrieved_contexts": ("Every two years.", "It is red."),
}


def file(folder: Path, content: Any, name: str = "rows.json", indent: int | None = None) -> Path:
    path = folder / name
    path.write_text(json.dumps(content, indent=indent), "utf-8")
    return path


def table(folder: Path, rows: Sequence[Mapping[str, Any]], name: str = "rows.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ANSWERED}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "content",
    [[RAGAS], [DEEPEVAL], [MLFLOW], RAGCHECKER],
    ids=["ragas", "deepeval", "mlflow", "rc"],
)
def test_the_same_row_in_four_dialects(tmp_path: Path, content: Any, indent: int | None) -> None:
    (row,) = read_rows(file(tmp_path, content, indent=indent))
    assert fields(row) == ANSWERED


def test_what_else_a_dialect_holds_is_kept(tmp_path: Path) -> None:
    (deepeval,) = read_rows(file(tmp_path, DEEPEVAL, "rows.jsonl"))
    assert deepeval.reference_contexts == ("The ideal passage.",)
    assert json.loads(str(deepeval.metadata["additional_metadata"])) == {"team": "a"}
    (mlflow,) = read_rows(file(tmp_path, MLFLOW, "rows.jsonl"))
    assert mlflow.retrieved_context_ids == ("a.md", "b.md")
    assert mlflow.reference_ids == {"a.md": 1}
    assert mlflow.metadata["expected_facts"] == ("two years",)
    (checker,) = read_rows(file(tmp_path, RAGCHECKER))
    assert (checker.id, checker.retrieved_context_ids) == ("7", ("a.md", "b.md"))
    assert "brake fluid" in str(checker.metadata["response_claims"])


def test_several_ground_truths_are_all_accepted(tmp_path: Path) -> None:
    row = {k: v for k, v in RAGAS.items() if k != "ground_truth"} | {"ground_truths": ["a", "b"]}
    (found,) = read_rows(file(tmp_path, [row]))
    assert found.reference == "a"
    assert found.metadata["references"] == ("a", "b")


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("own", ["", "John F. Kennedy"])
def test_accepted_answers_are_the_same_from_every_form(
    tmp_path: Path, own: str, foreign: bool
) -> None:
    question = "question" if foreign else "user_input"
    answer = "answer" if foreign else "response"
    row = {question: "?", answer: "JFK"} | ({"reference": own} if own else {})
    accepted = ["John F. Kennedy", "JFK"]
    (told,) = read_rows(file(tmp_path, row | {"references": accepted}, "rows.jsonl"))
    (cell,) = read_rows(table(tmp_path, [row | {"references": json.dumps(accepted)}]))
    (lone,) = read_rows(table(tmp_path, [row | {"references": "JFK"}]))
    assert told == cell
    assert (told.reference, told.metadata["references"]) == ("John F. Kennedy", tuple(accepted))
    assert (lone.reference, lone.metadata["references"]) == (own or "JFK", ("JFK",))
    taken = [score_row_of(found) for found in (told, cell, lone)]
    assert taken == [1.0, 1.0, 1.0]


def score_row_of(row: Row) -> float | None:
    ((score,),) = score_rows([row], parse_measures("ExactMatch"))
    return score.value


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ("How often?", "Every two years"),
        ({"messages": [{"role": "user", "content": "How often?"}]}, {"answer": "Every two years"}),
        (
            {"anything": "How often?"},
            {"choices": [{"message": {"role": "assistant", "content": "Every two years"}}]},
        ),
    ],
)
def test_mlflows_forms(tmp_path: Path, inputs: Any, outputs: Any) -> None:
    (row,) = read_rows(file(tmp_path, [{"inputs": inputs, "outputs": outputs}]))
    assert (row.user_input, row.response) == ("How often?", "Every two years")


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"question": "?", "answer": "x"}, ("response", "reference")),
        ({"question": "?", "context": ["x"]}, ("retrieved_contexts", "reference_contexts")),
        ({"question": "?", "user_input": "?"}, ("'question'", "'user_input'")),
        ({"query": "?", "input": "?"}, ("'query'", "'input'")),
        (RAGAS | {"response": "x"}, ("'answer'", "'response'")),
        (RAGAS | {"reference": "x"}, ("'ground_truth'", "'reference'")),
        ({"inputs": {"question": "?", "query": "!"}}, ("question", "query")),
        ({"question": "?", "conxtexts": ["x"]}, ("contexts",)),
    ],
)
def test_an_ambiguous_column_names_both_candidates(
    tmp_path: Path, row: Any, named: tuple[str, ...]
) -> None:
    path = file(tmp_path, row, "rows.jsonl")
    with pytest.raises(TestsetError) as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:1"
    for name in named:
        assert name in str(caught.value)


@pytest.mark.parametrize("written", [json.dumps, str])
def test_tables_hold_lists_as_json_or_as_python_prints_them(tmp_path: Path, written: Any) -> None:
    row = RAGAS | {"contexts": written(["Every two years.", "It is red."])}
    (found,) = read_rows(table(tmp_path, [row]))
    assert fields(found) == ANSWERED


def test_a_cell_of_one_passage_is_one_passage(tmp_path: Path) -> None:
    (found,) = read_rows(table(tmp_path, [RAGAS | {"contexts": "Every two years.\nOr so."}]))
    assert found.retrieved_contexts == ("Every two years.\nOr so.",)


def test_an_array_printed_without_commas_is_not_glued_together(tmp_path: Path) -> None:
    path = table(tmp_path, [RAGAS | {"contexts": "['one' 'two']"}])
    with pytest.raises(TestsetError, match="without commas"):
        read_rows(path)
    with pytest.raises(TestsetError, match="is not a list"):
        read_rows(table(tmp_path, [RAGAS | {"contexts": "[1] see below"}]))


def test_tables_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('question,answer\n"a\nb",c\n', "utf-8")
    with pytest.raises(TestsetError) as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:3"
    path.write_text("user_input,response\na,b,c\n", "utf-8")
    with pytest.raises(TestsetError, match="3 cells under 2"):
        read_rows(path)
    path.write_text("user_input,user_input\na,b\n", "utf-8")
    with pytest.raises(TestsetError, match="occurs twice"):
        read_rows(path)
    path.write_text('user_input\n"open\n', "utf-8")
    with pytest.raises(TestsetError, match="not a table"):
        read_rows(path)


def test_empty_cells_and_nulls_are_no_columns(tmp_path: Path) -> None:
    (cell,) = read_rows(table(tmp_path, [RAGAS | {"ground_truth": "", "response": ""}]))
    assert cell.reference == ""
    (null,) = read_rows(file(tmp_path, [RAGAS | {"response": None, "note": None}]))
    assert null.metadata == {}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[\n{"user_input": "a"},\n{"user_input": }]', 3, "not JSON"),
        ('[\n{"user_input": "a"},\n{"user_input": "b"', 3, "not JSON"),
        ('[\n{"user_input": "a"},\n"b"]', 3, "not an object"),
        ('[{"user_input": "a"}\n', 2, "not JSON"),
        ('{\n"user_input": "a",\n}', 3, "not JSON"),
    ],
)
def test_a_broken_array_names_the_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text, "utf-8")
    with pytest.raises(TestsetError, match=said) as caught:
        read_rows(path)
    assert (caught.value.where or "").startswith(f"{path}:{line}")


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(TestsetError, match="no such file"):
        read_rows(tmp_path / "none.json")
    with pytest.raises(TestsetError, match="no such file"):
        read_rows(tmp_path / "none.csv")
    for name, text in (("a.json", "[]"), ("a.csv", ""), ("b.csv", "user_input\n"), ("c.json", "")):
        (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises(TestsetError):
            read_rows(tmp_path / name)


def test_long_arrays_are_read_to_their_end(tmp_path: Path) -> None:
    rows = [RAGAS | {"answer": "é{" * n, "note": '\\"]'} for n in range(0, 60_000, 4000)]
    path = tmp_path / "rows.json"
    path.write_text("\ufeff" + json.dumps(rows, ensure_ascii=False), "utf-8")
    found = read_rows(path)
    assert [row.response for row in found] == [row["answer"] for row in rows]


@pytest.mark.slow
def test_many_rows_are_read_one_at_a_time(tmp_path: Path) -> None:
    """20 MB of lines pass in little memory: ids alone are kept."""
    path = tmp_path / "rows.jsonl"
    line = json.dumps(RAGAS | {"contexts": ["x" * 1000]}) + "\n"
    path.write_text(line * 20_000, "utf-8")
    tracemalloc.start()
    assert sum(1 for _ in iter_rows(path)) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 20_000_000
    assert peak < 12_000_000


@pytest.mark.needs_data
def test_ragcheckers_own_data() -> None:
    """280 pairs of answers, in the shape RAGChecker reads."""
    path = DATA / "ragchecker_meta" / "baseline_ragchecker.json"
    pairs = json.loads(path.read_text("utf-8"))
    rows = read_rows(path)
    assert len(rows) == 560
    assert rows[1].response == pairs[0]["model2"]["response"]
    assert sum(not row.response_text for row in rows) == 6  # answers of systems that said nothing
    assert all(row.response is not None for row in rows)
    assert all(row.reference for row in rows)


def test_an_empty_answer_is_not_a_missing_one(tmp_path: Path) -> None:
    lines = [{"user_input": "a", "response": ""}, {"user_input": "b", "response": None}]
    found = read_rows(file(tmp_path, [*lines, {"user_input": "c"}]))
    assert [row.response for row in found] == ["", None, None]
    path = tmp_path / "rows.csv"
    path.write_text("user_input,response,reference\na,,x\nb,B,\n", "utf-8")
    first, second = read_rows(path)
    assert (first.response, first.reference) == ("", "x")
    assert (second.response, second.reference) == ("B", "")
    path.write_text("user_input,reference\na,x\n", "utf-8")
    assert read_rows(path)[0].response is None


def test_a_pair_of_ragcheckers_is_two_systems(tmp_path: Path) -> None:
    pair = {
        "instance_id": 7,
        "query_id": "41",
        "query": "How often?",
        "gt_answer": "Every two years.",
        "model1": {"model_name": "bm25", "response": "Often.", "critiques": "none"},
        "model2": {"response": "", "retrieved_context": [{"doc_id": "d", "text": "Two."}]},
        "overall_label": 1,
    }
    one, two = read_rows(file(tmp_path, [pair]))
    assert (one.id, one.response, one.metadata["system"]) == ("7-model1", "Often.", "bm25")
    assert (two.id, two.response, two.metadata["system"]) == ("7-model2", "", "model2")
    assert one.reference == two.reference == "Every two years."
    assert two.retrieved_context_ids == ("d",)
    assert one.metadata["overall_label"] == 1
    assert [row.id for row in rows_of([pair])] == ["7-model1", "7-model2"]
    bare = {key: value for key, value in pair.items() if not key.endswith("_id")}
    assert [row.id for row in read_rows(file(tmp_path, [bare, bare]))] == ["1", "2", "3", "4"]
    with pytest.raises(TestsetError, match="model2 has no response"):
        read_rows(file(tmp_path, [pair | {"model2": {"answer": "x"}}]))


def test_an_id_that_stands_twice_names_both_places(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    rows = [{"query_id": "41", "query": "a"}, {"query_id": "41", "query": "b"}]
    path.write_text(json.dumps({"results": rows}, indent=1), "utf-8")
    with pytest.raises(TestsetError, match="id '41' occurs twice") as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:7"
    assert f"{path}:3 has it too" in (caught.value.hint or "")
    with pytest.raises(TestsetError, match="occurs twice") as caught:
        list(rows_of([Row("1", "?"), Row("1", "?")]))
    assert "row 1 has it too" in (caught.value.hint or "")


def test_tables_that_mlflow_logs(tmp_path: Path) -> None:
    split = {"columns": ["inputs", "ground_truth", "outputs"], "data": [["a", "b", "c"]]}
    for name in ("rows.json", "rows.jsonl"):
        (row,) = read_rows(file(tmp_path, split, name))
        assert (row.user_input, row.reference, row.response) == ("a", "b", "c")
    (row,) = read_rows(
        file(tmp_path, [{"request": "a", "response": "c", "expected_response": "b"}])
    )
    assert (row.user_input, row.reference, row.response) == ("a", "b", "c")


@pytest.mark.parametrize("column", ["rubrics", "own"])
def test_columns_that_hold_more_than_texts_are_kept_as_text(tmp_path: Path, column: str) -> None:
    (row,) = read_rows(file(tmp_path, [{"user_input": "a", column: {"score1_description": "x"}}]))
    assert row.metadata[column] == '{"score1_description": "x"}'


@pytest.mark.parametrize(
    ("value", "said", "hint"),
    [
        ([{"prompt": "a"}], "no user_input", "the columns are: prompt"),
        ([{"user_input": [{"content": "a"}]}], "turn 1 of user_input", '"role": "user"'),
        ({"testCases": [{"input": "a"}], "n": 1}, "under 'testCases'", "a separate file"),
    ],
)
def test_what_is_no_row_says_what_to_do(tmp_path: Path, value: Any, said: str, hint: str) -> None:
    with pytest.raises(TestsetError, match=said) as caught:
        read_rows(file(tmp_path, value))
    assert hint in (caught.value.hint or "")
