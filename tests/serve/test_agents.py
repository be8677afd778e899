from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from agent import with_tools
from mcp import Client, StdioServerParameters
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer, marketing]}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.mark.slow
def test_tools_are_read_only_and_say_when_to_use_them(project: Path) -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["ask", "fetch", "list_sources", "search"]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert tool.annotations.open_world_hint is False
        assert "Do not use these tools for general knowledge" in (client.instructions or "")

    with served(project) as running:
        with_tools(running, work)


@pytest.mark.slow
def test_search_and_fetch_have_the_shapes_that_chat_programs_expect(project: Path) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool("search", {"query": QUESTION})
        body = result.structured_content
        assert isinstance(body, dict)
        assert sorted(body["results"][0]) == ["id", "snippet", "title", "url"]
        assert "every two years" in body["results"][0]["snippet"]
        assert body == json_of(result), "both channels carry the same"
        read = await client.call_tool("fetch", {"id": body["results"][0]["id"]})
        passage = read.structured_content
        assert isinstance(passage, dict)
        assert sorted(passage) == ["id", "metadata", "text", "title", "url"]
        assert "every two years" in passage["text"]
        assert "every two years" in passage["metadata"]["passage"]
        page = running.http.get(passage["url"])
        assert '<mark id="passage">' in page.text

    with served(project) as running:
        with_tools(running, work)


def json_of(result: Any) -> Any:
    import json

    [block] = result.content
    return json.loads(block.text)


def test_a_search_takes_its_length_and_filters(project: Path) -> None:
    text = "# Tyres\n\nTyres last four years. " + "They are round. " * 80
    (project / "docs/tyres.md").write_text(text, "utf-8")
    with Workbench.open(project) as bench:
        bench.ingest()

    async def work(client: Client) -> None:
        async def search(**more: Any) -> list[dict[str, str]]:
            result = await client.call_tool("search", {"query": "tyres APP_w304", **more})
            assert isinstance(result.structured_content, dict), result.content
            results: list[dict[str, str]] = result.structured_content["results"]
            return results

        [_] = await search(top_k=1)
        [tyres] = await search(filters=["source=docs/tyres.md"], top_k=1)
        assert "Tyres last four years." in tyres["snippet"]
        assert len(tyres["snippet"]) <= 400
        narrowed = await search(filters=["source=docs/codes.md"])
        assert narrowed
        assert all(source["id"].startswith("docs/codes.md#") for source in narrowed)

    with served(project) as running:
        with_tools(running, work)


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("search", {"query": "fluid", "top_n": 3}, "search has no parameter 'top_n'"),
        ("search", {"question": "fluid"}, "did you mean 'query'?|known: "),
        ("search", {}, "^search needs the parameter 'query'$"),
        ("search", {"query": "fluid", "top_k": 0}, "^top_k: input should be greater than or equal"),
        ("search", {"query": "fluid", "filters": ["nonsense"]}, "nonsense"),
        ("find", {"query": "fluid"}, "^no tool 'find'; known: ask, fetch"),
        ("fetch", {"id": "docs/nothing.md"}, "^unknown source"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(
    project: Path, tool: str, arguments: dict[str, Any], fault: str
) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        text = result.content[0].text  # type: ignore[union-attr]
        assert result.is_error
        assert re.search(fault, text), text
        for raw in ("pydantic", "Error executing", "type=", "input_value"):
            assert raw not in text

    with served(project) as running:
        with_tools(running, work)


@pytest.mark.slow
def test_ask_carries_url_and_quote_in_both_channels(project: Path) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool("ask", {"question": QUESTION, "persona": "engineer"})
        body = result.structured_content
        assert isinstance(body, dict)
        [block] = result.content
        [cited, *_] = body["citations"]
        assert body["answer"] in block.text  # type: ignore[union-attr]
        for value in (cited["url"], cited["quote"]):
            assert value in block.text  # type: ignore[union-attr]
        unknown = await client.call_tool("ask", {"question": "a", "persona": "pirate"})
        assert unknown.is_error
        assert "known: engineer, marketing" in unknown.content[0].text  # type: ignore[union-attr]

    with served(project) as running:
        with_tools(running, work)


def test_lists_are_short_and_go_on(project: Path) -> None:
    async def work(client: Client) -> None:
        first = (await client.call_tool("list_sources", {"limit": 1})).structured_content
        assert isinstance(first, dict)
        assert first["total"] == 2
        rest = (
            await client.call_tool("list_sources", {"limit": 5, "after": first["next"]})
        ).structured_content
        assert isinstance(rest, dict)
        ids = [source["id"] for source in (*first["sources"], *rest["sources"])]
        assert ids == ["docs/codes.md", "docs/service.md"]
        assert rest["next"] is None
        whole = (await client.call_tool("fetch", {"id": ids[1]})).structured_content
        assert isinstance(whole, dict)
        assert whole["text"].startswith("# Service plan")

    with served(project) as running:
        with_tools(running, work)


@pytest.mark.slow
@pytest.mark.parametrize("filters", [(), ("language!=xx",), ("source=docs/codes.md",)])
def test_lists_name_sources_as_citations_do_and_pages_hold_each_once(
    project: Path, filters: tuple[str, ...]
) -> None:
    for number in range(7):
        text = f"# Tyres {number}\n\n" + "Tyres last four years.\n\n" * 200
        (project / f"docs/tyres{number}.md").write_text(text, "utf-8")
    with Workbench.open(project) as bench:
        bench.ingest()
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("app", filters=filters))

    async def work(client: Client) -> list[tuple[str, str]]:
        seen_names: list[tuple[str, str]] = []
        after: str | None = ""
        while after is not None:
            arguments = {"limit": 2, "after": after}
            page = (await client.call_tool("list_sources", arguments)).structured_content
            assert isinstance(page, dict)
            seen_names += [(source["id"], source["source"]) for source in page["sources"]]
            after = page["next"]
        return seen_names

    with served(project) as running:
        listed = with_tools(running, work, secret)
        hits = running.client(secret).post("/v1/retrieve", json={"query": "APP_w304"}).json()
    names = [f"docs/tyres{number}.md" for number in range(7)]
    every = sorted(["docs/codes.md", "docs/service.md", *names])
    assert [name for name, _ in listed] == (["docs/codes.md"] if "=docs" in str(filters) else every)
    sources = dict(listed)
    for hit in hits["hits"]:
        assert sources[hit["document_id"]] == hit["source"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["docs/nothing.md", "../../etc/passwd", "docs/codes.md#0-9#1-2"])
def test_what_is_not_in_the_index_cannot_be_fetched(project: Path, name: str) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool("fetch", {"id": name})
        assert result.is_error
        assert "unknown source" in result.content[0].text  # type: ignore[union-attr]

    with served(project) as running:
        with_tools(running, work)


@pytest.mark.slow
def test_a_span_behind_the_end_is_refused_without_a_traceback(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(client: Client) -> list[str]:
        texts = []
        for span in ("999999999999-0", "9-3", "5-5", "999999-1000000"):
            result = await client.call_tool("fetch", {"id": f"docs/codes.md#{span}"})
            assert result.is_error
            texts.append(result.content[0].text)  # type: ignore[union-attr]
        over = await client.call_tool("fetch", {"id": "docs/codes.md#2-99999999"})
        assert not over.is_error, "an end behind the end is the end"
        return texts

    async def filtered(client: Client) -> str:
        made = await client.call_tool("search", {"query": "a", "filters": ["a=b"] * 33})
        assert made.is_error
        return str(made.content[0].text)  # type: ignore[union-attr]

    handlers = list(logging.getLogger().handlers)
    with served(project) as running:
        assert "at most 32 items" in with_tools(running, filtered)
        for message in with_tools(running, work):
            assert "names no passage: the document has" in message
            assert "use an id from a result of `search`" in message
        assert logging.getLogger().handlers == handlers, "nobody else draws what is logged"
    assert "Traceback" not in caplog.text


def test_a_key_narrows_the_tools_too(project: Path) -> None:
    filters = ("source=docs/codes.md",)
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("codes", filters=filters))

    async def work(client: Client) -> None:
        listed = (await client.call_tool("list_sources", {})).structured_content
        assert isinstance(listed, dict)
        assert [source["id"] for source in listed["sources"]] == ["docs/codes.md"]
        result = (await client.call_tool("search", {"query": QUESTION})).structured_content
        assert isinstance(result, dict)
        assert all(source["id"].startswith("docs/codes.md#") for source in result["results"])
        hidden = await client.call_tool("fetch", {"id": "docs/service.md"})
        assert hidden.is_error

    with served(project) as running:
        assert running.http.post("/mcp/", json={}).status_code == 401
        with_tools(running, work, secret)


@pytest.mark.slow
def test_an_agent_starts_the_command_and_talks_to_it(project: Path, tmp_path: Path) -> None:
    (project / "docs").rename(tmp_path / "docs")
    settings = project / "ragwright.yaml"
    settings.write_text(settings.read_text("utf-8").replace("docs/", "../docs/"), "utf-8")
    with Workbench.open(project) as bench:
        bench.ingest()

    async def inside() -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "ragwright", "mcp", "--project", str(project)],
            env={**os.environ},
        )
        async with Client(server) as client:
            result = await client.call_tool("ask", {"question": QUESTION})
            assert isinstance(result.structured_content, dict)
            [cited, *_] = result.structured_content["citations"]
            assert cited["url"] == (tmp_path / "docs/service.md").resolve().as_uri()
            assert cited["quote"] in result.content[0].text  # type: ignore[union-attr]

    asyncio.run(inside())
