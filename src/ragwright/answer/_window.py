"""The context of a prompt: which passages, in which order, summarised, and what is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..core import (
    Hit,
    Persona,
    PromptError,
    Usage,
    count_noun,
    load_shipped_mapping,
    passage_values,
    render,
)
from ..flow import ChatReply, Flow, Message, Replies, chat, gather
from ..models import Models, Tokenizer, WordTokenizer, sentence_spans
from ._prompt import HitOrder, Method, Prompt, PromptOptions, compose

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
    """The window of a configured chat model, with the ratio learned from its replies.

    A ratio is used from 20 replies on and rounded down to quarters of a character, so that the next
    reply rarely changes which passages fit: a changed prompt would be paid for again.
    """
    limit = models.settings_of(name).context_window
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

    def fit(
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
        return (prompt, (kept_hits if summary else order_hits(kept_hits, self.order)), tuple(notes))

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


_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ConsolidateOptions:
    """Limits for shortening a context before the answer is written.

    Attributes:
        budget: Most tokens of the final context.
        words: Requested length of a summary, in words.
        window: Window of the summarising model.
        hard: The budget is the rest of the window and must not be exceeded.
    """

    method: Method
    model: str
    budget: int
    words: int = 120
    window: Window = field(default_factory=Window)
    hard: bool = False

    @property
    def max_tokens(self) -> int:
        """Most tokens of a summary: three per word, so that few are cut."""
        return self.words * 3


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A context ready for the prompt.

    Attributes:
        hits: Passages behind it, best first; a summary of one passage keeps its address.
        summary: One text over all passages with their ``[n]``; empty if the passages themselves are
            shown.
        notes: What was left out, shortened or read in parts.
        usage: Sum over the calls made.
        cached: True where every call was answered from the reply store.
    """

    hits: tuple[Hit, ...]
    summary: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    cached: bool = True


def consolidate(
    question: str, hits: Sequence[Hit], options: ConsolidateOptions
) -> Flow[Consolidated]:
    """The context for a question by one of four methods.

    ``concatenate`` shows the passages that fit. ``summarise_each`` replaces each by its
    summary (calls side by side) and drops irrelevant ones. ``running``
    carries notes from passage to passage. ``tree`` summarises each, then merges summaries
    until one is left. A passage too long for the window is read in parts. Notes name everything
    that is dropped.

    Raises:
        PromptError: The window does not even hold the summariser's own prompt.
    """
    if options.method == "concatenate" or not hits:
        kept, notes = fit_hits(hits, options.budget, options.window.count, hard=options.hard)
        return Consolidated(kept, notes=notes)
    parts, split = _sized_parts(question, hits, options)
    if options.method == "running":
        return (yield from _running_notes(question, hits, parts, split, options))
    replies = yield from gather(
        [
            _ask_summary("each", question, {"passages": [passage_values(1, part)]}, [part], options)
            for _, part in parts
        ]
    )
    usage = sum((r.usage for r in replies), Usage())
    cached = all(r.cached for r in replies)
    summaries: dict[int, list[str]] = {}
    for (number, _), reply in zip(parts, replies, strict=True):
        text = reply.text.strip()
        if text.strip(".").casefold() not in {"", _NOTHING}:
            summaries.setdefault(number, []).append(text)
    bearing = [(hits[number - 1], summaries[number]) for number in sorted(summaries)]
    without = [(n, hit) for n, hit in enumerate(hits, 1) if n not in summaries]
    notes = (*split, *_note_left_out(without))
    if options.method == "summarise_each":
        short = [replace(hit, text="\n".join(texts)) for hit, texts in bearing]
        kept, dropped = fit_hits(short, options.budget, options.window.count, hard=options.hard)
        return Consolidated(kept, notes=(*notes, *dropped), usage=usage, cached=cached)
    kept = tuple(hit for hit, _ in bearing)
    texts = [f"[{at}] {text}" for at, (_, texts_of) in enumerate(bearing, 1) for text in texts_of]
    while len(texts) > 1:
        groups = _merge_groups(question, texts, options)
        merged = yield from gather(
            [_ask_summary("merge", question, {"notes": group}, kept, options) for group in groups]
        )
        usage = sum((r.usage for r in merged), usage)
        cached = cached and all(r.cached for r in merged)
        texts = [reply.text.strip() for reply in merged]
    return Consolidated(kept, "".join(texts), notes, usage, cached)


def _running_notes(
    question: str,
    hits: Sequence[Hit],
    parts: Sequence[tuple[int, Hit]],
    notes: tuple[str, ...],
    options: ConsolidateOptions,
) -> Flow[Consolidated]:
    summary, usage, cached = "", Usage(), True
    for number, hit in parts:
        values = {"summary": summary, "passages": [passage_values(number, hit)]}
        reply = yield from _ask_summary("running", question, values, [hit], options)
        summary = reply.text.strip() or summary
        usage, cached = usage + reply.usage, cached and reply.cached
    return Consolidated(tuple(hits), summary, notes, usage, cached)


def _ask_summary(
    template: str,
    question: str,
    values: Mapping[str, Any],
    hits: Sequence[Hit],
    options: ConsolidateOptions,
) -> Flow[ChatReply]:
    return (
        yield from chat(
            options.model,
            [Message("user", _summary_prompt(template, question, values, options))],
            {"temperature": 0.0, "max_tokens": options.max_tokens},
            sources=list(dict.fromkeys(hit.document_id for hit in hits)),
        )
    )


def _summary_prompt(
    template: str, question: str, values: Mapping[str, Any], options: ConsolidateOptions
) -> str:
    data = load_shipped_mapping("answer", "prompts/consolidate.yaml")
    return render(data.text(template), {"question": question, "words": options.words, **values})


def _sized_parts(
    question: str, hits: Sequence[Hit], options: ConsolidateOptions
) -> tuple[list[tuple[int, Hit]], tuple[str, ...]]:
    """Passages with their numbers, those too long for the window in parts, and notes on these."""
    if options.window.tokens is None:
        return list(enumerate(hits, 1)), ()
    count = options.window.count
    carried = options.max_tokens if options.method == "running" else 0
    template = "running" if options.method == "running" else "each"
    numbered: list[tuple[int, Hit]] = []
    notes = []
    for number, hit in enumerate(hits, 1):
        values = {"summary": "", "passages": [passage_values(number, replace(hit, text=""))]}
        room = _tokens_left(_summary_prompt(template, question, values, options), options) - carried
        pieces = [hit] if count(hit.text) <= room else list(split_hit(hit, room, count))
        if not pieces:
            notes.append(f"passage {name_hits([hit], number)} left out: no part of it fits")
        elif pieces[-1].end < hit.end and hit.text[pieces[-1].end - hit.start :].strip():
            notes.append(f"the end of passage {name_hits([hit], number)} left out: it cannot fit")
        if len(pieces) > 1:
            notes.append(
                f"passage {name_hits([hit], number)} is longer than the model's window: read in "
                f"{len(pieces)} parts"
            )
        numbered += [(number, piece) for piece in pieces]
    return numbered, tuple(notes)


def _tokens_left(text: str, options: ConsolidateOptions) -> int:
    """Tokens of the window beside a prompt's fixed text and the reply."""
    assert options.window.tokens is not None
    fixed = options.window.size([Message("user", text)])
    remaining = options.window.tokens - fixed - options.max_tokens
    if remaining < 2 * options.max_tokens:  # room for two summaries, or none could be merged
        raise PromptError(
            f"summarising takes about {fixed} tokens of prompt and {options.max_tokens} of "
            f"reply, too much for a window of {options.window.tokens}",
            hint="set answer.consolidate: concatenate, or use a model with a larger window",
        )
    return remaining


def _merge_groups(
    question: str, texts: Sequence[str], options: ConsolidateOptions
) -> list[list[str]]:
    """Texts in groups of at least two that fit the budget and the window at their longest.

    The size depends on the settings only, so that a forecast counts the same calls.
    """
    most = options.budget
    if options.window.tokens is not None:
        most = min(
            most, _tokens_left(_summary_prompt("merge", question, {"notes": []}, options), options)
        )
    size = max(2, most // options.max_tokens)
    groups = [list(texts[i : i + size]) for i in range(0, len(texts), size)]
    lone = len(groups) > 1 and len(groups[-1]) == 1
    if lone and options.window.tokens is None:
        groups[-2] += groups.pop()
    elif lone:  # one more might not fit the window: move one from the group before
        groups[-1].insert(0, groups[-2].pop())
    return groups


def _note_left_out(without: Sequence[tuple[int, Hit]]) -> tuple[str, ...]:
    if not without:
        return ()
    names = ", ".join(name_hits([hit], number) for number, hit in without[:8])
    more = f" and {len(without) - 8} more" if len(without) > 8 else ""
    reason = "their summaries have nothing on the question"
    return (f"{count_noun(len(without), 'passage')} left out, {reason}: {names}{more}",)
