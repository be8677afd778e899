"""Start-up time: import, help, and a cold question on the demo.

    python -m benchmarks.start [--rounds 7]

Each command is a process of its own, in turns with `python -c pass`. Prints medians, and the
difference to `python -c pass`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUESTION = "How does reciprocal rank fusion combine two rankings?"


def main() -> None:
    """Time the starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    run = [sys.executable, "-c", "from ragwright.app import main; main()"]
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([*run, "demo", "-q", work + "/demo"], check=True, capture_output=True)
        ways = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import ragwright": [sys.executable, "-c", "import ragwright"],
            "from ragwright import Workbench": [
                sys.executable,
                "-c",
                "from ragwright import Workbench",
            ],
            "ragwright --help": [*run, "--help"],
            "ragwright ask, cold": [*run, "ask", QUESTION, "-C", work + "/demo"],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, command in ways.items():
                started = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True, cwd=Path(work))
                times[name].append(time.perf_counter() - started)
    bare = statistics.median(times["python -c pass"])
    print(f"whole processes, median of {rounds}")
    for name, seen in times.items():
        middle = statistics.median(seen)
        print(f"  {name:34} {middle * 1000:7.0f} ms   +{(middle - bare) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
