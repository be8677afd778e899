"""Iterative search: a chat model reads the passages and searches again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..core import Hit, ModelError, passage_values
from ..flow import Flow, branch
from ._options import IterateOptions
from ._query import StructuredQuestion, ask_structured, json_object, object_schema
from ._target import Retrieved

Once: TypeAlias = Callable[[str], Flow[Retrieved]]
"""One round of retrieval for a query."""

_PASSAGES = 5
"""Passages that the model reads in each round."""

_PASSAGE_CHARACTERS = 2_000
_LONGEST_QUERY = 300
"""Characters of a query that the model writes."""

_DAMPING = 1
"""Constant of the fusion, 1 / (1 + rank), which favours the first hits of a follow-up search."""

_LEAST_READ = 1_000
"""Characters of a question that are always read."""


def iterate(
    query: str, options: IterateOptions, once: Once, k: int | None = None
) -> Flow[Retrieved]:
    """Retrieve, read the passages, and retrieve again, up to ``rounds`` times.

    The model answers from the passages and searches for the question with that answer, or
    without an answer for the query that it writes, until it is satisfied. The
    first half of the first round stays where it is; the other places go to
    the best of all rounds. With soft filters each relaxation level is ordered by itself, the
    heavier one first. A result has as many hits as the largest round. Channels of later rounds
    are named ``hop …``, since they searched another query. The notes list the searches, and
    include those of all rounds.

    Args:
        query: The question.
        options: Settings.
        once: One round of retrieval, without stages that need the final hits (selection,
            expansion).
        k: Number of final hits, if rounds return more; None for all.

    Raises:
        RagwrightError: Errors of ``once`` in the first round; in later rounds all except model
            errors, which end the search with a note. MissingKeyError and ModelRefusedError of the
            reading model are always raised.
    """
    first = yield from once(query)
    if options.rounds < 2 or not first.hits:
        return first
    # A query that was cut for the search is cut for the model too.
    question = query.strip()[: max(len(first.query), _LEAST_READ)]
    state = _State(question, first, options, k)
    state.add(first.hits)
    yield from _read_rounds(state, once)
    return state.result()


@dataclass(slots=True)
class _State:
    """The rounds so far and their fused result."""

    query: str
    first: Retrieved
    options: IterateOptions
    wanted: int | None = None
    notes: list[str] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    hits: dict[str, Hit] = field(default_factory=dict)
    size: int = 0

    def add(self, hits: Sequence[Hit]) -> None:
        """Add one round to the fusion."""
        self.size = max(self.size, len(hits))
        for rank, hit in enumerate(hits, 1):
            if hit.chunk_id not in self.hits:
                # a later round searched another query
                prefix = "" if hits is self.first.hits else "hop "
                self.hits[hit.chunk_id] = replace(
                    hit, channels={f"{prefix}{name}": found for name, found in hit.channels.items()}
                )
            gain = 1 / (_DAMPING + rank)
            self.scores[hit.chunk_id] = self.scores.get(hit.chunk_id, 0.0) + gain

    def head(self) -> list[str]:
        """Chunk ids of the first round that keep their ranks."""
        hits = self.first.hits[: self.wanted]
        return [hit.chunk_id for hit in hits[: math.ceil(len(hits) / 2)]]

    def order(self) -> list[str]:
        """The final order: by relaxation level, the head of the first round, fused score, id."""
        ranked = sorted(self.scores, key=lambda key: (-round(self.scores[key], 6), key))
        order = list(dict.fromkeys((*self.head(), *ranked)))
        rungs = {key: hit.rung for key, hit in self.hits.items()}
        order.sort(key=lambda key: 0.0 if (rung := rungs[key]) is None else -rung.weight)
        return order[: self.size]

    def result(self) -> Retrieved:
        """All rounds as one result; within a level scores decrease with the rank."""
        order, head = self.order(), set(self.head())
        top = max((self.scores[key] for key in order if key not in head), default=0.0)
        hits = []
        for rank, key in enumerate(order, 1):
            score = top + 1 / (_DAMPING + rank) if key in head else self.scores[key]
            hits.append(replace(self.hits[key], rank=rank, score=round(score, 6)))
        return replace(
            self.first,
            hits=tuple(hits),
            notes=tuple(dict.fromkeys((*self.first.notes, *self.notes))),
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A model's verdict on the passages."""

    satisfied: bool
    answer: str
    query: str


_KEYS = {"satisfied": bool, "answer": str, "next_query": str}
_SCHEMA = object_schema(
    {
        "satisfied": {"type": "boolean"},
        "answer": {"type": "string"},
        "next_query": {"type": "string"},
    }
)


def _read_rounds(state: _State, once: Once) -> Flow[None]:
    """Rounds in which a model answers and writes the next query."""
    more = state.options.rounds - 1
    planned = yield from branch(0, (more + 1) // 2, more)
    searched = [state.query]
    for number in range(2, more + 2):
        reply = yield from ask_structured(_round_question(state, searched))
        verdict = reply.value
        if verdict is None:
            state.notes.append(f"round {number} left out, no usable reply: {reply.why}")
            return
        if planned is not None and number - 2 >= planned:
            return
        if verdict.satisfied and planned is None:
            state.notes.append(f"the model is satisfied after {number - 1} rounds")
            return
        text = f"{state.query} {verdict.answer}".strip()
        if verdict.query and not verdict.answer:
            text = verdict.query
        if text in searched:
            state.notes.append(f"round {number} left out: nothing new to search for")
            return
        searched.append(text)
        state.notes.append(f"round {number} searched: {text}")
        try:
            result = yield from once(text)
        except ModelError as error:
            state.notes.append(f"the search for {text!r} failed: {error.what}")
            continue
        state.add(result.hits)
        for note in result.notes:
            earlier = (*state.first.notes, *(kept.partition(": ")[2] for kept in state.notes))
            if note not in earlier:
                state.notes.append(f"round {number}: {note}")


def _round_question(state: _State, searched: Sequence[str]) -> StructuredQuestion[_Verdict]:
    options = state.options
    hits = [state.hits[key] for key in state.order()[:_PASSAGES]]
    passages: list[dict[str, Any]] = []
    for number, hit in enumerate(hits, 1):
        passages.append(
            passage_values(number, replace(hit, text=hit.text.strip()[:_PASSAGE_CHARACTERS]))
        )

    def parse(text: str) -> _Verdict:
        reply = json_object(text, _KEYS)
        answer, query = (" ".join(reply[key].split()) for key in ("answer", "next_query"))
        if len(query) > _LONGEST_QUERY:
            raise ValueError(f"'next_query' has more than {_LONGEST_QUERY} characters")
        return _Verdict(reply["satisfied"], answer[:_LONGEST_QUERY], query)

    return StructuredQuestion(
        options.model,
        "iterate",
        {
            "question": state.query,
            "passages": passages,
            "searched": list(searched),
            "most": _LONGEST_QUERY,
        },
        parse,
        _Verdict(False, "", f"{state.query} ({len(searched)})"),
        schema=_SCHEMA,
        max_tokens=400,
        sources=tuple(dict.fromkeys(hit.document_id for hit in hits)),
    )
