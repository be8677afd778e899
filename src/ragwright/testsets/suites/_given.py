"""Rows with given passages: answered from these, without retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...answer import AnswerSetup, answer
from ...core import Answer, GoldSpan, Hit, Persona, Row, TestsetError, count_noun
from ...flow import Flow
from ._suites import CLOSED_BOOK, REPORT_ERRORS

_ASKS = "only_context"
"""Part of the prompt about the use of passages, which ``report_errors`` replaces."""


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


def answer_from_given(row: Row, persona: Persona, setup: AnswerSetup) -> Flow[Answer]:
    """Answer a row's question from its own passages, in their order; a control row without any.

    With ``ask: report_errors`` in the row, that variant replaces ``only_context``, unless the
    project has replaced that part itself.

    Raises:
        TestsetError: A passage does not fit the prompt: the dose would differ from the row's.
    """
    closed_book = row.metadata.get("suite") == CLOSED_BOOK
    configured = replace(
        setup, options=replace(setup.options, closed_book=closed_book, stream=False)
    )
    if row.metadata.get("ask") == REPORT_ERRORS and _ASKS not in setup.prompt.replace:
        parts = {**setup.prompt.replace, _ASKS: REPORT_ERRORS}
        configured = replace(configured, prompt=replace(setup.prompt, replace=parts))
    hits = () if closed_book else _numbered_hits(row)
    reply = yield from answer(row.user_input, persona, hits, configured)
    if sorted(hit.text for hit in reply.hits) != sorted(hit.text for hit in hits):
        raise TestsetError(
            f"{count_noun(len(hits), 'passage was', 'passages were')} given, but only "
            f"{len(reply.hits)} fit into the prompt",
            where=f"row {row.id}",
            hint="raise answer.context_tokens, or make the suite with fewer --passages",
        )
    route_reason = "without passages" if closed_book else "the passages of the row"
    return replace(reply, route=CLOSED_BOOK if closed_book else "given", route_reason=route_reason)


def _numbered_hits(row: Row) -> tuple[Hit, ...]:
    """Return the row's passages as hits, named by number: other names could reveal their role."""
    spans = row.retrieved_spans
    if len(spans) != len(row.retrieved_contexts):
        ids = row.retrieved_context_ids
        has_ids = len(ids) == len(row.retrieved_contexts)
        spans = tuple(
            GoldSpan(ids[index] if has_ids else f"passage {index + 1}", 0, len(text), text)
            for index, text in enumerate(row.retrieved_contexts)
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
