"""The glossary of a project: given as a file, or mined from the index and kept per snapshot."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...core import replace_text, text_hash
from ...retrieve import Glossary, load_glossary, mine_glossary

if TYPE_CHECKING:
    from ...index import IndexSpec, Store

_MINED = "corpus"
"""What ``retrieve.glossary`` says where the glossary is mined."""


def is_mined(setting: str) -> bool:
    """True where a glossary is not a file but mined from the index."""
    return setting == _MINED


def project_glossary(
    setting: str, root: Path, cache: Path, store: Store, pair: IndexSpec
) -> Glossary:
    """The glossary that ``retrieve.glossary`` names.

    A mined one is kept in the cache under the snapshot it was mined from, and older ones are
    dropped: mining reads every document. A file that did not change is read once.

    Args:
        setting: A file (relative to ``root``), or ``corpus``.
        root: Folder of the project.
        cache: Folder of what may be deleted.
        store: The project's store.
        pair: Whose documents are read.

    Raises:
        ConfigError: The file is missing or wrong.
    """
    if not is_mined(setting):
        return _loaded(root / setting)
    file = cache / "glossary" / f"{text_hash(store.snapshot(pair))[:24]}.json"
    if file.is_file():
        return _loaded(file, mined=True)
    found = mine_glossary(store.documents(pair))
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, found.to_json())
    for other in file.parent.glob("*.json"):
        if other != file:
            other.unlink(missing_ok=True)
    return found


def _loaded(file: Path, *, mined: bool = False) -> Glossary:
    try:
        stat = file.stat()
    except OSError:
        return load_glossary(file)  # which says what is wrong with it
    return _read(file, stat.st_mtime_ns, stat.st_size, mined=mined)


@lru_cache(maxsize=4)
def _read(file: Path, changed: int, size: int, *, mined: bool) -> Glossary:
    """The glossary in a file of this age and size; what was mined may hold nothing."""
    if mined and file.read_text("utf-8") == Glossary().to_json():
        return Glossary()
    return load_glossary(file)


def forget_glossaries(cache: Path) -> None:
    """Remove every mined glossary; the next question that needs one mines anew."""
    for file in (cache / "glossary").glob("*.json"):
        file.unlink(missing_ok=True)
