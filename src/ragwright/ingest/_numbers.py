"""Numbers as spreadsheets show them: percentages, leading zeros, dates, durations, units.

Thousands are not parted and months have no names, since both depend on the reader's language:
a number is written as ``-1234.50 €``, a date as ``2026-03-15``.
"""

from __future__ import annotations

import datetime
import functools
import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

_TOKEN = re.compile(
    r'"(?P<l_quoted>[^"]*)"|\\(?P<l_escaped>.)|[_*].|(?P<x>;)|\[\$(?P<l_unit>[^\]]*?)(?:-[^\]-]*)?\]|'
    r"\[(?P<e>(?i:h+|m+|n+|s+))\]|\[[^\]]*\]|(?P<n>[0#?][0#?,]*)|(?P<E>E[+-])|(?P<point>\.)|"
    r"(?P<f>/)|(?P<c>%)|(?P<d>(?i:y+|m+|d+))|(?P<t>(?i:h+|n+|s+))|[@,()]|(?P<l_other>.)",
    re.DOTALL,
)
"""Tokens of a format. The first letter of a group is their kind: ``n`` digits, ``p`` the point,
``c`` per cent, ``E`` an exponent, ``f`` a fraction, ``d`` part of a date, ``t`` of a time, ``e`` an
elapsed time, ``l`` a literal, ``x`` the end of a section."""
_BETWEEN = r"""(?:"[^"]*"|\\.|[^a-z";])*"""
_CLEANED = (
    (re.compile(r"(?i)\bgeneral\b"), "0.##############"),
    (re.compile(r"(?i)am/pm|a/p"), ""),
    (re.compile("#\\\\?[ \xa0\u202f'\u2019]##0"), "#,##0"),
    (re.compile(rf"(?i)(h+{_BETWEEN})m+"), r"\1n"),  # minutes, which a format writes as months
    (re.compile(rf"(?i)m+(?={_BETWEEN}s)"), "n"),
)
_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy",
    18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00", 41: "#,##0", 42: "$#,##0",
    43: "#,##0.00", 44: "$#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0",
}  # fmt: skip
_FIRST_DAYS = tuple(map(datetime.datetime.fromisoformat, ("1899-12-30", "1904-01-01")))
_TEN_THOUSAND_YEARS = 2_958_466


def find_built_in_format(number: int) -> str:
    """Return the format that a number below 164 stands for; empty for the general one."""
    day = 27 <= number <= 36 or 50 <= number <= 58  # dates of East Asian versions
    return "yyyy-mm-dd" if day else _BUILT_IN.get(number, "")


def write_number(value: float) -> str:
    """Return a number with all of its 15 digits and without an exponent, unless it is huge."""
    text = f"{value:.15g}"
    if "e" in text and 1e-15 < abs(value) < 1e21:
        text = f"{Decimal(text):f}"
    return "0" if text == "-0" else text


def show_number(value: float, code: str, *, exact: bool = False, from_1904: bool = False) -> str:
    """Return a number as its format shows it.

    Args:
        value: What the cell holds.
        code: Its number format.
        exact: True to keep all digits that the format would round away.
        from_1904: True if days are counted from 1904, as old Macs do.
    """
    if not abs(value) < 1e300:
        return str(value)
    sections = _sections("" if code.casefold() == "general" else code)
    number = 1 if value < 0 else 2 if value == 0 else 0
    section = sections[number if number < len(sections) else 0]
    kinds = {kind for kind, _ in section}
    if kinds & {"d", "t"}:
        return _moment(value, section, from_1904) or write_number(value)
    if kinds & {"E", "f"} or "n" not in kinds:
        literal = "".join(text for kind, text in section if kind == "l").strip()
        return (literal if kinds == {"l"} else "") or write_number(value)
    return _digits(value, section, exact)


@functools.lru_cache(1000)
def _sections(code: str) -> list[list[tuple[str, str]]]:
    """Return the sections of a format as tokens: a kind and a text."""
    sections: list[list[tuple[str, str]]] = [[]]
    for pattern, other in _CLEANED:
        code = pattern.sub(other, code)
    for match in _TOKEN.finditer(code):
        kind = (match.lastgroup or " ")[0]
        text = match[match.lastgroup or 0]
        if kind == "x":
            sections.append([])
        elif kind in "dte":
            sections[-1] += [(k, text[0].lower()) for k in kind.replace("e", "et")]
        elif kind != " ":
            sections[-1].append((kind, text))
    return sections


def _moment(value: float, section: list[tuple[str, str]], from_1904: bool) -> str:
    """Return a date, a time of the day or a duration; empty if it is none."""
    parts = {text for kind, text in section if kind in "dt"}
    elapsed = next((text for kind, text in section if kind == "e"), "")
    seconds = round(abs(value) * 86400)
    if elapsed:
        minutes, second = divmod(seconds, 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}" if elapsed == "h" else f"{minutes}"
        shown = f"{seconds}" if elapsed == "s" else clock + f":{second:02d}" * ("s" in parts)
        return f"-{shown}" if value < 0 else shown
    if not 0 <= value < _TEN_THOUSAND_YEARS:
        return ""
    # 1900 is taken for a leap year.
    first = _FIRST_DAYS[from_1904] + datetime.timedelta(not from_1904 and value < 60)
    day = "%Y-%m-%d" if "d" in parts or "y" not in parts else "%Y-%m" if "m" in parts else "%Y"
    clock = "%H:%M" + ":%S" * ("s" in parts) if "h" in parts else "%M:%S"
    form = [day] * bool(parts & {"y", "m", "d"}) + [clock] * bool(parts & {"h", "n", "s"})
    return (first + datetime.timedelta(seconds=seconds)).strftime(" ".join(form))


def _digits(value: float, section: list[tuple[str, str]], exact: bool) -> str:
    """Return a number with the digits, zeros and units of a format."""
    number = abs(Decimal(write_number(value)))
    number *= 100 ** sum(kind == "c" for kind, _ in section)
    point = next((at for at, (kind, _) in enumerate(section) if kind == "p"), len(section))
    places = [at for at, (kind, _) in enumerate(section) if kind == "n"]
    whole = [at for at in places if at < point]
    last = section[places[-1]][1]
    number /= 1000 ** (len(last) - len(last.rstrip(",")))
    wanted = "".join(section[at][1] for at in places if at > point).replace(",", "")
    try:
        number = (
            number if exact else number.quantize(Decimal(1).scaleb(-len(wanted)), ROUND_HALF_UP)
        )
    except InvalidOperation:  # more digits than a decimal holds
        return write_number(value)
    integer, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(wanted.count("0"), "0")
    least = sum(section[at][1].count("0") for at in whole)
    dash = any(kind == "l" and text.strip() == "-" for kind, text in section)
    integer = integer.lstrip("0").rjust(least, "0") or ("" if dash and not value else "0")
    parts = [text if kind in "lc" else "" for kind, text in section]
    for at in reversed(whole):  # a mask such as 000-000 takes its digits from the right
        size = len(section[at][1].replace(",", "")) if at != whole[0] else len(integer)
        integer, parts[at] = integer[: len(integer) - size], integer[len(integer) - size :]
    at = whole[-1] if whole else point - 1
    parts.insert(at + 1, ("" if whole else "0") + (f".{fraction}" if fraction else ""))
    text = " ".join("".join(parts).replace("\xa0", " ").split())
    signed = value < 0 and any(digit in "123456789" for digit in text)
    return f"-{text.replace('-', '', 1) if text.startswith('-') else text}" if signed else text
