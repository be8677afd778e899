"""The glossary of a project: given as a file, or mined from the index and kept per snapshot."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...core import replace_text, text_hash
from ...index import IndexSpec, Store
from ...retrieve import Glossary, load_glossary, mine_glossary

_MINED = "corpus"
"""Value of ``retrieve.glossary`` for a mined glossary."""


def is_mined(setting: str) -> bool:
    """True if a glossary is not a file but mined from the index."""
    return setting == _MINED


def project_glossary(
    setting: str, root: Path, cache: Path, store: Store, pair: IndexSpec
) -> Glossary:
    """The glossary that ``retrieve.glossary`` names.

    A mined one is cached under its snapshot, since mining reads every document; older ones are
    dropped. An unchanged file is read once.

    Args:
        setting: A file (relative to ``root``), or ``corpus``.
        root: Folder of the project.
        cache: Cache folder.
        store: The project's store.
        pair: Pair whose documents are read.

    Raises:
        ConfigError: The file is missing or wrong.
    """
    if not is_mined(setting):
        return _glossary_of_file(root / setting)
    file = cache / "glossary" / f"{text_hash(f'3 {store.snapshot(pair)}')[:24]}.json"
    if file.is_file():
        return _glossary_of_file(file)
    glossary = mine_glossary(store.documents(pair))
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
