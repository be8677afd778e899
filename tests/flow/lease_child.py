"""A process that asks one question: run by test_stores.py, never imported."""

from __future__ import annotations

import sys
from pathlib import Path

from flow_fakes import FakeChat, ask

from ragwright.flow import Chat, ChatReply, OnDelta, Replies, Runner


class Logged(FakeChat):
    """Notes each call in a file before it answers."""

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        with Path(sys.argv[2]).open("a") as log:
            log.write("called\n")
        return await super().send(request, on_delta)


if __name__ == "__main__":
    replies = Replies(Path(sys.argv[1]))
    with Runner({Chat: Logged(latency=float(sys.argv[3]))}, replies=replies) as runner:
        print(runner.run(ask("the same")))
    replies.close()
