"""The offline answer to a question about everything: the best sentences of all chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ..core import Answer, Hit, Persona
from ..flow import Flow
from ..models import ExtractiveReranker, TokenSource
from ._extract import Selection, Sentence, quoted, score_sentences, select, split_sentences
from ._flow import QUOTED, AnswerOptions, refusal

MOST_SENTENCES = 4_000
"""Sentences scored together; of more, those with the most words of the question."""


def quote_everything(
    question: str,
    personas: Sequence[Persona],
    hits: Sequence[Hit],
    options: AnswerOptions,
    analyzer: TokenSource,
) -> Flow[list[Answer]]:
    """One answer per persona, quoted from anywhere in the corpus, in document order.

    All sentences that share a word with the question are scored in one request, so that each
    is weighed against all others.
    """
    sentences, notes = _candidates(question, hits, analyzer)
    scores: tuple[float, ...] = ()
    if sentences:
        sources = list(dict.fromkeys(sentence.document_id for sentence in sentences))
        scores = yield from score_sentences(question, sentences, sources)
    return [
        _quoted(
            question,
            persona,
            hits,
            options,
            select_everywhere(sentences, scores, persona, options),
            notes,
        )
        for persona in personas
    ]


def select_everywhere(
    sentences: Sequence[Sentence],
    scores: Sequence[float],
    persona: Persona,
    options: AnswerOptions,
) -> Selection:
    """The best sentences over the threshold, each said once, in document order."""
    chosen = select(
        sentences,
        scores,
        threshold=options.threshold,
        max_words=persona.max_words,
        keep=0.0,
        most=options.corpus.sentences,
    )
    ordered = sorted(chosen.chosen, key=lambda s: (s.number, s.span.start))
    return Selection(tuple(ordered), chosen.best, chosen.score)


def _candidates(
    question: str, hits: Sequence[Hit], analyzer: TokenSource
) -> tuple[list[Sentence], tuple[str, ...]]:
    """Sentences worth scoring, those of the best chunks first, and a note where some are not."""
    asked = set(analyzer.query_tokens(question))
    found: list[tuple[int, Sentence]] = []
    shared: dict[int, set[str]] = {}
    for _, group in groupby(enumerate(hits, 1), key=lambda pair: pair[1].document_id):
        numbered = list(group)
        first = numbered[0][0]
        for sentence in split_sentences([hit for _, hit in numbered]):
            held = asked.intersection(analyzer.tokens(sentence.text))
            if held:
                number = first + sentence.number - 1
                shared.setdefault(number, set()).update(held)
                found.append((len(held), replace(sentence, number=number)))
    notes: tuple[str, ...] = ()
    if len(found) > MOST_SENTENCES:
        notes = (
            f"{MOST_SENTENCES} of {len(found)} sentences that share a word with the question "
            "were weighed",
        )
        best = sorted(range(len(found)), key=lambda i: (-found[i][0], i))[:MOST_SENTENCES]
        found = [found[i] for i in sorted(best)]
    # The model reads chunks best first; within one, sentences stay in their order.
    found.sort(key=lambda pair: (-len(shared[pair[1].number]), pair[1].number))
    return [sentence for _, sentence in found], notes


def _quoted(
    question: str,
    persona: Persona,
    hits: Sequence[Hit],
    options: AnswerOptions,
    selection: Selection,
    notes: tuple[str, ...],
) -> Answer:
    blank = Answer(question, "", persona.name, model=ExtractiveReranker.name, notes=notes)
    if not selection.chosen:
        best = f"{selection.score:.2f}" if selection.best else "none"
        note = f"no sentence reaches {options.threshold:.2f}; the best score is {best}"
        return replace(blank, text=refusal(question), abstained=True, notes=(*notes, note))
    used = list(dict.fromkeys(sentence.number for sentence in selection.chosen))
    shown = [replace(hits[number - 1], rank=at) for at, number in enumerate(used, 1)]
    chosen = tuple(replace(s, number=used.index(s.number) + 1) for s in selection.chosen)
    text, citations, more = quoted(replace(selection, chosen=chosen), shown, persona)
    label = f"{QUOTED}; best score {selection.score:.2f}"
    return replace(
        blank, text=text, citations=citations, hits=tuple(shown), notes=(label, *notes, *more)
    )
