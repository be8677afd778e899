"""What an index leaves behind: its glossary, and why it does not fit the settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ...core import RetrieveError, count_noun, replace_text, text_hash
from ...index import IndexSpec, Store
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


def _differences(was: str, now: str) -> tuple[str, str]:
    """The words of two descriptions that differ; both descriptions if the numbers of words do."""
    a, b = (re.findall(r"[^\s(),]+", text) for text in (was, now))
    if len(a) != len(b):
        return was, now
    pairs = [pair for pair in zip(a, b, strict=True) if pair[0] != pair[1]]
    return ", ".join(old for old, _ in pairs), ", ".join(new for _, new in pairs)


def nothing_indexed(
    spec: IndexSpec,
    built: Sequence[IndexSpec],
    model: str,
    where: Path,
    command: str = "ragwright ingest",
) -> RetrieveError:
    """The error for settings under which nothing is indexed.

    Args:
        spec: The present settings.
        built: The existing index specs.
        model: The configured embedding model, empty for none.
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
    if nearest.embedder != spec.embedder:
        now = f"{model} (identity {spec.embedder[:_SHOWN]})" if spec.embedder else "none"
        was = f"that of identity {nearest.embedder[:_SHOWN]}" if nearest.embedder else "none"
        facts.append(f"the embedding model was {was}, now it is {now}")
    if nearest.chunker != spec.chunker:
        facts.append(
            "chunks were cut as {}, now it is {}".format(
                *_differences(nearest.chunker, spec.chunker)
            )
        )
    if nearest.analyzer != spec.analyzer:
        facts.append(
            "keywords were cut as {}, now it is {}".format(
                *_differences(nearest.analyzer, spec.analyzer)
            )
        )
    rest = len(built) - 1
    if rest:
        facts.append(count_noun(rest, "further index is built", "further indexes are built"))
    hint = f"run: {command}, or restore these settings and the files of the model"
    return RetrieveError(f"{fault}: {'; '.join(facts)}", where=str(where), hint=hint)


_SHOWN = 60
"""Characters of an identity that are shown: enough to distinguish two."""
