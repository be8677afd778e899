"""The passages of suites: drawn from a corpus, or given in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from ..answer import AskPlan, answer, corpus_ids
from ..core import (
    Answer,
    GoldSpan,
    Hit,
    Persona,
    RetrieveError,
    Row,
    Span,
    TestsetError,
    count_noun,
    text_hash,
)
from ..flow import Flow, lookup
from ..models import detect_language
from ..retrieve import RetrieveOptions, Target, retrieve
from ._falsify import GoldAnswer, Kind, LeakCheck, entities, falsify, gold_answer
from ._splits import chunks_of, find_best_chunk
from ._suites import CLOSED_BOOK, REPORT_ERRORS, Evidence, SuiteOptions, check_distractors

_SAMPLE = 1000
"""Number of chunks from which false answers are drawn."""

_TRIED = 8
"""Candidates checked for each passage of a context."""


@dataclass(frozen=True, slots=True)
class PassageSource:
    """The source of passages.

    Attributes:
        target: The index.
        retrieve: Search settings for hard distractors.
        ids: Chunks that random distractors are drawn from.
        known: Dates, numbers, names, … that can replace a true one.
        options: Number of passages, and the seed.
        language: ISO code of documents without a language; empty if unclear.
    """

    target: Target
    retrieve: RetrieveOptions
    ids: Sequence[str]
    known: Mapping[Kind, Sequence[str]] = field(default_factory=dict)
    options: SuiteOptions = SuiteOptions()
    language: str = ""


@dataclass(frozen=True, slots=True)
class CorpusEvidence:
    """A question's evidence or the reason for its absence, and the passages left out by reason."""

    evidence: Evidence | None = None
    reason: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)


def open_corpus(
    target: Target, searching: RetrieveOptions, options: SuiteOptions | None = None
) -> Flow[PassageSource]:
    """Open the corpus of an index under hard filters, with the values that can be falsified."""
    suite_options = options or SuiteOptions()
    ids, _ = yield from corpus_ids(target, searching.filters)
    sample = sorted(_random_chunks(ids, _SAMPLE, str(suite_options.seed)))
    texts: list[str] = []
    for at in range(0, len(sample), 100):
        texts += [
            hit.text for hit in (yield from lookup(target.snapshot, sample[at : at + 100])).hits
        ]
    detected = detect_language(texts)
    return PassageSource(
        target,
        searching,
        ids,
        entities(texts),
        suite_options,
        "" if detected == "auto" else detected,
    )


_NO_GOLD = (
    "the row names no gold passage or document; if its `reference_contexts` quote the documents, "
    "`ragwright synth --from FILE -o NEW.jsonl` finds the passages, and without quotes "
    "`ragwright synth -o NEW.jsonl` makes questions with gold"
)
_WITHOUT_GOLD = (
    "no passage of the gold documents holds the reference answer word for word; quote the passage "
    "in `reference_contexts` and run `ragwright synth --from FILE -o NEW.jsonl`"
)


def corpus_evidence(row: Row, corpus: PassageSource) -> Flow[CorpusEvidence]:
    """Return the passages from which contexts for a question are mixed.

    Gold is the chunk that holds at least half of each gold span; for gold documents without
    spans, the first chunk that holds the answer. Its neighbours are the chunks before and after.

    Raises:
        RagwrightError: Errors of the search.
    """
    answer = gold_answer(row)
    if answer is None:
        return CorpusEvidence(reason="no reference answer")
    if not LeakCheck(answer).possible:
        return CorpusEvidence(reason="an answer without a content word, which cannot be checked")
    gold_chunks = yield from _gold_and_neighbours(row, answer, corpus)
    if isinstance(gold_chunks, str):
        return CorpusEvidence(reason=gold_chunks)
    gold, neighbours = gold_chunks
    language = gold[0].metadata.get("language")
    answer = gold_answer(row, language if isinstance(language, str) else corpus.language) or answer
    dropped: Counter[str] = Counter()
    relevant = tuple(map(_span_of_hit, (*gold, *neighbours)))
    try:
        noise, hard = yield from _distractor_candidates(row, corpus)
    except RetrieveError:  # an empty question, or one for which no search is possible
        return CorpusEvidence(reason="a question for which no search is possible")
    checked = check_distractors(noise, relevant, answer, dropped)
    # Joined questions need more than one question's share each.
    distractors = tuple(islice(checked, 2 * corpus.options.passages))
    seed = f"{corpus.options.seed}\x00{row.id}"
    falsified = [
        (span, *found)
        for span in relevant[: len(gold)]
        if (found := falsify(answer, span.text, corpus.known, seed)) is not None
    ]
    evidence = Evidence(
        row,
        answer,
        relevant[: len(gold)],
        relevant[len(gold) :],
        distractors,
        frozenset(passage.text for passage in distractors if passage.text in hard),
        tuple((true, replace(true, text=text)) for true, _, text in falsified),
        tuple(dict.fromkeys(fake for _, fake, _ in falsified)),
    )
    return CorpusEvidence(evidence, dropped=dropped)


def _gold_and_neighbours(
    row: Row, answer: GoldAnswer, corpus: PassageSource
) -> Flow[tuple[tuple[Hit, ...], tuple[Hit, ...]] | str]:
    snapshot = corpus.target.snapshot
    gold: dict[str, Hit] = {}
    chunks: dict[str, list[str]] = {}
    for span in row.reference_spans:
        name = span.document_id
        ids = chunks.setdefault(name, (yield from chunks_of(corpus.target, name)))
        best = find_best_chunk(ids, span.document_id, Span(span.start, span.end))
        if not best:
            return "a gold span of which no chunk holds half"
        [hit] = (yield from lookup(snapshot, [best])).hits
        start, end = max(span.start, hit.start), min(span.end, hit.end)
        quote = span.text[start - span.start : end - span.start]
        if span.text and quote != hit.text[start - hit.start : end - hit.start]:
            return "a gold span whose text has changed"
        gold[best] = hit
    if not row.reference_spans:
        for document in (name for name, grade in row.reference_ids.items() if grade > 0):
            ids = chunks.setdefault(document, (yield from chunks_of(corpus.target, document)))
            hits = (yield from lookup(snapshot, ids)).hits if ids else ()
            holding = next((hit for hit in hits if all(answer.held(hit.text))), None)
            if holding is not None:
                gold[holding.chunk_id] = holding
                break
    if not gold:
        return _WITHOUT_GOLD if row.reference_ids else _NO_GOLD
    near = _neighbour_chunks(gold, chunks, corpus.options.passages - 1)
    more = (yield from lookup(snapshot, near)).hits if near else ()
    return tuple(gold.values()), more


def _neighbour_chunks(
    gold: Mapping[str, Hit], chunks: Mapping[str, list[str]], limit: int
) -> list[str]:
    """Return the chunks around the gold ones in their documents, nearest first."""
    ids_around: dict[str, None] = {}
    for step in range(1, limit + 1):
        for key, hit in gold.items():
            ids = chunks[hit.document_id]
            at = ids.index(key)
            ids_around |= {ids[n]: None for n in (at + step, at - step) if 0 <= n < len(ids)}
    return [key for key in ids_around if key not in gold][:limit]


def _distractor_candidates(
    row: Row, corpus: PassageSource
) -> Flow[tuple[list[GoldSpan], frozenset[str]]]:
    """Return candidates for distractors in trial order, and the texts of the hard ones."""
    depth = _TRIED * corpus.options.passages
    deep_options = replace(corpus.retrieve, top_k=depth)
    hard = (yield from retrieve(row.user_input, corpus.target, deep_options)).hits
    ids = _random_chunks(corpus.ids, depth, f"{corpus.options.seed}\x00{row.id}")
    random = (yield from lookup(corpus.target.snapshot, ids)).hits if ids else ()
    return [*map(_span_of_hit, (*hard, *random))], frozenset(hit.text for hit in hard)


def _random_chunks(ids: Sequence[str], most: int, seed: str) -> list[str]:
    generator = np.random.default_rng(int(text_hash(seed)[:15], 16))
    chosen = generator.choice(len(ids), min(most, len(ids)), replace=False)
    return [ids[at] for at in chosen]


def _span_of_hit(hit: Hit) -> GoldSpan:
    return GoldSpan(hit.document_id, hit.start, hit.end, hit.text)


_ASKS = "only_context"
"""Part of the prompt about the use of passages, which ``report_errors`` replaces."""


def all_given(rows: Iterable[Row], where: str = "") -> bool:
    """True if all rows are part of capability suites, False if none is.

    Raises:
        TestsetError: Only some are: their passages are given, those of the others would be
            retrieved.
    """
    kinds = {"suite" in row.metadata for row in rows}
    if len(kinds) > 1:
        raise TestsetError(
            "some rows belong to a capability suite and some do not",
            where=where,
            hint="use two files: a suite's rows are answered from their own passages",
        )
    return kinds == {True}


def answer_from_given(row: Row, persona: Persona, plan: AskPlan) -> Flow[Answer]:
    """Answer a row's question from its own passages, in their order; a control row without any.

    With ``ask: report_errors`` in the row, that variant replaces ``only_context``, unless the
    project has replaced that part itself.

    Raises:
        TestsetError: A passage does not fit the prompt: the dose would differ from the row's.
    """
    closed_book = row.metadata.get("suite") == CLOSED_BOOK
    configured = replace(plan, options=replace(plan.options, closed_book=closed_book))
    if row.metadata.get("ask") == REPORT_ERRORS and _ASKS not in plan.prompt.replace:
        configured = replace(
            configured,
            prompt=replace(plan.prompt, replace={**plan.prompt.replace, _ASKS: REPORT_ERRORS}),
        )
    hits = () if closed_book else _number_hits(row)
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


def _number_hits(row: Row) -> tuple[Hit, ...]:
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
