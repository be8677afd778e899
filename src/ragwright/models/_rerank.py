"""Reranking models: a local cross-encoder, and servers that offer ``/rerank``."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..core import ConfigError, ModelRefusedError, Usage, counted, require, text_hash
from ._door import token_usage
from ._embedding import plan_windows
from ._hf_tokenizer import HFTokenizer
from ._names import Target
from ._openai import in_order
from ._options import EmbedOptions
from ._seams import Reranker, Tokenizer
from ._st import folder_hash, model_hash, open_quietly
from ._transport import Connections, OpenAIServer, server_identity


class CrossEncoderReranker(Reranker):
    """A cross-encoder by sentence-transformers: reads query and passage together.

    A passage that does not fit beside the query is scored by windows and gets the score of its best
    window (MaxP; Dai and Callan 2019); nothing is cut off. On the CPU pairs are run one by one, so
    that a score does not depend on other pairs.

    Args:
        source: A folder, or a name on the hub.
        options: ``threads`` (of the whole process) and ``batch_size`` (other devices).
        device: A torch device.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such model, one with several labels, or one without a trained scoring head,
            such as an embedding model.
    """

    def __init__(
        self, source: str | Path, options: EmbedOptions | None = None, device: str = "cpu"
    ) -> None:
        options = options or EmbedOptions()
        with without_load_report():
            self._model = open_quietly("CrossEncoder", str(source), device)
        check_head(self._model, source)
        if self._model.num_labels != 1:
            raise ConfigError(
                f"the model gives {counted(self._model.num_labels, 'label')}, reranking "
                "needs one score",
                where=str(source),
            )
        require("torch", "torch", "an st: model").set_num_threads(options.threads)
        self._batch = 1 if device == "cpu" else options.batch_size
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        self._tokenizer = HFTokenizer(fast) if fast is not None else None
        window = self._model.max_seq_length
        specials = self._model.tokenizer.num_special_tokens_to_add(True)
        self.window = int(window) - specials if window and window < 1e9 else None
        function = type(self._model.activation_fn).__name__
        self.scale = "0-1, sigmoid" if function == "Sigmoid" else f"logit ({function})"
        tokens = text_hash(fast.to_str())[:16] if fast is not None else "slow"
        self.identity = folder_identity(source) or (
            f"cross:{model_hash(self._model)}:{tokens}:{self.window}:{function}"
        )

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, higher is better.

        Raises:
            ModelRefusedError: The query alone fills the window.
        """
        return best_windows(query, passages, self._tokenizer, self.window, self)

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Scores of queries with passages that fit the window beside them."""
        predicted = self._model.predict(
            list(pairs), batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in predicted]


class PairScorer(Protocol):
    """Scores pairs of texts that fit its window."""

    identity: str

    def pair_scores(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """One score per pair, higher is better."""


def best_windows(
    query: str,
    passages: Sequence[str],
    tokenizer: Tokenizer | None,
    window: int | None,
    scorer: PairScorer,
) -> list[float]:
    """One score per passage: that of its best window beside the query.

    Args:
        query: The query, never cut.
        passages: Passages, cut into windows where they do not fit beside the query.
        tokenizer: The model's tokenizer; None means that nothing is cut.
        window: Most tokens of both, special ones left out; None for no limit.
        scorer: The model.

    Raises:
        ModelRefusedError: The query alone fills the window.
    """
    if not passages:
        return []
    room = None
    if window is not None and tokenizer is not None:
        room = window - tokenizer.count(query)
        if room < 1:
            raise ModelRefusedError(
                f"the query fills the window of {window} tokens", where=scorer.identity
            )
    planned = plan_windows([passages], "", tokenizer, room, (scorer.identity, "pool"))
    pair_scores = scorer.pair_scores([_encodable_pair(query, piece) for piece in planned.pieces])
    (counts,) = planned.counts
    assert isinstance(counts, list), "pooling never fails"
    scores, place = [], 0
    for count in counts:
        scores.append(max(pair_scores[place : place + count]))
        place += count
    return scores


@contextmanager
def without_load_report() -> Iterator[None]:
    """Suppress the report of missing weights: what matters of it becomes an error."""
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def has_head(model: Any) -> bool:
    """False for a model whose weights lack the scoring head: its scores are noise."""
    saved, opened = _architectures(model)
    return not (saved and opened.endswith("ForSequenceClassification") and opened not in saved)


def _architectures(model: Any) -> tuple[Sequence[str], str]:
    """The classes of the network that was saved, and the class that was opened."""
    network = getattr(model[0], "auto_model", None)
    saved = getattr(getattr(network, "config", None), "architectures", None)
    return saved or (), type(network).__name__


def check_head(model: Any, source: str | Path) -> None:
    """Refuse a model without a trained head."""
    if not has_head(model):
        kind = _architectures(model)[0][0]
        raise ConfigError(
            f"the model is a {kind}, which has no trained head that scores a pair of texts",
            where=str(source),
            hint="name a cross-encoder; to rerank by an embedding model write embed:MODEL",
        )


def folder_identity(source: str | Path) -> str | None:
    """Identity of a cross-encoder by the files of its folder, without opening it.

    None for a name on the hub: its files are only known after it is opened.
    """
    home = Path(source).expanduser()
    return f"cross:{folder_hash(home)}" if home.is_dir() else None


def _encodable_pair(query: str, passage: str) -> tuple[str, str]:
    return (
        query.encode("utf-8", "replace").decode("utf-8"),
        passage.encode("utf-8", "replace").decode("utf-8"),
    )


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

    def __init__(self, target: Target, connections: Connections) -> None:
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
            f"{counted(len(entries), 'score')} for {counted(len(passages), 'passage')}"
        )
    scores = []
    for entry, passage in zip(in_order(entries, len(passages)), passages, strict=True):
        score: Any = entry.get("relevance_score", entry.get("score"))
        if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:
            raise ValueError("a score is not a finite number")
        document = entry.get("document")
        text = document.get("text") if isinstance(document, dict) else document
        if text != passage and text in passages:
            raise ValueError("an index does not match its passage")
        scores.append(float(score))
    return tuple(scores)
