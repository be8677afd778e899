"""The house holds: rooms, imports, names, errors, sizes."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import ragwright
from ragwright import core

SOURCE = Path(ragwright.__file__).parent

ROOMS = (
    "core",
    "ledger",
    "flow",
    "models",
    "ingest",
    "records",
    "index",
    "retrieve",
    "answer",
    "measure",
    "project",
    "testsets",
    "drafting",
    "experiment",
    "audit",
    "training",
    "report",
    "jobs",
    "workbench",
    "serve",
    "integrations",
    "app",
    "testing",
)
"""Top to bottom: a room imports only from rooms above it."""

BARRED = {("measure", "index"), ("measure", "ingest"), ("project", "records")}
"""Rooms above that a room must not see all the same."""

EXTRAS = {
    "apprise",
    "calamine",
    "daft",
    "lancedb",
    "markdownify",
    "onnxruntime",
    "pdfplumber",
    "psycopg",
    "pyarrow",
    "pypdfium2",
    "python_calamine",
    "ray",
    "sacrebleu",
    "scipy",
    "selectolax",
    "sentence_transformers",
    "sqlalchemy",
    "tokenizers",
    "torch",
    "transformers",
}
"""Optional dependencies: never imported at module level."""

OF_A_ROOM = {
    "serve": {
        "cryptography",
        "fastapi",
        "jinja2",
        "jwt",
        "mcp",
        "mcp_types",
        "opentelemetry",
        "prometheus_client",
        "pydantic",
        "starlette",
        "uvicorn",
    }
}
"""Optional dependencies that a whole room is made of; its commands check for them at their door."""

LATE = {
    "asyncio",
    "httpx2",
    "importlib",
    "jinja2",
    "openai",
    "optuna",
    "pydantic",
    "regex",
    "sqlite3",
    "Stemmer",
    "urllib",
    "yaml",
}
"""What functions may import besides extras, for start-up time."""


@cache
def modules() -> Sequence[tuple[str, Path, ast.Module]]:
    """(room, file, its syntax tree) of every module, read once for all tests."""
    return [
        (path.relative_to(SOURCE).parts[0], path, ast.parse(path.read_text("utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


@cache
def imports(path: Path, tree: ast.Module) -> Sequence[tuple[str, bool, int]]:
    """(absolute module name, at module level, line) of every import, found once for all tests."""
    return list(_imports(path, tree))


def _imports(path: Path, tree: ast.Module) -> Iterator[tuple[str, bool, int]]:
    package = ("ragwright", *path.relative_to(SOURCE).parts[:-1])
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, FUNCTION)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        level = id(node) not in inside
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, level, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                name = ".".join((*base, *(node.module or "").split("."))).rstrip(".")
                if not node.module or name == "ragwright":
                    for alias in node.names:
                        yield f"{name}.{alias.name}", level, node.lineno
                else:
                    yield name, level, node.lineno
            else:
                yield node.module or "", level, node.lineno


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def place(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"


def test_every_folder_is_a_room_of_the_table() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/*.py")}
    assert folders == set(ROOMS)


@pytest.mark.slow
def test_rooms_import_only_from_rooms_above() -> None:
    wrong = []
    for room, path, tree in modules():
        if room not in ROOMS:
            continue
        for name, _, line in imports(path, tree):
            parts = name.split(".")
            if parts[0] != "ragwright" or len(parts) < 2:
                continue
            other = parts[1]
            if other not in ROOMS or other == room:
                continue
            if ROOMS.index(other) > ROOMS.index(room) or (room, other) in BARRED:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not wrong


@pytest.mark.slow
def test_rooms_import_each_other_by_the_front_door() -> None:
    """Only ``ragwright.<room>`` from outside a room: its files are private."""
    wrong = []
    for room, path, tree in modules():
        for name, _, line in imports(path, tree):
            parts = name.split(".")
            if parts[0] == "ragwright" and len(parts) > 2 and parts[1] != room:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not wrong


def test_our_extension_costs_next_to_nothing_and_its_addresses_exist() -> None:
    text = (SOURCE.parents[1] / "pyproject.toml").read_text("utf-8")
    declared = tomllib.loads(text)["project"]["entry-points"]["ragwright.extensions"]
    assert declared == {"ragwright": "ragwright.extension:EXTENSION"}
    path = SOURCE / "extension.py"
    names = {module for module, _, _ in imports(path, ast.parse(path.read_text("utf-8")))}
    assert names == {"__future__", "ragwright.core"}
    part = core.load_object(declared["ragwright"])
    for kind in get_args(core.ExtensionKind):
        for address in getattr(part, kind).values():
            assert core.load_object(address) is not None


OPENS_DATABASES = {"ledger", "index"}
"""Rooms that open the program's own databases and lock its files."""

ASKS_THE_USERS_DATABASES = {
    "retrieve/_sqlite_child.py": "answers by SQL, in a process of its own",
    "retrieve/_tables.py": "answers by SQL",
    "records/sources/_alchemy.py": "rows of a database",
}
"""Files that read databases which the user names, and what for; they write none."""

DRIVERS = {"sqlite3", "apsw", "psycopg", "psycopg2", "asyncpg", "sqlalchemy"}
FILE_LOCKS = {"fcntl", "msvcrt", "filelock", "portalocker", "fasteners"}


def required(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What is imported when it is first needed: ``require("psycopg", …)``, ``import_module(…)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in ("require", "LateModule", "import_module", "__import__"):
                yield str(node.args[0].value), node.lineno


def test_the_ledger_and_the_index_alone_open_databases_and_lock_files() -> None:
    wrong, asked = [], set()
    for room, path, tree in modules():
        named = [(name, line) for name, _, line in imports(path, tree)]
        file = path.relative_to(SOURCE).as_posix()
        for name, line in (*named, *required(tree)):
            package = name.split(".")[0]
            if package in DRIVERS and file in ASKS_THE_USERS_DATABASES:
                asked.add(file)
            elif package in DRIVERS | FILE_LOCKS and room not in OPENS_DATABASES:
                wrong.append(f"{file}:{line} imports {name}")
    assert not wrong
    assert asked == {*ASKS_THE_USERS_DATABASES}, "an exception that nothing needs"


@pytest.mark.slow
def test_no_file_imports_itself_by_a_detour() -> None:
    """No cycle of files, imports for type checkers included."""
    arrows: dict[str, set[str]] = {}
    for _, path, tree in modules():
        name = ".".join(("ragwright", *path.relative_to(SOURCE).with_suffix("").parts))
        arrows[name.removesuffix(".__init__")] = {n for n, _, _ in imports(path, tree)}
    # a package's __init__ gathers its files: leave it out, or every file would be in a circle
    files = {name: {t for t in to if t in arrows} for name, to in arrows.items() if "._" in name}
    left = dict(files)
    while left:
        free = [n for n, to in left.items() if not to & left.keys() - {n}]
        assert free, f"in a circle: {sorted(left)}"
        for name in free:
            del left[name]


def part(name: str) -> str:
    """The part of a room that a module belongs to: its folder, or itself at the room's top."""
    parts = name.split(".")
    inner = parts[:3] if len(parts) > 3 or (SOURCE / Path(*parts[1:])).is_dir() else parts
    return ".".join(inner)


@pytest.mark.slow
def test_parts_of_a_room_stand_in_an_order_and_use_front_doors() -> None:
    """A folder within a room has a front door too, and no two parts need each other."""
    wrong = []
    arrows: dict[str, set[str]] = {}
    for _, path, tree in modules():
        name = ".".join(("ragwright", *path.relative_to(SOURCE).with_suffix("").parts))
        name = name.removesuffix(".__init__")
        if name.count(".") < 2:
            continue
        own = part(name)
        for other, _, line in imports(path, tree):
            if other.split(".")[:2] != name.split(".")[:2] or part(other) == own:
                continue
            if other.count(".") > 2:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {other}")
            arrows.setdefault(own, set()).add(part(other))
            arrows.setdefault(part(other), set())
    assert not wrong
    while arrows:
        free = [name for name, to in arrows.items() if not to & arrows.keys()]
        assert free, f"in a circle: {sorted(arrows)}"
        for name in free:
            del arrows[name]


@pytest.mark.slow
def test_function_level_imports_are_optional_or_listed() -> None:
    wrong = []
    for room, path, tree in modules():
        for name, level, line in imports(path, tree):
            first = name.split(".")[0]
            late = EXTRAS | LATE | OF_A_ROOM.get(room, set())
            if not level and (first == "ragwright" or first not in late):
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name} in a function")
    assert not wrong


@pytest.mark.slow
def test_optional_extras_are_never_imported_at_module_level() -> None:
    wrong = []
    for _, path, tree in modules():
        guarded = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for child in ast.walk(node)
        }
        for node in tree.body:
            if id(node) in guarded or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
            )
            for name in names:
                if name.split(".")[0] in EXTRAS | {"openai", "optuna", "httpx2"}:
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} imports {name}")
    assert not wrong


TESTS = Path(__file__).parent


def test_no_test_reads_a_clock_or_counts_processor_seconds() -> None:
    """A busy machine makes no test wrong: what waits, waits for an event."""
    clocks = re.compile(r"\b(?:monotonic|perf_counter|process_time|thread_time)(?:_ns)?\(")
    files = [p for p in TESTS.rglob("*.py") if "fuzz" not in p.parts]
    assert [p.name for p in files if clocks.search(p.read_text("utf-8"))] == []


def test_tests_repeat_the_tree_of_the_package() -> None:
    """``tests/ROOM/test_thing.py`` holds ``ROOM/_thing.py``, or its room, or cases of others."""
    wrong = []
    for room in ROOMS:
        names = {path.stem.lstrip("_") for path in (SOURCE / room).rglob("*")}
        for path in (TESTS / room).rglob("test_*.py"):
            thing = path.stem.removeprefix("test_")
            if thing not in names | {room} and not thing.startswith("cases_"):
                wrong.append(str(path.relative_to(TESTS)))
    assert wrong == []


INSIDE = {
    "ingest/test_chunkers.py": "a pattern that is given up within a test",
    "ledger/test_locks.py": "how long a wait is silent, and a system without `fcntl`",
    "flow/test_replies.py": "a lease that ends within a test",
    "jobs/test_promotion.py": "a lock waited for briefly, and a disk full at one write",
    "measure/test_words.py": "both ways to count, on texts short enough to count by hand",
    "project/building/test_ingest.py": "batches of a few chunks, files that may be trusted at once",
    "records/sources/test_files.py": "blocks of a few bytes, files trusted at once",
}
"""Tests that reach into private modules, mostly to make a constant small, and what for."""


def private_names(tree: ast.Module) -> Iterator[str]:
    """Private modules of the package that a test imports or names in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        else:
            continue
        yield from (name for name in names if re.match(r"ragwright(\.\w+)*\._\w+", name))


@pytest.mark.slow
def test_tests_use_the_front_doors() -> None:
    """A test that imports a private module breaks with every move; at most fifteen may."""
    private = {}
    for path in sorted(TESTS.rglob("*.py")):
        if names := sorted(private_names(ast.parse(path.read_text("utf-8")))):
            private[str(path.relative_to(TESTS))] = names
    assert {name: names for name, names in private.items() if name not in INSIDE} == {}
    assert set(INSIDE) == set(private), "no longer needed"
    assert len(INSIDE) <= 15


DOORS = sorted(
    "".join(f".{name}" for name in path.parent.relative_to(SOURCE).parts)
    for path in SOURCE.rglob("__init__.py")
)


@pytest.mark.parametrize("room", DOORS)
def test_public_names_exist(room: str) -> None:
    module = importlib.import_module(f"ragwright{room}")
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))  # ruff keeps them sorted
    for name in names:
        if room != ".integrations":  # its names need other frameworks, whose tests import them
            assert hasattr(module, name), name


def test_importing_the_package_loads_no_room() -> None:
    """Start-up time: the package alone loads a name when it is first used."""
    code = "import sys, ragwright; print([m for m in sys.modules if m.startswith('ragwright.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ragwright._late']"


def drawn_tree(text: str) -> dict[str, str]:
    """Class -> parent, read off the drawing in the docstring."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in text.splitlines():
        match = re.match(r"^((?:│   |    )*)(?:├── |└── )?(\w+)$", line)
        if not match or not match[2].endswith(("Error", "Stopped", "Interrupted")):
            continue
        depth = len(match[1]) // 4 + (1 if "── " in line else 0)
        del path[depth:]
        if path:
            parents[match[2]] = path[-1]
        path.append(match[2])
    return parents


def test_the_drawn_error_tree_is_the_real_one() -> None:
    _errors = sys.modules[core.RagwrightError.__module__]
    real = {
        name: kind.__mro__[1].__name__
        for name, kind in vars(_errors).items()
        if isinstance(kind, type)
        and issubclass(kind, core.RagwrightError)
        and kind is not core.RagwrightError
    }
    assert drawn_tree(_errors.__doc__ or "") == real
    assert set(real) <= set(dir(core))


@pytest.mark.slow
def test_only_the_verbs_yield_bare() -> None:
    """Rule 1: a flow says ``yield from``; the verbs alone say ``yield``."""
    wrong = []
    for room, path, tree in modules():
        if path.name == "_verbs.py" and room == "flow":
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            returns = ast.unparse(node.returns) if node.returns else ""
            if not re.search(r"\bFlow\b", returns):
                continue
            own = [child for child in ast.walk(node) if isinstance(child, ast.Yield)]
            wrong += [f"{path.relative_to(SOURCE)}:{y.lineno}" for y in own]
    assert not wrong


@pytest.mark.slow
def test_files_functions_and_signatures_stay_small() -> None:
    wrong = []
    for room, path, tree in modules():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > 600:
            wrong.append(f"{path.relative_to(SOURCE)}: {lines} lines")
        for node in ast.walk(tree):
            if not isinstance(node, FUNCTION):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > 60:
                wrong.append(
                    f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}: {length} lines"
                )
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([a for a in arguments if a.arg not in {"self", "cls"}])
            if count > 7 and room != "app":
                wrong.append(
                    f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}: {count} parameters"
                )
    assert not wrong


def test_folders_stay_small() -> None:
    """Past forty files a folder explains nothing: it wants parts."""
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
    counted = {path.relative_to(SOURCE): len(list(path.glob("*.py"))) for path in folders}
    assert not {folder: count for folder, count in counted.items() if count > 40}


@pytest.mark.slow
def test_public_functions_are_documented() -> None:
    wrong = []
    for _, path, tree in modules():
        for parent in ast.walk(tree):
            if not isinstance(parent, ast.Module | ast.ClassDef):
                continue
            if isinstance(parent, ast.ClassDef) and parent.name.startswith("_"):
                continue
            for node in parent.body:
                if not isinstance(node, FUNCTION | ast.ClassDef) or node.name.startswith("_"):
                    continue
                decorators = [ast.unparse(d) for d in node.decorator_list]
                if "overload" in decorators or "override" in decorators:
                    continue
                if not ast.get_docstring(node):
                    wrong.append(place(path, node))
    assert not wrong


FENCE = TESTS / "fence.json"
"""Room -> statements that it may have. `make docs` lowers the numbers; nothing raises them."""


def statements_of(text: str) -> int:
    """Statements of a module's text, docstrings and other bare strings left out."""
    return sum(
        isinstance(node, ast.stmt)
        and not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        for node in ast.walk(ast.parse(text))
    )


@cache
def room_sizes() -> dict[str, int]:
    """Room -> statements of its ``*.py`` files; ``package`` holds the files beside the rooms."""
    sizes: dict[str, int] = dict.fromkeys([*ROOMS, "package"], 0)
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0]
        sizes[room if room in ROOMS else "package"] += statements_of(path.read_text("utf-8"))
    return sizes


@pytest.mark.slow
def test_no_room_grows_above_the_fence() -> None:
    allowed = json.loads(FENCE.read_text("utf-8"))
    sizes = room_sizes()
    assert allowed.keys() == sizes.keys()
    assert {room: n for room, n in sizes.items() if n > allowed[room]} == {}


@pytest.mark.parametrize(("folder", "most"), [("benchmarks", 6_000), ("tests", 59_000)])
def test_a_folder_beside_the_package_has_few_lines(folder: str, most: int) -> None:
    files = (TESTS.parent / folder).rglob("*.py")
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= most


GONE = TESTS / "gone.txt"
"""Identifiers, settings, commands and pages that were removed, one on each line."""
SAYS_WHAT_WENT = {"tests/gone.txt", "docs/decisions/0024-what-went.md"}


def test_nothing_names_what_is_gone() -> None:
    """A name stands as a whole word; a line may end in `` in FOLDER`` to look only there."""
    root = TESTS.parent
    named = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    texts = {}
    for name in named:
        if name and name not in SAYS_WHAT_WENT and (root / name).is_file():
            try:
                texts[name] = (root / name).read_text("utf-8")
            except UnicodeDecodeError:
                continue
    wrong = []
    for line in GONE.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, folder = line.partition(" in ")
        whole = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])")
        wrong += [
            f"{name}: {word}"
            for name, text in texts.items()
            if name.startswith(folder) and word in text and whole.search(text)
        ]
    assert not wrong
