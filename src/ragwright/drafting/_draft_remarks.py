"""What models say around the texts they were asked for: openings, closings, refusals, quotes."""

from __future__ import annotations

import re

_PREAMBLE = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|okay|ok|great|here(?:['’]s| is| are)?|below|"
    r"as requested|these are|the following|i(?:['’]ve| have) (?:written|drafted|prepared)|"
    r"i(?:['’]d| would) be happy|got it|no problem|happy to|voici|hier (?:sind|ist)|"
    r"aqu[ií] (?:tienes|est[áa]n)|claro|bien sûr|natürlich|ecco)\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?:texts?|messages?|drafts?|options?|versions?|variants?|examples?|ideas?|sms|tweets?|"
    r"posts?|numbered list)\b",
    re.IGNORECASE,
)
_INTERJECTION = re.compile(
    r"^\W*(?:sure(?: thing)?|certainly|of course|absolutely|got it|no problem)\W*$", re.IGNORECASE
)
# About the work itself: a text to a reader may also say "let me know", "if you need a ride".
_CLOSING = re.compile(
    r"^\W*(?:(?:please )?let me know (?:if|whether|which|how)\b.*\b(?:change|adjust|revis|tweak|"
    r"edit|version|option|more|another|different|texts?|messages?|tone|fits?|prefer|else|these)|"
    r"feel free to (?:adjust|edit|modify|use|change|customi|tweak|ask|let|reach)|"
    r"i hope (?:this|these|it) (?:help|work|meet|fit|suit|is what|are what)|"
    r"hope (?:this|these|it) helps?|would you like (?:me|any|more|another|changes)|"
    r"do you want me to|is there anything else|"
    r"if you(?:['’]d| would) like (?:me|any|more|another|changes|different|to adjust)|"
    r"(?:please )?note(?: that|:)?.*\b(?:texts?|messages?|characters?|drafts?|versions?|"
    r"placeholders?|dates?|links?)\b|each (?:of these|text|message|option|draft)\b|"
    r"all (?:of )?(?:these |the )?(?:texts|messages|drafts|options|are (?:short|under|below))\b|"
    r"these (?:texts|messages|drafts|options|are (?:all )?(?:short|under|below))\b|"
    r"(?:total )?character counts?|total characters|"
    r"i(?:['’]ve| have) (?:kept|tried to keep|written (?:these|them|the)|aimed))",
    re.IGNORECASE | re.DOTALL,
)
_MAY_CLOSE = re.compile(
    r"^\W*(?:let me know|feel free|i hope|would you like|do you want|if you(?:['’]d| would)|"
    r"(?:please )?note\b|please let me|happy to)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"^\W*(?:i(?:['’]m| am) (?:very |really )?(?:sorry|unable|not able)|(?:i )?apologi[sz]e|"
    r"i (?:can(?:['’]t|not| not)|won['’]t|will not|must decline|(?:do not|don['’]t) feel)|"
    r"sorry,? (?:but )?i|as an ai|unfortunately,? i|my apologies|it would(?:n['’]t| not) be "
    r"appropriate|désolé|es tut mir leid|lo siento)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:can(?:['’]t|not| not)|unable|not able|won['’]t|will not|decline|not comfortable|"
    r"not appropriate|against|as an ai|ne peux|kann (?:ich )?(?:das |dabei )?nicht|no puedo)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s*(?:[(\[]\s*(?:~|about |approx\.? |character count:? |length:? )?\d+\s*"
    r"(?:characters?|chars?|words?)?(?:\s+(?:total|incl\w*|including)[^)\]]*)?\s*[)\]]|"
    r"[-–—|]\s*\d+\s*(?:characters?|chars?|words?))[.]?\s*$",
    re.IGNORECASE,
)
_A_COUNT = re.compile(r"characters?|chars?|words?", re.IGNORECASE)
_RULES_AROUND = re.compile(
    r"^(?:[ \t]*(?:-{3,}|\*{3,}|={3,}|_{3,})[ \t]*\n)+|"
    r"(?:\n[ \t]*(?:-{3,}|\*{3,}|={3,}|_{3,})[ \t]*)+$"
)
_QUOTES = {
    '"': '"',
    "“": "”",
    "„": "“",
    "«": "»",
    "»": "«",
    "‘": "’",
    "'": "'",
    "`": "`",
    "「": "」",
    "『": "』",
}
_LONGEST_PREAMBLE = 300
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


def is_preamble(text: str) -> bool:
    """True for what a model says before its texts: a line that announces, or ends in a colon."""
    bare = text.strip().strip("*_#`- \n")
    if not bare:
        return True
    if len(bare) > _LONGEST_PREAMBLE or bare.count("\n\n") > 1:
        return False
    return bool(_PREAMBLE.match(bare)) or bare.endswith((":", "："))


def without_preamble(text: str) -> tuple[str, bool]:
    """A text without a first line that surely announces it, and whether one may still do so."""
    first, _, rest = text.partition("\n")
    if not rest.strip() or len(first) > _LONGEST_PREAMBLE:
        return text, False
    if _INTERJECTION.match(first) and not rest[: rest.find("\n") + 1].strip():
        return without_preamble(rest.strip())
    if not _PREAMBLE.match(first):
        return text, False
    colon = first.rstrip(" *_").endswith((":", "："))
    if colon and _ABOUT.search(first):
        return rest.strip(), False
    return text, colon


def without_closing(text: str) -> tuple[str, bool]:
    """A text without what surely is a remark at its end, and whether its last paragraph may be."""
    paragraphs = _PARAGRAPHS.split(text.rstrip())
    while len(paragraphs) > 1 and is_closing(paragraphs[-1]):
        paragraphs.pop()
    unsure = len(paragraphs) > 1 and bool(_MAY_CLOSE.match(paragraphs[-1]))
    return "\n\n".join(paragraphs), unsure


def is_closing(text: str) -> bool:
    """True for what a model says after its texts: every paragraph a remark, a rule, or blank."""
    return all(
        _CLOSING.match(part) or _is_rule(part) or not part.strip()
        for part in _PARAGRAPHS.split(text)
    )


def _is_rule(text: str) -> bool:
    return bool(text.strip()) and not text.strip().strip("-*=_ ")


def is_refusal(text: str) -> bool:
    """True where a reply says that the model will not write."""
    return bool(_REFUSAL.match(text)) and bool(_REFUSES.search(text[:400]))


def bare_text(text: str) -> str:
    """A text without what stands around it: quotes, emphasis, quote marks, a count of characters.

    A quote or an emphasis that is part of the text stays.
    """
    found = _RULES_AROUND.sub("", text.strip()).strip()
    for _ in range(4):
        before = found
        counted = _COUNTED.search(found)
        if counted and counted.start() and _A_COUNT.search(counted[0]):
            found = found[: counted.start()].rstrip()
        found = _unquoted(_unemphasised(_unblocked(found))).strip()
        if found == before:
            break
    return "\n".join(line.rstrip() for line in found.split("\n"))


def _unblocked(text: str) -> str:
    lines = text.split("\n")
    if all(line.lstrip().startswith(">") or not line.strip() for line in lines) and text:
        return "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines)
    return text


def _unemphasised(text: str) -> str:
    for mark in ("**", "__", "*", "_"):
        inner = text[len(mark) : -len(mark)]
        if (
            text.startswith(mark)
            and text.endswith(mark)
            and len(text) > 2 * len(mark)
            and mark not in inner
            and inner.strip() == inner
        ):
            return inner
    return text


def _unquoted(text: str) -> str:
    closing = _QUOTES.get(text[:1], "")
    inner = text[1:-1]
    if len(text) < 3 or not closing or not text.endswith(closing):
        return text
    if text[0] == "'" and re.search(r"(?<!\w)'|'(?!\w)", inner):
        return text
    if text[0] != "'" and (closing in inner or text[0] in inner) and not _balanced(inner, text[0]):
        return text
    return inner


def _balanced(inner: str, opening: str) -> bool:
    """True where quotes within a quoted text are pairs of their own: the outer ones are around it.

    ``"a" and "b"`` is not: its first quote ends before its last one opens.
    """
    closing = _QUOTES[opening]
    if opening == closing:
        return False
    depth = 0
    for character in inner:
        depth += (character == opening) - (character == closing)
        if depth < 0:
            return False
    return depth == 0
