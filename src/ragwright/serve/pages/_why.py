"""Why an answer is what it is, in words that a reader knows: no stems, channels or scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...models import words

if TYPE_CHECKING:
    from ...models import TokenSource

_WAYS: Mapping[str, str] = {
    "keyword": "by its words",
    "dense": "by its meaning",
    "rerank": "when question and passage were read together",
    "select": "by how well its sentences answer",
}
"""Channels and stages of a search -> how a reader would put it."""

_TEENS = range(11, 14)


def plain_why(
    analyzer: TokenSource,
    question: str,
    details: Mapping[str, Any],
    passages: Mapping[str, str],
) -> dict[str, Any]:
    """Explain an answer.

    Args:
        analyzer: That of the index.
        question: The question as it was asked.
        details: What is kept of the answer; see ``answer_details``.
        passages: Id of a chunk -> its text.

    Returns:
        The words that were looked for, those that no passage holds, those that were not looked
        for, each passage with its words, its places and whether it was quoted, and whether a search
        by words found nothing.
    """
    read_as = details["read_as"] or question
    tokens_of = {word: frozenset(analyzer.tokens(word)) for word in words(read_as)}
    looked_for = {word: tokens for word, tokens in tokens_of.items() if tokens}
    numbers = _numbers_by_chunk(details["citations"])
    read = []
    held: set[str] = set()
    for place in details["read"]:
        chunk = place["chunk_id"]
        text = passages.get(chunk, "")
        tokens = set(analyzer.tokens(f"{text}\n{place['title']}"))
        matched = [word for word, wanted in looked_for.items() if wanted & tokens]
        held.update(matched)
        read.append(
            {
                **place,
                "text": text,
                "words": matched,
                "others": not matched and "keyword" in place["ranks"],
                "places": _places(place["ranks"]),
                "numbers": numbers.get(chunk, ()),
            }
        )
    return {
        "read_as": "" if read_as == question else read_as,
        "words": [*looked_for],
        "absent": [word for word in looked_for if word not in held] if read else [],
        "common": [word for word, tokens in tokens_of.items() if not tokens],
        "read": read,
        "unfound": any(note.startswith("no keyword hits") for note in details["notes"]),
        "quoted": sum(bool(passage["numbers"]) for passage in read),
    }


def _numbers_by_chunk(citations: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for cited in citations:
        numbers.setdefault(cited["chunk_id"], []).append(cited["number"])
    return numbers


def _places(ranks: Mapping[str, int]) -> Sequence[str]:
    """Such as ``1st by its words``, for the ways that a reader can make sense of."""
    return [f"{_ordinal(rank)} {_WAYS[name]}" for name, rank in ranks.items() if name in _WAYS]


def _ordinal(rank: int) -> str:
    ending = "th" if rank % 100 in _TEENS else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
