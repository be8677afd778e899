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
