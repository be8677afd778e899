"""Limit and clean what a model server sends.

Servers are not trusted. What they send is counted while it is read, parsed without deep recursion,
converted to text that UTF-8 can encode, and the key is masked in it, before the rest of ragwright
sees it.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..core import ModelReplyError, Usage
from ..flow import ChatReply, OnDelta

MOST_TOKENS = 10**8
"""Most tokens that one call can have used: ten times the longest known context window."""

_SHORTEST_KEY = 8
"""Characters of a key that is masked in replies: a shorter one may be a common word."""

_MASK = "***"
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_json(raw: bytes | str, key: str = "") -> Any:
    """Parse JSON; its texts then hold no half of a surrogate pair, and not the key.

    Raises:
        ValueError: Not JSON, or nested too deep.
    """
    try:
        data = json.loads(raw)
        # Only these can introduce either; most replies have none and are not traversed.
        escaped = "\\u" if isinstance(raw, str) else b"\\u"
        secret = key if isinstance(raw, str) else key.encode()
        if escaped in raw or (key and secret in raw):  # type: ignore[operator]
            data = _clean_value(data, key)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return data


def _clean_value(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return clean_text(value, key)
    if isinstance(value, list):
        return [_clean_value(item, key) for item in value]
    if isinstance(value, dict):
        return {clean_text(name, key): _clean_value(item, key) for name, item in value.items()}
    return value


def clean_text(text: str, key: str = "") -> str:
    """A text of a reply: halves of surrogate pairs joined or replaced, the key masked."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace(key, _MASK) if len(key) >= _SHORTEST_KEY else text


class CleanStream:
    """Cleans a text that arrives in pieces; what may be half of a match waits for the next piece.

    Args:
        key: The key that was sent to the server, empty for none.
    """

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= _SHORTEST_KEY else ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._held = ""

    def feed(self, piece: str, *, last: bool = False) -> str:
        """The text that is clean now; with ``last`` the whole rest."""
        text = self._held + self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"), last)
        if not self._key:
            return text
        text = text.replace(self._key, _MASK)
        starts = () if last else range(min(len(text), len(self._key) - 1), 0, -1)
        pending = next((n for n in starts if text.endswith(self._key[:n])), 0)
        self._held = text[len(text) - pending :]
        return text[: len(text) - pending]


def mask_key(message: str, key: str) -> str:
    """A message that may quote a server, with the key masked.

    A key of less than eight characters is masked as a whole; of a longer one also its first half
    with what follows, plain or in base 64.
    """
    message = clean_text(message)
    return _key_pattern(key).sub(_MASK, message) if key else message


@lru_cache(maxsize=64)
def _key_pattern(key: str) -> re.Pattern[str]:
    if len(key) < _SHORTEST_KEY:
        return re.compile(re.escape(key))
    forms = (key, base64.b64encode(key.encode()).decode())
    starts = "|".join(re.escape(form[: max(_SHORTEST_KEY, len(form) // 2)]) for form in forms)
    return re.compile(rf"(?:{starts})[\w+/=.~-]*")


def token_usage(reported: Any, prompt_characters: int, reply_characters: int) -> tuple[Usage, str]:
    """Token counts of a server, and a note if they are impossible.

    A count that is not a whole number from 0 to :data:`MOST_TOKENS` is replaced by an estimate,
    four characters a token; so is one that the server does not send, without a note.
    """
    usage = reported if isinstance(reported, dict) else {}
    characters = {"prompt_tokens": prompt_characters, "completion_tokens": reply_characters}
    counts = {name: (count + 3) // 4 for name, count in characters.items()}
    sent = {name: usage[name] for name in counts if usage.get(name) is not None}
    right = {n: v for n, v in sent.items() if type(v) is int and 0 <= v <= MOST_TOKENS}
    wrong = " and ".join(name for name in sent if name not in right)
    return (
        Usage(1, **(counts | right)),
        f"the server's {wrong} cannot be right: estimated" if wrong else "",
    )


_TAG = r"(?:[\w-]+:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)"
_OPEN_TAG = rf"<{_TAG}\b[^<>\n]{{0,60}}>|\[THINK(?:ING)?\]|◁think▷"
_BEGIN = r"<\|(?:begin_of_thought|start_thinking)\|>"
_END_TAG = rf"</{_TAG}\s*>|\[/THINK(?:ING)?\]|◁/think▷|<\|(?:end_of_thought|end_thinking)\|>"
_CHANNEL = r"(?:<\|start\|>assistant)?<\|channel\|>\s*"
_MESSAGE = r"[^<>]{0,60}(?:<\|constrain\|>\w+\s*)?<\|message\|>"
_FINAL = rf"{_CHANNEL}final\b{_MESSAGE}"
_SPECIAL = r"<[|｜][\w▁ /-]{1,40}[|｜]>|</?s>|<[be]os>|<(?:start|end)_of_turn>|</?answer>"
_FLAGS = re.IGNORECASE

_THOUGHTS = (
    (rf"{_OPEN_TAG}|{_BEGIN}", _END_TAG),
    (rf"{_CHANNEL}(?!final\b)\w{_MESSAGE}", rf"<\|(?:end|call|return)\|>|(?={_CHANNEL}final\b)"),
    (r"<\|channel>thought\b", r"<channel\|>"),
    (r"<unused94>(?:thought)?", r"<unused95>"),
    (r'<details type="reasoning"[^<>]{0,60}>', r"</details>"),
    (r"here(?:'s| is) my thought process:", r"here(?:'s| is) my response:"),
    (r"analysis(?=(?-i:[A-Z]))", r"assistantfinal"),
)
"""Marks around a thought, by family of models."""

_PAIRS = tuple((re.compile(one, _FLAGS), re.compile(two, _FLAGS)) for one, two in _THOUGHTS)
_WORDS = ("here is my thought process:", "here's my thought process:", "analysis")
"""Openings that are words: they count at the start of a reply only."""

_MARK = re.compile(
    rf"(?P<open>{'|'.join(opening for opening, _ in _THOUGHTS[:5])})"
    rf"|(?P<close>{_END_TAG}|{_FINAL})(?![`'\"”])",
    _FLAGS,
)
_LEAD = re.compile(rf"(?:{_FINAL}|(?:{_SPECIAL})(?:(?:assistant|model)\b)?|\s)+", _FLAGS)
_TRAIL = re.compile(rf"\s*(?:(?:{_SPECIAL}|\[/INST\])\s*)+\Z", _FLAGS)
_UNDECIDED = re.compile(
    rf"\s*(?:(?:{_SPECIAL}|<\|channel>)\s*[a-z_.= ]{{0,40}}\s*)*"
    r"(?:[<\[◁][^<>\[\]▷\n]{0,60}[>\]▷]?)?\Z",
    _FLAGS,
)
_REACH = 200
"""Characters at the end of a stream that may belong to a mark."""

_MUSINGS = (
    "okay, ", "okay so", "ok, ", "ok so", "alright, ", "hmm", "let me ", "let's ", "let us ",
    "first, i ", "first, let", "i need to ", "we need ", "we have ", "we are ", "so, ", "so the ",
    "the user", "the question ", "thinking process", "here's a thinking", "got it", "wait, ",
    "好的", "嗯", "用户", "首先",
)  # fmt: skip
"""How thoughts begin of which a server sends only the end mark: such a start is held back."""


class ReplyReader:
    """Reads a reply, whole or in pieces, without its thoughts and the marks of chat templates.

    A thought counts where its opening mark begins the reply or a line; where only its end is
    marked, all before that is thought. Marks in quotes or in a block of code are text.

    Args:
        holds: The model is known to mark only the end of its thoughts: nothing is shown before.

    Attributes:
        text: What was shown; after the last piece, the reply.
        unclosed: The reply ended within a thought.
        bare: There was a thought of which only the end is marked.
        leaked: Characters of such a thought that were shown before its end came.
    """

    def __init__(self, *, holds: bool = False) -> None:
        self.text = ""
        self.unclosed = self.bare = False
        self.leaked = 0
        self._holds = holds
        self._rest = ""
        self._closing: re.Pattern[str] | None = None
        self._begun = self._marked = False

    def feed(self, piece: str, *, last: bool = False) -> str:
        """The text that can be shown now; with ``last`` the whole rest."""
        place = max(0, len(self._rest) - _REACH)
        self._rest += piece
        shown = len(self.text)
        while self._passed(place, last):
            self._marked = True
            place, shown = 0, min(shown, len(self.text))
        if self._begun and self._closing is None:
            end = self._end(last)
            self.text, self._rest = self.text + self._rest[:end], self._rest[end:]
        return self.text[shown:]

    def _passed(self, place: int, last: bool) -> bool:
        """Pass one mark; False if the rest holds none."""
        if self._closing is not None:
            return self._thought_passed(self._closing, place, last)
        if not self._begun:
            return self._start_passed(last)
        for mark in _MARK.finditer(self._rest, place):
            before = self.text + self._rest[: mark.start()]
            if before.count("```") % 2 or before[-1:] in {"`", "'", '"', "“"}:
                continue
            if mark["close"] and mark.end() == len(self._rest) and not last:
                return False
            if mark["close"]:
                self.bare, self.leaked = True, self.leaked + len(self.text)
                self.text, self._rest, self._begun = "", self._rest[mark.end() :], False
                return True
            if not before.rpartition("\n")[2].strip():
                self.text, self._rest = before, self._rest[mark.end() :]
                self._closing = next(two for one, two in _PAIRS if one.fullmatch(mark["open"]))
                return True
        return False

    def _start_passed(self, last: bool) -> bool:
        start = self._rest.lstrip()
        for opening, closing in _PAIRS:
            if mark := opening.match(start):
                self._rest, self._closing = start[mark.end() :], closing
                return True
        undecided = _UNDECIDED.match(start) or any(w.startswith(start.lower()) for w in _WORDS)
        if not last and undecided:
            return False
        lead = _LEAD.match(start)
        if lead or self._marked:
            self._rest = start[lead.end() if lead else 0 :]
        self._begun = bool(self._rest)
        return self._begun or bool(lead)

    def _thought_passed(self, closing: re.Pattern[str], place: int, last: bool) -> bool:
        mark = closing.search(self._rest, place)
        if mark:
            self._rest, self._closing = self._rest[mark.end() :].lstrip(), None
            self._begun = bool(self.text)
        elif last:
            self.unclosed, self._rest = True, ""
        else:
            self._rest = self._rest[-_REACH:]
        return bool(mark)

    def _end(self, last: bool) -> int:
        """The number of characters of the rest that can be shown."""
        rest = self._rest
        start = rest[:24].lower()
        if last:
            found = _TRAIL.search(rest)
        elif not self.text and (
            self._holds or any(m.startswith(start) or start.startswith(m) for m in _MUSINGS)
        ):
            return 0
        else:
            found = _UNDECIDED.search(rest, max(0, len(rest) - _REACH))
        return found.start() if found else len(rest)


_INSTEAD = {
    "length": (
        "used up its tokens before it answered",
        "raise answer.max_tokens: what a model thinks counts, too",
    ),
    "content_filter": (
        "gave no answer: the server's content filter withheld it",
        "ask in other words, or change the filter at the server",
    ),
    "tool_calls": (
        "called a tool in place of answering",
        "take tools out of its params under models:, or name a model that answers",
    ),
}
"""What is wrong with a reply without text, by its end, and what to do."""


def no_text_error(reply: ChatReply, model: str) -> ModelReplyError:
    """The error for a reply without text; such replies are never stored."""
    default = ("returned an empty answer", "ask again, or name another model")
    problem, hint = _INSTEAD.get(reply.finish, default)
    return ModelReplyError("; ".join((f"{model} {problem}", *reply.notes)), hint=hint)


async def read_chat(
    reader: ReplyReader,
    chat: Callable[[OnDelta | None], Awaitable[ChatReply]],
    on_delta: OnDelta | None,
    heard: Callable[[], None] | None = None,
) -> ChatReply:
    """The reply of a chat model without its thought, and notes on it.

    Args:
        reader: A new one.
        chat: Sends the request; streamed where it is given a function for pieces.
        on_delta: Gets what can be shown of each piece.
        heard: Called for each piece.
    """
    streamed = False

    def hand_on(piece: str, *, last: bool = False) -> None:
        nonlocal streamed
        if heard is not None:
            heard()
        streamed = streamed or bool(piece)
        shown = reader.feed(piece, last=last)
        if shown and on_delta is not None:
            on_delta(shown)

    reply = await chat(None if on_delta is None else hand_on)
    if reply.finish == "refusal":
        return reply
    hand_on("" if streamed else reply.text, last=True)
    notes = list(reply.notes)
    if reader.unclosed:
        notes.append("the reply ended within the model's thought")
    elif reader.leaked:
        notes.append(
            f"the first {reader.leaked} characters that were streamed are the model's thought, "
            "of which it marks the end alone; its next replies are held back until then"
        )
    return replace(
        reply,
        text=reader.text,
        finish="length" if reader.unclosed else reply.finish,
        notes=tuple(notes),
    )


def drop_thought(text: str) -> str:
    """A reply without the thought of a reasoning model, empty if nothing follows the thought."""
    reader = ReplyReader()
    reader.feed(text, last=True)
    return reader.text
