"""Retrieval as a flow: search the channels, fuse them, fetch the best chunks."""

from __future__ import annotations

from collections.abc import Generator

from ..core import ChannelScore, Hit, PluginError, RagwrightError, RetrieveError, load_object
from ..flow import Flow, lookup
from ._channels import candidates
from ._options import RetrieveOptions
from ._target import Candidates, Ranking, Retrieved, Target


def retrieve(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """The ``top_k`` chunks that answer a query best, ranks from 1.

    Each hit carries, per channel that found it, its rank and score there. An own retriever
    (``options.retriever``) is called with the same three arguments and is itself a flow.

    Raises:
        RetrieveError: The query is empty, or asks for vectors that the index has not.
        FilterError: A filter names an unknown field.
        PluginError: The own retriever fails, or is not a flow that returns ``Retrieved``.
    """
    if options.retriever:
        return (yield from _own(query, target, options))
    found = yield from candidates(query, target, options)
    best = found.ranking
    if not best:
        return Retrieved(found.query, (), found.mode, found.notes, found.explanation)
    stored = (yield from lookup(target.snapshot, [key for key, _ in best])).hits
    if len(stored) != len(best):
        raise RetrieveError(
            f"{len(best)} chunks were found, {len(stored)} of them could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    hits = _ranked_hits(best, stored, found)
    return Retrieved(found.query, hits, found.mode, found.notes, found.explanation)


def _ranked_hits(best: Ranking, stored: tuple[Hit, ...], found: Candidates) -> tuple[Hit, ...]:
    """Stored chunks with rank, score and what each channel said."""
    places = [
        (name, ranking, {key: at for at, (key, _) in enumerate(ranking)})
        for name, ranking in found.channels.items()
    ]
    hits = []
    for rank, ((key, score), hit) in enumerate(zip(best, stored, strict=True), 1):
        channels = {
            name: ChannelScore(at[key] + 1, ranking[at[key]][1])
            for name, ranking, at in places
            if key in at
        }
        # Written out: dataclasses.replace costs three times as much, once per hit and query.
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
                found.rungs.get(key),
            )
        )
    return tuple(hits)


def _own(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """Hand over to the retriever that the settings name; what it fails with names it."""
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
            f"{options.retriever} is not a flow: it gave {type(flow).__name__}",
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
