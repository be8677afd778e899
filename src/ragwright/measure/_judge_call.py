"""One call of the judge: its reply is read strictly, with one retry, then it is invalid.

Judged texts are untrusted. Each text is put between two lines with a mark that is a hash of all
texts, so none can close its own block; control tokens in it are broken up, and the cue of a final
score cannot be copied from it. A reply that is a piece of the judged text, or of an example in the
prompt, is not accepted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

from ..core import (
    Mapped,
    Row,
    break_control,
    canonical_json,
    load_shipped_mapping,
    render,
    text_hash,
)
from ..flow import ChatReply, Flow, Message, branch, chat, reading
from ._reply import Declined, ReplyForm, strings_in, strip_fence
from ._setup import MeasureSetup

T = TypeVar("T")

Texts: TypeAlias = tuple[tuple[str, str], ...]
"""The texts for the judge, in order: name and text."""

_CUE = re.compile(r"(f)(inal[\s*_]+score)", re.IGNORECASE)
_QUOTED = 400
_NO_JUDGE = (
    "These rows end as judge_invalid. Stop with Ctrl-C, then name another judge.model, or set "
    "judge.format: text for a model that does not write JSON."
)
_REMEMBERED = 256
"""Texts whose forms are cached, since passages are used in many calls."""
_BYTES_PER_TOKEN = 3.0
"""UTF-8 bytes per token, to estimate whether a prompt fits the window."""

_TURN = 4
"""Tokens that a chat template adds to a turn, a safe estimate."""

_NAMES = {
    "user_input": "question",
    "response": "answer",
    "reference": "gold answer",
    "retrieved_contexts": "passage",
    "reference_contexts": "gold passage",
}


@dataclass(frozen=True, slots=True)
class JudgeCall(Generic[T]):
    """The prompt of a call, and the form of its reply.

    Attributes:
        prompt: Name of the prompt file, without its suffix.
        texts: The texts to judge.
        read: Returns the value of a reply (text, form, finish reason); raises ValueError with the
            fault, or :class:`Declined` if the judge declines in a valid form.
        schema: JSON schema of the reply.
        stand_in: Value in a dry run.
        values: Further values of the prompt's templates.
        system: Makes the system turn, if it can be cached between calls.
        text_form: The prompt supports a plain-text form of the reply.
        sample: Number of an independent sample.
        sources: Documents whose text is in the prompt.
        data: The prompt file itself, if it is not one of this room.
        advice: What to do if none of the model's first replies is usable.
    """

    prompt: str
    texts: Texts
    read: Callable[[str, ReplyForm, str], T]
    schema: str
    stand_in: T
    values: Mapping[str, Any]
    system: Callable[[ReplyForm], str] | None = None
    text_form: bool = False
    sample: int = 0
    sources: tuple[str, ...] = ()
    data: Mapped | None = None
    advice: str = _NO_JUDGE

    @property
    def file(self) -> Mapped:
        """The prompt file."""
        return self.data or load_shipped_mapping("measure", f"prompts/{self.prompt}.yaml")


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """The result: a value, or None with the reason, quoting the judge's replies.

    ``declined`` is True if the judge itself declined; ``cached`` if there is no value, and every
    reply that was read came from the store.
    """

    value: T | None
    why: str = ""
    declined: bool = False
    cached: bool = False


def ask_judge(call: JudgeCall[T], setup: MeasureSetup) -> Flow[Judged[T]]:
    """The value of the judge's reply; one retry shows the judge its own reply and the fault.

    A judge that declines in the valid form is not asked again: pressing it would bias the reply.

    Raises:
        ModelError: The server fails.
    """
    form, schema = _first_form(call, setup)
    turns: tuple[Message, ...] = messages(call, form)
    reply = yield from _send_call(call, setup, turns, schema)
    # Declared before the reply is read: a dry run counts at most one retry.
    planned = yield from branch(0, 0, 1)
    if reply.finish == "forecast" and not planned:
        return Judged(call.stand_in)
    first = yield from _read_and_count(call, setup, reply, form)
    if first.value is not None:
        return first
    if first.declined:
        reason = f"{first.why}: {quote_reply(reply.text)}"
        return Judged(None, reason, declined=True, cached=reply.cached)
    unstructured = any(name.startswith("response_format") for name in reply.dropped)
    if call.text_form and unstructured and setup.format == "auto":
        form, schema = "text", ""
    again = render(call.file.text("again"), {**call.values, "fault": first.why, "form": form})
    turns = (
        *turns,
        # Servers refuse an empty turn.
        Message("assistant", reply.text.strip() or "(nothing)"),
        Message("user", again),
    )
    later = yield from _send_call(call, setup, turns, schema)
    if later.finish == "forecast":
        return Judged(call.stand_in)
    second = yield from _read_and_count(call, setup, later, form)
    if second.value is not None:
        return second
    return Judged(
        None,
        f"no usable judgment in two replies. First: {first.why}: {quote_reply(reply.text)} "
        f"Second: {second.why}: {quote_reply(later.text)}",
        cached=reply.cached and later.cached,
    )


def texts_of(row: Row, needs: Sequence[str]) -> Texts:
    """The texts of a row's fields, named as the judge sees them; passages numbered from 1.

    The turns before the question come first, where the question itself is needed.
    """
    texts: list[tuple[str, str]] = []
    if row.history and "user_input" in needs:
        turns_text = "\n".join(f"{turn.role}: {turn.content}" for turn in row.history)
        texts.append(("conversation before the question", turns_text))
    for field in needs:
        value = getattr(row, field)
        if isinstance(value, str):
            texts.append((_NAMES[field], value))
        else:
            texts += [(f"{_NAMES[field]} {n}", text) for n, text in enumerate(value, 1)]
    return tuple(texts)


def sources_of(row: Row) -> tuple[str, ...]:
    """The ids of the documents whose text a row contains, as far as known."""
    spans = (*row.retrieved_spans, *row.reference_spans)
    ids = (*row.retrieved_context_ids, *(span.document_id for span in spans), *row.reference_ids)
    return tuple(dict.fromkeys(ids))


def blocks(texts: Texts, mark: str) -> str:
    """Texts between their lines, unable to close their block or to contain a cue."""
    return "\n".join(
        f"<<{name} {mark}>>\n{_without_cues(text)}\n<<end {name} {mark}>>" for name, text in texts
    )


def messages(call: JudgeCall[Any], form: ReplyForm) -> tuple[Message, Message]:
    """System and user turn of a call; the mark is a hash of the texts, which none can contain."""
    mark = text_hash(canonical_json([list(pair) for pair in call.texts]))[:12]
    values = {"form": form, "mark": mark, "texts": blocks(call.texts, mark), **call.values}
    system = call.system(form) if call.system else _system_turn(call.file, form, call.values)
    return Message("system", system), Message("user", render(call.file.text("user"), values))


def system_turn(prompt: str, form: ReplyForm, values: Mapping[str, Any]) -> str:
    """The system turn of a prompt, without any judged text."""
    return _system_turn(load_shipped_mapping("measure", f"prompts/{prompt}.yaml"), form, values)


def _system_turn(data: Mapped, form: ReplyForm, values: Mapping[str, Any]) -> str:
    safety = load_shipped_mapping("measure", "prompts/rubric.yaml").text("safety")
    return render(data.text("system"), {"form": form, "safety": safety, **values})


def explain_over_window(call: JudgeCall[Any], setup: MeasureSetup) -> str:
    """The reason why a call does not fit the judge's window; empty if it fits or the window is
    unknown.

    Room is reserved for two replies: a retry contains the first one.
    """
    if setup.window is None:
        return ""
    form, _ = _first_form(call, setup)
    sizes = (len(turn.content.encode()) for turn in messages(call, form))
    prompt = sum(math.ceil(size / _BYTES_PER_TOKEN) + _TURN for size in sizes)
    if prompt + 2 * setup.max_tokens <= setup.window:
        return ""
    return (
        f"the prompt has about {prompt} tokens and two replies may have {setup.max_tokens} "
        f"each: more than the judge's window of {setup.window}"
    )


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """JSON schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def schema_text(properties: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a schema as text in its order, which models follow when they write."""
    return json.dumps({"title": "judgment", **object_schema(properties)})


def quote_reply(text: str) -> str:
    """A reply as quoted in a reason: on one line, with the middle left out if it is long."""
    line = " ".join(text.split())
    if len(line) > _QUOTED:
        half = _QUOTED // 2
        line = f"{line[:half]} […] {line[-half:]}"
    return f"«{line}»"


@lru_cache(_REMEMBERED)
def _without_cues(text: str) -> str:
    return _CUE.sub("\\1\u2060\\2", break_control(text.strip()))


def _first_form(call: JudgeCall[Any], setup: MeasureSetup) -> tuple[ReplyForm, str]:
    """The first form of the reply, and the schema sent with it."""
    if setup.format != "text":
        return "json", call.schema
    return ("text" if call.text_form else "json"), ""


def _read_and_count(
    call: JudgeCall[T], setup: MeasureSetup, reply: ChatReply, form: ReplyForm
) -> Flow[Judged[T]]:
    """The value of a reply; counts usable replies, to notice a judge that gives none."""
    result = _read_reply(call, reply, form)
    is_usable = result.value is not None or result.declined
    problem = "" if is_usable else f"{result.why}: {quote_reply(reply.text)} {call.advice}"
    yield from reading(setup.model, problem)
    return result


def _read_reply(call: JudgeCall[T], reply: ChatReply, form: ReplyForm) -> Judged[T]:
    """The value of a reply, or None with the fault."""
    try:
        value = call.read(reply.text, form, reply.finish)
    except ValueError as error:
        return Judged(None, str(error), declined=isinstance(error, Declined))
    answer = strip_fence(reply.text)
    json_value = _json_value(answer)
    # A judge that repeats its input was manipulated, or has not judged.
    variants = [
        form for _, text in call.texts for form in dict.fromkeys((text, _without_cues(text)))
    ]
    if any(_contains_reply(text, answer, json_value) for text in variants):
        return Judged(None, "the reply is a piece of the text to be judged")
    reply_texts = {" ".join(text.split()) for text in strings_in(json_value)}
    if reply_texts & set(call.file.values.get("examples", ())):
        return Judged(None, "the reply copies an example of the prompt")
    return Judged(value)


@lru_cache(_REMEMBERED)
def _single_spaced(text: str) -> str:
    """A text with runs of white space replaced by one space."""
    return " ".join(text.split())


def _contains_reply(text: str, reply: str, value: Any) -> bool:
    """True if a text contains a reply, ignoring spacing, or an object in any notation."""
    if " ".join(reply.split()) in _single_spaced(text):
        return True
    if not isinstance(value, dict) or not value:
        return False
    first = re.compile(r"\{\s*" + re.escape(json.dumps(next(iter(value)))))
    return any(_json_at(text, at.start()) == value for at in first.finditer(text))


def _json_value(reply: str) -> Any:
    try:
        return json.loads(reply)
    except (ValueError, RecursionError):
        return None


def _json_at(text: str, at: int) -> Any:
    """The JSON value that begins at a position of a text, None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def _send_call(
    call: JudgeCall[Any], setup: MeasureSetup, turns: Sequence[Message], schema: str
) -> Flow[ChatReply]:
    return (
        yield from chat(
            setup.model,
            turns,
            {"temperature": setup.temperature, "max_tokens": setup.max_tokens},
            schema=schema,
            sample=call.sample,
            sources=call.sources,
        )
    )
