"""Parts a model's thought from its reply: the one place that knows the marks of chat templates."""

from __future__ import annotations

import re

from ..core import ModelReplyError
from ..flow import ChatReply

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
    (
        rf"{_CHANNEL}(?!final\b)\w{_MESSAGE}",
        rf"<\|(?:end|call|return)\|>|(?={_CHANNEL}final\b)",
    ),
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
_LEAD = re.compile(
    rf"(?:{_FINAL}|(?:{_SPECIAL})(?:(?:assistant|model)\b)?|\s)+",
    _FLAGS,
)
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
            rest = self._rest[mark.end() :]
            self._rest, self._closing = rest.lstrip(), None
            self._begun = bool(self.text)
        elif last:
            self.unclosed, self._rest = True, ""
        else:
            self._rest = self._rest[-_REACH:]
        return bool(mark)

    def _end(self, last: bool) -> int:
        """The number of characters of the rest that can be shown."""
        rest = self._rest
        if last:
            found = _TRAIL.search(rest)
        elif not self.text and (self._holds or _may_muse(rest[:24].lower())):
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


def note_thought(reader: ReplyReader) -> list[str]:
    """What a user should know of the thought of a reply that was read to its end."""
    if reader.unclosed:
        return ["the reply ended within the model's thought"]
    if reader.leaked:
        return [
            f"the first {reader.leaked} characters that were streamed are the model's thought, "
            "of which it marks the end alone; its next replies are held back until then"
        ]
    return []


def _may_muse(start: str) -> bool:
    return any(musing.startswith(start) or start.startswith(musing) for musing in _MUSINGS)


def drop_thought(text: str) -> str:
    """A reply without the thought of a reasoning model, empty if nothing follows the thought."""
    reader = ReplyReader()
    reader.feed(text, last=True)
    return reader.text
