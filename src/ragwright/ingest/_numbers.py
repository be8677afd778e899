"""Numbers as spreadsheets show them: percentages, leading zeros, dates, durations, units.

Thousands are not parted and months have no names, since both depend on the reader's language:
a number is written as ``-1234.50 €``, a date as ``2026-03-15``.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

_TOKEN = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[([^\]]*)\]|([0#?][0#?,]*)|(E[+-])|(.)', re.S)
_CLEANED = (
    (re.compile(r"(?i)\bgeneral\b"), "0.##############"),
    (re.compile(r"(?i)am/pm|a/p"), ""),
    (re.compile("#\\\\?[ \xa0\u202f'\u2019]##0"), "#,##0"),
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
    if not code:
        return write_number(value)
    sections = _sections(code)
    section = sections[0]
    if value < 0 and len(sections) > 1:
        section = sections[1]
    elif value == 0 and len(sections) > 2:
        section = sections[2]
    kinds = {kind for kind, _ in section}
    if "d" in kinds or "t" in kinds:
        return _moment(value, section, from_1904) or write_number(value)
    if "E" in kinds or "/" in kinds or "0" not in kinds:
        literal = "".join(text for kind, text in section if kind == "l").strip()
        shown = literal if kinds == {"l"} else ""
        return shown or write_number(value)
    return _digits(value, section, exact)


@functools.lru_cache(1000)
def _sections(code: str) -> list[list[tuple[str, str]]]:
    """Return the sections of a format as tokens: a kind and a text.

    Kinds: ``0`` digits, ``.``, ``%``, ``E``, ``/``, ``d`` part of a date, ``t`` part of a time,
    ``e`` an elapsed time, ``l`` a literal.
    """
    sections: list[list[tuple[str, str]]] = [[]]
    if code.casefold() == "general":
        return sections
    for pattern, other in _CLEANED:
        code = pattern.sub(other, code)
    for match in _TOKEN.finditer(code):
        if match[6] == ";":
            sections.append([])
        else:
            sections[-1] += _token(match, sections[-1])
    for at, part in enumerate(sections):
        sections[at] = list(_minutes(part))
    return sections


def _token(match: re.Match[str], before: list[tuple[str, str]]) -> list[tuple[str, str]]:
    quoted, escaped, bracket, digits, exponent, other = match.groups()
    if quoted or escaped:
        return [("l", quoted or escaped or "")]
    if bracket:
        if bracket.startswith("$"):
            return [("l", bracket[1:].rpartition("-")[0] or bracket[1:].partition("-")[0])]
        unit = bracket[0].lower()
        return [("e", unit), ("t", unit)] if not bracket.lower().strip("hms") else []
    if digits or exponent:
        return [("0", digits) if digits else ("E", exponent or "")]
    if not other or other in "@,()":
        return []
    if other in ".%/":
        return [(other, other)]
    if other.lower() in "ydhsm":
        token = ("d" if other in "ydYD" else "t" if other in "hsHS" else "m", other.lower())
        return [token] if not before or before[-1] != token else []
    return [("l", other)]


def _minutes(part: list[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Yield the tokens with each ``m`` as a month or a minute; a date has no fractions."""
    kinds = [text for kind, text in part if kind in "dtm"]
    for kind, text in part:
        if kind == "m":
            at = kinds.index("m")
            minute = "h" in kinds[:at][-1:] or "s" in kinds[at + 1 :][:1]
            kinds[at] = ""
            yield ("t", "n") if minute else ("d", "m")
        elif not (kinds and kind == "/"):
            yield kind, text


def _moment(value: float, section: list[tuple[str, str]], from_1904: bool) -> str:
    """Return a date, a time of the day or a duration; empty if it is none."""
    parts = {text for kind, text in section if kind in "dt"}
    elapsed = next((text for kind, text in section if kind == "e"), "")
    seconds = round(abs(value) * 86400)
    if elapsed:
        hours, rest = divmod(seconds, 3600)
        shown = {
            "h": f"{hours}:{rest // 60:02d}" + f":{rest % 60:02d}" * ("s" in parts),
            "m": f"{seconds // 60}" + f":{seconds % 60:02d}" * ("s" in parts),
            "s": f"{seconds}",
        }[elapsed]
        return f"-{shown}" if value < 0 else shown
    if not 0 <= value < _TEN_THOUSAND_YEARS:
        return ""
    first = _FIRST_DAYS[from_1904]
    if not from_1904 and value < 60:  # 1900 is taken for a leap year
        first += datetime.timedelta(days=1)
    moment = first + datetime.timedelta(seconds=seconds)
    day = moment.date().isoformat()
    if "d" not in parts and "y" in parts:
        day = day[: 7 if "m" in parts else 4]
    clock = f"{moment:%H:%M:%S}" if "s" in parts else f"{moment:%H:%M}"
    if "h" not in parts and parts & {"n", "s"}:
        clock = f"{moment:%M:%S}"
    dated, timed = parts & {"y", "m", "d"}, parts & {"h", "n", "s"}
    return " ".join([day] * bool(dated) + [clock] * bool(timed))


def _digits(value: float, section: list[tuple[str, str]], exact: bool) -> str:
    """Return a number with the digits, zeros and units of a format."""
    number = abs(Decimal(write_number(value)))
    number *= 100 ** sum(kind == "%" for kind, _ in section)
    point = next((at for at, (kind, _) in enumerate(section) if kind == "."), len(section))
    places = [at for at, (kind, _) in enumerate(section) if kind == "0"]
    whole = [at for at in places if at < point]
    last = section[places[-1]][1]
    number /= 1000 ** (len(last) - len(last.rstrip(",")))
    wanted = "".join(section[at][1] for at in places if at > point).replace(",", "")
    if not exact:
        with_digits = Decimal(1).scaleb(-len(wanted))
        try:
            number = number.quantize(with_digits, ROUND_HALF_UP)
        except InvalidOperation:  # more digits than a decimal holds
            return write_number(value)
    integer, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(wanted.count("0"), "0")
    least = sum(section[at][1].count("0") for at in whole)
    dash = any(kind == "l" and text.strip() == "-" for kind, text in section)
    integer = integer.lstrip("0").rjust(least, "0") or ("" if dash and not value else "0")
    shown: dict[int, str] = {}
    for at in reversed(whole):  # a mask such as 000-000 takes its digits from the right
        size = len(section[at][1].replace(",", "")) if at != whole[0] else len(integer)
        integer, shown[at] = integer[: len(integer) - size], integer[len(integer) - size :]
    parts = [
        shown.get(at, "") if kind == "0" else text if kind in "l%" else ""
        for at, (kind, text) in enumerate(section)
    ]
    at = whole[-1] if whole else point - 1
    tail = f".{fraction}" if fraction else ""
    before, after = "".join(parts[: at + 1]), "".join(parts[at + 1 :])
    text = " ".join(f"{before}{'' if whole else '0'}{tail}{after}".replace("\xa0", " ").split())
    signed = value < 0 and any(digit in "123456789" for digit in text)
    return f"-{text.replace('-', '', 1) if text.startswith('-') else text}" if signed else text
