"""Dry runs of sweeps: the calls they foretell are the calls that are made."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import RetrieveError
from ragwright.experiment import SweepForecast, read_study
from ragwright.testing import ScriptedServer, ServerRequest

TEXT = " ".join(
    f"## Part {n}\n\nThe part {n} is changed every {n + 2} years, and it weighs {3 * n} grams. "
    f"Whoever changes part {n} writes the date {n} into the book.\n\n"
    for n in range(12)
)
ROWS = "\n".join(
    json.dumps({"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"{n}"})
    for n in range(9)
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def reply(request: ServerRequest) -> str:
        if request.body["model"] == "judge":
            return json.dumps({"reasoning": "It is direct.", "score": 4})
        return f"Every {zlib.crc32(json.dumps(request.body).encode())} years [1]."

    with ScriptedServer(reply) as scripted:
        yield scripted


def project(make: MakeProject, server: ScriptedServer, study: str, settings: str = "") -> Path:
    folder = make(f"answer: {{model: '{server.url}#m'}}\n{settings}", **{"parts.md": TEXT})
    (folder / "set.jsonl").write_text(ROWS)
    (folder / "s.yaml").write_text(study.replace("SET", str(folder / "set.jsonl")))
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def told(folder: Path) -> SweepForecast:
    with Workbench.open(folder) as bench:
        return bench.forecast_sweep(read_study(bench.project, folder / "s.yaml"))


def run(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        bench.sweep(read_study(bench.project, folder / "s.yaml"))


SIZES = "chunk: {size: [20, 40, 80], overlap: 0}\nretrieve: {top_k: [1, 2, 4]}\n"
PROMPTS = "prompt: {without: [[], [role], [question]]}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "settings"),
    [
        (f"study: {{testset: SET, measures: TokenF1, limit: 3}}\n{SIZES}{PROMPTS}", ""),
        (
            f"study: {{testset: SET, measures: TokenF1, rungs: [2, 4]}}\n{SIZES}",
            "chunk: {size: 60, overlap: 0}\n",
        ),
        (f"study: {{testset: SET, measures: TokenF1}}\n{SIZES}", "EMBED"),
    ],
)
def test_the_calls_foretold_are_the_calls_made(
    tmp_path: Path, server: ScriptedServer, study: str, settings: str
) -> None:
    settings = settings.replace("EMBED", f"embed: {{model: '{server.url}#e'}}\n")
    folder = project(MakeProject(tmp_path), server, study, settings)
    before = len(server.requests)
    forecast = told(folder)
    assert len(server.requests) == before  # a dry run asks nobody
    with Workbench.open(folder) as bench:
        assert len(bench.project.store.index_specs()) == 1  # and writes nothing
    run(folder)
    made = len(server.requests) - before
    assert forecast.forecast.calls.exact
    assert forecast.forecast.calls.expected == pytest.approx(made, rel=0.05)
    if "rungs" not in study and not settings:
        assert forecast.forecast.calls.expected == made
    again = told(folder)
    assert again.indexes == 0
    if "rungs" not in study:
        assert again.forecast.calls.expected == 0  # everything is known now


@pytest.mark.slow
def test_judging_branches_and_the_range_holds_what_is_made(
    tmp_path: Path, server: ScriptedServer
) -> None:
    study = "study: {testset: SET, measures: AnswerRelevance}\nretrieve: {top_k: [1, 2]}\n"
    settings = f"judge: {{model: '{server.url}#judge'}}\nchunk: {{size: 20, overlap: 0}}\n"
    folder = project(MakeProject(tmp_path), server, study, settings)
    forecast = told(folder).forecast
    run(folder)
    assert forecast.calls.low <= len(server.requests) <= forecast.calls.high


def test_a_search_that_learns_is_foretold_by_stand_ins(
    tmp_path: Path, server: ScriptedServer
) -> None:
    study = (
        "study: {testset: SET, measures: TokenF1, search: tpe, trials: 6}\n"
        "retrieve: {top_k: {low: 1, high: 9}}\nchunk: {size: [20, 40], overlap: [0, 30]}\n"
    )
    folder = project(MakeProject(tmp_path), server, study)
    found = told(folder)
    assert found.trials + found.invalid == 7
    assert any("random points replace those" in note for note in found.notes)
    assert found.forecast.calls.expected > 0


def test_nothing_is_foretold_without_an_index(tmp_path: Path, server: ScriptedServer) -> None:
    study = "study: {testset: SET, measures: TokenF1}\nretrieve: {top_k: [1, 2]}\n"
    folder = MakeProject(tmp_path)(f"answer: {{model: '{server.url}#m'}}\n")
    (folder / "set.jsonl").write_text(ROWS)
    (folder / "s.yaml").write_text(study.replace("SET", str(folder / "set.jsonl")))
    with pytest.raises(RetrieveError, match="nothing is indexed"):
        told(folder)


def many_rows(folder: Path, count: int) -> None:
    """Rows that ask of other parts in other words, each for an engineer."""
    lines = [
        {
            "id": f"q{n}",
            "user_input": f"When is part {n % 12} changed, in book {n}?",
            "reference": f"{n}",
            "persona_name": "engineer",
        }
        for n in range(count)
    ]
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.slow
def test_a_large_study_is_estimated_from_a_sample_of_its_rows(
    tmp_path: Path, server: ScriptedServer
) -> None:
    study = f"study: {{testset: SET, measures: AnswerRelevance, limit: 20}}\n{SIZES}"
    folder = project(
        MakeProject(tmp_path), server, study, f"judge: {{model: '{server.url}#judge'}}\n"
    )
    many_rows(folder, 40)
    found = told(folder)
    assert any("1 of 20 rows, every trial" in note for note in found.notes)
    run(folder)
    made = len(server.requests)
    assert found.forecast.calls.expected == pytest.approx(made, rel=0.2)
    assert found.forecast.calls.low <= made <= found.forecast.calls.high
    assert told(folder).forecast.calls.high == 0  # everything is known now
    # rows that no run has seen are a group of their own
    file = folder / "s.yaml"
    file.write_text(file.read_text().replace("limit: 20", "limit: 30"))
    more = told(folder).forecast.calls
    run(folder)
    assert more.low <= len(server.requests) - made <= more.high
    assert more.expected == pytest.approx(len(server.requests) - made, rel=0.2)


@pytest.mark.slow
def test_missing_indexes_are_estimated_from_a_sample_of_the_documents(
    tmp_path: Path, server: ScriptedServer
) -> None:
    study = "study: {testset: SET, measures: TokenF1}\nchunk: {size: [40, 80], overlap: 0}\n"
    folder = project(
        MakeProject(tmp_path), server, study, f"embed: {{model: '{server.url}#e', dimensions: 4}}\n"
    )
    many_rows(folder, 70)
    for n in range(120):
        text = " ".join(f"Word {n * k} of book {n} is written in line {k}." for k in range(100))
        (folder / "docs" / f"book{n}.md").write_text(text)
    with Workbench.open(folder) as bench:
        bench.ingest()
    before = len(server.requests)
    found = told(folder)
    [note] = [note for note in found.notes if "missing indexes" in note]
    assert 40 < int(note.split()[5]) < 80
    assert len(server.requests) == before
    run(folder)
    made = [request.body for request in server.requests[before:]]
    for model in ("m", "e"):
        calls = sum(body["model"] == model for body in made)
        assert found.forecast.models[f"{server.url}#{model}"] == pytest.approx(calls, rel=0.25)
    assert found.forecast.calls.low <= len(made) <= found.forecast.calls.high
