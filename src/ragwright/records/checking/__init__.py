"""`records check`: tests of rows, patterns and rules, and the report."""

from ._patterns import TriedPatterns, try_steps, try_tags
from ._report import CheckReport, ExampleRow, Fault, PatternFacts
from ._rows import Sample, find_empty, sample_rows
from ._rules import (
    contradiction_facts,
    is_about_rule,
    is_mark,
    mark_rules,
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
