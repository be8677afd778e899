"""Many-shot prompts: system prompt, examples as turns, the request; and how much one asks for."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Container, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from ..answer import MARGIN, DraftOptions, Window
from ..core import PromptError, guard_text
from ..flow import Message
from ..retrieve import dissimilar
from ._find import DraftPlan, Example, Pool, biography_of, render_wording, write_request_text
from ._records import DraftRequest

Shown: TypeAlias = frozenset[str]
"""Chunk ids of the examples of a prompt."""

_TRIES = 24
"""Most choices of examples for a call whose set of them is new."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A prompt for one model without its examples and the request."""

    request: DraftRequest
    plan: DraftPlan
    window: Window

    def compose(
        self, examples: Sequence[Example], count: int, lengths: Sequence[int]
    ) -> tuple[Message, ...]:
        """Return the turns of the prompt with these examples.

        Args:
            examples: Examples to show.
            count: Number of texts to ask for.
            lengths: Lengths of earlier texts that were too long or too short.

        Raises:
            PromptError: A template is wrong, with its file.
        """
        request, plan = self.request, self.plan

        def turn(role: str, key: str, **values: Any) -> Message:
            return Message(role, render_wording(plan.wording, key, values))

        def guard(text: str) -> str:
            return guard_text(text.strip(), ())

        def length(group: str) -> str:
            return guard(length_words(group, plan))

        client, biography = " ".join(request.client.split()), biography_of(request, plan)
        turns = [turn("system", "system", client=guard(client), biography=guard(biography))]
        for example in examples:
            asked = guard(example.request)
            turns.append(turn("user", "example", request=asked, length=length(example.length)))
            turns.append(Message("assistant", guard(example.text)))
        turns.append(
            turn(
                "user",
                "request",
                request=guard(write_request_text(request, plan)),
                length=length(request.length),
                headlines=[guard(headline) for headline in request.headlines],
                count=count,
                lengths=list(lengths),
            )
        )
        return tuple(turn for turn in turns if turn.content)

    def fit(
        self, examples: Sequence[Example], count: int, lengths: Sequence[int]
    ) -> tuple[tuple[Message, ...], int]:
        """Return the prompt with as many of the first examples as fit, and their number.

        Raises:
            PromptError: Not even one fits.
        """
        number, most = len(examples), self.plan.options.max_tokens

        def is_over(number: int) -> bool:
            """True if the prompt with that many examples and a reply are over the window."""
            if self.window.tokens is None:
                return False
            size = self.window.size(self.compose(examples[:number], count, lengths))
            return size + most > self.window.tokens

        if is_over(number):
            number = bisect_left(range(1, number), True, key=is_over)
            if not number:
                raise PromptError(
                    f"no example fits a window of {self.window.tokens} tokens beside a reply of "
                    f"{most}",
                    hint="lower answer.draft.max_tokens, or use a model with a larger window",
                )
        return self.compose(examples[:number], count, lengths), number


def length_words(group: str, plan: DraftPlan) -> str:
    """Return a length group as text, ``short: under 160 characters``; empty if unknown."""
    least, under = plan.rules.bounds(group)
    if not least and under is None:
        return ""
    wording = plan.wording
    key = "from" if under is None else "between" if least else "under"
    return render_wording(wording, key, {"name": group, "least": least, "under": under})


def choose_examples(
    pool: Pool, plan: DraftPlan, call: int, unlike: bool, used: Container[Shown] = ()
) -> tuple[Example, ...]:
    """Choose the examples of a call, in the order they are shown.

    Args:
        pool: Examples to choose from.
        plan: Number of examples, and the seed.
        call: Number of the call; each makes its own choice.
        unlike: Choose the mutually most dissimilar ones, greedily, not a random sample.
        used: Sets of earlier calls; reused only if no other set is found.
    """
    count, pool_size = plan.options.examples, len(pool.examples)
    random_choice = random.Random(f"{plan.options.seed}:{call}")  # noqa: S311 (no secret)
    if not unlike:
        return tuple(pool.examples[at] for at in random_choice.sample(range(pool_size), count))
    for attempt in range(_TRIES):  # leaving out more and more of the pool
        left = pool_size - min(attempt, pool_size - count)
        places = sorted(random_choice.sample(range(pool_size), left))
        similarity = pool.similarity[places][:, places]
        picked = dissimilar(similarity, count, random_choice.getrandbits(32))
        chosen = tuple(pool.examples[places[at]] for at in picked)
        if example_set(chosen) not in used:
            break
    return chosen


def example_set(examples: Sequence[Example]) -> Shown:
    """Return the set of examples, independent of order."""
    return frozenset(example.hit.chunk_id for example in examples)


_ONE_CALL = 15
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
    mean = min(max(average, least), most)
    middle = mean if under is None else (least + under) / 2
    # The other estimates err upwards; a lower bound must err downwards.
    densest = min(per_character / MARGIN**2, 1 / _MOST_CHARACTERS)
    return TextTokens(
        max(least * densest, _LIST_TOKENS),
        *(length * per_character + _LIST_TOKENS for length in (mean, middle, most)),
    )


def texts_per_call(count: int, options: DraftOptions, tokens: TextTokens) -> int:
    """Return the most texts that one call asks for, 1 or more: all of the longest length fit.

    Args:
        count: Number of texts in all; a few stay in one call if they fit at medium length.
        options: Settings of calls and replies.
        tokens: Token estimates of a text.
    """
    if options.per_call is not None:
        return options.per_call
    if count <= min(_ONE_CALL, options.max_tokens / (tokens.middling * MARGIN)):
        return count
    return max(1, int(options.max_tokens / (tokens.most * MARGIN)))
