"""Agents of several revisions of MCP: 2026-07-28 stands alone, earlier ones shake hands."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench

QUESTION = "How often must the brake fluid be changed?"
NEWEST = "2026-07-28"
BOTH = "application/json, text/event-stream"
OWN = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = MakeProject(tmp_path_factory.mktemp("agents"))("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def sent(
    running: Running, method: str, version: str = NEWEST, **params: Any
) -> tuple[httpx2.Response, Any]:
    """A request as revision 2026-07-28 writes it: all that the server needs is in it."""
    headers = {"accept": BOTH, "mcp-protocol-version": version, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    meta = {**OWN, "io.modelcontextprotocol/protocolVersion": version}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta, **params}}
    reply = running.http.post("/mcp/", json=body, headers=headers)
    return reply, reply.json()


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": QUESTION}),
    ("fetch", {"id": "docs/service.md"}),
    ("ask", {"question": QUESTION}),
    ("list_sources", {}),
)


def test_each_request_of_2026_07_28_stands_alone_and_states_what_it_returns(project: Path) -> None:
    with served(project) as running:
        reply, body = sent(running, "server/discover")
        assert reply.status_code == 200
        assert NEWEST in body["result"]["supportedVersions"]
        assert "tools" in body["result"]["capabilities"]
        reply, listed = sent(running, "tools/list")
        assert listed["result"]["ttlMs"] == 300_000
        assert "mcp-session-id" not in reply.headers
        schemas = {tool["name"]: tool["outputSchema"] for tool in listed["result"]["tools"]}
        assert sorted(schemas) == sorted(name for name, _ in CALLS)
        for name, arguments in CALLS:
            reply, called = sent(running, "tools/call", name=name, arguments=arguments)
            result = called["result"]
            assert "mcp-session-id" not in reply.headers
            assert result["resultType"] == "complete"
            jsonschema.validate(result["structuredContent"], schemas[name])
        [cited, *_] = sent(running, "tools/call", name="ask", arguments=CALLS[2][1])[1]["result"][
            "structuredContent"
        ]["citations"]
        assert "every two years" in cited["quote"]


def test_a_revision_that_nobody_knows_is_refused_with_those_that_are_known(project: Path) -> None:
    with served(project) as running:
        reply, refused = sent(running, "tools/list", version="2030-01-01")
        assert reply.status_code == 400
        assert NEWEST in str(refused["error"])
        reply, missing = sent(running, "nothing/here")
        assert reply.status_code == 404
        assert "error" in missing
        for method in ("GET", "DELETE"):
            reply = running.http.request(method, "/mcp/", headers={"accept": BOTH})
            assert reply.status_code == 405
            assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize("mode", [NEWEST, "auto", "legacy"])
def test_the_real_client_speaks_each_revision(project: Path, mode: str) -> None:
    async def inside(address: str) -> None:
        async with httpx2.AsyncClient(timeout=20) as http:
            transport = streamable_http_client(f"{address}/mcp/", http_client=http)
            async with Client(transport, mode=mode) as client:
                assert (client.protocol_version == NEWEST) is (mode != "legacy")
                result = await client.call_tool("ask", {"question": QUESTION})
                assert isinstance(result.structured_content, dict)
                assert "every two years" in result.structured_content["answer"]

    with served(project) as running:
        asyncio.run(inside(running.address))


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_client_of_an_earlier_revision_gets_the_revision_it_asks_for(
    project: Path, version: str
) -> None:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with served(project) as running:
        reply = running.http.post("/mcp/", json=body, headers={"accept": BOTH})
    assert reply.json()["result"]["protocolVersion"] == version
    assert "mcp-session-id" not in reply.headers, "no process holds a session"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [NEWEST, "legacy"])
def test_a_program_that_starts_the_tools_speaks_each_revision(project: Path, mode: str) -> None:
    async def inside() -> None:
        words = ["-m", "ragwright", "mcp", "--project", str(project)]
        server = StdioServerParameters(command=sys.executable, args=words, env={**os.environ})
        async with Client(server, mode=mode) as client:
            assert (client.protocol_version == NEWEST) is (mode == NEWEST)
            result = await client.call_tool("search", {"query": QUESTION})
            assert isinstance(result.structured_content, dict)

    asyncio.run(inside())
