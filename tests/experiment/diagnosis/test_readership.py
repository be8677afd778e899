"""Which generator serves which persona: only what is proven, and written without losing a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.core import ConfigError, PromptError
from ragwright.experiment import GridOptions, PersonaModelGrid
from ragwright.project import Session
from ragwright.report import generators_json, generators_table
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import load_testset

PARTS = [f"P{n:02d}" for n in range(16)]


def text_of(part: str) -> str:
    return f"Part {part}.\n\nPart {part} weighs {int(part[1:]) + 40} grams and is painted olive."


def speaks(request: ServerRequest) -> str:
    """Two generators: the exact one says all, the plain one leaves numbers out."""
    whole = "".join(str(m["content"]) for m in request.body["messages"])
    part = re.findall(r"about part (\w+)\?", request.prompt)[-1]
    fact = f"Part {part} weighs {int(part[1:]) + 40} grams and is painted olive [1]."
    simple = "Part is painted olive [1]."
    for_marketing = "GLOSSY" in whole
    if request.body["model"] == "exact":
        return simple if for_marketing else fact
    return fact if for_marketing else simple


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(speaks) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    made = tmp_path_factory.mktemp("parts")
    (made / "docs").mkdir()
    (made / "personas").mkdir()
    for part in PARTS:
        (made / "docs" / f"{part}.txt").write_text(text_of(part))
    lines = [
        {
            "id": part,
            "user_input": f"What is known about part {part}?",
            "reference": f"Part {part} weighs {int(part[1:]) + 40} grams and is painted olive.",
            "reference_ids": [f"docs/{part}.txt"],
        }
        for part in PARTS
    ]
    (made / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (made / "personas" / "fitter.yaml").write_text(
        "# whom we write for\naudience: fitters\nmodel: old:one  # measure\nanswer_length: short\n"
    )
    (made / "personas" / "buyer.yaml").write_text("audience: buyers\nwriting_style: GLOSSY")
    (made / "ragwright.yaml").write_text(
        f"sources: [docs]\nretrieve: {{top_k: 1}}\nanswer: {{model: '{server.url}#exact'}}\n"
    )
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def compared(folder: Path, who: GridOptions, measures: str = "TokenF1") -> PersonaModelGrid:
    with Workbench.open(folder) as bench:
        given = load_testset(str(folder / "set.jsonl"))
        found, run = bench.compare_generators(given, measures, who)
    assert run.complete
    return found


@pytest.mark.slow
def test_the_generator_that_serves_a_persona_is_named(folder: Path, server: ScriptedServer) -> None:
    models = (f"{server.url}#exact", f"{server.url}#plain")
    found = compared(folder, GridOptions(("fitter", "buyer"), models))
    assert found.best == {"fitter": models[0], "buyer": models[1]}
    assert found.cells["fitter", models[0], "TokenF1"].mean == 1.0
    assert len(found.pairs) == 2
    assert all(pair.comparison.p_holm is not None for pair in found.pairs)
    text = generators_table(found)
    assert f"fitter: {models[0]} is proven best by TokenF1: set" in text.replace("\n", " ")
    told = json.loads(json.dumps(generators_json(found), default=list))
    assert told["best"] == dict(found.best)
    assert len(told["cells"]) == 4


@pytest.mark.slow
def test_generators_that_answer_alike_are_not_ranked(folder: Path, server: ScriptedServer) -> None:
    models = (f"{server.url}#plain", f"{server.url}#twin")
    found = compared(folder, GridOptions(("fitter", "buyer"), models))
    assert found.best == {}
    assert "no generator is proven better" in generators_table(found)


@pytest.mark.slow
def test_facts_that_drop_in_a_register_are_counted(folder: Path, server: ScriptedServer) -> None:
    # A persona's own model would answer for it; here both are answered by one.
    found = compared(folder, GridOptions(("fitter", "buyer"), (f"{server.url}#exact",)))
    [pair] = found.facts
    assert (pair.a, pair.b) == ("fitter", "buyer")
    assert pair.comparison.verdict == "worse"
    assert found.kept["fitter", f"{server.url}#exact", "FactsKept"].mean == 1.0
    kept = found.kept["buyer", f"{server.url}#exact", "FactsKept"].mean
    assert kept is not None
    assert kept < 0.8
    assert "Facts drop for buyer" in generators_table(found)


def test_the_judge_counts_the_facts_where_claims_are_judged(
    folder: Path, server: ScriptedServer
) -> None:
    with ScriptedServer("no list of claims") as strict:
        setting = f"judge.model={strict.url}#judge"
        with Workbench.open(folder, Session((setting,))) as bench:
            given = load_testset(str(folder / "set.jsonl")).subset(2)
            who = GridOptions(("fitter", "buyer"), (f"{server.url}#exact",))
            found, _ = bench.compare_generators(given, "Claims", who)
    assert ("fitter", f"{server.url}#exact", "FactsKept(judged)") in found.kept
    states = found.kept["fitter", f"{server.url}#exact", "FactsKept(judged)"].states
    assert states["judge_invalid"] == 2  # what cannot be read is not a number


@pytest.mark.slow
def test_the_forecast_is_exact_and_nothing_is_paid_twice(
    folder: Path, server: ScriptedServer
) -> None:
    who = GridOptions(("fitter", "buyer"), (f"{server.url}#new", f"{server.url}#plain"))
    with Workbench.open(folder) as bench:
        given = load_testset(str(folder / "set.jsonl"))
        forecast = bench.forecast_generators(given, "TokenF1", who)
        before = len(server.requests)
        bench.compare_generators(given, "TokenF1", who)
        made = len(server.requests) - before
        assert forecast.calls.exact
        assert made == forecast.calls.expected
        bench.compare_generators(given, "TokenF1", who)
    assert len(server.requests) - before == made


def test_one_of_each_is_no_comparison(folder: Path) -> None:
    given = load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError, match="nothing to compare"):
            bench.compare_generators(given, "TokenF1", GridOptions(("fitter",)))
        with pytest.raises(PromptError, match="unknown persona"):
            bench.compare_generators(given, "TokenF1", GridOptions(("fitter", "nobody")))
