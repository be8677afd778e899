"""Faults planted in one stage after the other: each must be named, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forgetting import forget_at

from ragwright import Session, Workbench
from ragwright.core import ConfigError, Row, TestsetError
from ragwright.experiment import Diagnosis, DiagnosisOptions, diagnose_run
from ragwright.project import ProjectFolder
from ragwright.report import diagnosis_table, run_diagnosis_json, run_diagnosis_table
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import Testset, load_testset

TREES = "Alder Birch Cedar Daphne Elder Fir Ginkgo Hazel Ilex Juniper Katsura Larch Maple Nutmeg "
TREES += "Oak Pine Quince Rowan"
NAMES = TREES.split()
ALL = len(NAMES)
MEASURES = "Contains,Recall@5"
LONG = "Platforms are swept daily and benches are painted in spring. " * 12
SAID = "{0} station.\n\nThe access code of {0} station is K{1}7Q. {2}"
STATIONS = {f"station-{n:02d}.txt": SAID.format(name, n, LONG) for n, name in enumerate(NAMES)}
NOISE = {
    f"a-noise-{n:02d}.txt": f"Timetable sheet {n}.\n\nTrains leave at {n} minutes past."
    for n in range(40)
}
"""Many more documents that name no code and sort first."""


def rows(pairs: bool = False) -> list[dict[str, Any]]:
    """A question a station; with ``pairs`` one that takes two stations."""
    made: list[dict[str, Any]] = []
    for n, name in enumerate(NAMES):
        asked = [n, (n + 1) % ALL] if pairs else [n]
        spans = []
        for at in asked:
            text = STATIONS[f"station-{at:02d}.txt"]
            place = {"start": text.index("The access"), "end": text.index("Platforms") - 1}
            spans.append({"document_id": f"docs/station-{at:02d}.txt", **place})
        stations = " station and of ".join(NAMES[at] for at in asked)
        made.append(
            {
                "id": name,
                "user_input": f"Which is the access code of {stations} station?",
                "reference": f"K{asked[-1]}7Q",
                "reference_spans": spans,
                "persona_name": "engineer" if n % 2 else "marketing",
            }
        )
    return made


def says(request: ServerRequest) -> str | Reply:
    """Models with and without a fault, each by its name."""
    prompt = request.prompt
    match request.body["model"]:
        case "blind":  # passages with codes lie across the questions and all other passages
            near = [0.001 * (sum(map(ord, text)) % 97) for text in request.body["input"]]
            told = ["access code of" in text and "?" not in text for text in request.body["input"]]
            vectors = zip(near, told, strict=True)
            return Reply(vectors=[[n, 1.0] if code else [1.0, n] for n, code in vectors])
        case "reversing":
            found = {int(n) for n in re.findall(r"^\[(\d+)\]", prompt, re.MULTILINE)}
            return " > ".join(f"[{n}]" for n in sorted(found, reverse=True))
        case "dreamer":
            return "Trains are nice [1]."
        case "two":
            return json.dumps({"reasoning": "Hm.", "score": 2})
        case "judge":  # knows a code when it sees one
            right = re.search(r"\bK\d+7Q\b", prompt)
            return json.dumps({"reasoning": "I looked for a code.", "score": 5 if right else 1})
    # reads: the code of the station asked for last, where a passage tells it
    question = re.findall(r"of (\w+) station\?", prompt)[-1]
    code = re.search(rf"access code of {question} station is (\w+)", prompt)
    return f"It is {code[1]} [1]." if code else "I would guess that it is 1234."


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(says) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stations")
    (made / "docs").mkdir()
    for name, text in (STATIONS | NOISE).items():
        (made / "docs" / name).write_text(text)
    for name, pairs in (("set", False), ("pairs", True)):
        (made / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows(pairs))))
    return made


def opened(
    folder: Path, model: ScriptedServer, settings: str = "", session: Session | None = None
) -> Workbench:
    """The project with settings in which URL stands for the server."""
    text = f"sources: [docs]\nanswer: {{model: URL#reader}}\n{settings}"
    if "answer:" in settings:
        text = f"sources: [docs]\n{settings}"
    (folder / "ragwright.yaml").write_text(text.replace("URL", model.url))
    bench = Workbench.open(folder, session)
    bench.ingest()
    return bench


def diagnosed(
    bench: Workbench,
    how: DiagnosisOptions | None = None,
    measures: str = MEASURES,
    testset: str = "set",
) -> Diagnosis:
    with bench:
        given = load_testset(str(bench.project.folder.root / f"{testset}.jsonl"))
        found, run = bench.diagnose(given, measures, how or DiagnosisOptions())
    assert run.complete
    return found


JUDGED = "AnswerRelevance,Contains"
NOISY = "retrieve: {filters: [{field: document_id, values: [docs/a-noise-01.txt]}]}\n"
BLIND = "embed: {model: 'URL#blind', dimensions: 2}\nretrieve: {search: dense}\n"
REVERSED = "retrieve: {rerank: {model: 'URL#reversing', method: listwise, candidates: 15}}\n"
TIGHT = "answer: {model: 'URL#reader', context_tokens: 100}\n"
ONE, FEW = "retrieve: {top_k: 1}\n", "retrieve: {context_tokens: 5}\n"
DREAMS = "answer: {model: 'URL#dreamer'}\njudge: {model: 'URL#judge'}\n"
TWO = "judge: {model: 'URL#two'}\n"
PAIRS, BEYOND, HALF = "Recall@5,Contains", "Recall@100,Contains", (1 / 2, 17 / 18)
FAULTS = {
    "no fault": ("", MEASURES, None, (), ""),
    "a wrong filter": (NOISY, MEASURES, "filter", (1, 1), "generate"),
    "an embedder that misses": (BLIND, MEASURES, "retrieve", (1, 1), "generate"),
    "a reranker that reverses": (REVERSED, MEASURES, "rerank", (1, 1), "truncate generate"),
    "a top_k that is too small": (ONE, PAIRS, "truncate", HALF, "generate"),
    "a search that keeps too little": (FEW, BEYOND, "truncate", HALF, "generate"),
    "a context that is too small": (TIGHT, PAIRS, "truncate", HALF, "generate"),
    "a generator that ignores its passages": (DREAMS, JUDGED, "generate", (4, 1), ""),
    "a judge that always says two": (TWO, JUDGED, "judge", (3,), ""),
}
"""Settings, measures, the stage at fault, its credit by measure, whose oracles recover as much."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "measures", "stage", "credit", "later"), FAULTS.values(), ids=FAULTS
)
def test_a_planted_fault_is_named_and_no_other(
    folder: Path,
    model: ScriptedServer,
    settings: str,
    measures: str,
    stage: str | None,
    credit: tuple[float, ...],
    later: str,
) -> None:
    testset = "pairs" if measures.startswith("Recall") else "set"
    found = diagnosed(opened(folder, model, settings), measures=measures, testset=testset)
    assert (found.stage, found.losses) == (stage, {stage or "": ALL})
    for points in found.points:
        first, recovered = points.first.difference, points.recovered.difference
        if points.stage == stage:
            assert points.proven
            assert first == recovered == credit[measures.split(",").index(points.measure)]
        else:  # where a later stage could mend it as well, no row is lost there first
            as_much = points.stage in later.split() and points.measure == "Contains"
            assert (first, recovered) == (
                0,
                credit[measures.split(",").index("Contains")] if as_much else 0,
            )
    if stage is None:
        assert found.verdict[0] == "No stage is proven to lose points."
        assert len(model.requests) == ALL  # no oracle changes anything: nothing is asked twice
        assert "No stage is proven" in diagnosis_table(found)
    else:
        assert found.verdict[0].startswith(f"Work on {stage} first")


def test_gold_may_be_lost_from_the_index(folder: Path, model: ScriptedServer) -> None:
    lines = rows()
    for line in lines[:3]:
        line["reference_spans"] = [{"document_id": "docs/gone.txt", "start": 0, "end": 9}]
    (folder / "gone.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = diagnosed(opened(folder, model), testset="gone")
    assert found.losses["index"] == 3
    assert any("no chunk of the index" in line for line in found.verdict)
    lost = [row for row in found.rows if row.lost == "index"]
    assert [(place.document_id, place.indexed) for place in lost[0].gold] == [
        ("docs/gone.txt", False)
    ]
    for n, line in enumerate(lines):
        del line["reference_spans"]
        line["reference_ids"] = {f"docs/station-{n:02d}.txt": 1}
    (folder / "ids.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert diagnosed(opened(folder, model, NOISY), testset="ids").stage == "filter"


@pytest.mark.slow
def test_the_forecast_counts_exactly_what_is_called(folder: Path, model: ScriptedServer) -> None:
    how = DiagnosisOptions()
    given = load_testset(str(folder / "set.jsonl"))
    some = NOISY.replace("]}]", ", docs/station-03.txt]}]")
    with opened(folder, model, some) as bench:
        forecast = bench.forecast_diagnose(given, MEASURES, how)
        assert forecast.calls.exact
        assert model.requests == []
        found, run = bench.diagnose(given, MEASURES, how)
        made = len(model.requests)
        assert made == forecast.calls.expected
        bench.diagnose(given, MEASURES, how)
        assert len(model.requests) == made
        # A document that only an oracle read, with the filter lifted, can be forgotten.
        alder = found.rows[0]
        others = set(alder.documents) - {"docs/station-00.txt", *alder.plain.ranking}
        before = len(list(bench.project.runs.rows(run.run)))
        assert forget_at(bench.project.folder.ledger, source=min(others))["rows"] > 0
        after = {row.id for row in bench.project.runs.rows(run.run)}
        assert "Alder" not in after
        assert len(after) < before


BARE = Testset("bare", (Row("1", "What?"),))


@pytest.mark.parametrize(
    ("given", "how", "kind", "said"),
    [
        (BARE, {}, TestsetError, "has gold for retrieval.*reference_spans"),
        (BARE, {"stages": ("generate",)}, TestsetError, "gold answer"),
        (None, {"stages": ("retriev",)}, ConfigError, "unknown stage"),
    ],
    ids=["no gold", "no gold answer", "no such stage"],
)
def test_what_cannot_be_diagnosed_is_said_with_the_way_out(
    folder: Path, given: Testset | None, how: dict[str, Any], kind: type[Exception], said: str
) -> None:
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    testset = given or load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder) as bench, pytest.raises(kind, match=f"(?s){said}"):
        bench.diagnose(testset, "Contains", DiagnosisOptions(**how))


# -- where the rows of a stored run are lost, by its answers and passages alone ---------------


def system(question: str) -> tuple[str, list[str]]:
    """A system that fails in one way for each question."""
    passages = ["The town is Paris."] if question in ("right", "wrong") else ["It rained."]
    if question == "failed":
        raise ValueError("down")
    answers = {"right": "Paris", "silent": "no idea"}
    return answers.get(question, "Rome"), passages if question != "silent" else []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    ProjectFolder(tmp_path).begin()
    with Workbench.open(tmp_path) as made:
        yield made


LOST = {
    "right": "",
    "missed": "retrieve",
    "wrong": "generate",
    "failed": "errored",
    "silent": "retrieve",  # it returned no passages, and said so
}


@pytest.mark.parametrize(
    ("gold", "by"),
    [({"reference_contexts": ["The town is Paris."]}, "spans"), ({}, "words")],
    ids=["by spans", "by words"],
)
def test_retrieval_is_told_from_answering(
    bench: Workbench, gold: dict[str, object], by: str
) -> None:
    asked = [
        {"id": name, "question": name, "answer": "Paris", "kind": str(name == "right"), **gold}
        for name in LOST
    ]
    bench.evaluate(asked, "TokenF1", system=system)
    found = bench.diagnose_run(by=["kind"])
    assert {row.row_id: row.lost for row in found.rows} == LOST
    assert {row.by for row in found.rows if row.row_id in ("right", "missed", "wrong")} == {by}
    assert found.stage == ""  # so few rows prove nothing
    assert "Too few rows to prove" in " ".join(found.verdict)
    assert any("filters, reranking, cuts and judges are not separated" in n for n in found.notes)
    assert found.parts["kind = True"].losses == {"": 1}
    assert found.parts["kind = False"].losses["generate"] == 1
    text = run_diagnosis_table(found)
    assert "kind = False" in text
    assert "rule: an answer is right if it holds a gold answer of up to 5 words" in text
    assert run_diagnosis_json(found)["parts"]["kind = False"]["losses"]["generate"] == 1
    with pytest.raises(TestsetError, match="no row has a value in 'sort'"):
        bench.diagnose_run(by=["sort"])


@pytest.mark.parametrize(("missed", "stage"), [(9, "retrieve"), (1, "generate")])
def test_the_place_that_loses_more_is_named(bench: Workbench, missed: int, stage: str) -> None:
    asked = [
        {"id": str(n), "question": "missed" if n < missed else "wrong", "answer": "Paris"}
        for n in range(10)
    ]
    bench.evaluate(asked, "TokenF1", system=system)
    found = bench.diagnose_run()
    assert found.stage == stage
    assert "p = 0.021" in " ".join(found.verdict)


def test_a_run_by_ids_and_one_without_references(bench: Workbench) -> None:
    asked = Testset("t", (Row("1", "q", reference="Paris", reference_ids={"a": 1}),))
    bench.evaluate(asked, "TokenF1", system=lambda q: ("Rome", [{"text": "so", "id": "b"}]))
    (row,) = bench.diagnose_run().rows
    assert (row.lost, row.by, row.gold) == ("retrieve", "ids", False)
    bench.evaluate([{"question": "right"}], "KPrecision", system=system)
    with pytest.raises(TestsetError, match="a reference to compare it with"):
        diagnose_run(bench.results())
