"""Confirming a sweep's winner: once, in writing, against the project as it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import StoreError, StudyError
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.workbench import Confirmed, Confirming, confirm, read_study, run_sweep


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
        run_sweep(bench, read_study(bench, folder / "s.yaml"))
    return folder


def confirmed(folder: Path, name: str = "latest", how: Confirming | None = None) -> Confirmed:
    with Workbench.open(folder) as bench:
        return confirm(bench, name, how)


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
        more = confirmed(folder, how=Confirming(top=2))
        assert more.verdict.confirmations[0].trial == "T002"
        assert more.verdict.openings == 2
        assert any("opened" in note for note in more.verdict.notes)


def test_a_project_that_changed_since_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        file = folder / "ragwright.yaml"
        file.write_text(file.read_text() + "retrieve: {top_k: 2}\n")
        with pytest.raises(StudyError, match="changed since the sweep"):
            confirmed(folder)
    assert not (folder / "testsets" / "openings.jsonl").exists()


def test_where_nothing_leads_the_split_stays_closed(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: "always the same [1]") as server:
        folder = project(MakeProject(tmp_path), server)
        found = confirmed(folder)
    assert not found.verdict.confirmations
    assert "None of" in found.verdict.text
    assert not (folder / "testsets" / "openings.jsonl").exists()


def test_an_unknown_sweep_names_those_there_are(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        folder = project(MakeProject(tmp_path), server)
        with pytest.raises(StoreError, match="there is no sweep 'nobody'") as caught:
            confirmed(folder, "nobody")
    assert "the last sweeps: 2" in (caught.value.hint or "")
