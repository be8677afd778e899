"""Answer correctness: claims that answer and reference share, and how alike both are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import MeasureError, Row, Score
from ..flow import Flow, embed, gather, unpack_settled
from ._claims import Checked, check_claims
from ._measure import Measure
from ._setup import MeasureSetup

CLAIMS, LIKENESS = 0.75, 0.25
"""Weights of the two parts, those of ragas."""


def answer_correctness(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """0.75 x F1 of the claims + 0.25 x cosine similarity of response and reference.

    TP are claims of the response that the reference supports, FP those it does not, FN claims of
    the reference that the response does not support; F1 = TP / (TP + (FP + FN) / 2). Up to four
    calls to the judge, one to the embedder.

    Raises:
        MeasureError: The embedder gives a vector of length 0.
    """
    name, response, gold = str(measure), row.response or "", row.reference or ""
    outcomes: list[Any] = yield from gather(
        [
            check_claims(replace(row, retrieved_contexts=(gold,)), setup, sample),
            check_claims(
                replace(row, response=gold, retrieved_contexts=(response,)), setup, sample
            ),
        ],
        settle=True,
    )
    lists: list[Sequence[Checked]] = []
    for outcome in outcomes:
        claims_checked: Sequence[Checked] | Score = unpack_settled(outcome)
        if isinstance(claims_checked, Score):
            return replace(claims_checked, measure=name)
        lists.append(claims_checked)
    response_claims, reference_claims = lists
    if not response_claims and not reference_claims:
        reason = "neither the response nor the reference claims anything"
        return Score(name, "not_applicable", reason=reason)
    right, wrong, lacking = (
        _held_count(response_claims),
        len(response_claims) - _held_count(response_claims),
        len(reference_claims) - _held_count(reference_claims),
    )
    shared = right / (right + (wrong + lacking) / 2) if right else 0.0
    alike = yield from _text_cosine(setup.embedder, response, gold)
    lines = [f"{'+' if c.held else '-'} {c.text} ({c.reasoning})" for c in response_claims]
    lines += [f"missing: {c.text} ({c.reasoning})" for c in reference_claims if not c.held]
    value = CLAIMS * shared + LIKENESS * alike
    parts = {"F1 of claims": shared, "similarity": alike}
    return Score(name, "scored", value, detail="\n".join(lines), parts=parts)


def _held_count(claims: Sequence[Checked]) -> int:
    return sum(claim.held for claim in claims)


def _text_cosine(model: str, first: str, second: str) -> Flow[float]:
    vectors = np.asarray((yield from embed(model, (first, second), "query")), np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    if not (lengths > 0).all():
        raise MeasureError(
            "a text has a vector of length 0: its direction is undefined",
            hint="check the embedding model with `ragwright doctor`",
        )
    return float((vectors[0] @ vectors[1] / (lengths[0] * lengths[1])).clip(-1, 1))
