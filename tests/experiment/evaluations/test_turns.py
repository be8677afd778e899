"""Rows with history, evaluated: asked after their turns, judged with them, stored and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright.core import Row, Turn
from ragwright.experiment import Evaluating, result_body, result_of, slices
from ragwright.flow import Runner
from ragwright.measure import MeasureSetup, parse_measures, score_row, score_rows
from ragwright.models import Models, SystemOptions, model_handlers, open_system
from ragwright.testing import ScriptedServer
from ragwright.testsets import Testset
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
        evaluation, _ = bench.evaluate(TESTSET, "TokenF1", Evaluating(answers=True))
        asked = len(server.requests)
        assert "brake fluid" in server.requests[0].prompt
        assert "How often must the coolant be changed?" in server.requests[-1].prompt
        again, _ = bench.evaluate(TESTSET, "TokenF1", Evaluating(answers=True, resume=True))
    assert len(server.requests) == asked
    (result,) = again.results
    assert result.row is not None
    assert result.row.history == HISTORY
    assert result_of(result_body(result)).row == result.row
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
