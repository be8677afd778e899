"""Figures of benchmarks as files beside the documentation, and the page made of them.

    python -m benchmarks.publish           # the pages again, from the stored figures
    python -m benchmarks.publish --check   # fails where a page does not follow from the figures

A benchmark hands its tables to :func:`publish`; they are kept as ``docs/results/NAME.json`` and
every page is rendered anew from all files that name it. So a page can be rendered without the
peers, the data sets or the models, and no number is typed by hand.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"

Cell = str | int | float | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Table:
    """Rows of one table; the columns are the keys of its rows, in order of appearance.

    A float is shown with three digits, None as an empty cell, a string as it is (Markdown).
    """

    rows: Sequence[Row]
    caption: str = ""


@dataclass(frozen=True)
class Page:
    """A page of results: its headings, and what is said before the figures."""

    title: str
    description: str
    introduction: str


PAGES = {
    "retrieval": Page(
        "Retrieval, measured",
        "Ranking quality and speed of ragwright beside other tools, computed by its benchmarks.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. `python -m benchmarks.publish` renders the page from those files, and a "
        "test fails where the two differ. Nothing here was chosen by looking at these queries "
        "unless a note says so.",
    ),
    "judging": Page(
        "Judged measures, measured",
        "What judged measures cost in time, and their ratios beside those of ragas, with scripted "
        "judges.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. The judges are scripted: the page says what the program does with a "
        "judge's replies and how fast, not how well any judge judges.",
    ),
    "people": Page(
        "Judges beside people, measured",
        "Agreement of free measures and recorded judges with people on eight published sets.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. No model was called. Intervals are 95 % and resample whole tasks.",
    ),
    "records": Page(
        "Records, measured",
        "Time and memory of a refresh of records, beside PySpark and a plain loop.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. Rows and patterns are synthetic; the page says how fast they go through, "
        "not how good any text is.",
    ),
    "scale": Page(
        "Past one machine, measured",
        "Speed, memory and calls of indexes that no memory holds.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. Vectors are synthetic and models are scripted unless a note says "
        "otherwise.",
    ),
    "serving": Page(
        "Serving, measured",
        "Requests a second, latency and memory of the server, beside a LangChain service.",
        "Every figure on this page was computed by the commands named with it and is kept as JSON "
        "beside the page. Documents and vectors are synthetic and the chat model is scripted: the "
        "page says how fast the server is, not how good an answer is.",
    ),
}


@dataclass(frozen=True)
class Section:
    """One part of a page, as stored.

    Attributes:
        title: Its heading.
        tables: Its tables.
        notes: Sentences under the tables (Markdown).
        command: What to run to measure again.
        page: The page it belongs to, a key of ``PAGES``.
        order: Its place on the page, low first; equal places by name.
        measured: When, ISO date.
        conditions: Machine and versions, by name.
        data: Raw figures, in whatever form suits further use.
    """

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    command: str = ""
    page: str = "retrieval"
    order: int = 50
    measured: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    data: Any = None


def publish(name: str, section: Section, folder: Path = RESULTS) -> Path:
    """Store a section as ``NAME.json`` in the folder and render its page again.

    The date, Python, numpy and ragwright's commit are filled in where the section has none.

    Args:
        name: Name of the file: small letters, digits, hyphens.
        section: What to store; one of the same name is replaced.
        folder: Where figures and pages lie.

    Returns:
        The page.

    Raises:
        ValueError: The section names a page that there is not.
    """
    if section.page not in PAGES:
        raise ValueError(f"no page {section.page!r}; one of {', '.join(PAGES)}")
    stored = asdict(section)
    stored["measured"] = section.measured or datetime.now(UTC).date().isoformat()
    stored["conditions"] = {**conditions(), **section.conditions}
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / f"{name}.json", json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    page = folder / f"{section.page}.md"
    _replace(page, render(section.page, folder))
    return page


def conditions() -> dict[str, str]:
    """The machine and the versions that every section should name."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, CPU only",
        "python": platform.python_version(),
        "ragwright": _commit(),
        **versions("numpy"),
    }


def versions(*names: str) -> dict[str, str]:
    """Versions of installed distributions; those that are missing are left out."""
    installed = {}
    for name in names:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def render(page: str, folder: Path = RESULTS) -> str:
    """A page as Markdown, from the stored sections that name it."""
    about = PAGES[page]
    lines = ["---", f"title: {about.title}", f"description: {about.description}", "---", ""]
    lines += ["<!-- written by benchmarks/publish.py; do not edit -->", ""]
    lines += [f"# {about.title}", "", about.introduction, ""]
    for section in _stored(page, folder):
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def section_lines(section: Section) -> list[str]:
    """A section as the page would show it, without storing it."""
    return _section({**asdict(section), "measured": "now", "conditions": conditions()})


def stale(folder: Path = RESULTS) -> list[str]:
    """Names of pages that differ from what the stored figures give."""
    return [
        page
        for page in PAGES
        if _text(folder / f"{page}.md") != (render(page, folder) if _stored(page, folder) else "")
    ]


def _stored(page: str, folder: Path) -> list[dict[str, Any]]:
    stored = [(path.stem, json.loads(path.read_text("utf-8"))) for path in folder.glob("*.json")]
    mine = [(kept["order"], name, kept) for name, kept in stored if kept.get("page") == page]
    return [kept for _, _, kept in sorted(mine, key=lambda entry: entry[:2])]


def _section(section: Mapping[str, Any]) -> list[str]:
    lines = [f"## {section['title']}", ""]
    if section["command"]:
        lines += ["```bash no-run", section["command"], "```", ""]
    for table in section["tables"]:
        if table["caption"]:
            lines += [f"**{table['caption']}**", ""]
        lines += [*_table(table["rows"]), ""]
    lines += [f"- {note}" for note in section["notes"]]
    lines += [""] if section["notes"] else []
    kept = "; ".join(f"{key} {value}" for key, value in section["conditions"].items())
    return [*lines, f"Measured {section['measured']}: {kept}.", ""]


def _table(rows: Sequence[Row]) -> list[str]:
    head = list(dict.fromkeys(key for row in rows for key in row))
    if not head:
        return ["(no rows)"]
    lines = [head, ["---"] * len(head)]
    lines += [[_cell(row.get(key)) for key in head] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    shown = f"{value:.3f}" if isinstance(value, float) else str(value)
    return shown.replace("|", "\\|").replace("\n", " ")


def _commit() -> str:
    """The commit that is checked out, with a plus where the sources differ from it."""
    shown = version("ragwright")
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        changed = subprocess.run(
            ["git", "-C", str(ROOT), "status", "--porcelain", "src", "benchmarks"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return shown
    return f"{shown} at {done.stdout.strip()}{'+' if changed.stdout.strip() else ''}"


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def _replace(path: Path, text: str) -> None:
    """Write a file at once: several benchmarks may publish at the same time."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, "utf-8")
    part.replace(path)


def main() -> None:
    """Render every page, or check that none is stale."""
    if "--check" in sys.argv[1:]:
        outdated = stale()
        if outdated:
            raise SystemExit(f"stale: {', '.join(outdated)}; run python -m benchmarks.publish")
        return
    for page in PAGES:
        if _stored(page, RESULTS):
            _replace(RESULTS / f"{page}.md", render(page))


if __name__ == "__main__":
    main()
