"""A job of many calls over HTTP: test_kill.py runs it in a process of its own, and kills it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragwright.flow import Flow, Job, Message, Replies, Runner, RunnerOptions, Runs, chat, run_job
from ragwright.models import Models, model_handlers

ROWS = 250


def row(model: str, number: int) -> Flow[dict[str, object]]:
    """Two calls, the second of them made of the first's reply."""
    first = yield from chat(model, [Message("user", f"question {number}")])
    second = yield from chat(model, [Message("user", f"judge {number}: {first.text}")])
    return {
        "answer": first.text,
        "verdict": second.text,
        "cached": [first.cached, second.cached],
        "tokens": first.usage.prompt_tokens + second.usage.prompt_tokens,
    }


def main(folder: Path, url: str, concurrency: int, rows: int) -> None:
    """Run the job, ``rows`` open at once, or take it up where it was killed."""
    model = f"{url}#scripted"

    def item(number: int) -> tuple[str, Callable[[], Flow[dict[str, object]]]]:
        return f"{number:04d}", lambda: row(model, number)

    replies, runs = Replies(folder / "replies.db"), Runs(folder / "runs.db")
    options = RunnerOptions(concurrency=concurrency)
    with Runner(model_handlers(Models()), options, replies=replies) as runner:
        items = [item(i) for i in range(ROWS)]
        job = Job("eval", {"rows": ROWS}, items, lambda value: value, limit=rows)
        summary = run_job(runner, runs, job)
    assert summary.complete, summary
    runs.close()
    replies.close()
