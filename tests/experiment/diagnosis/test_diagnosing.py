"""Faults planted in one stage after the other: each must be named, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from forgetting import forget_at

from ragwright import Workbench
from ragwright.core import ConfigError, TestsetError
from ragwright.experiment import Diagnosis, DiagnosisOptions
from ragwright.project import Session
from ragwright.report import diagnosis_json, diagnosis_table, write_lost_rows
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import load_testset

NAMES = (
    "Alder",
    "Birch",
    "Cedar",
    "Daphne",
    "Elder",
    "Fir",
    "Ginkgo",
    "Hazel",
    "Ilex",
    "Juniper",
    "Katsura",
    "Larch",
    "Maple",
    "Nutmeg",
    "Oak",
    "Pine",
    "Quince",
    "Rowan",
)
NOISE = 40
MEASURES = "Contains,Recall@5"


def docs() -> dict[str, str]:
    """One document a station and many more that name no code; the noise sorts first."""
    found = {
        f"station-{n:02d}.txt": f"{name} station.\n\nThe access code of {name} station is K{n}7Q."
        for n, name in enumerate(NAMES)
    }
    noise = {
        f"a-noise-{n:02d}.txt": f"Timetable sheet {n}.\n\nTrains leave at {n} minutes past."
        for n in range(NOISE)
    }
    return found | noise


def rows(pairs: bool = False) -> list[dict[str, object]]:
    """A question a station; with ``pairs`` one that takes two stations."""
    made: list[dict[str, object]] = []
    for n, name in enumerate(NAMES):
        asked = [n, (n + 1) % len(NAMES)] if pairs else [n]
        spans = []
        for at in asked:
            text = docs()[f"station-{at:02d}.txt"]
            start = text.index("The access")
            place = {"document_id": f"docs/station-{at:02d}.txt", "start": start, "end": len(text)}
            spans.append(place)
        stations = " station and of ".join(NAMES[at] for at in asked)
        made.append(
            {
                "id": name,
                "user_input": f"Which is the access code of {stations} station?",
                "reference": f"K{asked[-1]}7Q",
                "reference_spans": spans,
                "persona_name": "engineer" if n % 2 else "marketing",
                "kind": "even" if n % 2 else "odd",
            }
        )
    return made


def reads(request: ServerRequest) -> str:
    """A model that reads: the code of the station asked for last, where a passage tells it."""
    question = re.findall(r"of (\w+) station\?", request.prompt)[-1]
    found = re.search(rf"access code of {question} station is (\w+)", request.prompt)
    return f"It is {found[1]} [1]." if found else "I would guess that it is 1234."


def judges(request: ServerRequest) -> str:
    """A judge that knows a code when it sees one."""
    right = re.search(r"\bK\d+7Q\b", request.prompt)
    return json.dumps({"reasoning": "I looked for a code.", "score": 5 if right else 1})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stations")
    (made / "docs").mkdir()
    for name, text in docs().items():
        (made / "docs" / name).write_text(text)
    for name, pairs in (("set", False), ("pairs", True)):
        lines = map(json.dumps, rows(pairs))
        (made / f"{name}.jsonl").write_text("\n".join(lines))
    (made / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(reads) as server:
        yield server


def diagnosed(
    folder: Path,
    settings: str,
    measures: str = MEASURES,
    how: DiagnosisOptions | None = None,
    testset: str = "set",
) -> Diagnosis:
    (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
        given = load_testset(str(folder / f"{testset}.jsonl"))
        found, run = bench.diagnose(given, measures, how or DiagnosisOptions())
    assert run.complete
    return found


def answering(server: ScriptedServer, more: str = "") -> str:
    return f"answer: {{model: '{server.url}#reader'{more}}}\n"


@pytest.mark.slow
def test_without_a_fault_no_stage_is_blamed(folder: Path, model: ScriptedServer) -> None:
    found = diagnosed(folder, answering(model))
    assert found.stage is None
    assert found.verdict[0] == "No stage is proven to lose points."
    assert found.losses == {"": len(NAMES)}
    assert len(model.requests) == len(NAMES)  # no oracle changes anything: nothing is asked twice
    assert "No stage is proven" in diagnosis_table(found)


def test_a_wrong_filter_is_named(folder: Path, model: ScriptedServer) -> None:
    noise = "[{field: document_id, values: [docs/a-noise-01.txt, docs/a-noise-02.txt]}]"
    found = diagnosed(folder, f"retrieve: {{filters: {noise}}}\n{answering(model)}")
    assert found.stage == "filter"
    assert found.losses == {"filter": len(NAMES)}
    assert found.of("filter", "Contains").first.difference == 1.0
    assert found.of("retrieve", "Contains").recovered.difference == 0.0
    assert found.verdict[0].startswith("Work on filter first")


@pytest.mark.slow
def test_an_embedder_that_misses_is_named(folder: Path, model: ScriptedServer) -> None:
    def vector(text: str) -> list[float]:
        """The passages with the codes lie across the questions and all other passages."""
        far, near = 1.0, 0.001 * (sum(map(ord, text)) % 97)
        return [near, far] if "access code of" in text and "?" not in text else [far, near]

    def misses(request: ServerRequest) -> Reply:
        texts = request.body["input"]
        return Reply(vectors=list(map(vector, [texts] if isinstance(texts, str) else texts)))

    with ScriptedServer(misses) as blind:
        settings = f"embed: {{model: '{blind.url}#blind', dimensions: 2}}\n"
        settings += f"retrieve: {{search: dense}}\n{answering(model)}"
        found = diagnosed(folder, settings)
    assert found.stage == "retrieve"
    assert found.losses == {"retrieve": len(NAMES)}
    assert found.of("retrieve", "Recall@5").proven
    assert found.of("rerank", "Contains").recovered.difference == 0.0


@pytest.mark.slow
def test_a_reranker_that_reverses_is_named(folder: Path, model: ScriptedServer) -> None:
    def reverse(request: ServerRequest) -> str:
        numbers = [int(n) for n in re.findall(r"^\[(\d+)\]", request.prompt, re.MULTILINE)]
        return " > ".join(f"[{n}]" for n in sorted(set(numbers), reverse=True))

    with ScriptedServer(reverse) as wrong:
        rerank = f"{{model: '{wrong.url}#order', method: listwise, candidates: 15}}"
        found = diagnosed(folder, f"retrieve: {{rerank: {rerank}}}\n{answering(model)}")
    assert found.stage == "rerank"
    assert found.losses["rerank"] >= len(NAMES) - 1
    # The cut could be widened as well, but no row is lost there first.
    assert found.of("truncate", "Contains").recovered.difference > 0.9  # type: ignore[operator]
    assert found.of("truncate", "Contains").first.difference == 0.0


@pytest.mark.slow
def test_a_top_k_that_is_too_small_is_named(folder: Path, model: ScriptedServer) -> None:
    settings = f"retrieve: {{top_k: 1}}\n{answering(model)}"
    found = diagnosed(folder, settings, "Recall@5,Contains", testset="pairs")
    assert found.stage == "truncate"
    assert found.losses.get("truncate", 0) >= len(NAMES) - 2
    assert found.of("truncate", "Recall@5").proven


@pytest.mark.slow
def test_a_context_that_is_too_small_is_named(folder: Path, model: ScriptedServer) -> None:
    long = "Platforms are swept daily and benches are painted in spring. " * 12
    for name in docs():
        path = folder / "docs" / name
        if name.startswith("station"):
            path.write_text(f"{docs()[name]} {long}")
    try:
        settings = answering(model, ", context_tokens: 100")
        found = diagnosed(folder, settings, "Recall@5,Contains", testset="pairs")
    finally:
        for name, text in docs().items():
            (folder / "docs" / name).write_text(text)
    assert found.stage == "truncate"
    assert set(found.losses) <= {"truncate", "", "generate"}
    assert found.of("retrieve", "Recall@5").recovered.difference == 0.0


@pytest.mark.slow
def test_a_search_that_keeps_too_few_tokens_is_named(folder: Path, model: ScriptedServer) -> None:
    settings = f"retrieve: {{context_tokens: 5}}\n{answering(model)}"
    found = diagnosed(folder, settings, "Recall@100,Contains", testset="pairs")
    assert found.stage == "truncate"
    assert found.of("truncate", "Recall@100").proven


@pytest.mark.slow
def test_a_generator_that_ignores_its_passages_is_named(folder: Path) -> None:
    with ScriptedServer("Trains are nice [1].") as dreamer, ScriptedServer(judges) as judge:
        settings = f"{answering(dreamer)}judge: {{model: '{judge.url}#judge'}}\n"
        found = diagnosed(folder, settings, "AnswerRelevance,Contains")
    assert found.stage == "generate"
    assert found.losses == {"generate": len(NAMES)}
    assert found.of("generate", "Contains").first.difference == 1.0
    assert found.of("judge", "AnswerRelevance").recovered.difference == 0.0


@pytest.mark.slow
def test_a_judge_that_always_says_two_is_named(folder: Path, model: ScriptedServer) -> None:
    two = json.dumps({"reasoning": "Hm.", "score": 2})
    with ScriptedServer(two) as judge:
        settings = f"{answering(model)}judge: {{model: '{judge.url}#judge'}}\n"
        found = diagnosed(folder, settings, "AnswerRelevance,Contains")
    assert found.stage == "judge"
    assert found.losses == {"judge": len(NAMES)}
    points = found.of("judge", "AnswerRelevance")
    assert points.first.difference == 3.0
    assert found.of("generate", "AnswerRelevance").recovered.difference == 0.0


def test_the_gold_that_no_chunk_holds_is_told_apart(folder: Path, model: ScriptedServer) -> None:
    lines = rows()
    for line in lines[:3]:
        line["reference_spans"] = [{"document_id": "docs/gone.txt", "start": 0, "end": 9}]
    (folder / "gone.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = diagnosed(folder, answering(model), testset="gone")
    assert found.losses["index"] == 3
    assert any("no chunk of the index" in line for line in found.verdict)
    text = write_lost_rows(found, "index")
    assert "docs/gone.txt 0-9: in no chunk of the index" in text


@pytest.mark.slow
def test_a_document_that_only_an_oracle_read_can_be_forgotten(
    folder: Path, model: ScriptedServer
) -> None:
    noise = "[{field: document_id, values: [docs/a-noise-01.txt]}]"
    settings = f"retrieve: {{filters: {noise}}}\n{answering(model)}"
    (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}")
    given = load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder) as bench:
        found, run = bench.diagnose(given, MEASURES, DiagnosisOptions())
        alder = found.rows[0]
        others = set(alder.documents) - {"docs/station-00.txt", *alder.plain.ranking}
        assert others  # with the filter lifted, other stations were shown as well
        before = len(list(bench.project.runs.rows(run.run)))
        assert forget_at(bench.project.folder.ledger, source=min(others))["rows"] > 0
        assert "Alder" not in {row.id for row in bench.project.runs.rows(run.run)}
        assert len(list(bench.project.runs.rows(run.run))) < before


def test_documents_as_gold_do_as_well(folder: Path, model: ScriptedServer) -> None:
    lines = rows()
    for n, line in enumerate(lines):
        del line["reference_spans"]
        line["reference_ids"] = {f"docs/station-{n:02d}.txt": 1}
    (folder / "ids.jsonl").write_text("\n".join(map(json.dumps, lines)))
    noise = "[{field: document_id, values: [docs/a-noise-01.txt]}]"
    settings = f"retrieve: {{filters: {noise}}}\n{answering(model)}"
    assert diagnosed(folder, settings, testset="ids").stage == "filter"


def test_slices_closed_book_and_json(folder: Path, model: ScriptedServer) -> None:
    how = DiagnosisOptions(by=("persona_name",), closed_book=True)
    found = diagnosed(folder, answering(model), how=how)
    assert set(found.parts) == {"persona_name = engineer", "persona_name = marketing"}
    assert found.context is not None
    assert found.context["Contains"].difference == 1.0
    assert found.context["Contains"].verdict == "better"
    assert found.known is not None
    assert found.known.mean == 0.0
    told = json.loads(json.dumps(diagnosis_json(found, run="r"), default=list))
    assert told["stage"] is None
    assert len(told["rows"]) == len(NAMES)
    assert told["rows"][0]["gold"][0]["shown"] == 1
    assert "right without passages: 0.0%" in diagnosis_table(found)


@pytest.mark.slow
def test_the_forecast_counts_exactly_what_is_called(folder: Path, model: ScriptedServer) -> None:
    noise = "[{field: document_id, values: [docs/a-noise-01.txt, docs/station-03.txt]}]"
    settings = f"retrieve: {{filters: {noise}}}\n{answering(model)}"
    (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}")
    given = load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_diagnose(given, MEASURES, DiagnosisOptions(closed_book=True))
        assert forecast.calls.exact
        assert model.requests == []
        bench.diagnose(given, MEASURES, DiagnosisOptions(closed_book=True))
        made = len(model.requests)
        assert made == forecast.calls.expected
        bench.diagnose(given, MEASURES, DiagnosisOptions(closed_book=True))
    assert len(model.requests) == made


@pytest.mark.slow
def test_what_a_paid_search_finds_is_forecast_as_a_range(
    folder: Path, model: ScriptedServer
) -> None:
    with ScriptedServer("unused") as vectors:
        settings = f"embed: {{model: '{vectors.url}#words', dimensions: 64}}\n"
        settings += f"retrieve: {{search: dense}}\n{answering(model)}"
        (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}")
        given = load_testset(str(folder / "set.jsonl"))
        with Workbench.open(folder) as bench:
            bench.ingest()
            forecast = bench.forecast_diagnose(given, MEASURES, DiagnosisOptions())
            bench.diagnose(given, MEASURES, DiagnosisOptions())
    assert not forecast.calls.exact
    vectors_asked = len(NAMES)  # one a question, however they are batched
    made = len(model.requests) + vectors_asked
    assert forecast.calls.low == len(NAMES) + vectors_asked
    assert forecast.calls.low <= made <= forecast.calls.high


@pytest.mark.slow
def test_a_run_that_the_budget_stopped_goes_on_where_it_was(
    folder: Path, model: ScriptedServer
) -> None:
    name = f"{model.url}#reader"
    price = f"models: {{'{name}': {{price_in: 0, price_out: 100000, concurrency: 1}}}}\n"
    settings = f"{answering(model, ', max_tokens: 10')}{price}"
    (folder / "ragwright.yaml").write_text(f"sources: [docs]\n{settings}")
    given = load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder, Session(max_cost=4.0)) as bench:
        part, first = bench.diagnose(given, MEASURES, DiagnosisOptions())
    assert first.reason is not None
    assert 0 < len(part.rows) < len(NAMES)
    assert any(note.startswith("left out: row") for note in part.notes)
    paid = len(model.requests)
    with Workbench.open(folder) as bench:
        found, again = bench.diagnose(given, MEASURES, DiagnosisOptions(resume=True))
    assert again.run == first.run
    assert again.complete
    assert len(found.rows) == len(NAMES)
    assert len(model.requests) <= len(NAMES) + paid - len(part.rows)


def test_what_cannot_be_diagnosed_is_said_with_the_way_out(folder: Path) -> None:
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    (folder / "bare.jsonl").write_text(json.dumps({"id": "1", "user_input": "What?"}))
    bare = load_testset(str(folder / "bare.jsonl"))
    given = load_testset(str(folder / "set.jsonl"))
    with Workbench.open(folder) as bench:
        with pytest.raises(TestsetError, match="has gold for retrieval") as error:
            bench.diagnose(bare, "Contains", DiagnosisOptions())
        assert "reference_spans" in str(error.value)
        with pytest.raises(TestsetError, match="gold answer"):
            bench.diagnose(bare, "Contains", DiagnosisOptions(stages=("generate",)))
        with pytest.raises(ConfigError, match="unknown stage"):
            bench.diagnose(given, "Contains", DiagnosisOptions(stages=("retriev",)))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="without a chat model"):
            bench.diagnose(given, "Contains", DiagnosisOptions(closed_book=True))
