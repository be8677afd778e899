"""Everything that a request spends is charged to its key, however the request ends."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from served import Running, served
from small_project import MakeProject
from waiting import wait_until

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
ANSWER = "Every two years [1]."
TITLE = (
    "### Task:\nGenerate a concise, 3-5 word title.\n### Chat History:\n<chat_history>\n"
    "USER: When is the brake fluid changed?\n</chat_history>"
)


@contextmanager
def priced(
    folder: Path, model: ScriptedServer, settings: str = "", *overrides: str
) -> Iterator[Running]:
    """A server whose models cost 1 for each token."""
    file = MakeProject(folder)(
        f"serve: {{name: book}}\nanswer: {{model: '{model.url}#writer'}}\n"
        f"models: {{'{model.url}#writer': {{price_in: 1000000, price_out: 1000000}}}}\n{settings}"
    )
    with Workbench.open(file) as bench:
        bench.ingest()
    owner = ServeKeys(ProjectFolder(file)).add(ServeKey("owner", "owner"))
    with served(file, *overrides) as running:
        running.http = running.client(owner)
        yield running


def key(folder: Path, name: str, **rights: Any) -> str:
    return ServeKeys(ProjectFolder(folder / "project")).add(ServeKey(name, **rights))


def number(running: Running, name: str) -> float:
    match = re.search(
        rf"^{re.escape(name)} (\S+)$", running.http.get("/metrics").text, re.MULTILINE
    )
    return float(match[1]) if match else 0.0


def spent(running: Running) -> float:
    return number(running, "ragwright_cost_total")


def tokens(running: Running) -> float:
    kinds = ("prompt", "completion")
    return sum(number(running, f'ragwright_tokens_total{{kind="{kind}"}}') for kind in kinds)


def eventually_spent(running: Running) -> float:
    wait_until(lambda: spent(running), "nothing was charged")
    return spent(running)


def asks(text: str, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


@pytest.mark.slow
def test_a_stream_that_is_cut_in_the_middle_is_charged(tmp_path: Path) -> None:
    long = Reply("Every two years [1]. " * 200, pace=0.02)
    with ScriptedServer(long) as model, priced(tmp_path, model) as running:
        http = running.client(key(tmp_path, "app", daily_budget=1.0))
        body = asks(QUESTION, stream=True)
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.iter_lines()
            texts = [next(lines) for _ in range(12)]
        assert any("years" in line for line in texts)
        assert eventually_spent(running) > 10
        assert http.post("/v1/chat/completions", json=asks("Why?")).status_code == 429


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_charged(tmp_path: Path) -> None:
    slow = Reply(ANSWER, delay=30.0)
    with (
        ScriptedServer(slow) as model,
        priced(tmp_path, model, "", "serve.timeout=0.4") as running,
    ):
        reply = running.ask(QUESTION)
        assert reply.status_code == 504
        assert eventually_spent(running) > 10


@pytest.mark.slow
def test_a_client_that_leaves_before_its_answer_is_charged(tmp_path: Path) -> None:
    slow = Reply(ANSWER, delay=30.0)
    with ScriptedServer(slow) as model, priced(tmp_path, model) as running:
        with pytest.raises(httpx2.TimeoutException):
            running.http.post("/v1/chat/completions", json=asks(QUESTION), timeout=0.5)
        assert eventually_spent(running) > 10


@pytest.mark.slow
def test_every_call_of_an_answer_is_charged_once_and_stored_replies_never(tmp_path: Path) -> None:
    with ScriptedServer(Reply(ANSWER, usage=(10, 5))) as model:
        rewriting = f"retrieve: {{query: {{methods: [rewrite], model: '{model.url}#writer'}}}}\n"
        with priced(tmp_path, model, rewriting) as running:
            turns = [
                {"role": "user", "content": "What does APP_w304 mean?"},
                {"role": "assistant", "content": "A sensor."},
                {"role": "user", "content": "And APP_w305?"},
            ]
            reply = running.http.post("/v1/chat/completions", json={"messages": turns})
            assert reply.status_code == 200, reply.text
            calls = len(model.requests)
            assert calls >= 3, "condensed, rewritten, answered"
            assert tokens(running) == 15 * calls
            assert spent(running) == pytest.approx(15 * calls)
            running.http.post("/v1/chat/completions", json={"messages": turns})
            assert len(model.requests) == calls
            assert spent(running) == pytest.approx(15 * calls)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["title", "retrieve", "mcp", "page"])
def test_all_kinds_of_requests_are_charged(tmp_path: Path, kind: str) -> None:
    with ScriptedServer(ANSWER) as model:
        writer = f"'{model.url}#writer'"
        rewriting = f"retrieve: {{query: {{methods: [rewrite], model: {writer}}}}}\n"
        more = {"retrieve": rewriting}
        with priced(tmp_path, model, more.get(kind, "")) as running:
            reply = sent(running, kind)
            assert reply.status_code == 200, reply.text
            assert eventually_spent(running) > 0


def sent(running: Running, kind: str) -> httpx2.Response:
    http = running.http
    if kind == "page":
        return http.post("/", data={"q": QUESTION})
    if kind == "title":
        return http.post("/v1/chat/completions", json=asks(TITLE))
    if kind == "retrieve":
        return http.post("/v1/retrieve", json={"query": QUESTION})
    call = {"name": "ask", "arguments": {"question": QUESTION}}
    return http.post(
        "/mcp/",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"accept": "application/json, text/event-stream"},
    )


@pytest.mark.slow
def test_embeddings_are_charged_and_belong_to_their_tenant(tmp_path: Path) -> None:
    with ScriptedServer(ANSWER) as model:
        named = f"{model.url}#vectors"
        folder = MakeProject(tmp_path)(
            f"serve: {{name: book}}\nembed: {{model: '{named}'}}\n"
            f"models: {{'{named}': {{price_in: 1000000}}}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        first_key, two = (
            key(tmp_path, name, filters=(f"tenant={name}",)) for name in ("one", "two")
        )
        owner = key(tmp_path, "owner", role="owner")
        with served(folder) as running:
            running.http = running.client(owner)
            body = {"input": "a secret", "input_type": "query"}
            before = len(model.requests)
            for secret in (first_key, first_key, two):
                reply = running.client(secret).post("/v1/embeddings", json=body)
                assert reply.status_code == 200, reply.text
            assert len(model.requests) == before + 2, "a vector is reused by its own tenant alone"
            assert eventually_spent(running) > 0


@pytest.mark.slow
def test_no_model_without_a_price_is_called_under_a_budget(tmp_path: Path) -> None:
    rewriting = "retrieve: {query: {methods: [rewrite], model: 'openai:gpt-x'}}\n"
    with ScriptedServer(ANSWER) as model, priced(tmp_path, model, rewriting) as running:
        http = running.client(key(tmp_path, "app", daily_budget=100.0))
        for path, body in (
            ("/v1/chat/completions", asks(QUESTION)),
            ("/v1/retrieve", {"query": QUESTION}),
        ):
            refused = http.post(path, json=body)
            assert refused.status_code == 400
            assert "'openai:gpt-x' has no price" in refused.json()["error"]["message"]
    assert not model.requests


@pytest.mark.slow
def test_the_budget_is_looked_at_again_after_the_wait_for_a_turn(tmp_path: Path) -> None:
    slow = Reply(ANSWER, delay=0.6)
    with (
        ScriptedServer(slow) as model,
        priced(tmp_path, model, "", "serve.concurrency=1") as running,
    ):
        secret = key(tmp_path, "app", daily_budget=1.0)
        states: list[int] = []

        def ask(text: str) -> None:
            reply = running.client(secret).post("/v1/chat/completions", json=asks(text))
            states.append(reply.status_code)

        threads = [threading.Thread(target=ask, args=(f"{QUESTION} {n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(states) == [200, 429, 429]
    assert len(model.requests) == 1


@pytest.mark.slow
def test_requests_at_once_pass_a_budget_by_no_more_than_those_under_way(tmp_path: Path) -> None:
    """At first all that may run at once begin; once a cost is known, what it leaves room for."""
    slow = Reply(ANSWER, delay=0.4)
    with (
        ScriptedServer(slow) as model,
        priced(tmp_path, model, "", "serve.concurrency=3") as running,
    ):
        first = burst(running, key(tmp_path, "new", daily_budget=1.0), "1")
        assert first == [200] * 3 + [429] * 6
        cost = spent(running) / 3
        secret = key(tmp_path, "known", daily_budget=2.5 * cost)
        client = running.client(secret)
        assert client.post("/v1/chat/completions", json=asks(QUESTION)).status_code == 200
        assert burst(running, secret, "2") == [200] * 2 + [429] * 7
        assert spent(running) - 3 * cost <= 3.5 * cost


def burst(running: Running, secret: str, name: str) -> list[int]:
    """Status of nine requests that are sent at once; each burst asks other questions."""
    states: list[int] = []

    def ask(text: str) -> None:
        made = running.client(secret).post("/v1/chat/completions", json=asks(text))
        states.append(made.status_code)

    threads = [threading.Thread(target=ask, args=(f"{QUESTION} {name}{n}",)) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(states)


@pytest.mark.slow
def test_the_time_of_a_request_runs_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    slow = Reply(ANSWER, delay=60.0)
    with (
        ScriptedServer(slow) as model,
        priced(tmp_path, model, "", "serve.concurrency=1", "serve.timeout=2.5") as running,
    ):
        states: list[int] = []

        def ask(text: str) -> None:
            reply = httpx2.post(
                f"{running.address}/v1/chat/completions",
                json=asks(text),
                headers=running.http.headers,
                timeout=60,
            )
            states.append(reply.status_code)

        threads = [threading.Thread(target=ask, args=(f"{QUESTION} {n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert states == [504] * 3
    assert len(model.requests) < 3, "one after the other, each would be sent to the model"
