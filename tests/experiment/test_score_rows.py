"""Rows scored as they are read, and judged: nothing is held or paid twice, prices come first."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_project import MakeProject

from ragwright import EvaluationOptions, Session, Workbench, evaluate
from ragwright.core import ConfigError, MeasureError, Row, TestsetError, Turn
from ragwright.experiment import Evaluation, RowResult
from ragwright.flow import Runner
from ragwright.measure import MeasureSetup, parse_measures, score_row
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer, ServerRequest

MEASURES = "ExactMatch, TokenF1, KPrecision"
ANSWERS = EvaluationOptions(answers=True)

# -- answers of a project, judged by a chat model behind HTTP ----------------------------------

QUESTIONS = [
    {"id": "1", "user_input": "How often must the brake fluid be changed?"},
    {"id": "2", "user_input": "How often must the coolant be changed?"},
]
RUBRIC = """
name: polite
summary: How polite the answer is.
task: Say whether the answer is polite.
needs: [response]
scale: [1, 2]
levels: {1: It is rude., 2: It is polite.}
high_example: {response: Thank you., reasoning: It thanks., score: 2}
low_example: {response: Go away., reasoning: It sends away., score: 1}
"""


def says(request: ServerRequest) -> str | Reply:
    """Judges and a writer, each by its name."""
    match request.body["model"]:
        case "vague":
            return "I would rather not say. 4/5 perhaps."
        case "polite":
            return json.dumps({"reasoning": "Kind.", "score": 2})
        case "writer":
            failing = "coolant be changed?" in json.dumps(request.body)
            return Reply(status=400, error="no") if failing else "Every two years [1]."
    return json.dumps({"reasoning": "Every claim stands in the passages.", "score": 5})


class Judging:
    """A project with questions and answers, and a server that judges them."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.url = server.url
        self._server = server
        models = f"models: {{'{server.url}#small': {{context_window: 200}}}}\n"
        self.folder = MakeProject(folder)(models)
        (self.folder / "rubrics").mkdir()
        (self.folder / "rubrics" / "polite.yaml").write_text(RUBRIC)
        answers = [
            {**one, "response": f"Every {at} years.", "retrieved_contexts": [f"Passage {at}.", "x"]}
            for at, one in enumerate(QUESTIONS)
        ]
        for name, rows in (("set", QUESTIONS), ("answers", answers)):
            (self.folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        with Workbench.open(self.folder) as bench:
            bench.ingest()

    def bench(self, *settings: str) -> Workbench:
        """Opened with settings of its own, in which URL stands for the server."""
        given = tuple(one.replace("URL", self.url) for one in settings)
        return Workbench.open(self.folder, Session(given))

    def evaluated(self, measures: str, *settings: str) -> Evaluation:
        with self.bench(*settings) as bench:
            return bench.evaluate(str(self.folder / "set.jsonl"), measures, ANSWERS)[0]

    def asked(self, model: str) -> list[str]:
        """Bodies of the requests to a model."""
        bodies = [request.body for request in self._server.requests]
        return [json.dumps(body) for body in bodies if body["model"] == model]


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judging]:
    with ScriptedServer(says) as server:
        yield Judging(tmp_path_factory.mktemp("judging"), server)


def test_answers_are_judged_stored_and_not_paid_twice(judging: Judging) -> None:
    with judging.bench("judge.model=URL#judge") as bench:
        found, run = bench.evaluate(str(judging.folder / "set.jsonl"), "Faithfulness", ANSWERS)
        again, _ = bench.score(run.run, "Faithfulness")
        stored = bench.results(run.run)
    assert found["Faithfulness"].mean == again["Faithfulness"].mean == 5.0
    assert len(judging.asked("judge")) == 2  # one a row: judging again is answered from the store
    assert "Every claim stands" in stored.results[0].scores[0].detail
    # A judge that is set judges where no measure is named.
    default = judging.evaluated("", "judge.model=URL#judge")
    names = [summary.measure for summary in default.summaries]
    assert names == ["Faithfulness", "AnswerRelevance", "ContextRelevance"]
    (note,) = default.notes
    assert "KPrecision(content+bigrams) (the judged Faithfulness is used)" in note
    assert "(no row has reference)" in note


def test_an_unusable_judgment_is_invalid_and_lowers_coverage(judging: Judging) -> None:
    summary = judging.evaluated("Faithfulness", "judge.model=URL#vague")["Faithfulness"]
    assert (summary.n, summary.coverage, summary.mean) == (0, 0.0, None)
    assert summary.states["judge_invalid"] == 2
    assert len(judging.asked("vague")) == 4  # one re-ask each


def test_repeats_show_the_judges_own_spread_and_rubrics_are_measures(judging: Judging) -> None:
    found = judging.evaluated("Faithfulness", "judge.model=URL#steady", "judge.repeat=3")
    assert len(judging.asked("steady")) == 6
    assert any("two judgments of one row differ by 0.00" in note for note in found.notes)
    own = judging.evaluated("Rubric(polite)", "judge.model=URL#polite")
    assert own["Rubric(polite)"].mean == 2.0
    assert "Say whether the answer is polite." in judging.asked("polite")[0]


def test_a_missing_judge_or_rubric_is_said_before_the_run(judging: Judging) -> None:
    with pytest.raises(MeasureError):
        judging.evaluated("Faithfulness")
    with pytest.raises((MeasureError, ConfigError)):
        judging.evaluated("Rubric(none)", "judge.model=URL#judge")


def test_a_forecast_of_scoring_is_what_it_then_costs(judging: Judging) -> None:
    address = str(judging.folder / "answers.jsonl")
    with judging.bench("judge.model=URL#dear") as bench:
        ahead = bench.forecast_score(address, "AnswerRelevance")
        assert not judging.asked("dear")
        assert (ahead.calls.low, ahead.calls.expected, ahead.calls.high) == (2, 2, 4)
        bench.score(address, "AnswerRelevance")
        assert len(judging.asked("dear")) == 2
        again = bench.forecast_score(address, "AnswerRelevance")
        assert (again.calls.high, again.reused) == (0, 2)
        free = bench.forecast_score(address, "RejectionRate").calls
    assert (free.exact, free.expected) == (True, 0)


@pytest.mark.parametrize("measure", ["QADistance", "ChunkScore"])
def test_a_forecast_of_distances_is_exact(judging: Judging, measure: str) -> None:
    address, model = str(judging.folder / "answers.jsonl"), f"vectors-{measure}"
    for _ in range(2):  # the second time, vectors of questions are known
        before = len(judging.asked(model))
        with judging.bench(f"judge.embedder=URL#{model}") as bench:
            ahead = bench.forecast_score(address, measure).calls
            assert len(judging.asked(model)) == before
            found, _ = bench.score(address, measure)
        assert ahead.exact
        assert len(judging.asked(model)) - before == ahead.expected
        assert found[measure].n == 2


def test_the_judges_window_is_that_of_its_model(judging: Judging) -> None:
    address, small = str(judging.folder / "answers.jsonl"), "judge.model=URL#small"
    with judging.bench(small, "judge.max_tokens=50") as bench:
        found, _ = bench.score(address, "AnswerRelevance")
    assert not judging.asked("small")
    assert "window of 200" in found.results[0].scores[0].reason
    with judging.bench(small, "judge.max_tokens=50", "judge.window=20000") as bench:
        found, _ = bench.score(address, "AnswerRelevance")
    assert found["AnswerRelevance"].mean == 5.0


def test_rows_that_failed_stay_when_answers_are_judged_again(judging: Judging) -> None:
    with judging.bench("judge.model=URL#judge", "answer.model=URL#writer") as bench:
        first, run = bench.evaluate(str(judging.folder / "set.jsonl"), "Faithfulness", ANSWERS)
        again, second = bench.score(run.run, "Faithfulness")
        third, _ = bench.score(second.run, "AnswerRelevance")
        stored = bench.results(second.run)
    assert first["Faithfulness"].coverage == 0.5
    for found in (again["Faithfulness"], stored["Faithfulness"], third["AnswerRelevance"]):
        assert (found.coverage, found.states) == (0.5, {"scored": 1, "errored": 1})
    assert any("without a score" in note for note in again.notes)


# -- rows of a file --------------------------------------------------------------------------


def lines(count: int, padding: int = 0) -> Iterator[str]:
    for at in range(count):
        row: dict[str, Any] = {"user_input": f"q{at}", "response": "a b" if at % 3 else "a c"}
        row["retrieved_contexts"] = ["a c " + f"{at} x" * (padding // 4)]
        yield json.dumps(row if at % 5 == 0 else {**row, "reference": "a c"}) + "\n"


def rows_file(folder: Path, count: int, padding: int = 0) -> Path:
    path = folder / f"rows-{count}-{padding}.jsonl"
    with path.open("w") as file:
        file.writelines(lines(count, padding))
    return path


def passed_over(_: RowResult) -> None:
    """Hold nothing."""


def test_rows_that_are_not_held_come_to_the_same_numbers(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 40)
    seen: list[RowResult] = []
    held, passed = evaluate(path, MEASURES), evaluate(path, MEASURES, each=seen.append)
    assert passed == replace(held, results=())
    assert tuple(seen) == held.results
    with Workbench.open(MakeProject(tmp_path)()) as bench:
        whole, first = bench.score(str(path), MEASURES)
        streamed, second = bench.score(str(path), MEASURES, each=passed_over)
        assert first.run != second.run
        assert whole.results == held.results == bench.results(second.run).results
        assert (streamed.summaries, streamed.results) == (whole.summaries, ())
        assert streamed.manifest == whole.manifest
        again, _ = bench.score(second.run, MEASURES, each=passed_over)
        assert again.summaries == whole.summaries


def test_a_fault_in_the_last_row_is_told_before_the_first_is_scored(tmp_path: Path) -> None:
    path, empty = tmp_path / "rows.jsonl", tmp_path / "empty.jsonl"
    path.write_text("".join(lines(5)) + '{"user_input": {}}\n')
    seen: list[RowResult] = []
    with pytest.raises(TestsetError, match="user_input is dict"):
        evaluate(path, MEASURES, each=seen.append)
    assert not seen
    empty.write_text("")
    for measures in ("", MEASURES):
        with pytest.raises(TestsetError, match="no rows"):
            evaluate(empty, measures)


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("measures", ["", MEASURES])
def test_memory_does_not_grow_with_the_rows_of_a_file(tmp_path: Path, measures: str) -> None:
    few, many = rows_file(tmp_path, 5, 10_000), rows_file(tmp_path, 40, 10_000)
    evaluate(few, measures, each=passed_over)  # what is loaded once
    small, large = (
        peak(lambda file=file: evaluate(file, measures, each=passed_over))  # type: ignore[misc]
        for file in (few, many)
    )
    assert many.stat().st_size > 370_000
    assert large - small < 120_000


# -- judges and turns ------------------------------------------------------------------------------


def test_a_judge_sees_the_turns_before_a_question() -> None:
    turns = (Turn("user", "Is the fluid changed?"), Turn("assistant", "Every two years."))
    row = Row("r", "And the coolant?", "Every five years.", history=turns)
    with ScriptedServer(says) as server, Runner(model_handlers(Models())) as runner:
        setup, measures = MeasureSetup(model=f"{server.url}#j"), parse_measures("AnswerRelevance")
        for asked in (row, replace(row, history=())):
            runner.run(score_row(asked, measures, setup))
    told = ["assistant: Every two years." in request.prompt for request in server.requests]
    assert told == [True, False]
