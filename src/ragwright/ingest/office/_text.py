"""Text of Word paragraphs: raised runs, symbols, tick boxes, readings, equations as LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._extract import TextBuilder
from .._normalise import Raised, join_raised

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
ALTERNATIVE, CHOICE, FALLBACK = (
    f"{{http://schemas.openxmlformats.org/markup-compatibility/2006}}{name}"
    for name in ("AlternateContent", "Choice", "Fallback")
)
BOX = f"{W}txbxContent"
_SKIPPED = frozenset({BOX, FALLBACK, *(f"{W}{name}" for name in ("pPr", "rPr", "del", "moveFrom"))})
_FIXED = {
    f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-",
}  # fmt: skip
_SYMBOL = dict(
    zip(
        range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True
    )
)  # fmt: skip
_SYMBOL |= dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_SYMBOL |= {place: chr(place) for place in (*range(0x20, 0x22), *range(0x28, 0x40), 0x5B, 0x5D)}
_SYMBOL |= {
    0x22: "∀", 0x24: "∃", 0x25: "%", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥", 0x7E: "∼",
    0xA2: "′", 0xA3: "≤", 0xA5: "∞", 0xAB: "↔", 0xAC: "←", 0xAD: "↑", 0xAE: "→", 0xAF: "↓",
    0xB0: "°", 0xB1: "±", 0xB2: "″", 0xB3: "≥", 0xB4: "×", 0xB5: "∝", 0xB6: "∂", 0xB7: "•",
    0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅", 0xC7: "∩",
    0xC8: "∪", 0xCC: "⊂", 0xCE: "∈", 0xCF: "∉", 0xD0: "∠", 0xD1: "∇", 0xD2: "®", 0xD3: "©",
    0xD4: "™", 0xD5: "∏", 0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xD9: "∧", 0xDA: "∨", 0xDB: "⇔",
    0xDC: "⇐", 0xDE: "⇒", 0xE5: "∑", 0xF2: "∫",
}  # fmt: skip
_SYMBOLS = {
    "symbol": _SYMBOL,
    "wingdings": {
        0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑",
        0x72: "❒", 0x76: "❖", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑",
        0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
        **{0x80 + n: sign for n, sign in enumerate("⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿")},
    },
    "wingdings 2": {
        0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐",
    },
    "webdings": {0x61: "✓", 0x63: "☐", 0x67: "■", 0x72: "✗"},
}  # fmt: skip


def read_whole_number(value: str | None, default: int) -> int:
    """Return the whole number that an attribute holds."""
    return int(value) if value and value.isdecimal() else default


def read_raise(properties: Any) -> int | None:
    """Return 1 if a run's properties raise it, -1 if they lower it; None if they do not say."""
    align = properties.find(f"{W}vertAlign") if properties is not None else None
    if align is None:
        return None
    return {"superscript": 1, "subscript": -1}.get(align.get(f"{W}val") or "", 0)


class OfficeText:
    """Reads paragraphs; what it cannot read is counted by the builder.

    Args:
        builder: Counts symbols without letters and hidden text.
        style: Name of a character style -> 1 if it raises text, -1 if it lowers it, else 0.
    """

    def __init__(self, builder: TextBuilder, style: Callable[[str], int]) -> None:
        self._builder = builder
        self._style = style

    def of(self, paragraph: Any) -> str:
        """Return a paragraph's text with insertions, without deletions and text boxes."""
        pieces: list[Raised] = []
        self._pieces(paragraph, pieces, 0, "")
        return join_raised(pieces)

    def _pieces(self, element: Any, pieces: list[Raised], height: int, font: str) -> None:
        for child in element:
            tag = child.tag
            if tag == f"{W}t":
                pieces.append((self._letters(child.text or "", font), height))
            elif tag in _FIXED:
                pieces.append((_FIXED[tag], height))
            elif tag == f"{W}r":
                self._run(child, pieces)
            elif tag == MATH:
                pieces.append((latex(child), 0))
            elif tag == f"{W}sym":
                place = int(child.get(f"{W}char") or "0", 16)
                pieces.append((self._symbol(child.get(f"{W}font") or "", place), height))
            elif tag == f"{W}ruby":
                base, reading = (child.find(f"{W}{name}") for name in ("rubyBase", "rt"))
                over = self.of(reading).strip() if reading is not None else ""
                pieces.append((self.of(base) if base is not None else "", height))
                pieces.append((f"({over})" if over else "", height))
            elif tag == f"{W}ffData":
                pieces.append((_form_field(child), height))
            elif tag not in _SKIPPED:
                self._pieces(child, pieces, height, font)

    def _run(self, run: Any, pieces: list[Raised]) -> None:
        properties = run.find(f"{W}rPr")
        height, font = 0, ""
        if properties is not None:
            if _on(properties.find(f"{W}vanish")):
                if run.find(f"{W}t") is not None:
                    self._builder.miss("hidden text", "left out", "unhide it in Word if it counts")
                return
            fonts, style = properties.find(f"{W}rFonts"), properties.find(f"{W}rStyle")
            font = (fonts.get(f"{W}ascii") or "") if fonts is not None else ""
            own = read_raise(properties)
            named = style.get(f"{W}val") or "" if style is not None else ""
            height = own if own is not None else self._style(named)
        self._pieces(run, pieces, height, font)

    def _letters(self, text: str, font: str) -> str:
        """Return text with the characters that fonts of symbols keep in the private area."""
        if not any("\uf000" <= character <= "\uf0ff" for character in text):
            return text
        return "".join(self._symbol(font, ord(c)) if "\uf000" <= c <= "\uf0ff" else c for c in text)

    def _symbol(self, font: str, place: int) -> str:
        found = _SYMBOLS.get(font.casefold(), {}).get(place & 0xFF, "")
        if not found:
            self._builder.miss(
                "symbol", "written as \ufffd: its font has no letters", "write it in a usual font"
            )
        return found or "\ufffd"


def _on(toggle: Any) -> bool:
    return toggle is not None and toggle.get(f"{W}val") not in ("0", "false", "off")


def _form_field(field: Any) -> str:
    """Return the state of a tick box, or the choice of a list, of a form."""
    box, choices = field.find(f"{W}checkBox"), field.find(f"{W}ddList")
    if box is not None:
        checked = box.find(f"{W}checked")
        return "☒" if _on(checked if checked is not None else box.find(f"{W}default")) else "☐"
    if choices is None:
        return ""
    entries = [entry.get(f"{W}val") or "" for entry in choices.iter(f"{W}listEntry")]
    result = choices.find(f"{W}result")
    at = (result.get(f"{W}val") or "0") if result is not None else "0"
    return entries[int(at)] if at.isdecimal() and int(at) < len(entries) else ""


_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MATH = f"{_M}oMath"
_SIGNS = {
    "∑": "\\sum", "∏": "\\prod", "∐": "\\coprod", "∫": "\\int", "∬": "\\iint", "∭": "\\iiint",
    "∮": "\\oint", "⋃": "\\bigcup", "⋂": "\\bigcap", "": "\\int",
}  # fmt: skip
_ACCENTS = {
    "\u0302": "\\hat", "\u0303": "\\tilde", "\u0304": "\\bar", "\u0305": "\\overline",
    "\u0307": "\\dot", "\u0308": "\\ddot", "\u20d7": "\\vec", "": "\\hat",
}  # fmt: skip
_NAMED = frozenset({"sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min"})
_KINDS = frozenset({"f", "sPre", "sSup", "sSub", "sSubSup", "rad", "nary", "d", "func", "limLow",
                    "limUpp", "acc", "bar", "m", "eqArr"})  # fmt: skip
_DEEPEST = 50


def latex(equation: Any) -> str:
    """Return an ``m:oMath`` or ``m:oMathPara`` as LaTeX between dollar signs; empty if empty."""
    text = " ".join(_children(equation, 0).split())
    return f"${text}$" if text else ""


def _children(element: Any, depth: int) -> str:
    if depth > _DEEPEST:
        return "".join(element.itertext())
    return "".join(_part(child, depth + 1) for child in element if isinstance(child.tag, str))


def _part(element: Any, depth: int) -> str:
    """Return one part of an equation, as its kind is written."""

    def inner(part: str) -> list[str]:
        return [_children(child, depth) for child in element.iterfind(f"{_M}{part}")] or [""]

    def value(key: str, default: str) -> str:
        child = element.find(f"{_M}{name}Pr/{_M}{key}")
        return default if child is None else str(child.get(f"{_M}val") or "")

    name = element.tag.rpartition("}")[2]
    if name == "t" or name.endswith("Pr"):
        return str(element.text or "") if name == "t" else ""
    if name not in _KINDS:
        return _children(element, depth)
    names = ("deg", "num", "den", "lim", "fName", "e")
    degree, above, below, limit, function, base = (inner(part)[0] for part in names)
    cells = inner("e")
    scripts = "".join(
        f"{sign}{_braced(text, len(text) == 1)}"
        for sign, part in (("_", "sub"), ("^", "sup"))
        if (text := inner(part)[0] or limit * (name == {"_": "limLow", "^": "limUpp"}[sign]))
    )
    sign = value("chr", "\u0305" if name == "bar" else "")
    accent = f"{_ACCENTS.get(sign, _ACCENTS[''])}{{{base}}}"
    script = f"{_braced(base, base.isalnum() or len(base) == 1)}{scripts}"
    rows = [[_children(c, depth) for c in row] for row in element.iterfind(f"{_M}mr")]
    lines = [" & ".join(row) for row in rows] or cells
    return {
        "f": f"\\frac{{{above}}}{{{below}}}",
        "sPre": f"{{}}{scripts}{base}",
        **dict.fromkeys(("sSup", "sSub", "sSubSup"), script),
        "rad": f"\\sqrt{f'[{degree}]' if degree else ''}{{{base}}}",
        "nary": f"{_SIGNS.get(sign, sign)}{scripts} {base}",
        "d": f"{value('begChr', '(')}{value('sepChr', '|').join(cells)}{value('endChr', ')')}",
        "func": f"{_named(function)}{base}",
        **dict.fromkeys(("limLow", "limUpp"), f"{_named(base)}{scripts}"),
        **dict.fromkeys(("acc", "bar"), accent),
        **dict.fromkeys(("m", "eqArr"), "\\begin{matrix}" + " \\\\ ".join(lines) + "\\end{matrix}"),
    }[name]


def _braced(text: str, bare: bool) -> str:
    return text if bare else f"{{{text}}}"


def _named(function: str) -> str:
    return f"\\{function} " if function in _NAMED else function
