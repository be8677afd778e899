"""Every fenced example in README and docs runs, offline; links between pages resolve."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from typer.testing import CliRunner
from warm_server import WarmServer

from ragwright.app import command_line
from ragwright.project import project_keys

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^```(\w+)([^\n`]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FROM_EMPTY = {"README.md", "records.md", "tuning.md", "tutorial.md"}
"""Pages that begin in an empty folder, as stories do; the others begin in a built project."""


def examples(page: Path, need: str = "") -> list[tuple[str, str]]:
    """Kind and code of the examples to run; with those that have this need (a marker)."""
    return [
        (match[1], match[3])
        for match in FENCE.finditer(page.read_text("utf-8"))
        if match[1] in {"bash", "python"} and match[2].split() in ([], [need])
    ]


def cases() -> Iterator[ParameterSet]:
    """Each page; a page with examples that need more is run with these, too."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        if examples(page):
            yield pytest.param(page, "", id=name)
        text = page.read_text("utf-8")
        for need in sorted(set(re.findall(r"^```\w+ (needs_\w+)$", text, re.MULTILINE))):
            yield pytest.param(page, need, id=f"{name}-{need}", marks=getattr(pytest.mark, need))


DRIVER = """
import json, subprocess, sys
space = {"__name__": "__main__"}
for kind, code in json.loads(sys.stdin.read()):
    if kind == "python":
        exec(compile(code, "<example>", "exec"), space)
    else:
        command = ["bash", "-euo", "pipefail", "-c", code]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
"""
"""Blocks of a page in order; Python blocks share their names, as a reader would type them."""


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmServer]:
    with WarmServer() as running:
        yield running


BINARIES = Path(sys.executable).parent


def run(warm: WarmServer, blocks: list[tuple[str, str]], folder: Path, *first: Path) -> None:
    """Run blocks; commands are those of these folders, or of the warm server."""
    environment = {
        key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_TOKEN"))
    }
    folders = [*(first or [warm.folder]), BINARIES, environment.get("PATH", "")]
    environment["PATH"] = os.pathsep.join(map(str, folders))
    # a request that leaves the machine fails at once instead of being answered
    environment |= dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    code, printed = warm.run(DRIVER, typed=json.dumps(blocks), cwd=folder, env=environment)
    assert code == 0, f"--- printed\n{printed}"


@pytest.fixture(scope="session")
def built(warm: WarmServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project over the guide, ingested."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT / "docs" / "guide", folder / "docs")
    run(warm, [("bash", "ragwright init -q --source docs/ && ragwright ingest -q")], folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("page", "need"), list(cases()))
def test_examples_run(page: Path, need: str, built: Path, warm: WarmServer, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    if page.name in FROM_EMPTY or page.parent.name == "stories":
        folder.mkdir()
    else:
        shutil.copytree(built, folder)
    # These take the command as it is installed: a server needs a process that can be ended.
    installed = page.name in {"tutorial.md", "open-webui.md"}
    run(warm, examples(page, need), folder, *([BINARIES] if installed else []))


def test_links_between_pages_resolve() -> None:
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if ":" in target.split("/")[0] or target.startswith("#"):
                continue
            if not (page.parent / target.split("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not broken


def _count_words(*pages: str) -> int:
    return sum(len(path.read_text("utf-8").split()) for page in pages for path in ROOT.glob(page))


def test_what_a_user_meets_first_stays_short() -> None:
    assert _count_words("README.md") <= 1_000
    assert _count_words("CONTRIBUTING.md") <= 800
    assert _count_words("docs/guide/*.md") <= 60_000
    assert len([*ROOT.glob("docs/guide/*.md")]) <= 32
    decisions = {path.name for path in ROOT.glob("docs/decisions/*.md")}
    assert len(decisions) <= 16
    index = (ROOT / "docs/index.md").read_text("utf-8")
    assert {name for name in decisions if f"decisions/{name}" not in index} == set()
    for story in ROOT.glob("docs/stories/*.md"):
        assert len(story.read_text("utf-8").splitlines()) <= 125, story.name
        assert f"stories/{story.name}" in index
    for name, most in {"docs/architecture.md": 200, "CHANGELOG.md": 40}.items():
        assert len((ROOT / name).read_text("utf-8").splitlines()) <= most, name
    assert len([*project_keys()]) <= 200
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command_line(), ["--help"]).output
    assert len(shown.splitlines()) <= 50
