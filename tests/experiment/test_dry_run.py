"""Dry runs of sweeps: the calls they foretell are the calls that are made."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from story_tools import write_files
from study_project import part_rows, parts_text, study_project, swept

from ragwright import Workbench
from ragwright.experiment import SweepForecast, read_study
from ragwright.testing import ScriptedServer, ServerRequest


def many(count: int) -> list[dict[str, str]]:
    """Rows that ask of other parts in other words, each for an engineer."""
    return [
        {
            "id": f"q{n}",
            "user_input": f"When is part {n % 12} changed, in book {n}?",
            "reference": f"{n}",
            "persona_name": "engineer",
        }
        for n in range(count)
    ]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def reply(request: ServerRequest) -> str:
        if request.body["model"] == "judge":
            return json.dumps({"reasoning": "It is direct.", "score": 4})
        return f"Every {zlib.crc32(json.dumps(request.body).encode())} years [1]."

    with ScriptedServer(reply) as scripted:
        yield scripted


def project(
    folder: Path,
    server: ScriptedServer,
    study: str,
    settings: str = "",
    options: str = "",
    measures: str = "TokenF1",
    rows: Sequence[Mapping[str, str]] = (),
    **books: str,
) -> Path:
    """A project whose models are behind the server; in its settings URL stands for that."""
    told = f"answer: {{model: 'URL#m'}}\n{settings}".replace("URL", server.url)
    how = {"measures": measures, "options": options}
    return study_project(
        folder, rows or part_rows(9), study, told, docs={"parts.md": parts_text(12), **books}, **how
    )


def told(folder: Path) -> SweepForecast:
    with Workbench.open(folder) as bench:
        return bench.forecast_sweep(read_study(bench.project, folder / "s.yaml"))


SIZES = "chunk: {size: [20, 40, 80], overlap: 0}\nretrieve: {top_k: [1, 2, 4]}\n"
PROMPTS = "prompt: {without: [[], [role], [question]]}\n"
JUDGED = "judge: {model: 'URL#judge'}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "options", "settings"),
    [(SIZES + PROMPTS, "limit: 3", ""), (SIZES, "", "embed: {model: 'URL#e'}\n")],
    ids=["a grid", "vectors"],
)
def test_the_calls_foretold_are_the_calls_made(
    tmp_path: Path, server: ScriptedServer, study: str, options: str, settings: str
) -> None:
    folder = project(tmp_path, server, study, settings, options)
    before = len(server.requests)
    forecast = told(folder)
    assert len(server.requests) == before  # a dry run asks nobody
    with Workbench.open(folder) as bench:
        assert len(bench.project.store.index_specs()) == 1  # and writes nothing
    swept(folder)
    made = len(server.requests) - before
    assert forecast.forecast.calls.exact
    assert forecast.forecast.calls.expected == pytest.approx(made, rel=0.05)
    if not settings:
        assert forecast.forecast.calls.expected == made
    again = told(folder)
    assert again.indexes == 0
    assert again.forecast.calls.expected == 0  # everything is known now


def test_learning_is_foretold_by_stand_ins(tmp_path: Path, server: ScriptedServer) -> None:
    study = "retrieve: {top_k: {low: 1, high: 9}}\nchunk: {size: [20, 40], overlap: [0, 30]}\n"
    found = told(project(tmp_path, server, study, options="search: tpe, trials: 6"))
    assert found.trials + found.invalid == 7
    assert any("random points replace those" in note for note in found.notes)
    assert found.forecast.calls.expected > 0


@pytest.mark.slow
def test_a_large_study_is_estimated_from_some_rows(tmp_path: Path, server: ScriptedServer) -> None:
    how = {"measures": "AnswerRelevance"}
    folder = project(tmp_path, server, SIZES, JUDGED, rows=many(40), **how)
    found = told(folder)
    assert any("20 of 21 rows, every trial" in note for note in found.notes)
    swept(folder)
    made = len(server.requests)
    assert found.forecast.calls.expected == pytest.approx(made, rel=0.2)
    assert found.forecast.calls.low <= made <= found.forecast.calls.high
    assert told(folder).forecast.calls.high == 0  # everything is known now


@pytest.mark.slow
def test_rows_of_a_personas_own_model_are_estimated_apart(
    tmp_path: Path, server: ScriptedServer
) -> None:
    rows = [
        row | {"persona_name": "marketing" if at % 20 == 0 else "engineer"}
        for at, row in enumerate(many(80))
    ]
    folder = project(tmp_path, server, SIZES, rows=rows)
    own = f"audience: people who sell\nmodel: '{server.url}#own'\n"
    write_files(folder, {"personas/marketing.yaml": own})
    found = told(folder)
    swept(folder)
    models = [request.body["model"] for request in server.requests]
    assert models.count("own") == found.forecast.models[f"{server.url}#own"] > 0


@pytest.mark.slow
def test_indexes_are_estimated_from_some_documents(tmp_path: Path, server: ScriptedServer) -> None:
    books = {
        f"book{n}.md": " ".join(
            f"Word {n * k} of book {n} is written in line {k}." for k in range(100)
        )
        for n in range(120)
    }
    study, embed = (
        "chunk: {size: [40, 80], overlap: 0}\n",
        "embed: {model: 'URL#e', dimensions: 4}\n",
    )
    folder = project(tmp_path, server, study, embed, rows=many(70), **books)
    before = len(server.requests)
    found = told(folder)
    [note] = [note for note in found.notes if "missing indexes" in note]
    assert "from 20 of 121 documents" in note
    assert len(server.requests) == before
    swept(folder)
    made = [request.body for request in server.requests[before:]]
    for model in ("m", "e"):
        calls = sum(body["model"] == model for body in made)
        assert found.forecast.models[f"{server.url}#{model}"] == pytest.approx(calls, rel=0.25)
    assert found.forecast.calls.low <= len(made) <= found.forecast.calls.high
