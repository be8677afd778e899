"""Names of the package: one class for a class name, and public functions that are verbs."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ragwright"

PARTICIPLES = """
told shown kept known found held made given written sent taken seen drawn said met left lost
spent built bound laid paid come begun broken chosen spoken grown gone done thrown torn won
brought bought caught taught thought felt dealt meant sold stood understood heard led fed
hidden
"""
PREPOSITIONS = """
at near in on of by with without beside behind between among from to into over under after
before above below within per via for as than since until against around across
"""
ADJECTIVES = """
alone whole own again plain dead live new old same other first last best ready sure safe
empty full late early apart there here away once often never always twice raw short long
small large
"""
NO_VERBS = frozenset((PARTICIPLES + PREPOSITIONS + ADJECTIVES).split())
VERBS = frozenset(["embed", "feed", "need", "seed", "exceed", "proceed", "succeed"])


@cache
def trees() -> dict[str, ast.Module]:
    """Every file of the package, parsed."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def is_no_verb(name: str) -> bool:
    """True if a function's first word is a participle, a preposition or an adjective."""
    word = name.partition("_")[0]
    participle = re.fullmatch(r"[a-z]{2,}ed", word) and word not in VERBS
    return bool(participle) or word in NO_VERBS


def public_functions() -> Iterator[str]:
    """Functions of modules whose names have no underscore in front."""
    for tree in trees().values():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from [node.name] * (not node.name.startswith("_"))


def test_no_class_name_stands_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_public_functions_are_verbs() -> None:
    assert {name for name in public_functions() if is_no_verb(name)} == set()
