"""Sentence spans: prose by its punctuation; tables, headings and code by lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core import Span, late_pattern

_SHORTENED = """
    a.d adj adm al alias anm apr approx apt art assn assoc aug av ave b.c bd bldg bros bzw ca
    cap capt cf ch chap cie cit cl co col comp corp d.h dec dept dipl dr e.g ed eds ee.uu eg eng
    env equiv esp est etc eq eqs evtl ex exc excl f.c.c feb fig figs fr ft g gal gen gov
    hist hon hr hrsg ibid id i.e ie inc incl ing insb int jan jg jr jul jun kap lat lbs lic lieut
    lt ltd m.a maj mag mar max me mgr min mio mlle mme mm mr mrs ms mt mw n.b nb no nos nov nr nrs
    num oct op orig p p.ex p.m a.m par pag pgs ph.d phil pl pp pr prof pt pts pub q.v ref refs reg
    rep resp rev s.a sc sec sect sen sep sept ser sgt sig sogen sp spp sr sra sres srta st ste stk
    str suppl surg tab techn tel tit tr u.a u.s u.s.a usw univ v viz vol vols vs z.b zt ud uds vd
    vds avv dott ecc sig.ra sigg blz bijv enz mevr dhr jhr
"""
_ABBREVIATIONS = frozenset(_SHORTENED.split())
"""Abbreviations whose full stop does not end a sentence, casefolded, without that stop."""

_CLOSING = "al jr sr inc ltd co corp a.m p.m u.s u.s.a b.c a.d"
_MAY_END = frozenset(_CLOSING.split())
"""Abbreviations that may also end a sentence; the next word decides."""

_STARTING = """
a an after although and as at but by during for he her his however i if in it its many most no
on one our she since so some that the their there these they this those to we when while with you
alors apres c'est cela ces cette dans elle elles en il ils la le les leur leurs mais nous on par
pour sa ses son un une vous das der die ein eine er es ich in sie wir el ella ellas ellos en la las
los un una yo il io lo gli una ele ela eles elas o os as uma de het een hij zij wij
"""
_STARTERS = frozenset(_STARTING.split())
"""Words that, with a capital, start a sentence rather than a name."""

_CLOSERS = "\"'”’»)\\]\uff09」』】》"
_STOP = late_pattern(
    rf"[.!?…]+(?:[{_CLOSERS}]|[ \u00a0\u202f](?=»)|[*_]+(?=[\s\[]|$))*(?:\[\d{{1,3}}\])*(?=\s|$)"
    rf"|[。！？｡؟।！？]+[{_CLOSERS}]*"
)
_LAST_WORD = late_pattern(r"[^\s(\[«\"“]*$")
_LONGEST_WORD = 64
"""Characters before a stop mark that are looked at for an abbreviation."""

_OPENERS = "\"'“‘«([{¿¡-–—*_ \u00a0\u202f"

_FENCE = late_pattern(r"\s*(?:```|~~~)")
_HEADING = late_pattern(r" {0,3}#{1,6}\s|\s*={2,}[^=].*={2,}\s*$")
_RULE = late_pattern(r"\s*(?:[-=_*~+]\s*){3,}$")
_TABLE = late_pattern(r"\s*\|.*|.*\S\s*\|\s*\S.*\|.*|.*\t.*\t.*|\s*\+(?:[-=]+\+)+\s*$")
_BULLET = late_pattern(
    r"\s*(?:>\s*)*(?:[-*•◦▪‣–—+]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)])\s+(?=\S)"
)
_LABEL = late_pattern(r"\s*(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)])+\s*$")


def sentence_spans(text: str, language: str = "") -> list[Span]:
    """Spans of sentences in order; they hold every character that is not white space.

    A heading, a table row, a line of code and a bullet start their own span. A line break in
    running prose ends nothing unless the line is short and the next starts like a sentence.

    Args:
        text: Any text; Markdown is recognised.
        language: ISO code; unused so far, since all languages share the rules.
    """
    spans: list[Span] = []
    for start, end, prose in _line_blocks(text):
        if prose:
            spans += _prose_sentences(text, start, end)
        else:
            spans += _trimmed_span(text, start, end)
    return spans


def _trimmed_span(text: str, start: int, end: int) -> list[Span]:
    """The span without white space at its ends, as a list of zero or one."""
    piece = text[start:end]
    indent = len(piece) - len(piece.lstrip())
    length = len(piece.strip())
    return [Span(start + indent, start + indent + length)] if length else []


def _line_blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, prose) of every block of lines; other blocks are single lines."""
    begin: int | None = None
    position = 0
    fenced = False
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        start, position = position, position + len(line)
        fence = "`" in line or "~" in line
        if fence and _FENCE.match(line):
            fenced = not fenced
            stands_alone = True
        else:
            stands_alone = fenced or _is_own_block(
                line, lines[number + 1] if number + 1 < len(lines) else ""
            )
        blank = not line.strip()
        if begin is not None and (
            stands_alone or blank or _BULLET.match(line) or _breaks_title(lines[number - 1], line)
        ):
            yield begin, start, True
            begin = None
        if stands_alone and not blank:
            yield start, position, False
        elif not blank and begin is None:
            begin = start
    if begin is not None:
        yield begin, position, True


def _is_own_block(line: str, after: str) -> bool:
    """True for a heading, a rule or a table row."""
    if ("|" in line or "\t" in line or "+" in line) and _TABLE.match(line):
        return True
    if ("#" in line or "=" in line) and _HEADING.match(line):
        return True
    return bool(_RULE.match(line)) or bool(after and len(line) < 120 and _is_setext_rule(after))


def _is_setext_rule(line: str) -> bool:
    stripped = line.strip()
    return (
        stripped[:1] in {"=", "-"}
        and len(stripped) > 2
        and (set(stripped) == {"="} or set(stripped) == {"-"})
    )


def _breaks_title(before: str, line: str) -> bool:
    """True if a line break looks like the end of a title or a label, not of a full line."""
    head, tail = before.strip(), line.lstrip()
    if not head or not tail or head[-1] in ".!?…,;-—–(" or len(head) > 60:
        return False
    if len(head) >= 0.6 * len(tail.rstrip()) or not (tail[0].isupper() or tail[0].isdigit()):
        return False
    return len(head) < 40 or head[-1] == ":" or not head[-1].islower()


def _prose_sentences(text: str, start: int, end: int) -> list[Span]:
    """Sentences of a block of prose."""
    spans: list[Span] = []
    begin = start
    for stop in _STOP.finditer(text, start, end):
        if stop.end() < end and _goes_on(text, begin, stop, end):
            continue
        spans += _trimmed_span(text, begin, stop.end())
        begin = stop.end()
    return spans + _trimmed_span(text, begin, end)


def _goes_on(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """True where a stop mark does not end the sentence."""
    mark = stop[0]
    if mark[0] in "。！？｡؟।":
        return False
    after = text[stop.end() : min(end, stop.end() + 24)].lstrip(_OPENERS + "\n\t")
    first = after[:1]
    if first == "»":
        return True
    if first.islower():
        return True
    if mark[0] != "." or mark.startswith(".."):
        return False
    # A search over a word takes the square of its length, and no abbreviation is longer.
    last = _LAST_WORD.search(text, max(begin, stop.start() - _LONGEST_WORD), stop.start())
    word = last[0] if last else ""
    folded = word.casefold().lstrip("*_'’-–—")
    if _LABEL.match(text[begin : stop.end()]):
        return True
    if len(mark) > 1:
        return False
    if len(word) == 1 and word.isalpha() and word.isupper():
        return True
    if folded in {"etc", "usw", "ecc", "enz"}:
        return not first.isupper()
    if folded in _MAY_END or re.fullmatch(r"[A-Z](?:\.-?[A-Z])+", word):
        following = re.match(r"[\w'’]*", after)
        return not (first.isupper() and following and following[0].casefold() in _STARTERS)
    return folded in _ABBREVIATIONS
