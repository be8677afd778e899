"""Number of texts per call: as many as fit into the reply."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from ..answer import MARGIN, DraftOptions, Window
from ._find import DraftPlan, Pool
from ._records import DraftRequest

ONE_CALL = 15
"""Most texts that one call asks for at once, if that many of medium length fit."""

_LIST_TOKENS = 5
"""Tokens that a list adds per text: its number, punctuation, the line end."""

_MOST_CHARACTERS = 5.0
"""Upper bound on the mean characters per token of prose."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """Tokens of one text of a list, estimated from the pool and the length group.

    Attributes:
        least: Tokens of the shortest text of the group, with the most characters per token: a lower
            bound.
        likely: Mean of the examples, within the group.
        middling: Tokens of a text in the middle of the group.
        most: Tokens of the longest text of the group; without an upper bound, of an example.
    """

    least: float
    likely: float
    middling: float
    most: float


def text_tokens(request: DraftRequest, plan: DraftPlan, pool: Pool, window: Window) -> TextTokens:
    """Estimate the tokens of a text of the requested length.

    The ratio comes from the examples: texts of the same language and kind, counted like the model's
    prompts.
    """
    texts = [example.text for example in pool.examples]
    joined = "\n".join(texts)
    per_character = window.count(joined) / len(joined)
    average, longest = fmean(map(len, texts)), max(map(len, texts))
    least, under = plan.rules.bounds(request.length)
    most = max(longest, least) if under is None else under
    # The other estimates err upwards; a lower bound must err downwards.
    densest = per_character / MARGIN
    if window.tokenizer is None:
        densest = min(densest / MARGIN, 1 / _MOST_CHARACTERS)
    lower_bound = least * densest
    lengths = (
        min(max(average, least), most),
        max(average, least) if under is None else (least + under) / 2,
        most,
    )
    others = (length * per_character + _LIST_TOKENS for length in lengths)
    return TextTokens(max(lower_bound, _LIST_TOKENS), *others)


def texts_per_call(count: int, options: DraftOptions, tokens: TextTokens) -> int:
    """Return the most texts that one call asks for, 1 or more: all of the longest length fit.

    Args:
        count: Total number of texts.
        options: Settings of calls and replies.
        tokens: Token estimates of a text.
    """
    if options.per_call is not None:
        return options.per_call
    if count <= min(ONE_CALL, options.max_tokens / (tokens.middling * MARGIN)):
        return count
    return max(1, int(options.max_tokens / (tokens.most * MARGIN)))


def portions(count: int, most: int) -> list[int]:
    """Split a count into the fewest parts of at most ``most``, as even as possible.

    No parts for 0. Even parts leave every reply some room, and rarely change with the estimate.
    """
    calls = -(-count // most)
    return [count // calls + (number < count % calls) for number in range(calls)]
