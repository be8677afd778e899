"""`ragwright forget`."""

from __future__ import annotations

from typer import Argument, Option

from ..core import ConfigError, StoreError
from ..testsets import files_naming
from ._console import table
from ._flags import Flags, takes, tenant_name

_KINDS = {
    "answers": "answers and drafts that the person asked for",
    "feedback": "verdicts, scores and notes on them, and those that the person gave",
    "corrections": "corrections among these",
    "replies": "replies of models to what the person asked",
    "rows": "rows of runs that hold their questions",
    "feedback rows": "rows of test sets collected from their feedback",
    "keys": "keys with this name",
    "limits": "counts of requests and costs: the costs are kept without the name",
    "events": "events of the audit log: kept with a hash in place of the name",
    "promotions": "promotions: kept with a hash in place of the name",
}
"""What is counted for a person."""


@takes("project as_json")
def command(
    flags: Flags,
    document: str | None = Argument(None, help="Id of a document."),
    tenant: str | None = Option(None, help="Tenant (scope) to forget.", callback=tenant_name),
    person: str | None = Option(
        None, metavar="NAME", help="Key or person to forget: their questions, answers, feedback."
    ),
    dry_run: bool = Option(
        False, "--dry-run", help="With --person: list what would be erased; change nothing."
    ),
) -> None:
    """Delete a document, tenant or person everywhere.

    Nothing that is stored keeps them.
    """
    if sum(name is not None for name in (document, tenant, person)) != 1:
        raise ConfigError(
            "give a document, or a tenant with --tenant, or a person with --person",
            where="ragwright forget",
        )
    if dry_run and person is None:
        raise ConfigError("--dry-run needs --person", where="ragwright forget")
    if person is not None:
        _forget_person(flags, person, dry_run)
        return
    with flags.open() as bench:
        gone = bench.forget_tenant(tenant) if tenant is not None else bench.forget(document or "")
        listed = bool(bench.project.settings.sources)
    if not any(gone.values()):
        raise StoreError(
            f"there is nothing stored for {tenant or document!r}",
            hint="ids are what `ragwright retrieve --json` shows as document_id",
        )
    console = flags.console
    console.show(
        lambda: dict(gone), lambda: ", ".join(f"{name}: {count}" for name, count in gone.items())
    )
    if document is not None and listed:
        console.remark("if its source is still listed, the next ingest adds it again")
    if gone.get("records"):
        console.remark("if its row is still in the source, the next refresh adds it again")


def _forget_person(flags: Flags, person: str, dry_run: bool) -> None:
    with flags.open() as bench:
        counts = bench.forget_person(person, dry_run=dry_run)
        named = files_naming(bench.project.folder.testsets, person)
    if not any(counts.values()):
        raise StoreError(
            f"there is nothing stored for {person!r}",
            hint="names are those of: ragwright keys list, log",
        )
    console = flags.console
    rows = [[str(count), _KINDS.get(name, name)] for name, count in counts.items() if count]
    console.show(
        lambda: {"dry_run": dry_run, **counts, "named_in": [str(path) for path in named]},
        lambda: table([["would erase" if dry_run else "erased", "what"], *rows], right=(0,)),
    )
    for path in named:
        console.remark(f"{path} names {person!r}: edit it if the name must go there too")
    if not dry_run:
        console.remark("backups and earlier exports still hold what they held")
