"""`records check`: tests of rows, patterns and rules, and the report."""

from ._report import (
    CheckReport,
    ExampleRow,
    Fault,
    PatternFacts,
    TriedPatterns,
    contradiction_facts,
    is_about_rule,
    is_mark,
    mark_rules,
    refinement_facts,
    try_steps,
    try_tags,
    usable_rules,
)
from ._rows import Sample, find_empty, sample_rows

__all__ = [
    "CheckReport",
    "ExampleRow",
    "Fault",
    "PatternFacts",
    "Sample",
    "TriedPatterns",
    "contradiction_facts",
    "find_empty",
    "is_about_rule",
    "is_mark",
    "mark_rules",
    "refinement_facts",
    "sample_rows",
    "try_steps",
    "try_tags",
    "usable_rules",
]
