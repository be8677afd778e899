"""Run the benchmarks one after another (`make bench`); a missing data set or model is reported."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "runner",
    "relaxed",
    "codes",
    "results",
    "measures",
    "judges",
    "serving",
)


def main() -> None:
    """Run each in a process of its own."""
    for name in NAMES:
        print(f"\n## {name}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False)


if __name__ == "__main__":
    main()
