"""One call of the judge: its reply is read strictly, with one retry, then it is invalid.

Judged texts are untrusted. Each text is put between two lines with a mark that is a hash of all
texts, so none can close its own block; control tokens in it are broken up. A reply that is a piece
of the judged text, or of an example in the prompt, is not accepted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from ..core import (
    Mapped,
    MeasureError,
    PromptTooLongError,
    Row,
    ScoreState,
    break_control,
    canonical_json,
    load_shipped_mapping,
    render,
    text_hash,
)
from ..flow import (
    INCOMPLETE,
    ChatReply,
    Flow,
    Message,
    branch,
    chat,
    gather,
    reading,
    unpack_settled,
)
from ._rubric import MeasureSetup, Verdict

T = TypeVar("T")

Texts: TypeAlias = tuple[tuple[str, str], ...]
"""The texts for the judge, in order: name and text."""

_QUOTED = 400
_NO_JUDGE = "These rows end as judge_invalid. Stop with Ctrl-C, then name another judge.model."
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
        file: The prompt file: templates of the turns ``system``, ``user`` and ``again``.
        texts: The texts to judge.
        read: Returns the value of a reply (text, finish reason); raises ValueError with the
            fault, or :class:`JudgeDeclinedError` if the judge declines in a valid form.
        schema: JSON schema of the reply.
        stand_in: Value in a dry run.
        values: Further values of the prompt's templates.
        sample: Number of an independent sample.
        sources: Documents whose text is in the prompt.
        advice: What to do if none of the model's first replies is usable.
    """

    file: Mapped
    texts: Texts
    read: Callable[[str, str], T]
    schema: str
    stand_in: T
    values: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 0
    sources: tuple[str, ...] = ()
    advice: str = _NO_JUDGE


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
    turns = messages(call)
    reply = yield from _send_call(call, setup, turns)
    # Declared before the reply is read: a dry run counts at most one retry.
    planned = yield from branch(0, 0, 1)
    if reply.finish == "forecast" and not planned:
        return JudgeVerdict(call.stand_in)
    first = yield from _read_and_count(call, setup, reply)
    if first.value is not None:
        return first
    if first.declined:
        return JudgeVerdict(
            None, f"{first.why}: {quote_reply(reply.text)}", declined=True, cached=reply.cached
        )
    turns = (
        *turns,
        # Servers refuse an empty turn.
        Message("assistant", reply.text.strip() or "(nothing)"),
        Message("user", render(call.file.text("again"), {**call.values, "fault": first.why})),
    )
    later = yield from _send_call(call, setup, turns)
    if later.finish == "forecast":
        return JudgeVerdict(call.stand_in)
    second = yield from _read_and_count(call, setup, later)
    if second.value is not None:
        return second
    return JudgeVerdict(
        None,
        f"no usable judgment in two replies. First: {first.why}: {quote_reply(reply.text)} "
        f"Second: {second.why}: {quote_reply(later.text)}",
        cached=reply.cached and later.cached,
    )


class UnscoredError(MeasureError):
    """A row has no score: a prompt does not fit, a reply cannot be used, nothing to judge."""

    def __init__(self, state: ScoreState, reason: str) -> None:
        super().__init__(reason)
        self.state = state


def ask_value(call: JudgeCall[T], setup: MeasureSetup, task: str = "") -> Flow[T]:
    """The value of one call; ``task`` is named where no reply can be used.

    Raises:
        UnscoredError: The prompt does not fit the judge's window, or no reply can be used.
    """
    too_long = explain_over_window(call, setup)
    if too_long:
        raise UnscoredError("not_applicable", too_long)
    try:
        verdict = yield from ask_judge(call, setup)
    except PromptTooLongError as error:  # the window is not set, or smaller than assumed
        raise UnscoredError("not_applicable", error.what) from error
    if verdict.value is None:
        raise UnscoredError("judge_invalid", task + verdict.why)
    return verdict.value


def ask_all(flows: Sequence[Flow[T]]) -> Flow[list[T]]:
    """The values of flows side by side; the first error is raised when all have ended."""
    outcomes = yield from gather(flows, settle=True)
    return [unpack_settled(outcome) for outcome in outcomes]


def texts_of(row: Row, needs: Sequence[str]) -> Texts:
    """The texts of a row's fields, named as the judge sees them; passages numbered from 1.

    The turns before the question come first, where the question itself is needed.
    """
    texts: list[tuple[str, str]] = []
    if row.history and "user_input" in needs:
        turns_text = "\n".join(f"{turn.role}: {turn.content}" for turn in row.history)
        texts.append(("conversation before the question", turns_text))
    for key in needs:
        value = getattr(row, key)
        if isinstance(value, str):
            texts.append((_NAMES[key], value))
        else:
            texts += [(f"{_NAMES[key]} {n}", text) for n, text in enumerate(value, 1)]
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
    """Texts between their lines, unable to close their block."""
    return "\n".join(
        f"<<{name} {mark}>>\n{break_control(text.strip())}\n<<end {name} {mark}>>"
        for name, text in texts
    )


def prompt_file(name: str) -> Mapped:
    """A prompt file of this room."""
    return load_shipped_mapping("measure", f"prompts/{name}.yaml")


def messages(call: JudgeCall[Any]) -> tuple[Message, ...]:
    """System and user turn of a call; the mark is a hash of the texts, which none can contain."""
    mark = text_hash(canonical_json([list(pair) for pair in call.texts]))[:12]
    safety = prompt_file("rubric").text("safety")
    values = {"mark": mark, "texts": blocks(call.texts, mark), **call.values}
    return (
        Message("system", render(call.file.text("system"), {"safety": safety, **call.values})),
        Message("user", render(call.file.text("user"), values)),
    )


def explain_over_window(call: JudgeCall[Any], setup: MeasureSetup) -> str:
    """The reason why a call does not fit the judge's window; empty if it fits or the window is
    unknown.

    Room is reserved for two replies: a retry contains the first one.
    """
    if setup.window is None:
        return ""
    sizes = (len(turn.content.encode()) for turn in messages(call))
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


def _read_and_count(
    call: JudgeCall[T], setup: MeasureSetup, reply: ChatReply
) -> Flow[JudgeVerdict[T]]:
    """The value of a reply; counts usable replies, to notice a judge that gives none."""
    result = _read_reply(call, reply)
    is_usable = result.value is not None or result.declined
    problem = "" if is_usable else f"{result.why}: {quote_reply(reply.text)} {call.advice}"
    yield from reading(setup.model, problem)
    return result


def _read_reply(call: JudgeCall[T], reply: ChatReply) -> JudgeVerdict[T]:
    try:
        value = call.read(reply.text, reply.finish)
    except ValueError as error:
        return JudgeVerdict(None, str(error), declined=isinstance(error, JudgeDeclinedError))
    answer = strip_fence(reply.text)
    try:
        json_value = json.loads(answer)
    except (ValueError, RecursionError):
        json_value = None
    # A judge that repeats its input was manipulated, or has not judged.
    variants = {form for _, text in call.texts for form in (text, break_control(text.strip()))}
    if any(_contains_reply(text, answer, json_value) for text in variants):
        return JudgeVerdict(None, "the reply is a piece of the text to be judged")
    reply_texts = {" ".join(text.split()) for text in strings_in(json_value)}
    if reply_texts & set(call.file.values.get("examples", ())):
        return JudgeVerdict(None, "the reply copies an example of the prompt")
    return JudgeVerdict(value)


def _contains_reply(text: str, reply: str, value: Any) -> bool:
    """True if a text contains a reply, ignoring spacing, or an object in any notation."""
    if " ".join(reply.split()) in " ".join(text.split()):
        return True
    if not isinstance(value, dict) or not value:
        return False
    first = re.compile(r"\{\s*" + re.escape(json.dumps(next(iter(value)))))
    return any(_json_at(text, at.start()) == value for at in first.finditer(text))


def _json_at(text: str, at: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def _send_call(
    call: JudgeCall[Any], setup: MeasureSetup, turns: Sequence[Message]
) -> Flow[ChatReply]:
    return (
        yield from chat(
            setup.model,
            turns,
            {"temperature": setup.temperature, "max_tokens": setup.max_tokens},
            schema=call.schema,
            sample=call.sample,
            sources=call.sources,
        )
    )


_SAYS = re.compile(r"\w")
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inner>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


class JudgeDeclinedError(ValueError):
    """The judge declines in the valid form: there is no fault to correct."""


def read_verdict(text: str, scale: tuple[int, int], finish: str = "") -> Verdict:
    """The score of a judge's reply: one object ``{"reasoning": "…", "score": n}``, in this order.

    Nothing may be beside it but one code fence around the whole.

    Args:
        text: The reply.
        scale: Lowest and highest score, both included.
        finish: Why the model stopped; a reply that was cut is always invalid.

    Raises:
        JudgeDeclinedError: The score is null.
        ValueError: Anything is missing, repeated, outside the scale, or not a whole number in
            digits; the message, which the judge reads, says why.
    """
    value = read_object(text, ("reasoning", "score"), finish)
    score, (low, high) = require_answer(value["score"]), scale
    reasoning = text_of(value["reasoning"], "reasoning")
    if not isinstance(score, int) or isinstance(score, bool):
        raise ValueError(f"the score {json.dumps(score)[:40]} is not a whole number")
    if not low <= score <= high:
        raise ValueError(f"the score {score} is not on the scale from {low} to {high}")
    return Verdict(score, reasoning)


def read_object(text: str, keys: Sequence[str], finish: str = "") -> dict[str, Any]:
    """The JSON object of a reply, with exactly these keys in this order.

    A code fence around the whole is allowed; nothing else may be beside it.

    Raises:
        ValueError: It is something else; the message, which the judge reads, says why.
    """
    if finish in INCOMPLETE:
        raise ValueError(INCOMPLETE[finish])
    if not text.strip():
        raise ValueError("the reply is empty")
    body = strip_fence(text)
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


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key occurs twice")
    return mapping
