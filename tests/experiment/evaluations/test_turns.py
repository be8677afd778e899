"""Rows with history, evaluated: asked after their turns, judged with them, stored and resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright.core import BudgetStopped, Row, Turn, make_plain
from ragwright.experiment import (
    DiagnosisOptions,
    EvaluationOptions,
    RowResult,
    read_plain,
    read_study,
    slices,
)
from ragwright.flow import Runner
from ragwright.measure import MeasureSetup, parse_measures, score_row, score_rows
from ragwright.models import Models, SystemOptions, model_handlers, open_system
from ragwright.project import Session
from ragwright.testing import ScriptedServer
from ragwright.testsets import Testset, write_rows
from ragwright.workbench import Workbench

HISTORY = (
    Turn("user", "How often must the brake fluid be changed?"),
    Turn("assistant", "Every two years."),
)
ROW = Row(
    "c-2",
    "And the coolant?",
    reference="Every five years.",
    metadata={"turn": 2, "standalone": False},
    history=HISTORY,
)
TESTSET = Testset("talk", (ROW,))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("ok") as running:
        yield running


def bench_of(tmp_path: Path, settings: str = "") -> Workbench:
    bench = Workbench.open(MakeProject(tmp_path)(settings))
    bench.ingest()
    return bench


def test_the_model_condenses_and_stored_replies_are_used_again(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.play(["How often must the coolant be changed?", "Every five years [1]."])
    with bench_of(tmp_path, f"answer: {{model: '{server.url}#writer'}}\n") as bench:
        evaluation, _ = bench.evaluate(TESTSET, "TokenF1", EvaluationOptions(answers=True))
        asked = len(server.requests)
        assert "brake fluid" in server.requests[0].prompt
        assert "How often must the coolant be changed?" in server.requests[-1].prompt
        again, _ = bench.evaluate(TESTSET, "TokenF1", EvaluationOptions(answers=True, resume=True))
    assert len(server.requests) == asked
    (result,) = again.results
    assert result.row is not None
    assert result.row.history == HISTORY
    assert read_plain(RowResult, make_plain(result)).row == result.row
    assert [
        part.value
        for part in slices(evaluation.results, TESTSET.rows, "turn", parse_measures("TokenF1"))
    ] == ["2"]


def test_systems_get_the_turns(tmp_path: Path) -> None:
    seen: list[object] = []

    def with_history(question: str, history: list[dict[str, str]]) -> str:
        seen.append((question, history))
        return "Every five years."

    def with_messages(messages: list[dict[str, str]]) -> str:
        seen.append(messages)
        return "Every five years."

    def alone(question: str) -> str:
        seen.append(question)
        return "Every five years."

    with bench_of(tmp_path) as bench:
        for system in (with_history, with_messages, alone):
            evaluation, _ = bench.evaluate(TESTSET, "ExactMatch", system=system)
            assert evaluation["ExactMatch"].mean == 1.0
            warned = any("takes no history: 1 row" in note for note in evaluation.notes)
            assert warned == (system is alone)
    earlier = [{"role": turn.role, "content": turn.content} for turn in HISTORY]
    question = {"role": "user", "content": ROW.user_input}
    assert seen == [(ROW.user_input, earlier), [*earlier, question], ROW.user_input]


@pytest.mark.parametrize(
    ("body", "takes"), [({}, True), ({"q": "{question}"}, False), ({"m": "{messages}"}, True)]
)
def test_an_endpoint_takes_turns_where_its_body_has_a_place(
    body: dict[str, str], takes: bool
) -> None:
    system = open_system(SystemOptions(url="http://localhost:1/ask", body=body))
    assert system.takes_turns is takes


def test_a_judge_sees_the_turns_only_of_rows_with_history(server: ScriptedServer) -> None:
    server.play(['{"reasoning": "fits", "score": 5}'] * 2)
    setup = MeasureSetup(model=f"{server.url}#judge")
    measures = parse_measures("AnswerRelevance")
    row = Row("r", "And the coolant?", "Every five years.")
    with Runner(model_handlers(Models())) as runner:
        runner.run(score_row(row, measures, setup))
        runner.run(
            score_row(Row("r", row.user_input, row.response, history=HISTORY), measures, setup)
        )
    without, with_turns = (request.prompt for request in server.requests)
    assert "conversation before the question" not in without
    assert "assistant: Every two years." in with_turns


@pytest.mark.parametrize(
    ("response", "value"),
    [("There are many. Which one are you referring to?", 1.0), ("It is red.", 0.0)],
)
def test_asking_back_is_counted_where_the_question_is_underspecified(
    response: str, value: float
) -> None:
    measures = parse_measures("AskBackRate")
    row = Row("r", "What colour?", response, metadata={"answerability": "underspecified"})
    ((score,), (other,)) = score_rows([row, Row("s", "?", response)], measures)
    assert score.value == value
    assert other.no_gold


KEYS = {
    "AnswerRelevance": "c66fa331cd1771794b73ce3b2952077200090d7fcdf3c4dff07fbc14c8d58233",
    "Faithfulness": "7c98c055c96c2f33deaf64b63302973e452b3b28c0fa24ada70633a7fe72433f",
    "ContextRelevance": "f579b407545d70e86ec064e3f6e7bc2470ac4318924b923e2f962188526da019",
    "Claims": "8814717580a5b400d499eadc9ea1f3d4793e0102371f8ba40855a7c8cfe954fe",
    "Groundedness": "e45628c78f1f79e46373cd68d211d2661f1b2a2de34d6c4746bd7a752edc2ae1",
}
"""SHA-256 of the first messages of each measure before rows had history (commit f9e7e8ca)."""


@pytest.mark.parametrize("measure", list(KEYS))
def test_prompts_of_rows_without_history_are_those_of_before(
    server: ScriptedServer, measure: str
) -> None:
    row = Row(
        "r",
        "How often must the coolant be changed?",
        "Every five years.",
        reference="Every five years.",
        retrieved_contexts=("The coolant must be changed every five years.",),
    )
    setup = MeasureSetup(model=f"{server.url}#judge")
    with Runner(model_handlers(Models())) as runner:
        runner.run(score_row(row, parse_measures(measure), setup))
    messages = json.dumps(server.requests[0].body["messages"], sort_keys=True)
    assert hashlib.sha256(messages.encode()).hexdigest() == KEYS[measure]


def test_an_interrupted_evaluation_goes_on_after_the_turns(
    tmp_path: Path, server: ScriptedServer
) -> None:
    rows = tuple(
        Row(f"c-{n}", f"And the {part}?", reference="Every five years.", history=HISTORY)
        for n, part in enumerate(("coolant", "oil filter", "brake light"))
    )
    server.play(lambda request: "Every five years [1].")
    folder = MakeProject(tmp_path)(
        f"answer: {{model: '{server.url}#writer'}}\n"
        f"models: {{'{server.url}#writer': {{price_in: 1000, price_out: 0}}}}\n"
    )
    with Workbench.open(folder) as bench:
        bench.ingest()
    testset, how = Testset("talk", rows), EvaluationOptions(answers=True, resume=True)
    with Workbench.open(folder, Session(jobs=1, max_cost=0.3)) as bench:
        _, stopped = bench.evaluate(testset, "TokenF1", how)
    before = len(server.requests)
    with Workbench.open(folder) as bench:
        evaluation, summary = bench.evaluate(testset, "TokenF1", how)
    prompts = [json.dumps(request.body["messages"]) for request in server.requests]
    assert isinstance(stopped.reason, BudgetStopped)
    assert 0 < before < len(prompts)
    assert summary.run == stopped.run
    assert summary.complete
    assert evaluation["TokenF1"].n == 3
    assert len(set(prompts)) == len(prompts)  # nothing is asked twice


WHY = Row(
    "w-2",
    "Why?",
    reference="every two years",
    reference_ids={"docs/service.md": 1},
    metadata={"split": "tune"},
    history=HISTORY,
)
"""A question that finds nothing without the turns before it."""


def test_a_sweep_asks_with_the_history(tmp_path: Path) -> None:
    with bench_of(tmp_path) as bench:
        folder = bench.project.folder.root
        write_rows((WHY,), folder / "set.jsonl")
        (folder / "s.yaml").write_text(
            f"study: {{testset: '{folder / 'set.jsonl'}', measures: 'Recall@1'}}\n"
            "retrieve: {top_k: [1, 2]}\n"
        )
        result = bench.sweep(read_study(bench.project, folder / "s.yaml"))
        alone = Testset("alone", (replace(WHY, history=()),))
        without, _ = bench.evaluate(alone, "Recall@1", EvaluationOptions(answers=False))
    assert [trial.value("Recall@1") for trial in result.trials] == [1.0, 1.0, 1.0]
    assert without["Recall@1"].mean == 0.0


def test_a_diagnosis_asks_with_the_history(tmp_path: Path, server: ScriptedServer) -> None:
    server.play(lambda request: "It must be changed every two years [1].")
    with bench_of(tmp_path, f"answer: {{model: '{server.url}#writer'}}\n") as bench:
        bench.diagnose(Testset("talk", (WHY,)), "Contains", DiagnosisOptions())
    assert any("brake fluid be changed" in request.prompt for request in server.requests)
