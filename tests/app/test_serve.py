"""`serve` and `keys`, as a user types them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import ragwright, spawned
from small_project import MakeProject
from story_tools import read_json, run, write_files


def test_keys_are_made_listed_and_revoked_by_command(tmp_path: Path) -> None:
    project = MakeProject(tmp_path)()
    made = read_json(project, "keys add app --filter tenant=acme")
    assert made["key"].startswith("rw_")
    twice = ragwright(project, "keys", "add", "app", code=1)
    assert "there is a key named 'app' already" in twice.stderr
    [listed] = read_json(project, "keys list")["keys"]
    assert listed["filters"] == ["tenant=acme"]
    assert "hash" not in listed
    assert "did you mean app" in ragwright(project, "keys", "revoke", "ap", code=1).stderr
    run(project, "keys revoke app")
    assert "no keys" in run(project, "keys list")


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_server_with_an_error(tmp_path: Path) -> None:
    broken = (
        'import os, sys\nif "RAGWRIGHT_SERVING" in os.environ:\n    sys.modules["jinja2"] = None\n'
    )
    write_files(tmp_path / "broken", {"sitecustomize.py": broken})
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, (str(tmp_path / "broken"), before)))
    words = ("serve", "--port", "0", "--workers", "2")
    done = spawned(MakeProject(tmp_path)(), *words, code=1, PYTHONPATH=path)
    assert "a worker did not start" in done.stderr
