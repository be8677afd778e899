"""The scripted server: scripts, faults, counters, its own process."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest
from waiting import wait_until

from ragwright.testing import Reply, ScriptedServer


def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=5) as reply:
        return dict(json.load(reply))


def say(url: str, text: str = "hi") -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return str(post(url, "/chat/completions", body)["choices"][0]["message"]["content"])


def test_replies_come_in_order_or_from_a_function_of_the_request() -> None:
    with ScriptedServer(["one", Reply("two")]) as server:
        assert [say(server.url) for _ in range(3)] == ["one", "two", "two"]
        server.play(lambda r: f"{r.prompt}/{r.body['model']}")
        assert say(server.url, "hello") == "hello/m"
        seen = server.requests[-1]
        assert (seen.headers["content-type"], seen.in_flight) == ("application/json", 1)


@pytest.mark.parametrize(
    ("reply", "path", "code", "waits"),
    [(Reply.rate_limited("3"), "/chat/completions", 429, "3"), ("ok", "/nothing", 404, None)],
)
def test_errors_have_status_and_body(
    reply: Reply | str, path: str, code: int, waits: str | None
) -> None:
    with ScriptedServer(reply) as server, pytest.raises(urllib.error.HTTPError) as caught:
        post(server.url, path, {})
    with caught.value as error:
        assert (error.code, error.headers["Retry-After"]) == (code, waits)
        assert waits is None or "error" in json.load(error)


def test_requests_side_by_side_are_counted() -> None:
    with ScriptedServer(Reply("ok", delay=0.2)) as server:
        threads = [threading.Thread(target=say, args=(server.url,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.max_in_flight == 5
        wait_until(lambda: server.in_flight == 0)  # it counts after it has answered
        assert server.stats() == {"count": 5, "max_in_flight": 5}


def test_models_embeddings_and_a_server_in_its_own_process() -> None:
    with ScriptedServer(models=["a", "b"]) as server:
        with urllib.request.urlopen(f"{server.url}/models", timeout=5) as reply:
            assert [m["id"] for m in json.load(reply)["data"]] == ["a", "b"]
        found = post(server.url, "/embeddings", {"model": "e", "input": ["x y", "x y", "z"]})
        first, second, third = (d["embedding"] for d in found["data"])
        assert first == second != third
    with ScriptedServer.spawn(Reply("from afar")) as spawned:
        assert say(spawned.url) == "from afar"
        assert spawned.stats()["count"] == 1
