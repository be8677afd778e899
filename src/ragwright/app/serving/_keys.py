"""`ragwright keys`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core import ConfigError
from ...project import ProjectFolder
from ...serve import ServeKey, ServeKeys
from ...workbench import Workbench
from .._console import Console, reported, table
from .._options import HERE, Json, Project

group = typer.Typer(
    help="Keys of `ragwright serve`: make, list and revoke them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Name of the key, for lists and logs.")]


@group.command("add")
@reported
def add(
    name: Name,
    role: Annotated[
        str, typer.Option("--role", help="`reader` asks; `owner` sees everything of the project.")
    ] = "reader",
    configurations: Annotated[
        list[str] | None,
        typer.Option("--configuration", help="Configuration it may use; repeatable, else all."),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Hard filter that narrows all it may see, such as tenant=acme; repeatable.",
        ),
    ] = None,
    per_minute: Annotated[
        int | None, typer.Option("--per-minute", min=1, help="Most requests a minute.")
    ] = None,
    daily_budget: Annotated[
        float | None, typer.Option("--daily-budget", help="Most money a day (UTC).")
    ] = None,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Make a key and print it, this once: only its hash is kept."""
    if role not in ("reader", "owner"):
        raise ConfigError(f"{role!r} is not a role", where="--role", hint="reader or owner")
    key = ServeKey(
        name,
        "",
        "owner" if role == "owner" else "reader",
        tuple(configurations or ()),
        tuple(filters or ()),
        per_minute,
        daily_budget,
    )
    secret = ServeKeys(ProjectFolder(project).require()).add(key)
    console = Console()
    for warning in _unknown_fields(project, key):
        console.remark(warning)
    if as_json:
        console.json({"name": name, "key": secret})
        return
    console.result(secret)
    console.remark("Keep it: it cannot be shown again. Clients send it as: Authorization: Bearer …")


@group.command("list")
@reported
def show(project: Project = HERE, as_json: Json = False) -> None:
    """List the keys and their rights; the keys themselves are not kept."""
    console = Console()
    known = ServeKeys(ProjectFolder(project).require())
    keys = known.all()
    if as_json:
        console.json({"keys": [_shown(key) for key in keys]})
    elif not keys:
        console.result(
            "no keys" + (": requests are refused" if known.used else ": only this machine may ask")
        )
    else:
        rows = [["name", "role", "configurations", "filters", "a minute", "a day", "made"]]
        for key in keys:
            limits = [str(limit or "") for limit in (key.per_minute, key.daily_budget)]
            lists = [", ".join(key.configurations) or "all", ", ".join(key.filters)]
            rows.append([key.name, key.role, *lists, *limits, key.created])
        console.result(table(rows, right=(4, 5)))


@group.command("revoke")
@reported
def revoke(name: Name, project: Project = HERE) -> None:
    """Revoke a key: requests with it are refused from now on."""
    ServeKeys(ProjectFolder(project).require()).revoke(name)
    Console().result(f"revoked {name}")


def _unknown_fields(folder: Path, key: ServeKey) -> list[str]:
    """Warnings of filters on fields that no indexed chunk has: such a key finds nothing."""
    if not key.filters:
        return []
    with Workbench.open(folder) as bench:
        opened = bench.project
        if not opened.store.holds(opened.pair):
            return ["warning: nothing is indexed yet, so the fields of filters are not checked"]
        known = opened.store.view(opened.pair).fields()
    wanted = dict.fromkeys(one.field for one in key.conditions if one.field not in known)
    fields = ", ".join(sorted(known))
    return [
        f"warning: no chunk has the field {name!r}: this key finds nothing. Known fields: {fields}"
        for name in wanted
    ]


def _shown(key: ServeKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "hash"}
