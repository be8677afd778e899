"""A sweep beside a hand-written loop: calls, embedded texts, and wall time.

    python -m benchmarks.sweep [--questions 50] [--latency 0.1] [--concurrency 16] [--publish]

4 chunk sizes x 3 top_k x 3 prompts x 2 generators over 50 questions about our own guide, and the
project as it stands. Two generators and an embedding model are scripted servers that wait; the
generators run in a process of their own and draw what they answer from the hash of the request, so
that equal answers save no calls. The loop cuts and embeds the corpus and the questions for every
trial, searches by cosine, and asks with as many calls in flight as the sweep; it stores and scores
nothing, and shares nothing between trials. The floor is the distinct chat calls x latency /
concurrency. The scores carry no meaning.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines
from ragwright import Workbench
from ragwright.experiment import read_study
from ragwright.testing import Reply, ScriptedServer, ServerRequest

SIZES = (100, 200, 400, 800)
TOP_K = (2, 4, 8)
PROMPTS = ("complete", "without_only_context", "without_no_extraneous")
GENERATORS = ("first", "second")


@dataclass
class Writing:
    """A generator: a sentence drawn from the hash of the request."""

    latency: float

    def __call__(self, request: ServerRequest) -> Reply:
        """The sentence, after the latency."""
        mark = zlib.crc32(json.dumps(request.body, sort_keys=True).encode())
        return Reply(f"It is so, by the sign {mark} [1].", delay=self.latency)


@dataclass
class Embedding:
    """An embedding model that counts texts; vectors are made of their words."""

    latency: float
    texts: int = 0

    def __call__(self, request: ServerRequest) -> Reply:
        """Vectors, after the latency."""
        self.texts += len(request.body["input"])
        return Reply(delay=self.latency)


@dataclass(frozen=True)
class Taken:
    """What one way of sweeping took."""

    chats: int
    texts: int
    seconds: float


def made_project(folder: Path, chat: str, embed: str, questions: int, concurrency: int) -> Path:
    """A project over our guide, with a testset and a study."""
    models = "".join(f"  '{chat}#{name}': {{concurrency: {concurrency}}}\n" for name in GENERATORS)
    (folder / "ragwright.yaml").write_text(
        f"sources: ['{ROOT / 'docs' / 'guide'}']\n"
        f"embed: {{model: '{embed}#e'}}\nanswer: {{model: '{chat}#first'}}\nmodels:\n{models}"
    )
    asked = [
        {
            "id": f"q{n}",
            "user_input": f"What is said of {word}, {n}?",
            "reference": word,
            "split": "tune",
        }
        for n, word in zip(range(questions), itertools.cycle(WORDS), strict=False)
    ]
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, asked)))
    generators = [f"{chat}#{name}" for name in GENERATORS]
    (folder / "study.yaml").write_text(
        f"study: {{testset: '{folder / 'set.jsonl'}', measures: KPrecision}}\n"
        f"chunk: {{size: {list(SIZES)}, overlap: 0}}\nretrieve: {{top_k: {list(TOP_K)}}}\n"
        f"prompt: {{preset: {list(PROMPTS)}}}\nanswer: {{model: {json.dumps(generators)}}}\n"
    )
    return folder


WORDS = ("chunk overlap", "fusion", "kappa", "a soft filter", "coverage", "the budget", "spans")


def swept(folder: Path) -> tuple[Any, float, float, tuple[float, float]]:
    """Forecast and run: forecast, seconds of forecast and sweep, their processor seconds."""
    with Workbench.open(folder) as bench:
        bench.ingest()
        study = read_study(bench.project, folder / "study.yaml")
        begun, worked = time.perf_counter(), time.process_time()
        forecast = bench.forecast_sweep(study)
        forecasting, thought = time.perf_counter() - begun, time.process_time() - worked
        begun, worked = time.perf_counter(), time.process_time()
        result = bench.sweep(study)
        seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    assert all(trial.state == "done" for trial in result.trials), result.trials
    return forecast, forecasting, seconds, (thought, worked)


async def by_hand(chat: str, embed: str, questions: Sequence[str], concurrency: int) -> None:
    """The loop: every trial cuts, embeds, searches and asks by itself."""
    import httpx2

    texts = [path.read_text("utf-8") for path in sorted((ROOT / "docs" / "guide").glob("*.md"))]
    limits = httpx2.Limits(max_connections=concurrency)
    places = asyncio.Semaphore(concurrency)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def post(address: str, body: dict[str, Any]) -> Any:
            async with places:
                return (await client.post(address, json=body)).json()

        async def vectors(inputs: Sequence[str]) -> Any:
            groups = [inputs[at : at + 64] for at in range(0, len(inputs), 64)]
            replies = await asyncio.gather(
                *(post(f"{embed}/embeddings", {"model": "e", "input": list(g)}) for g in groups)
            )
            return np.array([entry["embedding"] for r in replies for entry in r["data"]])

        for size, k, prompt, model in itertools.product(SIZES, TOP_K, PROMPTS, GENERATORS):
            chunks = [
                " ".join(words[at : at + size])
                for words in (text.split() for text in texts)
                for at in range(0, len(words), size)
            ]
            corpus, asked = await vectors(chunks), await vectors(questions)
            order = np.argsort(-(asked @ corpus.T), axis=1)[:, :k]
            await asyncio.gather(
                *(
                    post(
                        f"{chat}/chat/completions",
                        {
                            "model": model,
                            "messages": [
                                {"role": "system", "content": f"Answer. {prompt}"},
                                {
                                    "role": "user",
                                    "content": "\n\n".join(chunks[at] for at in order[n])
                                    + f"\n\n{question}",
                                },
                            ],
                        },
                    )
                    for n, question in enumerate(questions)
                )
            )


def measured(
    questions: int, latency: float, concurrency: int
) -> tuple[Any, Taken, Taken, float, tuple[float, float]]:
    """Forecast, sweep, loop, seconds of the forecast, processor seconds of it and the sweep."""
    embedding = Embedding(latency)
    with (
        ScriptedServer.spawn(Writing(latency)) as chat,
        ScriptedServer(embedding, record=False) as embed,
        tempfile.TemporaryDirectory() as temporary,
    ):
        folder = made_project(Path(temporary), chat.url, embed.url, questions, concurrency)
        before = chat.stats()["count"]
        forecast, forecasting, seconds, worked = swept(folder)
        ours = Taken(chat.stats()["count"] - before, embedding.texts, seconds)
        embedding.texts = 0
        asked = [json.loads(line)["user_input"] for line in (folder / "set.jsonl").open()]
        before = chat.stats()["count"]
        begun = time.perf_counter()
        asyncio.run(by_hand(chat.url, embed.url, asked, concurrency))
        seconds = time.perf_counter() - begun
        loop = Taken(chat.stats()["count"] - before, embedding.texts, seconds)
    return forecast, ours, loop, forecasting, worked


def section(arguments: argparse.Namespace) -> Section:
    """Measure, and put the figures into a table."""
    forecast, ours, loop, forecasting, worked = measured(
        arguments.questions, arguments.latency, arguments.concurrency
    )
    floor = ours.chats * arguments.latency / arguments.concurrency
    calls = forecast.forecast.calls
    rows: list[Mapping[str, Cell]] = [
        {
            "": name,
            "chat calls": taken.chats,
            "texts embedded": taken.texts,
            "seconds": f"{taken.seconds:.1f}",
            "x floor of the distinct calls": f"{taken.seconds / floor:.2f}",
        }
        for name, taken in (("ragwright sweep", ours), ("loop by hand", loop))
    ]
    trials = len(SIZES) * len(TOP_K) * len(PROMPTS) * len(GENERATORS)
    return Section(
        title=f"A sweep of {trials} trials over {arguments.questions} questions",
        tables=[Table(rows)],
        notes=[
            f"Floor: {ours.chats} distinct calls x {arguments.latency:g} s / "
            f"{arguments.concurrency} in flight = {floor:.1f} s.",
            f"The sweep's calls hold {arguments.questions} of the project as it stands; texts "
            f"embedded hold the questions: the loop embeds {loop.texts / ours.texts:.1f} times as "
            "many.",
            f"The dry run told {calls.expected:.0f} calls ({calls.low:.0f} to {calls.high:.0f}), "
            f"embedding included, in {forecasting:.1f} s and {worked[0]:.1f} s of processor time, "
            f"{worked[0] / worked[1]:.1%} of the sweep's {worked[1]:.1f} s.",
            "Ingesting the project as it stands is not in the seconds; building the four other "
            "indexes is.",
        ],
        command="python -m benchmarks.sweep",
        page="tuning",
        order=10,
        data={"ours": vars_of(ours), "loop": vars_of(loop), "floor": floor, "told": forecasting},
    )


def vars_of(taken: Taken) -> dict[str, float]:
    """A record as plain numbers."""
    return {"chats": taken.chats, "texts": taken.texts, "seconds": round(taken.seconds, 2)}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    report = section(arguments)
    print("\n".join(section_lines(report)))
    if arguments.publish:
        print(publish("sweep", report))


if __name__ == "__main__":
    main()
