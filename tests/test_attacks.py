"""Whole attacks, scripts beside the checkout: each starts what it attacks, exits 0 when held."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "hostile" / "attacks"
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))
SOURCES = Path(__file__).resolve().parents[1] / "src"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_data,
    pytest.mark.skipif(not SCRIPTS, reason="the attack scripts are not beside the checkout"),
    pytest.mark.skipif(os.geteuid() != 0, reason="some mount a small disk, which needs root"),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_attack_is_held(tmp_path: Path, script: Path) -> None:
    path = os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "RW_WORK": str(tmp_path)}
    environment["RW_VENV"] = str(Path(sys.executable).parents[1])
    done = subprocess.run(
        [sys.executable, "-B", str(script)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
