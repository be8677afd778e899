"""The server under sixty-four clients for ten minutes, with rights, and with faults in the middle.

    OMP_NUM_THREADS=1 python -m benchmarks.load [--seconds 600] [--clients 64] [--documents 2000]
        [--rights filters|groups] [--workers 2] [--publish]

First two keys are compared in turn: one that sees every document because nothing narrows it, and
one that sees every document through its rights (a hard filter, or groups of readers). Then the
clients go on with rights while the documents are indexed again, a configuration is promoted, a
worker is killed (-9) and PostgreSQL is stopped and started. A client repeats what fails with a lost
connection or with status 502, 503 or 504, as Retry-After asks; every other error counts as a
failure.
One request in eight is a chat, whose answer is stored in PostgreSQL; the others are searches.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.local_postgres import local_postgres
from benchmarks.publish import Section, Table, publish, section_lines
from benchmarks.serving import Row, percentile, row, served
from ragwright import Workbench
from ragwright.jobs import PromotionGate, PromotionOptions
from ragwright.measure import GateOptions
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

TEAMS = tuple(f"team{n}" for n in range(8))
CURED = frozenset({502, 503, 504})
"""States that a client repeats."""

PATIENCE = 60.0
"""Seconds for which a client repeats a request."""

_FACT = "---\nteam: team0\n---\nThe brake fluid must be changed every two years.\n"
_ROW = (
    '{"user_input": "How often must the brake fluid be changed?", "reference": "every two years"}\n'
)

ROUNDS = 6
"""Rounds of the comparison: each way three times, in turn."""


def text_of(number: int, edition: int) -> str:
    """A document of eight paragraphs; another edition has other words."""
    rng = np.random.default_rng(number * 1000 + edition)
    parts = []
    for part in range(8):
        words = " ".join(f"w{n:05d}"[::-1] for n in rng.integers(20, 3000, 80))
        parts.append(f"## Part {part}\n\nDocument d{number:07d}. {words}.")
    team = TEAMS[number % len(TEAMS)]
    return f"---\nteam: {team}\ngroups: [{team}]\n---\n# d{number:07d}\n\n" + "\n\n".join(parts)


def question(number: int) -> str:
    """Three words of the vocabulary and the name of a document."""
    rng = np.random.default_rng(number)
    words = [f"w{n:05d}"[::-1] for n in rng.integers(20, 3000, 3)]
    return f"{' '.join(words)} d{number % 1000:07d}"


def write_documents(folder: Path, numbers: Sequence[int], edition: int) -> None:
    """Write documents, or another edition of them."""
    for number in numbers:
        (folder / f"docs/d{number:07d}.md").write_text(text_of(number, edition), "utf-8")


def make_project(folder: Path, documents: int, database: str, rights: str) -> dict[str, str]:
    """A project with its index and its promoted configuration; returns the two keys."""
    (folder / "docs").mkdir(parents=True)
    (folder / "testsets").mkdir()
    write_documents(folder, range(documents), 0)
    (folder / "docs/fact.md").write_text(_FACT, "utf-8")
    (folder / "testsets/main.jsonl").write_text(_ROW, "utf-8")
    write_settings(folder, database, 10)
    with Workbench.open(folder) as bench:
        bench.ingest()
    promote(folder)
    keys = ServeKeys(ProjectFolder(folder))
    narrowed = (
        ServeKey("narrowed", groups=TEAMS)
        if rights == "groups"
        else ServeKey("narrowed", filters=(f"team={'|'.join(TEAMS)}",))
    )
    # With groups a key without any sees only what is open to everyone: an owner sees the rest.
    free = ServeKey("free", role="owner" if rights == "groups" else "reader")
    secrets = {"free": keys.add(free), "narrowed": keys.add(narrowed)}
    keys.close()
    return secrets


def write_settings(folder: Path, database: str, top_k: int) -> None:
    """Write the project file."""
    shared = f"shared: {{address: '{database}'}}\n" if database else ""
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs/]\nserve: {{name: bench}}\nretrieve: {{top_k: {top_k}}}\n{shared}", "utf-8"
    )


def promote(folder: Path) -> None:
    """Promote the settings of the project file."""
    with Workbench.open(folder) as bench:
        testset = str(folder / "testsets/main.jsonl")
        _, run = bench.evaluate(testset, "TokenF1")
        promoting = PromotionOptions(PromotionGate(GateOptions(least=1)), rules_alone=True)
        bench.promote(run.run, ["TokenF1>=0.001"], promoting)


@dataclass
class Counted:
    """What the clients of a run saw.

    Attributes:
        times: Seconds of each answered request, its repetitions included.
        repeated: Requests that were answered after they were repeated, by what failed first.
        failed: Requests that were not answered, by what failed last.
    """

    times: list[float] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


class Client:
    """A client of HTTP/1.1 that connects again and repeats what a moment cures."""

    def __init__(self, address: str, key: str, counted: Counted) -> None:
        self._host, self._key, self._counted = address.removeprefix("http://"), key, counted
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, number: int) -> None:
        """Send one request until it is answered, for a minute at most."""
        start, first, last = time.perf_counter(), "", ""
        path, body = "/v1/retrieve", f'{{"query": "{question(number)}"}}'
        if number % 8 == 0:
            path = "/v1/chat/completions"
            body = f'{{"messages": [{{"role": "user", "content": "{question(number)}"}}]}}'
        while time.perf_counter() - start < PATIENCE:
            pause = 0.05
            try:
                status, pause = await asyncio.wait_for(self._post(path, body), 30)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.close()
                last = type(error).__name__
            else:
                if status == 200:
                    self._counted.times.append(time.perf_counter() - start)
                    if first:
                        self._counted.repeated[first] += 1
                    return
                last = f"status {status}"
                if status not in CURED:
                    break
            first = first or last
            await asyncio.sleep(pause)
        self._counted.failed[last] += 1

    async def _post(self, path: str, body: str) -> tuple[int, float]:
        """The status of a reply, and the pause that it asks for."""
        if self._streams is None:
            host, _, port = self._host.partition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        reader, writer = self._streams
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\nauthorization: Bearer {self._key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write((head + body).encode())
        header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", header)
        await reader.readexactly(int(length[1]) if length else 0)
        if "connection: close" in header:
            self.close()
        after = re.search(r"retry-after: (\d+)", header)
        return int(header.split(" ", 2)[1]), float(after[1]) if after else 0.05

    def close(self) -> None:
        """Disconnect."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def crowd(address: str, key: str, seconds: float, clients: int, first: int) -> Counted:
    """So many clients that each wait for their reply before they ask again."""
    counted = Counted()
    end = time.perf_counter() + seconds

    async def keep_asking(client: int) -> None:
        asking = Client(address, key, counted)
        number = first + client * 100_000
        while time.perf_counter() < end:
            await asking.ask(number)
            number += 1
        asking.close()

    await asyncio.gather(*(keep_asking(client) for client in range(clients)))
    return counted


def workers_of(process: int) -> list[int]:
    """Worker processes of a server."""
    workers = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                workers.append(child)
    return workers


def memory_of(process: int) -> float:
    """Megabytes that the server and its workers hold by themselves (PSS, so shared pages once)."""
    total = 0
    for pid in (process, *workers_of(process)):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        match = re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)
        total += int(match[1]) if match else 0
    return total / 1024


class Watched:
    """Memory of a server over time, and the faults that are made at their times.

    Args:
        process: The server.
        seconds: Length of the run.
        faults: What happens at which share of it.
    """

    def __init__(
        self, process: int, seconds: float, faults: Sequence[tuple[float, str, Callable[[], None]]]
    ) -> None:
        self.memory: list[tuple[float, float]] = []
        self.events: list[str] = []
        self._process, self._seconds, self._faults = process, seconds, list(faults)
        self._end = threading.Event()
        self._threads = [threading.Thread(target=w) for w in (self._sample, self._disturb)]
        self._start = time.perf_counter()

    def __enter__(self) -> Watched:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _sample(self) -> None:
        while not self._end.wait(min(2.0, self._seconds / 60)):
            try:
                held = memory_of(self._process)
            except OSError:  # a worker has just ended
                continue
            self.memory.append((time.perf_counter() - self._start, held))

    def _disturb(self) -> None:
        for share, name, fault in self._faults:
            if self._end.wait(max(0.0, self._start + share * self._seconds - time.perf_counter())):
                return
            begin = time.perf_counter()
            fault()
            at, took = begin - self._start, time.perf_counter() - begin
            self.events.append(f"{name} after {at:.0f} s, which took {took:.1f} s")

    def between(self, low: float, high: float) -> float:
        """Median of the memory between two shares of the run."""
        held = [m for at, m in self.memory if low <= at / self._seconds < high]
        return statistics.median(held) if held else 0.0


@dataclass(frozen=True)
class Setup:
    """What is measured."""

    seconds: float
    clients: int
    documents: int
    rights: str
    workers: int


def compared(address: str, keys: dict[str, str], setup: Setup) -> tuple[dict[str, float], int]:
    """Requests a second of each key, as the median of rounds in turn; and failures."""
    length = min(20.0, max(2.0, setup.seconds / 20))
    asyncio.run(crowd(address, keys["free"], length / 2, setup.clients, 0))  # warm
    rates: dict[str, list[float]] = {"free": [], "narrowed": []}
    failed = 0
    for number in range(ROUNDS):
        name = ("free", "narrowed")[number % 2]
        first = 10_000_000 + number // 2 * 50_000
        counted = asyncio.run(crowd(address, keys[name], length, setup.clients, first))
        rates[name].append(len(counted.times) / length)
        failed += counted.failed.total()
    return {name: statistics.median(samples) for name, samples in rates.items()}, failed


def measured(setup: Setup) -> tuple[list[Row], dict[str, float], list[str]]:
    """The comparison, then the long run with its faults."""
    with ExitStack() as stack:
        database = stack.enter_context(local_postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "project"
        keys = make_project(folder, setup.documents, database.address, setup.rights)
        address, process = stack.enter_context(served(folder, "--workers", str(setup.workers)))
        rates, lost = compared(address, keys, setup)

        def index_again() -> None:
            write_documents(folder, range(0, setup.documents, 10), 1)
            with Workbench.open(folder) as bench:
                bench.ingest()

        def promote_other() -> None:
            write_settings(folder, database.address, 8)
            promote(folder)

        def kill_worker() -> None:
            os.kill(workers_of(process)[0], signal.SIGKILL)

        def restart_database() -> None:
            database.stop()
            time.sleep(2.0)
            database.start()

        faults = (
            (0.2, "documents indexed again", index_again),
            (0.4, "another configuration promoted", promote_other),
            (0.6, "a worker killed (-9)", kill_worker),
            (0.75, "PostgreSQL stopped at once and started again", restart_database),
        )
        with Watched(process, setup.seconds, faults) as watched:
            long = crowd(address, keys["narrowed"], setup.seconds, setup.clients, 90_000_000)
            counted = asyncio.run(long)
    return rows_of(rates, lost, watched, counted, setup)


def rows_of(
    rates: dict[str, float], lost: int, watched: Watched, counted: Counted, setup: Setup
) -> tuple[list[Row], dict[str, float], list[str]]:
    """The table, the figures and the notes."""
    ratio = rates["narrowed"] / rates["free"]
    before, after = watched.between(0.1, 0.2), watched.between(0.9, 1.01)
    failed = counted.failed.total() + lost
    causes = ", ".join(f"{name} {count}" for name, count in counted.repeated.most_common())
    faults = ", ".join(f"{name} {count}" for name, count in counted.failed.most_common())
    repeated = counted.repeated.total()
    rows = [
        row(f"{setup.clients} clients without {setup.rights}", f"{rates['free']:.0f} a second"),
        row(
            f"{setup.clients} clients with {setup.rights}",
            f"{rates['narrowed']:.0f} a second = {ratio:.2f} x",
            "at least .9 x",
        ),
        row(f"requests answered in {setup.seconds:.0f} s", f"{len(counted.times):,}"),
        row("p50", f"{percentile(counted.times, 0.5):.0f} ms"),
        row("p99", f"{percentile(counted.times, 0.99):.0f} ms"),
        row("answered after a repetition", f"{repeated}" + (f" ({causes})" if causes else "")),
        row("not answered", f"{failed}" + (f" ({faults})" if faults else ""), "0"),
        row("memory before the first fault", f"{before:.0f} MB"),
        row("memory at the end", f"{after:.0f} MB = {after / before:.2f} x", "flat"),
    ]
    figures = {
        "free": rates["free"],
        "narrowed": rates["narrowed"],
        "ratio": ratio,
        "answered": len(counted.times),
        "repeated": repeated,
        "failed": failed,
        "memory_before_mb": before,
        "memory_after_mb": after,
    }
    return rows, figures, watched.events


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--rights", choices=("filters", "groups"), default="filters")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    chosen = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores before"
    setup = Setup(chosen.seconds, chosen.clients, chosen.documents, chosen.rights, chosen.workers)
    table, figures, events = measured(setup)
    caption = f"{setup.documents:,} documents of eight passages, {setup.workers} workers"
    section = Section(
        "Ten minutes of load",
        [Table(table, caption)],
        [
            f"Server, clients, ingest and PostgreSQL share the cores of one machine ({load}).",
            "One request in eight is a chat, answered without a model and stored in PostgreSQL; "
            "the others are searches.",
            *events,
        ],
        f"OMP_NUM_THREADS=1 python -m benchmarks.load --rights {setup.rights} --publish",
        page="serving",
        data=figures,
    )
    print("\n".join(section_lines(section)))
    if chosen.publish:
        print(publish("load", section))


if __name__ == "__main__":
    main()
