"""Clusters of dependent rows: by gold document, gold passage, question, or a field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ...core import MetaValue, Row, TestsetError, case_folded, count_noun, text_hash
from ...testsets import join_clusters

DOCUMENT = "document"
PASSAGE = "passage"
QUESTION = "user_input"
GOLD_PASSAGES = "gold passages"
"""Key of the gold passages in results of rows that are not stored."""

FEW_DOCUMENTS = 20
"""Number of gold documents below which rows are clustered by passage."""

_SPAN = re.compile(r"(?P<start>\d+)-(?P<end>\d+) (?P<document>.*)", re.DOTALL)


class Clusters(dict[str, Hashable]):
    """Row id -> cluster; empty if all rows are independent.

    Attributes:
        by: The field that the rows of a cluster share.
        note: Reason for clustering by that field, if it is not obvious.
    """

    def __init__(self, clusters: Mapping[str, Hashable], by: str = "", note: str = "") -> None:
        super().__init__(clusters)
        self.by = by
        self.note = note


def clusters_of_rows(rows: Iterable[Row], by: str = "") -> Clusters:
    """Cluster rows by shared gold and questions: row id -> cluster; empty if none are shared.

    Rows are in one cluster if a chain of shared gold documents (grade above 0) links them:
    ``{a, b}``, ``{b, c}`` and ``{c}`` are one. If the largest cluster would hold more than half of
    the rows (multi-hop collections, pooled judgments), only the first gold document of each row by
    id is used, as for splits. If most rows are still about one document, documents are not a
    sample: then that document links nothing.

    Fewer than 20 documents are too few observations for a verdict. Then rows are linked by gold
    passages that overlap, if their gold is spans: the result is about these documents.

    Rows with the same question, such as for several personas, are always in one cluster. Other rows
    are independent.

    Args:
        rows: Read once.
        by: ``document`` or ``passage`` for that alone; empty: chosen by the number of documents.
    """
    gold: dict[str, tuple[str, ...]] = {}
    questions: dict[str, str] = {}
    passages: dict[str, tuple[str, ...]] = {}
    for row in rows:  # read once and not kept: a file may be larger than memory
        gold[row.id] = _gold_documents(row)
        questions[row.id] = question_of(row)
        passages[row.id] = _gold_passages(row)
    return clusters_of_gold(gold, questions, passages, by)


def cluster_of(row: Row, by: str) -> Hashable:
    """Return the cluster of a row by a field: ``persona_name``, or one of its metadata.

    ``document`` is the first gold document by id; without gold, the question; without a question,
    the row itself. :func:`clusters_of_rows` also follows chains of shared documents.
    ``user_input`` is the question.

    Raises:
        TestsetError: The row does not have the field.
    """
    if by == PASSAGE and PASSAGE not in row.metadata:
        passages = _gold_passages(row)
        if not passages:
            raise no_field(row.id, by)
        return passages[0]
    if by == DOCUMENT:
        gold = _gold_documents(row)
        return gold[0] if gold else (QUESTION, question_of(row) or ("row", row.id))
    facts = list_shared_values(row)
    if by not in facts:
        raise no_field(row.id, by)
    return facts[by]


def list_shared_values(row: Row) -> dict[str, tuple[str, ...]]:
    """Return the values that a row may share with others: field -> values, without empty ones.

    Its question is included as a hash, for results without the row.
    """
    facts = {name: _metadata_values(value) for name, value in row.metadata.items()}
    facts |= {
        "persona_name": _metadata_values(row.persona_name),
        QUESTION: _metadata_values(question_of(row)),
        DOCUMENT: _gold_documents(row),
        GOLD_PASSAGES: _gold_passages(row),
    }
    return {name: values for name, values in facts.items() if values}


def question_of(row: Row) -> str:
    """Hash a row's question, ignoring spaces and case; empty without a question."""
    normalised = case_folded(row.user_input)
    return text_hash(normalised) if normalised else ""


def _metadata_values(value: MetaValue) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (str(value),) if value != "" else ()


def _gold_documents(row: Row) -> tuple[str, ...]:
    """Return the relevant documents, sorted; irrelevant ones (grade 0) link nothing."""
    graded = {name for name, grade in row.reference_ids.items() if grade > 0}
    return tuple(sorted(graded | {span.document_id for span in row.reference_spans}))


def _gold_passages(row: Row) -> tuple[str, ...]:
    """Return gold passages as texts, sorted: ``120-480 docs/manual.md``."""
    spans = {f"{span.start}-{span.end} {span.document_id}" for span in row.reference_spans}
    return tuple(sorted(spans))


def clusters_of_gold(
    gold: Mapping[str, Sequence[str]],
    questions: Mapping[str, str] | None = None,
    passages: Mapping[str, Sequence[str]] | None = None,
    by: str = "",
) -> Clusters:
    """Cluster rows by their relevant documents; see :func:`clusters_of_rows`.

    Args:
        gold: Row id -> its relevant documents.
        questions: Row id -> its question, empty or left out if unknown.
        passages: Row id -> its gold passages; empty or left out if unknown.
        by: ``document`` or ``passage`` for that alone; empty: chosen by the number of documents.
    """
    hashes = questions or {}
    by_document = Clusters(_clusters_by_document(gold, hashes), DOCUMENT)
    documents = len({name for names in gold.values() for name in names})
    if by == DOCUMENT or not any((passages or {}).values()):
        return by_document
    gold_passages = passages or {}
    # Passages do not separate rows whose gold is whole documents.
    separable = all(gold_passages.get(row) for row, names in gold.items() if names)
    if by != PASSAGE and (documents >= FEW_DOCUMENTS or not separable):
        return by_document
    blocks = _overlapping_passages(gold_passages)
    by_passage = join_clusters(
        {
            row: [
                *(blocks.get(row) or [f"in\x00{name}" for name in names]),
                f"question\x00{hashes[row]}" if hashes.get(row) else f"row\x00{row}",
            ]
            for row, names in gold.items()
        }
    )
    if by != PASSAGE and by_document and _cluster_count(by_passage) <= _cluster_count(by_document):
        return by_document
    note = (
        f"rows are clustered by gold passage: their gold is in "
        f"{count_noun(documents, 'document')}, "
        f"fewer than {FEW_DOCUMENTS}; the result is about {'it' if documents == 1 else 'these'} "
        "alone (--cluster changes this)"
    )
    together = max(Counter(by_passage.values()).values(), default=0) > 1
    return Clusters(by_passage if together else {}, PASSAGE, "" if by else note)


def _cluster_count(clusters: Mapping[str, Hashable]) -> int:
    return len(set(clusters.values()))


def _overlapping_passages(passages: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Number the passages of each row; passages that overlap have the same number."""
    spans = sorted(
        (match["document"], int(match["start"]), int(match["end"]), row)
        for row, texts in passages.items()
        for text in texts
        if (match := _SPAN.fullmatch(text))
    )
    numbers: dict[str, list[str]] = {}
    number, document, furthest = 0, "", 0
    for name, start, end, row in spans:
        if name != document or start >= furthest:
            number, document, furthest = number + 1, name, end
        furthest = max(furthest, end)
        numbers.setdefault(row, []).append(f"passage\x00{number}")
    return numbers


def _clusters_by_document(
    gold: Mapping[str, Sequence[str]], questions: Mapping[str, str]
) -> dict[str, Hashable]:
    for limit in (None, 1, 0):
        clusters = join_clusters(
            {
                row: [
                    *(f"document\x00{name}" for name in names[:limit]),
                    f"question\x00{questions[row]}" if questions.get(row) else f"row\x00{row}",
                ]
                for row, names in gold.items()
            }
        )
        largest = max(Counter(clusters.values()).values(), default=0)
        if 2 * largest <= len(clusters) or limit == 0:
            return dict(clusters) if largest > 1 else {}
    return {}


def no_field(row: str, by: str) -> TestsetError:
    """Return the error for a row without the clustering field."""
    return TestsetError(
        f"row {row!r} has no {by!r} for clustering",
        hint="use document, passage (gold spans), persona_name, or a column that every row has",
    )
