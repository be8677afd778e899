"""`ragwright eval --system`: numbers on a pipeline in one line, without a project."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import ragwright, spawned
from served import served
from small_project import MakeProject

from ragwright.testing import ScriptedServer

RAG = """
DOCS = {"fr.md": "Paris is the capital of France.", "de.md": "Berlin is the capital of Germany."}

def answer(question):
    with open("calls.txt", "a") as log:
        log.write(question + "\\n")
    hits = {name: text for name, text in DOCS.items() if question.split()[-1].strip("?") in text}
    if not hits:
        return {"answer": "I do not know.", "contexts": []}
    return {"answer": list(hits.values())[0].split()[0], "contexts": list(hits.values())}

def worse(question):
    return {"answer": "Rome", "contexts": ["Rome is old."]}
"""

QUESTIONS = """question,answer,reference contexts
What is the capital of France?,Paris,Paris is the capital of France.
What is the capital of Germany?,Berlin,Berlin is the capital of Germany.
What is the capital of Spain?,Madrid,Madrid is the capital of Spain.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of somebody's pipeline and questions, without a project."""
    (tmp_path / "rag.py").write_text(RAG, "utf-8")
    (tmp_path / "questions.csv").write_text(QUESTIONS, "utf-8")
    return tmp_path


def test_one_line_gives_numbers_on_a_function(folder: Path) -> None:
    done = ragwright(
        folder, "eval", "--system", "rag:answer", "--testset", "questions.csv", "--json"
    )
    found = json.loads(done.stdout)["measures"]
    assert found["TokenF1"]["mean"] == pytest.approx(2 / 3)
    assert found["nDCG@10"]["mean"] == pytest.approx(2 / 3)  # gold passages, found by their text
    assert not (folder / "ragwright.yaml").exists()  # and no project is needed
    assert len((folder / "calls.txt").read_text().splitlines()) == 3  # the first row is asked once


def test_runs_of_different_depths_say_how_to_compare_them(folder: Path) -> None:
    for name, measure in (("deep", "nDCG@10,TokenF1"), ("shallow", "nDCG@5,TokenF1")):
        words = ("--testset", "questions.csv", "--name", name, "--measures", measure, "-q")
        ragwright(folder, "eval", "--system", "rag:answer", *words)
    notes = json.loads(ragwright(folder, "compare", "deep", "shallow", "--json").stdout)["notes"]
    assert "ragwright score RUN --measures nDCG@5" in notes[-1]
    assert "--measures nDCG@5" in ragwright(folder, "compare", "deep", "shallow").stdout


def test_its_run_is_like_any_other(folder: Path) -> None:
    for name, system in (("good", "rag.py:answer"), ("bad", "rag:worse")):
        words = ("--testset", "questions.csv", "--name", name, "-q")
        ragwright(folder, "eval", "--system", system, *words)
    compared = json.loads(ragwright(folder, "compare", "good", "bad", "--json").stdout)
    assert compared["measures"]["TokenF1"]["difference"] == pytest.approx(-2 / 3)
    assert {"key": "system", "a": "rag.py:answer", "b": "rag:worse"} in compared["settings"]
    passed = ragwright(folder, "gate", "good", "--rule", "TokenF1>=0.6", "--least", "3")
    assert "passed" in passed.stdout
    ragwright(folder, "gate", "bad", "--rule", "TokenF1>=0.6", "--least", "3", code=100)
    told = json.loads(ragwright(folder, "report", "good", "bad", "--json").stdout)
    assert told["facts"]["system"] == "rag.py:answer and rag:worse"
    again = ragwright(folder, "score", "good", "--measures", "ExactMatch", "--json")
    assert json.loads(again.stdout)["measures"]["ExactMatch"]["n"] == 3


def test_its_run_is_diagnosed(folder: Path) -> None:
    words = ("--testset", "questions.csv", "-q")
    ragwright(folder, "eval", "--system", "rag:answer", *words)
    shown = ragwright(folder, "diagnose", "--run", "latest").stdout
    assert "2 of 3 rows are answered right (see the rule)." in shown
    told = json.loads(ragwright(folder, "diagnose", "--run", "latest", "--json").stdout)
    assert told["losses"] == {"none": 2, "retrieve": 1}  # it found nothing on Spain
    both = ragwright(folder, "diagnose", "--run", "latest", "--testset", "questions.csv", code=1)
    assert "either --testset or --run" in both.stderr


def test_a_dry_run_asks_nothing_and_knows_the_price(folder: Path) -> None:
    (folder / "system.yaml").write_text("call: rag:answer\nprice: 0.25\n", "utf-8")
    words = ("eval", "--system", "system.yaml", "--testset", "questions.csv", "--json")
    found = json.loads(ragwright(folder, *words, "--dry-run").stdout)
    assert not (folder / "calls.txt").exists()
    assert found["calls"]["expected"] == 3
    assert found["cost"]["expected"] == pytest.approx(0.75)


def test_a_budget_stops_it_and_resume_goes_on(folder: Path) -> None:
    (folder / "system.yaml").write_text("call: rag:answer\nprice: 0.25\n", "utf-8")
    words = ("eval", "--system", "system.yaml", "--testset", "questions.csv")
    stopped = ragwright(folder, *words, "--max-cost", "0.5", code=101)
    assert "budget" in stopped.stderr
    assert len((folder / "calls.txt").read_text().splitlines()) == 2
    ragwright(folder, *words, "--resume")
    assert len((folder / "calls.txt").read_text().splitlines()) == 3  # no row was asked again
    refused = ragwright(
        folder,
        "eval",
        "--system",
        "rag:answer",
        "--testset",
        "questions.csv",
        "--max-cost",
        "1",
        code=None,
    )
    assert "has no price" in refused.stderr


def test_replies_are_reused_only_under_a_version(folder: Path) -> None:
    words = ("eval", "--system", "rag:answer", "--testset", "questions.csv", "-q")

    def calls() -> int:
        return len((folder / "calls.txt").read_text().splitlines())

    ragwright(folder, *words)
    ragwright(folder, *words)
    assert calls() == 6  # nobody said that the system is the same as before
    ragwright(folder, *words, "--system-version", "1")
    ragwright(folder, *words, "--system-version", "1")
    assert calls() == 9
    ragwright(folder, *words, "--system-version", "2")
    assert calls() == 12
    ragwright(folder, *words, "--system-version", "2", "--no-cache")
    assert calls() == 15


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("rag:nothing", "has no 'nothing'"),
        ("rag.py:nothing", "'rag.py' has no 'nothing'"),
        ("nosuch:answer", "cannot import 'nosuch'"),
        ("nosuch.py:answer", "file not found: 'nosuch.py'"),
        ("rag", "write module:object"),
        ("broken.py:answer", "broken.py fails when it is imported: NameError"),
        ("empty.yaml", "names no system"),
        ("typo.yaml", "did you mean timeout"),
    ],
)
def test_a_system_that_is_not_there(folder: Path, system: str, told: str) -> None:
    (folder / "broken.py").write_text("nothing\n", "utf-8")
    (folder / "empty.yaml").write_text("timeout: 3\n", "utf-8")
    (folder / "typo.yaml").write_text("call: rag:answer\ntimout: 3\n", "utf-8")
    done = ragwright(folder, "eval", "--system", system, "--testset", "questions.csv", code=1)
    assert told in done.stderr


def test_a_system_that_always_fails_ends_with_one_message(folder: Path) -> None:
    (folder / "odd.py").write_text("def ask(q):\n    return {'score': 1}\n", "utf-8")
    done = ragwright(folder, "eval", "--system", "odd:ask", "--testset", "questions.csv", code=1)
    assert "failed on each of the first 3 rows" in done.stderr
    assert "{'score': 1}" in done.stderr
    assert "no runs yet" in ragwright(folder, "compare").stdout


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_where_it_was(folder: Path) -> None:
    (folder / "slow.py").write_text(
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
    lines = "".join(f"q{n},a{n}\n" for n in range(6))
    (folder / "six.csv").write_text(f"question,answer\n{lines}", "utf-8")
    words = ("eval", "--system", "slow:ask", "--testset", "six.csv", "-j", "1")
    spawned(folder, *words, code=-9)
    done = spawned(folder, *words, "--resume", "--json")
    assert json.loads(done.stdout)["measures"]["TokenF1"]["mean"] == 1.0
    calls = (folder / "calls.txt").read_text().split()
    assert sorted(calls) == ["q0", "q1", "q2", "q3", "q4", "q4", "q5"]


def test_no_gold_is_said_before_anything_is_asked(folder: Path) -> None:
    (folder / "bare.csv").write_text("question\nWhy?\n", "utf-8")
    words = ("eval", "--system", "rag:answer", "--testset", "bare.csv")
    done = ragwright(folder, *words, "--measures", "TokenF1", code=1)
    assert "no row has what TokenF1 compares with" in done.stderr
    done = ragwright(folder, *words, "--measures", "TokenF1", "--dry-run", code=1)
    assert "no row has what TokenF1 compares with" in done.stderr
    assert not (folder / "calls.txt").exists()
    (folder / "bare.csv").write_text("question\nWhere is Paris?\n", "utf-8")
    done = ragwright(folder, *words, "--measures", "TokenF1, KPrecision")
    assert "note: no row of bare.csv has what TokenF1 compares with: it will have" in done.stderr
    done = ragwright(folder, *words, code=None)
    assert "note: no row of bare.csv has a reference answer or gold passages" in done.stderr


class Endpoint(BaseHTTPRequestHandler):
    seen: list[object] = []

    def do_POST(self) -> None:
        Endpoint.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        data = json.dumps({"answer": "Paris", "contexts": ["Paris is old."]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
def test_an_address_is_enough(folder: Path) -> None:
    Endpoint.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/ask"
        done = ragwright(
            folder, "eval", "--system", address, "--testset", "questions.csv", "--json"
        )
        server.shutdown()
    assert json.loads(done.stdout)["measures"]["TokenF1"]["mean"] == pytest.approx(1 / 3)
    assert {"question": "What is the capital of Spain?"} in Endpoint.seen


def test_an_openai_compatible_endpoint_is_a_system(folder: Path) -> None:
    words = ("--testset", "questions.csv", "--measures", "TokenF1", "--json")
    with ScriptedServer(lambda request: "Paris") as server:
        done = ragwright(folder, "eval", "--system", f"{server.url}#m", *words)
        assert server.count == 3
    assert json.loads(done.stdout)["measures"]["TokenF1"]["mean"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_a_served_project_tells_its_citations_and_abstentions(tmp_path: Path) -> None:
    project = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer, marketing]}\n")
    ragwright(project, "ingest", "-q")
    asked = tmp_path / "asked.csv"
    asked.write_text(
        "question,answer,reference_ids\n"
        "How often must the brake fluid be changed?,every two years,docs/service.md\n"
        "Who sings in the opera tonight?,nobody,docs/codes.md\n",
        "utf-8",
    )
    with served(project) as running:
        system = f"{running.address}/v1#handbook/engineer"
        words = ("--testset", str(asked), "--measures", "TokenF1,KPrecision,HitRate@5")
        done = ragwright(tmp_path, "eval", "--system", system, *words, "--json", "--rows")
    first, second = json.loads(done.stdout)["rows"]
    assert "The brake fluid must be changed every two years." in first["response"]
    assert "[1]" not in first["response"]
    best = "The brake fluid must be changed every two years."
    assert first["retrieved_contexts"][0].startswith(best)
    assert first["retrieved_context_ids"][0] == "docs/service.md"
    assert first["KPrecision"] > 0.5, "the line without a model and the headings are no passages"
    assert first["HitRate@5"] == 1
    assert second["TokenF1 state"] == "abstained"


def test_a_system_may_say_that_it_abstains(folder: Path) -> None:
    (folder / "shy.py").write_text(
        "def ask(question):\n    return {'answer': 'No idea.', 'abstained': True}\n", "utf-8"
    )
    words = ("--testset", "questions.csv", "--measures", "TokenF1", "--json")
    done = ragwright(folder, "eval", "--system", "shy.py:ask", *words, code=101)  # none is scored
    assert json.loads(done.stdout)["measures"]["TokenF1"]["states"]["abstained"] == 3


@pytest.mark.parametrize(
    "settings",
    [
        ("answer.model=foo:bar",),
        ("judge.model=foo:bar",),
        ("judge.model=ollama:m", "judge.embedder=foo:bar"),
        ("retrieve.rerank.model=foo:bar",),
    ],
)
def test_an_unknown_provider_is_an_error_of_a_dry_run(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    (tmp_path / "a.txt").write_text("Paris is the capital of France.", "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [a.txt]\n", "utf-8")
    (tmp_path / "questions.csv").write_text(QUESTIONS, "utf-8")
    ragwright(tmp_path, "ingest", "-q")
    measures = {"judge.model=foo:bar": "Faithfulness", "judge.model=ollama:m": "QuestionSimilarity"}
    given = [word for text in settings for word in ("--set", text)]
    words = ["eval", "--testset", "questions.csv", *given, "--dry-run"]
    wanted = measures.get(settings[0], "TokenF1")
    done = ragwright(tmp_path, *words, "--measures", wanted, code=1)
    assert "unknown provider 'foo'" in done.stderr
    if settings[0].startswith("retrieve"):
        done = ragwright(tmp_path, "ask", "Paris", *given, "--dry-run", code=1)
        assert "unknown provider 'foo'" in done.stderr


RETRIEVER = """
DOCS = ["Paris is the capital of France.", "Berlin is the capital of Germany."]

def retriever(question):
    return [text for text in DOCS if question.split()[-1].strip("?") in text]
"""


def test_a_retriever_needs_questions_and_answers_alone(folder: Path) -> None:
    (folder / "mod.py").write_text(RETRIEVER, "utf-8")
    rows = [line.rpartition(",")[0] for line in QUESTIONS.splitlines()]
    (folder / "short.csv").write_text("\n".join(rows), "utf-8")
    done = ragwright(
        folder, "eval", "--system", "mod:retriever", "--testset", "short.csv", "--json"
    )
    measures = json.loads(done.stdout)["measures"]
    assert list(measures) == ["AnswerRecall@5"]
    assert measures["AnswerRecall@5"]["mean"] == pytest.approx(2 / 3)
    assert measures["AnswerRecall@5"]["n"] == 3  # nothing found counts 0
