"""Processor time of a server per request, with the audit log and without it, in turns.

    python -m benchmarks.audit_log [--requests 400] [--rounds 3] [--publish]

Two servers over the guide run side by side; the same client asks each of them in turns. Processor
time is that of the server's process alone, so other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines
from benchmarks.serving import served
from ragwright import Workbench

QUESTION = "How are former states of the index kept?"
REQUESTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "search": ("/v1/retrieve", {"query": QUESTION}),
    "answer": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": QUESTION}]},
    ),
}
SIDES = {
    "without": ("--set", "serve.audit.keep=never"),
    "waits for the event": ("--set", "serve.audit.keep=always"),
    "does not wait": (
        *("--set", "serve.audit.keep=always"),
        *("--set", "serve.audit.wait=false"),
    ),
}


def processor_seconds(process: int) -> float:
    """Processor time that a process has taken."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def asked(http: httpx2.Client, kind: str, requests: int, clients: int) -> None:
    """Send requests, several at once."""
    path, body = REQUESTS[kind]

    def send(_: int) -> None:
        reply = http.post(path, json=body)
        assert reply.status_code == 200, reply.text

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, range(requests)))


def compared(folder: Path, kind: str, side: str, requests: int, rounds: int) -> list[float]:
    """Processor time with the log, as a multiple of that without it, of each round."""
    ratios = []
    with served(folder, *SIDES["without"]) as plain, served(folder, *SIDES[side]) as logged:
        clients = [httpx2.Client(base_url=address, timeout=60) for address, _ in (plain, logged)]
        for http in clients:
            asked(http, kind, 20, 4)  # warm
        for _ in range(rounds):
            spent = []
            for http, (_, process) in zip(clients, (plain, logged), strict=True):
                begun = processor_seconds(process)
                asked(http, kind, requests, 4)
                spent.append(processor_seconds(process) - begun)
            ratios.append(spent[1] / spent[0])
        for http in clients:
            http.close()
    return ratios


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    rows: list[Mapping[str, Cell]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "guide"
        shutil.copytree(ROOT / "docs" / "guide", folder / "docs")
        (folder / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
        for kind in REQUESTS:
            for side in [name for name in SIDES if name != "without"]:
                ratios = compared(folder, kind, side, options.requests, options.rounds)
                rows.append(
                    {
                        "request": kind,
                        "audit log": side,
                        "processor time": statistics.median(ratios),
                        "lowest": min(ratios),
                        "highest": max(ratios),
                    }
                )
    section = Section(
        "Processor time with the audit log",
        [
            Table(
                rows,
                "Processor time of the server per request as a multiple of that without the log, "
                f"median of {options.rounds} rounds of {options.requests} requests, four at once. "
                "A search stores nothing else; an answer is stored among the outputs as well.",
            )
        ],
        command=f"python -m benchmarks.audit_log --requests {options.requests} --publish",
        page="serving",
        order=90,
    )
    print("\n".join(section_lines(section)))
    if options.publish:
        publish("audit-log", section)


if __name__ == "__main__":
    main()
