"""A small project with rows and a study of them, and how it is swept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.experiment import SweepResult, read_study

FACTS = [
    ("How often must the brake fluid be changed?", "every two years", "service.md"),
    ("How often must the coolant be changed?", "every five years", "service.md"),
    ("When is the oil filter changed?", "every 15,000 kilometres", "service.md"),
    ("What does APP_w304 mean?", "two different positions", "codes.md"),
    ("What does APP_w305 mean?", "the brake light switch does not respond", "codes.md"),
    ("What reports two different positions?", "the accelerator pedal sensor", "codes.md"),
]
"""Questions on the small project."""


def fact_rows(count: int, *splits: str) -> list[dict[str, Any]]:
    """Rows that ask for the facts in turn, in these splits in turn."""
    return [
        {
            "id": f"q{n}",
            "user_input": question,
            "reference": reference,
            "reference_ids": [f"docs/{document}"],
            "split": splits[n % len(splits)],
        }
        for n, (question, reference, document) in enumerate(islice(cycle(FACTS), count))
    ]


def part_rows(count: int) -> list[dict[str, Any]]:
    asked = "When is part {} changed?"
    return [
        {"id": f"q{n}", "user_input": asked.format(n), "reference": f"{n} 9"} for n in range(count)
    ]


def parts_text(count: int) -> str:
    told = "## Part {0}\n\nThe part {0} is changed every {1} years, and it weighs {2} grams. "
    told += "Whoever changes part {0} writes the date {0} into the book.\n\n"
    return " ".join(told.format(n, n + 2, 3 * n) for n in range(count))


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
    """Write a project with ``set.jsonl`` and ``s.yaml``."""
    made = MakeProject(folder)(settings, **(docs or {}))
    (made / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = ", ".join(filter(None, (f"testset: set.jsonl, measures: '{measures}'", options)))
    (made / "s.yaml").write_text(f"study: {{{told}}}\n{study}")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def swept(folder: Path, session: Session | None = None, file: str = "s.yaml") -> SweepResult:
    with Workbench.open(folder, session) as bench:
        return bench.sweep(read_study(bench.project, folder / file))
