"""Rows of other tools and of people, read as they are to the last, or refused with the place."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import GoldSpan, Row, TestsetError, Turn
from ragwright.testsets import iter_rows, read_rows, rows_of, split_clusters, write_rows

PASSAGES = ("Every two years.", "It is red.")
ANSWERED = Row("1", "How often?", "Every two years", "every 2 years", PASSAGES)
RAGAS = {
    "question": "How often?",
    "contexts": [*PASSAGES],
    "answer": "Every two years",
    "ground_truth": "every 2 years",
}
DEEPEVAL = {
    "input": "How often?",
    "actual_output": "Every two years",
    "expected_output": "every 2 years",
    "context": ["The ideal passage."],
    "retrieval_context": [*PASSAGES],
    "additional_metadata": {"team": "a"},
}
MLFLOW = {
    "inputs": {"question": "How often?"},
    "outputs": {
        "response": "Every two years",
        "retrieved_context": [
            {"doc_uri": "a.md", "content": PASSAGES[0]},
            {"doc_uri": "b.md", "content": PASSAGES[1]},
        ],
    },
    "expectations": {
        "expected_response": "every 2 years",
        "expected_facts": ["two years"],
        "expected_retrieved_context": [{"doc_uri": "a.md"}],
    },
}
CLAIMS = [["brake fluid", "changed", "every two years"]]
RAGCHECKER = {
    "query_id": "7",
    "query": "How often?",
    "gt_answer": "every 2 years",
    "response": "Every two years",
    "retrieved_context": [
        {"doc_id": "a.md", "text": PASSAGES[0]},
        {"doc_id": "b.md", "text": PASSAGES[1]},
    ],
    "response_claims": CLAIMS,
}
OWN: dict[str, Any] = {
    "user_input": "Why?",
    "response": "Because.",
    "retrieved_contexts": ["a", "b"],
    "retrieved_context_ids": ["d1", 2],
    "reference": None,
    "reference_spans": [{"document_id": "d", "start": 3, "end": 9, "text": "sample"}],
    "retrieved_spans": [{"document_id": "d", "start": 0, "end": 8}],
    "persona_name": "engineer",
    "difficulty": 3,
    "metadata": {"topic": ["x", "y"]},
}
OWN_ROW = Row(
    "1",
    "Why?",
    "Because.",
    retrieved_contexts=("a", "b"),
    retrieved_context_ids=("d1", "2"),
    reference_spans=(GoldSpan("d", 3, 9, "sample"),),
    retrieved_spans=(GoldSpan("d", 0, 8),),
    persona_name="engineer",
    metadata={"difficulty": 3, "topic": ("x", "y")},
)


def put(folder: Path, content: Any, name: str = "rows.jsonl") -> Path:
    """A file of a text, bytes, an object, or (as lines or as a table) a list of objects."""
    path = folder / name
    if isinstance(content, list) and name.endswith(".csv"):
        out = io.StringIO()
        table = csv.DictWriter(out, list(content[0]))
        table.writeheader()
        table.writerows(content)
        content = out.getvalue()
    elif isinstance(content, list) and name.endswith(".jsonl"):
        content = "".join(json.dumps(row) + "\n" for row in content)
    elif not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder: Path, content: Any, name: str = "rows.jsonl", **how: bool) -> tuple[Row, ...]:
    return read_rows(put(folder, content, name), **how)


# -- What a file is read as ------------------------------------------------------------------------


def also(**fields: Any) -> Row:
    """The answered row with other fields."""
    return replace(ANSWERED, **fields)


ABC = Row("1", "a", "c", "b")
TOLD = Row("1", "How often?", "Every two years")
EVERY = "Every two years"
ASK = {"messages": [{"role": "user", "content": "How often?"}]}
CHOICES = {"choices": [{"message": {"role": "assistant", "content": EVERY}}]}
BARE = {k: v for k, v in RAGAS.items() if k != "ground_truth"}
SPLIT = {"columns": ["inputs", "ground_truth", "outputs"], "data": [["a", "b", "c"]]}
IDEAL = {"reference_contexts": ("The ideal passage.",)}
IDS = {"retrieved_context_ids": ("a.md", "b.md")}
FACTS = {"expected_facts": ("two years",)}
SCORED = {"score1_description": "x"}
CELLS = "question,ground_truths\nWhy?,Paris; France | Paris\n"
BOTH = {"references": ("Paris; France", "Paris")}
READ: Mapping[str, tuple[Any, str, Row | tuple[Row, ...]]] = {
    "ragas": ([RAGAS], "a.jsonl", ANSWERED),
    "deepeval": (
        [DEEPEVAL], "a.jsonl", also(**IDEAL, metadata={"additional_metadata": '{"team": "a"}'})
    ),
    "mlflow": ([MLFLOW], "a.jsonl", also(**IDS, reference_ids={"a.md": 1}, metadata=FACTS)),
    "ragchecker": (
        {"results": [RAGCHECKER]}, "a.json",
        also(id="7", **IDS, metadata={"response_claims": json.dumps(CLAIMS)}),
    ),
    "own names": ([OWN], "a.jsonl", OWN_ROW),
    "ids of contexts": (
        [{"user_input": "Who?", "reference_context_ids": ["d1", "d2"]}], "a.jsonl",
        Row("1", "Who?", reference_ids={"d1": 1, "d2": 1}),
    ),
    "mlflow, texts": ([{"inputs": "How often?", "outputs": EVERY}], "a.jsonl", TOLD),
    "mlflow, messages": (
        [{"inputs": ASK, "outputs": {"answer": EVERY}}], "a.jsonl",
        replace(TOLD, metadata={"turn": 1, "standalone": True}),
    ),
    "choices": ([{"inputs": {"any": "How often?"}, "outputs": CHOICES}], "a.jsonl", TOLD),
    "mlflow, a table": (SPLIT, "a.json", ABC),
    "a request": ([{"request": "a", "response": "c", "expected_response": "b"}], "a.jsonl", ABC),
    "several ground truths": (
        [BARE | {"ground_truths": ["a", "b"]}], "a.jsonl",
        also(reference="a", metadata={"references": ("a", "b")}),
    ),
    "numbers": (
        [{"question": "a", "response": 42, "reference": 1.5}], "a.jsonl", Row("1", "a", "42", "1.5")
    ),
    "nulls": ([RAGAS | {"response": None, "note": None}], "a.jsonl", ANSWERED),
    "an empty answer is not a missing one": (
        [{"user_input": "a", "response": ""}, {"user_input": "b", "response": None}], "a.jsonl",
        (Row("1", "a", ""), Row("2", "b")),
    ),
    "empty cells": (
        "user_input,response,reference\na,,x\nb,B,\n", "a.csv",
        (Row("1", "a", "", "x"), Row("2", "b", "B")),
    ),
    "no cell": ("user_input,reference\na,x\n", "a.csv", Row("1", "a", None, "x")),
    "a list as JSON": ([RAGAS | {"contexts": json.dumps(PASSAGES)}], "a.csv", ANSWERED),
    "a list as Python prints": ([RAGAS | {"contexts": str([*PASSAGES])}], "a.csv", ANSWERED),
    "a passage": ([RAGAS | {"contexts": "A.\nB."}], "a.csv", also(retrieved_contexts=("A.\nB.",))),
    "answers in a cell": (CELLS, "a.csv", Row("1", "Why?", None, "Paris; France", metadata=BOTH)),
    "two halves": ('{"user_input": "\\ud83d\\ude00"}', "a.jsonl", Row("1", "\U0001f600")),
    "rubrics": (
        [{"user_input": "a", "rubrics": SCORED}], "a.jsonl",
        Row("1", "a", metadata={"rubrics": json.dumps(SCORED)}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_file_is_read_as_these_rows(tmp_path: Path, case: str) -> None:
    content, name, row = READ[case]
    due = row if isinstance(row, tuple) else (row,)
    assert read(tmp_path, content, name) == due
    if name == "a.jsonl" and isinstance(content, list):  # as an array, too
        for indent in (None, 2):
            assert read(tmp_path, json.dumps(content, indent=indent), "b.json") == due


@pytest.mark.parametrize(
    ("column", "cell", "found"),
    [
        ("reference_ids", "a.md|b.md", {"a.md": 1, "b.md": 1}),
        ("reference_ids", "a.md; b.md", {"a.md": 1, "b.md": 1}),
        ("reference_ids", '["a.md", "b.md"]', {"a.md": 1, "b.md": 1}),
        ("reference_ids", "a.md", {"a.md": 1}),
        ("Reference IDs", "a;b.md | c.md", {"a;b.md": 1, "c.md": 1}),
    ],
)
def test_ids_of_a_cell(tmp_path: Path, column: str, cell: str, found: Mapping[str, int]) -> None:
    (row,) = read(tmp_path, [{"question": "Why?", column: cell}], "a.csv")
    assert row.reference_ids == found


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("mark", [";", ",", "\t"])
@pytest.mark.parametrize("stated", [True, False])
def test_tables_of_excel_are_read(tmp_path: Path, encoding: str, mark: str, stated: bool) -> None:
    """Unicode text, a code page, a first line with the separator; quoted cells hold separators."""
    asked = ("Größe, des; Tanks?", "Wo liegt Köln?")
    lines = [f"question{mark}answer", *(f'"{question}"{mark}für 12 Euro' for question in asked)]
    table = "\r\n".join([f"sep={mark}"] * stated + lines).encode(encoding)
    rows = read(tmp_path, table, "a.csv", questions=True)
    assert [(row.user_input, row.reference) for row in rows] == [
        (question, "für 12 Euro") for question in asked
    ]


def test_parquet_files_and_frames_are_test_sets(tmp_path: Path) -> None:
    import pandas
    import polars
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = [
        {"question": "When?", "expected": "then", "contexts": ["a", "b"], "year": 3},
        {"question": "Why?", "expected": None, "contexts": None, "year": None},
    ]
    frames: list[Any] = [pandas.DataFrame(rows), polars.DataFrame(rows), rows]
    for frame in (arrow.Table.from_pylist(rows), *frames):
        first, second = rows_of(frame, questions=True)
        assert (first.user_input, first.reference) == ("When?", "then"), type(frame)
        assert first.retrieved_contexts == ("a", "b")
        assert float(str(first.metadata["year"])) == 3
        assert second == Row("2", "Why?")
    rows[0]["reference_ids"] = {"a.md": 2, "b.md": None}
    rows[1]["reference_ids"] = {"a.md": None, "b.md": 1}
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    first, second = read_rows(tmp_path / "t.parquet", questions=True)
    assert (first.reference, first.reference_ids) == ("then", {"a.md": 2})
    assert (second.reference, second.reference_ids) == ("", {"b.md": 1})


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


# -- Nothing is lost -------------------------------------------------------------------------------

ONE = {"user_input": "a", "response": "b", "reference": "b"}
TWO = {"user_input": "c", "response": "d", "reference": "e"}
TWOS = json.dumps([TWO])
NOTED = {**ONE, "note": "x" * 100_000}
BLANK = " \n" * 40_000
CONTINUES = "not JSON: Extra data"
COLUMNS = {"columns": ["user_input", "response"]}
TWICE = '{"user_input": "a", "response": "b", "response": "c"}'
SAME = [{"query_id": "41", "query": "a"}, {"query_id": "41", "query": "b"}]
USER, AGENT = {"role": "user", "content": "What is a cat?"}, {"type": "ai", "content": "An animal."}
OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "What is a cat?"}]},
    {"role": "assistant", "content": "An animal."},
    {"role": "user", "content": "What does it eat?"},
]


def spans(**span: Any) -> dict[str, Any]:
    return {"user_input": "?", "reference_spans": [span]}


MISSPELT = ("anwser", "asnwer", "grund_trut", "quary")
AMBIGUOUS = [
    ({"question": "?", "answer": "x"}, "response.*reference"),
    ({"question": "?", "context": ["x"]}, "retrieved_contexts.*reference_contexts"),
    ({"question": "?", "user_input": "?"}, "'question'.*'user_input'"),
    ({"query": "?", "input": "?"}, "'query'.*'input'"),
    (RAGAS | {"response": "x"}, "'answer'.*'response'"),
    (RAGAS | {"reference": "x"}, "'ground_truth'.*'reference'"),
    ({"inputs": {"question": "?", "query": "!"}}, "question.*query"),
    ({"question": "?", "conxtexts": ["x"]}, "contexts"),
]
WRONG = [
    ({"response": "x"}, "user_input"),
    ({"user_input": {}}, "user_input"),
    ({"user_input": "?", "reference_id": ["d1"]}, "reference_ids"),
    ({"user_input": "?", "retrieved_contexts": "one"}, "list"),
    ({"user_input": "?", "reference_ids": {"d": 0.5}}, "grade"),
    ({"user_input": "?", "reference_ids": ["d"], "reference_context_ids": ["d"]}, "same"),
    (spans(start=3, end=1), "span"),
    (spans(document_id="d", start=3, end=1), "0 <="),
    (spans(document_id="d", start="a", end=1), "span"),
    ({"user_input": "?", "reference_spans": ["text"]}, "span"),
    ({"user_input": "?", "retrieved_spans": [{"document_id": "d"}]}, "span"),
    ({"user_input": "?", "metadata": {"notes": {"deep": 1}}}, "notes"),
    # turns of conversations
    ({"user_input": []}, "holds no turn"),
    ({"messages": [{"role": "judge", "content": "a"}]}, "unknown role 'judge'"),
    ({"user_input": ["a", "b"]}, "turn 1 of user_input is not an object"),
    ({"messages": [{"role": "user", "content": 3}]}, "is int, not a string"),
    ({"messages": [{"role": "user"}]}, "turn 1 of messages is a question without text"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "is list"),
    ({"messages": [OPENAI[3], OPENAI[0]]}, "the last turn of messages is of 'system'"),
    ({"messages": [OPENAI[2]]}, "no turn is by the user"),
    ({"messages": OPENAI[:3], "response": "x"}, "the last turn is not by the user"),
    ({"user_input": "a", "history": "before"}, "history is str"),
]
REFUSED: Sequence[tuple[Any, str, int | str, str]] = [
    # what follows the rows, and rows beside rows
    *(
        (f"{json.dumps([ONE], indent=indent)}\n{json.dumps([TWO])}\n", name, line, CONTINUES)
        for name in ("a.json", "a.jsonl")
        for indent, line in ((None, 2), (1, 8))
    ),
    (json.dumps([ONE]) + BLANK + "[]", "a.json", 40_001, CONTINUES),
    *(
        (json.dumps({"results": [NOTED], "metrics": {"f1": 0.5}}) + rest, "a.json", 1, CONTINUES)
        for rest in ("]", "}", "x", '{"results": []}', ",")
    ),
    *(
        (f'{start}"results": {json.dumps([row])}, "{more}": {TWOS}}}', "a.json", "", "")
        for row in (ONE, NOTED)
        for more in ("more", "results", "data")
        for start in ("{", "{\n")
    ),
    ({**COLUMNS, "data": [["x", "y"], ["a"]]}, "a.json", "#2", "1 cells"),
    ({**COLUMNS, "data": [["x", "y"], ["a", "b", "c"]]}, "a.json", "#2", "3 cells"),
    ({"testCases": [{"input": "a"}], "n": 1}, "a.json", "", "under 'testC.*a separate file"),
    # columns and ids
    (f"[{json.dumps(ONE)},\n{TWICE}]", "a.json", "", "'response' is given twice"),
    (f"{json.dumps(ONE)}\n{TWICE}\n", "a.jsonl", 2, "'response' is given twice"),
    *(
        ([ONE | {name: "b"}], "a.jsonl", 1, f"unknown column '{name}'.*did you mean")
        for name in MISSPELT
    ),
    *(([row], "a.jsonl", 1, said) for row, said in AMBIGUOUS),
    *(([ONE, row], "a.jsonl", 2, said) for row, said in WRONG),
    ([{"prompt": "a"}], "a.json", "", "no user_input.*the columns are: prompt"),
    ([{"user_input": [{"content": "a"}]}], "a.json", "", 'turn 1 of user_input.*"role": "user"'),
    (
        json.dumps({"results": SAME}, indent=1),
        "a.json",
        "#2",
        "id '41' occurs twice.*#1 has it too",
    ),
    # broken files and tables
    ('[\n{"user_input": "a"},\n{"user_input": }]', "a.json", 3, "not JSON"),
    ('[\n{"user_input": "a"},\n{"user_input": "b"', "a.json", ":3", "not JSON"),
    ('[\n{"user_input": "a"},\n"b"]', "a.json", "#2", "not an object"),
    ('[{"user_input": "a"}\n', "a.json", ":2", "not JSON"),
    ('{\n"user_input": "a",\n}', "a.json", ":3", "not JSON"),
    ('question,answer\n"a\nb",c\n', "a.csv", 3, ""),
    ("user_input,response\na,b,c\n", "a.csv", "", "3 cells under 2"),
    ("user_input,user_input\na,b\n", "a.csv", "", "occurs twice"),
    ('user_input\n"open\n', "a.csv", "", "not a table"),
    ([RAGAS | {"contexts": "['one' 'two']"}], "a.csv", "", "without commas"),
    ([RAGAS | {"contexts": "[1] see below"}], "a.csv", "", "is not a list"),
    (b"no", "a.parquet", "", "not a Parquet file"),
    (b"PK", "a.xlsx", "", "save the sheet as CSV"),
    (json.dumps([ONE]).encode("utf-16"), "a.json", "", "the file is not UTF-8"),
    ("", "a.jsonl", "", "no rows"),
    *((text, name, "", "") for text, name in (("[]", "a.json"), ("", "a.csv"), ("", "a.json"))),
    ("user_input\n", "a.csv", "", ""),
]


@pytest.mark.parametrize(("content", "name", "place", "said"), REFUSED)
def test_what_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, content: Any, name: str, place: int | str, said: str
) -> None:
    path = put(tmp_path, content, name)
    with pytest.raises(TestsetError, match=f"(?s){said}") as caught:
        read_rows(path)
    where = caught.value.where or ""
    if isinstance(place, int):
        assert where == f"{path}:{place}"
    else:
        assert where.startswith(f"{path}{place}") or (place == "#2" and where.endswith("#2"))


DEEP = "[" * 20_000


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (DEEP, "a.json"),
        ('{"user_input": ' + DEEP, "a.jsonl"),
        (f'[{{"user_input": "a", "x": {DEEP}{"]" * 20_000}}}]', "a.json"),
        (f"user_input,contexts\na,{DEEP}\n", "a.csv"),
        (f"user_input,contexts\na,{DEEP}{']' * 20_000}\n", "a.csv"),
    ],
    ids=range(5),
)
def test_deep_nesting_is_a_typed_error(tmp_path: Path, text: str, name: str) -> None:
    path = put(tmp_path, text, name)
    with pytest.raises(TestsetError) as caught:
        read_rows(path)
    assert (caught.value.where or "").startswith(str(path))
    assert len(str(caught.value)) < 500


def test_files_that_are_not_there_and_what_is_no_table_say_what_to_give(tmp_path: Path) -> None:
    for name in ("none.json", "none.csv"):
        with pytest.raises(TestsetError, match="no such file"):
            read_rows(tmp_path / name)
    given: Any
    for given in ({"train": []}, 3, ["a question"]):
        with pytest.raises(TestsetError, match=r"give|not an object"):
            list(rows_of(given))
    with pytest.raises(TestsetError, match=r"(?s)occurs twice.*row 1 has it too"):
        list(rows_of([Row("1", "?"), Row("1", "?")]))


@pytest.mark.parametrize("name", ["user_input", "question", "query", "input", "request"])
def test_a_row_with_a_column_named_results_is_a_row(tmp_path: Path, name: str) -> None:
    row = {name: "a", "response": "b", "reference": "b", "results": ["x", "y"]}
    first, second = read(tmp_path, [row, TWO])
    assert (first.user_input, second.user_input) == ("a", "c")
    assert first.metadata["results"] in (("x", "y"), '["x", "y"]')
    for text in (json.dumps(row, indent=1), json.dumps([row])):
        assert read(tmp_path, text, "a.json") == (first,)
    (table,) = read(tmp_path, [{**ONE, "columns": ["x"], "data": ["y"]}])
    assert (table.user_input, table.metadata["data"]) == ("a", ("y",))


LONE = json.dumps("x\ud83d")
HALVES = f'{{"user_input": {LONE}, "response": "b", "reference": "b", "note": {LONE}}}\n'
HALVES += json.dumps(TWO)


def test_half_a_character_in_a_row_is_replaced(tmp_path: Path) -> None:
    path = put(tmp_path, HALVES)
    first, second = iter_rows(path)
    assert (first.user_input, first.metadata["note"]) == ("x\ufffd", "x\ufffd")
    assert second.metadata == {}
    (held,) = rows_of([Row("i", "\ud800", metadata={"k": ("\udc00",)})])
    assert (held.user_input, held.metadata["k"]) == ("\ufffd", ("\ufffd",))
    halves = {"retrieved_contexts": ["\udc00"], "reference_ids": {"\ud800": 1}}
    (found,) = rows_of([{"user_input": "a", **halves}])
    assert (found.retrieved_contexts, found.reference_ids) == (("\ufffd",), {"\ufffd": 1})


# -- Conversations ---------------------------------------------------------------------------------

BEFORE = (Turn("user", "What is a cat?"), Turn("assistant", "An animal."))
HUMAN = {"type": "human", "content": "What does it eat?"}
TURNS = [{"type": "human", "content": "What is a cat?"}, {"type": "tool", "content": "found"}]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": OPENAI},
        {"user_input": OPENAI},
        {"user_input": [*TURNS, AGENT, HUMAN]},
        {"inputs": {"messages": OPENAI}},
        {"user_input": "What does it eat?", "history": OPENAI[:3]},
    ],
)
def test_every_dialect_gives_question_and_history(tmp_path: Path, record: dict[str, Any]) -> None:
    (row,) = rows_of([record])
    assert (row.user_input, row.history) == ("What does it eat?", BEFORE)
    assert (row.metadata["turn"], row.metadata["standalone"]) == (2, False)
    write_rows([row], tmp_path / "rows.jsonl")
    assert read_rows(tmp_path / "rows.jsonl") == (row,)


def test_a_whole_conversation_is_a_row_per_question() -> None:
    turns = [*OPENAI, {"role": "assistant", "content": "Mice."}]
    record = {"id": "c", "messages": turns, "reference_ids": ["d1"]}
    first, second = rows_of([record])
    assert (first.id, first.response, first.reference_ids) == ("c-1", "An animal.", {})
    assert (second.id, second.response, second.reference_ids) == ("c-2", "Mice.", {"d1": 1})
    gold = tuple(rows_of([record], questions=True))
    assert [(r.reference, r.response) for r in gold] == [("An animal.", None), ("Mice.", None)]
    clusters = split_clusters((*gold, *(Row(str(n), f"other {n}") for n in range(4))))
    assert clusters["c-1"] == clusters["c-2"], "a conversation stays in one split"
