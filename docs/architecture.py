"""Draws the house into architecture.md: the rooms, their sizes and who imports whom.

`python docs/architecture.py` writes the drawing and lowers the fence (`tests/fence.json`) to the
sizes of today; `--check` fails if the drawing is stale. Sizes may drift by a fifth before that, so
that not every commit has to draw the house again.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "ragwright"
PAGE = ROOT / "docs" / "architecture.md"
OPENS = "<!-- written by docs/architecture.py; do not edit -->\n"
CLOSES = "<!-- end of the written part -->\n"
DRIFT = 0.2
SIZE = re.compile(r"\| (\d+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)

# The test that holds the rooms also says what they are and how imports are read.
HOUSE = runpy.run_path(str(ROOT / "tests" / "test_house.py"))
ROOMS: tuple[str, ...] = HOUSE["ROOMS"]

WINGS: dict[str, dict[str, int]] = {
    "base": {"core": 1_100, "ledger": 700, "flow": 1_900, "models": 2_600},
    "search": {"ingest": 4_000, "index": 3_600, "retrieve": 2_700, "answer": 1_400},
    "records": {"records": 2_500, "drafting": 1_500},
    "lab": {
        "measure": 3_300,
        "testsets": 2_500,
        "experiment": 5_200,
        "audit": 800,
        "training": 900,
        "report": 1_800,
    },
    "service": {
        "project": 2_300,
        "jobs": 1_300,
        "workbench": 360,
        "serve": 3_300,
        "integrations": 90,
        "app": 2_100,
    },
    "tests": {"testing": 900},
}
"""Rooms of one purpose, and the statements that each aims at."""


def sentence(room: str) -> str:
    """First line of a room's docstring."""
    tree = ast.parse((SOURCE / room / "__init__.py").read_text("utf-8"))
    return (ast.get_docstring(tree) or "").splitlines()[0]


def size(room: str) -> tuple[int, int, int]:
    """Files of a room, their lines, and statements without docstrings."""
    files = list((SOURCE / room).rglob("*.py"))
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    return len(files), lines, HOUSE["room_sizes"]()[room]


def arrows() -> dict[str, set[str]]:
    """Room -> rooms that it imports from."""
    imported: dict[str, set[str]] = {room: set() for room in ROOMS}
    for room, path, tree in HOUSE["modules"]():
        if room not in imported:
            continue
        for name, _, _ in HOUSE["imports"](path, tree):
            parts = name.split(".")
            if parts[0] == "ragwright" and len(parts) > 1 and parts[1] in imported:
                imported[room] |= {parts[1]} - {room}
    return imported


def drawing() -> Iterator[str]:
    """The table of rooms, and the triangle of imports."""
    yield "| | wing | room | what it holds | aim | files | lines | statements |\n"
    yield f"|{'---|' * 8}\n"
    wings = {room: wing for wing, rooms in WINGS.items() for room in rooms}
    aims = {room: aim for rooms in WINGS.values() for room, aim in rooms.items()}
    sizes = [size(room) for room in ROOMS]
    for number, (room, (files, lines, statements)) in enumerate(zip(ROOMS, sizes, strict=True), 1):
        head = f"| {number} | {wings[room]} | `{room}/` | {sentence(room)} | {aims[room]:,} |"
        yield f"{head} {files} | {lines:,} | {statements:,} |\n"
    files, lines, statements = (sum(column) for column in zip(*sizes, strict=True))
    yield f"| | | **all** | | {sum(aims.values()):,} | {files} | {lines:,} | {statements:,} |\n"
    yield "\n"
    yield "```text\n"
    numbers = " ".join(f"{number:>2}" for number in range(1, len(ROOMS)))
    yield f"{'imports from':<14}{numbers}\n"
    for number, (room, to) in enumerate(arrows().items(), 1):
        marks = " ".join(" ●" if other in to else " ·" for other in ROOMS[: number - 1])
        yield f"{number:>2} {room:<11}{marks}".rstrip() + "\n"
    yield "```\n"


def lower_the_fence() -> None:
    """Write the sizes of rooms that shrank into the fence of `tests/test_house.py`."""
    path: Path = HOUSE["FENCE"]
    allowed = json.loads(path.read_text("utf-8"))
    sizes = HOUSE["room_sizes"]()
    lower = {room: min(allowed.get(room, n), n) for room, n in sizes.items()}
    path.write_text(json.dumps(lower, indent=2) + "\n", "utf-8")


def drifted(old: str, new: str) -> bool:
    """True where a drawing says something else, or a size that is off by more than the drift."""
    if SIZE.sub("", old) != SIZE.sub("", new):
        return True
    pairs = zip(SIZE.findall(old), SIZE.findall(new), strict=True)
    return any(
        abs(a - b) > max(DRIFT * b, least)
        for before, after in pairs
        for a, b, least in zip(
            map(number, before), map(number, after), (0.5, 500, 250), strict=True
        )
    )


def number(text: str) -> int:
    """A printed number."""
    return int(text.replace(",", ""))


def main() -> int:
    """Write or check the drawing."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(OPENS)
    old, after = rest.split(CLOSES)
    new = "\n" + "".join(drawing()) + "\n"
    if "--check" not in sys.argv:
        PAGE.write_text(f"{before}{OPENS}{new}{CLOSES}{after}", "utf-8")
        lower_the_fence()
    elif drifted(old, new):
        print(f"stale: {PAGE}; run: make docs", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
