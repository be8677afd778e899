"""Material of suites from a corpus: gold chunks, their neighbours, distractors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...answer import corpus_ids
from ...core import GoldSpan, Hit, RetrieveError, Row, Span, text_hash
from ...flow import Flow, lookup
from ...models import detect_language
from ...retrieve import ExpandOptions, RetrieveOptions, Target, retrieve
from .._gold_chunks import chunks_of, find_best_chunk
from ._falsify import Kind, entities, falsify
from ._gold_answers import GoldAnswer, LeakCheck, gold_answer
from ._suites import Evidence, SuiteOptions, check_distractors

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
        options: Number of passages, kind of distractors, and the seed.
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
    language = "" if detected == "auto" else detected
    return PassageSource(target, searching, ids, entities(texts), suite_options, language)


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
    distractors = []
    for passage in check_distractors(noise, relevant, answer, dropped):
        distractors.append(passage)
        if (
            len(distractors) == 2 * corpus.options.passages
        ):  # joined questions need more than one each
            break
    falsified = _falsified_passages(row, answer, relevant[: len(gold)], corpus)
    evidence = Evidence(
        row,
        answer,
        relevant[: len(gold)],
        relevant[len(gold) :],
        tuple(distractors),
        frozenset(passage.text for passage in distractors if passage.text in hard),
        tuple((true, new) for true, new, _ in falsified),
        tuple(dict.fromkeys(fake for _, _, fake in falsified)),
    )
    return CorpusEvidence(evidence, dropped=dropped)


def _gold_and_neighbours(
    row: Row, answer: GoldAnswer, corpus: PassageSource
) -> Flow[tuple[tuple[Hit, ...], tuple[Hit, ...]] | str]:
    """Return gold chunks and their neighbours, or the reason why there are none."""
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
        if not _is_unchanged(span, hit):
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


def _is_unchanged(span: GoldSpan, hit: Hit) -> bool:
    """False if the text of the span differs from the chunk at its place."""
    start, end = max(span.start, hit.start), min(span.end, hit.end)
    quote = span.text[start - span.start : end - span.start]
    return not span.text or quote == hit.text[start - hit.start : end - hit.start]


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
    hard: tuple[Hit, ...] = ()
    if corpus.options.distractors != "random":
        options = corpus.retrieve
        deep_options = replace(options, top_k=depth, expand=ExpandOptions())
        hard = (yield from retrieve(row.user_input, corpus.target, deep_options)).hits
    ids = _random_chunks(corpus.ids, depth, f"{corpus.options.seed}\x00{row.id}")
    random_hits = (yield from lookup(corpus.target.snapshot, ids)).hits if ids else ()
    random = [_span_of_hit(hit) for hit in random_hits]
    hard_spans = [_span_of_hit(hit) for hit in hard]
    texts = frozenset(span.text for span in hard_spans)
    if corpus.options.distractors != "mixed":
        return hard_spans + random, texts
    alternating = [
        side[at] for at in range(depth) for side in (hard_spans, random) if at < len(side)
    ]
    return alternating, texts


def _random_chunks(ids: Sequence[str], most: int, seed: str) -> list[str]:
    """Draw a random sample of the chunks, in random order."""
    generator = np.random.default_rng(int(text_hash(seed)[:15], 16))
    chosen = generator.choice(len(ids), min(most, len(ids)), replace=False)
    return [ids[at] for at in chosen]


def _falsified_passages(
    row: Row, answer: GoldAnswer, gold: Sequence[GoldSpan], corpus: PassageSource
) -> list[tuple[GoldSpan, GoldSpan, str]]:
    """Return gold passages, their falsified texts, and the false answer."""
    passages = []
    for span in gold:
        falsified = falsify(answer, span.text, corpus.known, f"{corpus.options.seed}\x00{row.id}")
        if falsified is not None:
            fake, text = falsified
            passages.append((span, replace(span, text=text), fake))
    return passages


def _span_of_hit(hit: Hit) -> GoldSpan:
    return GoldSpan(hit.document_id, hit.start, hit.end, hit.text)
