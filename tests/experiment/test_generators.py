"""Which generator serves which persona: only what is proven, and what is one observation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.core import ConfigError, PromptError, Row, Score
from ragwright.experiment import GridOptions, GridRow, PersonaModelGrid, RowResult, grid_of
from ragwright.measure import parse_measures
from ragwright.report import generators_json, generators_table
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import load_testset

FACTS = {
    f"P{n:02d}": f"Part P{n:02d} weighs {n + 40} grams and is painted olive" for n in range(16)
}
WHO = ("fitter", "buyer")


def speaks(request: ServerRequest) -> str:
    """Two generators: the exact one says all, the plain one leaves numbers out."""
    whole = "".join(str(m["content"]) for m in request.body["messages"])
    part = re.findall(r"about part (\w+)\?", request.prompt)[-1]
    all_of_it = ("GLOSSY" in whole) != (request.body["model"] == "exact")
    return f"{FACTS[part]} [1]." if all_of_it else "Part is painted olive [1]."


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(speaks) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    made = tmp_path_factory.mktemp("parts")
    lines = [
        {
            "id": part,
            "user_input": f"What is known about part {part}?",
            "reference": f"{fact}.",
            "reference_ids": [f"docs/{part}.txt"],
        }
        for part, fact in FACTS.items()
    ]
    answer = f"answer: {{model: '{server.url}#exact'}}\n"
    texts = {f"docs/{part}.txt": f"Part {part}.\n\n{fact}." for part, fact in FACTS.items()} | {
        "set.jsonl": "\n".join(map(json.dumps, lines)),
        "personas/fitter.yaml": "audience: fitters\nmodel: old:one  # measure\n"
        "answer_length: short\n",
        "personas/buyer.yaml": "audience: buyers\nwriting_style: GLOSSY",
        "ragwright.yaml": f"sources: [docs]\nretrieve: {{top_k: 1}}\n{answer}",
    }
    for name, text in texts.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def compared(folder: Path, who: GridOptions) -> PersonaModelGrid:
    with Workbench.open(folder) as bench:
        given = load_testset(str(folder / "set.jsonl"))
        found, run = bench.compare_generators(given, "TokenF1", who)
    assert run.complete
    return found


@pytest.mark.slow
def test_the_generator_that_serves_a_persona_is_named(folder: Path, server: ScriptedServer) -> None:
    who = GridOptions(WHO, models := (f"{server.url}#exact", f"{server.url}#plain"))
    with Workbench.open(folder) as bench:
        given = load_testset(str(folder / "set.jsonl"))
        calls = bench.forecast_generators(given, "TokenF1", who).calls
        assert server.requests == []
    found = compared(folder, who)
    assert calls.exact
    assert len(server.requests) == calls.expected
    assert compared(folder, who).best == found.best
    assert len(server.requests) == calls.expected
    assert found.best == {"fitter": models[0], "buyer": models[1]}
    assert found.cells["fitter", models[0], "TokenF1"].mean == 1.0
    assert [pair.comparison.p_holm is None for pair in found.pairs] == [False, False]
    text = generators_table(found).replace("\n", " ")
    assert f"fitter: {models[0]} is proven best by TokenF1: set" in text
    told = json.loads(json.dumps(generators_json(found), default=list))
    assert (told["best"], len(told["cells"])) == (dict(found.best), 4)


@pytest.mark.slow
def test_facts_that_drop_in_a_register_are_counted(folder: Path, server: ScriptedServer) -> None:
    # A persona's own model would answer for it; here both are answered by one.
    exact = f"{server.url}#exact"
    found = compared(folder, GridOptions(WHO, (exact,)))
    [pair] = found.facts
    assert (pair.a, pair.b, pair.comparison.verdict) == ("fitter", "buyer", "worse")
    assert found.kept["fitter", exact, "FactsKept"].mean == 1.0
    assert (found.kept["buyer", exact, "FactsKept"].mean or 1) < 0.8
    assert "Facts drop for buyer" in generators_table(found)


def test_one_of_each_is_no_comparison(folder: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        compared(folder, GridOptions(("fitter",)))
    with pytest.raises(PromptError, match="unknown persona"):
        compared(folder, GridOptions(("fitter", "nobody")))


# -- what is one observation, and what is an abstention ----------------------------------------


def read(at: int, persona: str, generator: str, document: str, mark: object) -> GridRow:
    value = float(generator == "good")
    kept = Row(
        f"q{at}",
        f"What is {at}?",
        response="x",
        persona_name=persona,
        reference_ids={document: 1},
        metadata={"abstained": mark},  # type: ignore[dict-item]
    )
    key = f"q{at} | {persona} | {generator}"
    result = RowResult(key, (), (Score("Contains", "scored", value),), kept)
    share = Score("FactsKept", "scored", value if persona == "fitter" else 0.0)
    return GridRow(f"q{at}", persona, generator, result, (share,))


def came_to(documents: int, mark: object = False) -> PersonaModelGrid:
    rows = [
        read(at, persona, generator, f"d{at % documents}", mark)
        for at in range(16)
        for persona in WHO
        for generator in ("good", "bad")
    ]
    return grid_of(rows, parse_measures("Contains"))


def test_questions_on_one_document_are_one_observation() -> None:
    alone, shared = came_to(16), came_to(4)
    assert [pair.comparison.clusters for pair in alone.pairs] == [None, None]
    assert alone.best == {"fitter": "good", "buyer": "good"}
    assert [pair.comparison.clusters for pair in shared.pairs] == [4, 4]
    assert [pair.comparison.p for pair in shared.pairs] == [pytest.approx(2 / 2**4)] * 2
    assert shared.best == {}
    assert "no generator is proven better" in generators_table(shared)
    assert [pair.comparison.clusters for pair in shared.facts] == [4, 4]
    assert shared.cells["fitter", "good", "Contains"].clusters == 4
    assert shared.kept["fitter", "good", "FactsKept"].clusters == 4
