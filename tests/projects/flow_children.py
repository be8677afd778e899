"""Work that tests of the runner's stores start in processes of their own, and kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flow_fakes import FakeChat, ask, user

from ragwright.flow import (
    Chat,
    ChatReply,
    Flow,
    Job,
    OnDelta,
    Replies,
    Runner,
    RunnerOptions,
    Runs,
    chat,
    run_job,
)
from ragwright.models import Models, model_handlers

ROWS = 150


def ask_once(store: Path, log: Path, latency: float) -> None:
    """Ask one question; the log gets a line for the call, if one is made, and one for the reply."""

    def note(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line}\n")

    class Logged(FakeChat):
        async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
            note("called")
            return await super().send(request, on_delta)

    replies = Replies(store)
    with Runner({Chat: Logged(latency=latency)}, replies=replies) as runner:
        note(runner.run(ask("the same")))
    replies.close()


def row(model: str, number: int) -> Flow[dict[str, object]]:
    """Two calls, the second of them made of the first's reply."""
    first = yield from chat(model, user(f"question {number}"))
    second = yield from chat(model, user(f"judge {number}: {first.text}"))
    return {
        "answer": first.text,
        "verdict": second.text,
        "cached": [first.cached, second.cached],
        "tokens": first.usage.prompt_tokens + second.usage.prompt_tokens,
    }


def run_rows(folder: Path, url: str, concurrency: int, limit: int) -> None:
    """A job of 150 rows over HTTP, ``limit`` open at once; taken up where it was killed."""

    def item(number: int) -> tuple[str, Callable[[], Flow[dict[str, object]]]]:
        return f"{number:04d}", lambda: row(f"{url}#scripted", number)

    replies, runs = Replies(folder / "replies.db"), Runs(folder / "runs.db")
    options = RunnerOptions(concurrency=concurrency)
    with Runner(model_handlers(Models()), options, replies=replies) as runner:
        items = [item(i) for i in range(ROWS)]
        job = Job("eval", {"rows": ROWS}, items, lambda value: value, limit=limit)
        summary = run_job(runner, runs, job)
    assert summary.complete, summary
    runs.close()
    replies.close()
