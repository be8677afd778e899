"""Commands as a user types them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, ragwright, spawned
from typer.main import get_command

from ragwright.app import command_line, commands
from ragwright.testing import Reply, ScriptedServer

MANUAL = "# Service\n\nThe brake fluid must be changed every two years.\n"
QUESTION = "How often must the brake fluid be changed?"


def run(folder: Path, *words: str, stdin: str = "") -> Done:
    return ragwright(folder, *words, code=None, typed=stdin)


def ok(folder: Path, *words: str) -> Any:
    """The JSON document a command prints, alone, on standard output."""
    done = run(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/service.md").write_text(MANUAL, "utf-8")
    assert run(tmp_path, "init", "--quiet").returncode == 0
    return tmp_path


@pytest.fixture
def built(project: Path) -> Path:
    assert run(project, "ingest", "--quiet").returncode == 0
    return project


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("Every two years [1].") as running:
        yield running


@pytest.mark.slow
def test_the_listed_sentences_are_the_commands_own(tmp_path: Path) -> None:
    listed = run(tmp_path, "--help").stdout
    for name, sentence in commands().items():
        assert name in listed
        shown = " ".join(run(tmp_path, name, "--help").stdout.split())
        assert sentence in shown


def test_help_lists_every_command_in_one_group_and_cuts_no_summary(tmp_path: Path) -> None:
    shown = ragwright(tmp_path, "--help", COLUMNS="80").stdout
    _, *groups = re.findall(r"^([A-Z][\w ]+):\n((?:  .+\n)+)", shown, re.MULTILINE)
    assert [title for title, _ in groups] == [
        *("Build", "Measure", "Test sets", "Tune", "Records", "Serve", "Keep")
    ]
    listed = [line.split(maxsplit=1) for _, lines in groups for line in lines.splitlines()]
    assert [name for name, _ in listed] == list(commands())
    assert dict(listed) == commands()
    assert len(listed) <= 37


def test_every_summary_has_at_most_48_characters() -> None:
    for words, command in _every_command(get_command(command_line())):
        summary, *_ = (command.help or "").split("\n\n")
        assert len(summary) <= 48, f"{words}: {summary}"
        assert summary.endswith("."), words


def _every_command(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """The commands below a group, and those of the groups within it."""
    for name, command in group.commands.items():
        yield " ".join((*words, name)), command
        if hasattr(command, "commands"):
            yield from _every_command(command, *words, name)


def test_init_writes_a_project_once(tmp_path: Path) -> None:
    assert run(tmp_path, "init").returncode == 0
    for name in ("ragwright.yaml", "personas", "prompts", "testsets", ".gitignore"):
        assert (tmp_path / name).exists(), name
    (tmp_path / "ragwright.yaml").write_text("sources: [mine/]\n", "utf-8")
    again = run(tmp_path, "init")
    assert again.returncode == 1
    assert "already" in again.stderr
    assert (tmp_path / "ragwright.yaml").read_text("utf-8") == "sources: [mine/]\n"


def test_the_prompt_file_that_init_writes_works(built: Path, server: ScriptedServer) -> None:
    done = run(
        built,
        *("ask", QUESTION, "--set", f"answer.model={server.url}#m"),
        *("--set", "prompt.template=prompts/own.yaml"),
    )
    assert done.returncode == 0, done.stderr
    assert "Say nothing that was not asked for." in str(server.requests[0].body)


def test_ingest_counts_and_names_failures(project: Path) -> None:
    (project / "docs/empty.txt").write_bytes(b"")
    report = ok(project, "ingest")
    assert report["documents"] == {
        "added": 1,
        "changed": 0,
        "unchanged": 0,
        "removed": 0,
        "failed": 1,
    }
    assert report["chunks"]["added"] == 1
    [failure] = report["failures"]
    assert failure["source"].endswith("empty.txt")
    assert failure["reason"]
    assert run(project, "ingest", "--quiet").returncode == 0
    assert run(project, "ingest", "--quiet", "--strict").returncode == 1


def test_retrieve_prints_hits_in_the_contracts_shape(built: Path) -> None:
    [hit] = ok(built, "retrieve", "brake fluid")["hits"]
    assert hit["rank"] == 1
    assert hit["document_id"] == hit["source"] == "docs/service.md"
    assert MANUAL[hit["start"] : hit["end"]] == hit["text"]
    assert {"score", "chunk_id", "page"} <= set(hit)


def test_ask_prints_answers_in_the_contracts_shape(built: Path) -> None:
    answers = ok(built, "ask", QUESTION, "--personas", "engineer,marketing")["answers"]
    assert [a["persona"] for a in answers] == ["engineer", "marketing"]
    for answer in answers:
        assert answer["model"] == "snippet"
        assert answer["route"] == "index"
        assert answer["cached"] is False
        [citation] = answer["citations"]
        assert {"source", "page", "start", "end"} <= set(citation)
        quoted = MANUAL[citation["start"] : citation["end"]]
        assert quoted == "The brake fluid must be changed every two years."


def test_ask_streams_and_pays_once(built: Path, server: ScriptedServer) -> None:
    words = ("ask", QUESTION, "--set", f"answer.model={server.url}#m")
    first = run(built, *words)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("Every two years [1].") == 1
    assert "docs/service.md" in first.stdout
    second = run(built, *words)
    assert second.stdout.count("Every two years [1].") == 1
    assert "stored reply" in second.stdout
    assert len(server.requests) == 1
    run(built, *words, "--no-cache")
    assert len(server.requests) == 2


def test_marks_are_numbered_in_the_order_of_their_use(built: Path) -> None:
    """However the model counts its passages, and streamed as whole."""
    (built / "docs/rotors.md").write_text("# Rotors\n\nA brake rotor lasts four years.\n", "utf-8")
    assert run(built, "ingest", "--quiet").returncode == 0
    with ScriptedServer("Four years [2]. Fluid two [1], [2].") as server:
        words = ("ask", "How long do brake rotor and fluid last?", "--set")
        streamed = run(built, *words, f"answer.model={server.url}#m").stdout
        whole = run(built, *words, f"answer.model={server.url}#m", "--personas", "engineer").stdout
    for shown in (streamed, whole):
        assert "Four years [1]. Fluid two [2], [1]." in shown
    first, second = streamed.partition("sources:")[2].split("[2]")
    assert whole.partition("sources:")[2].split() == [*first.split(), "[2]", *second.split()]


def test_trace_shows_prompt_hits_tokens_and_cost(built: Path, server: ScriptedServer) -> None:
    words = ("ask", QUESTION, "--trace", "--set", f"answer.model={server.url}#m")
    shown = run(built, *words).stdout
    for piece in ("Search", "Lookup", "Chat", "brake fluid must be changed", "no price known"):
        assert piece in shown
    trace = ok(built, *words)["trace"]
    assert [entry["kind"] for entry in trace] == ["Search", "Lookup", "Chat"]


def test_dry_run_calls_nothing(built: Path, server: ScriptedServer) -> None:
    done = run(built, "ask", QUESTION, "--dry-run", "--set", f"answer.model={server.url}#m")
    assert "calls: 1" in done.stdout
    assert server.requests == []


def test_a_conversation_on_standard_input(built: Path) -> None:
    done = run(built, "ask", stdin=f"{QUESTION}\nAnd why?\n")
    assert done.returncode == 0
    assert "every two years" in done.stdout


def beir(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    texts = {"d1": "brake fluid and brakes", "d2": "oil filters", "d3": "tyres and wheels"}
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": k, "title": "", "text": v}) + "\n" for k, v in texts.items())
    )
    queries = {"q1": "brake fluid", "q2": "oil filter", "q3": "wheels"}
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in queries.items())
    )
    (folder / "qrels/test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\nq3\td1\t1\n"
    )


def test_eval_of_a_beir_folder(project: Path) -> None:
    beir(project / "small")
    assert run(project, "ingest", "beir:small", "--quiet").returncode == 0
    shown = ok(
        project,
        *("eval", "--testset", "beir:small/test", "--measures", "nDCG@10,Recall@10,MRR@10"),
        "--retrieval-only",
    )
    # q1 and q2 find their document first, q3 finds d3 alone and misses d1
    recall = shown["measures"]["Recall@10"]
    assert recall["mean"] == pytest.approx(2 / 3)
    assert (recall["n"], recall["coverage"]) == (3, 1.0)
    assert recall["states"] == {"scored": 3}
    assert recall["low"] <= recall["mean"] <= recall["high"]
    assert shown["run"]


@pytest.mark.slow
def test_eval_dry_run_counts_the_queries_to_embed(project: Path, server: ScriptedServer) -> None:
    beir(project / "small")
    model = ("--set", f"embed.model={server.url}#vectors")
    assert run(project, "ingest", "beir:small", "--quiet", *model).returncode == 0
    asked = len(server.requests)
    words = ("eval", "--testset", "beir:small/test", "--retrieval-only", *model)
    assert "calls: 3" in run(project, *words, "--dry-run").stdout
    assert len(server.requests) == asked
    assert run(project, *words).returncode == 0
    assert "calls: 0" in run(project, *words, "--dry-run").stdout


def test_cache_and_forget(built: Path, server: ScriptedServer) -> None:
    run(built, "ask", QUESTION, "--set", f"answer.model={server.url}#m")
    [row] = ok(built, "cache", "show")["replies"]
    assert (row["kind"], row["replies"]) == ("Chat", 1)
    gone = ok(built, "forget", "docs/service.md")
    assert (gone["documents"], gone["replies"]) == (1, 1)
    assert run(built, "forget", "docs/service.md").returncode == 1
    assert run(built, "cache", "clear").returncode == 0
    assert ok(built, "cache", "show")["replies"] == []


def test_doctor_says_what_is_missing_and_paid(built: Path) -> None:
    assert all(check["state"] != "fault" for check in ok(built, "doctor")["checks"])
    done = run(built, "doctor", "--set", "answer.model=openai:gpt-4o-mini")
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stdout
    assert "retrieve.top_k" in run(built, "doctor", "--keys").stdout


def test_doctor_opens_stages_judges_and_sections_that_a_question_does_not_read(
    built: Path,
) -> None:
    file = built / "ragwright.yaml"
    file.write_text(f"{file.read_text('utf-8')}\nserve: {{prot: 80}}\n", "utf-8")
    assert ok(built, "ask", "How often is the oil changed?")["answers"]
    words = ("retrieve.stages=[json:loads, absent]", "judge.by=json:dumps")
    done = run(built, "doctor", *(word for text in words for word in ("--set", text)))
    assert done.returncode == 1
    for fault in (
        "ragwright.yaml:",
        "prot",
        "'json:loads' is not a stage",
        "'absent'",
        "'json:dumps' is not a judge",
    ):
        assert fault in done.stdout
    refused = run(built, "ask", "-q", "Which oil?", "--set", "serve.prot=80")
    assert refused.returncode == 1
    assert "prot" in refused.stderr


def test_doctor_asks_a_server_for_its_models(built: Path, server: ScriptedServer) -> None:
    words = ("doctor", "--ask-models", "--set")
    assert run(built, *words, f"answer.model={server.url}#scripted").returncode == 0
    other = run(built, *words, f"answer.model={server.url}#other")
    assert "does not list 'other'" in other.stdout
    gone = run(built, *words, "answer.model=http://127.0.0.1:9/v1#m")
    assert gone.returncode == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("ask", ""), 1, "empty"),
        (("retrieve", "x", "--set", "retrieve.topk=3"), 1, "top_k"),
        (("retrieve", "x", "--set", "chunk.size=77"), 1, "ragwright ingest"),
        (("ask", "x", "--personas", "enginer"), 1, "engineer"),
        (("eval", "--testset", "beir:nowhere/test", "--retrieval-only"), 1, "nowhere"),
        (("eval", "--testset", "x.jsonl"), 1, "x.jsonl"),
        (("eval", "--testset", "x", "--retrieval-only", "--measures", "nDGC@10"), 1, "nDCG"),
        (("measures", "nDGC"), 1, "did you mean nDCG"),
        (("sweep", "nostudy.yaml"), 1, "check the path"),
        (("confirm",), 1, "run `ragwright sweep STUDY`"),
        (("ingest", "no/such/file"), 1, "no such file"),
        (("ingest", "--frobnicate"), 2, "frobnicate"),
        (("frobnicate",), 2, "frobnicate"),
        (("forget",), 1, "document"),
    ],
)
def test_bad_input_is_answered(built: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = run(built, *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_missing_key_is_named_before_anything_is_sent(built: Path) -> None:
    done = run(built, "ask", QUESTION, "--set", "answer.model=openai:gpt-4o-mini")
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stderr


def test_a_budget_ends_with_its_own_code(built: Path, server: ScriptedServer) -> None:
    settings = (built / "ragwright.yaml").read_text("utf-8")
    (built / "ragwright.yaml").write_text(
        f"{settings}\nanswer: {{model: '{server.url}#m'}}\n"
        f"models: {{'{server.url}#m': {{price_in: 1000, price_out: 1000}}}}\n",
        "utf-8",
    )
    done = run(built, "ask", QUESTION, "--max-cost", "0.01")
    assert done.returncode == 101
    assert "budget" in done.stderr
    assert server.requests == []


def test_a_failing_server_is_an_error_not_a_trace(built: Path, server: ScriptedServer) -> None:
    server.play(lambda _: Reply(status=401, error="bad key"))
    done = run(built, "ask", QUESTION, "--set", f"answer.model={server.url}#m")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_an_unknown_project_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "ask", "x")
    assert done.returncode == 1
    assert "ragwright init" in done.stderr


def test_output_goes_to_a_file(built: Path) -> None:
    done = run(built, "retrieve", "brake fluid", "--json", "-o", "out/hits.json")
    assert done.stdout == ""
    assert json.loads((built / "out/hits.json").read_text("utf-8"))["hits"]


def test_a_module_in_the_present_folder_can_be_named(built: Path) -> None:
    (built / "mymodule.py").write_text(
        "from ragwright.core import Span\n"
        "from ragwright.ingest import Chunker\n\n"
        "class Halves(Chunker):\n"
        "    spec = 'halves'\n"
        "    def cut(self, document):\n"
        "        middle = len(document.text) // 2\n"
        "        return [Span(0, middle), Span(middle, len(document.text))]\n",
        "utf-8",
    )
    report = ok(built, "ingest", "--set", "chunk.by=mymodule:Halves")
    assert report["chunks"]["added"] == 2


def test_a_folder_that_cannot_be_used_is_no_traceback(built: Path) -> None:
    blocked = built / ".ragwright" / "cache"
    blocked.rename(built / ".ragwright" / "moved")
    blocked.write_text("in the way")
    done = run(built, "ingest")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cache" in done.stderr


def test_every_json_is_one_document(built: Path, server: ScriptedServer) -> None:
    model = ("--set", f"answer.model={server.url}#m")
    assert ok(built, "ask", QUESTION, "--dry-run", *model)["calls"]["expected"] == 1
    assert ok(built, "ingest", "--dry-run")["unchanged"] == 1
    assert ok(built, "doctor", "--keys")["keys"]
    spoken = run(built, "ask", "--json", stdin=f"{QUESTION}\nAnd why?\n")
    assert len(json.loads(spoken.stdout)["answers"]) == 2


def test_the_trace_of_a_stored_answer_costs_nothing(built: Path, server: ScriptedServer) -> None:
    words = ("ask", QUESTION, "--trace", "--set", f"answer.model={server.url}#m")
    assert "total: 1 call," in run(built, *words).stdout
    assert "nothing was paid for" in run(built, *words).stdout


def test_eval_refuses_gold_that_is_not_in_the_index(built: Path) -> None:
    beir(built / "small")
    done = run(built, "eval", "--testset", "beir:small/test", "--retrieval-only")
    assert done.returncode == 1
    assert "none of the 2 gold documents" in done.stderr


def test_the_version_is_told(tmp_path: Path) -> None:
    assert spawned(tmp_path, "--version").stdout.startswith("ragwright 0.")


def test_what_is_forgotten_must_be_known(built: Path) -> None:
    done = run(built, "forget", "nosuchdoc")
    assert done.returncode == 1
    assert "nosuchdoc" in done.stderr
    assert done.stdout == ""  # no counts of nothing
    assert "adds it again" in run(built, "forget", "docs/service.md").stderr


def test_doctor_counts_the_models_of_personas_as_paid(built: Path) -> None:
    (built / "personas/dear.yaml").write_text("name: dear\nmodel: openai:gpt-4o\n", "utf-8")
    shown = run(built, "doctor").stdout
    assert "paid for: openai:gpt-4o" in shown
    (built / "personas/dear.yaml").write_text("nam: dear\n", "utf-8")
    broken = run(built, "doctor", "--ask-models")
    assert "Traceback" not in broken.stderr
    assert "nam" in broken.stdout
