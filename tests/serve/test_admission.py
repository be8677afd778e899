"""Bodies of requests: what is refused with its place, and what real clients may send."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any

import pytest
from agent import with_tools
from command_line import ragwright
from mcp import Client
from served import Running, asks
from small_project import QUESTION

from ragwright import Workbench
from ragwright.core import RetrieveError

CHAT, RESPONSES, SEARCH = "/v1/chat/completions", "/v1/responses", "/v1/retrieve"
JSON = {"content-type": "application/json"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SEE = {"role": "user", "content": [{"type": "text", "text": "see"}, PICTURE]}


@pytest.mark.parametrize(
    ("body", "param", "fault"),
    [
        ({"messages": []}, "messages", "at least 1"),
        (asks("a", n=2), "n", "one answer at a time"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages", "must be a question"),
        ({"messages": [SEE]}, "messages.0.content", "only text is read"),
        (asks("a", response_format={"type": "json_object"}), "response_format", "leave"),
        (asks("a", model="gpt-4o"), "model", "unknown model"),
    ],
)
def test_bad_requests_are_answered_in_openais_shape(
    offline: Running, body: dict[str, object], param: str, fault: str
) -> None:
    reply = offline.http.post(CHAT, json=body)
    error = reply.json()["error"]
    assert reply.status_code == (404 if param == "model" else 400)
    assert error["param"] == param
    assert fault in error["message"]
    assert reply.headers["x-should-retry"] == "false"


PICTURED = {"role": "user", "content": [{"type": "input_image"}]}


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (RESPONSES, {"input": []}, "input"),
        (RESPONSES, {"input": "a", "background": True}, "background"),
        (RESPONSES, {"input": "a", "conversation": "conv_1"}, "conversation"),
        (RESPONSES, {"input": "a", "previous_response_id": "r"}, "response_id: no conversation"),
        (RESPONSES, {"input": "a", "text": {"format": {"type": "json_object"}}}, "text.format"),
        (RESPONSES, {"input": [PICTURED]}, "input_image"),
        (RESPONSES, {"input": [{"role": "judge", "content": "x"}]}, "role"),
        (RESPONSES, {"input": [{"role": "assistant", "content": "x"}]}, "last message"),
        (RESPONSES, {"input": "a", "tools": [{"type": "file_search", "filters": {"type": "eq"}}]},
            "ragwright.filters"),
        (RESPONSES, {"input": "a", "metadata": {"half": "\ud800"}}, "metadata.half"),
        (RESPONSES, {"input": [{"type": 5}]}, "input.0.type: "),
        (RESPONSES, {"input": "a" * 100_001}, "input: String should have at most"),
        (RESPONSES, {"input": "a", "model": "n" * 5_000}, "known: handbook"),
        ("/v1/embeddings", {"input": [[1, 2], [3]]}, "check_embedding_ctx_length=False"),
        ("/v1/embeddings", {"input": [1, 2, 3]}, "check_embedding_ctx_length=False"),
        (SEARCH, {}, "query: "),
        ("/v1/answers", {}, "openapi.json"),
        ("/v1/models", {}, "`allow`"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_by_its_field(
    offline: Running, path: str, body: dict[str, Any], reason: str
) -> None:
    reply = offline.http.post(path, content=json.dumps(body), headers=JSON)
    assert 400 <= reply.status_code < 500, reply.text
    assert reason in reply.json()["error"]["message"]
    assert len(reply.text) < 600


def test_malformed_json_and_long_bodies_are_refused(offline: Running) -> None:
    def fault(body: bytes, path: str = SEARCH, headers: dict[str, str] = JSON) -> str:
        reply = offline.http.post(path, content=body, headers=headers)
        assert reply.status_code == 400
        assert reply.json()["error"]["type"] == "invalid_request_error"
        return str(reply.json()["error"]["message"])

    cut = fault(b'{"messages": [', CHAT)
    assert re.match(r"the body is not JSON: [A-Z].* at character \d+$", cut)
    assert "content-type: application/json" in fault(b'{"messages": []}', CHAT, {})
    assert "send a JSON object" in fault(b"")
    for unread in (b"[" * 90_000, b'{"query": ' + b"9" * 9_000 + b"}", b'{"query": "\xff"}'):
        assert "send JSON in UTF-8" in fault(unread)
    for content in (b"x" * 5_000_000, iter([b"x" * 2_500_000, b"x" * 2_500_000])):
        assert offline.http.post(CHAT, content=content).status_code == 413


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("x" * 1_000_000, "the question has 1000000 characters, more than 20000"),
        (" ".join(f"C{n}" for n in range(2000)), "the question has 2000 different words"),
    ],
    ids=["1 MB", "2000 codes"],
)
def test_a_question_that_would_keep_others_waiting_is_refused_at_every_door(
    offline: Running, question: str, told: str
) -> None:
    with Workbench.open(offline.folder) as bench:
        for door in (bench.ask, bench.retrieve):
            with pytest.raises(RetrieveError, match=told):
                door(question)
    if len(question) < 100_000:
        for command in ("ask", "retrieve"):
            assert told in ragwright(offline.folder, command, question, code=1).stderr

    async def work(client: Client) -> None:
        for tool, name in (("ask", "question"), ("search", "query")):
            result = await client.call_tool(tool, {name: question})
            assert result.is_error
            assert re.search(f"{told}|at most 10000 characters", str(result.content)), tool

    with_tools(offline, work)
    for path, body in (
        (CHAT, asks(question)),
        (RESPONSES, {"input": question}),
        (SEARCH, {"query": question}),
    ):
        reply = offline.http.post(path, json=body)
        assert reply.status_code == 400, path
        assert re.search(f"{told}|at most 100000 characters", reply.text), path


NONE = ("stream", "tools", "ragwright", "metadata", "text", "store", "seed", "n", "stream_options")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**dict.fromkeys(NONE), **asks(QUESTION)}),
        (CHAT, {"messages": [{"role": "user", "content": QUESTION, "tool_calls": None}]}),
        (RESPONSES, {**dict.fromkeys(NONE), "input": QUESTION}),
        (SEARCH, {"query": QUESTION, "top_k": None, "filters": None, "model": None}),
        (CHAT, {"messages": [SEE, {"role": "assistant", "content": [PICTURE]},
            *asks(QUESTION)["messages"]]}),
    ],
    ids=["chat", "a turn", "responses", "search", "a picture in an earlier turn"],
)  # fmt: skip
def test_null_means_not_given_and_an_earlier_picture_locks_no_conversation(
    offline: Running, path: str, body: dict[str, Any]
) -> None:
    reply = offline.http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    assert "brake fluid" in reply.text


def sent(offline: Running, method: str, path: str) -> tuple[int, bytes]:
    """Status and body of a request, its path as it is given."""
    connection = http.client.HTTPConnection(offline.address.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_heads_are_answered_where_gets_are_and_unclean_paths_as_clean_ones(
    offline: Running,
) -> None:
    for path in ("/healthz", "/readyz", "/v1/models", "/", "/v1/models/handbook"):
        assert sent(offline, "HEAD", path) == (sent(offline, "GET", path)[0], b"")
    assert sent(offline, "HEAD", SEARCH)[0] == 405
    for path in ("/v1/models/", "//v1/models", "/v1//models", "///v1/models//"):
        status, reply = sent(offline, "GET", path)
        assert status == 200
        assert json.loads(reply)["object"] == "list"
