"""Drafts in a project: settings, rollups, outputs, forecasts, promoted formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, pthread_kill
from threading import get_ident

import pytest

from ragwright.core import (
    BudgetStopped,
    Chunk,
    ConfigError,
    Document,
    PromptError,
    RecordsError,
    Span,
)
from ragwright.drafting import Drafting, DraftRequest, OutputQuery, draft_plan
from ragwright.index import IndexedDocument
from ragwright.project import Session
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.workbench import Workbench

GOOD = "1. Chip in now.\n2. We need you today."
REQUEST = DraftRequest("DOE, JANE", "donation", ("health care",), (), "short", 2)
FORMAT = """\
prompt_variables: [length, ask_type, client, topic, text]
prompt_structure: "A %s %s message from %s about %s:\\n\\n%s"
"""
ROLLUPS = """\
client: {column: sender, names: {Jane Doe: ["DOE, JANE"]}}
biographies: biographies.csv
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    records = tmp_path / "records"
    (records / "text_formats").mkdir(parents=True)
    (records / "text_formats/message.yaml").write_text(FORMAT, "utf-8")
    (records / "rollups.yaml").write_text(ROLLUPS, "utf-8")
    (records / "biographies.csv").write_text("name,biography\nJane Doe,A nurse.\n", "utf-8")
    (tmp_path / "ragwright.yaml").write_text("answer: {draft: {examples: 3, pool: 6}}\n", "utf-8")
    with Workbench.open(tmp_path) as bench:
        fill(bench)
    return tmp_path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(GOOD) as running:
        yield running


def fill(bench: Workbench) -> None:
    """Records in the index, as a refresh leaves them."""
    batch = []
    for number in range(12):
        fields = {
            "client": "Jane Doe" if number % 2 else "Tom Ash",
            "ask_type": "donation",
            "topic": ("health care",) if number % 3 else ("schools",),
            "length": "short",
        }
        head = f"A short donation message from {fields['client']}:\n\n"
        text = f"{head}Message number {number}."
        meta = {**fields, "kind": "record", "message_at": len(head)}
        document = Document(f"record:{number}", f"records:{number}", text, metadata=meta)
        chunk = Chunk(f"{document.id}:0", document.id, 0, Span(0, len(text)), text)
        batch.append(IndexedDocument(document, (chunk,)))
    bench.project.store.upsert(bench.project.index_spec, batch)


def test_a_batch_is_stored_with_all_that_is_known(project: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#a"
    with Workbench.open(project) as bench:
        batch = bench.draft(REQUEST, Drafting((model, f"{server.url}#b")))
        assert batch.number == 1
        assert batch.request.client == "Jane Doe"
        stored = list(bench.outputs.find(OutputQuery(kind="text")))
        assert [output.text for output in stored] == [text.text for text in batch.texts]
        assert {output.source for output in stored} == set(batch.models)
        assert len({output.at for output in stored}) == 1
        prompts = list(bench.outputs.find(OutputQuery(kind="prompt")))
        assert {output.source for output in prompts} == {"prompt"}
        again = bench.draft(REQUEST, Drafting((model,)))
        assert again.cached
        assert again.number == 2
        unsaved = bench.draft(REQUEST, Drafting((model,), save=False))
        assert unsaved.number is None
    assert server.count == 2


def test_the_flow_alone_stores_nothing(project: Path, server: ScriptedServer) -> None:
    with Workbench.open(project) as bench:
        flow = bench.draft_flow(REQUEST, Drafting((f"{server.url}#a",)))
        batch = bench.project.runner.run(flow)
        assert len(batch.texts) == 2
        assert batch.number is None
        assert not list(bench.outputs.find(OutputQuery()))


def test_models_come_from_flags_then_drafts_then_answers(
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


def test_without_a_model(project: Path) -> None:
    with Workbench.open(project) as bench:
        with pytest.raises(ConfigError, match="no chat model is configured"):
            bench.draft(REQUEST)
        shown = bench.draft(REQUEST, Drafting(preview=True))
        assert shown.prompts[0].messages[-1][1].startswith("A short donation message from Jane Doe")
        assert shown.number is None
        assert bench.forecast_draft(REQUEST).calls.high == 0


def test_a_misspelt_model_is_said_before_any_other_is_paid(
    project: Path, server: ScriptedServer
) -> None:
    with Workbench.open(project) as bench, pytest.raises(ConfigError, match="not a model name"):
        bench.draft(REQUEST, Drafting((f"{server.url}#good", "good")))
    assert server.count == 0


def test_forecasts_price_every_call(project: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#a"
    with Workbench.open(project) as bench:
        found = bench.forecast_draft(REQUEST, Drafting((model,)))
        assert (found.calls.low, found.calls.high) == (1, 2)
        assert found.models == {model: 1}
        assert server.count == 0


def test_seeds_and_budgets_of_the_session(project: Path, server: ScriptedServer) -> None:
    with Workbench.open(project, Session(seed=4)) as bench:
        assert draft_plan(bench.project).options.seed == 4
    with Workbench.open(project) as bench:
        assert draft_plan(bench.project).options.seed == 0


def test_biographies_are_of_the_project(project: Path) -> None:
    how = Drafting(preview=True)
    asked = DraftRequest("doe, jane", length="short", bio=True)
    with Workbench.open(project) as bench:
        system = bench.draft(asked, how).prompts[0].messages[0][1]
        assert system.endswith("A nurse.")
        with pytest.raises(PromptError, match="no biography of 'Tom Ash'"):
            bench.draft(DraftRequest("Tom Ash", bio=True), how)


def test_files_are_of_the_project_wherever_it_is_opened(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "prompts").mkdir()
    (project / "prompts/own.yaml").write_text("system: Own words.\n", "utf-8")
    (project / "prompts/raw.jinja").write_text("{{ messages[0].content }} END", "utf-8")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    overrides = (
        "answer.draft.prompt=prompts/own.yaml",
        "answer.draft.format=prompts/raw.jinja",
    )
    with Workbench.open(project, Session(overrides)) as bench:
        prompt = bench.draft(REQUEST, Drafting(preview=True)).prompts[0]
    assert prompt.text == "Own words. END"


def test_a_broken_declaration_is_named(project: Path) -> None:
    (project / "records/text_formats/message.yaml").write_text(
        "prompt_variables: [client, text]\nprompt_structure: 'only %s'\n", "utf-8"
    )
    with Workbench.open(project) as bench, pytest.raises(RecordsError) as raised:
        bench.draft(REQUEST, Drafting(preview=True))
    assert "message.yaml:2" in (raised.value.where or "")


def test_a_pool_below_the_examples(project: Path) -> None:
    with (
        Workbench.open(project, Session(("answer.draft.examples=10",))) as bench,
        pytest.raises(ConfigError, match="a pool of 6 records cannot give 10 examples"),
    ):
        bench.draft(REQUEST, Drafting(preview=True))


def test_a_failing_model_is_stored_too(project: Path, server: ScriptedServer) -> None:
    server.play(lambda request: GOOD if request.body["model"] == "a" else Reply.bad_key())
    with Workbench.open(project) as bench:
        batch = bench.draft(REQUEST, Drafting((f"{server.url}#a", f"{server.url}#b")))
        assert any("MissingKeyError" in note for note in batch.notes)
        assert len(list(bench.outputs.find(OutputQuery(kind="prompt")))) == 2


LONG = replace(REQUEST, length="long", count=6)
ONE_LONG = "We count the lit windows on Canal Street every night. " * 8


def test_a_budget_stop_keeps_what_was_written(project: Path, server: ScriptedServer) -> None:
    server.play(lambda request: f"Message {server.count}. {ONE_LONG}")
    prices = (f"models.s.base={server.url}", "models.s.price_in=100", "models.s.price_out=100")
    options = (*prices, "answer.draft.max_tokens=400")
    with Workbench.open(project, Session(options, max_cost=0.2)) as bench:
        with pytest.raises(BudgetStopped) as raised:
            bench.draft(LONG, Drafting(("s:m",)))
        texts = list(bench.outputs.find(OutputQuery(kind="text")))
        prompts = list(bench.outputs.find(OutputQuery(kind="prompt")))
        assert 0 < server.count == len(texts) == len(prompts) < 6
        assert f"{len(texts)} texts are stored as batch 1, marked partial" in str(raised.value)
        assert any("stopped" in n for n in bench.outputs.batch(1).details["notes"])
        with pytest.raises(BudgetStopped):
            bench.draft(LONG, Drafting(("s:m",), save=False))
        assert len(list(bench.outputs.find(OutputQuery(kind="prompt")))) == len(prompts)


def test_an_interrupt_keeps_what_was_written(project: Path, server: ScriptedServer) -> None:
    main = get_ident()

    def interrupting(request: ServerRequest) -> Reply:
        if server.count == 4:
            pthread_kill(main, SIGINT)
            return Reply(ONE_LONG, delay=1.5)  # a busy machine needs time for the signal
        return Reply(f"Message {server.count}. {ONE_LONG}")

    server.play(interrupting)
    with Workbench.open(project, Session(jobs=1)) as bench:
        with pytest.raises(KeyboardInterrupt):
            bench.draft(LONG, Drafting((f"{server.url}#a",)))
        assert server.count == 4
        assert len(list(bench.outputs.find(OutputQuery(kind="text")))) == 4


def test_a_batch_names_the_index_that_was_searched(project: Path, server: ScriptedServer) -> None:
    with Workbench.open(project) as bench:
        before = bench.project.target().snapshot

        def meanwhile(request: ServerRequest) -> str:
            with Workbench.open(project) as other:
                document = Document("new", "new.md", "new")
                chunk = Chunk("new:0", "new", 0, Span(0, 3), "new")
                other.project.store.upsert(
                    other.project.index_spec, [IndexedDocument(document, (chunk,))]
                )
            return GOOD

        server.play(meanwhile)
        batch = bench.draft(REQUEST, Drafting((f"{server.url}#a",)))
        assert bench.project.target().snapshot != before
        assert batch.number
        assert bench.outputs.batch(batch.number).snapshot == batch.snapshot == before


def test_scopes_share_nothing(project: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#a"
    with Workbench.open(project) as bench:
        own = Drafting((model,), scope="a")
        bench.draft(REQUEST, own)
        assert [one.scope for one in bench.outputs.find(OutputQuery(scope="a"))] == ["a"] * 3
        assert not list(bench.outputs.find(OutputQuery(scope="")))
        assert bench.forecast_draft(REQUEST, own).calls.low == 0
        assert bench.forecast_draft(REQUEST, Drafting((model,))).calls.low == 1
        assert not bench.draft(REQUEST, Drafting((model,), scope="b")).cached
    assert server.count == 2


def test_drafts_can_be_swept(project: Path) -> None:
    """A study varies these keys: each is a path of the project file."""
    overrides = ("answer.draft.weights.client=20", "answer.draft.temperature=0.2")
    with Workbench.open(project, Session(overrides)) as bench:
        plan = draft_plan(bench.project)
    assert (plan.options.weights.client, plan.options.temperature) == (20.0, 0.2)
