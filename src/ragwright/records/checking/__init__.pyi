from ._patterns import TriedPatterns, marked_slow, try_steps, try_tags
from ._report import CheckReport, ExampleRow, Fault, PatternFacts, RuleFacts, TagOverlap
from ._rows import Sample, empty, sample_rows

__all__ = [
    "CheckReport",
    "ExampleRow",
    "Fault",
    "PatternFacts",
    "RuleFacts",
    "Sample",
    "TagOverlap",
    "TriedPatterns",
    "empty",
    "marked_slow",
    "sample_rows",
    "try_steps",
    "try_tags",
]
