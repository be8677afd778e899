"""The report of a check of the declarations, as data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import (
    DuplicateKeyError,
    PatternError,
    RagwrightError,
    RecordsError,
    count_noun,
    suggest_name,
)
from ._patterns import Replace
from ._seams import KEY, KEYLESS, TEXT, ArrowTable, RowSource, compute, pa
from .declared import Cleaning, CleaningStep, MaxRepeat, Refinement, Rules, SourceSpec, Tags
from .sources import Runs, key_texts, place_in, runs_of
from .stages import check_text, clean_texts, find_tags, limit_repeats, rename_columns, row_hashes

PatternUse: TypeAlias = Literal["cleaning", "tag"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that would stop a refresh, or (a note) that should be checked.

    What, where, and a hint.
    """

    what: str
    where: str = ""
    hint: str = ""

    @classmethod
    def of(cls, error: RagwrightError) -> Fault:
        """The fault of an error."""
        return cls(error.what, error.where or "", error.hint or "")


@dataclass(frozen=True, slots=True)
class PatternFacts:
    """One pattern, or named step, over the rows that were read.

    Attributes:
        use: ``cleaning`` or ``tag``.
        name: Of its step or tag.
        pattern: Of a named step its name.
        where: ``file:line``.
        rows: Rows that it matches, or whose text it changes.
    """

    use: PatternUse
    name: str
    pattern: str
    where: str
    rows: int


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """A contradiction or a refinement, and the number of rows it applies to."""

    kind: Literal["contradiction", "refinement"]
    name: str
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
        source: The source, empty if it could not be read.
        scanned: Rows that were read.
        usable: Those with all required columns and a unique key.
        rows: Rows on which the declarations were tested: all of those, or a sample of them.
        whole: The source has no more rows than were read.
        stopped: Required columns are missing, so reading stopped.
        faults: Faults that would stop a refresh.
        notes: Probable mistakes that would not stop a refresh.
        lacking: Column that source.yaml requires -> rows read where it is empty.
        left_out: Reason -> rows that are left out.
        left_out_keys: Reason -> keys of a few of them.
        lengths: Length group -> rows of gold.
        fields: Field of gold -> rows that have a value for it.
        unknown_clients: Names that are in no rollup and their rows, the most frequent first.
        unused_fields: Fields with values that the text format does not use.
        empty_variables: Variables of the text format that no row has a value for.
        assembled: Documents of a few rows.
    """

    source: str = ""
    scanned: int = 0
    usable: int = 0
    rows: int = 0
    whole: bool = True
    stopped: bool = False
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    patterns: tuple[PatternFacts, ...] = ()
    rules: tuple[RuleFacts, ...] = ()
    lacking: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    left_out_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)
    unknown_clients: tuple[tuple[str, int], ...] = ()
    unused_fields: tuple[str, ...] = ()
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


_FIRED = "refinement "
"""Marker fields for one check that show where a refinement applies."""


def usable_rules(rules: Rules, tags: Tags, columns: Sequence[str]) -> Rules:
    """The rules without those whose tags or columns are faulty."""
    known = set(tags.names)
    against = tuple(rule for rule in rules.contradictions if known.issuperset(rule.tags))
    refine = tuple(
        rule
        for rule in rules.refinements
        if all(c.pattern is None or c.field in (TEXT, *columns) for c in rule.conditions)
    )
    return replace(rules, contradictions=against, refinements=refine)


def mark_rules(rules: Rules) -> Rules:
    """The rules, each also setting a marker field that shows where it applies."""
    marked = [
        replace(rule, values=(*rule.values, (f"{_FIRED}{at}", ("yes",))))
        for at, rule in enumerate(rules.refinements)
    ]
    return replace(rules, refinements=tuple(marked))


def is_mark(name: str) -> bool:
    """True if :func:`mark_rules` sets the field."""
    return name.startswith(_FIRED)


def refinement_facts(rules: Rules, records: ArrowTable) -> list[RuleFacts]:
    """Rows for which each rule sets a field that no rule before it has set."""
    before: dict[str, NDArray[np.bool_]] = {}
    facts = []
    for rule in rules.refinements:
        *values, (mark, _) = rule.values
        holds = np.asarray(compute.is_valid(records.column(mark)), np.bool_)
        acts = np.zeros(len(holds), np.bool_)
        for name, _ in values:
            done = before.get(name, np.zeros(len(holds), np.bool_))
            acts |= holds & ~done
            before[name] = done | holds
        settings = ", ".join(f"{name} = {', '.join(texts)}" for name, texts in values)
        facts.append(RuleFacts("refinement", settings, rule.place, int(acts.sum())))
    return facts


def contradiction_facts(rules: Rules, counts: Sequence[int]) -> list[RuleFacts]:
    """Rows that each contradiction applies to, and where it is declared."""
    return [
        RuleFacts("contradiction", rule.name, rule.place, count)
        for rule, count in zip(rules.contradictions, counts, strict=True)
    ]


def is_about_rule(rule: Refinement, where: str | None) -> bool:
    """True if an error is about a place in this rule."""
    places = {c.place for c in rule.conditions}
    places |= {c.pattern.where for c in rule.conditions if c.pattern is not None}
    return where is not None and any(place and place in where for place in places)


W = TypeVar("W")

_NUMBER = 20
"""Digits of a number that are shown before those that change."""


@dataclass(frozen=True, slots=True)
class TriedPatterns(Generic[W]):
    """Result of testing patterns.

    Attributes:
        working: The declarations without those that fail.
        facts: One for each that works.
        acted: Mask of the rows that each matches or changes; bool, shape (rows, facts).
        notes: Notes for the user.
    """

    working: W
    facts: tuple[PatternFacts, ...]
    acted: NDArray[np.bool_]
    notes: tuple[Fault, ...] = ()


def try_steps(
    cleaning: Cleaning, batch: ArrowTable, text: str, faults: list[Fault]
) -> TriedPatterns[Cleaning]:
    """Test every step of a cleaning on the result of the steps before it."""
    column = batch.column(text).combine_chunks()
    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    texts = compute.cast(whole, pa.large_string())
    keys = batch.column(KEY)
    working, facts, acted, notes = [], [], [], []
    for step in cleaning.steps:
        try:
            after = clean_texts(texts, keys, replace(cleaning, steps=(step,)))
        except PatternError as error:
            faults.append(Fault.of(error))
            continue
        changed = compute.fill_null(compute.not_equal(texts, after), False)
        working.append(step)
        acted.append(np.asarray(changed, np.bool_))
        facts.append(_step_facts(step, int(acted[-1].sum())))
        notes.append(_lost_digits(step, keys, texts))
        texts = after
    return TriedPatterns(
        replace(cleaning, steps=tuple(working)),
        tuple(facts),
        _side_by_side(acted, len(texts)),
        tuple(note for note in notes if note is not None),
    )


def try_tags(tags: Tags, rows: ArrowTable, faults: list[Fault]) -> TriedPatterns[Tags]:
    """Test every tag on clean texts."""
    working, facts, acted = [], [], []
    for tag in tags.tags:
        if tag.column and tag.column not in rows.column_names:
            continue  # a fault already
        try:
            carried = np.asarray(find_tags([tag], rows, tags.pattern_seconds)[:, 0], np.bool_)
        except (PatternError, RecordsError) as error:
            faults.append(Fault.of(error))
            continue
        working.append(tag)
        acted.append(carried)
        pattern, count = tag.pattern, int(carried.sum())
        facts.append(PatternFacts("tag", tag.name, pattern.find, pattern.where, count))
    return TriedPatterns(
        replace(tags, tags=tuple(working)), tuple(facts), _side_by_side(acted, rows.num_rows)
    )


def _step_facts(step: CleaningStep, rows: int) -> PatternFacts:
    if isinstance(step, Replace):
        pattern = step.pattern
        return PatternFacts("cleaning", step.list_name, pattern.find, pattern.where, rows)
    name, shown, where = (
        ("max_repeat", f"max_repeat: {step.times}", step.where)
        if isinstance(step, MaxRepeat)
        else (step.name, step.name, "")
    )
    if isinstance(step, MaxRepeat) and not step.digits:
        shown += " except digits"
    return PatternFacts("cleaning", name, shown, where, rows)


def _lost_digits(step: CleaningStep, keys: ArrowTable, texts: ArrowTable) -> Fault | None:
    """Numbers that ``max_repeat`` made others of, with the first row of them."""
    if not isinstance(step, MaxRepeat) or not step.digits:
        return None
    longer = re.compile(rf"(\d)\1{{{step.times},}}")
    candidates = enumerate(text or "" for text in texts.to_pylist())
    hits = [(at, text, hit) for at, text in candidates if (hit := longer.search(text))]
    if not hits:
        return None
    at, text, hit = hits[0]
    number = _number_around(text, *hit.span())
    count = count_noun(len(hits), "row")
    return Fault(
        f"max_repeat changes digits in {count}: {number!r} becomes "
        f"{limit_repeats(number, step.times)!r} on the row {keys[at].as_py()!r}",
        step.where,
        f"write max_repeat: {{times: {step.times}, except: digits}}",
    )


def _number_around(text: str, start: int, end: int) -> str:
    """The digits around a place, and the sign before them; of a long one the beginning."""
    first = max(0, start - _NUMBER)
    while start > first and text[start - 1].isdigit():
        start -= 1
    if start and not text[start - 1].isspace():
        start -= 1
    last = min(len(text), start + 2 * _NUMBER)
    end = min(end, last)
    while end < last and text[end].isdigit():
        end += 1
    return text[start:end]


def _side_by_side(columns: list[NDArray[np.bool_]], rows: int) -> NDArray[np.bool_]:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.bool_)


_BATCH = 4096

_SCANNED = 20
"""Rows read per row tested, at least 200,000 in all, since reading is cheap."""

_KEY = 60
"""Characters of a key that a fault repeats."""

_SHOWN = 5
"""Most duplicate keys reported singly; the others are counted."""


@dataclass(slots=True)
class Sample:
    """A uniform sample of the rows read, in order.

    Attributes:
        rows: Columns as they are called after ``rename``, and ``record_key``; None where no row
            could be read.
        scanned: Rows that were read.
        usable: Those with all required columns and a unique key.
        whole: The source has no more.
        stopped: Columns are missing without which rows cannot be tried: no more were read.
        lacking: Column that source.yaml requires -> rows where it is empty.
        faults: Faults of columns and keys.
    """

    rows: ArrowTable | None = None
    scanned: int = 0
    usable: int = 0
    whole: bool = True
    stopped: bool = False
    lacking: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)


def sample_rows(
    spec: SourceSpec, source: RowSource, named: Sequence[tuple[str, str]], rows: int, seed: int = 0
) -> Sample:
    """A uniform sample of the rows of a source.

    Args:
        spec: What source.yaml says.
        source: Where rows come from.
        named: Columns used and the places (``file:line``) that name them; missing ones are faults.
        rows: Most rows of the sample.
        seed: Of the draw.
    """
    sample = Sample()
    draw = _Draw(rows, seed)
    keys = _SeenKeys(spec)
    most = max(_SCANNED * rows, 200_000)
    try:
        for read in source.batches(_BATCH):
            if not sample.scanned and not _columns_there(read, spec, named, sample.faults):
                sample.scanned, sample.whole, sample.stopped = read.num_rows, False, True
                return sample
            if sample.scanned >= most:
                sample.whole = False
                break
            runs = runs_of(read) or [(0, "the source", sample.scanned + 1)]
            sample.scanned += read.num_rows
            renamed_rows = read.rename_columns(_names(spec, read))
            kept, at = _required(renamed_rows, spec, sample.lacking)
            keyed = keys.look_at(kept, runs, at)
            sample.usable += keyed.num_rows
            draw.take(keyed)
    except RagwrightError as error:
        sample.faults.append(Fault.of(error))
    sample.faults += keys.faults()
    sample.rows = draw.rows()
    return sample


def find_empty(column: ArrowTable) -> NDArray[np.bool_]:
    """Return the mask of values that are null, not a number, or texts of nothing but blanks."""
    values: list[object] = column.to_pylist()
    return np.array(
        [v is None or v != v or (isinstance(v, str) and not v.strip()) for v in values], np.bool_
    )


def _names(spec: SourceSpec, batch: ArrowTable) -> list[str]:
    return [spec.rename.get(name, name) for name in batch.schema.names]


def _columns_there(
    batch: ArrowTable, spec: SourceSpec, named: Sequence[tuple[str, str]], faults: list[Fault]
) -> bool:
    """Report missing columns; False if rows cannot be tested without them."""
    there = _names(spec, batch)
    missing = [name for name, _ in named if name not in there]
    for name, where in named:
        if name in missing:
            sentence = f"the source has no column {name!r}"
            hint = suggest_name(name, there)
            if name == spec.key:
                hint += f"; {KEYLESS}"
            faults.append(Fault(sentence, where, hint))
    for name in spec.rename:
        if name not in batch.schema.names:
            sentence = f"rename: {name!r} is not a column of the source"
            hint = suggest_name(name, batch.schema.names)
            faults.append(Fault(sentence, spec.place("rename"), hint))
            missing.append(name)
    if not missing:
        # these check the existing columns
        check_text(spec, batch.rename_columns(rename_columns(spec, batch)))
    return spec.key in there and spec.text in there


def _required(
    batch: ArrowTable, spec: SourceSpec, lacking: Counter[str]
) -> tuple[ArrowTable, NDArray[np.int64]]:
    """Rows that have a value for every required column, and their positions in the batch."""
    at = np.arange(batch.num_rows)
    for name in spec.require:
        if name in batch.column_names:
            missing = find_empty(batch.column(name))
            lacking[name] += int(missing.sum())
            if missing.any():
                batch, at = batch.filter(pa.array(~missing)), at[~missing]
    return batch, at


class _Draw:
    """The rows with the smallest of random numbers: a uniform sample of a stream of any length."""

    def __init__(self, rows: int, seed: int) -> None:
        self._most = rows
        self._random = np.random.default_rng(seed)
        self._kept: ArrowTable | None = None
        self._numbers = np.empty(0)

    def take(self, batch: ArrowTable) -> None:
        """Add the rows of a batch."""
        numbers = self._random.random(batch.num_rows)
        held = [batch] if self._kept is None else [self._kept, batch]
        self._kept = pa.concat_tables(held, promote_options="permissive")
        self._numbers = np.concatenate([self._numbers, numbers])
        if len(self._numbers) >= 2 * self._most + _BATCH:
            self._shrink()

    def rows(self) -> ArrowTable | None:
        """The sampled rows, in order."""
        self._shrink()
        return None if self._kept is None else self._kept.combine_chunks()

    def _shrink(self) -> None:
        if self._kept is not None and len(self._numbers) > self._most:
            drawn = np.sort(np.argsort(self._numbers, kind="stable")[: self._most])
            self._kept, self._numbers = self._kept.take(drawn), self._numbers[drawn]


class _SeenKeys:
    """The keys of all rows that are read."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._runs: list[Runs] = []
        self._seen: dict[str, tuple[str, int, int]] = {}
        self._nulls = 0
        self._first_null = ""
        self._twice: dict[str, str] = {}

    def look_at(self, batch: ArrowTable, runs: Runs, places: NDArray[np.int64]) -> ArrowTable:
        """The batch with ``record_key``, without rows that have none or one that was seen.

        Args:
            batch: Rows.
            runs: Where the rows of the batch stood that they are of.
            places: Row of that batch that each is.
        """
        self._runs.append(runs)
        hashes = row_hashes(batch, batch.column_names).to_pylist()
        texts = key_texts(batch.column(self._spec.key)).to_pylist()
        keys = [text if text and text.strip() else None for text in texts]
        wanted = [
            self._new(key, hash_, at)
            for key, hash_, at in zip(keys, hashes, places.tolist(), strict=True)
        ]
        keyed = batch.append_column(KEY, pa.array(keys, pa.string()))
        return keyed if all(wanted) else keyed.filter(pa.array(wanted, pa.bool_()))

    def _new(self, key: str | None, hash_: str, at: int) -> bool:
        if key is None:
            self._nulls += 1
            self._first_null = self._first_null or place_in(self._runs[-1], at)
            return False
        mine = (hash_, len(self._runs) - 1, at)
        other = self._seen.setdefault(key, mine)
        if other is mine:
            return True
        if other[0] != hash_ and self._spec.on_duplicate == "error" and key not in self._twice:
            both = (place_in(self._runs[batch], row) for _, batch, row in (other, mine))
            self._twice[key] = " and ".join(both)
        return False

    def faults(self) -> list[Fault]:
        """Faults: rows without a key, and keys of several different rows."""
        column, faults = self._spec.key, []
        if self._nulls:
            several = count_noun(self._nulls, "row has", "rows have")
            error = RecordsError(
                f"{several} no {column!r}; the first is {self._first_null}",
                where=self._spec.place("key"),
                hint=f"use another key, or leave out such rows: require: [{column}]",
            )
            faults.append(Fault.of(error))
        for key, where in list(self._twice.items())[:_SHOWN]:
            shown = key if len(key) <= _KEY else f"{key[:_KEY]}…"
            twice = DuplicateKeyError(
                f"two different rows have the key {shown!r} ({column})",
                where=where,
                hint="use a unique key, or set on_duplicate: first or last",
            )
            faults.append(Fault.of(twice))
        if len(self._twice) > _SHOWN:
            more = len(self._twice) - _SHOWN
            further_keys = f"{more:,} more keys" if more > 1 else "1 more key"
            faults.append(Fault(f"two different rows have {further_keys}", self._spec.place("key")))
        return faults
