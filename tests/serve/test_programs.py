"""Real programs against the real command: `llm`, workers, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from small_project import MakeProject

from ragwright import Workbench

pytest.importorskip("fastapi")
pytestmark = pytest.mark.slow

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@contextmanager
def command(project: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ragwright serve` in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", "serve", "--port", "0", "-C", str(project), *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    try:
        address = ""
        while not address:
            line = process.stderr.readline()
            assert line, "it ended"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            address = found[0] if found else ""
        yield process, address
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


def test_llm_lists_the_models_and_asks_one(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("llm")
    folder = tmp_path / "llm"
    folder.mkdir()
    with command(project) as (_, address):
        (folder / "extra-openai-models.yaml").write_text(
            "- model_id: handbook\n  model_name: handbook/engineer\n"
            f"  api_base: {address}/v1\n  api_key_name: none\n",
            "utf-8",
        )
        environment = {**os.environ, "LLM_USER_PATH": str(folder), "LLM_LOAD_PLUGINS": ""}
        for extra in ([], ["--no-stream"]):
            done = subprocess.run(
                [sys.executable, "-m", "llm", "-m", "handbook", "--key", "x", *extra, QUESTION],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
            assert done.returncode == 0, done.stderr
            assert "must be changed every two years. [1]" in done.stdout


def test_workers_share_a_project_and_add_up_their_numbers(project: Path) -> None:
    with command(project, "--workers", "2") as (_, address):
        for _ in range(20):  # each by a connection of its own, so that both workers are met
            made = httpx2.post(f"{address}/v1/retrieve", json={"query": QUESTION}, timeout=30)
            assert made.status_code == 200, made.text
        metrics = httpx2.get(f"{address}/metrics").text
    counted = re.search(
        r'ragwright_requests_total\{route="/v1/retrieve",status="200"\} (\S+)', metrics
    )
    assert counted is not None
    assert float(counted[1]) == 20


def test_it_ends_by_a_signal_after_the_answers_under_way(project: Path) -> None:
    with command(project) as (process, address):
        made = httpx2.post(
            f"{address}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": QUESTION}]},
            timeout=30,
        )
        assert json.loads(made.text)["choices"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM, 143)


def test_a_port_that_is_taken_is_said(project: Path) -> None:
    with command(project) as (_, address):
        port = address.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "ragwright", "serve", "--port", port, "-C", str(project)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr
