"""What a person sees while a command waits for a slow server, and how signals end it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ragwright
from terminal import on_terminal
from waiting import wait_until

from ragwright.testing import Reply, ScriptedServer, ServerRequest

CLEARED = "\x1b[K"
PLAIN = {"NO_COLOR": "1"}


def project(folder: Path, settings: str = "", name: str = "a.md") -> Path:
    docs = folder / "docs"
    docs.mkdir()
    (docs / name).write_text("# Fluids\n\nBrake fluid is changed every two years.\n", "utf-8")
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{settings}", "utf-8")
    return folder


def rows(folder: Path, count: int) -> str:
    lines = [
        json.dumps({"user_input": f"Question {n}?", "response": f"It is {n}.", "reference": "2"})
        for n in range(count)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    return "rows.jsonl"


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command under way; killed where the test leaves it running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_progress_does_not_come_between_the_pieces_of_a_streamed_answer(tmp_path: Path) -> None:
    words = "alpha bravo charlie delta echo foxtrot omega"
    with ScriptedServer(Reply(words, delay=1.2, pace=0.3)) as server:
        folder = project(tmp_path, f"answer: {{model: '{server.url}#m'}}\n")
        ragwright(folder, "ingest")
        seen = on_terminal(folder, "ask", "When is brake fluid changed?")
    line, answer = seen.split("alpha", 1)
    assert "1 calls" in line
    assert line.endswith(CLEARED)
    assert CLEARED not in answer.split("omega")[0]


@pytest.mark.slow
def test_on_a_pipe_nothing_is_printed_between_pieces(tmp_path: Path) -> None:
    with ScriptedServer(Reply("one two three four five six", pace=0.4)) as server:
        folder = project(tmp_path, f"answer: {{model: '{server.url}#m'}}\n")
        ragwright(folder, "ingest")
        assert ragwright(folder, "ask", "When is brake fluid changed?").stderr == ""


@pytest.mark.slow
def test_a_wait_that_the_server_asked_for_is_shown(tmp_path: Path) -> None:
    with ScriptedServer([Reply.rate_limited("3"), "It is changed every two years [1]."]) as server:
        folder = project(tmp_path, f"answer: {{model: '{server.url}#m'}}\n")
        ragwright(folder, "ingest")
        seen = on_terminal(folder, "ask", "When is brake fluid changed?")
    assert re.search(rf"waiting [23] s: Retry-After of {re.escape(server.url)}#m; ", seen)


@pytest.mark.slow
def test_a_name_in_the_line_of_progress_commands_no_terminal(tmp_path: Path) -> None:
    with ScriptedServer(Reply(delay=1.5)) as server:
        folder = project(
            tmp_path, f"embed: {{model: '{server.url}#m'}}\n", name="bad\x1b]0;owned\x07.md"
        )
        seen = on_terminal(folder, "ingest")
    assert "\\u001b]0;owned\\u0007" in seen
    assert "\x1b]0;" not in seen


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 200])
def test_a_table_is_as_wide_as_the_terminal(tmp_path: Path, columns: int) -> None:
    seen = on_terminal(tmp_path, "measures", environment=PLAIN | {"COLUMNS": str(columns)})
    assert columns - 10 <= max(map(len, seen.splitlines())) <= columns


@pytest.mark.slow
def test_colour_is_for_terminals_without_no_color(tmp_path: Path) -> None:
    assert "\x1b[1m" in on_terminal(
        tmp_path, "measures", environment={"TERM": "xterm", "NO_COLOR": ""}
    )
    for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}):
        assert "\x1b" not in on_terminal(tmp_path, "measures", environment=environment)
    assert "\x1b" not in ragwright(tmp_path, "measures").stdout


@pytest.mark.slow
def test_a_bar_counts_rows_and_never_more_than_there_are(tmp_path: Path) -> None:
    good = json.dumps({"reasoning": "it is so", "score": 3})
    with ScriptedServer(Reply(good, delay=0.9)) as server:
        folder = project(tmp_path)
        words = ("score", rows(folder, 6), "--measures", "AnswerRelevance", "-j", "1")
        setting = ("--set", f"judge.model={server.url}#m")
        seen = on_terminal(folder, *words, *setting, environment=PLAIN)
    counts = [(int(a), int(b)) for a, b in re.findall(r"(\d+)/(\d+) rows", seen)]
    assert counts
    assert {total for _, total in counts} == {6}
    assert [done for done, _ in counts] == sorted(done for done, _ in counts)
    assert 0 < max(done for done, _ in counts) <= 6
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in seen
    assert " s left" in seen
    assert " left" not in seen.split("2/6 rows")[0], "one row gives no rate"


@pytest.mark.slow
def test_an_ingest_counts_what_is_embedded_while_it_goes_on(tmp_path: Path) -> None:
    with ScriptedServer(Reply(delay=0.6)) as server:
        folder = project(tmp_path, f"embed: {{model: '{server.url}#m'}}\n")
        for number in range(150):
            (folder / "docs" / f"{number}.md").write_text(f"# {number}\n\nBrake {number}.\n")
        seen = on_terminal(folder, "ingest", "-j", "1", environment=PLAIN | {"COLUMNS": "200"})
    assert "151 documents read" in seen
    embedded = {int(count) for count in re.findall(r"(\d+)(?:/151)? chunks embedded", seen)}
    assert any(0 < count < 151 for count in embedded), embedded


@pytest.mark.slow
def test_a_judge_of_no_use_is_reported_while_the_run_goes_on(tmp_path: Path) -> None:
    def judge(request: ServerRequest) -> Reply:
        return Reply("I cannot help with that.", delay=30 if server.count > 24 else 0)

    with ScriptedServer(judge) as server:
        folder = project(tmp_path)
        words = ("score", rows(folder, 40), "--measures", "AnswerRelevance")
        with started(folder, *words, "--set", f"judge.model={server.url}#m") as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith("warning: "))
            assert process.poll() is None
    assert f"none of the first 20 replies of {server.url}#m can be used" in line
    assert "«I cannot help with that.»" in line
    assert "judge.format" in line


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_as_ctrl_c_does(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    good = json.dumps({"reasoning": "it is so", "score": 3})

    gate = threading.Event()

    def judge(request: ServerRequest) -> Reply:
        return Reply(good, held=gate if server.count > 8 else None)

    with ScriptedServer(judge) as server:
        folder = project(tmp_path)
        asked = ("score", rows(folder, 20), "--measures", "AnswerRelevance")
        words = (*asked, "--set", f"judge.model={server.url}#m", "-j", "4")
        with started(folder, *words) as process:
            wait_until(lambda: server.count == 12)
            time.sleep(0.5)  # eight rows are written down, and four calls are under way
            process.send_signal(number)
            assert process.stderr is not None
            for line in process.stderr:
                if "waiting for 4 calls" in line:
                    break
            process.send_signal(signal.SIGHUP)  # what a shell sends, too, ends nothing at once
            gate.set()
            out, told = process.communicate(timeout=60)
        assert (process.returncode, out) == (code, "")
        (said,) = [line for line in told.splitlines() if line.startswith("stopped")]
        kept = re.fullmatch(
            rf"stopped by {number.name}; (\d+) of 20 rows are kept in run \S+; "
            r"to continue, run it again with --resume",
            said,
        )
        assert kept is not None, said
        assert int(kept[1]) == 8
        before = server.count
        server.play(good)
        again = json.loads(ragwright(folder, *words, "--resume", "--json").stdout)
        assert again["measures"]["AnswerRelevance"]["n"] == 20
        assert server.count - before == 8  # the replies under way were waited for


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("ask", "When is brake fluid changed?", "--set", "answer.model=opnai:x"),
        ("eval", "--testset", "rows.jsonl", "--set", "answer.model=opnai:x"),
        ("eval", "--testset", "rows.jsonl", "--set", "judge.model=opnai:x"),
        ("score", "rows.jsonl", "--measures", "AnswerRelevance", "--set", "judge.model=opnai:x"),
        ("sweep", "study.yaml"),
        ("synth", "--kinds", "model", "--model", "opnai:x"),
        ("ingest", "--set", "embed.model=opnai:x"),
        ("retrieve", "brakes", "--set", "retrieve.rerank.model=opnai:x"),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_an_unknown_model_is_an_error_of_a_dry_run_too(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = project(tmp_path)
    for number in range(3):
        parts = [
            f"Brake {part}{number}" for part in ("pad", "disc", "hose", "drum", "shoe", "line")
        ]
        prose = " ".join(f"The {part} is checked every {number + 2} years." for part in parts)
        (folder / "docs" / f"{number}.md").write_text(f"# Fluid {number}\n\n{prose}\n", "utf-8")
    rows(folder, 3)
    (folder / "study.yaml").write_text(
        "answer: {model: ['opnai:x', 'opnai:y']}\nstudy: {testset: rows.jsonl, measures: TokenF1}\n"
    )
    ragwright(folder, "ingest")
    done = ragwright(folder, *words, "--dry-run", code=1)
    assert "unknown provider 'opnai'" in done.stderr
    assert "openai" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_the_time_limits_of_the_project_file_hold(tmp_path: Path) -> None:
    with ScriptedServer(Reply(malformed="hang")) as server:
        name = f"{server.url}#m"
        settings = f"answer: {{model: '{name}'}}\nbudget: {{first_piece_timeout: 0.5}}\n"
        folder = project(tmp_path, settings)
        ragwright(folder, "ingest")
        done = ragwright(folder, "ask", "When is brake fluid changed?", code=1)
        assert server.count == 2
    assert "sent nothing for 0.5 s (first_piece_timeout)" in done.stderr


@pytest.mark.slow
def test_a_slow_judge_is_not_sent_more_and_more_copies(tmp_path: Path) -> None:
    with ScriptedServer(Reply(malformed="hang")) as server:
        folder = project(tmp_path, "budget: {first_piece_timeout: 1}\n")
        words = ("score", rows(folder, 4), "--measures", "AnswerRelevance")
        done = ragwright(folder, *words, "--set", f"judge.model={server.url}#m", code=101)
        assert server.count == 8
        assert max(request.in_flight for request in server.requests[4:]) <= 2
    assert "first_piece_timeout" in done.stdout + done.stderr
