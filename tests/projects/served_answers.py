"""A project with answers that were served on days of the past, and scored on those days."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ragwright import Workbench
from ragwright.core import Hit
from ragwright.drafting import NewBatch, Origin, Output, Outputs
from ragwright.jobs import DriftReport

PASSAGE = "The brake fluid must be changed every two years."
PER_DAY = 12
GOOD = "The brake fluid must be changed every two years. [1]"
BAD = "Ask someone who knows cars well, perhaps tomorrow. [1]"


class Days:
    def __init__(self, ago: int) -> None:
        self.now = datetime.now(UTC).replace(hour=1, minute=0) - timedelta(days=ago)

    def __call__(self) -> datetime:
        return self.now

    def next(self, days: float = 1) -> str:
        self.now += timedelta(days=days)
        return self.now.date().isoformat()


def outputs_at(bench: Workbench, clock: Days) -> Outputs:
    """The outputs of a project under another clock; before anything else uses them."""
    path = bench.project.folder.data / "ledger.sqlite"
    return bench.project.resource(Outputs, lambda: Outputs(path, clock=clock))


def serve_answers(outputs: Outputs, texts: Sequence[str], **origin: object) -> list[str]:
    """Store answers as the server does; returns their ids."""
    values = {"model": "http://h/v1#small", "persona": "", "name": "main", "scope": "", "tag": ""}
    values |= {key: str(value) for key, value in origin.items() if key in values}
    rest = {key: value for key, value in origin.items() if key not in values}
    ids = []
    for number, text in enumerate(texts):
        name = "docs/service.md"
        hit = Hit(1, 1.0, name, f"{name}:0", name, "Service", None, 0, 48, PASSAGE)
        output = Output(
            "text",
            text,
            values["model"],
            uses=(hit.chunk_id,),
            details={"abstained": False, "name": values["name"]},
        )
        request = {"question": f"How often? {number}", "persona": values["persona"]}
        answer = f"{values['tag']}{outputs.now()}-{number}-{values['scope']}"
        batch = NewBatch("answer", request, (output,), (hit,), details={"id": answer})
        served = Origin(scope=values["scope"], **{"snapshot": "s1", "configuration": "c1", **rest})  # type: ignore[arg-type]
        ids.append(f"{outputs.add(batch, served)}.1")
    return ids


def live(
    bench: Workbench, clock: Days, days: int, bad: float, rng: random.Random, **origin: object
) -> DriftReport:
    """Serve and measure for some days, of which this share of the answers is bad."""
    outputs = outputs_at(bench, clock)
    for _ in range(days):
        texts = [BAD if rng.random() < bad else GOOD for _ in range(PER_DAY)]
        serve_answers(outputs, texts, **origin)
        bench.measure_served()
        clock.next()
    clock.next(-1)
    report = bench.drift()
    clock.next()
    return report
