"""`ragwright forget`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core import ConfigError, StoreError
from ..workbench import Workbench
from ._console import Console, reported
from ._options import HERE, Json, Project, tenant_name


@reported
def command(
    document: Annotated[str | None, typer.Argument(help="Id of a document.")] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Tenant (scope) to forget.", callback=tenant_name),
    ] = None,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Delete a document or a tenant from the store, tables, replies, runs and outputs."""
    if (document is None) == (tenant is None):
        raise ConfigError("give a document, or a tenant with --tenant", where="ragwright forget")
    with Workbench.open(project) as bench:
        gone = bench.forget_tenant(tenant) if tenant is not None else bench.forget(document or "")
        listed = bool(bench.project.settings.sources)
        lost = bench.records.lost_exports if document is not None else ()
    if not any(gone.values()):
        raise StoreError(
            f"there is nothing stored for {tenant or document!r}",
            hint="ids are what `ragwright retrieve --json` shows as document_id",
        )
    console = Console()
    if as_json:
        console.json(dict(gone))
    else:
        console.result(", ".join(f"{name}: {count}" for name, count in gone.items()))
    for folder in lost:
        console.remark(
            f"the Delta tables exported to {folder} are not there any more: "
            "a copy elsewhere still holds what it held"
        )
    if document is not None and listed:
        console.remark("if its source is still listed, the next ingest adds it again")
    if gone.get("records"):
        console.remark("if its row is still in the source, the next refresh adds it again")
