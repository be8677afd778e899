"""Confirm a sweep's winner: once, in writing, against the project as it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import EvaluationOptions, Workbench
from ragwright.core import BudgetStopped, StoreError, StudyError
from ragwright.experiment import (
    ConfirmOptions,
    ConfirmResult,
    load_trials,
    read_study,
)
from ragwright.project import Session
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Openings, load_testset


def questions(count: int) -> str:
    rows = [
        {
            "id": f"q{n}",
            "user_input": f"How often must the brake fluid be changed, {n}?",
            "reference": "every two years",
            "split": "tune" if n % 2 else "confirm",
        }
        for n in range(count)
    ]
    return "\n".join(map(json.dumps, rows))


def answer(request: ServerRequest) -> str:
    """Better with the role in the prompt, on every other question."""
    system = str(request.body["messages"][0]["content"])
    asked = request.prompt.rpartition("changed, ")[2]
    number = int(asked.partition("?")[0])
    good = "PLAIN" in system and number % 4 < 3
    return f"every two years, no {number} [1]" if good else f"I think it is {number} or so [1]"


def project(make: MakeProject, server: ScriptedServer) -> Path:
    folder = make(f"answer: {{model: '{server.url}#m'}}\n")
    (folder / "set.jsonl").write_text(questions(40))
    (folder / "s.yaml").write_text(
        f"study: {{testset: '{folder / 'set.jsonl'}', measures: TokenF1}}\n"
        "prompt: {replace: [{}, {role: PLAIN words only.}, {role: WILD words only.}]}\n"
    )
    with Workbench.open(folder) as bench:
        bench.ingest()
        bench.sweep(read_study(bench.project, folder / "s.yaml"))
    return folder


def confirmed(
    folder: Path, name: str = "latest", how: ConfirmOptions | None = None
) -> ConfirmResult:
    with Workbench.open(folder) as bench:
        return bench.confirm(name, how)


@pytest.mark.slow
def test_a_winner_is_confirmed_once_and_only_shown_again_after_that(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        log = folder / "testsets" / "openings.jsonl"
        assert not log.exists()
        found = confirmed(folder)
        [one] = found.verdict.confirmations
        assert (one.trial, one.outcome) == ("T002", "better")
        assert one.values == {"prompt.replace": {"role": "PLAIN words only."}}
        assert one.confirmed is not None
        assert one.confirmed.n == 20
        assert found.verdict.openings == 1
        asked = len(server.requests)
        again = confirmed(folder, "s")
        assert again.again
        assert again.verdict == found.verdict
        assert len(server.requests) == asked
        assert len(log.read_text().splitlines()) == 1
        more = confirmed(folder, how=ConfirmOptions(top=2))
        assert more.verdict.confirmations[0].trial == "T002"
        assert more.verdict.openings == 2
        assert any("opened" in note for note in more.verdict.notes)


@pytest.mark.slow
def test_the_least_provable_gain_is_said_before_the_split_is_opened(tmp_path: Path) -> None:
    with (
        ScriptedServer(answer) as server,
        Workbench.open(project(MakeProject(tmp_path), server)) as bench,
    ):
        log, said = bench.project.folder.openings, []
        ahead: list[str] = []
        bench.forecast_confirm(told=ahead.append)
        found = bench.confirm(told=lambda text: said.append((text, log.exists())))
        [(text, opened)] = said
        assert not opened
        assert text.startswith("least provable gain: about 0.")
        assert "of TokenF1 (0-1) on 20 held-out questions; a smaller one will " in text
        assert [text] == ahead, "a dry run says it, too"
        assert text in found.verdict.notes
        bench.confirm(told=lambda text: said.append((text, True)))
        assert len(said) == 1, "a stored result opens nothing"
        assert found.verdict.confirmations[0].confirmed is not None
        smallest = found.verdict.confirmations[0].confirmed.smallest
        assert float(text.split()[4]) == pytest.approx(smallest, abs=0.1)


@pytest.mark.slow
def test_a_project_that_changed_since_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        file = folder / "ragwright.yaml"
        file.write_text(file.read_text() + "retrieve: {top_k: 2}\n")
        with pytest.raises(StudyError, match="changed since the sweep"):
            confirmed(folder)
    assert not (folder / "testsets" / "openings.jsonl").exists()


@pytest.mark.slow
def test_a_budget_or_a_pace_that_changed_since_is_no_other_project(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        file = folder / "ragwright.yaml"
        text = f"budget: {{concurrency: 3}}\nmodels: {{'{server.url}#m': {{price_in: 1}}}}\n"
        file.write_text(file.read_text() + text)
        assert confirmed(folder).verdict.openings == 1


@pytest.mark.slow
def test_documents_that_changed_since_are_another_index(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        (folder / "docs" / "service.md").write_text("# Plan\n\nThe brake fluid lasts.\n")
        with Workbench.open(folder) as bench:
            first = bench.project.runs.list("sweep")[-1].id
            bench.ingest()
            with pytest.raises(StudyError, match="its index"):
                bench.confirm("latest")
            again = bench.sweep(read_study(bench.project, folder / "s.yaml"))
            assert again.run != first
            assert load_trials(bench.project, again.run) == again.trials
            assert bench.confirm("latest").study.name == "s"


@pytest.mark.slow
def test_rows_that_picked_are_no_rows_to_confirm_on(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        file = folder / "set.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        more = [dict(row, id=f"again {row['id']}", split="confirm") for row in rows[1:9:2]]
        file.write_text("\n".join(map(json.dumps, [*rows, *more])))
        found = confirmed(folder)
        [one] = found.verdict.confirmations
        assert one.confirmed is not None
        assert one.confirmed.n == 20
        assert (
            "4 of 24 rows of the confirm split were also used to choose the winner: left out"
            in (found.verdict.notes)
        )


@pytest.mark.slow
def test_openings_of_other_versions_and_earlier_evaluations_count(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        once = confirmed(folder).verdict
        file = folder / "set.jsonl"
        with Workbench.open(folder) as bench:
            rows = load_testset(
                str(file), split="all", openings=Openings(tmp_path / "log.jsonl", "a test")
            )
            bench.evaluate(rows, "TokenF1", EvaluationOptions(answers=True))
        file.write_text(file.read_text().replace("changed, 0?", "changed then, 0?"))
        twice = confirmed(folder).verdict
        assert (once.openings, twice.openings) == (1, 2)
        assert once.confirmations[0].p is not None
        assert twice.confirmations[0].p is not None
        assert twice.confirmations[0].p > once.confirmations[0].p
        assert any("1 evaluations of the whole testset, the first" in note for note in twice.notes)


@pytest.mark.slow
def test_a_confirmation_that_was_cut_off_goes_on_with_its_opening(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        model = f"{server.url}#m"
        folder = project(MakeProject(tmp_path), server)
        file = folder / "ragwright.yaml"
        file.write_text(
            file.read_text() + f"models: {{'{model}': {{price_in: 0, price_out: 1000}}}}\n"
        )
        with (
            Workbench.open(folder, Session(max_cost=1e-9)) as bench,
            pytest.raises(BudgetStopped),
        ):
            bench.confirm("latest")
        found = confirmed(folder)
        log = folder / "testsets" / "openings.jsonl"
        assert len(log.read_text().splitlines()) == 1
        assert found.verdict.openings == 1
        assert not found.again


@pytest.mark.slow
def test_the_latest_sweep_is_the_one_that_was_last_run_through(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        (folder / "t.yaml").write_text(
            (folder / "s.yaml").read_text().replace("WILD words", "VERY WILD words")
        )
        with Workbench.open(folder) as bench:
            bench.sweep(read_study(bench.project, folder / "t.yaml"))
            bench.sweep(read_study(bench.project, folder / "s.yaml"))
            assert bench.confirm("latest").study.name == "s"


@pytest.mark.slow
def test_where_nothing_leads_the_split_stays_closed(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: "always the same [1]") as server:
        folder = project(MakeProject(tmp_path), server)
        found = confirmed(folder)
    assert not found.verdict.confirmations
    assert "None of" in found.verdict.text
    assert not (folder / "testsets" / "openings.jsonl").exists()


@pytest.mark.slow
def test_an_unknown_sweep_names_those_there_are(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        with pytest.raises(StoreError, match="unknown sweep 'nobody'") as caught:
            confirmed(folder, "nobody")
    assert "the last sweeps: 2" in (caught.value.hint or "")
