"""What a question loads of other packages, and which of our files it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ragwright

LOADED = """
import json, runpy, sys
sys.argv = ["ragwright", "ask", "-q", "How often must the brake fluid be changed?"]
try:
    runpy.run_module("ragwright", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""

UNUSED = {
    "bm25s", "daft", "http.client", "httpx2", "jinja2", "onnxruntime", "openai", "optuna",
    "pyarrow", "pypdfium2", "rich", "scipy", "tokenizers", "torch",
}  # fmt: skip


@pytest.mark.slow
def test_an_offline_question_loads_only_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "service.md").write_text("The brake fluid must be changed every two years.")
    ragwright(tmp_path, "init", "--source", "service.md", "-q")
    ragwright(tmp_path, "ingest", "-q")
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & UNUSED


COUNTED = """
import json, sys, threading
from pathlib import Path
import ragwright
from ragwright.app import main
home = str(Path(ragwright.__file__).parent)
built, ran = set(), set()

def watch(frame, event, arg):
    code = frame.f_code
    # The optimized flag tells functions from bodies of modules and classes.
    if event != "call" or not code.co_flags & 1 or code.co_name.startswith("<"):
        return
    if code.co_filename.startswith(home):
        ran.add((code.co_filename, code.co_qualname))
    if code.co_name == "__init__":
        kind = type(frame.f_locals.get("self")).__name__
        if kind.endswith("Options"):
            built.add(kind)

def run(*words):
    sys.argv = ["ragwright", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code

run("ask", "--help")  # loads what the command needs
threading.setprofile(watch)
sys.setprofile(watch)
run("ask", "-q", "What is BM25?")
sys.setprofile(None)
print(json.dumps({"built": sorted(built), "ran": sorted(ran)}))
"""

MOST_FILES = 50
"""Files of ours of which a question may run a function."""
MOST_FUNCTIONS = 350
"""Functions and methods of ours that a question may run."""


@pytest.mark.slow
def test_a_question_to_the_demo_project_runs_few_of_our_functions(tmp_path: Path) -> None:
    ragwright(tmp_path, "demo", "demo", "-q")
    done = subprocess.run(
        [sys.executable, "-c", COUNTED],
        cwd=tmp_path / "demo",
        capture_output=True,
        text=True,
        check=True,
    )
    counted = json.loads(done.stdout.splitlines()[-1])
    files = {file for file, _ in counted["ran"]}
    sys.stdout.write(f"a question runs {len(counted['ran'])} functions of {len(files)} files\n")
    assert 20 < len(files) <= MOST_FILES
    assert 100 < len(counted["ran"]) <= MOST_FUNCTIONS
    # The demo's project file has the section `serve`, which a question does not use.
    parts = {"RecordsOptions", "JobOptions", "ServeOptions", "ServedMeasureOptions"}
    assert not parts & set(counted["built"])


PARSED = """
import json, sys
from ragwright.app import main
parsed = []

def watch(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "parse_measure":
        parsed.append(frame.f_locals["text"])

sys.argv = ["ragwright", "eval", "--testset", "rows.jsonl", "--measures", "Hit@1,nDCG@5", "-q"]
sys.setprofile(watch)
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.setprofile(None)
print(json.dumps(parsed))
"""


@pytest.mark.slow
def test_an_evaluation_parses_the_text_of_its_measures_once(tmp_path: Path) -> None:
    (tmp_path / "service.md").write_text("The brake fluid must be changed every two years.")
    row = {"user_input": "brake fluid", "reference_ids": {"service.md": 1}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    ragwright(tmp_path, "init", "--source", "service.md", "-q")
    ragwright(tmp_path, "ingest", "-q")
    done = subprocess.run(
        [sys.executable, "-c", PARSED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["Hit@1", "nDCG@5"]
