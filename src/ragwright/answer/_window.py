"""The context of a prompt: which passages, in which order, and what is left out to fit a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..core import Hit, Persona, PromptError
from ..flow import Message, Replies
from ..models import Models, Tokenizer, WordTokenizer, sentence_spans
from ._options import HitOrder, PromptOptions
from ._prompt import Prompt, compose

Counter: TypeAlias = Callable[[str], int]

TOKENS_PER_WORD = 1.5
"""Tokens of a language model per word, a safe estimate for unknown tokenizers."""

_CHARACTERS_PER_TOKEN = 4.0
"""Bounds the estimate for long or unseparated words: code, tables, addresses."""

_NAMED = 8


def order_hits(hits: Sequence[Hit], order: HitOrder = "best_first") -> tuple[Hit, ...]:
    """Hits, given best first, in the order of the prompt.

    Models read the middle of a long context least ("lost in the middle", Liu et al. 2023):
    ``best_at_ends`` puts the best first, the second best last, and so on inwards.
    """
    if order == "best_last":
        return tuple(reversed(hits))
    if order == "best_at_ends":
        return (*hits[::2], *reversed(hits[1::2]))
    return tuple(hits)


def count_tokens(text: str, tokenizer: Tokenizer | None = None) -> int:
    """Tokens of a text by a tokenizer; without one, 1.5 per word or one per 4 characters.

    The larger of the two estimates counts.
    """
    if tokenizer is not None:
        return tokenizer.count(text)
    by_words = WordTokenizer().count(text) * TOKENS_PER_WORD
    return int(max(by_words, len(text) / _CHARACTERS_PER_TOKEN)) + 1


def fit_hits(
    hits: Sequence[Hit], budget: int, count: Counter = count_tokens, *, hard: bool = False
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The longest run of best hits that fits a token budget, and notes that name the others.

    Hits come best first and are dropped from the end, whole. The first one stays even if it alone
    exceeds the budget, with a note; with ``hard`` it is then cut at the end of a sentence.
    """
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        cost = count(f"[00] {hit.title}, page 000\n{hit.text}")
        if kept and used + cost > budget:
            break
        kept.append(hit)
        used += cost
    notes = []
    if len(kept) < len(hits):
        notes.append(
            f"{len(hits) - len(kept)} of {len(hits)} passages left out, the context may have "
            f"{budget} tokens: {name_hits(hits[len(kept) :], len(kept) + 1)}"
        )
    if used > budget and hard:
        room = budget - (used - count(kept[0].text))
        short = next(split_hit(kept[0], room, count), None)
        change = "shortened to" if short else "left out: no word of it fits"
        notes.append(f"passage {name_hits(kept, 1)} has about {used} tokens, {change} {budget}")
        kept = [short] if short else []
    elif used > budget:
        notes.append(f"the first passage alone has about {used} tokens, over the {budget} allowed")
    return tuple(kept), tuple(notes)


def name_hits(hits: Sequence[Hit], first: int) -> str:
    """Passages by number, title and page, for a note; ``first`` is the first one's number."""
    names = []
    for number, hit in enumerate(hits[:_NAMED], first):
        page = f", page {hit.page}" if hit.page is not None else ""
        names.append(f"{number} ({hit.title or hit.source}{page})")
    more = len(hits) - _NAMED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def split_hit(hit: Hit, room: int, count: Counter) -> Iterator[Hit]:
    """A hit in pieces of at most ``room`` tokens, cut between sentences, else words, else inside.

    Each piece has its own span; together they hold everything except the space between them. If not
    even a character fits, the pieces end.
    """
    text = hit.text
    ends = [span.end for span in sentence_spans(text)]
    spaces = [at for at, character in enumerate(text) if character.isspace()] + [len(text)]
    start = 0
    while start < len(text):
        borders = (ends, spaces, range(start + 1, len(text) + 1))
        ends_reached = (_furthest_border(text, start, marks, room, count) for marks in borders)
        end = next((at for at in ends_reached if at is not None), None)
        if end is None:
            return
        if text[start:end].strip():
            yield replace(hit, text=text[start:end], start=hit.start + start, end=hit.start + end)
        start = end
        while start < len(text) and text[start].isspace():
            start += 1


def _furthest_border(
    text: str, start: int, borders: Sequence[int], room: int, count: Counter
) -> int | None:
    """The last border up to which a text from ``start`` fits, None if there is none."""
    later = [border for border in borders if border > start]
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        if count(text[start : later[middle]]) <= room:
            low = middle + 1
        else:
            high = middle
    return later[low - 1] if low else None


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
                    f"left out, the window is full: {name_hits(kept_hits[-1:], len(kept_hits))}"
                )
                kept_hits = kept_hits[:-1]
            else:
                length = self.window.count(kept_hits[0].text)
                room = max(length - over, length // 2)  # a template may contain a passage twice
                short = next(split_hit(kept_hits[0], room, self.window.count), None)
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
