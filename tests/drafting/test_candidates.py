"""From votes in the ledger to candidate rows: passages, votes, corrections, splits, erasure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MANUAL, MakeProject
from voted import serve_answer

from ragwright import Workbench
from ragwright.core import ConfigError, GoldSpan, Row, StoreError
from ragwright.drafting import Collecting, Tally, proposed, voted_answers
from ragwright.project import Session
from ragwright.testsets import is_candidate, pooled_spans, read_rows, votes_on, write_rows

BRAKE = "How often must the brake fluid be changed?"
COOLANT = "When is the coolant changed?"
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


def rows_of(folder: Path) -> dict[str, Row]:
    path = folder / "testsets" / "feedback.jsonl"
    return {row.user_input: row for row in read_rows(path)} if path.exists() else {}


def test_answers_to_one_question_are_one_candidate(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, BRAKE, "++-")
    serve_answer(bench, f" {BRAKE.upper()}", "+")
    collected = bench.collect_feedback()
    [row] = rows_of(folder).values()
    assert is_candidate(row)
    assert votes_on(row) == (3, 1)
    cited = bench.ask(BRAKE).snippets
    assert [span.text for span in row.reference_spans] == [snippet.text for snippet in cited]
    gold = row.reference_spans[0]
    assert MANUAL[gold.start : gold.end] == gold.text == SNIPPET
    assert row.metadata["split"] == "tune"
    assert (collected.answers, collected.votes, collected.counts.added) == (2, 4, 1)


def test_who_votes_again_on_an_answer_changes_the_vote(bench: Workbench, folder: Path) -> None:
    output = serve_answer(bench, BRAKE, "+-")
    bench.outputs.respond(output, by="reader 0", verdict="rejected")
    bench.outputs.respond(output, by="reader 0", note="see page 2")
    [answer] = voted_answers(bench.outputs)
    assert dict(answer.votes) == {"reader 0": "rejected", "reader 1": "rejected"}
    bench.collect_feedback()
    [row] = rows_of(folder).values()
    assert row.reference_spans == (), "rejected answers propose no gold"
    assert row.metadata["feedback_notes"] == ("reader 0: see page 2",)


def test_a_correction_is_the_reference_and_finds_its_passage(
    bench: Workbench, folder: Path
) -> None:
    serve_answer(bench, BRAKE, "-", correction="every five years")
    serve_answer(bench, BRAKE, "", correction="every two years")
    bench.collect_feedback()
    [row] = rows_of(folder).values()
    assert row.reference == "every two years", "the latest correction"
    assert row.metadata["feedback_corrections"] == ("every five years",)
    assert [span.text for span in row.reference_spans] == [SNIPPET]


def test_passages_that_readers_name_outweigh_votes() -> None:
    best = Tally(accepted=5, cited=True)
    named = Tally(rejected=2, named=1, cited=True)
    assert proposed([best, named, Tally()]) == (1,)
    assert proposed([best, Tally(accepted=5, rejected=1, cited=True), Tally()]) == (0,)
    assert proposed([Tally(accepted=2, rejected=2, cited=True)]) == (), "people are divided"
    assert proposed([]) == ()


def test_changed_documents_are_found_again_or_said(
    bench: Workbench, folder: Path, tmp_path: Path
) -> None:
    serve_answer(bench, BRAKE, "+")
    serve_answer(bench, "What does APP_w305 mean?", "+")
    moved = f"# New first part\n\nNothing here.\n\n{MANUAL.replace('oil filter', 'cabin filter')}"
    MakeProject(tmp_path)("", **{"service.md": moved, "codes.md": "# Warning codes\n\nNone.\n"})
    bench.ingest()
    collected = bench.collect_feedback()
    rows = rows_of(folder)
    [gold] = rows[BRAKE].reference_spans
    assert moved[gold.start : gold.end] == SNIPPET
    assert rows["What does APP_w305 mean?"].retrieved_spans == ()
    assert collected.notes == (
        "2 questions had passages that are no longer in the documents; 1 question has none left",
    )


def test_what_cannot_be_asked_again_is_left_out_and_said(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, "And the coolant?", "+", asked_before=[BRAKE])
    collected = bench.collect_feedback()
    assert rows_of(folder) == {}
    [note] = collected.notes
    assert note.startswith("1 answer left out: they followed earlier turns")


def test_an_accepted_abstention_is_an_unanswerable_question(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, "Who is the king?", "++")
    bench.collect_feedback()
    [row] = rows_of(folder).values()
    assert row.metadata["answerable"] is False
    decided = bench.review(folder / "testsets" / "feedback.jsonl").decide(row, "accepted")
    assert decided.metadata["review"] == "accepted"


def test_gold_of_a_confirm_split_is_not_taken_without_a_word(
    bench: Workbench, folder: Path
) -> None:
    start = MANUAL.index(SENTENCE)
    gold = (GoldSpan("docs/service.md", start, start + len(SENTENCE), SENTENCE),)
    rows = [
        Row("c", "Brakes?", reference_spans=gold, metadata={"split": "confirm"}),
        Row("t", "x?", reference_ids={"docs/codes.md": 1}, metadata={"split": "tune"}),
        Row("d", COOLANT, reference="5", metadata={"split": "confirm"}),
    ]
    write_rows(rows, folder / "testsets" / "main.jsonl")
    main = (folder / "testsets" / "main.jsonl").rename(folder / "later.jsonl")
    serve_answer(bench, BRAKE, "+")
    serve_answer(bench, COOLANT.lower(), "+")
    serve_answer(bench, "What does APP_w305 mean?", "+")
    bench.collect_feedback()
    assert len(rows_of(folder)) == 3
    main.rename(folder / "testsets" / "main.jsonl")  # written after the first collection
    [note] = bench.collect_feedback().notes
    assert note.startswith("2 questions left out: the confirm split of main.jsonl asks the same")
    assert [*rows_of(folder)] == ["What does APP_w305 mean?"]
    assert bench.collect_feedback(Collecting(split="both")).notes == ()
    splits = {question: row.metadata["split"] for question, row in rows_of(folder).items()}
    assert splits[BRAKE] == splits[COOLANT.lower()] == "confirm"
    assert len(rows_of(folder)) == 3
    bench.collect_feedback()
    assert len(rows_of(folder)) == 3, "rows of the file itself are not left out later"


def test_a_document_or_a_question_of_a_json_confirm_split_is_left_out(
    bench: Workbench, folder: Path
) -> None:
    rows: list[dict[str, object]] = [
        {"id": "d", "user_input": "Codes?", "reference_context_ids": ["docs/codes.md"]},
        {"id": "q", "user_input": "When  is the coolant changed", "reference": "5"},
    ]
    text = json.dumps([{**row, "metadata": {"split": "confirm"}} for row in rows])
    (folder / "testsets").mkdir()
    (folder / "testsets" / "main.json").write_text(text, "utf-8")
    serve_answer(bench, "What does APP_w305 mean?", "+")
    serve_answer(bench, COOLANT, "+")
    [note] = bench.collect_feedback().notes
    assert note.startswith("2 questions left out: the confirm split of main.json asks the same")


def test_tenants_are_collected_one_by_one(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, BRAKE, "+", scope="acme")
    assert bench.collect_feedback().answers == 0
    target = folder / "testsets" / "acme.jsonl"
    bench.collect_feedback(Collecting(target, scope="acme"))
    [row] = read_rows(target)
    assert row.metadata["feedback_scope"] == "acme"
    gone = bench.forget_tenant("acme")
    assert gone["feedback rows"] == 1
    assert not target.exists()


def test_forgetting_a_document_reaches_candidates(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, BRAKE, "+", correction="every two years")
    bench.collect_feedback()
    gone = bench.forget("docs/service.md")
    assert (gone["outputs"], gone["feedback rows"]) == (2, 1)
    assert rows_of(folder) == {}
    assert bench.collect_feedback().answers == 0
    with bench.outputs.reading() as db:
        assert db.execute("SELECT count(*) FROM corrections").fetchone()[0] == 0


def test_thousands_of_votes_are_one_row(bench: Workbench, folder: Path) -> None:
    output = serve_answer(bench, BRAKE)
    with bench.outputs.writing() as db:
        db.executemany(
            'INSERT INTO feedback (batch, kind, position, at, "by", verdict, score, note) '
            "VALUES (1, 'text', 1, '2026-01-01', ?, ?, NULL, '')",
            [(f"r{n}", "rejected" if n % 4 == 0 else "accepted") for n in range(4000)],
        )
    assert output == "1.1"
    assert bench.collect_feedback().votes == 4000
    [row] = rows_of(folder).values()
    assert votes_on(row) == (3000, 1000)
    assert row.reference_spans


def test_bad_feedback_is_refused(bench: Workbench, folder: Path) -> None:
    output = serve_answer(bench, BRAKE)
    with pytest.raises(ConfigError, match="the feedback is empty"):
        bench.outputs.respond(output, by="ann", correction="  ", note=" ")
    with pytest.raises(ConfigError, match=r"1\.1 has no citation 9"):
        bench.outputs.respond(output, by="ann", passages=[9])
    with pytest.raises(StoreError, match=r"no output '7\.1'"):
        bench.outputs.respond("7.1", by="ann", verdict="accepted")
    with pytest.raises(ConfigError, match="unknown split 'test'"):
        bench.collect_feedback(Collecting(split="test"))
    for path in (folder / "f.jsonl", folder / "testsets" / "f.json"):
        with pytest.raises(ConfigError, match=r"kept in the folder testsets/ as \.jsonl"):
            bench.collect_feedback(Collecting(path))


def test_passages_of_another_search_are_pooled_and_kept(bench: Workbench, folder: Path) -> None:
    serve_answer(bench, "What does APP_w305 mean?", "-")
    settings = Session(("retrieve.top_k=1",))
    bench.collect_feedback()
    seen = len(rows_of(folder)["What does APP_w305 mean?"].retrieved_spans)
    MakeProject(folder.parent)("", **{"switch.md": "APP_w305 concerns the brake light switch."})
    with Workbench.open(folder, settings) as other:
        other.ingest()
        other.collect_feedback(Collecting(pool=5))
    [row] = rows_of(folder).values()
    [found] = pooled_spans(row)
    assert found.document_id == "docs/switch.md"
    assert len(row.retrieved_spans) == seen + 1
    bench.collect_feedback()
    assert pooled_spans(rows_of(folder)["What does APP_w305 mean?"]) == (found,), "kept"
    with pytest.raises(ConfigError, match="tenant are not searched again"):
        bench.collect_feedback(Collecting(scope="acme", pool=5))
