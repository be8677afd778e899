"""Measures of retrieval against gold documents and gold spans, and what counts as gold."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core import GoldSpan, MeasureError, Row, Score, Span, citation_marks
from ._definition import Definition, MeasureScale
from ._measure import Measure
from ._rubric import MeasureSetup


def retrieval_scores(measure: Measure, ranking: Sequence[str], qrels: Mapping[str, int]) -> Score:
    """Score one ranking of document ids by one measure.

    Args:
        measure: A measure of kind ``retrieval``.
        ranking: Document ids, best first; a document that occurs several times (several of
            its chunks were found) counts once, at its best rank.
        qrels: Document id -> grade; above 0 is relevant, unless ``rel=N`` says otherwise.

    Returns:
        A value from 0 to 1. If documents are judged but none is relevant it is 0, as in trec_eval;
        with ``norel=skip``, or if nothing is judged, the state is ``not_applicable``.

    Raises:
        MeasureError: The measure does not score rankings.
    """
    if measure.definition.kind != "retrieval":
        raise MeasureError(f"{measure} does not score rankings")
    level, skip = _parse_parameter(measure.parameter)
    judged = list(qrels.values())
    if not any(grade >= level for grade in judged):
        if judged and not skip:
            return Score(str(measure), "scored", 0.0, counted="documents")
        grade_text = "" if level == 1 else f" of grade {level} or more"
        return Score(
            str(measure), "not_applicable", reason=f"no relevant document{grade_text}", no_gold=True
        )
    grades = [[qrels.get(document, 0)] for document in dict.fromkeys(ranking)]
    cutoff = sys.maxsize if measure.cutoff is None else measure.cutoff
    return Score(
        str(measure),
        "scored",
        _ranking_value(measure.name, grades, judged, cutoff, level),
        counted="documents",
    )


def no_relevant_note(measures: Sequence[Measure], topics: Sequence[Mapping[str, int]]) -> str:
    """A note on judged topics without relevant documents; empty if there are none.

    Args:
        measures: The measures; kinds other than ``retrieval`` are skipped.
        topics: Document id -> grade, of every topic.
    """
    parts = []
    for measure in measures:
        if measure.definition.kind != "retrieval":
            continue
        level, skip = _parse_parameter(measure.parameter)
        bare = sum(bool(grades) and max(grades.values()) < level for grades in topics)
        if bare:
            treatment = "left out" if skip else "scored 0, as trec_eval does"
            parts.append(f"{measure}: {bare} of {len(topics)} judged topics, {treatment}")
    if not parts:
        return ""
    return f"topics without a relevant document ({'; '.join(parts)}); norel=skip leaves them out"


def _parse_parameter(parameter: str) -> tuple[int, bool]:
    """The lowest relevant grade, and whether topics without relevant documents are skipped."""
    parts = dict(part.split("=") for part in parameter.split(",") if part)
    return int(parts.get("rel", 1)), parts.get("norel") == "skip"


def _ranking_value(
    name: str, hits: Sequence[Sequence[int]], ideal: Sequence[int], k: int, level: int = 1
) -> float:
    """Value of a measure of rankings, 0 to 1.

    Args:
        name: The measure's name.
        hits: Per rank, the grades of the gold that the hit is the first to hold: one for a
            document, one for each gold span that a passage covers.
        ideal: Grades of all gold: the ideal must not depend on what was returned.
        k: The cutoff.
        level: The lowest relevant grade.
    """
    earned = [sum(grade >= level for grade in grades) for grades in hits[:k]]
    ranks = [rank for rank, count in enumerate(earned, 1) if count]
    relevant = sum(grade >= level for grade in ideal)
    if name == "nDCG":
        best = [[grade] for grade in sorted(ideal, reverse=True)]
        return _discounted_gain(hits[:k], k) / _discounted_gain(best[:k], k)
    if name == "MRR":
        return 1 / ranks[0] if ranks else 0.0
    if name == "MAP":
        return sum(count / rank for count, rank in enumerate(ranks, 1)) / relevant
    if name == "Precision":
        return len(ranks) / k
    return sum(earned) / relevant if name == "Recall" else float(bool(ranks))  # HitRate


def _discounted_gain(hits: Sequence[Sequence[int]], k: int) -> float:
    # A passage that covers several spans would beat the ideal of one per rank; its further spans
    # take the next places instead, so that the maximum is 1 and whole passages can reach it.
    gain, place = 0.0, 0
    for rank, grades in enumerate(hits, 1):
        for grade in grades:
            place = max(rank, place + 1)
            gain += grade / math.log2(place + 1) if grade > 0 and place <= k else 0.0
    return gain


def span_value(row: Row, measure: Measure, setup: MeasureSetup) -> float | str:
    """A measure of kind ``retrieval`` or ``span`` against the gold spans of a row, 0 to 1.

    Returns the reason if the measure does not apply to these spans.
    """
    if "rel=" in measure.parameter.removesuffix("norel=skip"):
        return NoGold(f"gold spans have no grades for {measure.parameter}")
    k = sys.maxsize if measure.cutoff is None else measure.cutoff
    if measure.definition.kind == "span":
        return _character_value(measure.name, row.retrieved_spans[:k], row.reference_spans)
    earned = spans_earned(row.retrieved_spans[:k], row.reference_spans)
    gold = [1] * len(set(_span_places(row.reference_spans)))
    return _ranking_value(measure.name, [[1] * count for count in earned], gold, k)


def citation_value(row: Row, measure: Measure) -> float | str:
    """`CitationPrecision` or `CitationRecall` of the passages that an answer cites, 0 to 1.

    The marks are those in the response, and the numbers that were resolved in it before
    (``metadata["cited"]``).
    """
    known = row.metadata.get("cited")
    numbers = {int(text) for text in known} if isinstance(known, tuple) else set[int]()
    numbers |= {n for mark in citation_marks(row.response_text) for n in mark.numbers}
    if not numbers and measure.name == "CitationPrecision":
        return "the response cites nothing"
    if row.reference_spans and row.retrieved_spans:
        passages: Sequence[GoldSpan] = row.retrieved_spans
        gold = len(set(_span_places(row.reference_spans)))
    else:
        passages = [GoldSpan(name, 0, 1) for name in row.retrieved_context_ids]
        row = replace(
            row,
            reference_spans=tuple(
                GoldSpan(name, 0, 1) for name, grade in row.reference_ids.items() if grade > 0
            ),
        )
        gold = len(row.reference_spans)
    cited = [passages[number - 1] for number in numbers if number <= len(passages)]
    if measure.name == "CitationRecall":
        return (
            sum(spans_earned(cited, row.reference_spans)) / gold
            if gold
            else NoGold("no relevant document")
        )
    return sum(any(spans_earned([one], row.reference_spans)) for one in cited) / len(numbers)


def spans_earned(retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> list[int]:
    """Number of gold spans that each passage is the first to cover by at least half, in order."""
    uncovered = dict.fromkeys(_span_places(gold))
    earned = []
    for passage in retrieved:
        passage_span = Span(passage.start, passage.end)
        covered = [
            (document, span)
            for document, span in uncovered
            if document == passage.document_id and 2 * passage_span.overlap(span) >= span.length
        ]
        for place in covered:
            del uncovered[place]
        earned.append(len(covered))
    return earned


def _span_places(spans: Iterable[GoldSpan]) -> list[tuple[str, Span]]:
    return [(span.document_id, Span(span.start, span.end)) for span in spans]


def _character_value(name: str, retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> float:
    retrieved_ranges, gold_ranges = _disjoint_ranges(retrieved), _disjoint_ranges(gold)
    common = sum(
        max(0, min(end, other_end) - max(start, other_start))
        for document, ranges in retrieved_ranges.items()
        for start, end in ranges
        for other_start, other_end in gold_ranges.get(document, ())
    )
    size, gold_size = _total_length(retrieved_ranges), _total_length(gold_ranges)
    if name == "SpanPrecision":
        return common / size if size else 0.0  # a search that found nothing covers no span
    return common / (size + gold_size - common)


def _disjoint_ranges(spans: Iterable[GoldSpan]) -> dict[str, list[tuple[int, int]]]:
    """Document -> disjoint ranges of characters, in order."""
    by_document: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start):
        ranges = by_document[span.document_id]
        if ranges and span.start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.end))
        else:
            ranges.append((span.start, span.end))
    return by_document


def _total_length(ranges: dict[str, list[tuple[int, int]]]) -> int:
    return sum(end - start for spans in ranges.values() for start, end in spans)


GOLD = frozenset({"reference", "reference_contexts", "reference_ids", "reference_spans"})
"""Fields of a row that its author fills in, not a system."""


class NoGold(str):
    """A reason for a missing value that lies in the row's gold, not in the answer."""

    __slots__ = ()


_MARKS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_mark(row: Row, name: str) -> bool | None:
    """A mark in a row's metadata, None if it is not set.

    Tables contain it as a word or a number: true, yes, 1, false, no, 0.

    Raises:
        MeasureError: It has another value. If it were ignored, a refusal would count as an answer.
    """
    value = row.metadata.get(name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        mark = {1.0: True, 0.0: False}.get(float(value))
    elif isinstance(value, str):
        if not value.strip():
            return None
        mark = _MARKS.get(value.strip().lower())
    else:
        mark = None
    if mark is None:
        raise MeasureError(
            f"`{name}` must be true or false, not {value!r}",
            where=f"row {row.id!r}",
            hint="write true or false (yes, no, 1 and 0 also work), or leave it out",
        )
    return mark


def lacks_gold(row: Row, definition: Definition) -> bool:
    """True if this row lacks gold in every set of fields that the measure can use."""
    due = [definition.needs, *([definition.instead] if definition.instead else [])]
    return all(gold_missing(row, names) for names in due)


def gold_missing(row: Row, fields: Sequence[str]) -> bool:
    """True if one of the fields is gold and empty."""
    return any(name in GOLD and not _is_given(row, name) for name in fields)


def gold_given(fields: Mapping[str, Any]) -> bool:
    """True if any field of a row holds gold; of graded documents, one above 0."""
    for name in GOLD:
        value = fields.get(name)
        if isinstance(value, Mapping):
            value = any(grade > 0 for grade in value.values())
        elif isinstance(value, str):
            value = value.strip(" \n[]{}")  # a cell of a table may hold an empty list
        if value:
            return True
    return False


def _is_given(row: Row, name: str) -> bool:
    value = getattr(row, name)
    return bool(value.strip() if isinstance(value, str) else value)


def all_counted(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """``spans``, ``documents`` or both, of what two runs counted in each row, in this order."""
    return tuple(sorted({kind for pair in pairs for kind in pair if kind}, reverse=True))


def explain_counted_apart(pairs: Sequence[tuple[str, str]]) -> str:
    """The reason why scores cannot be compared, from the gold that two runs counted; empty if they
    can.
    """
    scored = [pair for pair in pairs if all(pair)]
    differing = [pair for pair in scored if pair[0] != pair[1]]
    if not differing:
        return ""
    if len(set(differing)) == 1:
        difference = "the first run counted {} and the second {}".format(*differing[0])
    else:
        difference = "the two runs counted different gold, spans and documents,"
    rows = (
        "every row" if len(differing) == len(scored) else f"{len(differing)} of {len(scored)} rows"
    )
    return f"{difference} in {rows}: measure again the run that counted documents"


def pair_by_question(
    first: Iterable[tuple[str, str]], second: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Ids for the rows of a first run: those of the rows of a second one with the same question.

    Rows are (id, question); equal questions are paired in their order. A row that has no partner
    gets an id that no row has.
    """
    ids_of: dict[str, list[str]] = {}
    for row_id, question in second:
        ids_of.setdefault(question, []).append(row_id)
    pairs = {}
    for row_id, question in first:
        same = ids_of.get(question)
        pairs[row_id] = same.pop(0) if same else f"{row_id} of the first run"
    return pairs


NOTHING = "the response is empty"

_SAYS: Mapping[str, float | str] = {
    "BERTScore": 0.0,  # as bert-score has it
    "Claims": "it makes no claims",
    "Completeness": 0.0,
    "MoverScore": -1.0,  # the end of the scale: there are no tokens to move
    "Perplexity": "it has no tokens",
    "Q2": "it has no span to ask about",
    "QADistance": "it has no vector",
    "QuestionSimilarity": "no question can be written from it",
}
"""A value, or why there is none; for rubric measures the rubric decides."""


def withheld(row: Row, measure: str) -> Score | None:
    """The score of a row that its system declined to answer; None if it did not.

    On a row marked ``answerable: false`` that was right, and is not counted. On another row with
    gold it is a missed answer: its state has no value, comparisons count the worst one.

    Raises:
        MeasureError: One of the two marks is neither true nor false.
    """
    if not read_mark(row, "abstained"):
        return None
    answerable = read_mark(row, "answerable")
    gold = answerable or gold_given({name: getattr(row, name) for name in GOLD})
    return Score(
        measure,
        "abstained",
        reason="the system gave no answer",
        unanswerable=answerable is False,
        missed=bool(gold) and answerable is not False,
    )


def count_as_worst(score: Score, scale: MeasureScale | None) -> Score:
    """A score in which a missed answer has the worst value of the scale, if there is one."""
    worst = scale.worst if score.missed and scale is not None else None
    return score if worst is None else Score(score.measure, "scored", worst)


def score_empty_answer(row: Row, measure: Measure) -> Score | None:
    """The score of an empty answer; None if the measure must be computed."""
    value_or_reason = None if row.response_text else _SAYS.get(measure.name)
    if value_or_reason is None:
        return None
    if isinstance(value_or_reason, str):
        return Score(str(measure), "not_applicable", reason=f"{NOTHING}: {value_or_reason}")
    return Score(str(measure), "scored", value_or_reason, detail=NOTHING)
