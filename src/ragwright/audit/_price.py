"""The price of findings: points lost on a test set, or how often their passages are first hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..core import GoldSpan, Hit, Row, counted
from ..experiment import with_hits
from ..measure import Measure, parse_measure, score_rows
from ._questions import Results
from ._records import POINTS, Finding, Place

MEASURE = "nDCG@10"
"""Measure of the points that are lost."""

_COMPETING = frozenset(("contradictions", "copies", "age"))
"""Kinds whose passages take the ranks of better ones: they are taken out of the hits."""


def priced(findings: Iterable[Finding], results: Results) -> list[Finding]:
    """Findings with their cost."""
    measure = parse_measure(MEASURE)
    by_testset = bool(results.of("testset"))
    asked = results.of("testset") or results.of("served") or results.of("own")
    origin = results.searched[asked[0]].question.origin if asked else "own"
    names = {"served": "served question", "own": "question made from the documents"}
    among = frozenset(asked)
    priced_ones = []
    for finding in findings:
        finding = _with_first_hits(finding, results, among)
        if finding.cost is not None or not asked or finding.kind == "reach":
            priced_ones.append(finding)
        elif by_testset:
            points = _points_lost(finding, results, among, measure)
            of = f"{POINTS}{MEASURE} over {counted(len(asked), 'question')}"
            priced_ones.append(replace(finding, cost=points, cost_of=of))
        else:
            touched = set().union(
                *(results.touching(place, results.first) for place in finding.places)
            )
            share = round(len(touched & among) / len(asked), 4)
            plural = counted(len(asked), names.get(origin, "question"), _plural(origin))
            of = f"of {plural} have it among the first {results.first} hits"
            priced_ones.append(replace(finding, cost=share, cost_of=of))
    return priced_ones


def _plural(origin: str) -> str:
    return "questions made from the documents" if origin == "own" else "served questions"


def _with_first_hits(finding: Finding, results: Results, among: frozenset[int]) -> Finding:
    """A pair of copies with the source that answers are taken from."""
    if finding.kind != "copies" or not among:
        return finding
    counts = {
        place.source: len(results.touching(place, results.first) & among)
        for place in finding.places
    }
    if not any(counts.values()):
        return finding
    most = max(counts, key=lambda source: (counts[source], source))
    return replace(finding, marks={**finding.marks, "first_hits": counts, "answers_from": most})


def _points_lost(
    finding: Finding, results: Results, among: frozenset[int], measure: Measure
) -> float:
    """Sum of what the questions lose by a finding: their score without its fault, less as it is.

    Competing passages that are no gold of the question are taken out of the hits. Of other
    findings the spoiled passage is replaced by a whole one: where it is gold, it is put first. The
    second number is the most that a repair can bring.
    """
    total = 0.0
    if finding.kind in _COMPETING:
        numbers: set[int] = set().union(*(results.touching(p, 10) for p in finding.places))
    else:
        numbers = {
            number
            for number in among
            for row in (results.searched[number].question.row,)
            if any(_is_gold(place, row) for place in finding.places)
        }
    for number in sorted(numbers & among):
        row, hits = results.searched[number].question.row, results.searched[number].hits
        if row is None:
            continue
        repaired = _repaired(finding, row, hits)
        before, after = (
            next(iter(score_rows((with_hits(row, h),), (measure,))))[0].value
            for h in (hits, repaired)
        )
        if before is not None and after is not None:
            total += max(0.0, after - before)
    return round(total, 4)


def _repaired(finding: Finding, row: Row, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits of a question as they would be without the fault."""
    if finding.kind in _COMPETING:
        return tuple(
            hit
            for hit in hits
            if not any(_overlap(place, hit) for place in finding.places)
            or any(_is_gold(place, row) for place in finding.places if _overlap(place, hit))
        )
    gold = next(place for place in finding.places if _is_gold(place, row))
    span = next((s for s in row.reference_spans if _within(gold, s)), None)
    start, end = (span.start, span.end) if span else (gold.start, gold.end)
    whole = Hit(
        1, 1.0, gold.document_id, f"{gold.document_id}:{start}-{end}", gold.source, "", gold.page,
        start, end, gold.text,
    )  # fmt: skip
    return (whole, *(hit for hit in hits if not _overlap(gold, hit)))


def _overlap(place: Place, hit: Hit) -> bool:
    return place.document_id == hit.document_id and place.start < hit.end and hit.start < place.end


def _within(place: Place, span: GoldSpan) -> bool:
    return (
        place.document_id == span.document_id
        and place.start < span.end
        and span.start < max(place.end, place.start + 1)
    )


def _is_gold(place: Place, row: Row | None) -> bool:
    """True if a place is evidence of a row: in its gold spans, or of its gold documents."""
    if row is None:
        return False
    if row.reference_spans:
        return any(_within(place, span) for span in row.reference_spans)
    return row.reference_ids.get(place.document_id, 0) > 0
