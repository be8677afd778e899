"""Equations of Office files (OMML) as LaTeX."""

from __future__ import annotations

from typing import Any

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
    name = element.tag.rpartition("}")[2]
    if name == "t" or name.endswith("Pr"):
        return str(element.text or "") if name == "t" else ""

    def of(part: str) -> str:
        child = element.find(f"{_M}{part}")
        return "" if child is None else _children(child, depth)

    def value(key: str, default: str) -> str:
        child = element.find(f"{_M}{name}Pr/{_M}{key}")
        return default if child is None else str(child.get(f"{_M}val") or "")

    if name == "f":
        return f"\\frac{{{of('num')}}}{{{of('den')}}}"
    if name in ("sSup", "sSub", "sSubSup", "sPre"):
        scripts = _scripts(of("sub"), of("sup"))
        return f"{{}}{scripts}{of('e')}" if name == "sPre" else f"{_base(of('e'))}{scripts}"
    if name == "rad":
        return f"\\sqrt{f'[{degree}]' if (degree := of('deg')) else ''}{{{of('e')}}}"
    if name == "nary":
        sign = value("chr", "")
        return f"{_SIGNS.get(sign, sign)}{_scripts(of('sub'), of('sup'))} {of('e')}"
    if name == "d":
        inner = value("sepChr", "|").join(
            _children(child, depth) for child in element.findall(f"{_M}e")
        )
        return f"{value('begChr', '(')}{inner}{value('endChr', ')')}"
    if name in ("func", "limLow", "limUpp"):
        return _function(name, of("fName") or of("e"), of("lim"), of("e"))
    if name in ("acc", "bar"):
        sign = value("chr", "\u0305" if name == "bar" else "")
        return f"{_ACCENTS.get(sign, _ACCENTS[''])}{{{of('e')}}}"
    if name in ("m", "eqArr"):
        return _matrix(element, name, depth)
    return _children(element, depth)


def _matrix(element: Any, name: str, depth: int) -> str:
    rows = element.findall(f"{_M}mr") or [element]
    cells = [[_children(c, depth) for c in row.findall(f"{_M}e")] for row in rows]
    lines = [" & ".join(row) for row in cells] if name == "m" else cells[0]
    inner = " \\\\ ".join(lines)
    return f"\\begin{{matrix}}{inner}\\end{{matrix}}"


def _function(name: str, base: str, limit: str, argument: str) -> str:
    if base in ("sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min"):
        base = f"\\{base} "
    if name == "func":
        return base + argument
    return base + (_scripts(limit, "") if name == "limLow" else _scripts("", limit))


def _base(text: str) -> str:
    return text if text.isalnum() or len(text) == 1 else f"{{{text}}}"


def _scripts(low: str, high: str) -> str:
    return (f"_{_script(low)}" if low else "") + (f"^{_script(high)}" if high else "")


def _script(text: str) -> str:
    return text if len(text) == 1 else f"{{{text}}}"
