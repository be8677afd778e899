"""Questions that a model writes on a passage: parsed strictly, checked, and answered again.

Invalid replies are never repaired. Quotes must occur literally; a question that its quote alone
does not answer is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from ...core import ConfigError, GoldSpan, Mapped, Persona, Span, suggest_name
from ...flow import Flow, branch, gather, unpack_settled
from ...measure import (
    JudgeCall,
    JudgeVerdict,
    MeasureSetup,
    ReplyForm,
    ask_judge,
    object_schema,
    read_object,
    require_keys,
    schema_text,
    text_of,
)
from ...models import Analyzer
from ._candidates import (
    Candidate,
    context_fault,
    is_supported,
    language_fault,
    locate_quote,
)

T = TypeVar("T")

_QUOTED_LEVELS = ("fact", "extraction")
"""Levels whose answer must consist of words of its evidence."""
UNUSABLE = "no usable reply after a retry"
OTHER_MODEL = (
    "No questions result from these. Stop with Ctrl-C, then name another model with --model: this "
    "one does not write the requested JSON."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk for questions: its place, text and language."""

    document_id: str
    span: Span
    text: str
    language: str = ""

    @property
    def id(self) -> str:
        """Id of its row in a run."""
        return f"{self.document_id}:{self.span.start}-{self.span.end}"


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """Options of a model that writes questions.

    Attributes:
        setup: The model and its limits (``model``, ``max_tokens``, ``temperature``, ``format``).
        writer: Prompt file that asks for questions; defines the ``levels``.
        checker: Prompt file that answers a question from its evidence.
        levels: Levels to ask for.
        count: Most questions on a passage.
        personas: Readers with a gold answer of their own.
        languages: Language -> writer and checker for passages in it.
    """

    setup: MeasureSetup
    writer: Mapped
    checker: Mapped
    levels: tuple[str, ...]
    count: int = 3
    personas: tuple[Persona, ...] = ()
    languages: Mapping[str, tuple[Mapped, Mapped]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a level that is not in the prompt file.

        Raises:
            ConfigError: At the first unknown level.
        """
        for file in (self.writer, *(writer for writer, _ in self.languages.values())):
            known = level_lines(file)
            for level in self.levels:
                if level not in known:
                    raise ConfigError(
                        f"unknown level {level!r}",
                        where="--levels",
                        hint=suggest_name(level, known),
                    )

    def of(self, language: str) -> QuestionWriter:
        """Return the same with the prompt files of a language, if there are some."""
        writer, checker = self.languages.get(language, (self.writer, self.checker))
        return replace(self, writer=writer, checker=checker)

    def manifest(self) -> dict[str, Any]:
        """Return everything that determines the questions, for the run."""
        return {
            "model": self.setup.model,
            "max_tokens": self.setup.max_tokens,
            "temperature": self.setup.temperature,
            "format": self.setup.format,
            "prompts": [dict(self.writer.values), dict(self.checker.values)],
            "languages": {
                name: [dict(file.values) for file in pair] for name, pair in self.languages.items()
            },
            "levels": list(self.levels),
            "count": self.count,
            "personas": [asdict(persona) for persona in self.personas],
        }


def level_lines(data: Mapped) -> Mapping[str, str]:
    """Return the levels of a prompt file with the line that describes each.

    Raises:
        ConfigError: The file has none.
    """
    levels = data.values.get("levels")
    if not isinstance(levels, dict) or not levels:
        raise ConfigError(
            "the prompt file has no levels",
            where=data.where,
            hint="write levels: {fact: description}",
        )
    return {str(name): str(line) for name, line in levels.items()}


def write_questions(
    passage: Passage, writing: QuestionWriter, source: Analyzer
) -> Flow[tuple[Candidate, ...]]:
    """Return the candidates of a passage, each accepted or rejected with its reason.

    One call writes the questions; each one that passes the checks is then answered from its
    evidence alone (one call each): the answer must be the same.

    Raises:
        ModelError: The server fails.
    """
    writing = writing.of(passage.language)
    reply = yield from ask_for_usable(_writing_call(passage, writing), writing.setup)
    drafts = reply.value
    if drafts is None:
        return (
            Candidate(
                "model", "", "", GoldSpan(passage.document_id, passage.span.start, passage.span.end)
            ).rejected(UNUSABLE),
        )
    checked = [_check_draft(draft, passage, source) for draft in drafts]
    estimate = yield from branch(0, min(writing.count, max(1, len(drafts))), writing.count)
    if estimate is not None:
        stand_in = Candidate(
            "model",
            "forecast?",
            "forecast",
            GoldSpan(passage.document_id, 0, 1, passage.text[:300]),
        )
        checked = [stand_in] * estimate
    outcomes = yield from gather(
        [
            check_by_answering(candidate, number, writing, source)
            for number, candidate in enumerate(checked)
        ],
        settle=True,
    )
    return tuple(unpack_settled(outcome) for outcome in outcomes)


def ask_for_usable(call: JudgeCall[T], setup: MeasureSetup) -> Flow[JudgeVerdict[T]]:
    """Ask as `asked` does, but replace stored replies that cannot be used by new samples.

    Otherwise one malformed reply would leave its passage without questions in every later run.
    """
    for sample in count():
        judged = yield from ask_judge(replace(call, sample=sample), setup)
        if judged.value is not None or not judged.cached:
            break
    return judged


def candidate_body(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Return candidates as JSON-able values, for the run store."""
    return {"candidates": [asdict(candidate) for candidate in candidates]}


def candidates_of(body: Mapping[str, Any]) -> tuple[Candidate, ...]:
    """Rebuild the candidates from the values of :func:`candidate_body`."""
    return tuple(
        Candidate(**{**candidate, "span": GoldSpan(**candidate["span"])})
        for candidate in body["candidates"]
    )


def _check_draft(draft: _Draft, passage: Passage, source: Analyzer) -> Candidate:
    """Check a draft against its passage, without a model."""
    span, reason = locate_quote(draft.quote, passage.text, passage.span.start, passage.document_id)
    place = span or GoldSpan(passage.document_id, passage.span.start, passage.span.end)
    candidate = Candidate(
        "model", draft.question, draft.answer, place, draft.level, dict(draft.answers)
    )
    if span is None:
        return candidate.rejected(reason)
    if fault := context_fault(draft.question, source):
        return candidate.rejected(f"without context: {fault.split(' (')[0]}")
    if language_fault(draft.question, passage.language):
        return candidate.rejected("not in the language of its source")
    if draft.level in _QUOTED_LEVELS and not is_supported(draft.answer, span.text, source):
        return candidate.rejected("the answer is not in its evidence")
    if any(
        number not in span.text
        for number in re.findall(r"\d+", " ".join(candidate.answers.values()))
    ):
        return candidate.rejected(
            "the answer for a persona has a number that is not in its evidence"
        )
    return candidate


def check_by_answering(
    candidate: Candidate, number: int, writing: QuestionWriter, source: Analyzer
) -> Flow[Candidate]:
    """Reject the candidate if its evidence alone does not give its answer."""
    if candidate.reason:
        return candidate
    reply: JudgeVerdict[tuple[bool, str]] = yield from ask_for_usable(
        _answer_call(candidate, number, writing), writing.setup
    )
    if reply.value is None:
        return candidate.rejected("no usable reply of the check")
    answerable, answer = reply.value
    if not answerable:
        return candidate.rejected("its evidence alone does not answer it")
    # Answers on style and ideas have many wordings: there only an abstention counts.
    if candidate.level in _QUOTED_LEVELS and not is_supported(candidate.answer, answer, source):
        return candidate.rejected("its evidence alone gives another answer")
    return candidate


@dataclass(frozen=True, slots=True)
class _Draft:
    """One question written by the model."""

    level: str
    question: str
    quote: str
    answer: str
    answers: tuple[tuple[str, str], ...] = ()


def _writing_call(passage: Passage, writing: QuestionWriter) -> JudgeCall[tuple[_Draft, ...]]:
    lines = level_lines(writing.writer)
    names = [persona.name for persona in writing.personas]
    keys = ["level", "question", "quote", "answer", *(["answers"] if names else [])]

    def read(text: str, form: ReplyForm, finish: str) -> tuple[_Draft, ...]:
        entries = read_object(text, ("questions",), finish)["questions"]
        if not isinstance(entries, list) or len(entries) > writing.count:
            raise ValueError(f'"questions" must be a list of at most {writing.count} entries')
        return tuple(
            _draft_of(require_keys(entry, keys), writing.levels, names) for entry in entries
        )

    text = {"type": "string"}
    properties: dict[str, Any] = {
        "level": {"type": "string", "enum": list(writing.levels)},
        "question": text,
        "quote": text,
        "answer": text,
    }
    if names:
        properties["answers"] = object_schema(dict.fromkeys(names, text))
    entry = object_schema(properties)
    return JudgeCall(
        prompt="synth",
        texts=(("passage", passage.text),),
        read=read,
        schema=schema_text({"questions": {"type": "array", "items": entry}}),
        stand_in=tuple(_Draft(writing.levels[0], "", "", "") for _ in range(writing.count)),
        values={
            "count": writing.count,
            "levels": [{"name": name, "line": lines[name]} for name in writing.levels],
            "personas": [
                {"name": p.name, "about": _persona_description(p)} for p in writing.personas
            ],
            "language": passage.language,
        },
        sources=(passage.document_id,),
        data=writing.writer,
        advice=OTHER_MODEL,
    )


def _draft_of(entry: Mapping[str, Any], levels: Sequence[str], names: Sequence[str]) -> _Draft:
    """Parse one entry of a reply; raises ValueError with the fault."""
    if entry["level"] not in levels:
        raise ValueError(f'"level" must be one of {", ".join(levels)}')
    question, quote, answer = (text_of(entry[k], k) for k in ("question", "quote", "answer"))
    answers = entry.get("answers", {})
    if names and (not isinstance(answers, dict) or set(answers) != set(names)):
        raise ValueError(f'"answers" must have exactly the readers {", ".join(names)}')
    own_answers = tuple((name, text_of(answers[name], f"the answer for {name}")) for name in names)
    return _Draft(entry["level"], " ".join(question.split()), quote, answer, own_answers)


def _answer_call(
    candidate: Candidate, number: int, writing: QuestionWriter
) -> JudgeCall[tuple[bool, str]]:
    def read(text: str, form: ReplyForm, finish: str) -> tuple[bool, str]:
        reply = read_object(text, ("answerable", "answer"), finish)
        if not isinstance(reply["answerable"], bool) or not isinstance(reply["answer"], str):
            raise ValueError('"answerable" must be true or false and "answer" a text')
        if reply["answerable"] != bool(reply["answer"].strip()):
            raise ValueError('"answer" must be empty where "answerable" is false, and only there')
        return reply["answerable"], reply["answer"].strip()

    question = candidate.question
    if question == "forecast?":
        question = f"forecast {number}?"  # distinct calls are counted once each
    return JudgeCall(
        prompt="answerable",
        texts=(("evidence", candidate.span.text), ("question", question)),
        read=read,
        schema=schema_text({"answerable": {"type": "boolean"}, "answer": {"type": "string"}}),
        stand_in=(True, "forecast"),
        values={},
        sources=(candidate.span.document_id,),
        data=writing.checker,
        advice=OTHER_MODEL,
    )


def _persona_description(persona: Persona) -> str:
    """Return the description of a persona for a prompt, on one line."""
    traits = {
        "audience": persona.audience,
        "technical density": persona.technical_density,
        "language": persona.language_complexity,
        "length": persona.answer_length,
        "style": persona.writing_style,
        "also": persona.extra_instructions,
    }
    return "; ".join(f"{name}: {' '.join(text.split())}" for name, text in traits.items() if text)
