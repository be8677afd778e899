"""``python -m tests.fuzz --seconds N``: try targets for longer than the tests do."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from . import explore
from .targets import TARGETS


def main() -> None:
    """Parse the command line and try each target named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=[t.name for t in TARGETS])
    asked = parser.parse_args()
    for target in TARGETS:
        if not asked.target or target.name in asked.target:
            tried = explore(target, asked.seed, asked.seconds)
            print(f"{target.name}: {tried} cases, only typed errors")


main()
