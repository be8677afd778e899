"""Rows with given passages: answered from these, without retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...answer import AnswerSetup, answer
from ...core import Answer, GoldSpan, Hit, Persona, Row, TestsetError, counted
from ...flow import Flow
from ._suites import CLOSED_BOOK, REPORT_ERRORS

_ASKS = "only_context"
"""Part of the prompt on the use of passages, which ``report_errors`` replaces."""


def is_given(row: Row) -> bool:
    """True if a row is part of a capability suite: its passages are the test."""
    return "suite" in row.metadata


def all_given(rows: Iterable[Row], where: str = "") -> bool:
    """True if all rows are part of capability suites, False if none is.

    Raises:
        TestsetError: Only some are: their passages are given, those of the others would be
            retrieved.
    """
    kinds = {is_given(row) for row in rows}
    if len(kinds) > 1:
        raise TestsetError(
            "some rows belong to a capability suite and some do not",
            where=where,
            hint="use two files: a suite's rows are answered from their own passages",
        )
    return kinds == {True}


def given_answer(row: Row, persona: Persona, setup: AnswerSetup) -> Flow[Answer]:
    """Answer a row's question from its own passages, in their order; a control row without any.

    With ``ask: report_errors`` in the row, that variant replaces ``only_context``, unless the
    project has replaced that part itself.

    Raises:
        TestsetError: A passage does not fit the prompt: the dose would differ from the row's.
    """
    closed = row.metadata.get("suite") == CLOSED_BOOK
    chosen = replace(setup, options=replace(setup.options, closed_book=closed, stream=False))
    if row.metadata.get("ask") == REPORT_ERRORS and _ASKS not in setup.prompt.replace:
        parts = {**setup.prompt.replace, _ASKS: REPORT_ERRORS}
        chosen = replace(chosen, prompt=replace(setup.prompt, replace=parts))
    hits = () if closed else _hits(row)
    made = yield from answer(row.user_input, persona, hits, chosen)
    if sorted(hit.text for hit in made.hits) != sorted(hit.text for hit in hits):
        raise TestsetError(
            f"{counted(len(hits), 'passage was', 'passages were')} given, but only "
            f"{len(made.hits)} fit into the prompt",
            where=f"row {row.id}",
            hint="raise answer.context_tokens, or make the suite with fewer --passages",
        )
    how = "without passages" if closed else "the passages of the row"
    return replace(made, route=CLOSED_BOOK if closed else "given", route_reason=how)


def _hits(row: Row) -> tuple[Hit, ...]:
    """The row's passages as hits, named by number, as other names could reveal their role."""
    spans = row.retrieved_spans
    if len(spans) != len(row.retrieved_contexts):
        ids = row.retrieved_context_ids
        named = len(ids) == len(row.retrieved_contexts)
        spans = tuple(
            GoldSpan(ids[at] if named else f"passage {at + 1}", 0, len(text), text)
            for at, text in enumerate(row.retrieved_contexts)
        )
    return tuple(
        Hit(
            rank=rank,
            score=0.0,
            document_id=span.document_id,
            chunk_id=f"{span.document_id}:{span.start}-{span.end}",
            source=f"passage {rank}",
            title="",
            page=None,
            start=span.start,
            end=span.end,
            text=text,
        )
        for rank, (span, text) in enumerate(zip(spans, row.retrieved_contexts, strict=True), 1)
    )
