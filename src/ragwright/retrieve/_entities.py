"""Names, quoted titles and codes in passages, found without a model or a word list.

A name looks the same in every language with capital letters: adjacent capitalised words, perhaps
with a particle between them (*Treaty of Rome*, *Ludwig van Beethoven*). A sentence or a heading
begins with a capital too: a single word there counts as a name only if it is also one within a
sentence. German capitalises every noun; there the rarity of a name in the corpus decides. Scripts
without capitals still have codes and quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..core import Hit, late_pattern
from ..models import TokenSource, is_code

_SMALL = """
of the de la le les du des del della di da do dos das der den van von zu zum zur af av bin ibn al
el y & for
"""
_PARTICLES = frozenset(_SMALL.split())
"""Particles within a name; a name neither begins nor ends with one."""

_WORD = late_pattern(r"[^\W_][\w’'&./+-]*[\w+#]|[^\W_]|&")
_QUOTED = late_pattern(
    r"[“«„\"]\s?([^“”«»„\"\n]{2,80}?)\s?[”»“\"]|''([^'\n]{2,80})''|`([^`\n]{2,60})`"
)
_SENTENCE = late_pattern(r"(?<=[.!?…。！？])[\s\"”»)]+(?=\S)|\n+")
_BEGINS = ":：|•"
_LONGEST = 8
"""Most words of a name; longer runs are headings in capitals."""

_READ = 6_000
"""Characters of a passage that are searched for names."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A name to follow: where it was found, and its score (higher is better)."""

    name: str
    weight: float
    hits: tuple[int, ...] = ()


def named(
    text: str, analyzer: TokenSource, inside: frozenset[str] | None = None
) -> Iterator[tuple[str, int]]:
    """Names, quoted texts and codes of a text, as written, with the number of their sentence.

    Function words alone (*The*, *In*) are not a name; at the start of a name they are left out
    (*The Beatles* gives *Beatles*). A single word that begins a sentence is a name if it is in
    ``inside``, the capitalised words within sentences (of this text if None). A name may appear
    several times.
    """
    inside = within([text]) if inside is None else inside
    for number, sentence in enumerate(_SENTENCE.split(text[:_READ])):
        for match in _QUOTED.finditer(sentence):
            yield next(g for g in match.groups() if g).strip(" ,.;"), number
        for run, begins in _name_runs(sentence):
            for part in _names_in_run(run, inside) if begins else (run,):
                name = _trimmed_name(part, analyzer)
                if name:
                    yield name, number


def within(texts: Iterable[str]) -> frozenset[str]:
    """The capitalised words within sentences of the texts, not at their beginning."""
    names: set[str] = set()
    for text in texts:
        for sentence in _SENTENCE.split(text[:_READ]):
            for run, begins in _name_runs(sentence):
                if begins:
                    # *VLV_e215 Safety …*: the code is a label, the sentence begins behind it.
                    run = run[2:] if _is_label(run[0]) else run[1:]
                names.update(run)
    return frozenset(names)


def _names_in_run(run: list[str], inside: frozenset[str]) -> Iterator[list[str]]:
    """The names in a run that begins a sentence or a heading.

    Codes there are labels: words next to one are not part of its name.
    """
    codes = [at for at, word in enumerate(run) if _is_label(word)]
    starts = sorted({0, *codes, *(at + 1 for at in codes)})
    for start, end in zip(starts, [*starts[1:], len(run)], strict=True):
        part = run[start:end]
        name_words = [word for word in part if word not in _PARTICLES]
        if len(name_words) > 1 or (
            name_words and (_is_label(name_words[0]) or _is_marked(name_words[0], inside))
        ):
            yield part


def _is_marked(word: str, inside: frozenset[str]) -> bool:
    """True if a word is a name in any position: by its capitals, or as found elsewhere."""
    return word in inside or any(letter.isupper() for letter in word[1:])


def leads(question: str, hits: Sequence[Hit], analyzer: TokenSource, most: int) -> tuple[Lead, ...]:
    """The names worth following: in the hits, but not in the question.

    A name counts by the rank of the passages that hold it, more where its sentence shares words
    with the question, and more where it has several words. The caller, which knows the corpus,
    handles rarity.

    Args:
        question: The question.
        hits: Passages found so far, best first.
        analyzer: Normalises words for comparison.
        most: Names to return.

    Returns:
        Best first; equal weights in the order of reading.
    """
    question_tokens = frozenset(analyzer.tokens(question))
    weights: dict[tuple[str, ...], float] = {}
    names: dict[tuple[str, ...], str] = {}
    places: dict[tuple[str, ...], list[int]] = {}
    inside = within(hit.text for hit in hits)
    for place, hit in enumerate(hits):
        title_tokens = frozenset(analyzer.tokens(hit.title))
        sentences = _SENTENCE.split(hit.text[:_READ])
        shares = [len(question_tokens.intersection(analyzer.tokens(s))) for s in sentences]
        best: dict[tuple[str, ...], float] = {}
        for name, number in named(hit.text, analyzer, inside):
            key = tuple(analyzer.tokens(name))
            if not key or question_tokens.issuperset(key) or title_tokens.issuperset(key):
                continue
            share = shares[number] if number < len(shares) else 0
            weight = (1 + share) * (1.5 if len(key) > 1 else 1.0) / (1 + place)
            best[key] = max(best.get(key, 0.0), weight)
            names.setdefault(key, name)
        for key, weight in best.items():
            weights[key] = weights.get(key, 0.0) + weight
            places.setdefault(key, []).append(place)
    order = sorted(weights, key=lambda key: -round(weights[key], 6))
    return tuple(
        Lead(names[key], round(weights[key], 6), tuple(places[key])) for key in order[:most]
    )


def uncovered(question: str, texts: Sequence[str], analyzer: TokenSource) -> str:
    """The words of the question that are in none of the texts, in order."""
    covered = {token for text in texts for token in analyzer.tokens(text)}
    rest: list[str] = []
    for match in _WORD.finditer(question):
        tokens = analyzer.tokens(match[0])
        if tokens and not covered.issuperset(tokens) and match[0] not in rest:
            rest.append(match[0])
    return " ".join(rest)


def _name_runs(sentence: str) -> Iterator[tuple[list[str], bool]]:
    """Runs of capitalised words with particles between them, and codes.

    Each with whether it begins a sentence, a table row or the text after a colon.
    """
    run: list[str] = []
    end, first, begins = 0, True, True
    for match in _WORD.finditer(sentence):
        word = match[0]
        between = sentence[end : match.start()]
        if run and between.strip(" "):
            yield run, begins
            run = []
        if not run:
            begins = first or any(mark in between for mark in _BEGINS)
        end, first = match.end(), False
        inside = bool(run) and (word.isdigit() or word in _PARTICLES)
        if inside or word[0].isupper() or word[0].istitle() or _is_label(word):
            run.append(word)
        elif run:
            yield run, begins
            run = []
    if run:
        yield run, begins


def _trimmed_name(run: list[str], analyzer: TokenSource) -> str:
    """The name in a run: no particle or function word at its ends; empty where none is left."""
    first, last = 0, len(run)
    while first < last and (run[first] in _PARTICLES or not analyzer.tokens(run[first])):
        first += 1
    while last > first and (run[last - 1] in _PARTICLES or not analyzer.tokens(run[last - 1])):
        last -= 1
    words = run[first:last]
    if len(words) > _LONGEST or not any(len(w) > 1 and not w.isdigit() for w in words):
        return ""
    return " ".join(words).rstrip(".")


def _is_label(word: str) -> bool:
    """True for a code with digits: without them, mixed case is a name (*McDonald*)."""
    return is_code(word, written=True) and any(map(str.isdigit, word))
