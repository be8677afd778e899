"""How many texts one call asks for: as many as its reply has room for."""

from __future__ import annotations

from statistics import fmean

from ._draft_find import DraftPlan, Pool
from ._draft_records import DraftRequest
from ._window import MARGIN, Window

ONE_CALL = 15
"""Texts up to which one call asks for all, where as many of middling length fit (SPEC B12)."""

_LISTED = 5
"""Tokens that a list adds to a text: its number, the sign behind it, the end of the line."""


def texts_per_call(request: DraftRequest, plan: DraftPlan, pool: Pool, window: Window) -> int:
    """Most texts of the length asked for that one call asks for, 1 or more.

    Every text is taken to be as long as its length group allows; of a group without an upper
    bound, as long as the longest example. How many tokens that is, the examples tell: they are
    texts of that language and kind, counted as the model's prompts are, with a margin.
    """
    options = plan.options
    if options.per_call is not None:
        return options.per_call
    texts = [example.text for example in pool.examples]
    together = "\n".join(texts)
    a_character = window.count(together) / len(together)

    def fitting(characters: float) -> int:
        return int(options.max_tokens / ((characters * a_character + _LISTED) * MARGIN))

    least, under = plan.rules.bounds(request.length)
    if under is None:
        longest, middling = float(max(map(len, texts))), fmean(map(len, texts))
    else:
        longest, middling = float(under), (least + under) / 2
    if request.count <= min(ONE_CALL, fitting(middling)):
        return request.count
    return max(1, fitting(longest))


def portions(count: int, most: int) -> list[int]:
    """A count in as few parts of at most ``most`` as there can be, as even as they can be.

    None for 0. Even parts leave every reply some room, and rarely change with the estimate.
    """
    calls = -(-count // most)
    return [count // calls + (number < count % calls) for number in range(calls)]
