"""TREC files: judgments, runs, and the figures trec_eval gives for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import TestsetError
from ragwright.experiment import score_run
from ragwright.measure import parse_measures
from ragwright.testsets import read_qrels, read_run

TREC = DATA / "trec_eval_tests"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("run", "output"), [("results.test", "out.test.aq"), ("results.trunc", "out.test.aqc")]
)
def test_a_stored_run_gets_the_figures_of_trec_eval(run: str, output: str) -> None:
    due = {}
    for line in (TREC / output).read_text().splitlines():
        name, query, value = line.split()
        if query == "all" and name in {"map", "recip_rank", "ndcg_cut_10", "P_10", "recall_100"}:
            due[name] = float(value)
    measures = parse_measures("MAP, MRR, nDCG@10, Precision@10, Recall@100")
    found = score_run(read_run(TREC / run), read_qrels(TREC / "qrels.test"), measures)
    means = [found[str(measure)].mean for measure in measures]
    names = ("map", "recip_rank", "ndcg_cut_10", "P_10", "recall_100")
    assert means == pytest.approx([due[name] for name in names], abs=5.1e-5)


@pytest.mark.needs_data
def test_comments_are_not_judgments() -> None:
    plain, commented = (
        read_qrels(TREC / "qrels.test"),
        read_qrels(TREC / "qrels.test.with-comments"),
    )
    assert plain.keys() == commented.keys()
    assert {d.replace("#", "") for d in commented["301"]} == set(plain["301"])


def test_ties_go_by_document_id_backwards(tmp_path: Path) -> None:
    run = read_run(
        write(
            tmp_path / "run",
            "1 Q0 b 1 2.0 t\n1 Q0 c 2 2.00000001 t\n1 Q0 a 3 9 t\n2 Q0 x 1 1 tag with words\n",
        )
    )
    assert [document for document, _ in run["1"]] == ["a", "c", "b"]
    assert run["2"] == (("x", 1.0),)


@pytest.mark.parametrize(
    "line", ["1 Q0 d 1 2.0", "1 Q0 d 1 high t", "1 Q0 d 1 nan t", "1 Q0 first 2 1.0 t"]
)
def test_a_wrong_run_line_has_its_place(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "run", f"1 Q0 first 1 3.0 t\n{line}\n")
    with pytest.raises(TestsetError) as caught:
        read_run(path)
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize("reader", [read_run, read_qrels])
def test_files_with_nothing_in_them(tmp_path: Path, reader: object) -> None:
    assert callable(reader)
    with pytest.raises(TestsetError):
        reader(write(tmp_path / "empty", "\n"))
    with pytest.raises(TestsetError):
        reader(tmp_path / "missing")
    with pytest.raises(TestsetError):
        reader(tmp_path)


def test_an_unanswered_query_counts_as_zero_and_is_told(tmp_path: Path) -> None:
    qrels = read_qrels(write(tmp_path / "qrels", "1 0 d 1\n2 0 d 1\n"))
    run = read_run(write(tmp_path / "run", "1 Q0 d 1 3.0 t\n3 Q0 d 1 3.0 t\n"))
    found = score_run(run, qrels, parse_measures("MRR"))
    assert found["MRR"].mean == 0.5
    assert found["MRR"].n == 2
    assert len(found.notes) == 2


def test_judgments_in_three_columns(tmp_path: Path) -> None:
    spaced = write(tmp_path / "q", "query-id corpus-id score\na b 1\n")
    assert read_qrels(spaced) == {"a": {"b": 1}}
    tabs = write(tmp_path / "t", "a\tdocument one\t1\na\tdocument two\t0\n")
    assert read_qrels(tabs) == {"a": {"document one": 1, "document two": 0}}
