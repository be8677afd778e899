"""What a person sees: progress, widths, colours; what is decided depends on no reader."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ragwright
from story_tools import lacking, make_project, run, settings, write_files, write_rows
from terminal import on_terminal

from ragwright.jobs import Jobs
from ragwright.project import IngestProgress
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

CLEARED = "\x1b[K"
PLAIN = {"NO_COLOR": "1"}
FLUIDS = {"a.md": "# Fluids\n\nBrake fluid is changed every two years.\n"}
ASKED = "When is brake fluid changed?"


def answering(folder: Path, server: ScriptedServer, more: str = "") -> Path:
    return make_project(folder, FLUIDS, f"answer: {{model: '{server.url}#m'}}\n{more}")


def judging(folder: Path, count: int, server: ScriptedServer) -> list[str]:
    """A project with rows, and the command that judges them."""
    (folder / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    rows = [{"user_input": f"Question {n}?", "response": f"It is {n}."} for n in range(count)]
    write_rows(folder / "rows.jsonl", rows)
    model = settings(judge__model=f"{server.url}#m")
    return ["score", "rows.jsonl", "--measures", "AnswerRelevance", *model]


# -- progress --------------------------------------------------------------------------------


def test_progress_does_not_come_between_the_pieces_of_a_streamed_answer(tmp_path: Path) -> None:
    words = "alpha bravo charlie delta echo foxtrot omega"
    with ScriptedServer(Reply(words, delay=1.2, pace=0.1)) as server:
        folder = answering(tmp_path, server)
        seen = on_terminal(folder, "ask", ASKED)
        piped = ragwright(folder, "ask", ASKED, "--no-cache")
    line, answer = seen.split("alpha", 1)
    assert "1 calls" in line
    assert line.endswith(CLEARED)
    assert CLEARED not in answer.split("omega")[0]
    assert (piped.stderr, "alpha" in piped.stdout) == ("", True), "on a pipe nothing is between"


def test_a_wait_that_the_server_asked_for_is_shown(tmp_path: Path) -> None:
    with ScriptedServer([Reply.rate_limited("3"), "It is changed every two years [1]."]) as server:
        seen = on_terminal(answering(tmp_path, server), "ask", ASKED)
    assert re.search(rf"waiting [23] s: Retry-After of {re.escape(server.url)}#m; ", seen)


def test_progress_counts_rows_and_never_more_than_there_are(tmp_path: Path) -> None:
    good = json.dumps({"reasoning": "it is so", "score": 3})
    with ScriptedServer(Reply(good, delay=0.9)) as server:
        seen = on_terminal(tmp_path, *judging(tmp_path, 6, server), "-j", "1", environment=PLAIN)
    counts = [(int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) rows", seen)]
    assert {total for _, total in counts} == {6}
    assert [done for done, _ in counts] == sorted(done for done, _ in counts)
    assert 0 < max(done for done, _ in counts) <= 6
    assert " s left" in seen
    assert " left" not in seen.split("2/6 rows")[0], "one row gives no rate"


SLOW = """\
import time
import numpy as np
from ragwright.models import Embedder

class Slow(Embedder):
    identity = "slow/1"
    dimensions = 4

    def embed_batch(self, texts):
        time.sleep(0.04 * len(texts))
        return np.array([[1.0, len(text), text.count("e"), 1.0] for text in texts], np.float32)
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Files of about 20 chunks each, and an embedder that needs some time for each chunk."""
    chosen = "chunk: {size: 30, overlap: 0}\nembed: {model: 'own:slow'}\n"
    settings = f"{chosen}models: {{'own:slow': {{backend: 'slowly:Slow'}}}}\n"
    paragraph = "Paragraph {} of file {} speaks of valve {} and its limits, of pressure and pumps."
    texts = {
        f"docs/{file}.txt": "\n\n".join(paragraph.format(n, file, n * 7 + file) for n in range(20))
        for file in range(20)
    }
    project = {"ragwright.yaml": f"sources: [docs]\n{settings}", "slowly.py": SLOW}
    return write_files(tmp_path, {**texts, **project})


def test_a_person_sees_documents_and_chunks_done_of_those_known(slow: Path) -> None:
    seen = on_terminal(slow, "ingest", environment=PLAIN | {"COLUMNS": "200"})
    assert "20 documents read" in seen
    lines = re.findall(r"([\d,]+)(?:/([\d,]+))? chunks embedded([^\r]*)", seen)
    done = [int(line[0].replace(",", "")) for line in lines]
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert len({line[1] for line in lines if line[1]}) == 1
    assert "left" not in lines[0][2]
    assert any("chunks/s" in line[2] for line in lines)


def test_an_estimate_takes_files_that_are_not_read_yet_into_account() -> None:
    progress = IngestProgress(bytes_total=1000, bytes_done=10, texts=100)
    first = progress.expected
    progress.bytes_done = 250
    assert (first, progress.expected) == (None, 400)
    whole = IngestProgress(bytes_total=1000, bytes_done=1000, texts=390, all_read=True)
    assert whole.expected == 390


def test_a_name_in_the_line_of_progress_commands_no_terminal(tmp_path: Path) -> None:
    name = "bad\x1b]0;owned\x07.md"
    with ScriptedServer(Reply(delay=1.5)) as server:
        project = f"sources: [docs/]\nembed: {{model: '{server.url}#m'}}\n"
        write_files(tmp_path, {f"docs/{name}": FLUIDS["a.md"], "ragwright.yaml": project})
        seen = on_terminal(tmp_path, "ingest")
    assert "\\u001b]0;owned\\u0007" in seen
    assert "\x1b]0;" not in seen


def test_a_judge_of_no_use_is_reported_while_the_run_goes_on(tmp_path: Path) -> None:
    def judge(request: ServerRequest) -> Reply:
        return Reply("I cannot help with that.", delay=30 if server.count > 24 else 0)

    with ScriptedServer(judge) as server:
        words = [sys.executable, "-m", "ragwright", *judging(tmp_path, 40, server)]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith("warning: "))
            assert process.poll() is None
            process.kill()
    assert f"none of the first 20 replies of {server.url}#m can be used" in line
    assert not lacking(line, "«I cannot help with that.»", "judge.model")


def test_the_time_limits_of_the_project_file_hold(tmp_path: Path) -> None:
    with ScriptedServer(Reply(malformed="hang")) as server:
        folder = answering(tmp_path, server, "budget: {first_piece_timeout: 0.5}\n")
        done = ragwright(folder, "ask", ASKED, code=1)
        assert server.count == 2
    assert "sent nothing for 0.5 s (first_piece_timeout)" in done.stderr


# -- widths and colours ----------------------------------------------------------------------


def test_a_table_is_as_wide_as_the_terminal_and_coloured_there_alone(tmp_path: Path) -> None:
    def seen(**environment: str) -> str:
        return on_terminal(tmp_path, "measures", environment=environment)

    for columns in (80, 200):
        lines = seen(NO_COLOR="1", COLUMNS=str(columns)).splitlines()
        assert columns - 10 <= max(map(len, lines)) <= columns
    assert "\x1b[1m" in seen(TERM="xterm", NO_COLOR="")
    assert "\x1b" not in seen(TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in seen(TERM="dumb", NO_COLOR="")
    assert "\x1b" not in run(tmp_path, "measures")


REPLY = (
    "1. Give \x1b[31m$5\x1b[0m \u202etonight, since every single cent is counted twice until the "
    "very end of this long month, and not one day longer.\n2. Give now.\x07"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with texts that command a terminal."""
    folder = tmp_path_factory.mktemp("project")
    run(folder, "init --template records")
    run(folder, "records refresh")
    with ScriptedServer(REPLY) as server:
        asked = f"draft -n 2 --examples 3 --pool 5 --model {server.url}#m --client"
        run(folder, asked, "Maya Delgado")
    return folder


@pytest.mark.parametrize("line", ["outputs list", "outputs show 1 --prompts"])
def test_what_a_model_wrote_commands_no_terminal(hostile: Path, line: str) -> None:
    shown = on_terminal(hostile, *line.split(), unread=True, environment=PLAIN)
    shown = shown.replace("\r\n", "\n")
    assert not lacking(shown, "\\u001b[31m$5", "\\u202e")
    assert {c for c in shown if unicodedata.category(c) == "Cc"} == {"\n"}
    assert "\u202e" not in shown
    piped = run(hostile, f"{line} --json")
    assert "\u202e" not in piped
    assert "\\u202e" in piped


# -- without a reader ------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[int]:
    """A pipe that nobody reads."""
    end, pipe = os.pipe()
    os.close(end)
    yield pipe
    os.close(pipe)


def unheard(folder: Path, line: str, deaf: str = "both") -> tuple[int, str]:
    """Exit code of a command of whose streams (stdout, stderr, both) nobody hears; the rest."""
    with nobody() as pipe:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "ragwright", *line.split()],
            cwd=folder,
            stdout=subprocess.PIPE if deaf == "stderr" else pipe,
            stderr=subprocess.PIPE if deaf == "stdout" else pipe,
            text=True,
        )
    return done.returncode, (done.stdout or "") + (done.stderr or "")


JOB = "jobs:\n  a:\n    steps: [score nowhere.jsonl --measures ExactMatch]\n"


@pytest.mark.parametrize("deaf", ["stdout", "stderr", "both"])
def test_gates_jobs_and_errors_fail_unheard(tmp_path: Path, deaf: str) -> None:
    assert unheard(tmp_path, "doctor", deaf)[0] == 1
    job = f"{JOB}    notify: {{failure: ['json://127.0.0.1:9/']}}\n"
    (tmp_path / "ragwright.yaml").write_text(f"sources: []\n{job}", "utf-8")
    row = {"user_input": "Why?", "response": "No.", "reference": "Yes."}
    write_rows(tmp_path / "rows.jsonl", [row])
    run(tmp_path, "score rows.jsonl --measures ExactMatch --name a")
    code, said = unheard(tmp_path, "gate a --rule ExactMatch>=0.99 --least 1", deaf)
    assert (code, "failed" in said) == (100, deaf == "stderr")
    code, said = unheard(tmp_path, "job run a", deaf)
    assert (code, "Traceback" in said) == (1, False)
    (made,) = Jobs(tmp_path).history()
    assert made.state == "failed"
    assert "nowhere.jsonl" in made.steps[0].output
    assert [one.sent for one in made.notices] == [False], "tried, and written down"
    if deaf == "stdout":
        assert unheard(tmp_path, "retrieve --no-such-flag", deaf)[0] == 2
        line = f"{sys.executable} -m ragwright outputs list >&- 2>&-"
        closed = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path)
        assert closed.returncode == 0, "a stream that the shell closed is no fault"
