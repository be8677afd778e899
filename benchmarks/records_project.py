"""The job of the PySpark script as a project folder: its rows, patterns, tags and template.

Everything is read from the script itself, by path, so that both do the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from types import ModuleType

import yaml

from benchmarks.publish import ROOT

PEERS = ROOT.parent / "shared" / "anchors" / "peers"
CHANGED = 0.01


def peer(work: Path) -> ModuleType:
    """The script as a module that keeps its files in a folder of ours."""
    os.environ["PEERS_WORK"] = str(work)
    sys.path.insert(0, str(PEERS))
    try:
        spec = importlib.util.spec_from_file_location("peers_records", PEERS / "peers_records.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(PEERS))
    return module


def declare(folder: Path, script: ModuleType, rows: Path) -> Path:
    """A project that does with the rows what the script does."""
    records = folder / "records"
    (records / "text_formats").mkdir(parents=True)
    (folder / "ragwright.yaml").write_text("{}\n", "utf-8")
    source = {
        "source": str(rows),
        "key": "id",
        "text": "text",
        # gold has a field of that name, made of tags
        "rename": {"tone": "mood"},
        "keep": ["ask", "mood"],
    }
    patterns = [{find: replacement} for find, replacement in script.CLEAN]
    cleaning = {"max_characters": 1100, "steps": [{"as the script": patterns}, "strip"]}
    variables = {"client": "client", "ask": "ask", "tone": "mood", "tagline": "topic"}
    files = {
        "source": source,
        "cleaning": cleaning,
        "tags": {"tags": {f"{name} hook": pattern for name, pattern in script.TAGS}},
        "rollups": {"client": {"column": "client"}},
        "rules": {"duplicates_by": ["client"]},
        "text_formats/message": {
            "prompt_variables": [variables.get(name, name) for name, _ in script.PARTS],
            "prompt_structure": "\n".join(f"{label}%s" for _, label in script.PARTS),
        },
    }
    for name, content in files.items():
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
        (records / f"{name}.yaml").write_text(text, "utf-8")
    return folder


def change_rows(rows: Path, target: Path, seed: int) -> int:
    """The rows again, one in a hundred (at random) with a longer text; how many."""
    lines = rows.read_text("utf-8").splitlines()
    chosen = random.Random(seed).sample(range(len(lines)), int(len(lines) * CHANGED))
    for at in chosen:
        row = json.loads(lines[at])
        row["text"] += f" changed {seed}"
        lines[at] = json.dumps(row)
    target.write_text("\n".join(lines) + "\n", "utf-8")
    return len(chosen)


def change_tag(folder: Path) -> None:
    """One tag of the project gets another pattern."""
    file = folder / "records" / "tags.yaml"
    declared = yaml.safe_load(file.read_text("utf-8"))
    name = next(iter(declared["tags"]))
    declared["tags"][name] += "|newsletters?"
    text = yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=1000)
    file.write_text(text, "utf-8")


def sorted_by_key(rows: Path, target: Path) -> Path:
    """The rows in the order of their keys as texts, in which the first of equals is ours too."""
    lines = rows.read_text("utf-8").splitlines()
    lines.sort(key=lambda line: str(json.loads(line)["id"]))
    target.write_text("\n".join(lines) + "\n", "utf-8")
    return target
