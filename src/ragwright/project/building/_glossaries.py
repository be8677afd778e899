"""What an index leaves behind: its glossary, and why it does not fit the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from ...core import RetrieveError, StoreError, count_noun, replace_text, text_hash
from ...index import IndexSpec, Store
from ...ledger import Ledger
from ...retrieve import Glossary, load_glossary, mine_glossary

_MINED = "corpus"
"""Value of ``retrieve.glossary`` for a mined glossary."""


def is_mined(setting: str) -> bool:
    """True if a glossary is not a file but mined from the index."""
    return setting == _MINED


def project_glossary(
    setting: str, root: Path, cache: Path, store: Store, spec: IndexSpec
) -> Glossary:
    """The glossary that ``retrieve.glossary`` names.

    A mined one is cached under its snapshot, since mining reads every document; older ones are
    dropped. An unchanged file is read once.

    Args:
        setting: A file (relative to ``root``), or ``corpus``.
        root: Folder of the project.
        cache: Cache folder.
        store: The project's store.
        spec: Index spec whose documents are read.

    Raises:
        ConfigError: The file is missing or wrong.
    """
    if not is_mined(setting):
        return _glossary_of_file(root / setting)
    file = cache / "glossary" / f"{text_hash(f'3 {store.snapshot(spec)}')[:24]}.json"
    if file.is_file():
        return _glossary_of_file(file)
    glossary = mine_glossary(store.documents(spec))
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, glossary.to_json())
    for other in file.parent.glob("*.json"):
        if other != file:
            other.unlink(missing_ok=True)
    return glossary


def _glossary_of_file(file: Path) -> Glossary:
    try:
        stat = file.stat()
    except OSError:
        return load_glossary(file)  # which reports the fault
    return _read_if_changed(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read_if_changed(file: Path, changed: int, size: int) -> Glossary:
    """The glossary in a file with this time and size."""
    return load_glossary(file)


def forget_glossaries(cache: Path) -> None:
    """Remove every mined glossary; the next question that needs one mines it again."""
    for file in (cache / "glossary").glob("*.json"):
        file.unlink(missing_ok=True)


_SHOWN = 60
"""Characters of an identity that are shown: enough to distinguish two."""


def remember_embedder(place: Path, identity: str, name: str) -> None:
    """Remember the configured name of a model, for messages after it is changed.

    An index knows a model only by its identity. The name is only for messages, so errors on writing
    it are ignored.

    Args:
        place: The ledger.
        identity: The model's identity.
        name: Its name in the project file.
    """
    if list_embedders(place).get(identity) == name:
        return
    insert = (
        "INSERT INTO embedders (identity, name) VALUES (?, ?) "
        "ON CONFLICT (identity) DO UPDATE SET name = excluded.name"
    )
    with suppress(StoreError), closing(Ledger(place)) as ledger:
        ledger.write(lambda connection: connection.execute(insert, (identity, name)).rowcount)


def list_embedders(place: Path) -> Mapping[str, str]:
    """Identity -> name of every model that documents were embedded with, if known."""
    with suppress(StoreError), closing(Ledger(place)) as ledger:
        return dict(ledger.select("SELECT identity, name FROM embedders"))
    return {}


def nothing_indexed(
    spec: IndexSpec,
    built: Sequence[IndexSpec],
    model: str,
    names: Mapping[str, str],
    where: Path,
    command: str = "ragwright ingest",
) -> RetrieveError:
    """The error for settings under which nothing is indexed.

    Args:
        spec: The present settings.
        built: The existing index specs.
        model: The configured embedding model, empty for none.
        names: Identity -> name of models used before (:func:`list_embedders`).
        where: The project file.
        command: Command that builds the index.
    """
    fault = "nothing is indexed under the present chunk, keyword and embed settings"
    if not built:
        return RetrieveError(fault, where=str(where), hint=f"run: {command}")
    parts = ("chunker", "analyzer", "embedder")
    nearest = max(
        built, key=lambda other: sum(getattr(other, name) == getattr(spec, name) for name in parts)
    )
    facts = []
    ways = [f"run: {command}"]
    if nearest.embedder != spec.embedder:
        facts.append(_embedder_change(nearest.embedder, spec.embedder, model, names))
        old = names.get(nearest.embedder, "")
        if not nearest.embedder:
            ways.append("or remove the embedding model")
        elif old and old == model:
            ways.append(f"or restore the former files of {old}")
        else:
            ways.append(f"or set embed.model back to {old or 'the former model'}")
    else:
        ways.append("or set these keys back")
    if nearest.chunker != spec.chunker:
        facts.append(f"chunks were cut as {nearest.chunker}, now it is {spec.chunker}")
    if nearest.analyzer != spec.analyzer:
        facts.append(f"keywords were cut as {nearest.analyzer}, now it is {spec.analyzer}")
    rest = len(built) - 1
    more = (
        f" ({count_noun(rest, 'index of other settings', 'indexes of other settings')} built)"
        if rest
        else ""
    )
    return RetrieveError(
        f"{fault}: {'; '.join(facts)}{more}", where=str(where), hint=", ".join(ways)
    )


def _embedder_change(old: str, new: str, model: str, names: Mapping[str, str]) -> str:
    name = names.get(old, "")
    if not old:
        return (
            f"the index was built without an embedding model, now it is {_identified(model, new)}"
        )
    was = _identified(name or "an embedding model", old)
    if not new:
        return f"the index was built with {was}, now no embedding model is configured"
    if name == model:
        return (
            f"the files or settings of {model} have changed since the index was built "
            f"(identity {_short_identity(old)}, now {_short_identity(new)})"
        )
    return f"the index was built with {was}, now it is {_identified(model, new)}"


def _identified(name: str, identity: str) -> str:
    return f"{name} (identity {_short_identity(identity)})"


def _short_identity(identity: str) -> str:
    return identity if len(identity) <= _SHOWN else f"{identity[: _SHOWN - 1]}…"
