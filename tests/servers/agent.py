"""An agent that calls our tools by the real client of MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from served import PLAIN, Running

if TYPE_CHECKING:
    from mcp import Client


def with_tools(running: Running, work: Callable[[Client], Awaitable[Any]], key: str = "") -> Any:
    """The result of work with a client that sends this key."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def inside() -> Any:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(headers=headers, timeout=20, verify=PLAIN) as http:
            transport = streamable_http_client(f"{running.address}/mcp/", http_client=http)
            async with Client(transport) as client:
                return await work(client)

    return asyncio.run(inside())
