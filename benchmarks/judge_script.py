"""Scripted judgments, returned to each tool in the reply format that its prompts ask for.

Questions, responses and gold answers are those of ``ragchecker_meta``; pieces of the other
system's response stand for passages, which the data does not have. The judgments (claims,
verdicts, questions, ratings) are drawn from a seed, so only the arithmetic of the tools is
compared, not the quality of the judgments. :class:`ScriptedJudge` recognises a request by the texts
in the prompt; a request that it cannot place is answered 400, and nothing is scored from it.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.data_sets import DATA
from benchmarks.people import ragchecker
from ragwright.core import Row
from ragwright.testing import Reply, ServerRequest

SEED = 4
REASON = "As scripted."
REFUSAL = "I'm sorry, but I cannot judge this text."
PROSE = "Overall I would give it a 4/5."

EVERYWHERE = ("malformed once", "malformed", "refusing", "empty", "cut off", "failing")
"""Faults of every reply on a row: of the first one to each prompt, or of all."""

INSIDE = ("no claims", "verdict missing", "off the scale", "no question", "one question")
"""Replies in the right form that say something out of the ordinary."""

Payload: TypeAlias = dict[str, Any]

_BLOCK = re.compile(
    r"^<<(?P<name>[a-z ]+(?: \d+)?) (?P<mark>[0-9a-f]{12})>>\n(?P<text>.*?)\n"
    r"<<end (?P=name) (?P=mark)>>$",
    re.DOTALL | re.MULTILINE,
)
_INPUT = "Now perform the same with the following input"


@dataclass(frozen=True)
class Scripted:
    """A row and all that the judge finds in it.

    Attributes:
        row: What is judged.
        claims: Claims of the response, and which of them are ``supported``.
        questions: Questions written from the response.
        evasive: For each question, whether the judge calls the response evasive.
        useful: For each passage, whether it helps.
        pieces: What an answer needs, and which of it the passages hold.
        rating: How well the passages suit the question: 0, 1 or 2.
        fault: What the judge does wrong on this row, empty for nothing.
    """

    row: Row
    claims: tuple[tuple[str, bool], ...]
    questions: tuple[str, str, str]
    evasive: tuple[bool, bool, bool]
    useful: tuple[bool, ...]
    pieces: tuple[tuple[str, bool], ...]
    rating: int
    fault: str = ""


def scripted_rows(clean: int, each_fault: int, data: Path = DATA) -> list[Scripted]:
    """Rows without a fault, then as many rows as told for each fault; no text is there twice.

    Raises:
        FileNotFoundError: The data set does not lie beside the checkout.
        ValueError: It has fewer fit rows than asked for.
    """
    faults = [""] * clean + [f for f in (*EVERYWHERE, *INSIDE) for _ in range(each_fault)]
    drawn: list[Scripted] = []
    seen: set[str] = set()
    for pair in ragchecker(data):
        if len(drawn) == len(faults):
            return drawn
        row, response = pair.first, pair.first.response_text
        passages = _parts(pair.second.response_text, 8, 5)
        claims = _parts(response, 4, 6)
        pieces = _parts(row.reference, 1, 5)
        texts = {plain(text) for text in (row.user_input, response, *passages)}
        if len(passages) < 2 or not (claims and pieces):
            continue
        if len(texts) < len(passages) + 2 or texts & seen:
            continue
        seen |= texts
        drawn.append(_drawn(row, passages, claims, pieces, faults[len(drawn)]))
    if len(drawn) < len(faults):
        raise ValueError(f"{len(drawn)} fit rows, {len(faults)} are asked for")
    return drawn


def plain(text: str) -> str:
    """A text by which it is found again: white space does not count."""
    return " ".join(text.split())


def _parts(text: str, words: int, most: int) -> tuple[str, ...]:
    """Its first sentences of so many words, each once."""
    parts = (plain(part) for part in re.split(r"(?<=[.!?])\s+|\n", text))
    fit = (part for part in parts if len(part.split()) >= words and re.search(r"\w", part))
    return tuple(dict.fromkeys(fit))[:most]


def _drawn(
    row: Row, passages: Sequence[str], claims: Sequence[str], pieces: Sequence[str], fault: str
) -> Scripted:
    draw = random.Random(f"{SEED} {row.id}")

    def verdicts(count: int) -> list[bool]:
        return [draw.random() < 0.6 for _ in range(count)]

    words = row.user_input.rstrip("?").split()
    others = list(dict.fromkeys((row.response or "").lower().split()))
    questions = []
    for number in range(3):
        kept = [word for word in words if draw.random() < 0.7]
        questions.append(" ".join([f"{number + 1})", *kept, *draw.sample(others, 2)]) + "?")
    evasive = draw.choices(((1, 1, 1), (1, 0, 0), (0, 0, 0)), (15, 15, 70))[0]
    return Scripted(
        row=Row(
            row.id,
            row.user_input,
            response=row.response,
            reference=row.reference,
            retrieved_contexts=tuple(passages),
        ),
        claims=tuple(zip(claims, verdicts(len(claims)), strict=True)),
        questions=(questions[0], questions[1], questions[2]),
        evasive=(bool(evasive[0]), bool(evasive[1]), bool(evasive[2])),
        useful=tuple(verdicts(len(passages))),
        pieces=tuple(zip(pieces, verdicts(len(pieces)), strict=True)),
        rating=draw.randrange(3),
        fault=fault,
    )


@dataclass(frozen=True)
class Asked:
    """What one request is about: the tool, its question, the row, and the passage if one."""

    form: str
    kind: str
    scripted: Scripted
    passage: int = 0
    repair: int = 0


class ScriptedJudge:
    """Answers by what stands in the prompt; counts the calls of each kind."""

    def __init__(self, table: Sequence[Scripted]) -> None:
        self.calls: Counter[str] = Counter()
        self.unplaced: list[str] = []
        self._lock = threading.Lock()
        self._times: Counter[tuple[str, str, str, int]] = Counter()
        self._by: dict[str, tuple[Scripted, int]] = {}
        for scripted in table:
            row = scripted.row
            for text in (row.user_input, row.response or "", "\n".join(row.retrieved_contexts)):
                self._by[plain(text)] = (scripted, 0)
            for number, text in enumerate(row.retrieved_contexts):
                self._by[plain(text)] = (scripted, number)

    def __call__(self, request: ServerRequest) -> Reply:
        """The reply to one request."""
        if request.path.endswith("/embeddings"):
            return Reply()
        try:
            asked = self._placed(request.body["messages"])
        except (KeyError, ValueError) as error:
            self.unplaced.append(f"{type(error).__name__}: {error}")
            return Reply(status=400, error="not in the script")
        key = (asked.form, asked.kind, asked.scripted.row.id, asked.passage)
        with self._lock:
            time = self._times[key]
            self._times[key] += 1
            self.calls[asked.form] += 1
        return _reply(asked, time)

    def _placed(self, messages: Sequence[Mapping[str, Any]]) -> Asked:
        first = next(turn["content"] for turn in messages if turn["role"] == "user")
        if first.startswith("MARK is "):
            return self._ours(first, str(messages[0]["content"]))
        return self._theirs(first)

    def _ours(self, prompt: str, system: str) -> Asked:
        texts = {block["name"]: block["text"] for block in _BLOCK.finditer(prompt)}
        by = texts.get("question") or texts["answer"]
        kind = {
            '{"claims"': "claims",
            '{"verdicts"': "verdicts",
            '{"questions"': "questions",
            '{"needed"': "pieces",
        }.get(prompt.rpartition("Reply with ")[2].partition(": ")[2].partition(":")[0], "")
        if kind:
            return Asked("ours", kind, self._by[plain(by)][0])
        scripted, _ = self._by[plain(texts["question"])]
        if "from 0 to 1" in system:
            return Asked("ours", "passage", scripted, self._by[plain(texts["passage 1"])][1])
        return Asked("ours", "rating", scripted)

    def _theirs(self, prompt: str, repair: int = 0) -> Asked:
        head, _, given = prompt.partition(_INPUT)  # the outermost, where a prompt is quoted
        fields, _ = json.JSONDecoder().raw_decode(given, given.index("{"))
        names = set(fields)
        if names == {"output_string", "prompt_value"}:  # `evaluate` has the reply mended
            return self._theirs(fields["prompt_value"], repair + 1)
        if names == {"context", "statements"}:
            return Asked("ragas", "verdicts", self._by[plain(fields["context"])][0], 0, repair)
        by = fields.get("question") or fields.get("user_input") or fields["response"]
        scripted, _ = self._by[plain(by)]
        if names == {"question", "context", "answer"}:
            if "classifications" in head:
                return Asked("ragas", "pieces", scripted, 0, repair)
            return Asked(
                "ragas", "passage", scripted, self._by[plain(fields["context"])][1], repair
            )
        kinds = {"answer": "claims", "response": "questions", "context": "rating"}
        return Asked("ragas", next(kinds[n] for n in kinds if n in names), scripted, 0, repair)


def _reply(asked: Asked, time: int) -> Reply:
    fault = asked.scripted.fault
    if fault == "failing":
        return Reply(status=500, error="out of order")
    if fault == "empty":
        return Reply("")
    if fault == "refusing":
        return Reply(REFUSAL)
    # What asks for a mended reply is a later request, whatever was asked before it.
    if fault == "malformed" or (fault == "malformed once" and not (time or asked.repair)):
        return Reply(PROSE)
    making = (_OURS if asked.form == "ours" else _RAGAS)[asked.kind]
    text = json.dumps(making(asked, time), ensure_ascii=False)
    for _ in range(asked.repair):
        text = json.dumps({"text": text}, ensure_ascii=False)
    if fault == "cut off":
        return Reply(text[: len(text) // 2], finish="length")
    return Reply(text)


def _claims(asked: Asked) -> list[str]:
    scripted = asked.scripted
    return [] if scripted.fault == "no claims" else [claim for claim, _ in scripted.claims]


def _verdicts(asked: Asked) -> list[tuple[int, str, bool]]:
    scripted = asked.scripted
    verdicts = [(number, claim, held) for number, (claim, held) in enumerate(scripted.claims, 1)]
    return verdicts[:-1] if scripted.fault == "verdict missing" else verdicts


def _questions(asked: Asked) -> tuple[str, str, str]:
    scripted = asked.scripted
    if scripted.fault == "no question":
        return ("", "", "")
    if scripted.fault == "one question":
        return (scripted.questions[0],) * 3
    return scripted.questions


def _binary(asked: Asked, held: bool) -> int:
    """1 or 0; a judge that leaves the scale says 2 for yes."""
    return (2 if asked.scripted.fault == "off the scale" else 1) * held


def _boolean(asked: Asked, held: bool) -> bool | int:
    return _binary(asked, held) if asked.scripted.fault == "off the scale" else held


def _rating(asked: Asked) -> int:
    return 3 if asked.scripted.fault == "off the scale" else asked.scripted.rating


_OURS: Mapping[str, Callable[[Asked, int], Payload]] = {
    "claims": lambda asked, _: {"claims": _claims(asked)},
    "verdicts": lambda asked, _: {
        "verdicts": [
            {"claim": number, "reasoning": REASON, "supported": _boolean(asked, held)}
            for number, _claim, held in _verdicts(asked)
        ]
    },
    "questions": lambda asked, _: {"questions": list(_questions(asked))},
    "pieces": lambda asked, _: {
        "needed": [
            {"piece": piece, "reasoning": REASON, "held": _boolean(asked, held)}
            for piece, held in asked.scripted.pieces
        ]
    },
    "passage": lambda asked, _: {
        "reasoning": REASON,
        "score": _binary(asked, asked.scripted.useful[asked.passage]),
    },
    "rating": lambda asked, _: {"reasoning": REASON, "score": 1 + 2 * _rating(asked)},
}
_RAGAS: Mapping[str, Callable[[Asked, int], Payload]] = {
    "claims": lambda asked, _: {"statements": _claims(asked)},
    "verdicts": lambda asked, _: {
        "statements": [
            {"statement": claim, "reason": REASON, "verdict": _binary(asked, held)}
            for _number, claim, held in _verdicts(asked)
        ]
    },
    "questions": lambda asked, time: {
        "question": _questions(asked)[time % 3],
        "noncommittal": int(asked.scripted.evasive[time % 3]),
    },
    "pieces": lambda asked, _: {
        "classifications": [
            {"statement": piece, "reason": REASON, "attributed": _binary(asked, held)}
            for piece, held in asked.scripted.pieces
        ]
    },
    "passage": lambda asked, _: {
        "reason": REASON,
        "verdict": _binary(asked, asked.scripted.useful[asked.passage]),
    },
    "rating": lambda asked, _: {"rating": _rating(asked)},
}
