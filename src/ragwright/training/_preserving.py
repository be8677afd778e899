"""Sentences of the passages, with the similarities that they had before training.

A model that is trained on one kind of question forgets others. If it also has to keep what it
answered to other texts, it forgets less (learning without forgetting; Li and Hoiem 2016,
arXiv:1606.09282). The texts are sentences of the training passages without codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ..core import require, text_hash
from ..flow import embed, gather
from ..models import is_code, sentence_spans, words
from ._pairs import passage_texts

if TYPE_CHECKING:
    from ..project import Project
    from ._pairs import Pair

_FEWEST_WORDS, _MOST_WORDS = 4, 40
_OF_A_PASSAGE = 2
_BLOCK = 64
_LETTERS = 0.8
"""Least share of letters and spaces of a sentence that is prose."""
_SCALE = 20.0


def kept_sentences(pairs: Sequence[Pair]) -> list[str]:
    """Return a sentence of each pair's passage; of one that has none, a sentence of another.

    Pairs with the same passage get different sentences as far as it has them. The list is empty if
    no passage has a sentence of 4 to 40 words without codes.
    """
    by_passage: dict[str, Iterator[str]] = {}
    every = [sentence for pair in pairs for sentence in _sentences(pair.positive)[:1]]
    others = cycle(every)
    kept: list[str] = []
    for pair in pairs if every else ():
        sentences = by_passage.setdefault(pair.positive, cycle(_sentences(pair.positive)))
        kept.append(next(sentences, None) or next(others))
    return kept


def sentence_pairs(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Return sentences of the passages as questions, up to two of each passage."""
    passages = {pair.positive: pair for pair in pairs}.values()
    return [
        replace(pair, question=sentence, source="sentence")
        for pair in passages
        for sentence in _sentences(pair.positive)[:_OF_A_PASSAGE]
    ][:most]


def neighbours(project: Project, sentences: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return for each sentence the passage that it finds first, without the answers of its pair.

    Such passages are those that training moves above the right one most easily.
    """
    target = project.target()
    view = project.views.view(target.snapshot)
    blocks = [sentences[at : at + _BLOCK] for at in range(0, len(sentences), _BLOCK)]
    vectors = project.runner.run(gather(embed(target.model, block) for block in blocks))
    depth = 1 + max(len(pair.gold) for pair in pairs)
    texts: list[str] = []
    for block in vectors:
        for reply in view.dense(block, depth):
            gold = pairs[len(texts)].gold
            key = next((key for key, _ in reply if key not in gold), reply[0][0])
            texts += passage_texts(view, [key])
    return texts


def _sentences(text: str) -> list[str]:
    """Return the prose of a passage by line and sentence, in an order by their hash."""
    lines = (line for span in sentence_spans(text) for line in _lines(text[span.start : span.end]))
    return sorted(dict.fromkeys(filter(_is_prose, lines)), key=text_hash)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield line.strip(" \t#>*-`|")


def _is_prose(line: str) -> bool:
    count = len(line.split())
    letters = sum(mark.isalpha() or mark.isspace() for mark in line)
    return (
        _FEWEST_WORDS <= count <= _MOST_WORDS
        and letters >= _LETTERS * len(line)
        and not any(is_code(word, written=True) for word in words(line))
    )


def preserving_loss(model: Any, ranking: Any, before: Any, weight: float) -> Any:
    """Add to a ranking loss that sentences rank the passages of a batch as before training.

    The further term is the Kullback-Leibler divergence of the softmax over the passages,
    similarities times 20, from that of the vectors before training.

    Args:
        model: The model of sentence-transformers.
        ranking: Its loss on all columns but the last, which holds sentences.
        before: Vectors before training of shape (rows, columns but the question, dimensions): of
            the passages, and last of the sentence. The label of a row is its number.
        weight: Factor of the further term.
    """
    torch = require("torch", "train", "training an embedding model")
    functional = torch.nn.functional

    class _PreservingLoss(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.ranking = ranking

        def forward(self, columns: Any, labels: Any) -> Any:
            *columns, sentences = columns
            vectors = [self.model(column)["sentence_embedding"] for column in columns]
            loss = self.ranking.compute_loss_from_embeddings(vectors, labels)
            sentence = self.model(sentences)["sentence_embedding"]
            *passages_before, sentence_before = before.to(sentence.device)[labels].unbind(1)
            now = self._shares(sentence, vectors[1:])
            then = self._shares(sentence_before, passages_before)
            change = functional.kl_div(now, then, reduction="batchmean", log_target=True)
            return loss + weight * change

        @staticmethod
        def _shares(sentence: Any, passages: Any) -> Any:
            normal = functional.normalize(sentence, dim=-1)
            pool = functional.normalize(torch.cat(tuple(passages)), dim=-1)
            return functional.log_softmax(_SCALE * normal @ pool.T, dim=-1)

    return _PreservingLoss()
