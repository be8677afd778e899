"""Number of texts per call: as many as fit the reply."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from ..answer import MARGIN, DraftOptions, Window
from ._find import DraftPlan, Pool
from ._records import DraftRequest

ONE_CALL = 15
"""Most texts for which one call asks for all, if as many of medium length fit."""

_LISTED = 5
"""Tokens that a list adds to a text: its number, punctuation, the line end."""

_MOST_CHARACTERS = 5.0
"""Upper bound on the mean characters per token of prose."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """Tokens of one text of a list, estimated from the pool and the length group.

    Attributes:
        least: The shortest that the group allows, with the most characters per token: a lower
            bound.
        likely: Mean of the examples, within the group.
        middling: In the middle of the group.
        most: The longest that the group allows; without an upper bound, the longest example.
    """

    least: float
    likely: float
    middling: float
    most: float


def text_tokens(request: DraftRequest, plan: DraftPlan, pool: Pool, window: Window) -> TextTokens:
    """Tokens of a text of the requested length.

    The ratio comes from the examples: texts of the same language and kind, counted like the model's
    prompts.
    """
    texts = [example.text for example in pool.examples]
    together = "\n".join(texts)
    a_character = window.count(together) / len(together)
    average, longest = fmean(map(len, texts)), max(map(len, texts))
    least, under = plan.rules.bounds(request.length)
    most = max(longest, least) if under is None else under
    # The other estimates err upwards; a lower bound must err downwards.
    densest = a_character / MARGIN
    if window.tokenizer is None:
        densest = min(densest / MARGIN, 1 / _MOST_CHARACTERS)
    lowest = least * densest
    lengths = (
        min(max(average, least), most),
        max(average, least) if under is None else (least + under) / 2,
        most,
    )
    others = (length * a_character + _LISTED for length in lengths)
    return TextTokens(max(lowest, _LISTED), *others)


def texts_per_call(count: int, options: DraftOptions, tokens: TextTokens) -> int:
    """Most texts that one call asks for, 1 or more: all as long as their group allows fit.

    Args:
        count: Texts wanted in all.
        options: Settings of calls and replies.
        tokens: Token estimates of a text.
    """
    if options.per_call is not None:
        return options.per_call
    if count <= min(ONE_CALL, options.max_tokens / (tokens.middling * MARGIN)):
        return count
    return max(1, int(options.max_tokens / (tokens.most * MARGIN)))


def portions(count: int, most: int) -> list[int]:
    """A count split into the fewest parts of at most ``most``, as even as possible.

    None for 0. Even parts leave every reply some room, and rarely change with the estimate.
    """
    calls = -(-count // most)
    return [count // calls + (number < count % calls) for number in range(calls)]
