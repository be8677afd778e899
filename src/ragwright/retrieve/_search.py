"""Retrieval as a flow: the stages from a question to the hits, in their order."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..core import (
    ChannelScore,
    Filter,
    FilterError,
    Hit,
    PluginError,
    RagwrightError,
    RetrieveError,
    SoftFilter,
    counted,
    load_object,
)
from ..flow import Flow, Lookup, LookupReply, Search, SearchReply, send
from ..models import WordTokenizer
from ._channels import candidates, check_question, prepared
from ._entries import with_opening
from ._iterate import iterate
from ._meanings import visible_glossary
from ._options import (
    LEAST_POOL,
    ExpandOptions,
    RerankOptions,
    RetrieveOptions,
    rerank_depth,
    select_depth,
)
from ._query import query_variants
from ._rerank import rerank_hits
from ._select import diversify
from ._stages import StageHooks, run_stages
from ._target import Candidates, Ranking, Retrieved, Target, Variant

Expanded: TypeAlias = tuple[tuple[Hit, ...], tuple[str, ...]]


def expand_hits(
    hits: Sequence[Hit], target: Target, options: ExpandOptions, filters: Sequence[Filter] = ()
) -> Flow[Expanded]:
    """The hits with their surroundings, in their order, ranks from 1, and notes.

    Text and span grow; rank, score, channels, relaxation level and chunk id stay those of the hit.
    Expanded hits of one document that overlap are merged into the best ranked one, so that no
    character is shown twice. A hit whose surroundings exceed ``max_words`` is not expanded, with a
    note. Surroundings never reach into a chunk that misses one of the hard ``filters``.

    Raises:
        RetrieveError: The index lacks a chunk that it has found.
    """
    if not options.by or not hits:
        return tuple(hits), ()
    ids = tuple(hit.chunk_id for hit in hits)
    request = Lookup(
        target.snapshot, ids, expand=options.by, reach=options.reach, filters=tuple(filters)
    )
    reply = yield from send(request, LookupReply)
    if len(reply.hits) != len(hits):
        raise RetrieveError(
            f"{counted(len(hits), 'chunk was', 'chunks were')} to be expanded, "
            f"{len(reply.hits)} could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    grown, unexpanded = [], 0
    for hit, wide in zip(hits, reply.hits, strict=True):
        if len(wide.text.split()) > options.max_words:
            unexpanded += 1
            wide = hit
        grown.append(
            replace(
                hit,
                page=wide.page,
                start=wide.start,
                end=wide.end,
                text=wide.text,
                headings=wide.headings,
                pages=wide.pages,
            )
        )
    merged = merge_hits(grown)
    notes = list(reply.notes)
    if unexpanded:
        count_text = counted(unexpanded, "hit is", "hits are")
        notes.append(f"{count_text} not expanded: over {options.max_words} words by {options.by}")
    if len(merged) < len(hits):
        gone = len(hits) - len(merged)
        count_text = counted(gone, "hit is", "hits are")
        notes.append(f"{count_text} merged into the surroundings of a better one")
    return merged, tuple(notes)


def merge_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits without overlaps: those that overlap are merged.

    The merged hit keeps the scores of the best ranked one and spans all; ranks are renumbered from
    1. Hits that only touch stay separate. Texts must be exactly those of their spans.
    """
    groups: list[list[int]] = []
    end, document = 0, None
    for at in sorted(range(len(hits)), key=lambda i: (hits[i].document_id, hits[i].start)):
        hit = hits[at]
        if groups and hit.document_id == document and hit.start < end:
            groups[-1].append(at)
            end = max(end, hit.end)
        else:
            groups.append([at])
            document, end = hit.document_id, hit.end
    groups.sort(key=min)
    return tuple(
        replace(_merged_hit([hits[at] for at in group], hits[min(group)]), rank=rank)
        for rank, group in enumerate(groups, 1)
    )


def _merged_hit(parts: Sequence[Hit], best: Hit) -> Hit:
    """Merge overlapping parts in text order into one hit."""
    if len(parts) == 1:
        return best
    first, text, end = parts[0], parts[0].text, parts[0].end
    for part in parts[1:]:
        if part.end > end:
            text += part.text[end - part.start :]
            end = part.end
    turns = {place: number for part in parts for place, number in part.pages}
    return replace(
        best,
        page=first.page,
        start=first.start,
        end=end,
        text=text,
        headings=first.headings,
        pages=tuple(sorted(turns.items())),
    )


def idle_exclusions(
    target: Target, filters: Sequence[Filter], soft: Sequence[SoftFilter] = ()
) -> Flow[tuple[str, ...]]:
    """A note for each excluding filter whose values no chunk holds.

    Values are looked up among the chunks under all other hard filters, so that hidden values count
    as unknown. Ranges are not checked. Call it after a search under these filters succeeded, so
    that they have no other fault.
    """
    hard = [
        (condition, [*filters[:at], *filters[at + 1 :]]) for at, condition in enumerate(filters)
    ]
    soft_conditions = [(condition.condition, list(filters)) for condition in soft]
    notes = []
    for condition, others in (*hard, *soft_conditions):
        if not (condition.exclude and condition.values):
            continue
        positive = (*others, replace(condition, exclude=False))
        try:
            yield from send(Search(target.snapshot, "keyword", 0, filters=positive), SearchReply)
        except FilterError as error:
            among = " among the chunks that the other filters allow" if others else ""
            hint = f" ({error.hint})" if error.hint else ""
            notes.append(f"{condition} excludes nothing{among}: {error.what}{hint}")
    return tuple(notes)


def retrieve(
    query: str,
    target: Target,
    options: RetrieveOptions,
    between: StageHooks | None = None,
    keywords: str = "",
) -> Flow[Retrieved]:
    """The ``top_k`` chunks that answer a query best, ranks from 1.

    The stages, all optional: rewording, search and fusion, reranking, selection, expansion; and
    iterations of these. Each hit carries, per channel that found it, its rank and score there. A
    custom retriever (``options.retriever``) is called with the first three arguments and is itself
    a flow. ``between`` may observe or change the hits between stages. ``keywords`` is
    searched by the keyword channel in place of the query, unless a method rewords the query.

    Raises:
        RetrieveError: The query is empty or too long, or needs vectors that the index does not
            have.
        FilterError: A filter names an unknown field.
        ConfigError: A stage's model is missing.
        ModelError: The embedding model fails, or a chat or reranking model has no key or refuses
            the request. Other failures of these two become notes.
        PluginError: The custom retriever fails, or is not a flow that returns ``Retrieved``.
    """
    check_question(query)
    through = between or StageHooks()
    if options.context_tokens is not None:  # as many as fit; their number is not known yet
        most = options.pool or LEAST_POOL
        options = replace(options, pool=most, top_k=most)
    if options.retriever:
        result = yield from _own(query, target, options)
        hits = through.ordered(through.pooled(result.hits))
        hits = hits if between is None else hits[: max(len(result.hits), options.top_k)]
        hits = _fitting(hits, target, options.context_tokens)
        return (
            result
            if hits is result.hits and between is None
            else replace(result, hits=through.kept(hits))
        )
    if options.iterate.method == "none":
        result = yield from _round(query, target, options, through, keywords)
    else:
        # A hop's query was written for the search: only the question is reworded.
        hop = replace(options, query=replace(options.query, methods=()))

        def run_hop(text: str) -> Flow[Retrieved]:
            hop_options = options if text == query else hop
            return (yield from _round(text, target, hop_options, through))

        result = yield from iterate(query, options.iterate, run_hop, options.top_k)
    return (yield from _finished(result, target, options, through))


def _round(
    query: str,
    target: Target,
    options: RetrieveOptions,
    through: StageHooks,
    keywords: str = "",
) -> Flow[Retrieved]:
    """One search: rewording, channels, reranking; as many hits as selection reads."""
    variants: str | tuple[Variant, ...] = query
    notes: tuple[str, ...] = ()
    if options.query.methods:
        text, cut = prepared(query, options.max_query_chars)
        known = None
        if "glossary" in options.query.methods:
            known = yield from visible_glossary(text, target, options.filters)
        variants, variant_notes = yield from query_variants(
            text, target, options.query, known, options.max_query_chars
        )
        notes = (*cut, *variant_notes)
    elif keywords:
        text, cut = prepared(query, options.max_query_chars)
        notes = tuple(cut)
        variants = (Variant(keywords[: options.max_query_chars], text),)
    depth = _depth(target, options)
    wide = max(rerank_depth(options.top_k, options.rerank), depth, through.depth)
    deep = options if wide == options.top_k else replace(options, top_k=wide)
    fused = yield from candidates(variants, target, deep)
    # Wordings are for the search only: later stages use the question as asked.
    question = fused.query if isinstance(variants, str) else text
    hits, more = yield from _fetched(fused, target)
    notes += more
    hits = through.pooled(hits)
    if options.rerank.model:
        hits, more = yield from _reranked(question, hits, options.rerank)
        notes += more
    hits = through.ordered(hits)
    hits = hits if len(hits) <= depth else hits[:depth]
    return Retrieved(question, hits, fused.mode, _once_each(notes, fused.notes), fused.explanation)


def _depth(target: Target, options: RetrieveOptions) -> int:
    """Number of hits that stages and selection read."""
    return max(
        select_depth(options.top_k, options.select), *(stage.depth for stage in target.stages), 0
    )


def _finished(
    result: Retrieved, target: Target, options: RetrieveOptions, through: StageHooks
) -> Flow[Retrieved]:
    """The hits to return, selected and expanded."""
    hits, notes = result.hits, result.notes
    if target.stages:
        hits = yield from run_stages(result.query, hits, target)
        hits = hits[: select_depth(options.top_k, options.select)]
    if options.select.active or options.select.watch:
        hits, more = yield from diversify(hits, options.top_k, target, options.select)
        notes = _once_each(notes, more)
    hits = hits if len(hits) <= options.top_k else hits[: options.top_k]
    hits = yield from with_opening(result.query, hits, target, options.filters)
    hits = _fitting(hits, target, options.context_tokens)
    hits = through.kept(hits)
    if options.expand.by:
        hits, more = yield from expand_hits(hits, target, options.expand, options.filters)
        hits = _fitting(hits, target, options.context_tokens)
        notes = _once_each(notes, more)
    relax = options.relaxation()
    if options.filters or relax:
        soft = relax.soft if relax else ()
        idle = yield from idle_exclusions(target, options.filters, soft)
        notes = _once_each(notes, idle) if idle else notes
    if hits is result.hits and notes is result.notes:
        return result
    return replace(result, hits=hits, notes=notes)


def _fitting(hits: tuple[Hit, ...], target: Target, tokens: int | None) -> tuple[Hit, ...]:
    """The first hits that together fit the number of tokens, at least one."""
    if tokens is None:
        return hits
    counter = target.tokenizer or WordTokenizer()
    left = tokens
    for at, hit in enumerate(hits):
        left -= counter.count(hit.text)
        if left < 0:
            return hits[: max(at, 1)]
    return hits


def _once_each(notes: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Notes of two stages, each once."""
    return tuple(dict.fromkeys((*notes, *more))) if notes else more


def _fetched(fused: Candidates, target: Target) -> Flow[tuple[tuple[Hit, ...], tuple[str, ...]]]:
    """The chunks of the candidates in their order, and notes."""
    best = fused.ranking
    if not best:
        return (), ()
    reply = yield from send(Lookup(target.snapshot, tuple(key for key, _ in best)), LookupReply)
    stored = reply.hits
    if len(stored) != len(best):
        raise RetrieveError(
            f"{counted(len(best), 'chunk was', 'chunks were')} found, {len(stored)} of "
            "them could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    return _ranked_hits(best, stored, fused), reply.notes


def _reranked(
    query: str, hits: tuple[Hit, ...], options: RerankOptions
) -> Flow[tuple[tuple[Hit, ...], tuple[str, ...]]]:
    """The first hits reranked; those that the model does not read stay behind them.

    They get the score of the last one before them, so that scores never rise.
    """
    shown, rest = hits[: options.candidates], hits[options.candidates :]
    ordered, notes = yield from rerank_hits(query, shown, options)
    if not ordered or ordered == shown:
        return hits, notes
    least = ordered[-1].score
    return (*ordered, *(replace(hit, score=least) for hit in rest)), notes


def _ranked_hits(best: Ranking, stored: tuple[Hit, ...], fused: Candidates) -> tuple[Hit, ...]:
    """Stored chunks with rank, score and the results of each channel."""
    places = [
        (name, ranking, {key: at for at, (key, _) in enumerate(ranking)})
        for name, ranking in fused.channels.items()
    ]
    hits = []
    for rank, ((key, score), hit) in enumerate(zip(best, stored, strict=True), 1):
        channels = {
            name: ChannelScore(at[key] + 1, ranking[at[key]][1])
            for name, ranking, at in places
            if key in at
        }
        # Written out: dataclasses.replace takes three times as long, once per hit and query.
        hits.append(
            Hit(
                rank,
                score,
                hit.document_id,
                hit.chunk_id,
                hit.source,
                hit.title,
                hit.page,
                hit.start,
                hit.end,
                hit.text,
                hit.headings,
                channels,
                hit.metadata,
                hit.pages,
                fused.rungs.get(key),
                hit.head,
            )
        )
    return tuple(hits)


def _own(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """Run the retriever of the settings; its errors name it."""
    own = load_object(options.retriever, where="retrieve.retriever")
    try:
        flow = own(query, target, options) if callable(own) else own
        result = (yield from flow) if isinstance(flow, Generator) else flow
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"{options.retriever} failed: {type(error).__name__}: {error}",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        ) from error
    if not isinstance(flow, Generator):
        raise PluginError(
            f"{options.retriever} is not a flow: it returned {type(flow).__name__}",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        )
    if not isinstance(result, Retrieved):
        raise PluginError(
            f"{options.retriever} returned {type(result).__name__}, not Retrieved",
            where="retrieve.retriever",
            hint=_OWN_FORM,
        )
    return result


_OWN_FORM = "write a generator function (query, target, options) that returns Retrieved"
