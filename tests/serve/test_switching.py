"""What is served changes while requests are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import Running, served
from small_project import CODES, MANUAL, MakeProject
from waiting import wait_until

from ragwright import EvaluationOptions, Workbench
from ragwright.jobs import PromotionGate, PromotionOptions
from ragwright.measure import GateOptions
from ragwright.testing import Reply, ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
TEMPLATE = "parts: {role: You answer in one sentence.}\n"
ROW = '{"user_input": "How often must the brake fluid be changed?", "reference": "two years"}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\nretrieve: {top_k: 3}\n")
    (folder / "testsets").mkdir()
    (folder / "testsets/main.jsonl").write_text(ROW, "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def promoted(project: Path, top_k: int) -> None:
    file = project / "ragwright.yaml"
    lines = [line for line in file.read_text("utf-8").splitlines() if "top_k" not in line]
    file.write_text("\n".join([*lines, f"retrieve: {{top_k: {top_k}}}"]) + "\n", "utf-8")
    options, least = EvaluationOptions(answers=True), GateOptions(least=1)
    with Workbench.open(project) as bench:
        _, run = bench.evaluate(str(project / "testsets/main.jsonl"), "TokenF1", options)
        bench.promote(
            run.run, ["TokenF1>=0.001"], PromotionOptions(PromotionGate(least), rules_alone=True)
        )


def hits(running: Running) -> int:
    reply = running.http.post("/v1/retrieve", json={"query": QUESTION})
    assert reply.status_code == 200, reply.text
    return len(reply.json()["hits"])


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


@pytest.mark.slow
def test_promote_and_rollback_switch_without_a_restart_or_a_failed_request(project: Path) -> None:
    promoted(project, 1)
    with served(project, own=False) as running:
        assert hits(running) == 1
        with asked_all_the_while(running) as states:
            promoted(project, 2)
            wait_until(lambda: hits(running) == 2)
            with Workbench.open(project) as bench:
                bench.promote_back("too long")
            wait_until(lambda: hits(running) == 1)
            wait_until(lambda: len(states) > 10)
    assert set(states) == {200}


@pytest.mark.slow
def test_an_answer_under_way_ends_under_what_it_began_with(tmp_path: Path) -> None:
    slow = Reply("Every two years [1]. " * 20, pace=0.02)
    with ScriptedServer(slow) as model:
        folder = MakeProject(tmp_path)(
            f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:
            stream = running.openai().chat.completions.create(
                model="handbook", messages=[{"role": "user", "content": QUESTION}], stream=True
            )
            pieces = [next(iter(stream))]
            changed = (folder / "ragwright.yaml").read_text("utf-8").replace("handbook", "manual")
            (folder / "ragwright.yaml").write_text(changed, "utf-8")
            api = running.openai()
            wait_until(lambda: api.models.list().data[0].id == "manual")
            pieces += list(stream)
        assert pieces[-1].choices[0].finish_reason == "stop"


@pytest.mark.slow
def test_promote_and_rollback_while_streams_run(tmp_path: Path) -> None:
    with ScriptedServer("Two years [1].") as model:
        folder = MakeProject(tmp_path)(
            f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
            "retrieve: {top_k: 3}\n"
        )
        (folder / "testsets").mkdir()
        (folder / "testsets/main.jsonl").write_text(ROW, "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
        promoted(folder, 1)
        model.play(Reply("Every two years [1]. " * 30, pace=0.02))
        with served(folder, own=False) as running:
            begun = []
            for number in range(3):
                stream = iter(
                    running.openai().chat.completions.create(
                        model="handbook",
                        messages=[{"role": "user", "content": f"{QUESTION} {number}"}],
                        stream=True,
                    )
                )
                begun.append((next(stream), stream))
                if number == 0:
                    model.play("Two years [1].")
                    promoted(folder, 2)
                    wait_until(lambda: hits(running) == 2)
                    model.play(Reply("Every two years [1]. " * 30, pace=0.02))
                if number == 1:
                    with Workbench.open(folder) as bench:
                        bench.promote_back("too long")
                    wait_until(lambda: hits(running) == 1)
            answers = [(first.system_fingerprint, list(rest)) for first, rest in begun]
    for fingerprint, pieces in answers:
        assert pieces[-1].choices[0].finish_reason == "stop"
        assert {piece.system_fingerprint for piece in pieces} == {fingerprint}
    first, second, third = (fingerprint for fingerprint, _ in answers)
    assert first == third != second, "each ends under the configuration it began with"


@pytest.mark.slow
def test_settings_that_are_wrong_change_nothing(project: Path) -> None:
    with served(project) as running:
        before = hits(running)
        file = project / "ragwright.yaml"
        good = file.read_text("utf-8")
        file.write_text(good.replace("top_k: 3", "top_q: 3"), "utf-8")
        time.sleep(0.3)
        assert hits(running) == before
        file.write_text(good.replace("top_k: 3", "top_k: 1"), "utf-8")
        wait_until(lambda: hits(running) == 1)


@pytest.mark.slow
def test_a_new_index_is_followed_while_the_project_file_is_wrong(project: Path) -> None:
    with Workbench.open(project) as bench, served(project) as running:
        assert hits(running) == 2
        (project / "ragwright.yaml").write_text("retrieve: {top_q: 3}\n", "utf-8")
        (project / "docs/brakes.md").write_text("# Brakes\n\nBrake fluid is yellow.\n", "utf-8")
        bench.ingest()
        wait_until(lambda: hits(running) == 3)


@pytest.mark.slow
def test_readers_see_the_old_index_until_the_new_one_is_whole(project: Path) -> None:
    with served(project, watch=1.0) as running, asked_all_the_while(running) as states:
        marker = project / ".ragwright/data/ingesting"
        (project / "docs/more.md").write_text("# Tyres\n\nTyres last four years.\n", "utf-8")
        with Workbench.open(project) as bench:
            bench.ingest()
            marker.touch()  # as while another ingest goes on
        query = {"query": "How long do tyres last?"}

        def sees_tyres() -> bool:
            passages = running.http.post("/v1/retrieve", json=query).json()["hits"]
            return any("Tyres last" in hit["text"] for hit in passages)

        time.sleep(1.3)
        assert not sees_tyres(), "an ingest goes on"
        marker.unlink()
        wait_until(sees_tyres)
    assert set(states) == {200}


@pytest.mark.slow
def test_documents_that_were_removed_are_still_read_from_the_old_index(project: Path) -> None:
    with served(project, watch=30.0) as running:
        before = hits(running)
        (project / "docs/service.md").unlink()
        with Workbench.open(project) as bench:
            bench.ingest(prune=True)
        assert hits(running) == before > 1


def test_a_new_persona_is_served_after_its_file_is_written(project: Path) -> None:
    with served(project) as running:
        (project / "personas").mkdir()
        (project / "personas/novice.yaml").write_text(
            "name: novice\nanswer_length: short\n", "utf-8"
        )
        api = running.openai()
        wait_until(lambda: "handbook/novice" in [model.id for model in api.models.list()])


@pytest.mark.slow
def test_what_is_asked_at_once_is_bounded(tmp_path: Path) -> None:
    slow = Reply("Every two years [1].", delay=0.5)
    with ScriptedServer(slow) as model:
        folder = MakeProject(tmp_path)(
            f"serve: {{name: handbook, concurrency: 1, waiting: 1}}\n"
            f"answer: {{model: '{model.url}#writer'}}\n",
            **{"service.md": MANUAL, "codes.md": CODES},
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:
            states: list[int] = []

            def ask(number: int) -> None:
                reply = running.client().post(
                    "/v1/chat/completions",
                    json={"messages": [{"role": "user", "content": f"{QUESTION} {number}"}]},
                )
                states.append(reply.status_code)

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert sorted(set(states)) == [200, 503]
    assert states.count(200) == 2


@pytest.mark.slow
def test_what_could_not_be_opened_is_tried_again_though_no_file_has_changed(project: Path) -> None:
    with served(project) as running:
        assert hits(running) == 2
        file = project / "ragwright.yaml"
        changed = file.read_text("utf-8").replace("top_k: 3", "top_k: 1")
        file.write_text(f"{changed}prompt: {{template: elsewhere.yaml}}\n", "utf-8")
        time.sleep(0.5)
        assert hits(running) == 2, "the template is missing"
        (project / "elsewhere.yaml").write_text(TEMPLATE, "utf-8")  # a file that is not watched
        wait_until(lambda: hits(running) == 1)


@pytest.mark.slow
def test_changed_limits_are_followed(tmp_path: Path) -> None:
    slow = Reply("Every two years [1].", delay=0.5)
    with ScriptedServer(slow) as model:
        settings = (
            "serve: {name: handbook, concurrency: 1, waiting: 0}\n"
            f"answer: {{model: '{model.url}#writer'}}\n"
        )
        folder = MakeProject(tmp_path)(settings)
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as running:

            def states(text: str) -> list[int]:
                statuses: list[int] = []
                threads = [
                    threading.Thread(
                        target=lambda n=n: statuses.append(
                            running.client()
                            .post(
                                "/v1/chat/completions",
                                json={"messages": [{"role": "user", "content": f"{text} {n}"}]},
                            )
                            .status_code
                        )
                    )
                    for n in range(3)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                return sorted(statuses)

            assert states("before") == [200, 503, 503]
            file = folder / "ragwright.yaml"
            file.write_text(
                file.read_text("utf-8")
                .replace("concurrency: 1", "concurrency: 3")
                .replace("name: handbook", "name: manual"),
                "utf-8",
            )
            api = running.openai()
            wait_until(lambda: api.models.list().data[0].id == "manual")
            assert states("after") == [200, 200, 200]
