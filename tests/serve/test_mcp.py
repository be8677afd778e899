"""Tools for agents: by the real client, in each revision of MCP, over HTTP and as a command."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from agent import with_tools
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from served import BOTH, HANDBOOK, PLAIN, Running, key, served
from small_project import CODES, MANUAL, QUESTION, MakeProject, ingested

from ragwright import Workbench

NEWEST = "2026-07-28"
ROUND = "Tyres last four years. They are round. " * 150
TYRES = {f"tyres{n}.md": f"# Tyres {n}\n\n{ROUND}" for n in "012"}
NAMES = sorted(f"docs/{name}" for name in (*TYRES, "codes.md", "service.md"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with five documents; ``http`` has a key that sees all of them."""
    texts = {"service.md": MANUAL, "codes.md": CODES, **TYRES}
    with served(ingested(tmp_path_factory.mktemp("agents"), HANDBOOK, **texts)) as server:
        server.http = server.client(key(server.folder, "app"))
        yield server


def called(running: Running, name: str, secret: str = "", **arguments: Any) -> Any:
    """The structured result of a tool, which is in its text too; of a failure the text."""

    async def work(client: Client) -> Any:
        result = await client.call_tool(name, arguments)
        [block] = result.content
        text = block.text  # type: ignore[union-attr]
        if result.is_error:
            return text
        body = result.structured_content
        assert isinstance(body, dict)
        if name == "ask":
            for value in (body["answer"], body["citations"][0]["url"]):
                assert value in text
            assert body["citations"][0]["quote"] in text
        else:
            assert json.loads(text) == body, "both channels carry the same"
        return body

    secret = secret or running.http.headers["authorization"].removeprefix("Bearer ")
    return with_tools(running, work, secret)


def test_search_fetch_and_ask_have_the_shapes_that_chat_programs_expect(running: Running) -> None:
    found = called(running, "search", query=QUESTION)["results"]
    assert sorted(found[0]) == ["id", "snippet", "title", "url"]
    assert "every two years" in found[0]["snippet"]
    passage = called(running, "fetch", id=found[0]["id"])
    assert sorted(passage) == ["id", "metadata", "text", "title", "url"]
    assert "every two years" in passage["text"]
    assert "every two years" in passage["metadata"]["passage"]
    assert '<mark id="passage">' in running.http.get(passage["url"]).text
    assert called(running, "fetch", id="docs/service.md")["text"].startswith("# Service plan")
    assert called(running, "fetch", id="docs/codes.md#2-99999999"), "an end behind it is the end"
    assert (
        "every two years" in called(running, "ask", question=QUESTION, persona="engineer")["answer"]
    )
    [_] = called(running, "search", query="tyres APP_w304", top_k=1)["results"]
    only: dict[str, Any] = {"filters": ["source=docs/tyres1.md"], "top_k": 1}
    [tyres] = called(running, "search", query="tyres APP_w304", **only)["results"]
    assert "Tyres last four years." in tyres["snippet"]
    assert len(tyres["snippet"]) <= 400
    only = {"filters": ["source=docs/codes.md"]}
    narrowed = called(running, "search", query="tyres APP_w304", **only)["results"]
    assert {source["id"].partition("#")[0] for source in narrowed} == {"docs/codes.md"}


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("search", {"query": "fluid", "top_n": 3}, "search has no parameter 'top_n'"),
        ("search", {"question": "fluid"}, "did you mean query?|known: "),
        ("search", {}, "^search needs the parameter 'query'$"),
        ("search", {"query": "fluid", "top_k": 0}, "^top_k: input should be greater than or equal"),
        ("search", {"query": "fluid", "filters": ["nonsense"]}, "nonsense"),
        ("search", {"query": "fluid", "filters": ["a=b"] * 33}, "at most 32 items"),
        ("find", {"query": "fluid"}, "^no tool 'find'; known: ask, fetch"),
        ("ask", {"question": "a", "persona": "pirate"}, "known: engineer, marketing"),
        ("fetch", {"id": "docs/nothing.md"}, "^unknown source"),
        ("fetch", {"id": "../../etc/passwd"}, "unknown source"),
        ("fetch", {"id": "docs/codes.md#0-9#1-2"}, "unknown source"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(
    running: Running, tool: str, arguments: dict[str, Any], fault: str
) -> None:
    text = called(running, tool, **arguments)
    assert re.search(fault, text), text
    for raw in ("pydantic", "Error executing", "type=", "input_value"):
        assert raw not in text


@pytest.mark.parametrize("span", ["999999999999-0", "9-3", "5-5", "999999-1000000"])
def test_a_span_behind_the_end_is_refused_without_a_traceback(
    running: Running, span: str, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = list(logging.getLogger().handlers)
    message = called(running, "fetch", id=f"docs/codes.md#{span}")
    assert "names no passage: the document has" in message
    assert "use an id from a result of `search`" in message
    assert logging.getLogger().handlers == handlers, "nobody else draws what is logged"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("filters", "seen"),
    [((), NAMES), (("language!=xx",), NAMES), (("source=docs/codes.md",), ["docs/codes.md"])],
    ids=["all", "a filter that all meet", "one source"],
)
def test_lists_name_sources_as_citations_do_and_pages_hold_each_once_for_a_key(
    running: Running, filters: tuple[str, ...], seen: list[str]
) -> None:
    secret = key(running.folder, f"key-{len(seen)}-{len(filters)}", filters=filters)
    listed: dict[str, str] = {}
    after: str | None = ""
    while after is not None:
        page = called(running, "list_sources", secret, limit=2, after=after)
        assert page["total"] == len(seen)
        assert not {source["id"] for source in page["sources"]} & listed.keys()
        listed |= {source["id"]: source["source"] for source in page["sources"]}
        after = page["next"]
    assert list(listed) == seen
    hits = running.client(secret).post("/v1/retrieve", json={"query": "APP_w304"}).json()["hits"]
    assert hits
    assert all(listed[hit["document_id"]] == hit["source"] for hit in hits)
    found = called(running, "search", secret, query=QUESTION)["results"]
    assert {source["id"].partition("#")[0] for source in found} <= set(seen)
    hidden = called(running, "fetch", secret, id="docs/service.md")
    assert ("unknown source" in hidden) is ("docs/service.md" not in seen)
    assert running.client().post("/mcp/", json={}).status_code == 401


CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": QUESTION},
    "fetch": {"id": "docs/service.md"},
    "ask": {"question": QUESTION},
    "list_sources": {},
}


def sent(running: Running, method: str, version: str = NEWEST, **params: Any) -> Any:
    """Status, headers and body of a request as revision 2026-07-28 writes it: all is in it."""
    meta: dict[str, Any] = {f"io.modelcontextprotocol/{name}": value for name, value in (
        ("protocolVersion", version), ("clientCapabilities", {}))}  # fmt: skip
    headers = {**BOTH, "mcp-protocol-version": version, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta, **params}}
    reply = running.http.post("/mcp/", json=body, headers=headers)
    assert "mcp-session-id" not in reply.headers, "no process holds a session"
    return reply.status_code, reply.json()


def test_each_request_of_2026_07_28_stands_alone_and_states_what_it_returns(
    running: Running,
) -> None:
    status, body = sent(running, "server/discover")
    assert status == 200
    assert NEWEST in body["result"]["supportedVersions"]
    assert "tools" in body["result"]["capabilities"]
    listed = sent(running, "tools/list")[1]["result"]
    assert listed["ttlMs"] == 300_000
    schemas = {tool["name"]: tool["outputSchema"] for tool in listed["tools"]}
    assert sorted(schemas) == sorted(CALLS)
    for name, arguments in CALLS.items():
        result = sent(running, "tools/call", name=name, arguments=arguments)[1]["result"]
        assert result["resultType"] == "complete"
        jsonschema.validate(result["structuredContent"], schemas[name])
    status, refused = sent(running, "tools/list", version="2030-01-01")
    assert status == 400
    assert NEWEST in str(refused["error"])
    status, missing = sent(running, "nothing/here")
    assert status == 404
    assert "error" in missing
    for method in ("GET", "DELETE"):
        reply = running.http.request(method, "/mcp/", headers=BOTH)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "started"),
    [(NEWEST, False), ("auto", False), ("legacy", False), (NEWEST, True), ("legacy", True)],
)
def test_the_real_client_speaks_each_revision_over_http_and_to_the_command(
    running: Running, tmp_path: Path, mode: str, started: bool
) -> None:
    async def inside() -> Any:
        async with AsyncExitStack() as stack:
            if started:
                folder = MakeProject(tmp_path)(HANDBOOK)
                (folder / "docs").rename(tmp_path / "docs")
                settings = folder / "ragwright.yaml"
                settings.write_text(settings.read_text("utf-8").replace("docs/", "../docs/"))
                with Workbench.open(folder) as bench:
                    bench.ingest()
                words = ["-m", "ragwright", "mcp", "--project", str(folder)]
                how: Any = StdioServerParameters(
                    command=sys.executable, args=words, env={**os.environ}
                )
            else:
                http = httpx2.AsyncClient(headers=running.http.headers, timeout=20, verify=PLAIN)
                await stack.enter_async_context(http)
                how = streamable_http_client(f"{running.address}/mcp/", http_client=http)
            client = await stack.enter_async_context(Client(how, mode=mode))
            assert (client.protocol_version == NEWEST) is (mode != "legacy")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == ["ask", "fetch", "list_sources", "search"]
            for tool in tools.values():
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint
                assert tool.annotations.open_world_hint is False
            told = "Do not use these tools for general knowledge" in (client.instructions or "")
            assert told is (mode != NEWEST), "told by a handshake"
            return (await client.call_tool("ask", {"question": QUESTION})).structured_content

    answer = asyncio.run(inside())
    assert "every two years" in answer["answer"]
    [cited, *_] = answer["citations"]
    assert "every two years" in cited["quote"]
    place = (tmp_path / "docs/service.md").resolve().as_uri()
    assert (cited["url"] == place) is started
