"""Rewrite follow-up questions so that they stand alone, by a model or, without one, by rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import compile_late, load_shipped_mapping, render
from ..flow import Flow, Message, chat
from ..models import NO_MODEL, Analyzer, words
from ._window import Window, recent_turns


@dataclass(frozen=True, slots=True)
class Condensed:
    """A question that can be understood alone.

    Attributes:
        text: The question to retrieve and answer with.
        method: ``as asked``, ``rule`` (terms of an earlier question were added), or the model.
        notes: Which turns were left out.
        keywords: Text for the keyword channel in place of ``text``: words of the question and of
            earlier turns, each repeated by its weight; empty if it is searched as ``text``.
    """

    text: str
    method: str
    notes: tuple[str, ...] = ()
    keywords: str = ""


_POINTING = compile_late(
    r"\b(?:it|its|itself|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those"
    r"|there|one|ones|both|former|latter|such|same"
    r"|il|elle|ils|elles|lui|leur|leurs|celui|celle|ceux|celles|celui-ci|celle-ci|cela|ça|ceci"
    r"|y|en|son|sa|ses|cette|cet|ces|ce dernier|cette dernière"
    r"|er|sie|ihm|ihr|ihre|dessen|deren|diese[rsmn]?|dort|davon|dazu"
    r"|ello|ella|ellos|ellas|esto|eso|ese|esa|allí)\b",
    re.IGNORECASE,
)
_CONTINUING = compile_late(
    r"^\W*(?:and|or|but|so|also|what about|how about|what else|why(?: not)?\W*$|et|mais|ou|alors"
    r"|qu['’]en est-il|pourquoi\W*$|und|oder|aber|y|pero|e|ma)\b",
    re.IGNORECASE,
)
_IMPERSONAL = compile_late(
    r"\b(?:is it|was it|il y a|y a-t-il|il faut|faut-il|il est|est-il|existe-t-il|is there"
    r"|are there|was there|were there|this (?:document|manual|page)|en \d+|qu['’]est-ce que)\b",
    re.IGNORECASE,
)


_MAX_TOKENS = 200
_OF_QUESTION, _EARLIER, _DECAY = 10, 3, 0.7
_MOST_WORDS = 300

CONVERSATION = "ragwright:conversation"
"""Source of replies to prompts that hold earlier answers: whatever those quoted."""


def condense(
    question: str, history: Sequence[Message], model: str = "", window: Window | None = None
) -> Flow[Condensed]:
    """A follow-up question rewritten so that it can be searched and answered by itself.

    Args:
        question: The last question.
        history: Earlier turns, oldest first, roles ``user`` and ``assistant``.
        model: Chat model; empty or ``snippet`` for the rule (:func:`condense_by_rule`).
        window: The model's; the oldest turns that do not fit it are left out, with a note.
    """
    if not history:
        return Condensed(question, "as asked")
    if model in {"", NO_MODEL}:
        return condense_by_rule(question, history)
    data = load_shipped_mapping("answer", "prompts/condense.yaml")
    fixed = data.text("system") + data.text("user") + question
    turns, notes = recent_turns(history, fixed, _MAX_TOKENS, window or Window())
    values = {"history": turns, "question": question}
    reply = yield from chat(
        model,
        [Message(role, render(data.text(role), values)) for role in ("system", "user")],
        {"temperature": 0.0, "max_tokens": _MAX_TOKENS},
        sources=[CONVERSATION],
    )
    text = " ".join(reply.text.split()).strip("\"'«» ")
    if not text:
        return Condensed(question, "as asked", notes)
    return Condensed(text, model, notes)


def condense_by_rule(question: str, history: Sequence[Message]) -> Condensed:
    """The question with the salient terms of the last one, if it refers back.

    A question refers back if it holds a pronoun or a demonstrative, begins like a continuation
    ("and", "what about", "et"), or has at most one content word. Salient terms are the content
    words of the last user question that the new one lacks, in their order.
    """
    questions = [turn.content for turn in history if turn.role == "user"]
    if not questions:
        return Condensed(question, "as asked")
    keywords = weigh_words(question, history)
    if stands_alone(question, history):
        return Condensed(question, "as asked", keywords=keywords)
    analyzer = Analyzer()
    present = set(analyzer.tokens(question))
    terms: list[str] = []
    for word in words(questions[-1]):
        tokens = analyzer.tokens(word)
        if tokens and not present.intersection(tokens) and word not in terms:
            terms.append(word)
    if not terms:
        return Condensed(question, "as asked", keywords=keywords)
    return Condensed(f"{question} ({' '.join(terms[:8])})", "rule", keywords=keywords)


def weigh_words(question: str, history: Sequence[Message]) -> str:
    """The words of a question and of the turns before it, each repeated by its weight.

    A word of the question counts 10 times. One that only earlier questions hold counts 3 times, by
    0.7 less for each question that lies between; one of the last answer counts once. BM25 adds the
    weight of a rare word to this one. Chosen on the development half of MTRAG-UN
    (``benchmarks/conversations.py``). Empty if the earlier turns add no word.
    """
    analyzer = Analyzer()
    present = set(analyzer.tokens(question))
    counts: dict[str, int] = {}
    questions = [turn.content for turn in history if turn.role == "user"]
    answers = [turn.content for turn in history if turn.role == "assistant"]
    weighted = [(text, round(_EARLIER * _DECAY**age)) for age, text in enumerate(questions[::-1])]
    for text, weight in (*weighted, *((text, 1) for text in answers[-1:])):
        for word in dict.fromkeys(words(text)):
            tokens = analyzer.tokens(word)
            if weight and tokens and not present.issuperset(tokens):
                present.update(tokens)
                counts[word] = weight
        if len(counts) >= _MOST_WORDS:
            break
    if not counts:
        return ""
    own = [word for word in words(question) if analyzer.tokens(word)]
    return " ".join((*own * _OF_QUESTION, *(w for w, n in counts.items() for _ in range(n))))


def stands_alone(question: str, history: Sequence[Message]) -> bool:
    """True if a question can be understood without its history, as far as its words show."""
    if not history:
        return True
    if _CONTINUING.search(question) or len(set(Analyzer().tokens(question))) < 2:
        return False
    return not _POINTING.search(_IMPERSONAL.sub(" ", question))
