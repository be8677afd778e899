"""A learned ranking: small regression trees over features of the search's hits.

The file holds numbers only, as JSON; scoring is plain arithmetic, without the library that fitted
the trees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ChannelScore, ConfigError, Hit, RetrieveError, replacing, text_hash
from ..flow import Vector
from ._ranker_features import FEATURES, VERSION, Asked, Table, features

Shares = dict[str, tuple[float, float]]
"""Feature -> its value, and what it adds to the score of a hit."""

Whole = NDArray[np.int64]
_EXPLAINED = 10
"""First hits whose features are part of an explanation."""

_MAKE = "make one: ragwright tune ranker"
_MOST_NODES = 1_000_000

MODES = ("keyword", "dense", "sparse", "late", "hybrid")
"""Searches whose hits a ranker may order: of one channel, or of several."""


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Regression trees as arrays over all nodes; the score of a hit is the sum over the trees.

    Attributes:
        roots: Node of each tree's root.
        feature: Column that a node reads; -1 at a leaf.
        threshold: Hits with at most this value go left.
        left: Node on the left, a leaf's own at a leaf; likewise ``right``.
        value: Mean score of the training hits at a node; at a leaf, its score.
    """

    roots: Whole
    feature: Whole
    threshold: Table
    left: Whole
    right: Whole
    value: Table

    def scores(self, table: Table) -> Table:
        """The sum of the trees for each line of a table of features."""
        nodes = np.broadcast_to(self.roots, (len(table), len(self.roots)))
        lines = np.arange(len(table))[:, None]
        while (inner := self.feature[nodes] >= 0).any():
            goes = table[lines, self.feature[nodes]] <= self.threshold[nodes]
            nodes = np.where(inner, np.where(goes, self.left[nodes], self.right[nodes]), nodes)
        return np.asarray(self.value[nodes].sum(axis=1), np.float64)

    def shares(self, table: Table) -> Table:
        """Return what each feature adds to the score of each line, same shape as the table.

        The change of the mean score at each split counts for the feature that is split on
        (Saabas 2014). Together they are the score minus a constant.
        """
        shares_found = np.zeros_like(table)
        for at, line in enumerate(table):
            nodes = self.roots
            while (inner := self.feature[nodes] >= 0).any():
                nodes = nodes[inner]
                reads = self.feature[nodes]
                goes = line[reads] <= self.threshold[nodes]
                after = np.where(goes, self.left[nodes], self.right[nodes])
                shares_found[at] += np.bincount(
                    reads, self.value[after] - self.value[nodes], minlength=table.shape[1]
                )
                nodes = after
        return shares_found


@dataclass(frozen=True, slots=True, eq=False)
class Ranker:
    """A learned ranking of the first hits of a search.

    Attributes:
        trees: Regression trees over the features.
        depth: Number of hits that it orders; the features of a hit depend on all of them.
        mode: Search that it was trained with: one channel, or ``hybrid``.
        embedder: Identity of the embedding model, empty without vectors.
        card: How it was made: testset, settings, scores.
        digest: Hash of the file's content.
        encoders: Channels with data of their own that it was trained with: name -> identity of the
            encoder.
    """

    trees: Trees
    depth: int
    mode: str
    embedder: str
    card: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    encoders: Mapping[str, str] = field(default_factory=dict)

    def check_search(self, mode: str, encoders: Mapping[str, str]) -> None:
        """Refuse hits of another search than that whose hits the ranker learned to order.

        Args:
            mode: Channels that were searched: ``keyword``, ``dense``, ``hybrid``…
            encoders: Those of them with data of their own -> identity of the encoder.

        Raises:
            RetrieveError: The channels differ, or the model of one.
        """
        if mode != self.mode:
            raise RetrieveError(
                f"the ranker was trained for {self.mode} search, and this is {mode} search",
                where="retrieve.ranker",
                hint="search the channels that it was trained with (retrieve.channels, "
                "retrieve.search), or train another: ragwright tune ranker",
            )
        if encoders != self.encoders:
            names = [sorted(each) for each in (self.encoders, encoders)]
            own, searched = (", ".join(each) or "no further channel" for each in names)
            what = (
                f"the ranker was trained with another model of {own}"
                if names[0] == names[1]
                else f"the ranker was trained with {own}, and this search uses {searched}"
            )
            raise RetrieveError(
                what,
                where="retrieve.ranker",
                hint="set retrieve.channels as it was, or train another: ragwright tune ranker",
            )

    def applied(
        self, hits: tuple[Hit, ...], asked: Asked, vectors: Vector | None
    ) -> tuple[tuple[Hit, ...], dict[str, Shares]]:
        """The hits in the ranker's order, and why its first ten are where they are.

        Args:
            hits: Hits of the search, best first.
            asked: The words of the query.
            vectors: Vectors of the hits, shape (hits, dimensions), None where the index has none.
        """
        first = hits[: self.depth]
        if not first:
            return hits, {}
        table = features(first, asked, None if vectors is None else vectors[: len(first)])
        ordered = self.ordered(hits, table)
        explained = ordered[: min(_EXPLAINED, len(first))]
        places = {hit.chunk_id: at for at, hit in enumerate(first)}
        shares = self.explained(table[[places[hit.chunk_id] for hit in explained]])
        return ordered, {
            hit.chunk_id: reasons for hit, reasons in zip(explained, shares, strict=True)
        }

    def ordered(self, hits: Sequence[Hit], table: Table) -> tuple[Hit, ...]:
        """The first ``depth`` hits in the ranker's order, then the others in theirs.

        Scores become the ranker's, rounded to 6 digits; ties keep the order of the search, and hits
        on a heavier relaxation level stay before those on lighter ones. ``channels["search"]``
        keeps rank and score of the search, ``channels["ranker"]`` the ranker's. The others get the
        score of the last hit before them.

        Args:
            hits: Hits of the search, best first.
            table: Features of the first ``depth`` of them.
        """
        scores = [round(float(score), 6) for score in self.trees.scores(table)]
        by_score = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
        places = {at: rank for rank, at in enumerate(by_score, 1)}

        def level(at: int) -> float:
            rung = hits[at].rung
            return -rung.weight if rung is not None else 0.0

        reordered = []
        for rank, at in enumerate(sorted(places, key=lambda at: (level(at), places[at])), 1):
            hit = hits[at]
            channels = {
                **hit.channels,
                "search": ChannelScore(hit.rank, hit.score),
                "ranker": ChannelScore(places[at], scores[at]),
            }
            reordered.append(replace(hit, rank=rank, score=scores[at], channels=channels))
        least = min(scores, default=0.0)
        return (*reordered, *(replace(hit, score=least) for hit in hits[len(scores) :]))

    def explained(self, table: Table) -> list[Shares]:
        """For each line, map each feature to its value and its part of the score."""
        shares = self.trees.shares(table)
        return [
            {
                name: (round(float(value), 4), round(float(share), 4))
                for name, value, share in zip(FEATURES, line, added, strict=True)
            }
            for line, added in zip(table, shares, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write the ranker as one JSON file, atomically."""
        names = ("roots", "feature", "threshold", "left", "right", "value")
        document = {
            "ranker": VERSION,
            "features": list(FEATURES),
            "depth": self.depth,
            "mode": self.mode,
            "embedder": self.embedder,
            "encoders": dict(self.encoders),
            "card": self.card,
            "trees": {name: getattr(self.trees, name).tolist() for name in names},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write((json.dumps(document, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Ranker:
        """Read a ranker.

        Raises:
            ConfigError: The file is missing or damaged, is not a ranker, or holds a ranker of
                another version of the features.
        """
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ConfigError("no such ranker", where=str(path), hint=_MAKE) from error
        except OSError as error:
            raise ConfigError(f"not readable: {error}", where=str(path), hint=_MAKE) from error
        return _parse_ranker(content, str(path))

    def check(self, embedder: str, where: str) -> None:
        """Refuse a ranker that was made for another embedding model.

        Raises:
            ConfigError: The model's identity differs.
        """
        if self.mode != "keyword" and self.embedder != embedder:
            raise ConfigError(
                f"the ranker was made for {self.card.get('model') or 'another embedding model'}, "
                "or for other settings of embed",
                where=where,
                hint="make one for this model: ragwright tune ranker; or unset retrieve.ranker",
            )


@lru_cache(maxsize=8)
def _parse_ranker(content: bytes, where: str) -> Ranker:
    """The ranker in the bytes of a file; kept, since a server asks for it with every question."""
    try:
        document = json.loads(content)
        version, names = document["ranker"], document["features"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"not a ranker: {error!r}", where=where, hint=_MAKE) from error
    if version != VERSION or names != list(FEATURES)[: len(names)]:
        raise ConfigError(
            f"the ranker has features of version {version}; this ragwright computes version "
            f"{VERSION}",
            where=where,
            hint="make it again: ragwright tune ranker",
        )
    try:
        ranker = _ranker_of(document, text_hash(content.hex()))
        fault = _ranker_fault(ranker, len(names))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ConfigError(f"not a ranker: {error!r}", where=where, hint=_MAKE) from error
    if fault:
        raise ConfigError(f"not a ranker: {fault}", where=where, hint=_MAKE)
    return ranker


def _ranker_of(document: Mapping[str, Any], digest: str) -> Ranker:
    """A ranker from the parsed content of its file."""
    trees = document["trees"]
    roots, feature, left, right = (
        np.array(trees[name], np.int64) for name in ("roots", "feature", "left", "right")
    )
    threshold, value = (np.array(trees[name], np.float64) for name in ("threshold", "value"))
    return Ranker(
        Trees(roots, feature, threshold, left, right, value),
        int(document["depth"]),
        str(document["mode"]),
        str(document["embedder"]),
        dict(document["card"]),
        digest,
        dict(document.get("encoders", {})),
    )


def _ranker_fault(ranker: Ranker, names: int) -> str:
    """The fault of a ranker of so many features that was read; empty if there is none."""
    trees = ranker.trees
    nodes = len(trees.feature)
    parts = (trees.feature, trees.threshold, trees.left, trees.right, trees.value)
    if any(part.shape != (nodes,) for part in parts) or not 0 < nodes <= _MOST_NODES:
        return "its trees have no nodes, or parts of different lengths"
    if not np.isfinite(trees.value).all() or not np.isfinite(trees.threshold).all():
        return "a score or threshold is not a finite number"
    if trees.roots.ndim != 1 or not len(trees.roots):
        return "it has no trees"
    inner = trees.feature >= 0
    places = np.arange(nodes)
    children = np.concatenate([trees.left[inner], trees.right[inner]])
    parents = np.concatenate([places[inner], places[inner]])
    # Children come after their parents, so that no walk is endless.
    if ((children <= parents) | (children >= nodes)).any():
        return "a node points outside of its tree"
    if ((trees.roots < 0) | (trees.roots >= nodes)).any() or (trees.feature >= names).any():
        return "a root or feature is unknown"
    if ranker.depth < 1 or ranker.mode not in MODES:
        return "its depth or mode is wrong"
    return ""
