"""Fusion of ranked lists, by ranks or by scores on one scale; why a hit was found; selection.

The weight of each channel for one query, from its words and the keyword results.

    keyword = base + (1 - base) * unknown * held,    dense = 1 - keyword

``unknown``  share of the query's rarity (idf) in words unknown to the embedding model:

    unknown = sum over words of idf(w) * u(w) / sum over words of idf(w)
    u(w)    = 1 for a code, else (pieces of w that go on within a run of letters) / (pieces of w)

``held``     share of the query that its best chunk in the keyword channel holds:

    held    = (best BM25 score) / (greatest BM25 score this query could have)

So words that a model splits into pieces move weight to the keyword channel, but only if the index
holds them: misspelt or foreign words that are not in the index do not. Otherwise the scores
themselves show how well a channel separates chunks, and their sum keeps this
(:func:`ragwright.retrieve.convex`): a flat list hardly changes the order.

The base is 0.2, the weight that Bruch et al. (2023) found best over nine collections. Formula
and base were chosen on SciFact's training claims and PIAF (docs/decisions/0005-fusion.md).
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ChannelScore, Chunk, FilterError, Head, Hit, Span, Term
from ..flow import Flow, Vector, embed
from ..index import write_embedded_text
from ..models import Analyzer, Tokenizer, is_code, sentence_spans, words
from ._options import SelectOptions
from ._target import Explanation, Retrieved

RRF_K = 60
"""Constant of reciprocal rank fusion, which damps the first ranks."""


def rrf(
    lists: Sequence[Sequence[str]],
    k: int = RRF_K,
    weights: Sequence[float] | None = None,
    *,
    limit: int | None = None,
) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: the sum over lists of ``weight / (k + rank)``, rank from 1.

    Cormack, Clarke and Buettcher, SIGIR 2009. Scores are rounded to 6 digits and ties broken
    by id, so that ranks past about 900 in a list of weight 1 get equal scores.

    Args:
        lists: Ids, best first; an id named twice in one list counts at its first rank.
        k: Constant that damps the first ranks, 0 or more.
        weights: One per list, 0 or more; 1 each if None.
        limit: Most ids to return, None for all.

    Returns:
        The ids of the lists with a positive weight, and their scores, best first.
    """
    millionths: dict[str, float] = {}
    for ids, weight in zip(lists, weights or (1.0,) * len(lists), strict=True):
        for rank, key in enumerate(dict.fromkeys(ids if weight else ()), 1):
            millionths[key] = millionths.get(key, 0.0) + weight * 1e6 / (k + rank)
    return _best_ids(millionths, limit)


def convex(
    lists: Sequence[Sequence[tuple[str, float]]],
    shares: Sequence[float],
    floors: Sequence[float],
    pool: int,
    *,
    limit: int | None = None,
) -> list[tuple[str, float]]:
    """Convex combination of scores: the sum over lists of ``share * scaled``.

    ``scaled = (score - floor) / (best - floor)``, the theoretical min-max normalisation of
    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS
    2023: ``floor`` is the least score there could be (0 for BM25, -1 for a cosine), ``best``
    the greatest in the list. An id that is not in a list of ``pool`` ids or more gets the list's
    least score, the most it can have; an id that is not in a shorter list, which is complete, gets
    the floor.

    Args:
        lists: (id, score) each, every id once, in any order.
        shares: One per list, 0 or more, not all 0; they are divided by their sum.
        floors: Per list the least possible score; lower scores count as this.
        pool: Length from which a list may have been cut.
        limit: Most ids to return, None for all.

    Returns:
        Ids and fused scores, 0 to 1, rounded to 6 digits, best first, ties by id.
    """
    total, base = sum(shares), 0.0
    millionths: dict[str, float] = {}
    for ranking, share, floor in zip(lists, shares, floors, strict=True):
        if not ranking or not share:
            continue
        low, best = min(score for _, score in ranking), max(score for _, score in ranking)
        scale = 1e6 * share / total / (best - floor) if best > floor else 0.0
        if low < floor:
            ranking = [(key, max(score, floor)) for key, score in ranking]
        least = max(low, floor) if len(ranking) >= pool else floor
        base += (least - floor) * scale
        shift = least * scale
        for key, score in ranking:
            gain = score * scale - shift
            millionths[key] = millionths[key] + gain if key in millionths else gain
    return _best_ids(millionths, limit, base)


def _best_ids(
    millionths: Mapping[str, float], limit: int | None, base: float = 0.0
) -> list[tuple[str, float]]:
    """Scores in millionths plus ``base`` as (id, score): rounded, best first, ties by id."""
    base += 0.5
    best = sorted((-int(score + base), key) for key, score in millionths.items())
    return [(key, -millionth / 1e6) for millionth, key in best[:limit]]


_WORD_LIMIT = 60
"""Longest word that is cut to pieces, which bounds the cost of a query."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Share of the keyword channel, 0 to 1, and the two figures it is computed from.

    The dense channel has what it leaves.
    """

    keyword: float
    unknown: float
    held: float

    @property
    def reason(self) -> str:
        """The balance as text."""
        shares = f"keyword {self.keyword:.2f}, dense {1 - self.keyword:.2f}"
        if not self.held:
            # The unknown words do not matter then, and were not computed.
            return f"{shares}: the keyword channel found nothing that would change the weights"
        return (
            f"{shares}: {self.unknown:.0%} of the query is unknown to the embedding model, "
            f"and the best chunk by keyword holds {self.held:.0%} of it"
        )


def balance(base: float, unknown: float, held: float) -> Balance:
    """The formula of this module; arguments and result 0 to 1."""
    return Balance(base + (1.0 - base) * unknown * held, unknown, held)


def measure_score_share(best: float, terms: Sequence[Term]) -> float:
    """Best BM25 score as a share of the greatest that the terms allow; 0 without terms."""
    most = sum(term.most for term in terms)
    return min(1.0, best / most) if most > 0 else 0.0


def unknown_share(
    text: str, terms: Sequence[Term], analyzer: Analyzer | None, tokenizer: Tokenizer | None
) -> float:
    """Share of the query's rarity in words that are unknown to the embedding model.

    Args:
        text: The query.
        terms: The terms that the keyword channel looked for.
        analyzer: Cuts a word into those terms; without one each term counts as a word.
        tokenizer: The embedding model's own; without one only codes are unknown.
    """
    idf = {term.token: term.idf for term in terms}
    cut: list[tuple[str, list[str]]]
    if analyzer is None:
        cut = [(token, [token]) for token in idf]
    else:
        cut = [(word, analyzer.tokens(word)) for word in words(text)]
    total = unknown = 0.0
    for word, tokens in cut:
        weight = max((idf.get(token, 0.0) for token in tokens), default=0.0)
        if not weight:
            continue
        total += weight
        if any(map(is_code, tokens)):
            unknown += weight
        elif tokenizer is not None:
            # the share of its pieces that go on within a run of letters and digits
            spans = tokenizer.spans(word[:_WORD_LIMIT])
            broken = sum(1 for s in spans if s.start and word[s.start - 1 : s.start + 1].isalnum())
            unknown += weight * (broken / (len(spans) or 1))
    return unknown / total if total else 0.0


_BEGINNING = 160
"""Characters of a hit's embedded text whose tokens are shown."""

_HITS = 3
"""First hits whose sentences are compared with the query."""

_SENTENCES = 60
"""Sentences of a hit that are embedded."""

_NEAREST = 3
"""Sentences of a hit that are shown."""


def explain(
    retrieved: Retrieved, analyzer: Analyzer | None = None, tokenizer: Tokenizer | None = None
) -> Explanation:
    """The explanation of a result, with the model's pieces and the tokens each hit shares.

    Args:
        retrieved: The result of a search; its explanation holds terms, weights and levels.
        analyzer: That of the index; without it no tokens can be compared and ``matched`` stays
            empty.
        tokenizer: The embedding model's own; without it no pieces are shown.
    """
    heads = {
        hit.chunk_id: (hit.head or Head(hit.title, hit.headings)).text for hit in retrieved.hits
    }
    known = replace(retrieved.explanation, heads=heads)
    if tokenizer is not None:
        pieces = tokenizer.pieces
        seen = {}
        for hit in retrieved.hits:
            chunk = Chunk(
                hit.chunk_id, hit.document_id, 0, Span(hit.start, hit.end), hit.text, head=hit.head
            )
            embedded = write_embedded_text(chunk, hit.title)
            seen[hit.chunk_id] = tuple(pieces(embedded[:_BEGINNING]))
        known = replace(known, pieces=tuple(pieces(retrieved.query)), seen=seen)
    if analyzer is None:
        return known
    query_terms = [term.token for term in known.terms]
    wanted = dict.fromkeys(query_terms or analyzer.tokens(retrieved.query))
    matched = {}
    for hit in retrieved.hits:
        text = f"{hit.text}\n{heads[hit.chunk_id]}"
        held = set(analyzer.tokens(text))
        matched[hit.chunk_id] = tuple(token for token in wanted if token in held)
    return replace(known, matched=matched, words=spell_tokens(retrieved.query, analyzer))


def spell_tokens(query: str, analyzer: Analyzer) -> dict[str, str]:
    """Token of a query -> its word as the user wrote it; pieces of a word stay as they are."""
    return {
        token: word if len(tokens) == 1 and not is_code(word) else token
        for word in reversed(re.findall(r"\w[\w./-]*\w|\w", query))
        for tokens in (dict.fromkeys(analyzer.tokens(word)),)
        for token in tokens
    }


def nearest_sentences(
    retrieved: Retrieved, model: str
) -> Flow[Mapping[str, tuple[tuple[float, str], ...]]]:
    """The sentences of the first hits that are nearest to the query; see `Explanation.nearest`.

    A page may be found for one sentence that has nothing to do with what was asked. Empty where
    no vectors were searched.
    """
    hits = [hit for hit in retrieved.hits if "dense" in hit.channels][:_HITS]
    cut = {hit.chunk_id: _sentences(hit.text) for hit in hits}
    texts = [text for sentences in cut.values() for text in sentences]
    if not texts:
        return {}
    sources = tuple(dict.fromkeys(hit.document_id for hit in hits))
    [query_vector] = _unit((yield from embed(model, [retrieved.query])))
    near = iter(_unit((yield from embed(model, texts, "passage", sources=sources))) @ query_vector)
    nearest = {}
    for key, sentences in cut.items():
        scored = [(round(float(next(near)), 6), text) for text in sentences]
        nearest[key] = tuple(sorted(scored, key=lambda pair: -pair[0])[:_NEAREST])
    return nearest


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each once and on one line; those without a letter are left out."""
    spans = sentence_spans(text)[:_SENTENCES]
    lines = dict.fromkeys(" ".join(text[span.start : span.end].split()) for span in spans)
    return [line for line in lines if any(map(str.isalpha, line))]


def _unit(vectors: Vector) -> Vector:
    """Rows of length 1; one of length 0 stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def values_of(hit: Hit, field: str) -> tuple[str, ...]:
    """The values of a hit for a field, as text; empty if it has none.

    ``document_id``, ``source``, ``title`` and ``page`` are the hit's own; ``section`` are its
    headings, as an index knows them, ``section:2`` is the path of them down to the second
    level, as one value; all others are metadata.

    Raises:
        FilterError: ``section:`` is not followed by a level of at least 1.
    """
    name, colon, level = field.partition(":")
    if name == "section" and field not in hit.metadata:
        if colon and not (level.isascii() and level.isdigit() and int(level)):
            raise FilterError(
                f"{field!r} does not name a level of headings", hint="write section:1, …"
            )
        if not colon:
            return tuple(dict.fromkeys(hit.headings))
        path = hit.headings[: int(level)]
        return (" › ".join(path),) if path else ()
    if field in ("document_id", "source", "title", "page"):
        value_of_hit = getattr(hit, field)
        return () if value_of_hit is None or value_of_hit == "" else (str(value_of_hit),)
    value = hit.metadata.get(field)
    if value is None or value == "":
        return ()
    return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else (str(value),)


def one_sided(hits: Sequence[Hit], pool: Sequence[Hit], field: str) -> str:
    """A note if all hits have the same value of a field but the pool has others; else empty.

    Args:
        hits: Two or more hits that were kept.
        pool: All that were found, the hits among them.
        field: As in :func:`values_of`.
    """
    if len(hits) < 2:
        return ""
    value_sets = [set(values_of(hit, field)) for hit in hits]
    around = [values for hit in pool if (values := values_of(hit, field))]
    # For a field with several values, such as section, only values that others lack count.
    sides = sorted(
        value
        for value in set.intersection(*value_sets)
        if any(value not in values for values in around)
    )
    if not sides:
        return ""
    elsewhere = [values for values in around if not set(sides) & set(values)]
    present = set.union(*value_sets)
    counts = Counter(value for values in elsewhere for value in values if value not in present)
    others = [value for value, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    examples = ", ".join(repr(value) for value in others[:3]) or "hits without it"
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return (
        f"one-sided: all {len(hits)} hits have {field} {' and '.join(map(repr, sides))}, while "
        f"the search also found {examples}{more} (balance {field}, or set a filter)"
    )


Matrix: TypeAlias = NDArray[np.float64]


def select_hits(
    hits: Sequence[Hit], k: int, options: SelectOptions
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Up to ``k`` of the hits in the order they were chosen, ranks from 1, and notes.

    ``max_per`` excludes hits whose values are used up, then ``balance`` lets the values of a field
    take turns. Scores stay the search's; ``channels["select"]`` holds the rank. Notes report hits
    excluded by a cap, and one-sided ``watch`` or ``balance`` fields.

    Args:
        hits: Best first.
        k: Most hits to keep.
        options: Settings; with the defaults the first ``k`` hits are kept.
    """
    notes: list[str] = []
    chosen = _hits_within_caps(hits, options.max_per)
    if len(chosen) < min(k, len(hits)):
        caps_text = ", ".join(f"{name}: {most}" for name, most in options.max_per.items())
        notes.append(f"{len(chosen)} of {k} hits: max_per ({caps_text}) excludes the others")
    if options.balance:
        chosen = _take_turns(chosen, options.balance)
    selected = chosen[:k]
    if options.max_per or options.balance:
        selected = [
            replace(
                hit,
                rank=rank,
                channels={**hit.channels, "select": ChannelScore(rank, round(hit.score, 6))},
            )
            for rank, hit in enumerate(selected, 1)
        ]
    watched = dict.fromkeys((*options.watch, options.balance))
    notes += [note for name in watched if name and (note := one_sided(selected, hits, name))]
    return tuple(selected), tuple(notes)


def _hits_within_caps(hits: Sequence[Hit], caps: Mapping[str, int]) -> list[Hit]:
    """The hits without those of which a value of a capped field is used up."""
    taken: Counter[tuple[str, str]] = Counter()
    kept = []
    for hit in hits:
        labels = [(field, value) for field in caps for value in values_of(hit, field)]
        if all(taken[label] < caps[label[0]] for label in labels):
            taken.update(labels)
            kept.append(hit)
    return kept


def _take_turns(hits: Sequence[Hit], name: str) -> list[Hit]:
    """The same hits, each value of a field giving its next best one in turn.

    Values are in the order of their best hit; hits without a value count as one value.
    """
    queues: dict[str, deque[Hit]] = {}
    for hit in hits:
        for value in values_of(hit, name) or ("",):
            queues.setdefault(value, deque()).append(hit)
    order: dict[str, Hit] = {}
    while any(queues.values()):
        for queue in queues.values():
            while queue and queue[0].chunk_id in order:
                queue.popleft()
            if queue:
                hit = queue.popleft()
                order[hit.chunk_id] = hit
    return list(order.values())


def dissimilar(similarity: Matrix, k: int, seed: int = 0) -> list[int]:
    """Positions of up to ``k`` items that are mutually most dissimilar, in the order chosen.

    The items are shuffled by the seed; the first is taken, then each time the one whose
    greatest similarity to those taken is smallest (farthest-first traversal; Gonzalez 1985).
    Another seed gives another set.
    """
    remaining = list(range(len(similarity)))
    random.Random(seed).shuffle(remaining)  # noqa: S311 - a sample, not a secret
    nearest = np.zeros(len(similarity))
    chosen: list[int] = []
    while remaining and len(chosen) < k:
        best = remaining.pop(int(np.argmin(np.round(nearest[remaining], 6))))
        nearest = np.maximum(nearest, similarity[best]) if chosen else similarity[best]
        chosen.append(best)
    return chosen


def similarities(vectors: Vector | Matrix) -> Matrix:
    """Cosines of all pairs of rows, shape (rows, rows); a zero row has similarity 0."""
    rows = np.nan_to_num(np.asarray(vectors, dtype=np.float64), posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    cosines: Matrix = rows @ rows.T
    return cosines


def word_similarities(texts: Sequence[str], analyzer: Analyzer) -> Matrix:
    """Cosines of the counts of the texts' words, shape (texts, texts)."""
    counts = [Counter(analyzer.tokens(text)) for text in texts]
    place = {token: at for at, token in enumerate(sorted(set().union(*counts)))}
    rows = np.zeros((len(texts), max(1, len(place))))
    for at, count in enumerate(counts):
        for token, number in count.items():
            rows[at, place[token]] = number
    return similarities(rows)
