"""From feedback in the ledger to candidate rows: gold, corrections, tenants, erasure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MANUAL, MakeProject
from voted import serve_answer

from ragwright import Workbench
from ragwright.core import ConfigError, Row, StoreError
from ragwright.testsets import is_candidate, read_rows

BRAKE = "How often must the brake fluid be changed?"
SENTENCE = "The brake fluid must be changed every two years."
SNIPPET = f"{SENTENCE} The coolant must be changed every five years."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = MakeProject(tmp_path)()
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


@pytest.fixture
def bench(folder: Path) -> Iterator[Workbench]:
    with Workbench.open(folder) as opened:
        yield opened


def collected(bench: Workbench, scope: str = "") -> list[Row]:
    path = bench.collect_feedback(scope)
    return list(read_rows(path)) if path.exists() else []


def test_answers_to_one_question_are_one_candidate(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "-")
    last = serve_answer(bench, f" {BRAKE.upper()}", "+")
    [row] = collected(bench)
    assert is_candidate(row)
    assert row.metadata["output"] == last
    best, *others = bench.ask(BRAKE).snippets
    assert others
    [gold] = row.reference_spans
    assert gold.text == best.text
    assert MANUAL[gold.start : gold.end] == gold.text == SNIPPET


def test_rejected_answers_propose_no_gold_but_named_passages(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "+-")
    [row] = collected(bench)
    assert row.reference_spans == ()
    serve_answer(bench, BRAKE, "-", passages=[1])
    [row] = collected(bench)
    assert [span.text for span in row.reference_spans] == [SNIPPET]


def test_the_latest_correction_is_the_gold_answer(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "-", correction="every five years")
    serve_answer(bench, BRAKE, "", correction="every two years")
    serve_answer(bench, BRAKE, "+")
    [row] = collected(bench)
    assert row.reference == "every two years"


def test_decided_rows_stay_and_candidates_are_made_again(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "+")
    serve_answer(bench, "When is the coolant changed?", "-")
    first, second = collected(bench)
    path = bench.collect_feedback()
    decided = bench.review(path).decide(first, "accepted", answer="every two years")
    serve_answer(bench, BRAKE, "-")
    serve_answer(bench, "When is the coolant changed?", "+")
    rows = collected(bench)
    assert rows[0] == decided
    assert rows[1].id == second.id
    assert rows[1].reference_spans != ()


def test_answers_that_follow_earlier_turns_are_left_out(bench: Workbench) -> None:
    serve_answer(bench, "And the coolant?", "+", asked_before=[BRAKE])
    assert collected(bench) == []


def test_tenants_are_collected_one_by_one(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "+", scope="acme/1")
    assert collected(bench) == []
    assert len(collected(bench, "acme/1")) == 1
    assert bench.collect_feedback("acme/1").name == "feedback-acme%2F1.jsonl"
    assert "feedback rows" not in bench.forget_tenant("other")
    assert bench.forget_tenant("acme/1")["feedback rows"] == 1
    assert not bench.collect_feedback("acme/1").exists()


def test_forgetting_a_document_reaches_candidates(bench: Workbench) -> None:
    serve_answer(bench, BRAKE, "-", correction="every two years")
    assert len(collected(bench)) == 1
    gone = bench.forget("docs/service.md")
    assert (gone["outputs"], gone["feedback rows"]) == (2, 1)
    assert collected(bench) == []
    with bench.outputs.reading() as db:
        assert db.execute("SELECT count(*) FROM corrections").fetchone()[0] == 0


def test_bad_feedback_is_refused(bench: Workbench) -> None:
    output = serve_answer(bench, BRAKE)
    with pytest.raises(ConfigError, match="the feedback is empty"):
        bench.outputs.respond(output, by="ann", correction="  ", note=" ")
    with pytest.raises(ConfigError, match=r"1\.1 has no citation 9"):
        bench.outputs.respond(output, by="ann", passages=[9])
    with pytest.raises(StoreError, match=r"no output '7\.1'"):
        bench.outputs.respond("7.1", by="ann", verdict="accepted")
