"""Tables of other packages in a project: opened, and found again for erasure and moving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import ConfigError, StoreError, near
from ..ledger import ADDED, Ledger, Place, SharedPlace, Tables, added_tables

if TYPE_CHECKING:
    from ._project import Project


class _Opened:
    """The tables that were opened for a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._ledgers: dict[str, Ledger] = {}

    def of(self, name: str, tables: Tables) -> Ledger:
        """The tables of a name, opened once."""
        if name not in self._ledgers:
            settings = self._project.settings
            place = settings.shared.place(table_file(self._project, tables))
            power_safe = settings.budget.power_safe
            self._ledgers[name] = Ledger(place, tables, power_safe=power_safe)
        return self._ledgers[name]

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        while self._ledgers:
            self._ledgers.popitem()[1].close()


def package_tables(project: Project, name: str) -> Ledger:
    """The tables that an installed package declares under a name; closed with the project.

    Write texts of documents within ``project.work.working(NAME)``, so that nobody forgets them
    meanwhile.

    Raises:
        ConfigError: No package declares tables of this name.
        StoreError: They cannot be opened.
    """
    declared = added_tables()
    if name not in declared:
        hint = near(name, declared) if declared else "no installed package has tables"
        raise ConfigError(f"no installed package has the tables {name!r}", hint=hint)
    return project.attached(_Opened, lambda: _Opened(project)).of(name, declared[name])


def table_file(project: Project, tables: Tables) -> Path:
    """The file of these tables."""
    return project.folder.data / f"{tables.name}.sqlite"


def kept_tables(project: Project) -> Iterator[tuple[Place, Tables]]:
    """Places of a project that hold tables of packages, and their declarations.

    Raises:
        StoreError: One belongs to a package that is not installed.
    """
    declared = {tables.name: tables for tables in added_tables().values()}
    shared = project.settings.shared.place(project.folder.ledger)
    remote = set(_schemas(shared)) if isinstance(shared, SharedPlace) else set()
    files = {file.stem for file in project.folder.data.glob(f"{ADDED}*.sqlite")}
    for name in sorted((files | remote) - declared.keys()):
        raise StoreError(
            f"a package that is not installed left the tables {name.removeprefix(ADDED)!r}; it "
            "alone knows what must go from them",
            where=str(project.folder.data / f"{name}.sqlite") if name in files else str(shared),
            hint="install the package again, or delete the tables",
        )
    for name, tables in declared.items():
        if name in files:
            yield table_file(project, tables), tables
        if name in remote:
            yield shared, tables


def _schemas(place: SharedPlace) -> Iterator[str]:
    """Names of the schemas of a shared database that hold tables of packages."""
    pattern = f"{place.schema}\\_{ADDED.rstrip('_')}\\_%"
    with closing(Ledger(place)) as ledger:
        query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE ?"
        for (schema,) in ledger.select(query, (pattern,)):
            yield str(schema).removeprefix(f"{place.schema}_")
