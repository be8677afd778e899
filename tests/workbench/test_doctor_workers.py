"""`doctor` says what each worker of a server loads."""

from __future__ import annotations

from pathlib import Path

from command_line import ragwright
from small_project import MakeProject


def test_a_local_model_is_loaded_by_each_worker_and_that_is_said(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("embed: {model: 'st:some/model'}\n")
    said = ragwright(folder, "doctor", code=1).stdout
    assert "each worker of `ragwright serve` loads st:some/model for itself" in said
