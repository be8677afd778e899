"""Pairs of a question and a passage that answers it, with a passage that does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Chunk, Row, Span, TestsetError, case_folded, text_hash
from ..flow import embed, gather
from ..index import View, write_embedded_text
from ..project import Project
from ..testsets import gold_chunks, split_clusters

Negatives: TypeAlias = Literal["hard", "random", "none"]
"""Source of passages that do not answer: the index, by the present model; at random; none."""

LEAST_PAIRS = 20
_LEAST_UNSEEN, _MOST_UNSEEN = 5, 200
_UNSEEN = 0.15
"""Share of the pairs that are held back from training, to decide when to stop."""
_DEPTH = 50
_POOL = 400
"""Most passages that unseen questions search."""
_NEAR = 5
"""Number of best passages of an unseen question in this pool."""
_BLOCK = 64
_CHUNKS = 1_000_000
"""Most chunks from which random passages are drawn."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A training question and its passages, as the model reads them, without prefixes.

    Attributes:
        question: The question.
        positive: Text of the chunk that answers it.
        gold: Ids of all chunks that answer it.
        source: Its source, one of ``SOURCES``.
        cluster: Cluster of the pairs with a common gold document.
        negatives: Texts of chunks that do not answer it; empty if none are used.
        near: Ids of the chunks that are ranked first: by the present model, or by the search.
    """

    question: str
    positive: str
    gold: frozenset[str]
    source: str
    cluster: str
    negatives: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBackQuestions:
    """Questions held back from training, and the passages that they search.

    Attributes:
        questions: The questions.
        gold: Ids of the passages that answer each.
        passages: Id -> text.
        hits: Ids of the passages that the search finds for each, in its order; empty where all
            passages are searched.
    """

    questions: tuple[str, ...] = ()
    gold: tuple[frozenset[str], ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict)
    hits: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """Options for choosing a passage that does not answer.

    Attributes:
        kind: Source of the passage: the index, a random one, or none.
        margin: A hit whose similarity is higher than that of the gold by more than this is left
            out: it may answer too.
        seed: Seed of random passages.
    """

    kind: Negatives = "hard"
    margin: float = 0.1
    seed: int = 0


def read_pairs(project: Project, rows: Sequence[Row], mining: MiningOptions) -> list[Pair]:
    """Return pairs of the rows whose gold is in the index, equal ones once.

    Of several chunks that answer a question, the nearest one by the present model is used.

    Raises:
        TestsetError: Fewer than 20 pairs.
    """
    target = project.target()
    view = project.views.view(target.snapshot)
    gold_by_row = project.runner.run(gather(gold_chunks(row, target) for row in rows))
    with_gold = [(row, gold) for row, gold in zip(rows, gold_by_row, strict=True) if gold]
    clusters = split_clusters([row for row, _ in with_gold])
    questions = [row.user_input for row, _ in with_gold]
    blocks = [questions[at : at + _BLOCK] for at in range(0, len(questions), _BLOCK)]
    vectors = project.runner.run(gather(embed(target.model, block) for block in blocks))
    empty = np.zeros((0, target.dimensions), np.float32)
    queries: NDArray[np.float32] = np.concatenate([empty, *vectors])
    searcher = _PairFinder(view, mining)
    pairs: dict[tuple[str, str], Pair] = {}
    for (row, gold), query in zip(with_gold, queries, strict=True):
        pair = searcher.pair(row, gold, query, clusters[row.id])
        lacks_negative = mining.kind != "none" and not pair.negatives
        if not lacks_negative and case_folded(pair.question) != case_folded(pair.positive):
            pairs.setdefault((pair.question, pair.positive), pair)
    return enough(list(pairs.values()), len(rows), len(with_gold))


def enough(pairs: list[Pair], questions: int, with_gold: int) -> list[Pair]:
    """Return the pairs if there are at least 20.

    Raises:
        TestsetError: There are fewer.
    """
    if len(pairs) < LEAST_PAIRS:
        raise TestsetError(
            f"{len(pairs)} pairs of a question and its passage; training needs {LEAST_PAIRS}"
            f" ({questions} questions, {with_gold} of them with gold in the index)",
            hint="add questions to the testset, or pairs of other sources: "
            "--from testset,headings,glossary",
        )
    return pairs


class _PairFinder:
    """Finds the passages of pairs in a view of the index."""

    def __init__(self, view: View, mining: MiningOptions) -> None:
        self._view = view
        self._mining = mining
        self._all_chunks = view.every(_CHUNKS)
        self._random = np.random.default_rng(mining.seed)

    def pair(
        self, row: Row, gold: frozenset[str], query: NDArray[np.float32], cluster: str
    ) -> Pair:
        """Return the pair of a row; without a negative if every passage of the index answers."""
        keys = sorted(gold)
        vectors = self._view.vectors(keys)
        assert vectors is not None, "the index has an embedding model"
        scores = vectors @ query
        best = int(np.argmax(scores))
        texts = dict(zip(keys, passage_texts(self._view, keys), strict=True))
        (reply,) = self._view.dense(query[None], _DEPTH)
        near = tuple(key for key, _ in reply[:_NEAR])
        source = str(row.metadata.get("source") or "testset")
        highest = float(scores[best]) + self._mining.margin
        confused = [key for key, score in reply if score <= highest]
        negatives = self._negatives(confused, texts)
        return Pair(row.user_input, texts[keys[best]], gold, source, cluster, negatives, near)

    def _negatives(self, confused: Sequence[str], gold: Mapping[str, str]) -> tuple[str, ...]:
        """Return the first of these passages, else a random one, that is not gold and differs from
        it.
        """
        if self._mining.kind == "none":
            return ()
        answering = {case_folded(text) for text in gold.values()}
        random_keys = (
            self._all_chunks[int(index)]
            for index in self._random.integers(0, len(self._all_chunks), _DEPTH)
        )
        for key in chain(confused if self._mining.kind == "hard" else (), random_keys):
            (text,) = passage_texts(self._view, [key])
            if key not in gold and case_folded(text) not in answering:
                return (text,)
        return ()


def passage_texts(view: View, keys: Sequence[str]) -> list[str]:
    """Return texts of chunks as they are embedded: with their heads."""
    return [
        write_embedded_text(
            Chunk(
                hit.chunk_id,
                hit.document_id,
                0,
                Span(hit.start, hit.end),
                hit.text,
                head=hit.head,
            ),
            hit.title,
        )
        for hit in view.lookup(keys)
    ]


def hold_back_unseen(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split off questions on other documents, to decide when to stop training.

    About 15 % of the pairs, 5 to 200, are split off in whole clusters; with fewer than five
    clusters, in single pairs.

    Returns:
        The training pairs, and those that are split off.
    """
    sizes = Counter(pair.cluster for pair in pairs)
    single = len(sizes) < _LEAST_UNSEEN
    if single:
        sizes = Counter(pair.question for pair in pairs)
    wanted = min(_MOST_UNSEEN, max(_LEAST_UNSEEN, round(_UNSEEN * len(pairs))))
    unseen_names: set[str] = set()
    count = 0
    for name in sorted(sizes, key=lambda name: text_hash(f"unseen\x00{name}")):
        if count >= wanted:
            break
        if count + sizes[name] <= len(pairs) // 2:
            unseen_names.add(name)
            count += sizes[name]
    unseen = [p for p in pairs if (p.question if single else p.cluster) in unseen_names]
    training_pairs = [p for p in pairs if (p.question if single else p.cluster) not in unseen_names]
    return training_pairs, unseen


def make_unseen(project: Project, pairs: Sequence[Pair]) -> HeldBackQuestions:
    """Return the questions of pairs that are not trained on, and the passages that they search."""
    pool = _passage_pool(project.views.view(project.target().snapshot), pairs)
    return HeldBackQuestions(tuple(p.question for p in pairs), tuple(p.gold for p in pairs), pool)


def _passage_pool(view: View, unseen: Sequence[Pair]) -> dict[str, str]:
    """Return passages to search: all gold first, then those that the present model confuses with
    it.
    """
    keys = dict.fromkeys(key for pair in unseen for key in sorted(pair.gold)[:_NEAR])
    for rank in range(_NEAR):
        for pair in unseen:
            if len(keys) < _POOL and rank < len(pair.near):
                keys[pair.near[rank]] = None
    names = sorted(keys)
    return dict(zip(names, passage_texts(view, names), strict=True))
