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


def test_replies_in_order_and_the_last_repeats() -> None:
    with ScriptedServer(["one", Reply("two")]) as server:
        assert [say(server.url) for _ in range(3)] == ["one", "two", "two"]


def test_a_function_sees_the_request() -> None:
    with ScriptedServer(lambda r: f"{r.prompt}/{r.body['model']}") as server:
        assert say(server.url, "hello") == "hello/m"
        (seen,) = server.requests
        assert seen.headers["content-type"] == "application/json"
        assert seen.in_flight == 1


def test_errors_have_status_headers_and_body() -> None:
    with (
        ScriptedServer(Reply.rate_limited("3")) as server,
        pytest.raises(urllib.error.HTTPError) as caught,
    ):
        say(server.url)
    with caught.value as error:
        assert error.code == 429
        assert error.headers["Retry-After"] == "3"
        assert "error" in json.load(error)


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


def test_models_and_embeddings() -> None:
    with ScriptedServer(models=["a", "b"]) as server:
        with urllib.request.urlopen(f"{server.url}/models", timeout=5) as reply:
            assert [m["id"] for m in json.load(reply)["data"]] == ["a", "b"]
        found = post(server.url, "/embeddings", {"model": "e", "input": ["x y", "x y", "z"]})
        first, second, third = (d["embedding"] for d in found["data"])
        assert first == second != third


def test_an_unknown_path_is_404() -> None:
    with ScriptedServer() as server, pytest.raises(urllib.error.HTTPError) as caught:
        post(server.url, "/nothing", {})
    caught.value.close()
    assert caught.value.code == 404


def test_a_server_in_its_own_process() -> None:
    with ScriptedServer.spawn(Reply("from afar")) as server:
        assert say(server.url) == "from afar"
        assert server.stats()["count"] == 1
