"""What stands between rankings and a verdict, on a collection made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers.bare import bare_loop
from benchmarks.results import OURS, Collection, Compared, Scored, column, ours, score
from benchmarks.retrieval import MEASURES, read_beir

from benchmarks import results
from ragwright.core import Score
from ragwright.measure import Measure, retrieval_scores

DOCUMENTS = (
    ("a 1", "Shock waves", "Waves that are faster than sound."),
    ("b", "", "Heat moves through a plate of steel."),
    ("c", "Wings", ""),
    ("d", "Wings of steel", "Wings of steel are heavy."),
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    corpus = [{"_id": i, "title": title, "text": text} for i, title, text in DOCUMENTS]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in corpus), "utf-8")
    queries = [{"_id": "q1", "text": "shock waves"}, {"_id": "q 2", "text": "heat of a plate"}]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries), "utf-8")
    judged = "query-id\tcorpus-id\tscore\nq1\ta 1\t1\nq 2\tb\t2\nq 2\td\t0\n"
    (tmp_path / "qrels" / "test.tsv").write_text(judged, "utf-8")
    return tmp_path


def test_others_are_given_title_and_text_once(small: Path) -> None:
    corpus = read_beir(f"{small}/test")
    assert corpus.given == (
        "Shock waves\nWaves that are faster than sound.",
        "Heat moves through a plate of steel.",
        "Wings",
        "Wings of steel\nWings of steel are heavy.",
    )


def test_our_rankings_are_scored_under_ids_fit_for_trec(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "CHANNELS", ("keyword",))
    corpus = read_beir(f"{small}/test")
    rankings = ours(corpus)["keyword"]
    qrels = Collection("small", corpus).qrels
    assert qrels == {"q1": {"a%201": 1}, "q%202": {"b": 2, "d": 0}}
    assert rankings["q1"][0] == "a%201"
    assert score(rankings, qrels).mean("nDCG@10") == 1


def test_ids_keep_their_difference() -> None:
    names = ["a b", "a%20b", "a\tb", "ab"]
    assert len({column(name) for name in names}) == len(names)
    assert not any(" " in column(name) or "\t" in column(name) for name in names)


def test_a_score_that_ir_measures_does_not_give_stops_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    qrels = {"q": {"a": 1, "b": 1}}
    assert score({"q": ["c", "a"]}, qrels).mean("MRR@10") == 0.5

    def wrong(measure: Measure, ranking: Sequence[str], grades: Mapping[str, int]) -> Score:
        return retrieval_scores(measure, ranking[1:], grades)

    monkeypatch.setattr(results, "retrieval_scores", wrong)
    with pytest.raises(SystemExit, match=r"nDCG@10 is 1\.0, ir-measures says 0\.63"):
        score({"q": ["c", "a"]}, {"q": {"a": 1}})


def test_queries_without_relevant_documents_count_nowhere() -> None:
    scored = score({"q": ["a"], "r": ["a"]}, {"q": {"a": 1}, "r": {"a": 0}})
    assert scored.values["nDCG@10"] == [1.0]


def test_the_best_peer_is_never_ours() -> None:
    systems = {
        name: Scored({"nDCG@10": values})
        for name, values in {
            OURS: [0.9, 0.9],
            "bare": [0.5, 0.6],
            "haystack": [0.6, 0.7],
            "txtai": [0.7, 0.6],
        }.items()
    }
    cell = Compared("small", "hybrid", 2, systems)
    assert cell.best("nDCG@10") == "haystack"
    assert cell.difference("nDCG@10").mean == pytest.approx(0.25)


def test_the_bare_loop_ranks_and_fuses() -> None:
    matrix = np.eye(4, dtype=np.float32)
    texts = ["shock waves", "heated plate", "wings", "plates of steel and shock"]
    found = bare_loop(list("abcd"), texts, matrix, lambda _: matrix[1])
    assert found["keyword"]("shock", 10) == ["a", "d"]
    assert found["dense"]("shock", 2)[0] == "b"
    assert len(found["dense"]("shock", 10)) == 4
    # a: rank 1 by words and 2 by vectors; b: rank 1 by vectors alone
    assert found["hybrid"]("shock", 1) == ["a"]


def test_queries_of_all_collections_are_paired_as_one() -> None:
    def cell(name: str, ours: list[float], theirs: list[float]) -> Compared:
        measures = [str(measure) for measure in MEASURES]
        systems = {OURS: ours, "bare": theirs}
        scored = {s: Scored(dict.fromkeys(measures, v)) for s, v in systems.items()}
        return Compared(name, "hybrid", len(ours), scored)

    cells = [cell("one", [0.5, 0.7], [0.4, 0.4]), cell("two", [0.2], [0.4])]
    (whole,) = results.pooled(cells)
    assert whole.queries == 3
    assert whole.difference("nDCG@10").mean == pytest.approx((0.1 + 0.3 - 0.2) / 3)
