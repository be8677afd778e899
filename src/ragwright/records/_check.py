"""`records check`: tests the declarations on real rows without storing anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, RagwrightError, count_noun, hide_secret, holds_secret
from . import _checking, declared, sources, stages
from ._seams import (
    DUPLICATE,
    HASH,
    KEY,
    REASON,
    TAG_KINDS,
    TAGS,
    TEXT,
    TEXT_HASH,
    ArrowTable,
    RowSource,
    compute,
    pa,
)
from ._spec import (
    RecordsSpec,
    find_unused_format_faults,
    list_declared_files,
    read_spec,
    unread_files,
)

_ADDRESS = re.compile(r"\w+(\+\w+)?://|sqlite:|\$\{\w+\}$")
"""Prefixes of database addresses; a whole address may be in a variable."""


def open_source(spec: declared.SourceSpec, root: Path) -> RowSource:
    """The rows that source.yaml declares; nothing is read or connected to yet.

    Args:
        spec: The declaration.
        root: Folder that relative paths start from.

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


Mask = NDArray[np.bool_]

_SHOWN = 4000
"""Most characters of a text shown as it came."""

_JOINTS = ",;:."
"""Characters that join pieces of a text, and do not begin one."""

_SOME = 3
_UNKNOWN = 10
_COLUMNS = ("key", "text", "watermark", "hash", "keep", "require")
_NO_FIELDS = {KEY, HASH, REASON, TEXT, "document", "message_at"}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Settings of a check.

    Attributes:
        format: Text format.
        given: Overrides of keys of source.yaml: source, query, key, text.
        rows: Most rows on which the declarations are tested, sampled from those read.
        seed: Seed of the sample.
        examples: Rows shown before and after.
    """

    format: str = "message"
    given: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 10_000
    seed: int = 0
    examples: int = 3


def check_records(
    folder: Path,
    base: Path,
    options: CheckOptions | None = None,
    source: RowSource | None = None,
) -> _checking.CheckReport:
    """Faults of the declarations in a folder, and their effects on rows of the source.

    Nothing is written. Faults do not raise: faulty parts are left out and the rest is tested.

    Args:
        folder: Folder of the declarations.
        base: Folder that a relative source starts from.
        options: Settings.
        source: Rows to use instead of the source's.
    """
    options = options or CheckOptions()
    spec, errors = read_spec(folder, options.format)
    faults = [_checking.Fault.of(error) for error in errors]
    notes = (*_unread(folder), *_unused(folder, spec))
    # the reason why the source cannot be read may be reported already
    file = spec.source.where
    unreadable = not spec.source.places and any(
        f.where.startswith(f"{file}:") or f.hint.endswith(Path(file).name) for f in faults
    )
    spec = replace(spec, source=spec.source.instead(options.given))
    try:
        rows = source or open_source(spec.source.complete(), base)
    except RagwrightError as error:
        source_fault = _checking.Fault.of(error)
        known = source_fault in faults or unreadable
        return _checking.CheckReport(
            faults=(*faults, *([] if known else [source_fault])), notes=notes
        )
    sample = _checking.sample_rows(
        spec.source, rows, _used_columns(spec, folder), options.rows, options.seed
    )
    trial = _Trial(spec, folder, [*faults, *sample.faults], notes)
    if sample.rows is not None and sample.rows.num_rows:
        trial.run(sample.rows, options.examples)
    return trial.report(sample, hide_secret(spec.source.source, spec.source.source))


class _Trial:
    """The stages of a refresh on one batch, with the effect of each step."""

    def __init__(
        self,
        spec: RecordsSpec,
        folder: Path,
        faults: list[_checking.Fault],
        notes: Sequence[_checking.Fault],
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._faults = faults
        self._notes = list(notes)
        self._facts: dict[str, Any] = {}
        self._columns: tuple[str, ...] = ()
        self._left_out: Counter[str] = Counter()
        self._left_out_keys: dict[str, list[str]] = {}

    def run(self, batch: ArrowTable, examples: int) -> None:
        """Test everything on the rows of a batch."""
        self._columns = tuple(batch.column_names)
        try:
            self._silver(batch, examples)
        except RagwrightError as error:
            self._faults.append(_checking.Fault.of(error))

    def report(self, sample: _checking.Sample, source: str) -> _checking.CheckReport:
        """The report."""
        return _checking.CheckReport(
            source=source,
            scanned=sample.scanned,
            usable=sample.usable,
            rows=0 if sample.rows is None else sample.rows.num_rows,
            whole=sample.whole,
            stopped=sample.stopped,
            faults=tuple(dict.fromkeys(self._faults)),
            notes=tuple(dict.fromkeys(self._notes)),
            lacking={name: count for name, count in sample.lacking.items() if count},
            left_out=dict(self._left_out.most_common()),
            left_out_keys={why: tuple(keys) for why, keys in self._left_out_keys.items()},
            **self._facts,
        )

    # -- cleaning and tags -----------------------------------------------------------------

    def _silver(self, batch: ArrowTable, examples: int) -> None:
        spec = self._spec
        step = stages.SilverStep(spec.cleaning, declared.Tags(), spec.source.text)
        steps = _checking.try_steps(spec.cleaning, batch, spec.source.text, self._faults)
        self._notes += steps.notes
        cleaned = replace(step, cleaning=steps.working)(batch)
        passed = self._passed(cleaned)
        tags = _checking.try_tags(spec.tags, passed, self._faults)
        lists = stages.tag_lists(tags.acted, tags.working.names)
        passed = passed.set_column(passed.column_names.index(TAGS), TAGS, pa.chunked_array([lists]))
        self._facts["patterns"] = (*steps.facts, *tags.facts)
        self._facts["examples"] = _examples(batch, passed, steps, spec.source.text, examples)
        self._gold(passed, tags.working, tags.acted)

    def _passed(self, rows: ArrowTable) -> ArrowTable:
        """Rows that are kept; the others are counted by reason."""
        refused = compute.is_valid(rows.column(REASON))
        out = rows.filter(refused)
        for key, why in zip(
            out.column(KEY).to_pylist(), out.column(REASON).to_pylist(), strict=True
        ):
            reason = stages.kind_of_reason(why)
            self._left_out[reason] += 1
            some = self._left_out_keys.setdefault(reason, [])
            if len(some) < _SOME:
                some.append(key)
        return rows.filter(compute.invert(refused)).drop_columns([REASON])

    # -- rules, rollups, format ------------------------------------------------------------

    def _gold(self, silver: ArrowTable, tags: declared.Tags, carried: Mask) -> None:
        spec = self._spec
        rules = _checking.usable_rules(spec.rules, tags, self._columns)
        rollups = spec.rollups
        if rollups.column not in self._columns:
            rollups = replace(rollups, column="")
        same = [name for name in rules.duplicates_by if name in silver.column_names]
        twice = stages.duplicates(lambda names: iter([silver.select(names)]), [TEXT_HASH, *same])
        self._left_out[DUPLICATE] += twice.num_rows
        self._left_out_keys[DUPLICATE] = twice.column(KEY).to_pylist()[:_SOME]
        if not twice.num_rows:
            del self._left_out[DUPLICATE], self._left_out_keys[DUPLICATE]
        losers = set(twice.column(KEY).to_pylist())
        kept = np.array([key not in losers for key in silver.column(KEY).to_pylist()], np.bool_)
        silver, carried = silver.filter(pa.array(kept)), carried[kept]
        step = stages.GoldStep(
            tags,
            rollups,
            _checking.mark_rules(rules),
            spec.format,
            _there(spec.source.keep, silver),
        )
        records, step = self._step_result(replace(step, format=_filled(step)), silver)
        if records is None:
            return
        names = tags.names
        against = [
            int(carried[:, [names.index(tag) for tag in rule.tags]].all(axis=1).sum())
            for rule in rules.contradictions
        ]
        self._facts["rules"] = (
            *_checking.contradiction_facts(rules, against),
            *_checking.refinement_facts(step.rules, records),
        )
        gold = self._passed(records)
        self._records(gold)
        if spec.format.pieces:
            self._look_at(gold)

    def _step_result(
        self, step: stages.GoldStep, silver: ArrowTable
    ) -> tuple[ArrowTable | None, stages.GoldStep]:
        """The result of a step without failing refinements; None if all of it fails."""
        while True:
            try:
                return step(silver), step
            except RagwrightError as error:
                self._faults.append(_checking.Fault.of(error))
                left = tuple(
                    r for r in step.rules.refinements if not _checking.is_about_rule(r, error.where)
                )
                if len(left) == len(step.rules.refinements):
                    return None, step
                step = replace(step, rules=replace(step.rules, refinements=left))
                step = replace(step, format=_filled(step))

    def _records(self, gold: ArrowTable) -> None:
        """Statistics of the records."""
        spec = self._spec
        lengths = Counter(gold.column("length").to_pylist())
        named = [group.name for group in spec.rules.length_groups]
        names = [n for n in gold.column_names if n not in _NO_FIELDS and not _checking.is_mark(n)]
        filled = {name: int((~_blank(gold.column(name))).sum()) for name in names}
        used = spec.format.variables
        self._facts |= {
            "lengths": {name: lengths[name] for name in named}
            | ({"no group": lengths[None]} if lengths[None] else {}),
            "fields": filled,
            "unknown_clients": self._unknown(gold),
            "unused_fields": tuple(
                name
                for name in names
                if filled[name] and name not in used and name not in spec.source.keep
            ),
            "empty_variables": tuple(name for name in used if filled.get(name) == 0),
            "assembled": _assembled(gold, [n for n in used if n in filled]) if used else (),
        }

    def _look_at(self, gold: ArrowTable) -> None:
        """Note records that begin with a blank or a comma."""
        columns = (gold.column(name).to_pylist() for name in (KEY, "document", "message_at"))
        broken = [
            key
            for key, document, at in zip(*columns, strict=True)
            if at and (document[0].isspace() or document[0] in _JOINTS)
        ]
        if broken:
            name = self._spec.format.name
            count = count_noun(len(broken), "record begins", "records begin")
            sentence = f"{count} with a blank or a comma when assembled, such as {broken[0]!r}"
            first = self._spec.format.variables[0]
            hint = f"put a variable first that every record has, instead of {first!r}"
            where = f"{self._folder.name}/text_formats/{name}.yaml"
            self._notes.append(_checking.Fault(sentence, where, hint))

    def _unknown(self, gold: ArrowTable) -> tuple[tuple[str, int], ...]:
        if not self._spec.rollups.names:
            return ()
        counts = Counter(name for name in gold.column("client").to_pylist() if name)
        others = [(n, c) for n, c in counts.items() if n not in self._spec.rollups.names]
        return tuple(sorted(others, key=lambda entry: (-entry[1], entry[0]))[:_UNKNOWN])


def _used_columns(spec: RecordsSpec, folder: Path) -> list[tuple[str, str]]:
    """Columns that declarations use, and where."""
    source = spec.source
    uses = [(name, source.place(key)) for key in _COLUMNS for name in _texts(getattr(source, key))]
    if spec.rollups.column:
        uses.append((spec.rollups.column, spec.rollups.column_place))
    uses += [(tag.column, tag.where) for tag in spec.tags.tags if tag.column]
    for rule in spec.rules.refinements:
        for condition in rule.conditions:
            if condition.pattern is not None and condition.field != TEXT:
                uses.append((condition.field, condition.place))
    uses += [(name, f"{folder.name}/rules.yaml") for name in spec.rules.duplicates_by]
    return list(dict.fromkeys(uses))


def _unread(folder: Path) -> tuple[_checking.Fault, ...]:
    """Unknown files; those with a name similar to a missing one are faults."""
    return tuple(
        _checking.Fault(
            "unknown file",
            f"{folder.name}/{name}",
            f"{meant} is read" if meant else f"known: {', '.join(list_declared_files())}",
        )
        for name, meant in unread_files(folder).items()
        if not meant or (folder / meant).exists()
    )


def _unused(folder: Path, spec: RecordsSpec) -> tuple[_checking.Fault, ...]:
    """Faults of text formats that are not used, which stop no refresh."""
    faults = (_checking.Fault.of(error) for error in find_unused_format_faults(folder, spec))
    return tuple(replace(fault, what=f"{fault.what} (format not in use)") for fault in faults)


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return value


def _filled(step: stages.GoldStep) -> declared.TextFormat:
    """The format without pieces that records cannot fill, and with one for the text.

    Missing variables are already reported.
    """
    known = {"client", *TAG_KINDS, "length", *step.rules.fields, *step.keep}
    pieces: list[declared.FormatPiece] = []
    for piece in step.format.pieces:
        again = piece.variable == TEXT and any(p.variable == TEXT for p in pieces)
        if piece.variable in (TEXT, *known) and not again:
            pieces.append(piece)
    if not any(piece.variable == TEXT for piece in pieces):
        pieces.append(declared.FormatPiece(TEXT, ""))
    return replace(step.format, pieces=tuple(pieces))


def _there(names: tuple[str, ...], rows: ArrowTable) -> tuple[str, ...]:
    return tuple(name for name in names if name in rows.column_names)


def _blank(column: ArrowTable) -> Mask:
    if str(column.type).startswith("list"):
        return np.array([not value for value in column.to_pylist()], np.bool_)
    return _checking.find_empty(column)


def _examples(
    batch: ArrowTable,
    passed: ArrowTable,
    steps: _checking.TriedPatterns[Any],
    text: str,
    count: int,
) -> tuple[_checking.ExampleRow, ...]:
    """Rows changed by many steps, each with steps that earlier rows do not show."""
    columns = (passed.column(name).to_pylist() for name in (KEY, TEXT, TAGS))
    after = {key: (clean, tags) for key, clean, tags in zip(*columns, strict=True)}
    keys, before = batch.column(KEY).to_pylist(), batch.column(text).to_pylist()
    left = np.array([key in after for key in keys], np.bool_) & steps.acted.any(axis=1)
    shown: Mask = np.zeros(steps.acted.shape[1], np.bool_)
    example_rows: list[_checking.ExampleRow] = []
    while left.any() and len(example_rows) < count:
        gain = (steps.acted & ~shown).sum(axis=1) * steps.acted.shape[1] + steps.acted.sum(axis=1)
        at = int(np.argmax(np.where(left, gain, -1)))
        left[at] = False
        shown |= steps.acted[at]
        names = [f.name for f, acted in zip(steps.facts, steps.acted[at], strict=True) if acted]
        clean, tags = after[keys[at]]
        row = _checking.ExampleRow(
            keys[at], str(before[at])[:_SHOWN], clean, tuple(dict.fromkeys(names)), tuple(tags)
        )
        example_rows.append(row)
    return tuple(example_rows)


def _assembled(gold: ArrowTable, variables: list[str]) -> tuple[str, ...]:
    """The document with the most variables, and that with the fewest."""
    if not gold.num_rows:
        return ()
    filled = np.zeros(gold.num_rows, np.int64)
    for name in variables:
        filled += ~_blank(gold.column(name))
    documents = gold.column("document")
    ends = dict.fromkeys((int(np.argmax(filled)), int(np.argmin(filled))))
    return tuple(documents[at].as_py() for at in ends)
