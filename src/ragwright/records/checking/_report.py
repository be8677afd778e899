"""The report of a check of the declarations, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core import PatternError, RagwrightError, RecordsError, count_noun
from .._patterns import Replace
from .._seams import KEY, TEXT, ArrowTable, compute, pa
from ..declared import Cleaning, CleaningStep, MaxRepeat, Refinement, Rules, Tags
from ..stages import clean_texts, find_tags, limit_repeats

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
