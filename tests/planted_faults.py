"""Plant faults in the package one at a time, and count those that the tests notice.

    make coverage PYTEST="--cov-context=test --cov-report="
    python tests/planted_faults.py --count 200 -o faults.jsonl [--jobs 2] [--room index]

A fault is a comparison turned, a constant moved, a call left out, or a branch left out. The places
are drawn with a seed over all rooms, by their statements. Each fault is planted in a copy of the
checkout, where the tests that reach its line run until the first of them fails: those of its room
first, 40 at most. Where no test reaches the line in its own process, the tests of the room and the
stories run. A fault that changes nothing (an equivalent one) counts as not noticed, so the share
is a lower bound. Run again with the same file, the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src/ragwright")
COVERAGE = ROOT / "build" / "coverage" / "data"
SECONDS = 600.0
"""Longest run of the tests of one fault; a fault that hangs them is noticed."""
MOST = 40
"""Most tests that run for a fault."""
NEEDS = [
    "browser",
    "data",
    "frameworks",
    "linters",
    "nginx",
    "postgres",
    "ray",
    "s3",
    "site",
    "torch",
]
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A place in a file and what is changed there."""

    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str

    @property
    def room(self) -> str:
        """The folder below the package, or the file at its top."""
        return self.file.split("/")[2]


def list_faults(file: Path) -> Iterator[Fault]:
    """Every fault that can be planted in a file; texts and annotations have none."""
    text = (ROOT / file).read_text("utf-8")
    tree = ast.parse(text)
    unread = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if changed := _change(node):
            kind, place, after = changed
            before = ast.get_source_segment(text, place) or ""
            if before and "\n" not in after:
                yield Fault(str(file), place.lineno, place.col_offset, kind, before, after)


def _change(node: ast.AST) -> tuple[str, ast.expr | ast.stmt, str] | None:
    """The kind of the fault of a node, the part that is replaced, and the text in its place."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        turned = ast.Compare(node.left, [TURNED[type(node.ops[0])]()], node.comparators)
        return "comparison", node, f"({ast.unparse(turned)})"
    if isinstance(node, ast.Constant) and isinstance(value := node.value, int | float):
        return None if isinstance(value, bool) else ("constant", node, repr(value + 1))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "call", node, "pass"
    if isinstance(node, ast.If):
        return "branch", node.test, f"False and ({ast.unparse(node.test)})"
    return None


def draw_faults(count: int, seed: int, room: str) -> list[Fault]:
    """Draw faults over all rooms, a file as often as it has places for one."""
    files = subprocess.run(
        ["git", "ls-files", f"{SOURCE}/{room}*.py"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    every = [fault for name in sorted(files) for fault in list_faults(Path(name))]
    return random.Random(seed).sample(every, min(count, len(every)))


def plant(fault: Fault, tree: Path) -> str:
    """Write a fault into a copy of the checkout, and return the text that was there."""
    path = tree / fault.file
    text = path.read_text("utf-8")
    lines = text.encode().split(b"\n")
    start = sum(len(line) + 1 for line in lines[: fault.line - 1]) + fault.column
    end = start + len(fault.before.encode())
    whole = text.encode()
    path.write_bytes(whole[:start] + fault.after.encode() + whole[end:])
    return text


def choose_tests(fault: Fault, coverage: CoverageData) -> list[str]:
    """The tests that reach the line of a fault, those of its room first."""
    lines = coverage.contexts_by_lineno(str(ROOT / fault.file))
    reaching = {re.split(r"[|[]", context)[0] for context in lines.get(fault.line, ())}
    own = f"tests/{fault.room}/"
    tests = sorted(filter(None, reaching), key=lambda name: (not name.startswith(own), len(name)))
    folder = [f"tests/{fault.room}"] if (ROOT / "tests" / fault.room).is_dir() else []
    return tests[:MOST] or [*folder, "tests/stories"]


def notices(fault: Fault, tree: Path, tests: Sequence[str]) -> str:
    """Return the first test that fails with a fault planted; empty if none does."""
    text = plant(fault, tree)
    marks = " or ".join(["slow", *(f"needs_{need}" for need in NEEDS)])
    chosen = [*tests] if "::" in tests[0] else ["-m", f"not ({marks})", *tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-n", "0"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", *chosen]
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        (tree / fault.file).write_text(text, "utf-8")
    if done.returncode == 0:
        return ""
    failed = re.findall(r"(?m)^(?:FAILED|ERROR) tests/\S+", done.stdout)
    if "ERROR: not found: " in done.stdout + done.stderr:
        raise SystemExit(f"the tests of {fault} did not run:\n{done.stdout[-2000:]}{done.stderr}")
    return failed[0] if failed else f"exit code {done.returncode}"


def main() -> None:
    """Plant the faults that the file does not hold yet, and print the shares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--room", default="", help="only this room")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    drawn = draw_faults(options.count, options.seed, options.room)
    coverage = CoverageData(str(COVERAGE))
    coverage.read()
    known: dict[str, str] = {}
    if options.output.is_file():
        rows = map(json.loads, options.output.read_text("utf-8").splitlines())
        known = {json.dumps(row["fault"], sort_keys=True): row["noticed"] for row in rows}
    left = [fault for fault in drawn if json.dumps(asdict(fault), sort_keys=True) not in known]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            tree = Path(folder) / str(number)
            leave = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".mypy_cache")
            shutil.copytree(ROOT, tree, ignore=leave, symlinks=True)
            trees.put(tree)

        def test(fault: Fault) -> tuple[Fault, str]:
            tree = trees.get()
            try:
                return fault, notices(fault, tree, choose_tests(fault, coverage))
            finally:
                trees.put(tree)

        for fault, noticed in pool.map(test, left):
            key = asdict(fault)
            known[json.dumps(key, sort_keys=True)] = noticed
            with options.output.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"fault": key, "noticed": noticed}) + "\n")
            print(f"{fault.file}:{fault.line} {fault.kind}: {noticed or 'not noticed'}", flush=True)
    rooms: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for fault in drawn:
        rooms[fault.room] += 1
        found[fault.room] += bool(known[json.dumps(asdict(fault), sort_keys=True)])
    for room, count in sorted(rooms.items()):
        print(f"{room:16} {found[room]:4} of {count}")
    print(f"{'all':16} {found.total():4} of {rooms.total()} faults are noticed")


if __name__ == "__main__":
    main()
