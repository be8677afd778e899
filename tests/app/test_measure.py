"""`eval`, `score`, `gate` and `measures`, as a user types them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import ragwright, spawned
from served import served
from small_project import MakeProject
from story_tools import make_project, read_json, run, settings, write_files, write_rows

from ragwright import Workbench, evaluate
from ragwright.core import MeasureError, PluginError
from ragwright.models import SystemOptions, open_system
from ragwright.testing import ScriptedServer, ServerRequest

TEXTS = {
    "pump.md": "# Pump\n\nThe circulation pump restarts once the winding has cooled down.\n",
    "valve.md": "# Valve\n\nThe mixing valve closes when the floor is warmer than 50 degrees.\n",
    "tank.md": "# Tank\n\nHot water in the tank is prepared by the clock at six in the morning.\n",
}
ROWS = [
    ("q1", "When does the circulation pump restart?", "once the winding has cooled", "pump.md"),
    ("q2", "When does the mixing valve close?", "when the floor is warmer", "valve.md"),
    ("q3", "When is hot water in the tank prepared?", "at six in the morning", "tank.md"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents, and a question about each with its gold."""
    folder = make_project(tmp_path_factory.mktemp("project"), TEXTS, "retrieve: {top_k: 2}\n")
    rows = [
        {"id": key, "user_input": asked, "reference": gold, "reference_ids": [f"docs/{name}"]}
        | {"persona_name": "engineer", "topic": name}
        for key, asked, gold, name in ROWS
    ]
    write_rows(folder / "set.jsonl", rows)
    return folder


def means(told: Any) -> dict[str, float]:
    return {name: measured["mean"] for name, measured in told["measures"].items()}


def scored(folder: Path, rows: list[dict[str, Any]], measures: str = "", *more: str) -> Any:
    """Rows, written to a file and scored."""
    write_rows(folder / "rows.jsonl", rows)
    named = ("--measures", measures) if measures else ()
    return read_json(folder, "score rows.jsonl", *named, *more)


# -- answers of the project ------------------------------------------------------------------


@pytest.mark.slow
def test_answers_are_written_scored_stored_and_judged_again(project: Path) -> None:
    told = read_json(project, "eval --testset set.jsonl --measures HitRate@1,Contains")
    assert means(told)["HitRate@1"] == 1.0
    assert told["measures"]["Contains"]["n"] == 3
    again = means(read_json(project, f"score {told['run']} --measures Contains,KPrecision"))
    assert again["Contains"] == means(told)["Contains"]
    assert again["KPrecision"] == 1.0, "quoted answers stand in the passages"
    shown = run(project, f"score {told['run']} --measures Contains --by topic")
    assert "pump.md" in shown
    assert "run:" in shown


def test_measures_are_chosen_by_what_the_project_has(project: Path) -> None:
    told = read_json(project, "eval --testset set.jsonl")
    chosen = ["nDCG@2", "Recall@2", "KPrecision(content+bigrams)", "Contains", "TokenF1"]
    assert list(told["measures"]) == chosen, "as deep as the passages of an answer"
    assert any("Pairwise (no chat model judges" in note for note in told["notes"])
    assert any("are quotes of their passages" in note for note in told["notes"])
    ranked = read_json(project, "eval --testset set.jsonl --retrieval-only --by topic")
    assert list(ranked["measures"]) == ["nDCG@10", "Recall@100", "MRR@10"]
    assert set(ranked["slices"]["topic"]) == set(TEXTS)
    assert ranked["slices"]["topic"]["pump.md"]["MRR@10"]["n"] == 1


def test_the_citations_of_the_project_are_measured_by_their_places(project: Path) -> None:
    [hit, *_] = read_json(project, "retrieve", ROWS[0][1])["hits"]
    start = hit["start"] + hit["text"].index(ROWS[0][2])
    span = {"document_id": hit["document_id"], "start": start, "end": start + len(ROWS[0][2])}
    row = {"user_input": ROWS[0][1], "reference_spans": [span | {"text": ROWS[0][2]}]}
    write_rows(project / "cited.jsonl", [row])
    asked = "eval --testset cited.jsonl --measures CitationPrecision,CitationRecall"
    for reply, expected in (("Once it is cold [1].", [1, 1]), ("So it is [1][2] [7].", [1 / 3, 1])):
        with ScriptedServer(reply) as server:
            told = read_json(project, asked, *settings(answer__model=f"{server.url}#m"))
        assert [*means(told).values()] == pytest.approx(expected)


def test_rankings_of_one_document_are_measured_by_spans_and_other_rows_by_documents(
    tmp_path: Path,
) -> None:
    """The gold of each question about a part is a section on another part."""
    words = ("brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp")
    sections = [
        f"# The {w}\n\nThe {w} is changed after {n} years.\n\n" for n, w in enumerate(words)
    ]
    manual = "".join(sections)
    make_project(tmp_path, {"manual.md": manual}, "chunk: {size: 12, overlap: 0}\n")
    rows: list[dict[str, Any]] = []
    for number, word in enumerate(words):
        text = f"The {words[number - 4]} is changed after"
        span = {"document_id": "docs/manual.md", "start": manual.index(text), "text": text}
        span["end"] = manual.index(text) + len(text)
        rows.append({"user_input": f"When is the {word} changed?", "reference_spans": [span]})
    write_rows(tmp_path / "parts.jsonl", rows)
    asked = "eval --testset parts.jsonl --measures HitRate@1,MRR@8,SpanIoU@3"
    told = read_json(tmp_path, f"{asked} --retrieval-only")
    assert means(told) == means(read_json(tmp_path, f"{asked} --set retrieve.top_k=8"))
    assert means(told)["HitRate@1"] == 0
    assert told["measures"]["MRR@8"]["counted"] == {"spans": 8}
    assert told["measures"]["SpanIoU@3"]["n"] == 8
    assert "HitRate@1 (0-1, spans)" in run(tmp_path, f"{asked} --retrieval-only")
    assert "at most 5 (retrieve.top_k)" in " ".join(run(tmp_path, asked).split())
    with served(tmp_path) as running:
        assert "0-1, spans" in running.http.get(f"/experiments/{told['run']}").text
    for row in rows[:3]:
        row["reference_ids"] = [row.pop("reference_spans")[0]["document_id"]]
    write_rows(tmp_path / "parts.jsonl", rows)
    found = read_json(tmp_path, f"{asked} --retrieval-only")["measures"]["HitRate@1"]
    assert found["counted"] == {"spans": 5, "documents": 3}
    assert found["mean"] == pytest.approx(3 / 8)


# -- rows of others --------------------------------------------------------------------------


def test_rows_of_another_tool_are_scored_without_a_project(tmp_path: Path) -> None:
    row = {"question": "Who?", "contexts": ["Ada did."], "answer": "Ada", "ground_truth": "Ada"}
    write_rows(tmp_path / "ragas.jsonl", [row, row])
    shown = run(tmp_path, "score ragas.jsonl")
    assert "TokenF1" in shown
    assert "95 % interval" in shown
    run(tmp_path, "score ragas.jsonl -o out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) >= 3
    told = read_json(tmp_path, "score ragas.jsonl --dry-run")
    assert told["calls"] == {"low": 0, "expected": 0, "high": 0}
    assert not (tmp_path / ".ragwright").exists()
    empty = scored(tmp_path, [{**row, "answer": ""}])["measures"]
    assert (empty["TokenF1"]["mean"], empty["TokenF1"]["n"]) == (0.0, 1)
    assert empty["KPrecision(content+bigrams)"]["coverage"] == 0.0
    wrong = {"question": "How often?", "contexts": ["Every two years."], "answer": "Once a year."}
    assert means(scored(tmp_path, [wrong]))["KPrecision(content+bigrams)"] == 0.5
    thought = "<think>It could be noon, or at six in the evening.</think>\n\nAt six."
    rows = [("1", thought, "At six."), ("2", "In the tank.", "Elsewhere.")]
    told = scored(
        tmp_path,
        [{"id": i, "user_input": "When?", "response": r, "reference": g} for i, r, g in rows],
        "ExactMatch",
    )
    assert means(told)["ExactMatch"] == 0.5
    assert "left out: the model's thought in the response of 1 row" in told["notes"]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A project without documents."""
    (tmp_path / "ragwright.yaml").write_text("{}\n")
    return tmp_path


def page_of(folder: Path) -> str:
    run(folder, "report latest -o page.html -q")
    return (folder / "page.html").read_text("utf-8")


def test_a_judge_that_fails_is_no_system_that_fails(bare: Path) -> None:
    said = {"a": 5, "b": 3, "c": None}

    def judged(request: ServerRequest) -> str:
        text = json.dumps(request.body["messages"])
        key = next(key for key in said if f"Ada {key} did." in text)
        return "Hm." if said[key] is None else json.dumps({"reasoning": "So.", "score": said[key]})

    rows = [
        {"id": key, "user_input": f"Who is {key}?", "response": f"Ada {key}"}
        | {"retrieved_contexts": [f"Ada {key} did."]}
        for key in said
    ]
    with ScriptedServer(judged) as server:
        judge = settings(judge__model=f"{server.url}#judge")
        told = scored(bare, rows, "Faithfulness", *judge)
        shown = " ".join(run(bare, "score rows.jsonl --measures Faithfulness", *judge).split())
    invalid = "judge_invalid 1; with their scores the mean is 3.0000 to 4.3333"
    assert shown.startswith("outcome rows")
    assert "answered 3 of 3" in shown
    assert invalid in shown
    assert told["measures"]["Faithfulness"]["judge_range"] == pytest.approx([3.0, 13 / 3])
    assert next(iter(told)) == "outcome"
    verdict = read_json(bare, "report latest")["verdict"]["headline"]
    assert invalid in verdict


def test_an_evaluation_opens_with_what_became_of_the_questions(bare: Path) -> None:
    said = [("Ada", True), ("I don't know.", True), ("I don't know.", False), ("Ada", False)]
    rows = [
        {"id": f"r{at}", "user_input": "Who?", "response": response, "answerable": answerable}
        | {"reference": "Ada", "retrieved_contexts": ["It is Ada."]}
        for at, (response, answerable) in enumerate(said)
    ]
    told = scored(bare, rows)
    counts = {name: value for name, value in told["outcome"].items() if value}
    refused = {"rightly_refused": 1, "wrongly_refused": 1, "wrongly_answered": 1}
    asked = {"rows": 4, "answered": 2, "abstained": 2, "unanswerable": 2, "answerable": 2}
    assert counts == asked | refused
    assert means(told)["RejectionRate"] == means(told)["FalseRejectionRate"] == 0.5
    text = " ".join(run(bare, "score rows.jsonl").split())
    assert "rightly refused 1 of 2 answered although nothing answers 1 of 2" in text
    assert "KPrecision: 2 of 4 answers are quotes" not in text
    page = page_of(bare)
    assert page.index("answered although nothing answers") < page.index('<dl class="facts">')
    assert '<h1 class="verdict plain" dir="auto">' in page
    assert "Contains (0-1) is 0." in page, "the measure that sees references leads"


def test_citations_are_measured_against_gold_passages(bare: Path) -> None:
    said = {
        "both": ("It is Ada [1], and Bo [2].", (1, 1)),
        "half": ("It is Ada [1][3].", (0.5, 0.5)),
        "unknown": ("It is Ada [1], see [9].", (0.5, 0.5)),
        "index": ("The first one is arr[0], and `arr[1]` follows.", (None, 0)),
        "unread": ("It is Cy [3].", (0, 0)),
    }
    gold = {"retrieved_context_ids": ["a", "b", "c"], "reference_ids": {"a": 1, "b": 1, "c": 0}}
    rows = [
        {"id": k, "user_input": "Who?", "response": text, **gold} for k, (text, _) in said.items()
    ]
    told = scored(bare, rows, "CitationPrecision,CitationRecall", "--rows")["rows"]
    found = {row["id"]: (row["CitationPrecision"], row["CitationRecall"]) for row in told}
    assert found == {key: expected for key, (_, expected) in said.items()}


def test_repeated_judgments_are_stable_or_flaky(bare: Path) -> None:
    drawn = {"good": iter([5, 4]), "shaky": iter([5, 2]), "bad": iter([1, 3])}

    def judged(request: ServerRequest) -> str:
        text = json.dumps(request.body["messages"])
        key = next(key for key in drawn if f"Ada {key}" in text)
        return json.dumps({"reasoning": "So.", "score": next(drawn[key])})

    rows: list[dict[str, Any]] = [
        {"id": key, "user_input": "Who?", "response": f"Ada {key}", "retrieved_contexts": ["Ada"]}
        for key in drawn
    ]
    with ScriptedServer(judged) as server:
        judge = settings(judge__model=f"{server.url}#judge")
        told = scored(bare, rows, "Faithfulness", "--rows", "--repeat", "2", *judge)
    stability = {row["id"]: row["Faithfulness stability"] for row in told["rows"]}
    assert stability == {"good": "stable right", "shaky": "flaky", "bad": "stable wrong"}
    assert told["measures"]["Faithfulness"]["stability"] == dict.fromkeys(stability.values(), 1)


LINKS = "https://evil.example www.evil.example GH-12 #12 $x$"


def test_the_comment_of_a_gate_has_rules_failing_rows_and_no_text_that_formats(
    tmp_path: Path,
) -> None:
    rows = [
        {"id": f"q{n}", "question": f"Who is @alice | <b>{n}</b>?\n{LINKS}", "answer": "Alice"}
        | {"reference": "Bob" if n % 3 else "Alice"}
        for n in range(21)
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    run(tmp_path, "score rows.jsonl --measures TokenF1 -q -o scores.jsonl")
    shown = run(tmp_path, "gate scores.jsonl --rule TokenF1>=0.7 --markdown", code=100)
    head = "<!-- ragwright gate -->\n\n### ragwright gate: failed\n\n| rule | outcome | because |"
    assert shown.startswith(head)
    assert "<details><summary>" in shown
    cells = [line for line in shown.splitlines() if "alice" in line]
    assert cells
    for line in cells:
        hostile = ("@alice", "<b>", "://", "www.", "GH-1", "#1", "$x$")
        assert [text for text in hostile if text in line] == []
        assert line.replace("\\|", "").count("|") == 4
    passed = run(tmp_path, "gate scores.jsonl --rule TokenF1>=0.1 --markdown")
    assert "details" not in passed


def test_the_steps_of_the_example_workflow_gate_a_project(tmp_path: Path) -> None:
    """Its own lines run as they stand, and write the comment that its last step posts."""
    texts = {"docs/a.md": "# Brakes\n\nBrake fluid is changed every two years.\n"}
    write_files(tmp_path, {**texts, "ragwright.yaml": "sources: [docs]\n", "testsets/x": ""})
    gold = {"reference_ids": {"docs/a.md": 1}}
    rows = [{"id": f"q{n}", "question": f"brake fluid {n}", **gold} for n in range(10)]
    write_rows(tmp_path / "testsets/release.jsonl", rows)
    file = Path(__file__).resolve().parents[2] / "examples/github/gate.yml"
    steps = yaml.safe_load(file.read_text("utf-8"))["jobs"]["gate"]["steps"]
    lines = {step["name"]: step["run"] for step in steps if "run" in step}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
    for name in ("Read the documents", "Ask the test set", "Gate"):
        words = ["bash", "-euc", lines[name]]
        subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=120)
    comment = (tmp_path / "ragwright-gate.md").read_text("utf-8")
    assert comment.startswith("<!-- ragwright gate -->\n\n### ragwright gate: passed")
    assert summary.read_text("utf-8") == comment
    assert "gh pr comment" in lines["Comment"]
    assert 'startswith("<!-- ragwright gate -->")' in lines["Comment"]


# -- measures of the user --------------------------------------------------------------------

CODE = """
from ragwright.measure import custom_measure

@custom_measure(low=0, high=1)
def politeness(row):
    if not row.response:
        return None
    if row.response == "boom":
        raise ValueError("no boom please")
    return "please" in row.response

@custom_measure(low=0, higher_is_better=False)
def length(row):
    return len(row.response or "")

def text(row):
    return "long"

number = 3
"""
STARS: list[dict[str, object]] = [
    {"id": "a", "question": "Q?", "response": "please wait", "stars": 4, "good": True},
    {"id": "b", "question": "Q?", "response": "no", "stars": "2.5", "good": "no"},
    {"id": "c", "question": "Q?", "response": "boom", "stars": "many"},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_rows(write_files(tmp_path, {"mymeasures.py": CODE}) / "rows.jsonl", STARS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_function_and_columns_score_from_python_and_by_the_command(folder: Path) -> None:
    named = "mymeasures:politeness, mymeasures:text, Column(stars), Column(good)"
    found = evaluate(str(folder / "rows.jsonl"), named)
    polite, text, stars, good = zip(*(row.scores for row in found.results), strict=True)
    assert [score.value for score in polite] == [1.0, 0.0, None]
    assert (polite[2].state, "no boom please" in polite[2].reason) == ("errored", True)
    assert {score.state for score in text} == {"errored"}
    assert "'long'" in text[0].reason
    assert [score.value for score in stars] == [4.0, 2.5, None]
    assert (stars[2].state, "'stars'" in stars[2].reason) == ("errored", True)
    assert [score.value for score in good] == [1.0, 0.0, None]
    assert (good[2].state, "'good'" in good[2].reason) == ("not_applicable", True)
    assert [s.scale and s.scale.ends for s in found.summaries] == [(0.0, 1.0), None, None, None]
    told = read_json(folder, "score rows.jsonl --measures TokenF1,mymeasures:length")
    assert "mymeasures:length" in told["measures"]
    for wrong in ("mymeasures:none", "no_such_module:x", "mymeasures:number"):
        with pytest.raises((PluginError, MeasureError), match=wrong.split(":")[0]):
            evaluate(str(folder / "rows.jsonl"), wrong)


# -- systems of others -----------------------------------------------------------------------

RAG = """
DOCS = {"fr.md": "Paris is the capital of France.", "de.md": "Berlin is the capital of Germany."}

def retriever(question):
    return [text for text in DOCS.values() if question.split()[-1].strip("?") in text]

def answer(question):
    with open("calls.txt", "a") as log:
        log.write(question + "\\n")
    hits = retriever(question)
    return {"answer": hits[0].split()[0] if hits else "I do not know.", "contexts": hits}

def worse(question):
    return {"answer": "Rome", "contexts": ["Rome is old."]}

def shy(question):
    return {"answer": "No idea.", "abstained": True}
"""
QUESTIONS = """question,answer,reference contexts
What is the capital of France?,Paris,Paris is the capital of France.
What is the capital of Germany?,Berlin,Berlin is the capital of Germany.
What is the capital of Spain?,Madrid,Madrid is the capital of Spain.
"""
ASKED = "eval --testset questions.csv --system"


@pytest.fixture
def rag(tmp_path: Path) -> Path:
    """A folder of somebody's pipeline and questions, without a project."""
    priced = "call: rag:answer\nprice: 0.25\n"
    files = {"rag.py": RAG, "questions.csv": QUESTIONS, "system.yaml": priced}
    return write_files(tmp_path, files)


def calls(folder: Path) -> int:
    return len((folder / "calls.txt").read_text().splitlines())


def test_one_line_gives_numbers_on_a_function_a_retriever_and_what_abstains(rag: Path) -> None:
    found = means(read_json(rag, f"{ASKED} rag:answer"))
    assert found["TokenF1"] == pytest.approx(2 / 3)
    assert found["nDCG@10"] == pytest.approx(2 / 3), "gold passages, found by their text"
    assert not (rag / "ragwright.yaml").exists(), "no project is needed"
    assert calls(rag) == 3, "the first row is asked once"
    shown = run(rag, "diagnose --run latest")
    assert "2 of 3 rows are answered right (see the rule)." in shown
    told = read_json(rag, "diagnose --run latest")
    assert told["losses"] == {"none": 2, "retrieve": 1}, "it found nothing on Spain"
    with ScriptedServer(lambda request: "Paris") as model:
        told = read_json(rag, f"{ASKED} {model.url}#m --measures TokenF1")
        assert model.count == 3, "an OpenAI-compatible endpoint is a system"
    assert means(told)["TokenF1"] == pytest.approx(1 / 3)
    short = [line.rpartition(",")[0] for line in QUESTIONS.splitlines()]
    (rag / "questions.csv").write_text("\n".join(short), "utf-8")
    found = read_json(rag, f"{ASKED} rag:retriever")["measures"]
    assert list(found) == ["AnswerRecall@5"], "questions and answers are enough"
    assert found["AnswerRecall@5"]["mean"] == pytest.approx(2 / 3)
    assert found["AnswerRecall@5"]["n"] == 3, "nothing found counts 0"
    told = read_json(rag, f"{ASKED} rag.py:shy --measures TokenF1", code=101)
    assert told["measures"]["TokenF1"]["states"]["abstained"] == 3


def test_its_run_is_like_any_other(rag: Path) -> None:
    for name, system in (("good", "rag.py:answer"), ("bad", "rag:worse")):
        run(rag, f"{ASKED} {system} --name {name} -q")
    compared = read_json(rag, "compare good bad")
    assert compared["measures"]["TokenF1"]["difference"] == pytest.approx(-2 / 3)
    assert {"key": "system", "a": "rag.py:answer", "b": "rag:worse"} in compared["settings"]
    assert "passed" in run(rag, "gate good --rule TokenF1>=0.6 --least 3")
    run(rag, "gate bad --rule TokenF1>=0.6 --least 3", code=100)
    told = read_json(rag, "report good bad")
    assert told["facts"]["system"] == "rag.py:answer and rag:worse"
    again = read_json(rag, "score good --measures ExactMatch")
    assert again["measures"]["ExactMatch"]["n"] == 3


def test_a_price_is_foretold_a_budget_stops_it_and_resume_goes_on(rag: Path) -> None:
    found = read_json(rag, f"{ASKED} system.yaml --dry-run")
    assert not (rag / "calls.txt").exists()
    assert found["calls"]["expected"] == 3
    assert found["cost"]["expected"] == pytest.approx(0.75)
    stopped = ragwright(rag, *ASKED.split(), "system.yaml", "--max-cost", "0.5", code=101)
    assert "budget" in stopped.stderr
    assert calls(rag) == 2
    run(rag, f"{ASKED} system.yaml --resume")
    assert calls(rag) == 3, "no row was asked again"


def test_a_stopped_run_is_not_passed_off_as_a_result(rag: Path) -> None:
    words = f"{ASKED} system.yaml --measures TokenF1 -q --name"
    run(rag, f"{words} whole")
    run(rag, f"{words} cut --max-cost 0.5", code=101)
    assert "of 3 rows have no result" in " ".join(run(rag, "compare whole cut").split())
    for pair, stopped in (("whole cut", 1), ("whole whole", 0)):
        notes = read_json(rag, f"compare {pair}")["notes"]
        assert sum("was stopped" in note for note in notes) == stopped
    with Workbench.open(rag) as bench:
        bench.project.runs.start("eval", {"testset": "t.csv", "measures": ["TokenF1"]})
    run(rag, f"{words} third")
    listed = read_json(rag, "compare")["runs"]
    assert [each["name"] for each in listed] == ["third", "cut", "whole"]
    for back, each in enumerate(listed):
        assert read_json(rag, f"compare latest~{back} latest~{back}")["a"] == each["id"]
    dead = settings(judge__model="http://127.0.0.1:9/v1#m")
    run(rag, "score whole --measures Faithfulness -q", *dead, code=None)
    found = read_json(rag, "score latest --measures Contains")
    assert found["measures"]["Contains"]["n"] == 3, "latest is no run in which nothing was done"


def test_replies_are_reused_only_under_a_version(rag: Path) -> None:
    words = f"{ASKED} rag:answer -q"
    expected = {
        "": 3,
        " ": 6,  # nobody said that the system is the same as before
        "--system-version 1": 9,
        "--system-version 1 ": 9,
        "--system-version 2": 12,
        "--system-version 2 --no-cache": 15,
    }
    for more, asked in expected.items():
        run(rag, f"{words} {more}")
        assert calls(rag) == asked, more


def test_ctrl_c_keeps_what_was_done_and_resume_goes_on(rag: Path) -> None:
    (rag / "pressed.py").write_text(
        "import os, signal\n"
        "def ask(question):\n"
        "    if question.endswith('Germany?') and not os.path.exists('pressed'):\n"
        "        open('pressed', 'w').close()\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    return 'Paris'\n"
    )
    words = [*ASKED.split(), "pressed:ask", "--measures", "TokenF1", "-j", "1"]
    stopped = ragwright(rag, *words, code=130).stderr
    assert re.search(
        r"^stopped; .* kept.*; to continue, run it again with --resume$", stopped, re.M
    )
    told = json.loads(ragwright(rag, *words, "--resume", "--json").stdout)
    assert told["measures"]["TokenF1"]["states"] == {"scored": 3}


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_where_it_was(rag: Path) -> None:
    (rag / "slow.py").write_text(
        "import os, signal, time\n"
        "def ask(question):\n"
        "    with open('calls.txt', 'a') as log:\n"
        "        log.write(question + chr(10))\n"
        "    if question == 'q4' and not os.path.exists('killed'):\n"
        "        open('killed', 'w').close()\n"
        "        time.sleep(0.5)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 'a' + question[1:]\n",
        "utf-8",
    )
    (rag / "six.csv").write_text("question,answer\n" + "".join(f"q{n},a{n}\n" for n in range(6)))
    words = ("eval", "--system", "slow:ask", "--testset", "six.csv", "-j", "1")
    spawned(rag, *words, code=-9)
    done = spawned(rag, *words, "--resume", "--json")
    assert means(json.loads(done.stdout))["TokenF1"] == 1.0
    asked = (rag / "calls.txt").read_text().split()
    assert sorted(asked) == ["q0", "q1", "q2", "q3", "q4", "q4", "q5"]


def test_no_gold_is_said_before_anything_is_asked(rag: Path) -> None:
    (rag / "bare.csv").write_text("question\nWhy?\n", "utf-8")
    words = ("eval", "--system", "rag:answer", "--testset", "bare.csv")
    for more in ((), ("--dry-run",)):
        done = ragwright(rag, *words, "--measures", "TokenF1", *more, code=1)
        assert "no row has what TokenF1 compares with" in done.stderr
    assert not (rag / "calls.txt").exists()


@pytest.mark.slow
def test_a_served_project_tells_its_citations_and_abstentions(tmp_path: Path) -> None:
    project = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer, marketing]}\n")
    ragwright(project, "ingest", "-q")
    asked = (
        "question,answer,reference_ids\n"
        "How often must the brake fluid be changed?,every two years,docs/service.md\n"
        "Who sings in the opera tonight?,nobody,docs/codes.md\n"
    )
    write_files(tmp_path, {"questions.csv": asked})
    with served(project) as running:
        words = f"{ASKED} {running.address}/v1#handbook/engineer --rows"
        told = read_json(tmp_path, f"{words} --measures TokenF1,KPrecision,HitRate@5")
    first, second = told["rows"]
    best = "The brake fluid must be changed every two years."
    assert best in first["response"]
    assert "[1]" not in first["response"]
    assert first["retrieved_contexts"][0].startswith(best)
    assert first["retrieved_context_ids"][0] == "docs/service.md"
    assert first["KPrecision"] > 0.5, "the line without a model and the headings are no passages"
    assert first["HitRate@5"] == 1
    assert second["TokenF1 state"] == "abstained"


# -- models of tokens, and settings that hold texts ------------------------------------------

WHEN = {"id": "a", "user_input": "When?", "response": "every two years", "reference": "two years"}


def by_model(folder: Path, model: str, measures: str = "BERTScore,MoverScore") -> dict[str, float]:
    words = f"score rows.jsonl --measures {measures}"
    return means(read_json(folder, words, *settings(judge__token_model=model)))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A row outside a project, and the same in one."""
    write_rows(tmp_path / "rows.jsonl", [WHEN])
    shutil.copy(tmp_path / "rows.jsonl", MakeProject(tmp_path)())
    return tmp_path


@pytest.mark.slow
def test_a_token_model_is_named_as_a_folder_or_with_its_provider(
    tokens: Path, minilm: Path
) -> None:
    project, inner = tokens / "project", tokens / "model" / "0_Transformer"
    (project / "models").mkdir()
    (project / "models" / "small").symlink_to(minilm)
    inner.mkdir(parents=True)
    for file in minilm.iterdir():
        if file.is_file() and file.name != "modules.json":
            shutil.copy(file, inner)
    layers = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    (tokens / "model" / "modules.json").write_text(json.dumps(layers))
    alone = by_model(tokens, str(minilm))
    assert 0.5 < alone["BERTScore"] < 1
    for name in (str(minilm), f"st:{minilm}", "models/small", "st:models/small"):
        assert by_model(project, name) == alone, name
    for name in (f"st:{minilm}", "st:model"):
        assert by_model(tokens, name) == alone, name
    recall = by_model(project, "st:models/small", "BERTScore(recall)")
    assert recall["BERTScore(recall)"] != alone["BERTScore"]


@pytest.mark.needs_torch
def test_what_is_no_token_model_is_refused_before_the_first_row(tokens: Path) -> None:
    layer = "sentence_transformers.models.StaticEmbedding"
    kinds = {"config.json": '{"model_type": "model2vec"}'}
    modules = {"modules.json": json.dumps([{"path": "", "type": layer}])}
    for folder in (tokens, tokens / "project"):
        for at, files in enumerate((kinds, modules)):
            write_files(folder / f"s{at}", files)
    static = "need a transformer; this model is a table of word vectors"
    for where, name, said in (
        *((place, f"{st}s{at}", static) for place in (".", "project") for at in (0, 1)
          for st in ("", "st:")),
        ("project", "nowhere", "no such model folder"),
        ("project", "st:nowhere", "no such model folder"),
        ("project", "openai:gpt-4.1-mini", "is not a local model"),
        ("project", "docs", "the folder holds no transformer"),
    ):  # fmt: skip
        words = ("score", "rows.jsonl", "--measures", "BERTScore")
        model = settings(judge__token_model=name)
        done = ragwright(tokens / where, *words, *model, code=1)
        assert said in done.stderr, name
        assert "Traceback" not in done.stderr


# -- pipelines of LangChain and LlamaIndex, evaluated by their own packages ------------------

CAPITALS = {
    "france.md": "Paris is the capital of France.",
    "germany.md": "Berlin is the capital of Germany.",
}
LANDS = [
    {"question": f"What is the capital of {land}?", "answer": town, "reference_ids": [name]}
    for name, land, town in (("france.md", "France", "Paris"), ("germany.md", "Germany", "Berlin"))
]


def joined(documents: Any) -> str:
    return "\n".join(document.page_content for document in documents)


@pytest.mark.slow
@pytest.mark.needs_frameworks
def test_chains_retrievers_and_models_of_langchain_are_systems(tmp_path: Path) -> None:
    documents = import_module("langchain_core.documents")
    runnables = import_module("langchain_core.runnables")
    prompts = import_module("langchain_core.prompts")
    base: Any = import_module("langchain_core.retrievers").BaseRetriever

    class ByWords(base):  # type: ignore[misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            words = set(query.strip("?").split())
            name = max(CAPITALS, key=lambda n: len(words & set(CAPITALS[n].strip(".").split())))
            return [documents.Document(page_content=CAPITALS[name], metadata={"source": name})]

    def model(prompt: Any) -> str:
        """Repeats its context."""
        return str(prompt.to_string().partition("Context: ")[2].split()[0])

    prompt = prompts.ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    said = prompt | runnables.RunnableLambda(model)
    parser = import_module("langchain_core.output_parsers").StrOutputParser()
    retriever, asked = ByWords(), itemgetter("question")
    of_key = {"context": asked | retriever | joined, "question": asked} | said | parser
    answer = runnables.RunnablePassthrough.assign(context=lambda d: joined(d["context"]))
    with_passages = runnables.RunnableParallel(
        context=retriever, question=runnables.RunnablePassthrough()
    ).assign(answer=answer | said | parser)  # as `create_retrieval_chain` does
    found = evaluate(LANDS, "Contains, Recall@1, KPrecision", system=with_passages)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]
    row = found.results[0].row
    assert row is not None
    assert (row.response, row.retrieved_context_ids) == ("Paris", ("france.md",))
    under = open_system(of_key, SystemOptions(question="question"))
    assert evaluate(LANDS, "Contains", system=under)["Contains"].mean == 1.0
    ranked = evaluate(LANDS, "Recall@1, MRR@5", system=retriever)
    assert [summary.mean for summary in ranked.summaries] == [1.0, 1.0]
    chat = import_module("langchain_core.language_models").FakeListChatModel(responses=["Paris"])
    assert evaluate(LANDS, "Contains", system=chat)["Contains"].mean == 0.5
    pipeline = (
        "from langchain_core.runnables import RunnableLambda\n"
        "from langchain_core.prompts import PromptTemplate\n"
        "prompt = PromptTemplate.from_template('{context} {question}')\n"
        "given = {'context': lambda q: 'Paris.', 'question': lambda q: q}\n"
        "chain = given | prompt | RunnableLambda(lambda p: p.to_string())\n"
    )
    rows = "question,answer\nWhere?,Paris\nWhen?,now\n"
    write_files(tmp_path, {"pipeline.py": pipeline, "questions.csv": rows})
    assert "0.5" in run(tmp_path, f"{ASKED} pipeline:chain --measures Contains")


@pytest.mark.slow
@pytest.mark.needs_frameworks
def test_engines_and_retrievers_of_llama_index_are_systems() -> None:
    core, llms = import_module("llama_index.core"), import_module("llama_index.core.llms")
    schema = import_module("llama_index.core.schema")
    custom: Any = llms.CustomLLM
    embedding: Any = import_module("llama_index.core.embeddings").BaseEmbedding

    class Scripted(custom):  # type: ignore[misc]
        @property
        def metadata(self) -> Any:
            return llms.LLMMetadata()

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            town = next(text.split()[0] for text in CAPITALS.values() if text in prompt)
            return llms.CompletionResponse(text=town, delta=town)

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            yield self.complete(prompt)

    class ByLetters(embedding):  # type: ignore[misc]
        def _get_text_embedding(self, text: str) -> list[float]:
            return [float("France" in text), float("Germany" in text), 0.1]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    nodes = [
        schema.TextNode(text=text, id_=f"node of {name}", metadata={"file_name": name})
        for name, text in CAPITALS.items()
    ]
    index = core.VectorStoreIndex(nodes, embed_model=ByLetters())
    engine = index.as_query_engine(llm=Scripted(), similarity_top_k=1, response_mode="compact")
    options = SystemOptions(ids="file_name")
    under = open_system(engine, options)
    found = evaluate(LANDS, "Contains, Recall@1, KPrecision", system=under)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]
    ranking = open_system(index.as_retriever(similarity_top_k=1), options)
    assert evaluate(LANDS, "MRR@5", system=ranking)["MRR@5"].mean == 1.0


def test_a_measure_of_the_user_is_shown_with_what_it_declares(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from ragwright.measure import custom_measure\n\n\n"
        "@custom_measure(low=0, high=1, needs=('response',))\n"
        "def short(row):\n    'One for a short answer.'\n    return len(row.response) < 5\n",
        "utf-8",
    )
    shown = ragwright(tmp_path, "measures", "mine:short").stdout
    assert shown.startswith("mine:short   (0 to 1, higher is better)\nOne for a short answer.")
    assert "needs: response\n" in shown
