"""Ctrl-C and other signals at any moment: one sentence, an exit code, no traceback, work kept."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import ragwright
from one_client import one_client
from story_tools import write_rows
from waiting import wait_until

from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

PRESSED = """
import os, signal, sys

class Presses:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

class Finder:
    \"\"\"Presses Ctrl-C when a module is about to be loaded.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {press}

from ragwright.app import main
sys.meta_path.insert(0, Finder())
sys.argv[1:] = {words!r}
main()
"""
PRESS = "os.kill(os.getpid(), signal.SIGINT)"
SWALLOWED = f"""
            try:
                {PRESS}
                for _ in range(1000):
                    pass
            except BaseException as error:
                raise ImportError("half loaded") from error"""
TWICE = f"""
            try:
                {PRESS}
                for _ in range(1000):
                    pass
            finally:
                import time
                {PRESS}
                time.sleep(60)"""
KEPT = "stopped; finished work is kept; to continue, run it again"


@pytest.mark.parametrize(
    ("line", "module", "press", "told"),
    [
        ("retrieve x", "ragwright.workbench", PRESS, "stopped before any work was done"),
        ("retrieve x", "ragwright.ingest", PRESS, "stopped before any work was done"),
        ("outputs list", "yaml", PRESS, KEPT),
        ("outputs list", "yaml", "Presses(); import time; time.sleep(5)", KEPT),
        ("outputs list", "yaml", SWALLOWED, KEPT),
        ("outputs list", "yaml", TWICE, "stopped at once; stored results are kept"),
    ],
    ids=["a room loads", "another loads", "work", "an interrupt lost", "one swallowed", "twice"],
)
def test_ctrl_c_while_a_module_is_loaded(
    tmp_path: Path, line: str, module: str, press: str, told: str
) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    code = PRESSED.format(module=module, press=press, words=line.split())
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr.splitlines() == [told]


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ragwright", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_as_ctrl_c_does(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    good = json.dumps({"reasoning": "it is so", "score": 3})
    gate = threading.Event()

    def judge(request: ServerRequest) -> Reply:
        return Reply(good, held=gate if server.count > 8 else None)

    (tmp_path / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    rows = [{"user_input": f"Question {n}?", "response": f"It is {n}."} for n in range(20)]
    write_rows(tmp_path / "rows.jsonl", rows)
    with ScriptedServer(judge) as server:
        model = ("--set", f"judge.model={server.url}#m", "-j", "4")
        words = ("score", "rows.jsonl", "--measures", "AnswerRelevance", *model)
        with started(tmp_path, *words) as process:
            wait_until(lambda: server.count == 12)
            time.sleep(0.5)  # eight rows are written down, and four calls are under way
            process.send_signal(number)
            assert process.stderr is not None
            next(line for line in process.stderr if "waiting for 4 calls" in line)
            process.send_signal(signal.SIGHUP)  # what a shell sends, too, ends nothing at once
            gate.set()
            out, told = process.communicate(timeout=60)
        assert (process.returncode, out) == (code, "")
        (said,) = [line for line in told.splitlines() if line.startswith("stopped")]
        kept = rf"stopped by {number.name}; 8 of 20 rows are kept in run \S+; "
        assert re.fullmatch(kept + "to continue, run it again with --resume", said), said
        before = server.count
        server.play(good)
        again = json.loads(ragwright(tmp_path, *words, "--resume", "--json").stdout)
        assert again["measures"]["AnswerRelevance"]["n"] == 20
        assert server.count - before == 8, "the replies under way were waited for"


ASKED = ("draft", "--client", "Jane Doe", "--ask", "donation", "--topic", "schools", "-n", "2")
DRAFT = (*ASKED, "--examples", "3", "--pool", "6", "-q")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_client(tmp_path_factory.mktemp("desk"))


def interrupted(project: Path, server: ScriptedServer, *words: str, times: int = 1) -> list[str]:
    """What a draft of two models says that is interrupted while the slower one writes."""
    models = ("-m", f"{server.url}#slow", "-m", f"{server.url}#quick")
    with started(project, *DRAFT, *models, *words) as process:
        wait_until(lambda: server.count == 2 and server.in_flight == 1)
        time.sleep(0.5)  # the answer of the quick one has been read
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    return [line for line in error.splitlines() if line]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_names_the_slow_model_and_gives_it_up(
    project: Path, number: signal.Signals, code: int
) -> None:
    with (
        ScriptedServer(lambda request: Reply("1. Late.", delay=600)) as server,
        started(project, *DRAFT, "-m", f"{server.url}#slow") as process,
    ):
        wait_until(lambda: server.count)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == code
    waiting, told = [line for line in error.splitlines() if line]
    assert f"waiting for 1 call to {server.url}#slow" in waiting
    assert f"1 call to {server.url}#slow got no reply in time and may be billed" in told


def test_ctrl_c_twice_waits_for_nobody(project: Path) -> None:
    def said(request: ServerRequest) -> Reply:
        return Reply("1. Soon.\n2. Late.", delay=600 if request.body["model"] == "slow" else 0)

    with ScriptedServer(said) as server:
        told = interrupted(project, server, "--seed", "9", times=2)
    assert told == ["stopped at once; stored results are kept"]
