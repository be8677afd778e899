"""Candidates for a testset, and their checks without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...core import GoldSpan
from ...models import TokenSource, detect_language

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


_AFTER_OPENER = re.compile(
    r"^\W*(?:à|au|aux|en|sur|dans|lors|pendant|après|avant|depuis|dès|pour|vers|in|at|on|during|after"
    r"|before|since|by|from|for|until|im|am|nach|vor|seit)\b(?P<opener>[^,]*), "
    r"(?P<pronoun>il|elle|ils|elles|he|she|it|they|er|es)\b",
    re.IGNORECASE,
)


def context_fault(question: str, source: TokenSource) -> str:
    """Return the reason why a question cannot be understood by itself, empty if it can.

    Faults are a reference to "the document" or "the second paragraph", a continuation, a
    demonstrative, and a pronoun before two possible referents or directly after an opening phrase
    without a name ("In 1902, it …"). The rules cover English and French, and German roughly; a
    false alarm costs one question.
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
    opener = _AFTER_OPENER.match(open_text)
    if opener and not any(map(_is_proper_noun, opener["opener"].split())):
        return f"has a pronoun without a referent ({opener['pronoun']!r})"
    return ""


def _is_proper_noun(word: str) -> bool:
    """True for a capitalised word that is not a century in Roman numerals."""
    word = word.strip("«»\"“”'’()")
    return word[:1].isupper() and len(word) > 2 and not re.fullmatch(r"[IVXLCDM]+e?", word)


def language_fault(question: str, language: str) -> str:
    """Return the reason why a question is in the wrong language, empty if it is not, or unknown."""
    if not language:
        return ""
    detected = detect_language([question], least=3)
    return (
        "" if detected in ("auto", language) else f"is in {detected!r}, its source in {language!r}"
    )


def measure_held_share(answer: str, text: str, source: TokenSource) -> float:
    """Return the share of an answer's content words in a text, 0 to 1; 1 without content words."""
    answer_tokens = set(source.tokens(answer))
    return (
        len(answer_tokens.intersection(source.tokens(text))) / len(answer_tokens)
        if answer_tokens
        else 1.0
    )


def is_supported(answer: str, text: str, source: TokenSource) -> bool:
    """True if a text contains at least half of an answer's content words, and all its numbers."""
    digits = re.findall(r"\d+", answer)
    return measure_held_share(answer, text, source) >= _HELD and all(d in text for d in digits)


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
    source: TokenSource,
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
    checked: list[Candidate] = []
    words: dict[frozenset[str], list[frozenset[str]]] = {}
    rows: dict[frozenset[str], list[int]] = {}
    unit = None
    if vectors is not None:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(lengths > 0, lengths, 1.0)
    for index, candidate in enumerate(candidates):
        if candidate.reason:
            checked.append(candidate)
            continue
        heading = candidate.kind == "heading"
        tokens = [] if heading else source.tokens(candidate.question)
        question_words = frozenset(tokens) or frozenset([candidate.question.casefold()])
        codes = frozenset(word for word in question_words if _DIGIT.search(word))
        with_same_codes = words.get(codes, ())
        is_duplicate = any(
            len(question_words & words_of_other) >= alike * len(question_words | words_of_other)
            for words_of_other in with_same_codes
        )
        rows_with_codes = rows.get(codes, [])
        if not is_duplicate and unit is not None and rows_with_codes and not heading:
            is_duplicate = bool((np.round(unit[rows_with_codes] @ unit[index], 6) >= near).any())
        if is_duplicate:
            checked.append(candidate.rejected("near-duplicate of another question"))
            continue
        words.setdefault(codes, []).append(question_words)
        rows.setdefault(codes, []).append(index)
        checked.append(candidate)
    return checked
