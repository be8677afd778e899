"""`ragwright draft`, as a user types it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from waiting import wait_until

from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.workbench import Workbench

ASKED = ("draft", "--client", "Jane Doe", "--ask", "donation", "--topic", "schools", "-n", "2")
FEW = ("--examples", "3", "--pool", "6")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "ragwright.yaml").write_text("{}\n", "utf-8")
    (folder / "records").mkdir()
    with Workbench.open(folder) as bench:
        batch = []
        for number in range(8):
            head = "A short donation text message from Jane Doe about schools:\n\n"
            text = f"{head}Message number {number}."
            meta: dict[str, Any] = {
                "kind": "record",
                "client": "Jane Doe",
                "ask_type": "donation",
                "topic": ("schools",),
                "length": "short",
                "message_at": len(head),
            }
            document = Document(f"record:{number}", f"records:{number}", text, metadata=meta)
            chunk = Chunk(f"{document.id}:0", document.id, 0, Span(0, len(text)), text)
            batch.append(IndexedDocument(document, (chunk,)))
        bench.project.store.upsert(bench.project.index_spec, batch)
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("1. Chip in now.\n2. " + "x" * 213) as running:
        yield running


def test_one_json_document(project: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#scripted"
    done = ragwright(project, *ASKED, *FEW, "--model", model, "--json")
    found = json.loads(done.stdout)
    assert found["batch"] >= 1
    assert found["request"]["topics"] == ["schools"]
    assert found["models"] == [model]
    assert len(found["hits"]) == 6
    assert found["hits"][0]["rung"]["weight"] == 8 + 5 + 3 + 2
    assert [prompt["purpose"] for prompt in found["prompts"]] == ["first", "length"]
    assert found["prompts"][0]["messages"][0]["role"] == "system"
    first, second = found["texts"]
    assert first["text"] == "Chip in now."
    assert (first["model"], first["marks"], first["characters"]) == (model, [], 12)
    assert second["marks"] == ["too long: 213 of 160"]
    assert first["usage"]["calls"] == 1
    assert first["cost"] == 0.0
    assert found["notes"]


@pytest.mark.slow
def test_a_known_reply_is_free_and_of_one_scope(project: Path, server: ScriptedServer) -> None:
    prices = ("--set", "models.s.price_in=100", "--set", "models.s.price_out=100")
    base = ("--set", f"models.s.base={server.url}")
    words = (*ASKED, *FEW, "--model", "s:scoped", "--json", *prices, *base)
    first, again = (json.loads(ragwright(project, *words).stdout) for _ in range(2))
    assert first["cost"] > 0
    assert (first["usage"]["calls"], again["usage"]["calls"]) == (2, 0)
    assert (again["cost"], again["cached"], again["partial"]) == (0.0, True, False)
    assert again["prompts"][0]["reply_usage"] == first["prompts"][0]["usage"]
    assert again["snapshot"] == first["snapshot"] != ""
    own = json.loads(ragwright(project, *words, "--scope", "acme").stdout)
    assert not own["cached"]
    listed = json.loads(ragwright(project, "outputs", "list", "--scope", "acme", "--json").stdout)
    assert {one["batch"] for one in listed["outputs"]} == {own["batch"]}


def test_a_budget_stop_says_where_the_texts_are(project: Path, server: ScriptedServer) -> None:
    server.play(lambda request: f"{server.count}. Chip in, friend. " * 30)
    prices = ("--set", "models.s.price_in=100", "--set", "models.s.price_out=100")
    words = (
        *ASKED,
        *FEW,
        "--length",
        "long",
        "-n",
        "6",
        "-m",
        "s:m",
        "--max-cost",
        "0.15",
        "-j",
        "1",
    )
    base = ("--set", f"models.s.base={server.url}", "--set", "answer.draft.max_tokens=500")
    done = ragwright(project, *words, *prices, *base, code=101)
    assert 0 < server.count < 6
    assert f"{server.count} texts are stored as batch" in done.stderr


def test_texts_for_a_person_and_a_file(project: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#scripted"
    done = ragwright(project, *ASKED, *FEW, "-m", model, "-o", "out/drafts.txt", "--no-save")
    assert done.stdout == ""
    text = (project / "out/drafts.txt").read_text("utf-8")
    assert "1. (12 characters)" in text
    assert "too long: 213 of 160" in text
    assert "6 x 18: client=Jane Doe, ask_type=donation, length=short, topic=schools" in text
    assert "not stored: 2 texts" in text


def test_prompts_and_forecasts_need_no_model(project: Path, server: ScriptedServer) -> None:
    shown = ragwright(project, *ASKED, *FEW, "--show-prompt").stdout
    assert "no model configured, chat" in shown
    assert "Write 2 such texts" in shown
    raw = ragwright(project, *ASKED, *FEW, "--show-prompt", "--set", "answer.draft.format=llama3")
    assert "<|start_header_id|>assistant<|end_header_id|>" in raw.stdout
    told = json.loads(ragwright(project, *ASKED, *FEW, "--dry-run", "--json").stdout)
    assert told["calls"]["high"] == 0
    model = f"{server.url}#other"
    told = json.loads(ragwright(project, *ASKED, *FEW, "-m", model, "--dry-run", "--json").stdout)
    assert (told["calls"]["low"], told["calls"]["high"]) == (1, 2)
    assert server.count == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no chat model is configured"),
        (("--client", "Jane Dow", "--show-prompt"), "nearest: Jane Doe"),
        (("--pool", "2", "--show-prompt"), "a pool of 2 records cannot give 3 examples"),
        (("--examples", "20", "--pool", "30", "--show-prompt"), "8 records found"),
        (("--bio", "--show-prompt"), "no biography of 'Jane Doe'"),
        (("--length", "tiny", "--show-prompt"), "unknown length group 'tiny'"),
    ],
)
def test_what_is_wrong_is_said(project: Path, words: tuple[str, ...], said: str) -> None:
    done = ragwright(project, *ASKED, *FEW, *words, code=1)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_draft_that_gave_no_text_fails(project: Path) -> None:
    with ScriptedServer("") as server:
        done = ragwright(project, *ASKED, *FEW, "--model", f"{server.url}#m", code=1)
    assert "no texts" in done.stdout


def interrupted(project: Path, server: ScriptedServer, *words: str, times: int = 1) -> list[str]:
    """What a draft of two models says that is interrupted while the slower one writes."""
    slow, quick = f"{server.url}#slow", f"{server.url}#quick"
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", *ASKED, *FEW, "-m", slow, "-m", quick, *words],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: server.count == 2 and server.in_flight == 1)
    time.sleep(0.5)  # the answer of the quick one has been read
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    return [line for line in error.splitlines() if line]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("-q",), ("-q", "--json", "--no-cache")])
def test_ctrl_c_names_the_batch_that_was_kept(project: Path, words: tuple[str, ...]) -> None:
    def said(request: ServerRequest) -> Reply:
        slow = request.body["model"] == "slow"
        return Reply(f"1. Chip in now.\n2. It is {words} o'clock.", delay=2.5 if slow else 0.0)

    with ScriptedServer(said) as server:
        waiting, told = interrupted(project, server, *words)
    assert "Ctrl-C again stops at once" in waiting
    found = re.fullmatch(
        r"stopped; (\d) texts are stored as batch (\d+), marked partial: "
        r"ragwright outputs show (\d+)",
        told,
    )
    assert found is not None, told
    assert found[2] == found[3]
    shown = ragwright(project, "outputs", "show", found[2]).stdout
    assert shown.count("Chip in now.") == int(found[1]) // 2 > 0
    assert "stopped before its end: the user (Ctrl-C)" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_names_the_slow_model_and_gives_it_up(
    project: Path, number: signal.Signals, code: int
) -> None:
    with ScriptedServer(lambda request: Reply("1. Late.", delay=600)) as server:
        model = ["-m", f"{server.url}#slow", "-q"]
        words = [sys.executable, "-m", "ragwright", *ASKED, *FEW, *model]
        with subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: server.count)
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
    assert process.returncode == code
    waiting, told = [line for line in error.splitlines() if line]
    assert f"waiting for 1 call to {server.url}#slow" in waiting
    assert f"1 call to {server.url}#slow got no reply in time and may be billed" in told


@pytest.mark.slow
def test_ctrl_c_twice_waits_for_nobody(project: Path) -> None:
    def said(request: ServerRequest) -> Reply:
        return Reply("1. Soon.\n2. Late.", delay=600 if request.body["model"] == "slow" else 0)

    with ScriptedServer(said) as server:
        [told] = interrupted(project, server, "-q", "--seed", "9", times=2)
    assert told == "stopped at once; stored results are kept"


@pytest.mark.parametrize("flag", ["--client", "--ask", "--topic", "--tone", "--headline"])
def test_an_empty_name_is_not_any_name(project: Path, flag: str) -> None:
    """A variable of a script that is not set: the texts would be somebody else's."""
    done = ragwright(project, "draft", flag, " ", "--show-prompt", code=2)
    assert "it is empty" in done.stderr
    assert flag in done.stderr


def test_a_dry_run_of_an_unknown_model_is_an_error(project: Path) -> None:
    done = ragwright(project, *ASKED, *FEW, "--model", "opnai:x", "--dry-run", code=1)
    assert "unknown provider 'opnai'" in done.stderr
