"""Rows that are not independent observations: clusters by gold document, question, or a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ...core import MetaValue, Row, TestsetError, text_hash
from ...testsets import joined

DOCUMENT = "document"
QUESTION = "user_input"


def clusters_of_rows(rows: Iterable[Row]) -> dict[str, Hashable]:
    """Row id -> cluster, by shared gold documents and questions; empty if none are shared.

    Rows are in one cluster if a chain of shared gold documents (grade above 0) links them:
    ``{a, b}``, ``{b, c}`` and ``{c}`` are one. If the largest cluster would hold more than half of
    the rows (multi-hop collections, pooled judgments), only the first gold document of each row by
    id is used, as for splits. If most rows are still about one document, documents are not a
    sample: then that document links nothing.

    Rows with the same question, such as for several personas, are always in one cluster. Other rows
    are independent.
    """
    gold: dict[str, tuple[str, ...]] = {}
    asked: dict[str, str] = {}
    for row in rows:  # read once and not kept: a file may be larger than memory
        gold[row.id] = _gold(row)
        asked[row.id] = question_of(row)
    return clusters_of_gold(gold, asked)


def cluster_of(row: Row, by: str) -> Hashable:
    """The cluster a row belongs to by a field: ``persona_name``, or one of its metadata.

    ``document`` is the first gold document by id, without gold the question, without one the row
    itself; :func:`clusters_of_rows` follows chains of shared documents, too. ``user_input`` is the
    question.

    Raises:
        TestsetError: The row does not have the field.
    """
    if by == DOCUMENT:
        gold = _gold(row)
        return gold[0] if gold else (QUESTION, question_of(row) or ("row", row.id))
    facts = shared_by(row)
    if by not in facts:
        raise no_field(row.id, by)
    return facts[by]


def shared_by(row: Row) -> dict[str, tuple[str, ...]]:
    """Values that a row may share with others: field -> values, without empty ones.

    Its question is included as a hash, for results without the row.
    """
    found = {name: _values(value) for name, value in row.metadata.items()}
    found |= {
        "persona_name": _values(row.persona_name),
        QUESTION: _values(question_of(row)),
        DOCUMENT: _gold(row),
    }
    return {name: values for name, values in found.items() if values}


def question_of(row: Row) -> str:
    """Hash of a row's question, ignoring spaces and case; empty without a question."""
    asked = " ".join(row.user_input.casefold().split())
    return text_hash(asked) if asked else ""


def _values(value: MetaValue) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (str(value),) if value != "" else ()


def _gold(row: Row) -> tuple[str, ...]:
    """Relevant documents, sorted; irrelevant ones (grade 0) link nothing."""
    graded = {name for name, grade in row.reference_ids.items() if grade > 0}
    return tuple(sorted(graded | {span.document_id for span in row.reference_spans}))


def clusters_of_gold(
    gold: Mapping[str, Sequence[str]], questions: Mapping[str, str] | None = None
) -> dict[str, Hashable]:
    """Row id -> cluster, from the relevant documents of each row; see :func:`clusters_of_rows`.

    ``questions`` holds the question of each row, empty or left out if unknown.
    """
    asked = questions or {}
    for most in (None, 1, 0):
        found = joined(
            {
                row: [
                    *(f"document\x00{name}" for name in names[:most]),
                    f"question\x00{asked[row]}" if asked.get(row) else f"row\x00{row}",
                ]
                for row, names in gold.items()
            }
        )
        largest = max(Counter(found.values()).values(), default=0)
        if 2 * largest <= len(found) or most == 0:
            return dict(found) if largest > 1 else {}
    return {}


def no_field(row: str, by: str) -> TestsetError:
    """The error for a row without the clustering field."""
    return TestsetError(
        f"row {row!r} has no {by!r} for clustering",
        hint="use document, persona_name, or a column that every row has; runs of older versions "
        "lack this: run it again",
    )
