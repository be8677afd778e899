"""`ragwright sessions`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from typer import Argument

from ...core import counted, utc_minute
from ...operations import owner_event, record
from ...project import ProjectFolder, load_settings
from ...serve import ServeKeys, Sessions, access_place
from .._console import table
from .._flags import Flags, takes

group = typer.Typer(
    help="People and keys that are signed in on the pages of `ragwright serve`.",
    no_args_is_help=True,
)

_WHOM = Argument(help="Name of a person or key, or the id of one session, as `list` shows them.")


@group.command("list")
@takes("project as_json")
def show(flags: Flags) -> None:
    """List who is signed in on the pages, and until when."""
    known = _sessions(flags.project).all()
    rows = [["session", "name", "shown as", "began", "ends"]]
    for session in known:
        times = [utc_minute(session.began), utc_minute(session.ends)]
        rows.append([session.id, session.name, session.label, *times])
    flags.console.show(
        lambda: {"sessions": [asdict(session) for session in known]},
        lambda: table(rows) if known else "nobody is signed in",
    )


@group.command("revoke")
@takes("project")
def revoke(flags: Flags, whom: str = _WHOM) -> None:
    """End a session, or all of a person or key, at once.

    Access tokens that were issued to the person before are refused, too. Who may still sign in at
    the identity provider can come back: remove them there first.
    """
    ended = _sessions(flags.project).revoke(whom)
    folder = ProjectFolder(flags.project)
    event = owner_event("changed", "sessions revoke", whom)
    record(folder, load_settings(folder.settings), event)
    flags.console.result(f"revoked {counted(ended, 'session')} of {whom}")


def _sessions(project: Path) -> Sessions:
    folder = ProjectFolder(project).require()
    place = access_place(folder)
    return Sessions(place, ServeKeys(folder, place))
