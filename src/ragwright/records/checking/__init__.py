"""`records check`: tests of rows, patterns and rules, and the report."""

from ._patterns import TriedPatterns, try_steps, try_tags
from ._report import CheckReport, ExampleRow, Fault, PatternFacts
from ._rows import Sample, empty, sample_rows
from ._rules import (
    contradiction_facts,
    is_mark,
    marked_rules,
    named_at,
    refinement_facts,
    usable_rules,
)

__all__ = [
    "CheckReport",
    "ExampleRow",
    "Fault",
    "PatternFacts",
    "Sample",
    "TriedPatterns",
    "contradiction_facts",
    "empty",
    "is_mark",
    "marked_rules",
    "named_at",
    "refinement_facts",
    "sample_rows",
    "try_steps",
    "try_tags",
    "usable_rules",
]
