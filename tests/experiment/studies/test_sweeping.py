"""Sweeps of a small project: what is run, shared, stored and taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, RagwrightError, RetrieveError, StoreError, StudyError
from ragwright.experiment import SweepOptions, SweepResult, load_trials, read_study
from ragwright.project import Session
from ragwright.testing import ScriptedServer, ServerRequest

ROWS = [
    {
        "id": f"q{n}",
        "user_input": question,
        "reference": reference,
        "reference_ids": [f"docs/{document}"],
        "split": split,
    }
    for n, (question, reference, document, split) in enumerate(
        [
            ("How often must the brake fluid be changed?", "every two years", "service.md", "tune"),
            ("How often must the coolant be changed?", "every five years", "service.md", "tune"),
            ("When is the oil filter changed?", "every 15,000 kilometres", "service.md", "tune"),
            ("What does APP_w304 mean?", "two different positions", "codes.md", "confirm"),
        ]
    )
]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def reply(request: ServerRequest) -> str:
        return f"{request.prompt[-40:]} [1]"

    with ScriptedServer(reply) as scripted:
        yield scripted


def project(make: MakeProject, study: str, settings: str = "") -> Path:
    folder = make(settings)
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (folder / "s.yaml").write_text(
        f"study: {{testset: '{folder / 'set.jsonl'}', measures: 'TokenF1, KPrecision'}}\n{study}"
    )
    return folder


def swept(folder: Path, session: Session | None = None) -> SweepResult:
    with Workbench.open(folder, session) as bench:
        bench.ingest()
        return bench.sweep(read_study(bench.project, folder / "s.yaml"))


def test_every_combination_and_the_project_itself_on_the_tune_split(tmp_path: Path) -> None:
    study = "chunk: {size: [12, 40], overlap: 4}\nretrieve: {top_k: [1, 2]}\n"
    folder = project(MakeProject(tmp_path), study)
    found = swept(folder)
    assert [trial.number for trial in found.trials] == [0, 1, 2, 3, 4]
    assert [dict(trial.values) for trial in found.trials[:3]] == [
        {},
        {"chunk.size": 12, "retrieve.top_k": 1},
        {"chunk.size": 12, "retrieve.top_k": 2},
    ]
    assert all(trial.state == "done" and trial.rows == 3 for trial in found.trials)
    assert all(trial.facts["context_tokens"] > 0 for trial in found.trials)
    assert found.trials[1].facts["context_tokens"] < found.trials[4].facts["context_tokens"]
    assert not (folder / "testsets" / "openings.jsonl").exists()
    with Workbench.open(folder) as bench:
        assert load_trials(bench.project, found.run) == found.trials
        rows = {row.id for row in bench.project.runs.rows(found.trials[1].run)}
    assert rows == {"q0", "q1", "q2"}
    best = found.board[0].value("TokenF1")
    assert best == max(trial.value("TokenF1") for trial in found.trials)  # type: ignore[type-var]


@pytest.mark.slow
def test_a_second_sweep_runs_nothing_and_another_study_shares_its_trials(
    tmp_path: Path, server: ScriptedServer
) -> None:
    settings = f"answer: {{model: '{server.url}#m'}}\nchunk: {{size: 12, overlap: 0}}\n"
    study = "retrieve: {top_k: [1, 2]}\nprompt: {without: [[], [role]]}\n"
    folder = project(MakeProject(tmp_path), study, settings)
    first = swept(folder)
    asked = len(server.requests)
    assert asked == len({json.dumps(request.body) for request in server.requests})
    again = swept(folder)
    assert (again.run, again.trials) == (first.run, first.trials)
    text = (folder / "s.yaml").read_text().replace("[1, 2]", "[1, 2, 3]")
    (folder / "t.yaml").write_text(text)
    with Workbench.open(folder) as bench:
        wider = bench.sweep(read_study(bench.project, folder / "t.yaml"))
    assert len(wider.trials) == 7
    shared = {trial.run for trial in first.trials} & {trial.run for trial in wider.trials}
    assert len(shared) == len({trial.run for trial in first.trials})
    assert len(server.requests) > asked


def test_values_that_do_not_go_together_are_said_and_cost_nothing(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "chunk: {size: [12, 40], overlap: [0, 20]}\n")
    found = swept(folder)
    wrong = [trial for trial in found.trials if trial.state == "invalid"]
    assert [dict(trial.values) for trial in wrong] == [{"chunk.size": 12, "chunk.overlap": 20}]
    assert "overlap" in wrong[0].reason
    assert len(found.board) == 4


def test_a_value_that_no_key_takes_is_refused_with_file_and_line(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve:\n  top_k: [3, none]\n")
    with Workbench.open(folder) as bench, pytest.raises(ConfigError) as caught:
        read_study(bench.project, folder / "s.yaml")
    assert caught.value.where == f"{folder / 's.yaml'}:3"


def test_a_budget_stops_a_sweep_and_the_next_one_goes_on(
    tmp_path: Path, server: ScriptedServer
) -> None:
    model = f"{server.url}#m"
    settings = (
        f"answer: {{model: '{model}', max_tokens: 10}}\n"
        f"models: {{'{model}': {{price_in: 0, price_out: 100000, concurrency: 1}}}}\n"
    )
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2, 3]}\n", settings)
    part = swept(folder, Session(max_cost=4.0))
    assert part.stopped is not None
    assert {trial.state for trial in part.trials} >= {"skipped"}
    whole = swept(folder)
    assert whole.run == part.run
    assert whole.stopped is None
    assert all(trial.state == "done" for trial in whole.trials)
    with Workbench.open(folder) as bench:
        assert load_trials(bench.project, whole.run) == whole.trials


def test_two_families_of_models_share_the_store(tmp_path: Path, server: ScriptedServer) -> None:
    embed = "embed: {query_prefix: ['', 'query: ']}\n"
    folder = project(
        MakeProject(tmp_path), embed, f"embed: {{model: '{server.url}#e', dimensions: 8}}\n"
    )
    found = swept(folder)
    assert [trial.state for trial in found.trials] == ["done"] * 3


def test_without_an_index_or_with_an_unknown_objective_nothing_is_run(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2]}\n")
    with Workbench.open(folder) as bench:
        study = read_study(bench.project, folder / "s.yaml")
        with pytest.raises(RetrieveError):
            bench.sweep(study)
    text = (folder / "s.yaml").read_text().replace("KPrecision'", "KPrecision', objective: nDCG@3")
    (folder / "s.yaml").write_text(text)
    with pytest.raises(StudyError, match="'nDCG@3' is not measured"):
        swept(folder)


def test_trials_are_told_as_they_end(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2]}\n")
    ended: list[int] = []
    with Workbench.open(folder) as bench:
        bench.ingest()
        study = read_study(bench.project, folder / "s.yaml")
        bench.sweep(study, SweepOptions(on_trial=lambda trial: ended.append(trial.number)))
    assert sorted(ended) == [0, 1, 2]


def with_options(folder: Path, more: str) -> None:
    text = (folder / "s.yaml").read_text()
    (folder / "s.yaml").write_text(text.replace("KPrecision'", f"KPrecision', {more}"))


def test_successive_halving_drops_the_weaker_trials_and_keeps_the_project(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2]}\nchunk: {size: [60, 90]}\n")
    with_options(folder, "rungs: [1, 2], keep: 0.5")
    found = swept(folder)
    dropped = [trial for trial in found.trials if trial.state == "dropped"]
    assert sorted(trial.rows for trial in dropped) == [1, 1, 2]
    assert all("not among the better 50%" in trial.reason for trial in dropped)
    assert {trial.number: trial.rows for trial in found.trials if trial.state == "done"}[0] == 3
    assert len(found.board) == 2
    again = swept(folder)
    assert (again.run, again.trials) == (found.run, found.trials)


def test_several_judges_are_shown_and_one_of_them_ranks(tmp_path: Path) -> None:
    def judged(request: ServerRequest) -> str:
        score = 5 if request.body["model"] == "kind" else 2
        return json.dumps({"reasoning": "It is as it is.", "score": score})

    with ScriptedServer(judged) as server:
        study = (
            "retrieve: {top_k: [1, 2]}\n"
            f"judge: {{model: ['{server.url}#strict', '{server.url}#kind']}}\n"
        )
        folder = project(MakeProject(tmp_path), study, "chunk: {size: 12, overlap: 0}\n")
        text = (folder / "s.yaml").read_text().replace("TokenF1, KPrecision", "AnswerRelevance")
        (folder / "s.yaml").write_text(text)
        found = swept(folder)
    assert [trial.value("AnswerRelevance") for trial in found.trials] == [2, 2, 5, 2, 5]
    assert {trial.number for trial in found.board} == {0, 1, 3}


@pytest.mark.slow
def test_tpe_asks_in_batches_repeats_and_finds_what_the_grid_finds(tmp_path: Path) -> None:
    study = "retrieve: {top_k: [1, 2, 3], keyword_share: {low: 0, high: 1}}\n"
    folder = project(MakeProject(tmp_path), study, "chunk: {size: 12, overlap: 0}\n")
    with_options(folder, "search: tpe, trials: 12, batch: 4, seed: 3")
    found = swept(folder)
    assert len(found.trials) == 13
    assert len({json.dumps(dict(trial.values)) for trial in found.trials}) == 13
    other = project(MakeProject(tmp_path / "b"), study, "chunk: {size: 12, overlap: 0}\n")
    with_options(other, "search: tpe, trials: 12, batch: 4, seed: 3")
    repeated = swept(other)
    assert [t.values for t in repeated.trials] == [t.values for t in found.trials]
    assert found.board[0].value("TokenF1") == max(
        trial.value("TokenF1") or 0 for trial in found.trials
    )


def test_tpe_ends_where_every_point_was_run(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2, 3]}\n")
    with_options(folder, "search: tpe, trials: 30, batch: 2")
    found = swept(folder)
    assert sorted(dict(t.values)["retrieve.top_k"] for t in found.trials[1:]) == [1, 2, 3]


def test_several_objectives_show_the_front(tmp_path: Path) -> None:
    folder = project(
        MakeProject(tmp_path), "retrieve: {top_k: [1, 2, 4]}\n", "chunk: {size: 12, overlap: 0}\n"
    )
    with_options(folder, "objective: [KPrecision, context_tokens]")
    found = swept(folder)
    cheapest = min(found.trials, key=lambda trial: trial.facts["context_tokens"])
    assert cheapest.number in {trial.number for trial in found.front}
    for trial in found.front:
        for other in found.trials:
            pair = [
                (t.value("KPrecision") or 0, -t.facts["context_tokens"]) for t in (other, trial)
            ]
            assert not (pair[0] != pair[1] and all(a >= b for a, b in zip(*pair, strict=True)))


def test_a_judge_that_the_study_sets_judges_the_project_too(tmp_path: Path) -> None:
    def judged(request: ServerRequest) -> str:
        score = 5 if request.body["model"] == "kind" else 2
        return json.dumps({"reasoning": "It is as it is.", "score": score})

    with ScriptedServer(judged) as server:
        study = f"retrieve: {{top_k: [1, 2]}}\njudge: {{model: '{server.url}#kind'}}\n"
        settings = f"chunk: {{size: 12, overlap: 0}}\njudge: {{model: '{server.url}#strict'}}\n"
        folder = project(MakeProject(tmp_path), study, settings)
        text = (folder / "s.yaml").read_text().replace("TokenF1, KPrecision", "AnswerRelevance")
        (folder / "s.yaml").write_text(text)
        found = swept(folder)
    assert [trial.value("AnswerRelevance") for trial in found.trials] == [5, 5, 5]


def test_one_budget_holds_for_all_families_of_models(
    tmp_path: Path, server: ScriptedServer
) -> None:
    model = f"{server.url}#m"
    settings = (
        f"answer: {{model: '{model}', max_tokens: 10}}\n"
        f"embed: {{model: '{server.url}#e', dimensions: 8}}\n"
        f"models: {{'{model}': {{price_out: 100000, concurrency: 1}}}}\n"
        "chunk: {size: 12, overlap: 0}\n"
    )
    prefixes = [f"query {n}: " for n in range(6)]
    study = f"embed: {{query_prefix: {json.dumps(prefixes)}}}\nretrieve: {{top_k: [1, 2, 3]}}\n"
    folder = project(MakeProject(tmp_path), study, settings)
    with Workbench.open(folder, Session(max_cost=6.0)) as bench:
        bench.ingest()
        found = bench.sweep(read_study(bench.project, folder / "s.yaml"))
        assert bench.project.budget.spent <= 6.0
    assert found.stopped is not None
    assert {trial.state for trial in found.trials} <= {"done", "skipped"}


def test_an_index_that_cannot_be_built_costs_its_own_trials_only(
    tmp_path: Path, server: ScriptedServer
) -> None:
    study = f"embed: {{model: ['{server.url}#e', 'http://127.0.0.1:9/v1#gone']}}\n"
    folder = project(MakeProject(tmp_path), study)
    found = swept(folder)
    assert [trial.state for trial in found.trials] == ["done", "done", "errored"]
    assert found.trials[2].reason
    assert found.stopped is None


def test_a_trial_of_the_current_settings_is_no_candidate_and_is_not_run(
    tmp_path: Path, server: ScriptedServer
) -> None:
    settings = f"answer: {{model: '{server.url}#m'}}\nretrieve: {{top_k: 2}}\n"
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2, 3]}\n", settings)
    found = swept(folder, Session(reuse=False))
    assert [trial.state for trial in found.trials] == ["done", "done", "same", "done"]
    assert found.selection is not None
    assert found.selection.candidates == 2
    assert {trial.id for trial in found.board} == {"T000", "T001", "T003"}
    assert len(server.requests) <= 9, "three settings for three questions"
    with Workbench.open(folder) as bench:
        assert bench.results("T002").name == found.trials[0].run


def test_trials_are_runs_that_can_be_named(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2]}\n")
    found = swept(folder)
    with Workbench.open(folder) as bench:
        assert bench.results("T001").name == found.trials[1].run
        assert bench.results(f"{found.run}:T002").name == found.trials[2].run
        with pytest.raises(StoreError, match="no rows of T009"):
            bench.results("T009")


@pytest.mark.parametrize(
    ("study", "what", "line"),
    [
        ("prompt:\n  without: [[], [nonsense]]\n", "nonsense", 3),
        ("prompt:\n  preset: [complete, no_context]\n", "no_context", 3),
        ("answer:\n  persona: [engineer, nobody]\n", "nobody", 3),
        ("chunk:\n  size: [20, 60]\n", "overlap", 3),
    ],
)
def test_values_that_name_nothing_are_refused_with_their_line(
    tmp_path: Path, study: str, what: str, line: int
) -> None:
    folder = project(MakeProject(tmp_path), study)
    with Workbench.open(folder) as bench, pytest.raises(RagwrightError) as caught:
        read_study(bench.project, folder / "s.yaml")
    assert what in caught.value.what
    assert caught.value.where == f"{folder / 's.yaml'}:{line}"


def test_a_testset_is_looked_for_in_the_projects_folder_too(tmp_path: Path) -> None:
    folder = project(MakeProject(tmp_path), "retrieve: {top_k: [1, 2]}\n")
    text = (folder / "s.yaml").read_text().replace(str(folder / "set.jsonl"), "set.jsonl")
    (folder / "s.yaml").write_text(text)
    assert len(swept(folder).board) == 3  # wherever the command was called


@pytest.mark.slow
def test_chunk_scores_are_kept_where_the_embedding_model_is_swept(
    tmp_path: Path, server: ScriptedServer
) -> None:
    models = [f"{server.url}#one", f"{server.url}#two"]
    study = f"embed: {{model: {json.dumps(['', *models])}}}\n"
    folder = project(MakeProject(tmp_path), study)  # itself without vectors
    file = folder / "s.yaml"
    file.write_text(file.read_text().replace("TokenF1, KPrecision", "TokenF1, ChunkScore"))
    found = swept(folder)
    assert [trial.state for trial in found.trials] == ["done", "same", "done", "done"]
    scores = {
        trial.values.get("embed.model", ""): trial.value("ChunkScore") for trial in found.trials
    }
    assert scores[""] is None
    for model in models:
        score = scores[model]
        assert score is not None
        assert -1 <= score <= 1
    assert any("trials of one model only" in note for note in found.notes)
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_sweep(read_study(bench.project, file))
    assert forecast.trials == 4
