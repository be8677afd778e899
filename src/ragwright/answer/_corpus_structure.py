"""Lists read from the structure of documents, without a model: who speaks, what a column holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core import Hit
from ..models import TokenSource, words
from ._corpus_read import Item
from ._forms import cast_lines, speaker_lines

_PEOPLE = re.compile(
    r"^(?:contributors?|speakers?|participants?|characters?|debaters?|cast|roles?|personnages?"
    r"|acteurs?|rôles?|figuren|personen|rollen|papeles|intervenante?s?"
    r"|contributeurs?|contributrices?|orateurs?|oratrices?|participante?s?|sprecher(?:innen|n)?"
    r"|redner(?:innen|n)?|teilnehmer(?:innen|n)?|personajes|oradores|participantes)$"
)
_CAST = re.compile(
    r"^(?:characters?|cast|roles?|personnages?|acteurs?|rôles?|figuren|personen|rollen|personajes"
    r"|papeles)$"
)
"""People of a play: those that its list of the cast names come first."""
_PLACES = ("the cast list", "speaker lines")
_SPEAKING = re.compile(
    r"\b(?:speaks?|spoke|t(?:ake|akes|ook) part|participate[sd]?|contribute[sd]?|parlent?|parlé"
    r"|intervien(?:t|nent)|participent?|participé|pren(?:d|nent) la parole)\b"
)
"""Verbs that ask for speakers without naming them: "Who took part in the debate?"."""
_SECTIONS = re.compile(
    r"^(?:sections?|chapters?|headings?|chapitres?|titres?|abschnitte?|kapitel|secciones|capítulos)$"
)
_ASKING = re.compile(
    r"(?:a|all|altogether|an|and|any|are|asked|at|been|by|can|chapter|collection|complete|during"
    r"|everybody|everyone"
    r"|corpus|count|debate|dialogue|discussion|document|documents|each|enumerate|every|file"
    r"|files|find|for|full|give|have|how|in|is|it|its|list|made|many|me|mentioned|name|named"
    r"|of|on|our|out|overall|part|people|persons|play|please|show|speak|spoke|take|tell|text"
    r"|texts|that|the|their|them|there|these|this|to|took|total|transcript|was|were|what"
    r"|which|who|whole|whose|you|your|appear|appears|different|meeting|session|hearing"
    r"|combien|dans|de|des|dresse|débat|donne|du|en|ensemble|est|faire|interviennent|la|le"
    r"|a-t-il|a-t-elle|les|liste|lister|montre|nomme|nomment|nous|ont|parlent|pièce|parole|prennent|qu|quel"
    r"|quelle|quelles|quels|qui|réunion|sont|séance|texte|textes|tous|tout|toute|toutes|un"
    r"|une|y|il|cités|nommés|alle|aller|auf|das|debatte|dem|den|der|die|ein|eine|es|gesamt"
    r"|gib|im|insgesamt|mir|nenne|sind|von|welche|wer|wie|viele|zeige|zähle|cuales|cuáles"
    r"|cuantos|cuántos|del|el|hay|las|lista|los|quienes|quiénes|son|texto|todas|todos)"
)
"""Words of a question that ask, or name the documents as a whole: they add no condition."""
_PEOPLE_FIELDS = re.compile(
    r"(?:speaker|speakers|author|authors|contributor|contributors|participant|orateur"
    r"|auteur|intervenant|sprecher|autor|orador)"
)
_ELIDED = re.compile(r"^(?:[cdjlmnst]|qu)'(?=\w)")
_LEAST_NAMES = 2
_SPOKEN = 0.4
"""Share of a document's paragraphs that begin with a speaker where it is a transcript."""

_LONGEST_VALUE = 80
_MOST_VALUES = 2_000


@dataclass(frozen=True, slots=True)
class Members:
    """Members of a list, as structure shows them.

    Attributes:
        place: Where they were read.
        items: The members.
        part: In how many of how many documents there is such a place; None where in all.
        left_out: Values that are too long or too many to be listed.
    """

    place: str
    items: tuple[Item, ...]
    part: tuple[int, int] | None = None
    left_out: int = 0


def _folded_words(text: str) -> list[str]:
    """Words in lower case, without an elided article (*l'avare*)."""
    parts = (word.casefold().replace("’", "'") for word in words(text))
    return [_ELIDED.sub("", part) for part in parts]


class Structure:
    """Collects structure that answers the question, from chunks in document order.

    Args:
        question: As asked; see :attr:`asks` for what can be answered.
        analyzer: Compares the words of the question with names of fields and columns.
    """

    def __init__(self, question: str, analyzer: TokenSource) -> None:
        folded = " ".join(_folded_words(question))
        stripped = _SPEAKING.sub(" ", folded)
        self._words = [word for word in stripped.split() if not _ASKING.fullmatch(word)]
        if stripped != folded and not any(map(_PEOPLE.match, self._words)):
            self._words.insert(0, "speakers")
        self._analyzer = analyzer
        self._spots: dict[str, dict[str, list[tuple[Hit, int, int]]]] = {}
        self._texts: dict[str, dict[str, str]] = {}
        self._header: tuple[str, tuple[str, ...]] = ("", ())
        self._headed: dict[str, set[str]] = {}
        self._blocks: dict[str, list[int]] = {}
        self._left_out: dict[str, int] = {}

    @property
    def asks(self) -> bool:
        """True where the question names a kind of thing, and hardly more."""
        return 0 < len(self._words) <= 3

    def add(self, hits: Sequence[Hit]) -> None:
        """Read further chunks."""
        for hit in hits:
            heading_words = self._headed.setdefault(hit.document_id, set())
            for heading in hit.headings:
                heading_words.update(_folded_words(heading))
                self._put_value("headings", heading, hit, hit.start, hit.end)
            heading_words.update(_folded_words(hit.title))
            blocks = self._blocks.setdefault(hit.document_id, [0, 0])
            blocks[0] += sum(
                bool(part.strip()) and not part.lstrip().startswith("#")
                for part in hit.text.split("\n\n")
            )
            for line in speaker_lines(hit.text):
                blocks[1] += 1
                self._put_value(
                    "speaker lines", line.name, hit, hit.start + line.start, hit.start + line.end
                )
            for line in cast_lines(hit):
                self._put_value("the cast list", line.name, hit, line.start, line.end)
            for field, value in hit.metadata.items():
                values = value if isinstance(value, tuple) else (value,)
                for text in values:
                    if isinstance(text, str) and text.strip():
                        self._put_value(f"the metadata {field}", text, hit, hit.start, hit.end)
            self._read_table(hit)

    def items(self) -> Members | None:
        """The list's members and the structure that holds them; None where no structure answers.

        The question may hold one kind of thing and, where people are asked for, words of titles and
        headings; any other word is a condition that structure cannot check.
        """
        self._drop_prose()
        for at, word in enumerate(self._words):
            rest = [*self._words[:at], *self._words[at + 1 :]]
            among = {
                name
                for name, heading_words in self._headed.items()
                if heading_words.issuperset(rest)
            }
            if rest and not (among and _PEOPLE.match(word)):
                continue
            for place in self._places_of(word):
                spots_by_key = {
                    key: spots_left
                    for key, spots in self._spots.get(place, {}).items()
                    if (spots_left := [spot for spot in spots if spot[0].document_id in among])
                }
                if len(spots_by_key) >= _LEAST_NAMES:
                    return self._members_of(place, spots_by_key, len(among))
        return None

    def _members_of(
        self, place: str, spots_by_key: dict[str, list[tuple[Hit, int, int]]], among: int
    ) -> Members:
        texts = self._texts[place]
        items = tuple(Item(texts[key], tuple(spots)) for key, spots in spots_by_key.items())
        holding = {hit.document_id for spots in spots_by_key.values() for hit, _, _ in spots}
        part = (len(holding), among) if len(holding) < among else None
        return Members(place, items, part, self._left_out.get(place, 0))

    def _drop_prose(self) -> None:
        """Drop names from documents whose paragraphs mostly begin without one: no transcripts."""
        by_speaker = self._spots.get("speaker lines", {})
        for key, places in list(by_speaker.items()):
            transcript_spots = [spot for spot in places if self._is_transcript(spot[0].document_id)]
            if transcript_spots:
                by_speaker[key] = transcript_spots
            else:
                del by_speaker[key]

    def _is_transcript(self, document: str) -> bool:
        blocks, names = self._blocks[document]
        return names >= _SPOKEN * blocks

    def _places_of(self, word: str) -> Iterator[str]:
        """Yield the structures that hold the things a word names, the likeliest first."""
        people = bool(_PEOPLE.match(word))
        tokens = set(self._analyzer.tokens(word))
        for place in self._spots:
            name = place.partition(" ")[2].partition(" ")[2] if place.startswith("the ") else ""
            if tokens and tokens == set(self._analyzer.tokens(name.replace("_", " "))):
                yield place
        if people:
            yield from _PLACES if _CAST.match(word) else reversed(_PLACES)
            for place in self._spots:
                if _PEOPLE_FIELDS.fullmatch(place.split(" ", 2)[-1].casefold()):
                    yield place
        if _SECTIONS.match(word):
            yield "headings"

    def _read_table(self, hit: Hit) -> None:
        """Cells of pipe tables, by the names of their columns; a cut table keeps its header."""
        at = hit.start
        before: tuple[str, ...] = ()
        for line in hit.text.splitlines(keepends=True):
            start, at = at, at + len(line)
            text = line.strip()
            if not (text.startswith("|") and text.endswith("|") and len(text) > 2):
                before = ()
                continue
            cells = tuple(cell.strip() for cell in text[1:-1].split("|"))
            if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                self._header = (hit.document_id, before)
                continue
            document, names = self._header
            before = cells
            if document == hit.document_id and len(names) == len(cells) and cells != names:
                for name, cell in zip(names, cells, strict=True):
                    if name and cell:
                        place = f"the column {name}"
                        self._put_value(place, cell, hit, start, start + len(line.rstrip()))

    def _put_value(self, place: str, text: str, hit: Hit, start: int, end: int) -> None:
        flat = " ".join(text.split())
        by_value = self._spots.setdefault(place, {})
        key = flat.casefold()
        if len(flat) > _LONGEST_VALUE or (key not in by_value and len(by_value) >= _MOST_VALUES):
            self._left_out[place] = self._left_out.get(place, 0) + 1
            return
        self._texts.setdefault(place, {}).setdefault(key, flat)
        spots = by_value.setdefault(key, [])
        if all(
            (hit.document_id, start) != (other_hit.document_id, at) for other_hit, at, _ in spots
        ):
            spots.append((hit, start, end))
