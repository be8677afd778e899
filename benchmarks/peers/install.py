"""An environment for the peers, beside the cached vectors; ours is not touched.

    python -m benchmarks.peers.install

Takes minutes and the network (or a mirror that pip knows). The versions are those of
``requirements.txt``; txtai brings torch, which nothing here uses.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def peers_python() -> Path:
    """The interpreter of the peers' environment, whether it is there or not."""
    # benchmarks.vectors names the same folder, but imports numpy: too much for a first step.
    cache = os.environ.get("BENCH_CACHE") or Path(tempfile.gettempdir()) / "ragwright-bench"
    return Path(cache) / "peers-venv" / "bin" / "python"


def main() -> None:
    """Make the environment, or bring it to the pinned versions."""
    python = peers_python()
    if not python.is_file():
        venv.create(python.parents[1], with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
    print(f"{python}: {len(REQUIREMENTS.read_text().split())} packages and what they need")


if __name__ == "__main__":
    main()
