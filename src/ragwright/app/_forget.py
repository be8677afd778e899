"""`ragwright forget`."""

from __future__ import annotations

from typer import Argument, Option

from ..core import ConfigError, StoreError
from ._flags import Flags, takes, tenant_name


@takes("project as_json")
def command(
    flags: Flags,
    document: str | None = Argument(None, help="Id of a document."),
    tenant: str | None = Option(None, help="Tenant (scope) to forget.", callback=tenant_name),
) -> None:
    """Delete a document or a tenant from the store, tables, replies, runs and outputs."""
    if (document is None) == (tenant is None):
        raise ConfigError("give a document, or a tenant with --tenant", where="ragwright forget")
    with flags.open() as bench:
        gone = bench.forget_tenant(tenant) if tenant is not None else bench.forget(document or "")
        listed = bool(bench.project.settings.sources)
        lost = bench.records.lost_exports if document is not None else ()
    if not any(gone.values()):
        raise StoreError(
            f"there is nothing stored for {tenant or document!r}",
            hint="ids are what `ragwright retrieve --json` shows as document_id",
        )
    console = flags.console
    console.show(
        lambda: dict(gone), lambda: ", ".join(f"{name}: {count}" for name, count in gone.items())
    )
    for folder in lost:
        console.remark(
            f"the Delta tables exported to {folder} are not there any more: "
            "a copy elsewhere still holds what it held"
        )
    if document is not None and listed:
        console.remark("if its source is still listed, the next ingest adds it again")
    if gone.get("records"):
        console.remark("if its row is still in the source, the next refresh adds it again")
