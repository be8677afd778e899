"""What is served changes while requests are answered: settings, index, promotion."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from served import Running, served, written_by
from small_project import QUESTION, ingested
from waiting import wait_until

from ragwright import EvaluationOptions, Workbench
from ragwright.jobs import PromotionGate, PromotionOptions
from ragwright.measure import GateOptions
from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

ROW = f'{{"user_input": "{QUESTION}", "reference": "two years"}}\n'
SETTINGS = "serve: {name: handbook}\nretrieve: {top_k: 3}\n"


def promoted(folder: Path, top_k: int) -> None:
    file = folder / "ragwright.yaml"
    lines = [line for line in file.read_text("utf-8").splitlines() if "top_k" not in line]
    file.write_text("\n".join([*lines, f"retrieve: {{top_k: {top_k}}}"]) + "\n", "utf-8")
    options, gate = EvaluationOptions(answers=True), PromotionGate(GateOptions(least=1))
    with Workbench.open(folder) as bench:
        _, run = bench.evaluate(str(folder / "rows.jsonl"), "TokenF1", options)
        bench.promote(run.run, ["TokenF1>=0.001"], PromotionOptions(gate, rules_alone=True))


def hits(running: Running, query: str = QUESTION) -> list[str]:
    reply = running.http.post("/v1/retrieve", json={"query": query})
    assert reply.status_code == 200, reply.text
    return [hit["text"] for hit in reply.json()["hits"]]


@contextmanager
def asked_all_the_while(running: Running) -> Iterator[list[int]]:
    """States of requests that are made one after another until the end of the block."""
    states: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        http = running.client()
        while not stop.is_set():
            states.append(http.post("/v1/retrieve", json={"query": QUESTION}).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield states
    finally:
        stop.set()
        thread.join()
    assert set(states) == {200}


def test_promote_and_rollback_switch_without_a_restart_while_streams_run(tmp_path: Path) -> None:
    whole, slow = "Two years [1].", Reply("Every two years [1]. " * 30, pace=0.02)
    with ScriptedServer(whole) as model:
        folder = ingested(tmp_path, SETTINGS + written_by(model))
        (folder / "rows.jsonl").write_text(ROW, "utf-8")
        promoted(folder, 1)
        with served(folder, own=False) as running:
            begun: list[tuple[Any, Any]] = []

            def begin() -> None:
                model.play(slow)
                turn: Any = {"role": "user", "content": f"{QUESTION} {len(begun)}"}
                completions = running.openai().chat.completions
                made = completions.create(model="handbook", messages=[turn], stream=True)
                stream = iter(made)
                begun.append((next(stream), stream))
                model.play(whole)

            assert len(hits(running)) == 1
            with asked_all_the_while(running) as states:
                begin()
                promoted(folder, 2)
                wait_until(lambda: len(hits(running)) == 2)
                begin()
                with Workbench.open(folder) as bench:
                    bench.promote_back("too long")
                wait_until(lambda: len(hits(running)) == 1)
                begin()
                wait_until(lambda: len(states) > 10)
            answers = [(first.system_fingerprint, list(rest)) for first, rest in begun]
    for fingerprint, pieces in answers:
        assert pieces[-1].choices[0].finish_reason == "stop"
        assert {piece.system_fingerprint for piece in pieces} == {fingerprint}
    first, second, third = (fingerprint for fingerprint, _ in answers)
    assert first == third != second


def test_settings_are_followed_and_wrong_ones_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = ingested(tmp_path, SETTINGS)
    file = folder / "ragwright.yaml"
    good = file.read_text("utf-8")

    def refused(text: str, fault: str) -> None:
        caplog.clear()
        file.write_text(text, "utf-8")
        wait_until(lambda: fault in caplog.text)

    warnings = caplog.at_level(logging.WARNING, "ragwright.serve")
    with Workbench.open(folder) as bench, served(folder) as running, warnings:
        assert len(hits(running)) == 2
        refused(good.replace("top_k: 3", "top_q: 3"), "top_q")
        assert len(hits(running)) == 2
        (folder / "docs/brakes.md").write_text("# Brakes\n\nBrake fluid is yellow.\n", "utf-8")
        bench.ingest()
        wait_until(lambda: len(hits(running)) == 3)
        file.write_text(good.replace("top_k: 3", "top_k: 1"), "utf-8")
        wait_until(lambda: len(hits(running)) == 1)
        more = good.replace("top_k: 3", "top_k: 2")
        refused(f"{more}prompt: {{template: elsewhere.yaml}}\n", "elsewhere.yaml")
        assert len(hits(running)) == 1, "the template is missing"
        template = "parts: {role: You answer in one sentence.}\n"
        (folder / "elsewhere.yaml").write_text(template, "utf-8")  # a file that is not watched
        wait_until(lambda: len(hits(running)) == 2)
        (folder / "personas").mkdir()
        (folder / "personas/novice.yaml").write_text("name: novice\nanswer_length: short\n")
        api = running.openai()
        wait_until(lambda: "handbook/novice" in [model.id for model in api.models.list()])


def test_readers_see_the_old_index_until_the_new_one_is_whole(tmp_path: Path) -> None:
    folder = ingested(tmp_path, SETTINGS)
    with served(folder, watch=1.0) as running, asked_all_the_while(running):
        marker = folder / ".ragwright/data/ingesting"
        (folder / "docs/more.md").write_text("# Tyres\n\nTyres last four years.\n", "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
            marker.touch()  # as while another ingest goes on

        def sees_tyres() -> bool:
            return any("Tyres last" in text for text in hits(running, "How long do tyres last?"))

        time.sleep(1.3)
        assert not sees_tyres(), "an ingest goes on"
        marker.unlink()
        wait_until(sees_tyres)
    with served(folder, watch=30.0) as running:
        before = hits(running)
        (folder / "docs/service.md").unlink()
        with Workbench.open(folder) as bench:
            bench.ingest(prune=True)
        assert hits(running) == before, "removed documents are still read from the old index"
        assert len(before) > 1
