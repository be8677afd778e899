"""`records check`: tests the declarations on real rows without storing anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..core import ConfigError, RagwrightError, hide_secret, holds_secret
from . import declared, sources, stages
from ._delta import join_rows
from ._patterns import Replace
from ._seams import DUPLICATE, HASH, KEY, REASON, TAGS, TEXT, TEXT_HASH, ArrowTable, compute, pa
from ._spec import RecordsSpec, load_spec

_ADDRESS = re.compile(r"\w+(\+\w+)?://|sqlite:|\$\{\w+\}$")
"""Prefixes of database addresses; a whole address may be in a variable."""


def open_source(spec: declared.SourceSpec, root: Path) -> sources.RowSource:
    """The rows that source.yaml declares; nothing is read or connected to yet.

    Raises:
        RecordsError: A query or a SQLite file is missing.
        ConfigError: A database's address is invalid, contains a password, or names a variable that
            is not set.
        MissingExtraError: A driver is not installed.
    """
    if not _ADDRESS.match(spec.source):
        return sources.FileSource(spec, root)
    if holds_secret(spec.source):
        raise ConfigError(
            "the address of the source holds a password",
            where=spec.place("source"),
            hint="put it into an environment variable and write ${VARIABLE} instead",
        )
    return sources.SqlSource(spec, root)


_SCANNED = 200_000
"""Rows that are read, but for those of ``on_duplicate: last``, which is known at the end."""

_SHOWN = 4000
"""Most characters of a text shown as it came."""

_KEYS = 3
_UNKNOWN = 10
_EXAMPLES = 3
_NO_FIELDS = {KEY, HASH, REASON, "document", "message_at"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What would stop a refresh, where it is, and what to do."""

    what: str
    where: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class PatternFacts:
    """A pattern, or a named step, and the rows that it matches or whose text it changes.

    Attributes:
        name: Of its step or tag.
        pattern: Of a named step its name.
        where: ``file:line``, empty for a named step.
    """

    use: Literal["cleaning", "tag"]
    name: str
    pattern: str
    where: str
    rows: int


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One row before and after; ``steps`` are those that changed its text, in order."""

    key: str
    before: str
    after: str
    steps: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The report of a check.

    Attributes:
        source: The source, empty if it could not be opened.
        scanned: Rows that were read.
        rows: Rows on which the declarations were tested: all of those, or a sample of them.
        whole: The source has no more rows than were read.
        faults: The first fault that would stop a refresh.
        notes: Notes on the reading of rows.
        left_out: Reason -> rows that are left out.
        left_out_keys: Reason -> keys of a few of them.
        lengths: Length group -> rows of gold.
        fields: Field of gold -> rows that have a value for it.
        unknown_clients: Names that are in no rollup and their rows, the most frequent first.
        empty_variables: Variables of the text format that no row has a value for.
        assembled: The documents with the most and the fewest words around the text.
    """

    source: str = ""
    scanned: int = 0
    rows: int = 0
    whole: bool = True
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    patterns: tuple[PatternFacts, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    left_out_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)
    unknown_clients: tuple[tuple[str, int], ...] = ()
    empty_variables: tuple[str, ...] = ()
    examples: tuple[ExampleRow, ...] = ()
    assembled: tuple[str, ...] = ()

    @property
    def gold(self) -> int:
        """Rows that become records."""
        return sum(self.lengths.values())

    @property
    def never(self) -> tuple[PatternFacts, ...]:
        """Patterns that matched no row."""
        return tuple(pattern for pattern in self.patterns if not pattern.rows)

    def as_dict(self) -> dict[str, object]:
        """The document that ``ragwright records check --json`` prints."""
        return asdict(self)


def check_records(
    folder: Path,
    base: Path,
    given: Mapping[str, Any] | None = None,
    format: str = "message",  # noqa: A002 - the key
    rows: int = 10_000,
    seed: int = 0,
) -> CheckReport:
    """The first fault of the declarations or the rows, or the effects of all on a sample of rows.

    Nothing is written. A fault does not raise.

    Args:
        folder: Folder of the declarations.
        base: Folder that a relative source starts from.
        given: Overrides of keys of source.yaml: source, query, key, text.
        format: Text format.
        rows: Most rows on which the declarations are tested, sampled from those read.
        seed: Seed of the sample.
    """
    facts: dict[str, Any] = {}
    try:
        spec = load_spec(folder, format)
        spec = replace(spec, source=spec.source.instead(given or {}).complete())
        source = open_source(spec.source, base)
        facts["source"] = hide_secret(spec.source.source, spec.source.source)
        draw = np.random.default_rng(seed)
        _try_rows(spec, stages.BronzeRows(source, spec.source), (draw, rows), facts)
    except RagwrightError as error:
        facts["faults"] = (Fault(error.what, error.where or "", error.hint or ""),)
    return CheckReport(**facts)


def _try_rows(
    spec: RecordsSpec,
    bronze: stages.BronzeRows,
    sample: tuple[np.random.Generator, int],
    facts: dict[str, Any],
) -> None:
    """The stages of a refresh on a sample of rows; what they do becomes ``facts``."""
    reasons: dict[str, list[str]] = {
        f"contradiction: {rule.name}": [] for rule in spec.rules.contradictions
    }

    def passed(rows: ArrowTable) -> ArrowTable:
        """Rows that are kept; the keys of the others are noted by reason."""
        for key, why in zip(rows[KEY].to_pylist(), rows[REASON].to_pylist(), strict=True):
            if why:
                kind = stages.kind_of_reason(why)
                named = kind if kind in (DUPLICATE, "too long") else why
                reasons.setdefault(named, []).append(key)
        return rows.filter(compute.is_null(rows[REASON])).drop_columns([REASON])

    read, facts["whole"] = [], False
    for batch in bronze.batches():
        read.append(batch)
        facts["scanned"] = bronze.read
        if bronze.read >= _SCANNED:
            break
    else:
        facts["whole"] = True
    passed(bronze.refused())
    facts["notes"] = bronze.notes
    rows = join_rows(read)
    if not rows.num_rows:
        return
    draw, most = sample
    rows = rows.take(np.sort(draw.permutation(rows.num_rows)[:most]))
    facts["rows"] = rows.num_rows
    cleaned, steps, acted = _clean(spec, rows)
    step = stages.SilverStep(replace(spec.cleaning, steps=()), spec.tags, spec.source.text)
    silver = passed(step(cleaned))
    carried = Counter(compute.list_flatten(silver[TAGS]).to_pylist())
    tags = (
        PatternFacts("tag", tag.name, tag.pattern.find, tag.pattern.where, carried[tag.name])
        for tag in spec.tags.tags
    )
    facts["patterns"] = (*steps, *tags)
    facts["examples"] = _examples(rows, spec.source.text, silver, steps, acted)
    for name in spec.rules.duplicates_by:
        stages.find_column(silver, name, "rules.yaml: duplicates_by")
    by = (TEXT_HASH, *spec.rules.duplicates_by)
    losers = stages.duplicates(lambda columns: iter([silver.select(columns)]), by)
    passed(losers)
    silver = silver.filter(compute.invert(compute.is_in(silver[KEY], losers[KEY].combine_chunks())))
    gold_step = stages.GoldStep(spec.tags, spec.rollups, spec.rules, spec.format, spec.source.keep)
    _describe(spec, passed(gold_step(silver)), facts)
    facts["left_out"] = {why: len(keys) for why, keys in reasons.items()}
    facts["left_out_keys"] = {why: keys[:_KEYS] for why, keys in reasons.items()}


def _clean(
    spec: RecordsSpec, rows: ArrowTable
) -> tuple[ArrowTable, list[PatternFacts], list[list[bool]]]:
    """Rows with clean texts, what each step did, and for each step which rows it changed."""
    name = spec.source.text
    versions = stages.clean_each(stages.text_column(rows, name), rows[KEY], spec.cleaning)
    texts, facts, acted = next(versions), [], []
    for step, after in zip(spec.cleaning.steps, versions, strict=True):
        acted.append([old != new for old, new in zip(texts, after, strict=True)])
        said = (step, step, "")
        if isinstance(step, Replace):
            said = step.list_name, step.pattern.find, step.pattern.where
        facts.append(PatternFacts("cleaning", *said, sum(acted[-1])))
        texts = after
    at = rows.column_names.index(name)
    return rows.set_column(at, name, pa.array(texts, pa.large_string())), facts, acted


def _examples(
    rows: ArrowTable,
    text: str,
    silver: ArrowTable,
    steps: Sequence[PatternFacts],
    acted: Sequence[Sequence[bool]],
) -> tuple[ExampleRow, ...]:
    columns = (silver[name].to_pylist() for name in (KEY, TEXT, TAGS))
    after = {key: (clean, tuple(tags)) for key, clean, tags in zip(*columns, strict=True)}
    names = [
        tuple(dict.fromkeys(step.name for step, did in zip(steps, changed, strict=True) if did))
        for changed in zip(*acted, strict=True)
    ]
    found = [
        ExampleRow(key, str(before)[:_SHOWN], after[key][0], changed, after[key][1])
        for key, before, changed in zip(
            rows[KEY].to_pylist(), rows[text].to_pylist(), names, strict=False
        )
        if changed and key in after
    ]
    return tuple(sorted(found, key=lambda row: -len(row.steps))[:_EXAMPLES])


def _describe(spec: RecordsSpec, gold: ArrowTable, facts: dict[str, Any]) -> None:
    """Statistics of the records."""
    lengths = Counter(gold["length"].to_pylist())
    named = [group.name for group in spec.rules.length_groups]
    facts["lengths"] = {name: lengths[name] for name in named}
    if lengths[None]:
        facts["lengths"]["no group"] = lengths[None]
    fields = facts["fields"] = {
        name: sum(value not in (None, "", []) for value in gold[name].to_pylist())
        for name in gold.column_names
        if name not in _NO_FIELDS
    }
    facts["empty_variables"] = tuple(n for n in spec.format.variables if not fields[n])
    if spec.rollups.names:
        clients = Counter(name for name in gold["client"].to_pylist() if name)
        others = [one for one in clients.most_common() if one[0] not in spec.rollups.names]
        facts["unknown_clients"] = tuple(others[:_UNKNOWN])
    if gold.num_rows:
        around = gold["message_at"].to_numpy()
        ends = dict.fromkeys((int(around.argmax()), int(around.argmin())))
        facts["assembled"] = tuple(gold["document"][at].as_py() for at in ends)
