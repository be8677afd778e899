"""Clusters of dependent rows: by gold document, gold passage, question, or a field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ..core import MetaValue, Row, TestsetError, case_folded, count_noun, text_hash
from ..testsets import join_clusters
from ._results import RowResult

ROW = "row"
"""Value of ``by`` for independent rows."""
DOCUMENT = "document"
PASSAGE = "passage"
QUESTION = "user_input"

FEW_DOCUMENTS = 20
"""Number of gold documents below which rows are clustered by passage."""

_SPAN = re.compile(r"(?P<start>\d+)-(?P<end>\d+) (?P<document>.*)", re.DOTALL)

Shared = Mapping[str, Sequence[str]]
"""Field -> values that a row may share with others."""


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


def list_shared_values(row: Row) -> dict[str, tuple[str, ...]]:
    """Return the values that a row may share with others: field -> values, without empty ones.

    Its question is included as a hash, for results without the row.
    """
    question = case_folded(row.user_input)
    graded = {name for name, grade in row.reference_ids.items() if grade > 0}
    spans = {f"{span.start}-{span.end} {span.document_id}" for span in row.reference_spans}
    shared: dict[str, MetaValue] = {
        **row.metadata,
        "persona_name": row.persona_name,
        QUESTION: text_hash(question) if question else "",
        DOCUMENT: tuple(sorted(graded | {span.document_id for span in row.reference_spans})),
        PASSAGE: tuple(sorted(spans)),
    }
    return {
        name: value if isinstance(value, tuple) else (str(value),)
        for name, value in shared.items()
        if value not in ("", ())
    }


def read_shared_values(row: Row | RowResult) -> Shared:
    """Return the values of a row, or of that of a result; see :func:`list_shared_values`."""
    if isinstance(row, Row):
        return list_shared_values(row)
    return row.shared if row.row is None else list_shared_values(row.row)


def clusters_of_rows(rows: Iterable[Row], by: str = "") -> Clusters:
    """Cluster rows by what they share; see :func:`cluster_shared`. They are read once."""
    kept = (DOCUMENT, PASSAGE, QUESTION, by)  # not the rows: a file may be larger than memory
    shared = ((row.id, list_shared_values(row)) for row in rows)
    return cluster_shared(
        {row: {name: of_row[name] for name in kept if name in of_row} for row, of_row in shared}, by
    )


def clusters_of_results(results: Iterable[RowResult], by: str = "") -> Clusters:
    """Cluster rows by their stored results, one or several per row; see :func:`cluster_shared`.

    Each field is taken from the first result that has it.
    """
    shared: dict[str, Shared] = {}
    for result in results:
        shared[result.row_id] = {**read_shared_values(result), **shared.get(result.row_id, {})}
    return cluster_shared(shared, by)


def cluster_shared(shared: Mapping[str, Shared], by: str = "") -> Clusters:
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
        shared: Row id -> what it may share.
        by: ``document`` or ``passage`` for that alone, ``row`` for independent rows,
            ``persona_name`` or a metadata field; empty: chosen by the number of documents.

    Raises:
        TestsetError: No row has the field.
    """
    if by == ROW:
        return Clusters({}, ROW)
    if by and not any(by in of_row for of_row in shared.values()):
        raise TestsetError(
            f"no row has {by!r} for clustering",
            hint="use document, passage (gold spans), row, persona_name, or a column of the rows",
        )
    if by not in ("", DOCUMENT, PASSAGE):
        return Clusters({row: of_row.get(by, (ROW, row)) for row, of_row in shared.items()}, by)
    by_document = Clusters(_clusters_by_document(shared), DOCUMENT)
    documents = len({name for of_row in shared.values() for name in of_row.get(DOCUMENT, ())})
    # Passages do not separate rows whose gold is whole documents.
    with_gold = [of_row for of_row in shared.values() if DOCUMENT in of_row]
    separable = with_gold and all(PASSAGE in of_row for of_row in with_gold)
    if by == DOCUMENT or (not by and (documents >= FEW_DOCUMENTS or not separable)):
        return by_document
    blocks = _overlapping_passages(shared)
    clusters = join_clusters(
        {
            row: [
                *(blocks.get(row) or [f"in\x00{name}" for name in of_row.get(DOCUMENT, ())]),
                _question_tie(row, of_row),
            ]
            for row, of_row in shared.items()
        }
    )
    if not by and by_document and len({*clusters.values()}) <= len({*by_document.values()}):
        return by_document
    note = (
        f"rows are clustered by gold passage: their gold is in "
        f"{count_noun(documents, 'document')}, "
        f"fewer than {FEW_DOCUMENTS}; the result is about {'it' if documents == 1 else 'these'} "
        "alone (--cluster changes this)"
    )
    return Clusters(clusters if _largest(clusters) > 1 else {}, PASSAGE, "" if by else note)


def _question_tie(row: str, of_row: Shared) -> str:
    return f"question\x00{of_row[QUESTION][0]}" if QUESTION in of_row else f"row\x00{row}"


def _largest(clusters: Mapping[str, Hashable]) -> int:
    return max(Counter(clusters.values()).values(), default=0)


def _clusters_by_document(shared: Mapping[str, Shared]) -> Mapping[str, Hashable]:
    for limit in (None, 1, 0):
        clusters = join_clusters(
            {
                row: [
                    *(f"document\x00{name}" for name in of_row.get(DOCUMENT, ())[:limit]),
                    _question_tie(row, of_row),
                ]
                for row, of_row in shared.items()
            }
        )
        if 2 * _largest(clusters) <= len(clusters):
            break
    return clusters if _largest(clusters) > 1 else {}


def _overlapping_passages(shared: Mapping[str, Shared]) -> dict[str, list[str]]:
    """Number the passages of each row; passages that overlap have the same number."""
    spans = sorted(
        (match["document"], int(match["start"]), int(match["end"]), row)
        for row, of_row in shared.items()
        for text in of_row.get(PASSAGE, ())
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
