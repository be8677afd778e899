"""Candidates for a testset: checks without a model, rarity of words, the choice of rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from ..core import GoldSpan, MetaValue, Row, Span, case_folded, count_noun, text_hash
from ..models import Analyzer, detect_language, sentence_spans
from ._splits import CONFIRM_SHARE

_ALIKE = 0.75
"""Least share of common words of two near-duplicates."""

_NEAR = 0.95
"""Least cosine of two near-duplicates."""

_HELD = 0.5
"""Least share of an answer's content words that must be in its evidence, or in a second answer."""

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question with its gold, accepted or rejected.

    Attributes:
        kind: Origin: ``model``, ``cloze`` or ``heading``.
        question: The question.
        answer: Gold answer; empty for headings, whose gold is the span alone.
        span: The evidence; its text is that of the document.
        level: Requested level of a model's question: ``fact``, ``idea``, ….
        answers: Persona -> its gold answer.
        reason: Reason of the rejection, empty if accepted.
    """

    kind: str
    question: str
    answer: str
    span: GoldSpan
    level: str = ""
    answers: Mapping[str, str] = field(default_factory=dict, hash=False)
    reason: str = ""

    def rejected(self, reason: str) -> Candidate:
        """Return the candidate, rejected with a reason."""
        return replace(self, reason=reason)


_NOUN = (
    r"(?:document|text|passage|section|chapter|paragraph|article|author|page|table|figure|excerpt"
    r"|extract|chunk|context|sentence|quote|quotation|speaker|narrator|list|example)"
)
_NOUN_FR = (
    r"(?:document|texte|passage|section|chapitre|paragraphe|article|auteure?|page|tableau|figure"
    r"|extrait|contexte|phrase|citation|locuteur|narrateur|liste|exemple)"
)
_NOUN_DE = r"(?:Dokument|Text|Abschnitt|Kapitel|Absatz|Artikel|Autor|Seite|Tabelle|Auszug|Satz)"
_POINTS_AT_TEXT = re.compile(
    rf"\b(?:the|this|that|these|those)(?: (?:given|provided|following|above|same))? {_NOUN}s?\b"
    rf"|\b(?:first|second|third|fourth|last|next|previous|following|above|below) {_NOUN}s?\b"
    r"|\b(?:mentioned|described|listed|shown|stated|quoted) (?:above|below|here)\b"
    rf"|\b(?:le |la |l['’]|du |au |ce |cet |cette |ces |les |des )(?:même )?{_NOUN_FR}s?\b"
    rf"|\b(?:premier|première|deuxième|second|seconde|dernier|dernière) {_NOUN_FR}s?\b"
    r"|\bci-(?:dessus|dessous|après|contre)\b"
    rf"|\b(?:der|die|das|den|dem|des|diese[rsmn]?|im|am) {_NOUN_DE}\w*",
    re.IGNORECASE,
)
_IMPERSONAL = re.compile(
    r"\b(?:(?:it (?:is|was)|(?:is|was) it) (?:possible|necessary|important|likely|useful|common"
    r"|better|best|clear|true|easy|hard|enough|said|known|worth)|it takes|does it take"
    r"|il y (?:a|avait|aura)|y a-t-il|il faut|faut-il|il est|est-il|existe-t-il"
    r"|s['’]il (?:vous|te)|est-ce|ce (?:que|qui|qu['’]|dont)|these days"
    r"|this (?:year|century))\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?<![-\w])(?:it|its|they|them|their|he|him|his|she|her|hers|il|elle|ils|elles|lui|leur|leurs"
    r"|sa|ses|celui-ci|celle-ci|ceux-ci|celles-ci|cela|ceci|ça|dieser|dieses)(?![-\w])",
    re.IGNORECASE,
)
_DEMONSTRATIVE = re.compile(
    r"(?<![-\w])(?:this|these|those|such an?|cet|cette|ces|ce(?= [^\W\d]{3,})|dieser|diese|dieses"
    r"|diesem|diesen)(?![-\w])",
    re.IGNORECASE,
)
_CONTINUES = re.compile(
    r"^\W*(?:and|but|or|so|also|then|therefore|thus|hence|however|otherwise|instead|moreover"
    r"|furthermore|here|there|both|neither|either one|that"
    r"|c['’]est|ce (?:n['’]est|sont)|son|et|mais|ou|donc|or|alors|ainsi|aussi"
    r"|puis|ensuite|cependant|toutefois|pourtant|und|aber|oder|also|daher|dann)\b",
    re.IGNORECASE,
)


def context_fault(question: str, source: Analyzer) -> str:
    """Return the reason why a question cannot be understood by itself, empty if it can.

    Faults are a reference to "the document" or "the second paragraph", a continuation, a
    demonstrative, and a pronoun before two possible referents. The rules cover English and French,
    and German roughly; a false alarm costs one question.
    """
    if match := _POINTS_AT_TEXT.search(question):
        return f"refers to the text it is taken from ({match[0].strip().casefold()!r})"
    if match := _CONTINUES.search(question):
        return f"continues something ({match[0].strip().casefold()!r})"
    open_text = _IMPERSONAL.sub(lambda match: "-" * len(match[0]), question)
    if match := _DEMONSTRATIVE.search(open_text):
        return f"uses a demonstrative ({match[0].casefold()!r})"
    for match in _PRONOUN.finditer(open_text):
        if len(set(source.tokens(question[: match.start()]))) < 2:
            return f"has a pronoun without a referent ({match[0].casefold()!r})"
    if len(set(source.tokens(question))) < 2:
        return "names nothing"
    return ""


def language_fault(question: str, language: str) -> str:
    """Return the reason why a question is in the wrong language, empty if it is not, or unknown."""
    if not language:
        return ""
    detected = detect_language([question], least=3)
    return (
        "" if detected in ("auto", language) else f"is in {detected!r}, its source in {language!r}"
    )


def is_supported(answer: str, text: str, source: Analyzer) -> bool:
    """True if a text contains at least half of an answer's content words, and all its numbers."""
    tokens, digits = set(source.tokens(answer)), re.findall(r"\d+", answer)
    held = len(tokens.intersection(source.tokens(text)))
    return held >= _HELD * len(tokens) and all(d in text for d in digits)


def locate_quote(
    quote: str, text: str, offset: int, document_id: str
) -> tuple[GoldSpan | None, str]:
    """Return a quote as a span of its document; None and the reason if it is missing or ambiguous.

    Only white space may differ. The text of the span is that of the document.

    Args:
        quote: The quoted text.
        text: A piece of the document.
        offset: Position of the piece in the document.
        document_id: The document.
    """
    parts = quote.split()
    if not parts:
        return None, "the evidence is empty"
    pattern = re.compile(r"\s+".join(map(re.escape, parts)))
    matches = list(pattern.finditer(text))
    if len(matches) != 1:
        return (
            None,
            "the evidence occurs twice" if matches else "the evidence is not in the passage",
        )
    start, end = matches[0].span()
    return GoldSpan(document_id, offset + start, offset + end, text[start:end]), ""


def reject_near_duplicates(
    candidates: Sequence[Candidate],
    source: Analyzer,
    vectors: NDArray[np.float32] | None = None,
    *,
    alike: float = _ALIKE,
    near: float = _NEAR,
) -> list[Candidate]:
    """Reject later near-duplicates of accepted candidates, in order.

    Heading paths share most of their words, so only equal ones are duplicates. Questions with
    different numbers or codes ask for different things, even if they are similar.

    Args:
        candidates: Accepted and rejected ones; the rejected stay as they are.
        source: Cuts questions into words.
        vectors: Of the questions, shape (candidates, dimensions), if there is an embedder.
        alike: Share of common words (Jaccard) from which two questions are duplicates.
        near: Cosine from which they are.
    """
    unit = None
    if vectors is not None:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(lengths > 0, lengths, 1.0)
    checked: list[Candidate] = []
    accepted: dict[frozenset[str], list[tuple[frozenset[str], int]]] = {}
    for index, candidate in enumerate(candidates):
        tokens = [] if candidate.kind == "heading" else source.tokens(candidate.question)
        words = frozenset(tokens or [candidate.question.casefold()])
        others = accepted.setdefault(frozenset(filter(_DIGIT.search, words)), [])
        duplicate = any(len(words & w) >= alike * len(words | w) for w, _ in others)
        if not duplicate and others and unit is not None and candidate.kind != "heading":
            cosines = unit[[other for _, other in others]] @ unit[index]
            duplicate = bool((np.round(cosines, 6) >= near).any())
        if duplicate and not candidate.reason:
            candidate = candidate.rejected("near-duplicate of another question")
        if not candidate.reason:
            others.append((words, index))
        checked.append(candidate)
    return checked


_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)


class Vocabulary:
    """The number of chunks with each token.

    Args:
        source: Cuts text into tokens, as the keyword index does.
    """

    def __init__(self, source: Analyzer) -> None:
        self.source = source
        self.chunks = 0
        self._holding: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count a chunk."""
        self.chunks += 1
        self._holding.update(set(self.source.tokens(text)))

    def holding(self, token: str) -> int:
        """Return the number of chunks that hold a token."""
        return self._holding[token]

    def idf(self, token: str) -> float:
        """Return ``ln(1 + (N - n + 0.5) / (n + 0.5))``, BM25's weight of a token in Lucene."""
        count = self._holding[token]
        return math.log1p((self.chunks - count + 0.5) / (count + 0.5))

    def rare(self, text: str) -> Mapping[str, float]:
        """Return the rare tokens of a text with their idf: those at or above its mean."""
        idf = {token: self.idf(token) for token in dict.fromkeys(self.source.tokens(text))}
        mean = sum(idf.values()) / max(1, len(idf))
        return {token: value for token, value in idf.items() if round(value - mean, 9) >= 0}

    def leak(self, question: str, chunk: str) -> float | None:
        """Return the share of a chunk's rare vocabulary that a question repeats, weighted by idf.

        0 if it repeats none (retrieval by meaning alone); None if the chunk has no rare word.
        """
        rare = self.rare(chunk)
        total = sum(rare.values())
        if not total:
            return None
        question_tokens = set(self.source.tokens(question))
        return round(sum(idf for token, idf in rare.items() if token in question_tokens) / total, 4)


class Survey:
    """Statistics from one pass over a collection: words, chunks, and repeated text.

    Args:
        source: Cuts text into tokens, as the keyword index does.
    """

    def __init__(self, source: Analyzer) -> None:
        self.vocabulary = Vocabulary(source)
        self.chunks: dict[str, tuple[Span, ...]] = {}
        self._texts: Counter[str] = Counter()
        self._sentences: Counter[str] = Counter()

    def add(self, document_id: str, text: str, chunks: Sequence[Span]) -> None:
        """Add a chunked document."""
        self.chunks[document_id] = tuple(chunks)
        for span in chunks:
            piece = text[span.start : span.end]
            self.vocabulary.add(piece)
            self._texts[_text_key(piece)] += 1
        for sentence in sentences_of(text):
            self._sentences[_text_key(text[sentence.start : sentence.end])] += 1

    def repeated(self, sentence: str) -> bool:
        """True if a sentence occurs more than once in the collection."""
        return self._sentences[_text_key(sentence)] > 1

    def usable(self, document_id: str, text: str) -> tuple[Span, ...]:
        """Return the chunks of a document that are neither boilerplate nor duplicates.

        In boilerplate, half of the sentences, by length, also occur elsewhere.
        """
        sentences = sentences_of(text)
        return tuple(
            span
            for span in self.chunks[document_id]
            if self._texts[_text_key(text[span.start : span.end])] == 1
            and not self.boilerplate(text, span, sentences)
        )

    def boilerplate(self, text: str, span: Span, sentences: Sequence[Span]) -> bool:
        """True if half of a text, by length, consists of sentences that also occur elsewhere."""
        inside = [
            sentence
            for sentence in sentences
            if span.start <= sentence.start and sentence.end <= span.end
        ]
        repeated_length = sum(
            sentence.length
            for sentence in inside
            if self.repeated(text[sentence.start : sentence.end])
        )
        return 2 * repeated_length >= max(1, sum(sentence.length for sentence in inside))

    def chunk_of(self, document_id: str, start: int, end: int) -> Span | None:
        """Return the chunk with the largest part of a span, the first of equals; None if there is
        none.
        """
        span = Span(start, end)
        best = max(self.chunks.get(document_id, ()), key=span.overlap, default=None)
        return best if best is not None and span.overlap(best) else None


@lru_cache(maxsize=32)
def sentences_of(text: str) -> tuple[Span, ...]:
    """Return the spans of the sentences of a text; the last few texts are cached."""
    return tuple(sentence_spans(text))


def find_fences(text: str) -> tuple[Span, ...]:
    """Return the spans of fenced code blocks; an unclosed one extends to the end."""
    return tuple(Span(*block.span()) for block in _FENCED.finditer(text))


def _text_key(text: str) -> str:
    return text_hash(case_folded(text))


FEW_DOCUMENTS = 5
"""Below this number of documents, splits are parts of a document's text."""

_RUNS = 5


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A generated testset and its statistics.

    Attributes:
        rows: Rows in document order; one per question and persona.
        made: Questions by kind (and level, if a model wrote them): ``cloze``, ``model fact``.
        rejected: Reason -> number of candidates.
        leaks: Leak of each question that has one, ascending.
        notes: Notes for the user.
    """

    rows: tuple[Row, ...]
    made: Mapping[str, int]
    rejected: Mapping[str, int]
    leaks: tuple[float, ...]
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> int:
        """Number of questions; each has a row per persona."""
        return sum(self.made.values())

    def leak_quartiles(self) -> tuple[float, ...]:
        """Minimum, quartiles and maximum of the leaks; empty without leaks."""
        if not self.leaks:
            return ()
        last = len(self.leaks) - 1
        return tuple(self.leaks[round(last * part / 4)] for part in range(5))


def synthesis_of(
    candidates: Sequence[Candidate],
    wanted: int,
    survey: Survey,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Synthesis:
    """Make the testset of the first accepted candidates.

    Rows hold metadata ``kind``, ``generated``, ``level`` (from a model), ``leak`` and ``split``:
    about two of five rows, of whole documents, are for confirmation; with fewer than five documents
    these are parts of their text, with a note.

    Args:
        candidates: In order of preference, including rejected ones.
        wanted: Most questions.
        survey: Of the collection.
        texts: Text of each document with evidence of a candidate.
        notes: To begin with.
    """
    accepted = [candidate for candidate in candidates if not candidate.reason]
    key = attrgetter("span.document_id", "span.start", "span.end", "question")
    chosen = sorted(accepted[:wanted], key=key)
    counts = Counter(candidate.reason for candidate in candidates if candidate.reason)
    rejected = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    leaks = [leak_of(c.question, c.span, survey, texts) for c in chosen]
    all_notes = list(notes)
    if len(chosen) < wanted:
        documents = count_noun(len(survey.chunks), "document")
        note = f"{len(chosen)} of {wanted} questions: {documents} gave no more valid ones"
        for reason in list(rejected)[:1]:
            note += f"; the most common reason for rejection was {reason!r} ({rejected[reason]})"
        all_notes.append(note)
    if chosen and len({candidate.span.document_id for candidate in chosen}) < FEW_DOCUMENTS:
        all_notes.append(
            f"fewer than {FEW_DOCUMENTS} documents: the splits are parts of their text, so "
            "adjacent questions are in different splits"
        )
    made = Counter(" ".join(filter(None, (c.kind, c.level))) for c in chosen)
    return Synthesis(
        tuple(
            row
            for candidate, leak, split in zip(chosen, leaks, plan_splits(chosen), strict=True)
            for row in _candidate_rows(candidate, leak, split)
        ),
        dict(sorted(made.items())),
        rejected,
        tuple(sorted(leak for leak in leaks if leak is not None)),
        tuple(all_notes),
    )


def plan_splits(chosen: Sequence[Candidate]) -> list[str]:
    """Assign ``tune`` or ``confirm`` to each question, by whole documents in hash order.

    With fewer than five documents, each is cut into five parts with equal numbers of questions, two
    of them for confirmation. Questions must be sorted by document and position.
    """
    by_document = Counter(candidate.span.document_id for candidate in chosen)
    if len(by_document) >= FEW_DOCUMENTS:
        wanted = CONFIRM_SHARE * len(chosen)
        confirm: set[str] = set()
        rows = 0
        for name in sorted(by_document, key=lambda name: text_hash(f"split\x00{name}")):
            with_document = rows + by_document[name]
            if abs(with_document - wanted) <= abs(rows - wanted):
                rows = with_document
                confirm.add(name)
        return ["confirm" if c.span.document_id in confirm else "tune" for c in chosen]
    splits = []
    so_far: Counter[str] = Counter()
    for candidate in chosen:
        name = candidate.span.document_id
        run = so_far[name] * _RUNS // by_document[name]
        so_far[name] += 1
        order = sorted(range(_RUNS), key=lambda n: text_hash(f"split\x00{name}\x00{n}"))
        splits.append("confirm" if run in order[: round(_RUNS * CONFIRM_SHARE)] else "tune")
    return splits


def leak_of(
    question: str, span: GoldSpan, survey: Survey, texts: Mapping[str, str]
) -> float | None:
    """Return the leak of a question from the chunk that holds its gold; None if there is none."""
    chunk = survey.chunk_of(span.document_id, span.start, span.end)
    if chunk is None or span.document_id not in texts:
        return None
    return survey.vocabulary.leak(question, texts[span.document_id][chunk.start : chunk.end])


def _candidate_rows(candidate: Candidate, leak: float | None, split: str) -> list[Row]:
    span = candidate.span
    place = f"{candidate.kind}\x00{span.document_id}\x00{span.start}\x00{candidate.question}"
    name = f"{candidate.kind}-{text_hash(place)[:10]}"
    metadata: dict[str, MetaValue] = {"kind": candidate.kind, "generated": True, "split": split}
    if candidate.level:
        metadata["level"] = candidate.level
    if leak is not None:
        metadata["leak"] = leak
    answers = candidate.answers or {"": candidate.answer}
    return [
        Row(
            id=f"{name}/{persona}" if persona else name,
            user_input=candidate.question,
            reference=answer,
            reference_contexts=(span.text,),
            reference_spans=(span,),
            persona_name=persona,
            metadata=metadata,
        )
        for persona, answer in answers.items()
    ]
