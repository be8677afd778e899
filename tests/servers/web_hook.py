"""A web hook that keeps what is posted to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from raw_server import QuietHandler, serving


@dataclass
class Hook:
    """What was posted and where, and the status that it answers with."""

    posted: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    status: int = 200
    port: int = 0

    @property
    def address(self) -> str:
        return f"json://127.0.0.1:{self.port}"


@contextmanager
def web_hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            hook.posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            hook.paths.append(self.path)
            self.begin(hook.status, {})

    with serving(Handler) as hook.port:
        yield hook
