"""Drafts in a project: settings, stored batches, stops, promoted files; rows from feedback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_project import MANUAL, MakeProject
from story_tools import playing, write_files
from voted import serve_answer

from ragwright import Session, Workbench
from ragwright.core import (
    BudgetStopped,
    Chunk,
    ConfigError,
    Document,
    PromptError,
    RagwrightError,
    RecordsError,
    Row,
    Span,
    StoreError,
)
from ragwright.drafting import Drafting, DraftRequest, OutputQuery, draft_plan
from ragwright.index import IndexedDocument
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import is_candidate, read_rows

GOOD = "1. Chip in now.\n2. We need you today."
REQUEST = DraftRequest("DOE, JANE", "donation", ("health care",), (), "short", 2)
PREVIEW = Drafting(preview=True)
MISSPELT = ("http://127.0.0.1:1#good", "good")
FILES: dict[str, str | bytes] = {
    "records/text_formats/message.yaml": (
        "prompt_variables: [length, ask_type, client, topic, text]\n"
        'prompt_structure: "A %s %s message from %s about %s:\\n\\n%s"\n'
    ),
    "records/rollups.yaml": (
        'client: {column: sender, names: {Jane Doe: ["DOE, JANE"]}}\nbiographies: biographies.csv\n'
    ),
    "records/biographies.csv": "name,biography\nJane Doe,A nurse.\n",
    "ragwright.yaml": "answer: {draft: {examples: 3, pool: 6}}\n",
}

server = playing(GOOD, "function")


def indexed(name: str, text: str, **metadata: Any) -> IndexedDocument:
    document = Document(name, name, text, metadata=metadata)
    return IndexedDocument(document, (Chunk(f"{name}:0", name, 0, Span(0, len(text)), text),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Records in the index, as a refresh leaves them."""
    batch = []
    for number in range(12):
        client, topic = (
            ("Tom Ash", "Jane Doe")[number % 2],
            "health care" if number % 3 else "schools",
        )
        fields: dict[str, Any] = {
            "client": client,
            "ask_type": "donation",
            "topic": (topic,),
            "length": "short",
        }
        head = f"A short donation message from {client}:\n\n"
        fields |= {"kind": "record", "message_at": len(head)}
        batch.append(indexed(f"record:{number}", f"{head}Message number {number}.", **fields))
    with Workbench.open(write_files(tmp_path, FILES)) as bench:
        bench.project.store.upsert(bench.project.index_spec, batch)
    return tmp_path


@pytest.fixture
def bench(project: Path) -> Iterator[Workbench]:
    with Workbench.open(project) as opened:
        yield opened


def test_a_batch_is_stored_with_all_that_is_known(bench: Workbench, server: ScriptedServer) -> None:
    one, other = f"{server.url}#a", f"{server.url}#b"
    forecast = bench.forecast_draft(REQUEST, Drafting((one,)))
    assert (forecast.calls.low, forecast.calls.high, forecast.models) == (1, 2, {one: 1})
    assert server.count == 0
    batch = bench.draft(REQUEST, Drafting((one, other)))
    assert (batch.number, batch.request.client) == (1, "Jane Doe")
    stored = list(bench.outputs.find(OutputQuery(kind="text")))
    assert [output.text for output in stored] == [text.text for text in batch.texts]
    assert {output.source for output in stored} == set(batch.models) == {one, other}
    assert len({output.at for output in stored}) == 1
    prompts = list(bench.outputs.find(OutputQuery(kind="prompt")))
    assert {output.source for output in prompts} == {"prompt"}
    again = bench.draft(REQUEST, Drafting((one,)))
    assert (again.cached, again.number) == (True, 2)
    assert bench.draft(REQUEST, Drafting((one,), save=False)).number is None
    assert server.count == 2
    # scopes share nothing
    own = Drafting((one,), scope="a")
    assert bench.forecast_draft(REQUEST, own).calls.low == 1
    bench.draft(REQUEST, own)
    assert [found.scope for found in bench.outputs.find(OutputQuery(scope="a"))] == ["a"] * 3
    assert "a" not in {found.scope for found in bench.outputs.find(OutputQuery(scope=""))}
    assert bench.forecast_draft(REQUEST, own).calls.low == 0
    assert not bench.draft(REQUEST, Drafting((one,), scope="b")).cached
    # a failing model is stored too
    server.play(lambda request: GOOD if request.body["model"] == "c" else Reply.bad_key())
    batch = bench.draft(REQUEST, Drafting((f"{server.url}#c", f"{server.url}#d")))
    assert any("MissingKeyError" in note for note in batch.notes)
    outputs = bench.outputs.batch(batch.number or 0).outputs
    assert [output.kind for output in outputs].count("prompt") == 2


def test_models_and_options_come_from_flags_then_drafts_then_answers(
    project: Path, server: ScriptedServer
) -> None:
    base = server.url
    answer = f"answer.model={base}#answer"
    own = f"answer.draft.models=[{base}#one, {base}#two]"
    for overrides, how, names in (
        ((answer,), Drafting(), ["answer"]),
        ((answer, own), Drafting(), ["one", "two"]),
        ((answer, own), Drafting((f"{base}#mine",)), ["mine"]),
    ):
        with Workbench.open(project, Session(overrides)) as bench:
            models = bench.draft(REQUEST, how).models
        assert [model.rpartition("#")[2] for model in models] == names
    overrides = ("answer.draft.weights.client=20", "answer.draft.temperature=0.2")
    with Workbench.open(project, Session(overrides, seed=4)) as bench:
        options = draft_plan(bench.project).options
    assert (options.weights.client, options.temperature, options.seed) == (20.0, 0.2, 4)
    with Workbench.open(project) as bench:
        assert draft_plan(bench.project).options.seed == 0


@pytest.mark.parametrize(
    ("request_", "files", "how", "error", "told"),
    [
        (REQUEST, {}, Drafting(), ConfigError, "no chat model is configured"),
        # said before any other is paid
        (REQUEST, {}, Drafting(MISSPELT), ConfigError, "not a model name"),
        (DraftRequest("Tom Ash", bio=True), {}, PREVIEW, PromptError, "no biography of 'Tom Ash'"),
        (REQUEST, {"records/text_formats/message.yaml": "prompt_variables: [client, text]\n"
            "prompt_structure: 'only %s'\n"}, PREVIEW, RecordsError, r"message\.yaml:2"),
    ],
)  # fmt: skip
def test_a_draft_that_cannot_be_made_says_why(
    project: Path,
    request_: DraftRequest,
    files: dict[str, str],
    how: Drafting,
    error: type[RagwrightError],
    told: str,
) -> None:
    write_files(project, files)
    with Workbench.open(project) as bench, pytest.raises(error, match=told):
        bench.draft(request_, how)


ONE_LONG = "We count the lit windows on Canal Street every night. " * 8


def test_a_stopped_draft_stores_no_batch_and_the_next_run_pays_what_is_missing(
    project: Path, server: ScriptedServer
) -> None:
    server.play(lambda request: f"Message {server.count}. {ONE_LONG}")
    prices = (f"models.s.base={server.url}", "models.s.price_in=100", "models.s.price_out=100")
    options, long = (*prices, "answer.draft.max_tokens=400"), replace(REQUEST, length="long")
    with Workbench.open(project, Session(options, max_cost=0.2)) as bench:
        with pytest.raises(BudgetStopped):
            bench.draft(replace(long, count=6), Drafting(("s:m",)))
        assert not list(bench.outputs.find(OutputQuery()))
    assert 0 < server.count < 6
    with Workbench.open(project, Session(options)) as bench:
        batch = bench.draft(replace(long, count=6), Drafting(("s:m",)))
    assert (batch.number, len(batch.texts), server.count) == (1, 6, 6)


def test_a_batch_names_the_index_that_was_searched(
    bench: Workbench, project: Path, server: ScriptedServer
) -> None:
    before = bench.project.target().snapshot

    def meanwhile(request: ServerRequest) -> str:
        with Workbench.open(project) as other:
            other.project.store.upsert(other.project.index_spec, [indexed("new", "new")])
        return GOOD

    server.play(meanwhile)
    batch = bench.draft(REQUEST, Drafting((f"{server.url}#a",)))
    assert bench.project.target().snapshot != before
    assert bench.outputs.batch(batch.number or 0).snapshot == batch.snapshot == before


# -- rows from feedback --------------------------------------------------------------------------

BRAKE = "How often must the brake fluid be changed?"
SENTENCE = "The brake fluid must be changed every two years."
SNIPPET = f"{SENTENCE} The coolant must be changed every five years."


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)()) as opened:
        opened.ingest()
        yield opened


def collected(bench: Workbench, scope: str = "") -> list[Row]:
    path = bench.collect_feedback(scope)
    return list(read_rows(path)) if path.exists() else []


def golds(row: Row) -> list[str]:
    return [span.text for span in row.reference_spans]


def test_answers_to_one_question_are_one_candidate(shop: Workbench) -> None:
    serve_answer(shop, BRAKE, "+-")
    [row] = collected(shop)
    assert golds(row) == []  # rejected answers propose no gold, but named passages do
    serve_answer(shop, BRAKE, "-", passages=[1])
    assert [golds(row) for row in collected(shop)] == [[SNIPPET]]
    last = serve_answer(shop, f" {BRAKE.upper()}", "+")
    [row] = collected(shop)
    assert is_candidate(row)
    assert row.metadata["output"] == last
    best, *others = shop.ask(BRAKE).snippets
    assert others
    [gold] = row.reference_spans
    assert gold.text == best.text
    assert MANUAL[gold.start : gold.end] == gold.text == SNIPPET
    # the latest correction is the gold answer; what follows earlier turns is left out
    serve_answer(shop, BRAKE, "-", correction="every five years")
    serve_answer(shop, BRAKE, "", correction="every two years")
    serve_answer(shop, BRAKE, "+")
    serve_answer(shop, "And the coolant?", "+", asked_before=[BRAKE])
    [row] = collected(shop)
    assert row.reference == "every two years"


def test_tenants_and_forgotten_documents_leave_no_candidate(shop: Workbench) -> None:
    serve_answer(shop, BRAKE, "+", scope="acme/1")
    assert collected(shop) == []
    assert len(collected(shop, "acme/1")) == 1
    assert shop.collect_feedback("acme/1").name == "feedback-acme%2F1.jsonl"
    assert "feedback rows" not in shop.forget_tenant("other")
    assert shop.forget_tenant("acme/1")["feedback rows"] == 1
    assert not shop.collect_feedback("acme/1").exists()
    serve_answer(shop, BRAKE, "-", correction="every two years")
    assert len(collected(shop)) == 1
    gone = shop.forget("docs/service.md")
    assert (gone["outputs"], gone["feedback rows"]) == (2, 1)
    assert collected(shop) == []
    with shop.outputs.reading() as db:
        assert db.execute("SELECT count(*) FROM corrections").fetchone()[0] == 0


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"correction": "  ", "note": " "}, ConfigError, "the feedback is empty"),
        ({"passages": [9]}, ConfigError, r"1\.1 has no citation 9"),
        ({"output": "7.1", "verdict": "accepted"}, StoreError, r"no output '7\.1'"),
    ],
)
def test_bad_feedback_is_refused(
    shop: Workbench, given: dict[str, Any], error: type[RagwrightError], told: str
) -> None:
    given = {"output": serve_answer(shop, BRAKE), **given}
    with pytest.raises(error, match=told):
        shop.outputs.respond(given.pop("output"), by="ann", **given)
