"""Testsets from BEIR folders and TREC files; every fault has its place. Subsets and personas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import Row, TestsetError
from ragwright.experiment import readings_of, score_run
from ragwright.measure import parse_measures
from ragwright.testsets import Testset, load_testset, read_qrels, read_run

TREC = DATA / "trec_eval_tests"


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{n}", "title": "", "text": "t"} for n in range(4)]
    write(folder / "corpus.jsonl", "".join(json.dumps(line) + "\n" for line in corpus))
    queries = ("q1", "one"), ("q2", "écran"), ("q3", "x")
    lines = [json.dumps({"_id": name, "text": text}) + "\n" for name, text in queries]
    write(folder / "queries.jsonl", "".join(lines))
    head = "query-id\tcorpus-id\tscore\n"
    write(folder / "qrels" / "test.tsv", head + "q2\td0\t2\nq1\td1\t1\nq1\td2\t0\n")
    write(folder / "qrels" / "dev.tsv", "q3\td3\t1\n")
    return folder


def test_a_split_holds_its_judged_queries(beir: Path) -> None:
    testset = load_testset(f"beir:{beir}/test")
    assert testset.rows == (
        Row(id="q1", user_input="one", reference_ids={"d1": 1, "d2": 0}),
        Row(id="q2", user_input="écran", reference_ids={"d0": 2}),
    )
    assert testset.notes == ()
    assert [row.id for row in load_testset(f"beir:{beir}/dev").rows] == ["q3"]
    file = beir / "qrels" / "test.tsv"  # line ends and byte order mark of Windows
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_testset(f"beir:{beir}/test").rows == testset.rows
    write(file, file.read_text("utf-8-sig") + "q1\tlost\t1\n")
    (note,) = load_testset(f"beir:{beir}/test").notes
    assert "1 of 4" in note
    assert "lost" in note


@pytest.mark.parametrize(
    ("file", "line", "place", "named"),
    [
        *(
            ("qrels/test.tsv", line, 5, named)
            for line, named in (
                ("q1\td1\thigh", "'high'"),
                ("q1\td1\t0.5", "'0.5'"),
                ("q1\td1", "2 columns"),
                ("q9\td1\t1", "'q9'"),
                ("q2\td0\t1", "grades 2 and 1"),
            )
        ),
        *(
            ("queries.jsonl", line, 4, "")
            for line in ("{", "[" * 100_000, "[1]", '{"_id": "q4"}', '{"text": "no id"}')
        ),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', 4, ""),
        ("queries.jsonl", '{"_id": "q4", "text": "\udcff"}', 4, "UTF-8"),
    ],
    ids=range(12),
)
def test_a_wrong_line_has_its_place(
    beir: Path, file: str, line: str, place: int, named: str
) -> None:
    path = beir / file
    path.write_bytes(path.read_bytes() + (line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(TestsetError) as caught:
        load_testset(f"beir:{beir}/test")
    assert named in str(caught.value)
    assert caught.value.where == f"{path}:{place}"


@pytest.mark.parametrize(
    ("address", "judgments", "said"),
    [
        ("beir:{}/dev", "q3\td3\tyes\n", "'yes'"),  # a bad grade in the first line is no header
        ("beir:{}/dev", "q3\tlost\t1\n", "none"),
        ("beir:{}/train", "q3\td3\t1\n", "dev, test"),
        ("beir:{}", "q3\td3\t1\n", "dev, test"),
        *((f"beir:{name}", "", "") for name in ("", "nowhere", "/")),
        ("nowhere.jsonl", "", ""),
    ],
)
def test_an_address_that_leads_nowhere(beir: Path, address: str, judgments: str, said: str) -> None:
    write(beir / "qrels" / "dev.tsv", judgments)
    with pytest.raises(TestsetError) as caught:
        load_testset(address.format(beir))
    assert said in str(caught.value)


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


def many(size: int) -> Testset:
    return Testset("many", tuple(Row(id=f"r{n}", user_input="?") for n in range(size)))


def test_a_subset_is_seeded_keeps_the_order_and_holds_the_smaller() -> None:
    rows = many(75)
    chosen = rows.subset(15, seed=3)
    assert len(chosen.rows) == 15
    assert chosen == rows.subset(15, seed=3)
    assert chosen.rows != rows.subset(15, seed=4).rows
    numbers = [int(row.id[1:]) for row in chosen.rows]
    assert numbers == sorted(numbers)
    assert any("15 of 75" in note for note in chosen.notes)
    assert {r.id for r in chosen.rows} <= {r.id for r in rows.subset(30, seed=3).rows}
    assert many(5).subset(9) == many(5)
    with pytest.raises(TestsetError):
        many(5).subset(0)


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
        engineer, marketing = (
            {r.user_input for r in chosen.rows if r.id != "again" and r.persona_name == name}
            for name in ("engineer", "marketing")
        )
        assert engineer == marketing
        drawn = f"4 of 11 questions ({len(chosen.rows)} of 21 rows), chosen with seed {seed}"
        assert chosen.notes == (drawn,)
    assert rows.subset(11) == rows


# -- TREC ------------------------------------------------------------------------------------------


@pytest.mark.needs_data
def test_comments_are_not_judgments() -> None:
    plain, commented = (read_qrels(TREC / f"qrels.test{end}") for end in ("", ".with-comments"))
    assert plain.keys() == commented.keys()
    assert {d.replace("#", "") for d in commented["301"]} == set(plain["301"])


def test_ties_go_by_document_id_backwards_and_judgments_by_columns(tmp_path: Path) -> None:
    lines = "1 Q0 b 1 2.0 t\n1 Q0 c 2 2.00000001 t\n1 Q0 a 3 9 t\n2 Q0 x 1 1 tag with words\n"
    run = read_run(write(tmp_path / "run", lines))
    assert [document for document, _ in run["1"]] == ["a", "c", "b"]
    assert run["2"] == (("x", 1.0),)
    spaced = write(tmp_path / "q", "query-id corpus-id score\na b 1\n")
    assert read_qrels(spaced) == {"a": {"b": 1}}
    tabs = write(tmp_path / "t", "a\tdocument one\t1\na\tdocument two\t0\n")
    assert read_qrels(tabs) == {"a": {"document one": 1, "document two": 0}}


@pytest.mark.parametrize(
    "line", ["1 Q0 d 1 2.0", "1 Q0 d 1 high t", "1 Q0 d 1 nan t", "1 Q0 first 2 1.0 t"]
)
def test_a_wrong_run_line_has_its_place(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "run", f"1 Q0 first 1 3.0 t\n{line}\n")
    with pytest.raises(TestsetError) as caught:
        read_run(path)
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize("reader", [read_run, read_qrels])
def test_files_with_nothing_in_them(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    for path in (write(tmp_path / "empty", "\n"), tmp_path / "missing", tmp_path):
        with pytest.raises(TestsetError):
            reader(path)


def test_an_unanswered_query_counts_as_zero_and_is_told(tmp_path: Path) -> None:
    qrels = read_qrels(write(tmp_path / "qrels", "1 0 d 1\n2 0 d 1\n"))
    run = read_run(write(tmp_path / "run", "1 Q0 d 1 3.0 t\n3 Q0 d 1 3.0 t\n"))
    found = score_run(run, qrels, parse_measures("MRR"))
    assert (found["MRR"].mean, found["MRR"].n) == (0.5, 2)
    assert len(found.notes) == 2
