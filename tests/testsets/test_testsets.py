"""Testsets from BEIR folders and JSONL rows; every fault has its place."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import GoldSpan, Row, TestsetError
from ragwright.experiment import readings_of
from ragwright.testsets import Testset, load_testset, read_rows


def jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    jsonl(folder / "corpus.jsonl", [{"_id": f"d{n}", "title": "", "text": "t"} for n in range(4)])
    jsonl(
        folder / "queries.jsonl",
        [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "écran"}, {"_id": "q3", "text": "x"}],
    )
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq2\td0\t2\nq1\td1\t1\nq1\td2\t0\n"
    )
    (folder / "qrels" / "dev.tsv").write_text("q3\td3\t1\n")
    return folder


def test_a_split_holds_its_judged_queries(beir: Path) -> None:
    testset = load_testset(f"beir:{beir}/test")
    assert testset.rows == (
        Row(id="q1", user_input="one", reference_ids={"d1": 1, "d2": 0}),
        Row(id="q2", user_input="écran", reference_ids={"d0": 2}),
    )
    assert testset.notes == ()
    assert [row.id for row in load_testset(f"beir:{beir}/dev").rows] == ["q3"]


def test_windows_line_ends_and_byte_order_marks_are_read(beir: Path) -> None:
    file = beir / "qrels" / "test.tsv"
    plain = load_testset(f"beir:{beir}/test").rows
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_testset(f"beir:{beir}/test").rows == plain


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("q1\td1\thigh", "'high'"),
        ("q1\td1\t0.5", "'0.5'"),
        ("q1\td1", "2 columns"),
        ("q9\td1\t1", "'q9'"),
        ("q2\td0\t1", "grades 2 and 1"),
    ],
)
def test_a_wrong_judgment_has_file_and_line(beir: Path, line: str, named: str) -> None:
    file = beir / "qrels" / "test.tsv"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/test")
    assert named in caught.value.what
    assert caught.value.where == f"{file}:5"


def test_a_bad_grade_in_the_first_line_is_no_header(beir: Path) -> None:
    (beir / "qrels" / "dev.tsv").write_text("q3\td3\tyes\n")
    with pytest.raises(TestsetError, match="'yes'"):
        load_testset(f"beir:{beir}/dev")


def test_a_query_id_may_not_repeat(beir: Path) -> None:
    file = beir / "queries.jsonl"
    file.write_text(file.read_text("utf-8") + '{"_id": "q1", "text": "again"}\n', "utf-8")
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/test")
    assert caught.value.where == f"{file}:4"


@pytest.mark.parametrize(
    "line",
    ["{", pytest.param("[" * 100_000, id="deep"), "[1]", '{"_id": "q4"}', '{"text": "no id"}'],
)
def test_a_wrong_query_line_has_its_place(beir: Path, line: str) -> None:
    file = beir / "queries.jsonl"
    file.write_text(file.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/test")
    assert caught.value.where == f"{file}:4"


def test_bytes_that_are_no_text_have_their_place(beir: Path) -> None:
    file = beir / "queries.jsonl"
    file.write_bytes(file.read_bytes() + b'{"_id": "q4", "text": "\xff"}\n')
    with pytest.raises(TestsetError, match="UTF-8") as caught:
        load_testset(f"beir:{beir}/test")
    assert caught.value.where == f"{file}:4"


def test_a_split_that_is_not_there_names_those_that_are(beir: Path) -> None:
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/train")
    assert "dev, test" in str(caught.value)


def test_one_wording_with_two_golds_is_two_questions_for_every_persona() -> None:
    rows = (
        Row("a", "What is it?", reference="two years"),
        Row("b", "What is it?", reference="a sensor"),
        Row("c", "What is it?", reference="two years"),
        Row("d", "Why?", reference="plain", persona_name="buyer"),
        Row("e", "Why?", reference="deep", persona_name="fitter"),
        Row("f", "Why?", reference="deeper", persona_name="fitter"),
    )
    asked = Testset("t", rows).asked_for(["fitter", "buyer"])
    assert [(row.id, row.persona_name, row.reference) for row in asked.rows] == [
        ("a for fitter", "fitter", "two years"),
        ("a for buyer", "buyer", "two years"),
        ("b for fitter", "fitter", "a sensor"),
        ("b for buyer", "buyer", "a sensor"),
        ("e", "fitter", "deep"),
        ("d", "buyer", "plain"),
        ("f", "fitter", "deeper"),
    ]
    assert "1 of 6 rows repeat" in asked.notes[-1]
    read = readings_of(rows, ["fitter", "buyer"])
    assert [reading.row.reference for reading in read] == [row.reference for row in asked.rows]
    assert len({reading.key for reading in read}) == len(read)


def test_a_forgotten_split_is_asked_for(beir: Path) -> None:
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}")
    assert "dev, test" in str(caught.value)


@pytest.mark.parametrize("missing", ["queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(beir: Path, missing: str) -> None:
    (beir / missing).unlink()
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/test")
    assert caught.value.where == str(beir / missing)


@pytest.mark.parametrize("address", ["beir:", "beir:nowhere", "beir:/", "nowhere.jsonl"])
def test_an_address_that_leads_nowhere(address: str) -> None:
    with pytest.raises(TestsetError):
        load_testset(address)


def test_gold_outside_the_corpus_is_told(beir: Path) -> None:
    file = beir / "qrels" / "test.tsv"
    file.write_text(file.read_text() + "q1\tlost\t1\n")
    (note,) = load_testset(f"beir:{beir}/test").notes
    assert "1 of 4" in note
    assert "lost" in note


def test_gold_wholly_outside_the_corpus_is_an_error(beir: Path) -> None:
    (beir / "qrels" / "dev.tsv").write_text("q3\tlost\t1\n")
    with pytest.raises(TestsetError, match="none"):
        load_testset(f"beir:{beir}/dev")


def many(size: int) -> Testset:
    return Testset("many", tuple(Row(id=f"r{n}", user_input="?") for n in range(size)))


def test_a_subset_is_seeded_and_keeps_the_order() -> None:
    rows = many(75)
    chosen = rows.subset(15, seed=3)
    assert len(chosen.rows) == 15
    assert chosen == rows.subset(15, seed=3)
    assert chosen.rows != rows.subset(15, seed=4).rows
    numbers = [int(row.id[1:]) for row in chosen.rows]
    assert numbers == sorted(numbers)
    assert any("15 of 75" in note for note in chosen.notes)


def test_a_subset_draws_questions_with_all_their_personas() -> None:
    asked = [
        Row(id=f"{n}-{name}", user_input=f"Question {n}?", persona_name=name, reference=name)
        for name in ("engineer", "marketing")
        for n in range(10)
    ]
    twice = Row(id="again", user_input="Question 3?", persona_name="engineer", reference="other")
    rows = Testset("two teams", (*asked, twice))
    assert rows.questions == 11
    for seed in range(8):
        chosen = rows.subset(4, seed)
        assert chosen.questions == 4
        asked_for: dict[str, set[str]] = {"engineer": set(), "marketing": set()}
        for row in chosen.rows:
            if row.id != "again":
                asked_for[row.persona_name].add(row.user_input)
        assert asked_for["engineer"] == asked_for["marketing"]
        [note] = chosen.notes
        assert note == (
            f"4 of 11 questions ({len(chosen.rows)} of 21 rows), chosen with seed {seed}"
        )
    assert rows.subset(11) == rows


def test_a_larger_subset_holds_the_smaller() -> None:
    small = {row.id for row in many(75).subset(15, seed=3).rows}
    assert small <= {row.id for row in many(75).subset(30, seed=3).rows}


def test_a_subset_of_everything_is_everything() -> None:
    assert many(5).subset(9) == many(5)
    with pytest.raises(TestsetError):
        many(5).subset(0)


def test_rows_in_ragas_names(tmp_path: Path) -> None:
    span = {"document_id": "d", "start": 3, "end": 9, "text": "sample"}
    path = jsonl(
        tmp_path / "rows.jsonl",
        [
            {
                "user_input": "Why?",
                "response": "Because.",
                "retrieved_contexts": ["a", "b"],
                "retrieved_context_ids": ["d1", 2],
                "reference": None,
                "reference_spans": [span],
                "retrieved_spans": [{"document_id": "d", "start": 0, "end": 8}],
                "persona_name": "engineer",
                "difficulty": 3,
                "metadata": {"topic": ["x", "y"]},
            },
            {"id": 7, "user_input": "How?", "reference_ids": {"d1": 2}},
            {"user_input": "Who?", "reference_context_ids": ["d1", "d2"]},
        ],
    )
    first, second, third = load_testset(str(path)).rows
    assert first == Row(
        id="1",
        user_input="Why?",
        response="Because.",
        retrieved_contexts=("a", "b"),
        retrieved_context_ids=("d1", "2"),
        reference_spans=(GoldSpan("d", 3, 9, "sample"),),
        retrieved_spans=(GoldSpan("d", 0, 8),),
        persona_name="engineer",
        metadata={"difficulty": 3, "topic": ("x", "y")},
    )
    assert (second.id, second.reference_ids) == ("7", {"d1": 2})
    assert (third.id, third.reference_ids) == ("3", {"d1": 1, "d2": 1})


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"response": "x"}, "user_input"),
        ({"user_input": {}}, "user_input"),
        ({"user_input": "?", "reference_id": ["d1"]}, "reference_ids"),
        ({"user_input": "?", "retrieved_contexts": "one"}, "list"),
        ({"user_input": "?", "reference_ids": {"d": 0.5}}, "grade"),
        ({"user_input": "?", "reference_ids": ["d"], "reference_context_ids": ["d"]}, "same"),
        ({"user_input": "?", "reference_spans": [{"start": 3, "end": 1}]}, "span"),
        (
            {"user_input": "?", "reference_spans": [{"document_id": "d", "start": 3, "end": 1}]},
            "0 <=",
        ),
        (
            {"user_input": "?", "reference_spans": [{"document_id": "d", "start": "a", "end": 1}]},
            "span",
        ),
        ({"user_input": "?", "reference_spans": ["text"]}, "span"),
        ({"user_input": "?", "retrieved_spans": [{"document_id": "d"}]}, "span"),
        ({"user_input": "?", "metadata": {"notes": {"deep": 1}}}, "notes"),
    ],
)
def test_a_wrong_row_has_its_place(tmp_path: Path, row: dict[str, Any], named: str) -> None:
    path = jsonl(tmp_path / "rows.jsonl", [{"user_input": "fine"}, row])
    with pytest.raises(TestsetError) as caught:
        read_rows(path)
    assert caught.value.where == f"{path}:2"
    assert named in str(caught.value)


def test_row_ids_may_not_repeat(tmp_path: Path) -> None:
    rows = [{"id": "a", "user_input": "x"}, {"id": "a", "user_input": "y"}]
    with pytest.raises(TestsetError, match="twice"):
        read_rows(jsonl(tmp_path / "rows.jsonl", rows))


def test_an_empty_file_is_no_testset(tmp_path: Path) -> None:
    with pytest.raises(TestsetError, match="no rows"):
        read_rows(jsonl(tmp_path / "rows.jsonl", []))
