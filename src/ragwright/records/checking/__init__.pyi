from ._patterns import (
    TriedPatterns as TriedPatterns,
    try_steps as try_steps,
    try_tags as try_tags,
)
from ._report import (
    CheckReport as CheckReport,
    ExampleRow as ExampleRow,
    Fault as Fault,
    PatternFacts as PatternFacts,
)
from ._rows import Sample as Sample, empty as empty, sample_rows as sample_rows
from ._rules import (
    contradiction_facts as contradiction_facts,
    is_mark as is_mark,
    marked_rules as marked_rules,
    named_at as named_at,
    refinement_facts as refinement_facts,
    usable_rules as usable_rules,
)
