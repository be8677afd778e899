"""The generator's window: the most tokens of a prompt, and what is left out to make it fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core import Hit, Persona, PromptError
from ..flow import Message, Replies
from ..models import Models, Tokenizer
from ._context import count_tokens, named_hits, order_hits, shortened
from ._options import HitOrder, PromptOptions
from ._prompt import Prompt, compose

MARGIN = 1.1
"""Relative error assumed for a learned ratio."""

_TURN = 4
"""Tokens that a chat template adds to a turn, a safe estimate."""

_LEARNED_CALLS = 20
_LEARNED_STEP = 0.25
_LEAST_ROOM = 20


@dataclass(frozen=True, slots=True)
class Window:
    """The known window and token counting of a chat model.

    Attributes:
        tokens: Most tokens of prompt and reply together, None if unknown.
        tokenizer: The model's own, None if unknown.
        ratio: Characters per token, learned from past replies; 0 if there are too few.
    """

    tokens: int | None = None
    tokenizer: Tokenizer | None = None
    ratio: float = 0.0

    def count(self, text: str) -> int:
        """Tokens of a text: counted, by the learned ratio with a margin, or estimated."""
        if self.tokenizer is None and self.ratio > 0:
            return math.ceil(len(text) / self.ratio * MARGIN)
        return count_tokens(text, self.tokenizer)

    def size(self, messages: Iterable[Message]) -> int:
        """Tokens of a chat prompt, including the template around each turn."""
        return _TURN + sum(self.count(turn.content) + _TURN for turn in messages)


def generator_window(name: str, models: Models, replies: Replies | None = None) -> Window:
    """The window of a configured chat model, with its tokenizer or the ratio learned from its
    replies.

    A ratio is used from 20 replies on and rounded down to quarters of a character, so that the next
    reply rarely changes which passages fit: a changed prompt would be paid for again.
    """
    limit = models.settings_of(name).context_window
    tokenizer = models.chat_tokenizer(name)
    if tokenizer is not None:
        return Window(limit, tokenizer)
    facts = None if replies is None else replies.facts(name)
    if facts is None or facts.calls < _LEARNED_CALLS or not facts.prompt_tokens:
        return Window(limit)
    steps = math.floor(facts.characters / facts.prompt_tokens / _LEARNED_STEP)
    return Window(limit, ratio=max(1, steps) * _LEARNED_STEP)


@dataclass(frozen=True, slots=True)
class PromptFrame:
    """An answering prompt without its passages, and the window it must fit."""

    question: str
    persona: Persona
    parts: PromptOptions
    window: Window
    max_tokens: int
    order: HitOrder = "best_first"

    def room(self, most: int) -> int:
        """Tokens left for passages, at most ``most``.

        Raises:
            PromptError: The prompt and the reply leave no room.
        """
        if self.window.tokens is None:
            return most
        fixed = self.window.size(self._composed_prompt(()).messages)
        remaining = self.window.tokens - self.max_tokens - fixed
        if remaining < _LEAST_ROOM:
            raise PromptError(
                f"the prompt has about {fixed} tokens without any passage and the reply may have "
                f"{self.max_tokens}: that fills the window of {self.window.tokens}",
                hint="lower answer.max_tokens, shorten prompt or persona, or use a model with a "
                "larger window (models: context_window)",
            )
        return min(most, remaining)

    def fitted(
        self, hits: Sequence[Hit], summary: str = ""
    ) -> tuple[Prompt, tuple[Hit, ...], tuple[str, ...]]:
        """The prompt that fits the window, its passages in prompt order, and notes.

        Passages come best first and are dropped from the end; the last one left is shortened.

        Raises:
            PromptError: It still does not fit.
        """
        kept_hits = tuple(hits)
        prompt = self._composed_prompt(kept_hits, summary)
        notes: list[str] = []
        while (over := self._tokens_over(prompt)) > 0:
            if summary or not kept_hits:
                raise PromptError(
                    f"the prompt is about {over} tokens too long for a window of "
                    f"{self.window.tokens} with a reply of {self.max_tokens}",
                    hint="lower answer.max_tokens, or use a model with a larger window",
                )
            if len(kept_hits) > 1:
                notes.append(
                    f"left out, the window is full: {named_hits(kept_hits[-1:], len(kept_hits))}"
                )
                kept_hits = kept_hits[:-1]
            else:
                length = self.window.count(kept_hits[0].text)
                room = max(length - over, length // 2)  # a template may contain a passage twice
                short = shortened(kept_hits[0], room, self.window.count)
                if short is None or not short.text.strip():
                    raise PromptError(
                        "no word of the best passage fits the model's window",
                        hint="lower answer.max_tokens, or use a model with a larger window",
                    )
                notes.append(f"passage 1 was shortened to about {room} tokens to fit the window")
                kept_hits = (short,)
            prompt = self._composed_prompt(kept_hits)
        return (
            prompt,
            (kept_hits if summary else order_hits(kept_hits, self.order)),
            tuple(notes),
        )

    def _tokens_over(self, prompt: Prompt) -> int:
        """Tokens over the window, 0 or less if it fits or the window is unknown."""
        if self.window.tokens is None:
            return 0
        return self.window.size(prompt.messages) + self.max_tokens - self.window.tokens

    def _composed_prompt(self, hits: Sequence[Hit], summary: str = "") -> Prompt:
        ordered = tuple(hits) if summary else order_hits(hits, self.order)
        return compose(self.question, self.persona, ordered, self.parts, summary=summary)


def recent_turns(
    history: Sequence[Message], fixed: str, reply: int, window: Window
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The latest turns that fit a window beside a fixed text and a reply, and a note."""
    if window.tokens is None:
        return tuple(history), ()
    remaining = window.tokens - reply - window.count(fixed) - 3 * _TURN
    recent: list[Message] = []
    for turn in reversed(history):
        remaining -= window.count(turn.content) + _TURN
        if remaining < 0:
            break
        recent.insert(0, turn)
    if len(recent) == len(history):
        return tuple(history), ()
    note = f"{len(history) - len(recent)} earlier turns left out: the window is full"
    return tuple(recent), (note,)
