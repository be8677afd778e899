"""Stages of plug-ins and hooks between stages: opened as settings name them, run on the hits."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..core import (
    ChannelScore,
    Hit,
    PluginError,
    RagwrightError,
    RetrieveError,
    load_addition,
)
from ..flow import Flow, Lookup, LookupReply, send
from ._target import Stage, Target

Hits: TypeAlias = tuple[Hit, ...]


class StageHooks:
    """Hooks that may change the hits between stages; this one leaves them as they are.

    One is made for each search. Where the search goes in rounds (``retrieve.iterate``),
    ``pooled`` and ``ordered`` are called in each of them.

    Attributes:
        depth: Least number of candidates that the search fetches; fetching more than configured
            does not change hits by itself.
    """

    depth: int = 0

    def pooled(self, hits: Hits) -> Hits:
        """Candidates of the search, best first, before any reranking."""
        return hits

    def ordered(self, hits: Hits) -> Hits:
        """The reranked candidates, before selection and cut."""
        return hits

    def kept(self, hits: Hits) -> Hits:
        """The hits after selection and ``top_k``, before they are expanded."""
        return hits


def open_stages(names: Iterable[str], options: Callable[[str], Any]) -> tuple[Stage, ...]:
    """The stages that settings name, in order.

    Args:
        names: Names of installed stages, or ``module:object``.
        options: Gives the settings of a section.

    Raises:
        PluginError: One is not installed, or not a stage.
    """
    return tuple(_open_stage(name, options) for name in names)


def run_stages(question: str, hits: tuple[Hit, ...], target: Target) -> Flow[tuple[Hit, ...]]:
    """The hits after every stage of the target, with ranks from 1.

    Each hit gets its rank and score after a stage under the stage's name in ``channels``.

    Raises:
        PluginError: A stage fails, or returns something else than different hits of the index.
    """
    for stage in target.stages:
        flow = stage.apply(question, hits, target)
        if not isinstance(flow, Generator):
            raise _failed(stage, "apply is not a flow: write `yield from ()` before its return")
        try:
            returned = yield from flow
        except RagwrightError:
            raise
        except Exception as error:
            raise _failed(stage, f"{type(error).__name__}: {error}") from error
        ranked = tuple(_ranked(stage, returned))
        before = {hit.chunk_id for hit in hits}
        more = tuple(hit.chunk_id for hit in ranked if hit.chunk_id not in before)
        try:
            if more:
                yield from send(Lookup(target.snapshot, more), LookupReply)
        except RetrieveError as error:
            reason = f"it returned a hit that is not in the index: {error}"
            raise _failed(stage, reason) from error
        hits = ranked
    return hits


def _ranked(stage: Stage, returned: Sequence[Hit]) -> Iterable[Hit]:
    if not isinstance(returned, Sequence) or not all(isinstance(hit, Hit) for hit in returned):
        raise _failed(stage, f"it returned {type(returned).__name__}, not a tuple of hits")
    if len({hit.chunk_id for hit in returned}) != len(returned):
        raise _failed(stage, "it returned a chunk twice")
    if not all(math.isfinite(hit.score) for hit in returned):
        raise _failed(stage, "it returned a score that is not a number")
    for rank, hit in enumerate(returned, 1):
        yield replace(
            hit, rank=rank, channels={**hit.channels, stage.name: ChannelScore(rank, hit.score)}
        )


def _open_stage(name: str, options: Callable[[str], Any]) -> Stage:
    where = "retrieve.stages"
    extension = load_addition("stages", name, where=where)
    if isinstance(extension, type) and issubclass(extension, Stage):
        section = extension.name or name
        settings = options(section) if extension.settings else None
        if extension.settings and not isinstance(settings, extension.settings):
            raise PluginError(
                f"{name!r} cannot have the settings of the section {section!r}: it is ragwright's",
                where=where,
                hint="give it another name",
            )
        try:
            extension = extension(settings)
        except TypeError as error:  # a method that it must have is missing
            raise PluginError(f"{name!r} cannot be made: {error}", where=where) from error
    if not isinstance(extension, Stage):
        raise PluginError(
            f"{name!r} is not a stage", where=where, hint="subclass Stage of ragwright.retrieve"
        )
    if not extension.name:
        if ":" in name:
            raise PluginError(f"{name!r} has no name", where=where, hint="set its attribute name")
        extension.name = name
    return extension


def _failed(stage: Stage, reason: str) -> PluginError:
    return PluginError(
        f"the stage {stage.name!r} failed: {reason}",
        where="retrieve.stages",
        hint="test it with StageSuite of ragwright.testing",
    )
