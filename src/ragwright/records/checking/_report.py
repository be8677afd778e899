"""The report of a check of the declarations, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from ...core import RagwrightError

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
