"""Model servers that answer as a test says, and what each kind of request to them comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from raw_server import Raw, RawServer, raw_server

from ragwright.core import RagwrightError
from ragwright.flow import (
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Message,
    Rerank,
    RerankReply,
    RetryPolicy,
    Runner,
    send,
)
from ragwright.models import EmbedOptions, Models, ModelSettings, model_handlers
from ragwright.testing import Reply, ScriptedServer

ONCE = RetryPolicy(attempts=1, rate_limited_attempts=1)
KINDS: dict[type, type[Any]] = {
    Chat: ChatReply,
    Complete: CompleteReply,
    Embed: EmbedReply,
    Rerank: RerankReply,
}


def question(text: str = "What is it?", stream: bool = False, **more: Any) -> Chat:
    params = tuple(sorted(more.pop("params", {}).items()))
    turns = (Message("system", "Be brief."), Message("user", text))
    return Chat("", turns, params, stream=stream, **more)


REQUESTS: dict[str, Any] = {
    "chat": question(params={"temperature": 0.5}),
    "stream": question(stream=True),
    "embed": Embed("", ("text number 0", "text number 1"), "passage"),
    "rerank": Rerank("", "whale", ("a bear", "a whale")),
}
"""One request of each kind that a server answers."""


@dataclass
class Desk:
    """Two servers: one speaks the protocol, the other sends bytes as they are given."""

    scripted: ScriptedServer
    raw: RawServer

    def play(self, script: Any) -> str:
        """The address at which a reply, several or a function of the request are played."""
        if isinstance(script, Reply | str | list) or script.__code__.co_argcount == 1:
            self.scripted.play(script)
            self.scripted.requests.clear()
            return self.scripted.url
        self.raw.script = script
        self.raw.bodies.clear()
        return self.raw.url

    def ask(
        self, script: Any, *requests: Any, embed: EmbedOptions | None = None, **settings: Any
    ) -> Any:
        """What a request comes to, its reply or its error; a list for several to one client.

        ``heard`` of the settings gets the pieces of streams.
        """
        heard: Callable[[str], None] = settings.pop("heard", lambda _: None)
        if isinstance(script, Raw):
            script = always(script)
        name = f"{self.play(script)}#m"
        models = Models({name: ModelSettings(**{"timeout": 20.0, **settings})}, embed)
        found = []
        with Runner(model_handlers(models), retry=ONCE) as runner:
            for sample, request in enumerate(requests):
                made = replace(request, model=name)
                if isinstance(made, Chat):
                    made = replace(made, sample=sample)
                try:
                    found.append(runner.run(send(made, KINDS[type(made)]), sink=heard))
                except RagwrightError as error:
                    found.append(error)
        return found if len(requests) > 1 else found[0]


def always(reply: Raw) -> Callable[[str, Any], Raw]:
    return lambda _path, _body: reply


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with ScriptedServer() as scripted, raw_server(Raw()) as raw:
        yield Desk(scripted, raw)
