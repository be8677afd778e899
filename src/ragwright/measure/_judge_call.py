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
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ..core import (
    Mapped,
    Row,
    break_control,
    canonical_json,
    load_shipped_mapping,
    render,
    text_hash,
)
from ..flow import INCOMPLETE, ChatReply, Flow, Message, branch, chat, reading
from ._rubric import MeasureSetup

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
            fault, or :class:`JudgeDeclinedError` if the judge declines in a valid form.
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
class JudgeVerdict(Generic[T]):
    """The result: a value, or None with the reason, quoting the judge's replies.

    ``declined`` is True if the judge itself declined; ``cached`` if there is no value, and every
    reply that was read came from the store.
    """

    value: T | None
    why: str = ""
    declined: bool = False
    cached: bool = False


def ask_judge(call: JudgeCall[T], setup: MeasureSetup) -> Flow[JudgeVerdict[T]]:
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
        return JudgeVerdict(call.stand_in)
    first = yield from _read_and_count(call, setup, reply, form)
    if first.value is not None:
        return first
    if first.declined:
        return JudgeVerdict(
            None, f"{first.why}: {quote_reply(reply.text)}", declined=True, cached=reply.cached
        )
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
        return JudgeVerdict(call.stand_in)
    second = yield from _read_and_count(call, setup, later, form)
    if second.value is not None:
        return second
    return JudgeVerdict(
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
    return tuple(
        dict.fromkeys(
            (*row.retrieved_context_ids, *(span.document_id for span in spans), *row.reference_ids)
        )
    )


def blocks(texts: Texts, mark: str) -> str:
    """Texts between their lines, unable to close their block or to contain a cue."""
    return "\n".join(
        f"<<{name} {mark}>>\n{_drop_cues(text)}\n<<end {name} {mark}>>" for name, text in texts
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
def _drop_cues(text: str) -> str:
    return _CUE.sub("\\1\u2060\\2", break_control(text.strip()))


def _first_form(call: JudgeCall[Any], setup: MeasureSetup) -> tuple[ReplyForm, str]:
    """The first form of the reply, and the schema sent with it."""
    if setup.format != "text":
        return "json", call.schema
    return ("text" if call.text_form else "json"), ""


def _read_and_count(
    call: JudgeCall[T], setup: MeasureSetup, reply: ChatReply, form: ReplyForm
) -> Flow[JudgeVerdict[T]]:
    """The value of a reply; counts usable replies, to notice a judge that gives none."""
    result = _read_reply(call, reply, form)
    is_usable = result.value is not None or result.declined
    problem = "" if is_usable else f"{result.why}: {quote_reply(reply.text)} {call.advice}"
    yield from reading(setup.model, problem)
    return result


def _read_reply(call: JudgeCall[T], reply: ChatReply, form: ReplyForm) -> JudgeVerdict[T]:
    """The value of a reply, or None with the fault."""
    try:
        value = call.read(reply.text, form, reply.finish)
    except ValueError as error:
        return JudgeVerdict(None, str(error), declined=isinstance(error, JudgeDeclinedError))
    answer = strip_fence(reply.text)
    try:
        json_value = json.loads(answer)
    except (ValueError, RecursionError):
        json_value = None
    # A judge that repeats its input was manipulated, or has not judged.
    variants = [form for _, text in call.texts for form in dict.fromkeys((text, _drop_cues(text)))]
    if any(_contains_reply(text, answer, json_value) for text in variants):
        return JudgeVerdict(None, "the reply is a piece of the text to be judged")
    reply_texts = {" ".join(text.split()) for text in strings_in(json_value)}
    if reply_texts & set(call.file.values.get("examples", ())):
        return JudgeVerdict(None, "the reply copies an example of the prompt")
    return JudgeVerdict(value)


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


ReplyForm: TypeAlias = Literal["json", "text"]

CUE = "FINAL SCORE:"
"""Start of the last line of a plain-text judgment."""

_AT_START = re.compile(r"^[\s>*_#`~|-]*final[\s*_]+score\b", re.IGNORECASE | re.MULTILINE)
_WITH_NUMBER = re.compile(
    r"final[\s*_]+score[\s*_`]*(?:[:=：]|is\b|of\b|->|-|–|—|→)?[\s*_`]*\d", re.IGNORECASE
)
_WHOLE = r"(?P<score>0|[1-9][0-9]{0,8})"
_LAST = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"(?P<mark>[*_`]{{0,3}})final score:[ \t]*{_WHOLE}(?:\.?(?P=mark)|(?P=mark)\.)",
        rf"(?P<mark>[*_`]{{1,3}})final score:(?P=mark)[ \t]*{_WHOLE}\.?",
        rf"final score:[ \t]*(?P<mark>[*_`]{{1,3}}){_WHOLE}(?P=mark)\.?",
        rf"(?P<one>[*_`]{{1,3}})final score:(?P=one)[ \t]*(?P<two>[*_`]{{1,3}}){_WHOLE}(?P=two)\.?",
    )
)
_DECLINED = re.compile(r"[*_`]{0,3}final score:[*_`]{0,3}[ \t]*none[*_`]{0,3}\.?", re.IGNORECASE)
_SAYS = re.compile(r"\w")
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inner>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


class JudgeDeclinedError(ValueError):
    """The judge declines in the valid form: there is no fault to correct."""


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The content of a reply: a score with its reasoning, or None with the fault.

    ``declined`` is True if the judge itself gives no score.
    """

    score: int | None
    reasoning: str = ""
    fault: str = ""
    declined: bool = False


def read_verdict(
    text: str, scale: tuple[int, int], form: ReplyForm, finish: str = ""
) -> JudgeReply:
    """The score of a judge's reply.

    Args:
        text: The reply.
        scale: Lowest and highest score, both included.
        form: ``text``: reasoning, then exactly one line ``FINAL SCORE: n``, the last one;
            emphasis around it and a full stop after it are allowed. ``json``: one object
            ``{"reasoning": "…", "score": n}``, in this order, nothing beside it but one code
            fence around the whole. ``none`` or ``null`` in place of n declines to judge.
        finish: Why the model stopped; a reply that was cut is always invalid.

    Returns:
        A verdict without a score if anything is missing, repeated, outside the scale, or not a
        whole number in digits.
    """
    try:
        if form == "text":
            return _text_reply(_whole(text, finish), scale)
        return _json_reply(text, scale, finish)
    except ValueError as error:
        return JudgeReply(None, fault=str(error), declined=isinstance(error, JudgeDeclinedError))


def read_object(text: str, keys: Sequence[str], finish: str = "") -> dict[str, Any]:
    """The JSON object of a reply, with exactly these keys in this order.

    A code fence around the whole is allowed; nothing else may be beside it.

    Raises:
        ValueError: It is something else; the message, which the judge reads, says why.
    """
    body = strip_fence(_whole(text, finish))
    try:
        value = json.loads(body, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not one JSON object: {str(error)[:80]}") from error
    return require_keys(value, keys)


def strip_fence(text: str) -> str:
    """A text without surrounding space and code fence."""
    body = text.strip()
    fenced = _FENCE.fullmatch(body)
    return fenced["inner"].strip() if fenced else body


def require_keys(value: Any, keys: Sequence[str]) -> dict[str, Any]:
    """An object with exactly these keys in this order.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, dict) or list(value) != list(keys):
        key_list = " and then ".join(f'"{key}"' for key in keys)
        raise ValueError(f"not an object of {key_list}, and nothing else")
    return value


def text_of(value: Any, what: str) -> str:
    """A nonempty text, stripped; halves of surrogate pairs become question marks.

    Raises:
        ValueError: It is not text, or has no letter or digit, like the ``...`` of a template.
    """
    if not isinstance(value, str) or not _SAYS.search(value):
        raise ValueError(f"{what} must be a text that is not empty")
    return value.strip().encode("utf-8", "replace").decode("utf-8")


def require_answer(value: Any) -> Any:
    """A value that the judge must decide.

    Raises:
        JudgeDeclinedError: It is null: the judge does not decide.
    """
    if value is None:
        raise JudgeDeclinedError("the judge declined to judge")
    return value


def strings_in(value: Any) -> list[str]:
    """Every text in a parsed reply, keys left out."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inside for text in strings_in(part)]


def _whole(text: str, finish: str) -> str:
    """The reply.

    Raises:
        ValueError: It was cut, refused, or is empty.
    """
    if finish in INCOMPLETE:
        raise ValueError(INCOMPLETE[finish])
    if not text.strip():
        raise ValueError("the reply is empty")
    return text


def _text_reply(text: str, scale: tuple[int, int]) -> JudgeReply:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    starts = {match.end() for match in _AT_START.finditer(text)}
    # A score within the text counts too: with two scores it is unclear which one is meant.
    cues = len(starts) + sum(
        not any(match.start() < end <= match.end() for end in starts)
        for match in _WITH_NUMBER.finditer(text)
    )
    if not cues:
        raise ValueError(f"no line begins with {CUE}")
    if cues > 1:
        raise ValueError(f"a final score is given {cues} times; it must be given once")
    if not _AT_START.match(lines[-1]):
        raise ValueError("the final score is not the last line")
    if _DECLINED.fullmatch(lines[-1]):
        raise JudgeDeclinedError("the judge declined to judge")
    final = next((match for form in _LAST if (match := form.fullmatch(lines[-1]))), None)
    if final is None:
        raise ValueError(
            f"the last line {lines[-1][:60]!r} is not '{CUE} n' with a whole number in digits"
        )
    reasoning = "\n".join(lines[:-1])
    if not _SAYS.search(reasoning):
        raise ValueError("a score without any reasoning")
    return _score_reply(int(final["score"]), scale, reasoning)


def _json_reply(text: str, scale: tuple[int, int], finish: str) -> JudgeReply:
    value = read_object(text, ("reasoning", "score"), finish)
    score = require_answer(value["score"])
    reasoning = text_of(value["reasoning"], "reasoning")
    if not isinstance(score, int) or isinstance(score, bool):
        raise ValueError(f"the score {json.dumps(score)[:40]} is not a whole number")
    return _score_reply(score, scale, reasoning)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key occurs twice")
    return mapping


def _score_reply(score: int, scale: tuple[int, int], reasoning: str) -> JudgeReply:
    low, high = scale
    if not low <= score <= high:
        raise ValueError(f"the score {score} is not on the scale from {low} to {high}")
    return JudgeReply(score, reasoning)
