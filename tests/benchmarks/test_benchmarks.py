"""What stands between measured rankings and a page: data, scores, differences, verdicts, pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.data_sets import printed_strings, scifact_beir
from benchmarks.measures import Settings, auc, interval
from benchmarks.paired import paired
from benchmarks.peers.bare import bare_loop
from benchmarks.publish import Row, Section, Table, publish, render, stale
from benchmarks.results import OURS, Collection, Compared, Scored, column, ours, score
from benchmarks.retrieval import MEASURES, read_beir

from benchmarks import results
from ragwright.core import Score
from ragwright.measure import Measure, retrieval_scores

# -- data sets -----------------------------------------------------------------------------


def test_printed_arrays_are_read_back_and_without_data_nothing_is_left(tmp_path: Path) -> None:
    text = "['It\\'s one.'\n \"Two's [here].\" 'tab\\t']"
    assert printed_strings(text) == ["It's one.", "Two's [here].", "tab\t"]
    with pytest.raises(ValueError, match="printed array"):
        printed_strings("['a' ... 'b']")
    with pytest.raises(FileNotFoundError, match="scifact"):
        scifact_beir(tmp_path / "made", tmp_path / "no data")
    assert not (tmp_path / "made").exists()


# -- rankings ------------------------------------------------------------------------------

DOCUMENTS = (
    ("a 1", "Shock waves", "Waves that are faster than sound."),
    ("b", "", "Heat moves through a plate of steel."),
    ("c", "Wings", ""),
    ("d", "Wings of steel", "Wings of steel are heavy."),
)


def test_our_rankings_have_ids_fit_for_trec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "CHANNELS", ("keyword",))
    queries = [{"_id": "q1", "text": "shock waves"}, {"_id": "q 2", "text": "heat of a plate"}]
    corpus = [{"_id": i, "title": title, "text": text} for i, title, text in DOCUMENTS]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    judged = "query-id\tcorpus-id\tscore\nq1\ta 1\t1\nq 2\tb\t2\nq 2\td\t0\n"
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(judged, "utf-8")
    read = read_beir(f"{tmp_path}/test")
    assert read.given == (
        "Shock waves\nWaves that are faster than sound.",
        "Heat moves through a plate of steel.",
        "Wings",
        "Wings of steel\nWings of steel are heavy.",
    )
    rankings, qrels = ours(read)["keyword"], Collection("small", read).qrels
    assert qrels == {"q1": {"a%201": 1}, "q%202": {"b": 2, "d": 0}}
    assert rankings["q1"][0] == "a%201"
    assert score(rankings, qrels).mean("nDCG@10") == 1
    names = ["a b", "a%20b", "a\tb", "ab"]
    assert len({column(name) for name in names}) == len(names)
    assert not any(" " in column(name) or "\t" in column(name) for name in names)


def test_a_score_that_ir_measures_denies_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert score({"q": ["c", "a"]}, {"q": {"a": 1, "b": 1}}).mean("MRR@10") == 0.5
    unjudged = score({"q": ["a"], "r": ["a"]}, {"q": {"a": 1}, "r": {"a": 0}})
    assert unjudged.values["nDCG@10"] == [1.0], "a query without relevant documents counts nowhere"

    def wrong(measure: Measure, ranking: Sequence[str], grades: Mapping[str, int]) -> Score:
        return retrieval_scores(measure, ranking[1:], grades)

    monkeypatch.setattr(results, "retrieval_scores", wrong)
    with pytest.raises(SystemExit, match=r"nDCG@10 is 1\.0, ir-measures says 0\.63"):
        score({"q": ["c", "a"]}, {"q": {"a": 1}})


def test_the_bare_loop_ranks_and_fuses() -> None:
    matrix = np.eye(4, dtype=np.float32)
    texts = ["shock waves", "heated plate", "wings", "plates of steel and shock"]
    found = bare_loop(list("abcd"), texts, matrix, lambda _: matrix[1])
    assert found["keyword"]("shock", 10) == ["a", "d"]
    assert found["dense"]("shock", 2)[0] == "b"
    assert len(found["dense"]("shock", 10)) == 4
    # a: rank 1 by words and 2 by vectors; b: rank 1 by vectors alone
    assert found["hybrid"]("shock", 1) == ["a"]


def cell(name: str, systems: Mapping[str, list[float]]) -> Compared:
    measures = [str(measure) for measure in MEASURES]
    scored = {s: Scored(dict.fromkeys(measures, v)) for s, v in systems.items()}
    return Compared(name, "hybrid", len(systems["bare"]), scored)


def test_the_best_peer_is_never_ours_and_queries_of_all_collections_are_paired_as_one() -> None:
    peers = {"bare": [0.5, 0.6], "haystack": [0.6, 0.7], "txtai": [0.7, 0.6]}
    small = cell("small", {OURS: [0.9, 0.9], **peers})
    assert small.best("nDCG@10") == "haystack"
    assert small.difference("nDCG@10").mean == pytest.approx(0.25)
    one = cell("one", {OURS: [0.5, 0.7], "bare": [0.4, 0.4]})
    (whole,) = results.pooled([one, cell("two", {OURS: [0.2], "bare": [0.4]})])
    assert whole.queries == 3
    assert whole.difference("nDCG@10").mean == pytest.approx((0.1 + 0.3 - 0.2) / 3)


# -- differences ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9], "equal"),
        ([0.9] * 20 + [0.5], [0.5] * 20 + [0.6], "above"),
        ([0.5] * 20 + [0.6], [0.9] * 20 + [0.5], "below"),
        ([0.1, 0.9], [0.9, 0.1], "not distinguishable"),
    ],
)
def test_sides_are_told_apart_and_repeat(
    ours: list[float], theirs: list[float], verdict: str
) -> None:
    found = paired(ours, theirs, seed=3)
    assert found.verdict == verdict
    assert found == paired(ours, theirs, seed=3)
    if verdict == "equal":  # on every query, which is no luck
        assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match=f"1 and {len(ours)} queries"):
        paired([0.5], ours)


def test_the_permutation_test_agrees_with_all_sign_flips_and_the_interval_with_the_normal() -> None:
    ours = [0.4, 0.9, 0.6, 0.7, 0.2, 0.8, 0.5, 0.9]
    theirs = [0.3, 0.5, 0.7, 0.4, 0.2, 0.6, 0.1, 0.8]
    given = np.subtract(ours, theirs)
    flips = [abs(np.mean(given * signs)) for signs in product((-1, 1), repeat=given.size)]
    exact = np.mean([flip >= abs(given.mean()) - 1e-12 for flip in flips])
    assert paired(ours, theirs).p == pytest.approx(exact, abs=0.01)
    generator = np.random.default_rng(5)
    many = generator.random(400)
    more = many + generator.normal(0.02, 0.1, 400)
    found, given = paired(more.tolist(), many.tolist()), more - many
    width = 1.96 * given.std(ddof=1) / 20
    assert found.low == pytest.approx(given.mean() - width, abs=0.002)
    assert found.high == pytest.approx(given.mean() + width, abs=0.002)


def test_rows_of_one_cluster_come_and_go_together() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 60).astype(float)
    values = labels + draw.normal(size=60)
    many = [str(n) for n in range(60)]
    few = [str(n // 20) for n in range(60)]
    wanted = Settings(resamples=200)
    low, high = interval(auc, values, labels, many, wanted)
    assert low < auc(values, labels) < high
    assert interval(auc, values, labels, many, wanted) == (low, high)
    # a cluster taken three times over adds nothing: its copies are no further evidence
    tripled = interval(auc, np.tile(values, 3), np.tile(labels, 3), many * 3, wanted)
    assert tripled == pytest.approx((low, high))
    assert interval(auc, values, labels, few, wanted) != (low, high)


# -- pages ---------------------------------------------------------------------------------


def test_a_section_is_stored_shown_and_stale_once_edited_by_hand(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"tool": "ours", "hit@1": 0.95432, "n": 300},
        {"tool": "a|b", "hit@1": None, "p": "x"},
    ]
    own, command = Table(rows, "Own page"), "python -m benchmarks.codes"
    section = Section("Codes", (own,), ("One run.",), command=command, data={"ours": 0.95432})
    page = publish("codes", section, tmp_path)
    text = page.read_text("utf-8")
    for line in (
        "## Codes",
        "```bash no-run\npython -m benchmarks.codes\n```",
        "| tool | hit@1 | n | p |",
        "| ours | 0.954 | 300 |  |",
        r"| a\|b |  |  | x |",
        "- One run.",
    ):
        assert line in text
    stored = json.loads((tmp_path / "codes.json").read_text("utf-8"))
    assert stored["data"] == {"ours": 0.95432}
    assert stored["measured"]
    assert "numpy" in stored["conditions"]
    assert stale(tmp_path) == []
    page.write_text(text.replace("0.954", "0.999"), "utf-8")
    assert stale(tmp_path) == ["retrieval"]


def test_sections_stand_in_their_order_and_an_unknown_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no page 'other'"):
        publish("codes", Section("Codes", (), page="other"), tmp_path)
    assert not list(tmp_path.iterdir())
    for name, order in (("b", 50), ("a", 50), ("z", 1)):
        publish(name, Section(f"Section {name}", (), order=order), tmp_path)
    heads = [line for line in render("retrieval", tmp_path).splitlines() if line.startswith("## ")]
    assert heads == ["## Section z", "## Section a", "## Section b"]


def test_the_committed_pages_follow_from_the_committed_figures() -> None:
    assert stale() == []
