"""Many-shot prompts: system prompt, examples as turns, the request; as a chat or as raw text."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..answer import Window
from ..core import (
    Mapped,
    PromptError,
    guard_text,
    load_shipped_mapping,
    read_mapping,
    render,
    suggest_name,
)
from ..flow import Message
from ..retrieve import dissimilar
from ._find import DraftPlan, Example, Pool, biography_of, render_wording, write_request_text
from ._records import DraftRequest

CHAT = "chat"
"""Name of the form of chats; other forms are raw prompts."""

Shown: TypeAlias = frozenset[str]
"""Chunk ids of the examples of a prompt."""

_TRIES = 24
_STARTS = 3
"""Most choices of examples, and the number of these from the whole pool."""

_FORM = ("template", "stop", "guard")
_FORMS = "draft_forms"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of prompts: the conversion of turns into a text.

    Attributes:
        name: ``chat``, ``llama3``, ``instruction``, or a path.
        template: Template of the raw prompt; empty for a chat.
        stop: Texts at which a reply ends.
        guard: Line beginnings that values must not contain.
        where: File of the template.
    """

    name: str = CHAT
    template: str = ""
    stop: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class DraftCall:
    """The request of one call: number of texts, and lengths of earlier attempts."""

    count: int = 1
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt as sent: turns, the raw text if the form is raw, and its examples."""

    messages: tuple[Message, ...]
    text: str
    examples: tuple[Example, ...]


def form_of(model: str, plan: DraftPlan) -> Form:
    """Return the prompt form of a model.

    Raises:
        PromptError: The form or file does not exist, or the file has a fault, whose line is named.
    """
    return _form_by_name(plan.options.formats.get(model, plan.options.format))


def _form_by_name(name: str) -> Form:
    if name == CHAT:
        return Form(CHAT)
    shipped = load_shipped_mapping("answer", f"prompts/{_FORMS}.yaml")
    if name in shipped.values:
        return _form_from_values(name, shipped.values[name], shipped)
    file = Path(name)
    if not file.is_file():
        raise PromptError(
            f"unknown prompt form {name!r}, and no file of that name",
            where="answer.draft.format",
            hint=suggest_name(name, (CHAT, *shipped.values)),
        )
    if file.suffix in {".yaml", ".yml"}:
        custom = read_mapping(file)
        custom.check_keys(_FORM, "a prompt form")
        return _form_from_values(name, custom.values, custom)
    try:
        template = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"the prompt form cannot be read: {error}", where=name) from error
    return Form(name, template, where=name)


def _form_from_values(name: str, values: Mapping[str, Any], data: Mapped) -> Form:
    template = values.get("template", "")
    if not isinstance(template, str) or not template.strip():
        raise PromptError("a prompt form needs the key 'template'", where=data.where)
    stop, guard = _list_of_texts(values, "stop", data), _list_of_texts(values, "guard", data)
    return Form(name, template, stop, guard, data.where)


def _list_of_texts(values: Mapping[str, Any], key: str, data: Mapped) -> tuple[str, ...]:
    texts = values.get(key, [])
    if not isinstance(texts, list) or any(not isinstance(text, str) or not text for text in texts):
        raise PromptError(f"{key!r} must be a list of texts", where=data.place(key))
    return tuple(texts)


@dataclass(frozen=True, slots=True)
class Frame:
    """A prompt for one model without its examples and the request."""

    request: DraftRequest
    plan: DraftPlan
    form: Form
    window: Window

    def composed(self, examples: Sequence[Example], wanted: DraftCall) -> SentPrompt:
        """Return the prompt with these examples.

        Raises:
            PromptError: A template is wrong, with its file.
        """
        request, wording = self.request, self.plan.wording
        values = {
            "client": self._guarded_text(" ".join(request.client.split())),
            "biography": self._guarded_text(biography_of(request, self.plan)),
        }
        turns = [Message("system", render_wording(wording, "system", values))]
        for example in examples:
            example_values = {
                "request": self._guarded_text(example.request),
                "length": self._guarded_text(self._length_text(example.length)),
            }
            turns.append(Message("user", render_wording(wording, "example", example_values)))
            turns.append(Message("assistant", self._guarded_text(example.text)))
        request_values = {
            "request": self._guarded_text(write_request_text(request, self.plan)),
            "length": self._guarded_text(self._length_text(request.length)),
            "headlines": [self._guarded_text(headline) for headline in request.headlines],
            "count": wanted.count,
            "lengths": list(wanted.lengths),
        }
        turns.append(Message("user", render_wording(wording, "request", request_values)))
        turns = [turn for turn in turns if turn.content]
        return SentPrompt(tuple(turns), self._raw_text(turns), tuple(examples))

    def fitted(self, examples: Sequence[Example], wanted: DraftCall) -> tuple[SentPrompt, int]:
        """Return the prompt with as many of the first examples as fit, and the number left out.

        Raises:
            PromptError: Not even one fits.
        """
        complete = self.composed(examples, wanted)
        if self._tokens_over(complete) <= 0:
            return complete, 0
        low, high = 0, len(examples) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._tokens_over(self.composed(examples[:middle], wanted)) <= 0:
                low = middle
            else:
                high = middle - 1
        longest = self.composed(examples[:low], wanted)
        if not low or self._tokens_over(longest) > 0:
            raise PromptError(
                f"no example fits a window of {self.window.tokens} tokens beside a reply of "
                f"{self.plan.options.max_tokens}",
                hint="lower answer.draft.max_tokens, or use a model with a larger window",
            )
        return longest, len(examples) - low

    def _tokens_over(self, composed: SentPrompt) -> int:
        """Return the tokens over the window, 0 or less if it fits or the window is unknown."""
        if self.window.tokens is None:
            return 0
        if composed.text:
            size = self.window.count(composed.text)
        else:
            size = self.window.size(composed.messages)
        return size + self.plan.options.max_tokens - self.window.tokens

    def _raw_text(self, turns: Sequence[Message]) -> str:
        if self.form.name == CHAT:
            return ""
        values = {"messages": [{"role": t.role, "content": t.content} for t in turns]}
        try:
            return render(self.form.template, values, strip=False)
        except PromptError as error:
            raise PromptError(
                f"the prompt form {self.form.name!r}: {error.what}",
                where=self.form.where,
                hint=error.hint,
            ) from error

    def _guarded_text(self, text: str) -> str:
        return guard_text(text.strip(), self.form.guard)

    def _length_text(self, group: str) -> str:
        return length_words(group, self.plan)


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
    first: tuple[Example, ...] = ()
    for attempt in range(_TRIES if pool_size > count else 1):
        # Try another start first, then leave out more and more of the pool.
        left_out = min(max(0, attempt - _STARTS), pool_size - count)
        remaining = (
            sorted(random_choice.sample(range(pool_size), pool_size - left_out))
            if left_out
            else list(range(pool_size))
        )
        chosen = tuple(
            pool.examples[remaining[at]]
            for at in dissimilar(
                pool.similarity[remaining][:, remaining], count, random_choice.getrandbits(32)
            )
        )
        if example_set(chosen) not in used:
            return chosen
        first = first or chosen
    return first


def example_set(examples: Sequence[Example]) -> Shown:
    """Return the set of examples, independent of order."""
    return frozenset(example.hit.chunk_id for example in examples)
