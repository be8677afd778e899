"""Follow-up questions that a model writes on two passages of one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import answer
from ...core import GoldSpan, Turn
from ...flow import Flow, Message, branch, gather, settled
from ...measure import (
    JudgeCall,
    ReplyForm,
    object_schema,
    ordered,
    read_object,
    schema_text,
    text_of,
)
from ...models import TokenSource
from ._candidates import FOLLOW_UP, Candidate, context_fault, language_fault, located, supported
from ._model_questions import (
    OTHER_MODEL,
    UNUSABLE,
    Passage,
    Writing,
    ask_for_usable,
    checked_by_answering,
    level_lines,
)

_KEYS = ("form", "question", "answer", "follow_up", "standalone", "quote", "follow_up_answer")


@dataclass(frozen=True, slots=True)
class PassagePair:
    """Two chunks of one document: the first turn is on one, the follow-up on the other."""

    first: Passage
    second: Passage

    @property
    def id(self) -> str:
        """Id of its row in a run."""
        return f"{self.first.id}+{self.second.span.start}-{self.second.span.end}"


def write_follow_ups(
    pair: PassagePair, writing: Writing, source: TokenSource
) -> Flow[tuple[Candidate, ...]]:
    """Return the follow-ups on a pair of passages, each accepted or rejected with its reason.

    One call writes the conversations; each follow-up that passes the checks is then answered, in
    its form that stands alone, from its quote (one call each): the answer must be the same.

    Raises:
        ModelError: The server fails.
    """
    reply = yield from ask_for_usable(_pair_call(pair, writing), writing.setup)
    second = pair.second
    nothing = GoldSpan(second.document_id, second.span.start, second.span.end)
    if reply.value is None:
        return (Candidate(FOLLOW_UP, "", "", nothing, by_model=True).rejected(UNUSABLE),)
    checked = [_checked_follow_up(draft, pair, source) for draft in reply.value]
    estimate = yield from branch(0, min(writing.count, max(1, len(checked))), writing.count)
    if estimate is not None:
        evidence = GoldSpan(second.document_id, 0, 1, second.text[:300])
        stand_in = Candidate(FOLLOW_UP, "forecast?", "forecast", evidence, by_model=True)
        checked = [stand_in] * estimate
    outcomes = yield from gather(
        [
            checked_by_answering(candidate, number, writing, source)
            for number, candidate in enumerate(checked)
        ],
        settle=True,
    )
    return tuple(settled(outcome) for outcome in outcomes)


def _checked_follow_up(
    draft: Mapping[str, str], pair: PassagePair, source: TokenSource
) -> Candidate:
    """Check a draft against its passages, without a model."""
    second = pair.second
    span, reason = located(draft["quote"], second.text, second.span.start, second.document_id)
    history = Turn("user", draft["question"]), Turn("assistant", draft["answer"])
    candidate = Candidate(
        FOLLOW_UP,
        draft["follow_up"],
        draft["follow_up_answer"],
        span or GoldSpan(second.document_id, second.span.start, second.span.end),
        draft["form"],
        history=history,
        standalone=draft["standalone"],
        by_model=True,
    )
    if span is None:
        return candidate.rejected(reason)
    for part in ("question", "standalone"):
        if fault := context_fault(draft[part], source):
            return candidate.rejected(f"without context: {fault.split(' (')[0]}")
    turns = [Message(turn.role, turn.content) for turn in history]
    if answer.stands_alone(candidate.question, turns):
        return candidate.rejected("the follow-up can be understood without the turns before it")
    if language_fault(draft["standalone"], second.language):
        return candidate.rejected("not in the language of its source")
    if not supported(draft["answer"], pair.first.text, source):
        return candidate.rejected("the first answer is not in its passage")
    if not supported(candidate.answer, span.text, source):
        return candidate.rejected("the answer is not in its evidence")
    return candidate


def _pair_call(pair: PassagePair, writing: Writing) -> JudgeCall[tuple[Mapping[str, str], ...]]:
    lines = level_lines(writing.writer)

    def read(text: str, form: ReplyForm, finish: str) -> tuple[Mapping[str, str], ...]:
        entries = read_object(text, ("conversations",), finish)["conversations"]
        if not isinstance(entries, list) or len(entries) > writing.count:
            raise ValueError(f'"conversations" must be a list of at most {writing.count} entries')
        return tuple(_conversation_of(entry, writing) for entry in entries)

    text = {"type": "string"}
    properties: dict[str, Any] = dict.fromkeys(_KEYS, text)
    properties["form"] = {"type": "string", "enum": list(writing.levels)}
    entries = {"type": "array", "items": object_schema(properties)}
    stand_in = dict.fromkeys(_KEYS, "") | {"form": writing.levels[0]}
    return JudgeCall(
        prompt="follow_up",
        texts=(("first passage", pair.first.text), ("second passage", pair.second.text)),
        read=read,
        schema=schema_text({"conversations": entries}),
        stand_in=tuple(stand_in for _ in range(writing.count)),
        values={
            "count": writing.count,
            "levels": [{"name": name, "line": lines[name]} for name in writing.levels],
            "language": pair.second.language,
        },
        sources=(pair.second.document_id,),
        data=writing.writer,
        advice=OTHER_MODEL,
    )


def _conversation_of(entry: Any, writing: Writing) -> Mapping[str, str]:
    """Parse one entry of a reply; raises ValueError with the fault."""
    parts = ordered(entry, list(_KEYS))
    if parts["form"] not in writing.levels:
        raise ValueError(f'"form" must be one of {", ".join(writing.levels)}')
    texts = {key: text_of(parts[key], key) for key in _KEYS[1:]}
    spaced = {key: " ".join(texts[key].split()) for key in ("question", "follow_up", "standalone")}
    return {"form": str(parts["form"]), **texts, **spaced}
