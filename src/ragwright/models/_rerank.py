"""Reranking: windows for cross-encoders, the keyless reranker, servers with ``/rerank``."""

from __future__ import annotations

import math
import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from ..core import ModelRefusedError, Usage, count_noun
from ._analysis import Analyzer
from ._embedding import Reranker, Tokenizer, plan_windows
from ._language import sentence_spans
from ._names import ModelTarget
from ._openai import order_entries
from ._replies import token_usage
from ._transport import Connections, OpenAIServer, server_identity


class WindowReranker(Reranker):
    """Base of cross-encoders: a long passage is scored by windows.

    A passage that does not fit beside the query gets the score of its best window (MaxP; Dai and
    Callan 2019); nothing is cut off.

    Attributes:
        window: Most tokens of query and passage, special ones left out; None for no limit.
    """

    window: int | None

    @abstractmethod
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None means that nothing is cut."""

    @abstractmethod
    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, higher is better.

        Raises:
            ModelRefusedError: The query alone fills the window.
        """
        if not passages:
            return []
        tokenizer, room = self.tokenizer(), None
        if self.window is not None and tokenizer is not None:
            room = self.window - tokenizer.count(query)
            if room < 1:
                raise ModelRefusedError(
                    f"the query fills the window of {self.window} tokens", where=self.identity
                )
        planned = plan_windows([passages], "", tokenizer, room, (self.identity, "pool"))
        pair_scores = iter(self.pair_scores([(query, piece) for piece in planned.pieces]))
        (counts,) = planned.counts
        assert isinstance(counts, list), "pooling never fails"
        return [max(islice(pair_scores, count)) for count in counts]


_K1, _B = 1.2, 0.75


class LexicalReranker(Reranker):
    """Scores passages by the BM25 score of their best sentence; deterministic, no files.

    Sentences of all passages of a request are the collection; the words of a passage's first
    line, its title, count for each of its sentences.
    """

    name = "lexical"
    identity = "lexical/1"
    scale = "BM25, from 0"

    def __init__(self) -> None:
        self._analyzer = Analyzer()

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, rounded to 6 digits; 0 where no word is shared."""
        terms = dict.fromkeys(self._analyzer.query_tokens(query))
        cut = [[text[s.start : s.end] for s in sentence_spans(text)] for text in passages]
        tokens = [[Counter(row) for row in self._analyzer.tokens_of(lines)] for lines in cut]
        sentences = [counts for passage in tokens for counts in passage]
        if not sentences:
            return [0.0] * len(passages)
        mean = sum(counts.total() for counts in sentences) / len(sentences) or 1.0
        held = Counter(term for counts in sentences for term in terms if term in counts)
        idf = {t: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for t, n in held.items()}

        def of(counts: Counter[str], title: Counter[str]) -> float:
            norm = _K1 * (1 - _B + _B * counts.total() / mean)
            shares = ((t, max(counts[t], min(title[t], 1))) for t in idf)
            return sum(idf[t] * n * (_K1 + 1) / (n + norm) for t, n in shares if n)

        return [
            round(max((of(counts, passage[0]) for counts in passage), default=0.0), 6)
            for passage in tokens
        ]


_MOST_PASSAGES = 1000
"""Most passages of one call, as Cohere and Voyage take them."""


class ServerReranker:
    """A reranking model behind ``POST base/rerank``.

    Replies are read in the shapes of Cohere, Jina and vLLM (``results``), Voyage (``data``) and
    text-embeddings-inference (``texts`` in, a list out). Passages go in calls of at most
    ``batch_size``, or what the server takes, which is learnt.

    Args:
        target: Location of the model; its base may differ from the provider's.
        connections: Clients to share.
    """

    scale = "as the server gives it"

    def __init__(self, target: ModelTarget, connections: Connections) -> None:
        self.target = target
        self._server = OpenAIServer(target, connections)
        self.identity = server_identity(target)
        self._field = "documents"
        self._size = target.settings.batch_size or _MOST_PASSAGES

    async def score(
        self, query: str, passages: Sequence[str], timeout: float | None = None
    ) -> tuple[tuple[float, ...], Usage]:
        """One score per passage, and the usage (estimated where the server sends none).

        Raises:
            ModelReplyError: Scores missing or not numbers.
            ModelError: Whatever else the server does.
        """
        scores: tuple[float, ...] = ()
        total = Usage()
        while len(scores) < len(passages):
            part = passages[len(scores) : len(scores) + self._size]
            try:
                found, usage = await self._score_part(query, part, timeout)
            except ModelRefusedError as error:
                if self._field == "documents" and re.search(r"\btexts\b", error.what):
                    self._field = "texts"  # text-embeddings-inference
                else:
                    self._size = self._server.smaller_batch(error, len(part), self._size)
                continue
            scores, total = scores + found, total + usage
        return scores, total

    async def _score_part(
        self, query: str, passages: Sequence[str], timeout: float | None
    ) -> tuple[tuple[float, ...], Usage]:
        body: dict[str, Any] = {
            "model": self.target.name.name,
            **self.target.settings.params,
            "query": query,
            self._field: list(passages),
            "top_n": len(passages),
        }
        if self._field == "texts":
            del body["top_n"]
        data, _ = await self._server.send("/rerank", body, timeout)
        try:
            scores = _passage_scores(data.get("results") or data.get("data"), passages)
        except ValueError as error:
            raise self._server.bad_reply(f"sent scores that cannot be read: {error}") from None
        usage = data.get("usage")
        counted = usage.get("total_tokens") if isinstance(usage, dict) else None
        characters = len(query) * len(passages) + sum(map(len, passages))
        return scores, token_usage({"prompt_tokens": counted}, characters, 0)[0]


def _passage_scores(results: Any, passages: Sequence[str]) -> tuple[float, ...]:
    """One score per passage, from the entries of a reply.

    Raises:
        ValueError: Entries missing or repeated, a score that is not a number, or a passage returned
            under the index of another one.
    """
    entries = results if isinstance(results, list) else []
    if len(entries) != len(passages):
        raise ValueError(
            f"{count_noun(len(entries), 'score')} for {count_noun(len(passages), 'passage')}"
        )
    scores = []
    for entry, passage in zip(order_entries(entries, len(passages)), passages, strict=True):
        score: Any = entry.get("relevance_score", entry.get("score"))
        if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:
            raise ValueError("a score is not a finite number")
        document = entry.get("document")
        text = document.get("text") if isinstance(document, dict) else document
        if text != passage and text in passages:
            raise ValueError("an index does not match its passage")
        scores.append(float(score))
    return tuple(scores)
