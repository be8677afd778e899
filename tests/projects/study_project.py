"""A small project with rows and a study of them, and how it is swept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.experiment import SweepResult, read_study


def study_project(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    study: str,
    settings: str = "",
    *,
    measures: str = "TokenF1",
    options: str = "",
    docs: Mapping[str, str] | None = None,
) -> Path:
    """Write a project with ``set.jsonl`` and ``s.yaml``.

    Args:
        folder: Where the project is made.
        rows: Rows of the test set.
        study: Which keys are swept.
        settings: Lines of ``ragwright.yaml``.
        measures: Measures of the study.
        options: More of its options, such as ``search: tpe, trials: 12``.
        docs: The documents; without any, those of the small project.
    """
    made = MakeProject(folder)(settings, **(docs or {}))
    (made / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = ", ".join(filter(None, (f"testset: set.jsonl, measures: '{measures}'", options)))
    (made / "s.yaml").write_text(f"study: {{{told}}}\n{study}")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def swept(folder: Path, session: Session | None = None, file: str = "s.yaml") -> SweepResult:
    """What the sweep of a study file comes to."""
    with Workbench.open(folder, session) as bench:
        return bench.sweep(read_study(bench.project, folder / file))
