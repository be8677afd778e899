"""The offline answer to a question about everything: the best sentences of all chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ..core import Answer, Hit, Persona
from ..flow import Flow
from ..models import ExtractiveReranker, TokenSource
from ._extract import CLOSEST, Selection, closest, quoted, ranked, score_sentences, select
from ._flow import QUOTED
from ._forms import refusal
from ._options import AnswerOptions
from ._quotes import Quote, single_quotes
from ._sentences import Sentence, split_sentences

MOST_SENTENCES = 4_000
"""Sentences scored together; of more, those with the most words of the question."""


class Quotable:
    """Collects, from chunks given in document order, the sentences worth scoring."""

    def __init__(self, question: str, analyzer: TokenSource) -> None:
        self._analyzer = analyzer
        self._asked = set(analyzer.query_tokens(question))
        self._candidates: list[tuple[int, Sentence]] = []
        self._hits: dict[int, Hit] = {}

    def add(self, hits: Sequence[Hit]) -> None:
        """Read further chunks and collect their sentences that share a word with the question."""
        for _, group in groupby(hits, key=lambda hit: hit.document_id):
            numbered = list(group)
            for sentence in split_sentences(numbered):
                shared = self._asked.intersection(self._analyzer.tokens(sentence.text))
                if shared:
                    hit = numbered[sentence.number - 1]
                    self._hits[hit.rank] = hit
                    self._candidates.append((len(shared), replace(sentence, number=hit.rank)))

    def hit(self, number: int) -> Hit:
        """The chunk with a number (its rank in document order)."""
        return self._hits[number]

    def sentences(self) -> tuple[list[Sentence], tuple[str, ...]]:
        """The collected sentences, in document order, and a note if some were left out."""
        candidates = self._candidates
        notes: tuple[str, ...] = ()
        if len(candidates) > MOST_SENTENCES:
            notes = (
                f"{MOST_SENTENCES} of {len(candidates)} sentences that share a word with the "
                "question were scored",
            )
            best = sorted(range(len(candidates)), key=lambda i: (-candidates[i][0], i))[
                :MOST_SENTENCES
            ]
            candidates = [candidates[i] for i in sorted(best)]
        return [sentence for _, sentence in candidates], notes


def quote_everything(
    question: str, personas: Sequence[Persona], quotable: Quotable, options: AnswerOptions
) -> Flow[list[Answer]]:
    """One answer per persona, quoted from anywhere in the corpus, in document order.

    All sentences that share a word with the question are scored in one request, so that each is
    compared with all others.
    """
    sentences, notes = quotable.sentences()
    scores: tuple[float, ...] = ()
    if sentences:
        sources = list(dict.fromkeys(sentence.document_id for sentence in sentences))
        scores = yield from score_sentences(question, sentences, sources, ranked=False)
    quotes = single_quotes(sentences, scores)
    answers = []
    for persona in personas:
        selection = select(
            quotes,
            threshold=options.threshold,
            max_words=persona.max_words,
            most=options.corpus.sentences,
        )
        left_notes = _unquoted_notes(scores, selection, persona, options)
        answer = Answer(
            question, "", persona.name, model=ExtractiveReranker.name, notes=(*notes, *left_notes)
        )
        if selection.chosen:
            answers.append(_corpus_quotation(answer, persona, quotable, selection))
        else:
            answers.append(_corpus_refusal(answer, quotable, options, ranked(quotes)))
    return answers


def _unquoted_notes(
    scores: Sequence[float], selection: Selection, persona: Persona, options: AnswerOptions
) -> tuple[str, ...]:
    """The number of scored sentences that are not quoted, and why."""
    if not selection.chosen:
        return ()
    enough = sum(score >= options.threshold for score in scores)
    notes = []
    if enough > len(selection.chosen):
        notes.append(
            f"{len(selection.chosen)} of {enough} sentences that score {options.threshold:.2f} or "
            f"more are quoted: each once, at most {options.corpus.sentences} "
            f"(answer.corpus.sentences) and {persona.max_words} words (the persona's max_words)"
        )
    if enough < len(scores):
        notes.append(
            f"{len(scores) - enough} sentences with a word of the question score under "
            f"{options.threshold:.2f} (answer.threshold)"
        )
    return tuple(notes)


def _corpus_refusal(
    blank: Answer, quotable: Quotable, options: AnswerOptions, quotes: Sequence[Quote]
) -> Answer:
    best = f"{quotes[0].score:.2f}" if quotes else "none"
    note = f"no sentence reaches {options.threshold:.2f}; the best score is {best}"
    near, hits = _numbered_from_one(quotes[: 4 * CLOSEST], quotable)
    return replace(
        blank,
        text=refusal(blank.question),
        abstained=True,
        hits=hits,
        closest=closest(blank.question, near, hits),
        notes=(*blank.notes, note),
    )


def _corpus_quotation(
    blank: Answer, persona: Persona, quotable: Quotable, selection: Selection
) -> Answer:
    chosen, hits = _numbered_from_one(selection.chosen, quotable)
    text, citations, more = quoted(replace(selection, chosen=chosen), hits, persona)
    label = f"{QUOTED}; best score {selection.score:.2f}"
    notes = (label, *blank.notes, *more)
    return replace(blank, text=text, citations=citations, hits=hits, notes=notes)


def _numbered_from_one(
    quotes: Sequence[Quote], quotable: Quotable
) -> tuple[tuple[Quote, ...], tuple[Hit, ...]]:
    """Quotes and their hits, numbered from 1 in the order of first use."""
    used = list(dict.fromkeys(quote.number for quote in quotes))
    hits = tuple(replace(quotable.hit(number), rank=at) for at, number in enumerate(used, 1))
    return tuple(quote.moved(used.index(quote.number) + 1) for quote in quotes), hits
