"""Material of suites from a corpus: gold chunks, their neighbours, distractors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...answer import corpus_ids
from ...core import Filter, FilterError, GoldSpan, Hit, RetrieveError, Row, Span, text_hash
from ...flow import Flow, lookup
from ...models import detect_language
from ...retrieve import ExpandOptions, RetrieveOptions, Target, retrieve
from ._falsify import Kind, entities, falsify
from ._gold_answers import GoldAnswer, LeakCheck, gold_answer
from ._suites import Evidence, SuiteOptions, checked_distractors

_SAMPLE = 1000
"""Number of chunks from which false answers are drawn."""

_TRIED = 8
"""Candidates checked for each passage of a context."""


@dataclass(frozen=True, slots=True)
class Corpus:
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
class Gathered:
    """A question's evidence, or why there is none, and why passages were left out."""

    evidence: Evidence | None = None
    reason: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)


def open_corpus(
    target: Target, searching: RetrieveOptions, options: SuiteOptions | None = None
) -> Flow[Corpus]:
    """The corpus of an index under hard filters, with the values that can be falsified."""
    chosen = options or SuiteOptions()
    ids, _ = yield from corpus_ids(target, searching.filters)
    sample = sorted(_drawn(ids, _SAMPLE, str(chosen.seed)))
    texts: list[str] = []
    for at in range(0, len(sample), 100):
        texts += [
            hit.text for hit in (yield from lookup(target.snapshot, sample[at : at + 100])).hits
        ]
    spoken = detect_language(texts)
    language = "" if spoken == "auto" else spoken
    return Corpus(target, searching, ids, entities(texts), chosen, language)


def corpus_evidence(row: Row, corpus: Corpus) -> Flow[Gathered]:
    """The passages from which contexts for a question are mixed.

    Gold is the chunk that holds at least half of each gold span; for gold documents without
    spans, the first chunk that holds the answer. Its neighbours are the chunks before and after.

    Raises:
        RagwrightError: Errors of the search.
    """
    answer = gold_answer(row)
    if answer is None:
        return Gathered(reason="no reference answer")
    if not LeakCheck(answer).possible:
        return Gathered(reason="an answer without a content word, which cannot be checked")
    found = yield from _gold(row, answer, corpus)
    if isinstance(found, str):
        return Gathered(reason=found)
    gold, more = found
    language = gold[0].metadata.get("language")
    answer = gold_answer(row, language if isinstance(language, str) else corpus.language) or answer
    dropped: Counter[str] = Counter()
    relevant = tuple(map(_span, (*gold, *more)))
    try:
        noise, hard = yield from _noise(row, corpus)
    except RetrieveError:  # an empty question, or one for which no search is possible
        return Gathered(reason="a question for which no search is possible")
    kept = []
    for one in checked_distractors(noise, relevant, answer, dropped):
        kept.append(one)
        if len(kept) == 2 * corpus.options.passages:  # joined questions need more than one each
            break
    false = _falsified(row, answer, relevant[: len(gold)], corpus)
    evidence = Evidence(
        row,
        answer,
        relevant[: len(gold)],
        relevant[len(gold) :],
        tuple(kept),
        frozenset(one.text for one in kept if one.text in hard),
        tuple((true, new) for true, new, _ in false),
        tuple(dict.fromkeys(fake for _, _, fake in false)),
    )
    return Gathered(evidence, dropped=dropped)


def _gold(
    row: Row, answer: GoldAnswer, corpus: Corpus
) -> Flow[tuple[tuple[Hit, ...], tuple[Hit, ...]] | str]:
    """Gold chunks and their neighbours, or why there are none."""
    snapshot = corpus.target.snapshot
    gold: dict[str, Hit] = {}
    chunks: dict[str, list[str]] = {}
    for span in row.reference_spans:
        ids = chunks.setdefault(span.document_id, (yield from _chunks(span.document_id, corpus)))
        best = _holding(ids, span)
        if not best:
            return "a gold span of which no chunk holds half"
        [hit] = (yield from lookup(snapshot, [best])).hits
        if not _still(span, hit):
            return "a gold span whose text has changed"
        gold[best] = hit
    if not row.reference_spans:
        for document in (name for name, grade in row.reference_ids.items() if grade > 0):
            ids = chunks.setdefault(document, (yield from _chunks(document, corpus)))
            hits = (yield from lookup(snapshot, ids)).hits if ids else ()
            holding = next((hit for hit in hits if all(answer.held(hit.text))), None)
            if holding is not None:
                gold[holding.chunk_id] = holding
                break
    if not gold:
        return "no passage known to contain the answer"
    near = _near(gold, chunks, corpus.options.passages - 1)
    more = (yield from lookup(snapshot, near)).hits if near else ()
    return tuple(gold.values()), more


def _chunks(document: str, corpus: Corpus) -> Flow[list[str]]:
    """Ids of a document's chunks in text order; none if the index does not have the document."""
    try:
        ids, _ = yield from corpus_ids(corpus.target, (Filter("document_id", (document,)),))
    except FilterError:
        return []
    return ids


def _holding(ids: Sequence[str], span: GoldSpan) -> str:
    """The chunk with the largest part of a span; empty if none holds half of it."""
    gold = Span(span.start, span.end)
    held = {key: _place(key, span.document_id).overlap(gold) for key in ids}
    best = max(held, key=lambda key: held[key], default="")
    return best if best and 2 * held[best] >= gold.length else ""


def _place(key: str, document: str) -> Span:
    """The characters of a chunk, from its id."""
    start, _, end = key.removeprefix(f"{document}:").partition("-")
    return Span(int(start), int(end))


def _still(span: GoldSpan, hit: Hit) -> bool:
    """False if the text of the span differs from the chunk at its place."""
    start, end = max(span.start, hit.start), min(span.end, hit.end)
    quoted = span.text[start - span.start : end - span.start]
    return not span.text or quoted == hit.text[start - hit.start : end - hit.start]


def _near(gold: Mapping[str, Hit], chunks: Mapping[str, list[str]], most: int) -> list[str]:
    """Chunks around the gold ones in their documents, nearest first."""
    found: dict[str, None] = {}
    for step in range(1, most + 1):
        for key, hit in gold.items():
            ids = chunks[hit.document_id]
            at = ids.index(key)
            found |= {ids[n]: None for n in (at + step, at - step) if 0 <= n < len(ids)}
    return [key for key in found if key not in gold][:most]


def _noise(row: Row, corpus: Corpus) -> Flow[tuple[list[GoldSpan], frozenset[str]]]:
    """Candidates for distractors in trial order, and the texts of the hard ones."""
    depth = _TRIED * corpus.options.passages
    hard: tuple[Hit, ...] = ()
    if corpus.options.distractors != "random":
        options = corpus.retrieve
        wide = replace(options, top_k=depth, pool=max(options.pool, depth), expand=ExpandOptions())
        hard = (yield from retrieve(row.user_input, corpus.target, wide)).hits
    ids = _drawn(corpus.ids, depth, f"{corpus.options.seed}\x00{row.id}")
    found = (yield from lookup(corpus.target.snapshot, ids)).hits if ids else ()
    far = [_span(hit) for hit in found]
    near = [_span(hit) for hit in hard]
    texts = frozenset(span.text for span in near)
    if corpus.options.distractors != "mixed":
        return near + far, texts
    turns = [side[at] for at in range(depth) for side in (near, far) if at < len(side)]
    return turns, texts


def _drawn(ids: Sequence[str], most: int, seed: str) -> list[str]:
    """A random sample of the chunks, in random order."""
    generator = np.random.default_rng(int(text_hash(seed)[:15], 16))
    chosen = generator.choice(len(ids), min(most, len(ids)), replace=False)
    return [ids[at] for at in chosen]


def _falsified(
    row: Row, answer: GoldAnswer, gold: Sequence[GoldSpan], corpus: Corpus
) -> list[tuple[GoldSpan, GoldSpan, str]]:
    """Gold passages, their falsified texts, and the false answer."""
    found = []
    for span in gold:
        made = falsify(answer, span.text, corpus.known, f"{corpus.options.seed}\x00{row.id}")
        if made is not None:
            fake, text = made
            found.append((span, replace(span, text=text), fake))
    return found


def _span(hit: Hit) -> GoldSpan:
    return GoldSpan(hit.document_id, hit.start, hit.end, hit.text)
