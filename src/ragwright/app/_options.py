"""Flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HERE = Path()
"""The folder a command is called in."""

Project = Annotated[
    Path, typer.Option("--project", "-C", help="Folder of the project.", show_default=False)
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="Serve the project's own settings instead of the promoted ones; follow changes.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the project file."),
]
Repeat = Annotated[
    int | None,
    typer.Option("--repeat", min=1, help="Independent judgments of each row (judge.repeat)."),
]
RunName = Annotated[
    str,
    typer.Option("--name", help="Name of the run; if several share a name, it means the newest."),
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE",
        help="Hits must match: party=D, topic=health|tax, year=2019..2021, or kind!=record to "
        "leave out; repeatable.",
    ),
]
SoftFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--soft",
        metavar="FIELD=VALUE^WEIGHT",
        help="Hits should match, ranked by weight: topic=health^3, lang!=fr; repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks, no notes.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result there.")
]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", min=1, help="Most requests in flight per model.")
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ignore stored replies and make every call again.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0.0, help="Stop before spending more than this.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the calls and cost without doing the work.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")]
RetryErrors = Annotated[
    bool,
    typer.Option("--retry-errors", help="Run failed rows again; stored replies are kept."),
]
Served = Annotated[
    bool,
    typer.Option("--served", help="Use the promoted configuration instead of the project file."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, help="Most questions, chosen by the seed, each with all its personas."
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed for everything random.")]


def names_of(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def tenant_name(value: str | None) -> str | None:
    """A tenant's name; an empty one is refused, since it means no tenant."""
    if value is not None and not value.strip():
        raise typer.BadParameter("the name of the tenant is empty; is a variable not set?")
    return value
