"""What real clients send: nulls, pictures in earlier turns, tokens, HEAD, and unclean paths."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench

QUESTION = "How often must the brake fluid be changed?"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = MakeProject(tmp_path_factory.mktemp("odd"))("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as server:
        yield server


def sent(running: Running, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """Status and body of a request, its path as it is given."""
    host = running.address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"content-type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if len(content) == 1 else list(content)}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/chat/completions",
            {
                "messages": [user(QUESTION) | {"name": None, "tool_calls": None}],
                **dict.fromkeys(("stream", "n", "stream_options", "ragwright", "tools", "seed")),
            },
        ),
        (
            "/v1/responses",
            {
                "input": QUESTION,
                **dict.fromkeys(("stream", "tools", "metadata", "text", "ragwright", "store")),
            },
        ),
        ("/v1/retrieve", {"query": QUESTION, "top_k": None, "filters": None, "model": None}),
    ],
)
def test_null_means_not_given(running: Running, path: str, body: dict[str, Any]) -> None:
    status, reply = sent(running, "POST", path, body)
    assert status == 200, reply
    assert b"brake fluid" in reply


def test_an_earlier_picture_does_not_lock_a_conversation(running: Running) -> None:
    see = user({"type": "text", "text": "see"}, PICTURE)
    turns = [see, {"role": "assistant", "content": [PICTURE]}, user(QUESTION)]
    status, reply = sent(running, "POST", "/v1/chat/completions", {"messages": turns})
    assert status == 200, reply
    assert b"brake fluid" in reply
    status, reply = sent(running, "POST", "/v1/chat/completions", {"messages": [see]})
    assert status == 400
    assert b"only text is read" in reply


@pytest.mark.parametrize("tokens", [[[1, 2], [3]], [1, 2, 3]])
def test_tokens_are_refused_with_the_switch_of_the_client(running: Running, tokens: Any) -> None:
    status, reply = sent(running, "POST", "/v1/embeddings", {"input": tokens})
    assert status == 400
    assert b"check_embedding_ctx_length=False" in reply


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/", "/v1/models/handbook"])
def test_head_is_answered_where_get_is_without_a_body(running: Running, path: str) -> None:
    assert sent(running, "HEAD", path) == (sent(running, "GET", path)[0], b"")
    assert sent(running, "HEAD", "/v1/retrieve")[0] == 405


@pytest.mark.parametrize("path", ["/v1/models/", "//v1/models", "/v1//models", "///v1/models//"])
def test_unclean_paths_are_read_as_their_clean_form(running: Running, path: str) -> None:
    status, reply = sent(running, "GET", path)
    assert status == 200
    assert json.loads(reply)["object"] == "list"
