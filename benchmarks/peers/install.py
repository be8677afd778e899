"""Create environments for the peers, beside the cached vectors; our own is left unchanged.

    python -m benchmarks.peers.install          # retrieval: requirements.txt
    python -m benchmarks.peers.install ragas    # judged measures: requirements-ragas.txt

Takes minutes and the network (or a mirror that pip knows). The versions are those of the files.
ragas has an environment of its own: it wants an openai 1.x and a LangChain before 1.0. Of the
others, txtai brings torch, which nothing here uses.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
RAGAS = Path(__file__).with_name("requirements-ragas.txt")
FILES = {"peers": REQUIREMENTS, "ragas": RAGAS}


def peers_python(name: str = "peers") -> Path:
    """The interpreter of an environment, a key of ``FILES``; it need not be there."""
    # benchmarks.vectors names the same folder, but imports numpy: too much for a first step.
    cache = os.environ.get("BENCH_CACHE") or Path(tempfile.gettempdir()) / "ragwright-bench"
    return Path(cache) / f"{name}-venv" / "bin" / "python"


def main() -> None:
    """Make an environment, or bring it to the pinned versions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=tuple(FILES), default="peers")
    name = parser.parse_args().name
    python, wanted = peers_python(name), FILES[name]
    if not python.is_file():
        venv.create(python.parents[1], with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
    print(f"{python}: {len(wanted.read_text().split())} packages and what they need")


if __name__ == "__main__":
    main()
