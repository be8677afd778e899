"""A project's answers judged by a chat model behind HTTP: valid, invalid, repeated, own rubrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.core import ConfigError, MeasureError
from ragwright.testing import Reply, ScriptedServer, ServerRequest

GOOD = json.dumps({"reasoning": "Every claim stands in the passages.", "score": 5})
ROWS = [
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


def judged_project(make: MakeProject, server: ScriptedServer, more: str = "") -> Path:
    folder = make(f"judge: {{model: '{server.url}#judge'{more}}}\n")
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


def test_answers_are_judged_stored_and_not_paid_twice(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        folder = judged_project(MakeProject(tmp_path), server)
        with Workbench.open(folder) as bench:
            bench.ingest()
            how = EvaluationOptions(answers=True)
            found, run = bench.evaluate(str(folder / "set.jsonl"), "Faithfulness", how)
            again, _ = bench.score(run.run, "Faithfulness")
            stored = bench.results(run.run)
    assert found["Faithfulness"].mean == again["Faithfulness"].mean == 5.0
    assert len(server.requests) == 2  # one a row: judging again is answered from the store
    score = stored.results[0].scores[0]
    assert "Every claim stands" in score.detail


def test_an_unusable_judgment_is_invalid_and_lowers_coverage(tmp_path: Path) -> None:
    with ScriptedServer("I would rather not say. 4/5 perhaps.") as server:
        folder = judged_project(MakeProject(tmp_path), server)
        with Workbench.open(folder) as bench:
            bench.ingest()
            found, _ = bench.evaluate(
                str(folder / "set.jsonl"), "Faithfulness", EvaluationOptions(answers=True)
            )
    summary = found["Faithfulness"]
    assert (summary.n, summary.coverage, summary.mean) == (0, 0.0, None)
    assert summary.states["judge_invalid"] == 2
    assert len(server.requests) == 4  # one re-ask each


def test_repeats_show_the_judges_own_spread(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        folder = judged_project(MakeProject(tmp_path), server, ", repeat: 3")
        with Workbench.open(folder) as bench:
            bench.ingest()
            found, _ = bench.evaluate(
                str(folder / "set.jsonl"), "Faithfulness", EvaluationOptions(answers=True)
            )
    assert len(server.requests) == 6
    assert any("two judgments of one row differ by 0.00" in note for note in found.notes)


def test_a_projects_own_rubric_is_a_measure(tmp_path: Path) -> None:
    with ScriptedServer(json.dumps({"reasoning": "Kind.", "score": 2})) as server:
        folder = judged_project(MakeProject(tmp_path), server)
        (folder / "rubrics").mkdir()
        (folder / "rubrics" / "polite.yaml").write_text(RUBRIC)
        with Workbench.open(folder) as bench:
            bench.ingest()
            how = EvaluationOptions(answers=True)
            found, _ = bench.evaluate(str(folder / "set.jsonl"), "Rubric(polite)", how)
    assert found["Rubric(polite)"].mean == 2.0
    assert "Say whether the answer is polite." in json.dumps(server.requests[0].body)


def test_a_missing_judge_or_rubric_is_said_before_the_run(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    with Workbench.open(folder) as bench:
        bench.ingest()
        how = EvaluationOptions(answers=True)
        with pytest.raises(MeasureError):
            bench.evaluate(str(folder / "set.jsonl"), "Faithfulness", how)
        with pytest.raises((MeasureError, ConfigError)):
            bench.evaluate(str(folder / "set.jsonl"), "Rubric(none)", how)


def test_a_forecast_of_scoring_is_what_it_then_costs(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        folder = judged_project(MakeProject(tmp_path), server)
        rows = [row | {"response": f"Every {row['id']} years."} for row in ROWS]
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
        address = str(folder / "answers.jsonl")
        with Workbench.open(folder) as bench:
            ahead = bench.forecast_score(address, "AnswerRelevance")
            assert not server.requests
            assert (ahead.calls.low, ahead.calls.expected, ahead.calls.high) == (2, 2, 4)
            bench.score(address, "AnswerRelevance")
            assert len(server.requests) == ahead.calls.expected
            again = bench.forecast_score(address, "AnswerRelevance")
            assert (again.calls.high, again.reused) == (0, 2)
            free = bench.forecast_score(address, "RejectionRate")
    assert free.calls.exact
    assert free.calls.expected == 0


def test_the_judges_window_is_that_of_its_model(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        name = f"{server.url}#judge"
        folder = MakeProject(tmp_path)(
            f"judge: {{model: '{name}', max_tokens: 50}}\n"
            f"models: {{'{name}': {{context_window: 200}}}}\n"
        )
        row = ROWS[0] | {"response": "Every two years."}
        (folder / "answers.jsonl").write_text(json.dumps(row))
        address = str(folder / "answers.jsonl")
        with Workbench.open(folder) as bench:
            found, _ = bench.score(address, "AnswerRelevance")
        assert not server.requests
        assert "window of 200" in found.results[0].scores[0].reason
        with Workbench.open(folder, Session(("judge.window=20000",))) as bench:
            found, _ = bench.score(address, "AnswerRelevance")
    assert found["AnswerRelevance"].mean == 5.0


def test_a_judge_that_is_set_judges_where_no_measure_is_named(tmp_path: Path) -> None:
    with ScriptedServer(GOOD) as server:
        folder = judged_project(MakeProject(tmp_path), server)
        with Workbench.open(folder) as bench:
            bench.ingest()
            how = EvaluationOptions(answers=True)
            found, _ = bench.evaluate(str(folder / "set.jsonl"), "", how)
    names = [summary.measure for summary in found.summaries]
    assert names == ["Faithfulness", "AnswerRelevance", "ContextRelevance"]
    (note,) = found.notes
    assert "KPrecision(content+bigrams) (the judged Faithfulness is used)" in note
    assert "(no row has reference)" in note


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["QADistance", "ChunkScore"])
def test_where_nothing_branches_a_forecast_of_scoring_is_exact(
    tmp_path: Path, measure: str
) -> None:
    with ScriptedServer("-") as server:
        folder = MakeProject(tmp_path)(f"judge: {{embedder: '{server.url}#vectors'}}\n")
        rows = [
            row | {"response": f"Every {at} years.", "retrieved_contexts": [f"Passage {at}.", "x"]}
            for at, row in enumerate(ROWS)
        ]
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
        address = str(folder / "answers.jsonl")
        for _ in range(2):  # the second time, vectors of questions are known
            before = len(server.requests)
            with Workbench.open(folder) as bench:
                ahead = bench.forecast_score(address, measure).calls
                assert len(server.requests) == before
                found, _ = bench.score(address, measure)
            assert ahead.exact
            assert len(server.requests) - before == ahead.expected
            assert found[measure].n == 2


def test_rows_that_failed_stay_among_the_others_when_answers_are_judged_again(
    tmp_path: Path,
) -> None:
    def script(request: ServerRequest) -> Reply | str:
        if request.body["model"] == "judge":
            return GOOD
        failing = "coolant be changed?" in json.dumps(request.body)
        return Reply(status=400, error="no") if failing else "Every two years [1]."

    with ScriptedServer(script) as server:
        more = f"answer: {{model: '{server.url}#writer'}}\n"
        folder = MakeProject(tmp_path)(f"judge: {{model: '{server.url}#judge'}}\n{more}")
        (folder / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
        with Workbench.open(folder) as bench:
            bench.ingest()
            first, run = bench.evaluate(
                str(folder / "set.jsonl"), "Faithfulness", EvaluationOptions(answers=True)
            )
            again, second = bench.score(run.run, "Faithfulness")
            third, _ = bench.score(second.run, "AnswerRelevance")
            stored = bench.results(second.run)
    assert first["Faithfulness"].coverage == 0.5
    for found in (again["Faithfulness"], stored["Faithfulness"], third["AnswerRelevance"]):
        assert (found.coverage, found.states) == (0.5, {"scored": 1, "errored": 1})
    assert any("without a score" in note for note in again.notes)
