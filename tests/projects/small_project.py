"""A small project for the tests of the workbench and of the command line."""

from __future__ import annotations

from pathlib import Path

from ragwright import Workbench

QUESTION = "How often must the brake fluid be changed?"
MANUAL = (
    "# Service plan\n\n## Fluids\n\nThe brake fluid must be changed every two years. "
    "The coolant must be changed every five years.\n\n## Filters\n\n"
    "The oil filter must be changed every 15,000 kilometres.\n"
)
CODES = (
    "# Warning codes\n\n## APP_w304\n\nAPP_w304 means that the accelerator pedal sensor "
    "reports two different positions.\n\n## APP_w305\n\n"
    "APP_w305 means that the brake light switch does not respond.\n"
)


class MakeProject:
    """Writes a project below a folder; called again it overwrites its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "project"

    def __call__(self, settings: str = "", **files: str) -> Path:
        docs = self._folder / "docs"
        docs.mkdir(parents=True, exist_ok=True)
        texts = files or {"service.md": MANUAL, "codes.md": CODES}
        for name, text in texts.items():
            (docs / name).write_text(text, "utf-8")
        (self._folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{settings}", "utf-8")
        return self._folder


def ingested(folder: Path, settings: str = "", **files: str) -> Path:
    """A small project below a folder, its documents ingested."""
    made = MakeProject(folder)(settings, **files)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made
