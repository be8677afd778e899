"""What is written in several files about a release agrees: version, lock file, workflows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragwright

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_every_file_names_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    named = {PYPROJECT["project"]["version"], ragwright.__version__, str(citation["version"])}
    assert len(named) == 1


GROUPS = ("dev", "docs-site", "release")
"""What the lock file holds; `make test-heavy` takes the newest versions."""


def test_the_lock_file_holds_what_make_installs() -> None:
    """Run ``make lock`` after a change of dependencies."""
    lines = (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines()
    locked: dict[str, list[str]] = {}  # several versions where systems differ
    for line in lines:
        if match := re.match(r"([\w.-]+)(?:\[.*?\])?==([^ ;]+)", line):
            locked.setdefault(canonicalize_name(match[1]), []).append(match[2])
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"]
    extras = re.search(r"^EXTRAS := (\S+)$", MAKEFILE, re.MULTILINE)
    assert extras is not None
    wanted = [
        *project["dependencies"],
        *(requirement for name in GROUPS for requirement in groups[name]),
    ]
    for extra in extras[1].split(","):
        wanted += project["optional-dependencies"][extra]
    missing = []
    for requirement in map(Requirement, wanted):
        versions = locked.get(canonicalize_name(requirement.name), [])
        if not any(requirement.specifier.contains(version) for version in versions):
            missing.append(str(requirement))
    assert not missing
    assert not [line for line in lines if "://" in line or line.startswith("-")]  # no addresses


def workflow(name: str) -> dict[str, Any]:
    content = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def test_workflows_run_what_the_makefile_has() -> None:
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    steps = [
        step.get("run", "")
        for name in ("ci.yml", "release.yml")
        for job in workflow(name)["jobs"].values()
        for step in job["steps"]
    ]
    called = {target for run in steps for target in re.findall(r"\bmake ([\w-]+)", run)}
    assert called >= {"check", "test", "site", "dist"}
    assert called <= targets
    assert (ROOT / ".ci" / "run").exists()


def test_ci_covers_every_python_that_the_package_names() -> None:
    versions = workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [
        line.rpartition(" :: ")[2]
        for line in PYPROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    assert set(named) <= set(versions)
    assert PYPROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_the_image_installs_extras_that_exist_and_serves() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    named = re.search(r"\"\.\[([\w,]+)\]\"", text)
    assert named is not None
    assert set(named[1].split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])
    assert {"pg", "lance"} <= set(named[1].split(",")), "a project may need them by its file alone"
    assert re.search(r"^USER \d+$", text, re.MULTILINE), "a check of runAsNonRoot needs a number"
