"""`ragwright serve`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from .. import serve  # its server needs an extra, which the command checks first
from ..core import ConfigError, require, suggest_name
from ..jobs import owner_event, record
from ..project import ProjectFolder, load_settings
from ..serve import ROLES, Role, ServeKey, ServeKeys
from ..workbench import Workbench
from ._console import Console, table
from ._flags import Flags, takes


@takes("project overrides reload")
def serve_command(
    flags: Flags,
    host: str = Option("", help="Address to listen on; by default serve.host."),
    port: int | None = Option(
        None, min=0, max=65535, help="Port; by default serve.port; 0 takes any free port."
    ),
    workers: int = Option(1, min=1, help="Number of processes that answer."),
) -> None:
    """Serve the project over HTTP.

    It offers OpenAI-compatible chat, retrieval, MCP, sources and pages.
    """
    require_serving()
    # Searches run side by side already: further threads of numpy spin while they wait for work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    serving = serve.ServedProject(flags.project, flags.settings, own=flags.reload)
    announce = make_announcer(flags.console, str(flags.project))
    serve.serve(serving, serve.ListenAddress(host, port, workers, announce))


def require_serving() -> None:
    """Check that the packages of the server are installed.

    Raises:
        MissingExtraError: One is missing; the message says how to install it.
    """
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")


def make_announcer(console: Console, project: str) -> Callable[[str, str], None]:
    """A callback that prints the addresses of a served project, once its port is open."""

    def started(address: str, form: str) -> None:
        if console.quiet:
            console.result(address)
        if form == "json":
            body = {"level": "info", "message": f"serving {project} on {address}"}
            console.remark(json.dumps(body))
            return
        console.remark(f"serving {project} on {address}")
        console.remark(f"  pages: {address} (in a browser)")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    return started


def serve_demo(console: Console, folder: Path, port: int | None) -> None:
    """Serve a demo project until it is stopped; follow changes of its files."""
    serving = serve.ServedProject(folder, own=True)
    serve.serve(serving, serve.ListenAddress("", port, 1, make_announcer(console, str(folder))))


@takes("project overrides reload")
def mcp_command(flags: Flags) -> None:
    """Serve the project to an agent (MCP).

    The agent starts this command and can call search, fetch, ask and list_sources.
    """
    require("mcp", "serve", "serving tools to agents")
    require("fastapi", "serve", "serving tools to agents")
    serve.serve_stdio(serve.ServedProject(flags.project, flags.settings, own=flags.reload))


keys_group = typer.Typer(
    help="Manage the keys of the server.\n\n`ragwright serve` asks callers for one of them.",
    no_args_is_help=True,
)

_NAME = Argument(help="Name of the key, for lists and logs.")


@keys_group.command("add")
@takes("project as_json")
def add(
    flags: Flags,
    name: str = _NAME,
    role: str = Option(
        "reader",
        help="`reader` may ask; `reviewer` may also review rows of testsets; `owner` may see "
        "everything of the project.",
    ),
    configurations: list[str] | None = Option(
        None,
        "--configuration",
        help="Configuration that the key may use; repeatable; by default all.",
    ),
    filters: list[str] | None = Option(
        None,
        "--filter",
        metavar="FIELD=VALUE",
        help="Hard filter on all that the key may see, such as tenant=acme; repeatable.",
    ),
    groups: str = Option(
        "",
        metavar="GROUP,GROUP",
        help="Groups of readers that the key belongs to: it sees their documents.",
    ),
    per_minute: int | None = Option(None, min=1, help="Maximum number of requests per minute."),
    daily_budget: float | None = Option(None, help="Maximum cost per day (UTC)."),
    again: bool = Option(
        False,
        "--again",
        help="Accept the name of a revoked key: the new one sees what was stored under it.",
    ),
) -> None:
    """Make a key and print it, this once.

    Only its hash is kept.
    """
    key = ServeKey(
        name,
        _known_role(role),
        tuple(configurations or ()),
        tuple(filters or ()),
        per_minute,
        daily_budget,
        _group_names(groups),
    )
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        secret = keys.add(key, again=again)
    _record(folder, "keys add", name)
    for warning in _unknown_fields(flags.project, key):
        flags.console.remark(warning)
    _show_secret(flags, name, secret)


@keys_group.command("rotate")
@takes("project as_json")
def rotate(flags: Flags, name: str = _NAME) -> None:
    """Give a key a new secret and print it.

    Its rights stay; requests with the former secret are refused from now on.
    """
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        secret = keys.rotate(name)
    _record(folder, "keys rotate", name)
    _show_secret(flags, name, secret)


def _show_secret(flags: Flags, name: str, secret: str) -> None:
    flags.console.show(lambda: {"name": name, "key": secret}, lambda: secret)
    if not flags.as_json:
        flags.console.remark(
            "Keep it: it cannot be shown again. Clients send it as: Authorization: Bearer …"
        )


@keys_group.command("list")
@takes("project as_json")
def show(flags: Flags) -> None:
    """List the keys and their rights.

    The keys themselves are not kept.
    """
    with closing(ServeKeys(ProjectFolder(flags.project).require())) as known:
        keys, used = known.all(), known.used
    rows = [["name", "role", "groups", "configurations", "filters", "a minute", "a day", "made"]]
    for key in keys:
        limits = [str(limit or "") for limit in (key.per_minute, key.daily_budget)]
        lists = [", ".join(key.configurations) or "all", ", ".join(key.filters)]
        rows.append([key.name, key.role, ", ".join(key.groups), *lists, *limits, key.created])
    refused = "requests are refused" if used else "only this machine may ask"
    flags.console.show(
        lambda: {"keys": [_shown(key) for key in keys]},
        lambda: table(rows, right=(5, 6)) if keys else f"no keys: {refused}",
    )


@keys_group.command("change")
@takes("project")
def change(
    flags: Flags,
    name: str = _NAME,
    role: str | None = Option(None, help="`reader`, `reviewer` or `owner`."),
    configurations: list[str] | None = Option(
        None,
        "--configuration",
        help="Configuration that the key may use from now on; repeatable.",
    ),
    groups: str | None = Option(
        None,
        metavar="GROUP,GROUP",
        help="Groups of readers that the key belongs to from now on; an empty text: none.",
    ),
    per_minute: int | None = Option(None, min=1, help="Maximum number of requests per minute."),
    daily_budget: float | None = Option(None, help="Maximum cost per day (UTC)."),
) -> None:
    """Change the rights of a key.

    They count from its next request on; the rest of it and its secret stay.
    """
    given = {
        "role": None if role is None else _known_role(role),
        "configurations": tuple(configurations) if configurations else None,
        "groups": None if groups is None else _group_names(groups),
        "per_minute": per_minute,
        "daily_budget": daily_budget,
    }
    rights = {field: value for field, value in given.items() if value is not None}
    if not rights:
        raise ConfigError(
            "nothing to change", hint=f"say what, as in: ragwright keys change {name} --groups hr"
        )
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        keys.change(name, rights)
    _record(folder, "keys change", name)
    flags.console.result(f"changed {name}")


@keys_group.command("revoke")
@takes("project")
def revoke(flags: Flags, name: str = _NAME) -> None:
    """Revoke a key.

    Requests with it are refused from now on.
    """
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        keys.revoke(name)
    _record(folder, "keys revoke", name)
    flags.console.result(f"revoked {name}")


def _known_role(role: str) -> Role:
    known_role = next((known for known in ROLES if known == role), None)
    if known_role is None:
        raise ConfigError(f"{role!r} is not a role", where="--role", hint=suggest_name(role, ROLES))
    return known_role


def _group_names(listed: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _record(folder: ProjectFolder, action: str, name: str) -> None:
    event = owner_event("changed", action, name)
    record(folder, load_settings(folder.settings), event, begins=True)


def _unknown_fields(folder: Path, key: ServeKey) -> list[str]:
    """Warnings of filters on fields that no indexed chunk has: such a key finds nothing."""
    if not key.filters:
        return []
    with Workbench.open(folder) as bench:
        opened = bench.project
        if not opened.store.holds(opened.index_spec):
            return ["warning: nothing is indexed yet, so the fields of filters are not checked"]
        known = opened.store.view(opened.index_spec).fields()
    unknown = dict.fromkeys(c.field for c in key.conditions if c.field not in known)
    fields = ", ".join(sorted(known))
    return [
        f"warning: no chunk has the field {name!r}: this key finds nothing. Known fields: {fields}"
        for name in unknown
    ]


def _shown(key: ServeKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "hash"}
