"""Judged measures on a slow model server: wall time relative to the floor, and cost of faults.

    python -m benchmarks.judges [--rows 200] [--rounds 3] [--concurrency 16] [--publish]

Every row is scored by Faithfulness, AnswerRelevance and ContextRelevance. The server waits and
runs in a process of its own. The floor is the calls it saw x latency / concurrency. Beside it, in
turn, a minimal loop over httpx2 sends the same bodies, and neither parses nor stores the
replies. Faults are decided by a hash of the prompt: 5 % of the first replies malformed; the
first attempt at 5 % of the prompts answered 500 or 429; 5 % of the rows refused, whatever is
asked about them. A row takes three calls. A reply that cannot be used takes one more, and a failed
call its own retries: six calls where every reply is malformed. The scores carry no meaning.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.publish import Cell, Section, Table, publish, section_lines
from ragwright.core import Row
from ragwright.flow import Chat, ChatReply, OnDelta, Replies, Runner, RunnerOptions, SendHandler
from ragwright.measure import MeasureSetup, parse_measures, score_row
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer, ServerRequest

MEASURES = parse_measures("Faithfulness, AnswerRelevance, ContextRelevance")
SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "5 % malformed": ("malformed",),
    "5 % failing": ("failing",),
    "5 % refusing": ("refusing",),
    "all three": ("malformed", "failing", "refusing"),
    "every reply malformed": ("always malformed",),
}
SHARE = 0.05
VERDICT = json.dumps({"reasoning": "The passages say so, step by step. " * 8, "score": 4})


@dataclass
class Judge:
    """What the server says: a verdict, or a fault where the prompt's hash falls below a share."""

    faults: tuple[str, ...]
    latency: float
    seen: set[str] = field(default_factory=set)

    def __call__(self, request: ServerRequest) -> Reply:
        """The reply to one request."""
        messages = request.body["messages"]
        prompt = messages[0]["content"] + messages[1]["content"]
        question = messages[1]["content"].partition("row ")[2][:4]
        first = len(messages) == 2
        if "failing" in self.faults and prompt not in self.seen and chance("http", prompt):
            self.seen.add(prompt)
            status = 500 if len(self.seen) % 2 else 429
            return Reply(status=status, delay=self.latency, error="busy")
        if "refusing" in self.faults and chance("refuse", question):
            return Reply("I'm sorry, but I cannot judge this text.", delay=self.latency)
        malformed = "malformed" in self.faults and first and chance("malformed", prompt)
        if malformed or "always malformed" in self.faults:
            return Reply("Overall I would give it a 4/5.", delay=self.latency)
        return Reply(VERDICT, delay=self.latency)


def chance(kind: str, text: str) -> bool:
    """True for a share of all texts, by their hash."""
    return zlib.crc32(f"{kind} {text}".encode()) % 10_000 < SHARE * 10_000


def made_rows(count: int) -> list[Row]:
    """Rows of three passages of about 200 words, all different."""
    draw = random.Random(13)
    words = ["".join(draw.choices("aeioulmnrst", k=draw.randint(2, 9))) for _ in range(4000)]

    def text(length: int) -> str:
        return " ".join(draw.choices(words, k=length)).capitalize() + "."

    return [
        Row(
            f"r{n}",
            f"row {n:04} {text(12)}",
            response=text(40),
            retrieved_contexts=(text(200), text(200), text(200)),
        )
        for n in range(count)
    ]


class Capture(SendHandler[Chat, ChatReply]):
    """Keeps the requests it is sent."""

    def __init__(self) -> None:
        self.requests: list[Chat] = []

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """A verdict, at once."""
        self.requests.append(request)
        return ChatReply(VERDICT)


def bodies(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What a run sends, as a bare client would send it."""
    capture = Capture()
    with Runner({Chat: capture}) as runner:
        for _ in runner.map(score_row(row, MEASURES, MeasureSetup(model="m")) for row in rows):
            pass
    return [
        {
            "model": "scripted",
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            **dict(request.params),
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "judgment", "schema": json.loads(request.schema)},
            },
        }
        for request in capture.requests
    ]


def bare(url: str, sent: Sequence[dict[str, Any]], concurrency: int) -> tuple[float, float]:
    """Wall and CPU seconds of workers over one httpx2 client."""
    import httpx2

    async def work() -> None:
        limits = httpx2.Limits(max_connections=concurrency)
        left = iter(sent)
        async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

            async def worker() -> None:
                for body in left:
                    reply = await client.post(f"{url}/chat/completions", json=body)
                    reply.raise_for_status()
                    reply.json()

            await asyncio.gather(*(worker() for _ in range(concurrency)))

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work())
    return time.perf_counter() - wall, time.process_time() - cpu


@dataclass(frozen=True)
class Measured:
    """One run of ours."""

    wall: float
    cpu: float
    calls: int
    in_flight: int
    retries: int
    states: Counter[str]


def ours(
    rows: Sequence[Row], faults: tuple[str, ...], latency: float, concurrency: int
) -> Measured:
    """Score all rows through a runner that keeps every reply on disk."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedServer.spawn(Judge(faults, latency)) as server,
    ):
        setup = MeasureSetup(model=f"{server.url}#scripted")
        replies = Replies(Path(folder) / "replies.sqlite")
        handlers = model_handlers(Models())
        options = RunnerOptions(concurrency=concurrency)
        wall, cpu = time.perf_counter(), time.process_time()
        with Runner(handlers, options, replies=replies) as runner:
            scored = list(runner.map(score_row(row, MEASURES, setup) for row in rows))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            retries = runner.progress.retries
        replies.close()
        stats = server.stats()
    return Measured(
        wall,
        cpu,
        stats["count"],
        stats["max_in_flight"],
        retries,
        Counter(score.state for scores in scored for score in scores),
    )


def rounds(
    rows: Sequence[Row], count: int, latency: float, concurrency: int
) -> list[dict[str, Cell]]:
    """Bare loop and ours in turn; the last line holds the medians."""
    sent = bodies(rows)
    floor = len(sent) * latency / concurrency
    ours(rows[:8], (), 0.0, concurrency)  # imports are no cost of a call
    lines: list[dict[str, float]] = []
    for _ in range(count):
        with ScriptedServer.spawn(Judge((), latency)) as server:
            wall, cpu = bare(server.url, sent, concurrency)
        mine = ours(rows, (), latency, concurrency)
        lines.append(
            {
                "floor s": floor,
                "bare httpx2 s": wall,
                "x floor": wall / floor,
                "CPU ms a call": 1000 * cpu / len(sent),
                "ragwright s": mine.wall,
                "x floor ": mine.wall / floor,
                "CPU ms a call ": 1000 * mine.cpu / mine.calls,
                "ragwright / bare": mine.wall / wall,
            }
        )
    middle = {name: statistics.median(line[name] for line in lines) for name in lines[0]}
    numbered = [(str(number), line) for number, line in enumerate(lines, 1)]
    return [{"round": name, **line} for name, line in [*numbered, ("median", middle)]]


def faulty(rows: Sequence[Row], latency: float, concurrency: int) -> list[dict[str, Cell]]:
    """One line a scenario: what its faults cost, and the state of every score."""
    lines: list[dict[str, Cell]] = []
    for name, faults in SCENARIOS.items():
        result = ours(rows, faults, latency, concurrency)
        assert sum(result.states.values()) == len(rows) * len(MEASURES)
        lines.append(
            {
                "faults": name,
                "wall s": result.wall,
                "x floor": result.wall / (result.calls * latency / concurrency),
                "calls a row": result.calls / len(rows),
                "HTTP retries": result.retries,
                "in flight, most": result.in_flight,
                "CPU ms a call": 1000 * result.cpu / result.calls,
                "states": ", ".join(f"{state} {n}" for state, n in sorted(result.states.items())),
            }
        )
    return lines


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--publish", action="store_true", help="store the figures and the page")
    given = parser.parse_args()
    rows = made_rows(given.rows)
    before = os.getloadavg()[0]
    section = Section(
        "Judged measures against a slow server",
        (
            Table(rounds(rows, given.rounds, given.latency, given.concurrency), "Without faults"),
            Table(faulty(rows, given.latency, given.concurrency), "With faults, ragwright alone"),
        ),
        notes=(
            f"{given.rows} rows x {', '.join(map(str, MEASURES))}; the server waits "
            f"{1000 * given.latency:g} ms, in a process of its own; {given.concurrency} requests "
            "in flight at most. The floor is calls x latency / concurrency.",
            "A row takes three calls. A reply that cannot be used takes one more (six calls where "
            "every reply is malformed), a failed call its own retries; no fault costs another row "
            "a call.",
            f"Load average before and after: {before:.1f}, {os.getloadavg()[0]:.1f}. With other "
            "work on the machine both sides are further from the floor: compare the two.",
        ),
        command="python -m benchmarks.judges --publish",
        page="judging",
        order=10,
    )
    print("\n".join(section_lines(section)))
    if given.publish:
        print(publish("judges", section))


if __name__ == "__main__":
    main()
