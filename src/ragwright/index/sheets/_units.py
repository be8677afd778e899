"""Units of measurement and currencies, by the names that headers, cells and questions use."""

from __future__ import annotations

import re
from functools import cache

from ...core import case_folded

_NAMES = {
    "EUR": "€ eur euro euros",
    "USD": "$ us$ usd dollar dollars",
    "GBP": "£ gbp pound_sterling pounds_sterling sterling",
    "CHF": "chf franken francs",
    "JPY": "¥ jpy yen",
    "%": "% percent per_cent prozent pourcent percentage",
    "kg": "kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes",
    "g": "g gram grams gramm gramme grammes",
    "mg": "mg milligram milligrams",
    "t": "t tonne tonnes ton tons tonnen",
    "lb": "lb lbs pound pounds",
    "km": "km kilometre kilometres kilometer kilometers",
    "m": "m metre metres meter meters",
    "cm": "cm centimetre centimetres centimeter centimeters",
    "mm": "mm millimetre millimetres millimeter millimeters",
    "mi": "mi mile miles",
    "ft": "ft foot feet",
    "in": "inch inches",
    "l": "l litre litres liter liters",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "°C": "°c ℃ celsius degc",
    "°F": "°f ℉ fahrenheit",
    "K": "kelvin",
    "d": "day days tage jours",
    "h": "h hr hrs hour hours stunde stunden heures",
    "min": "min mins minute minutes minuten",
    "s": "sec secs second seconds sekunde sekunden",
    "ms": "ms millisecond milliseconds",
    "kWh": "kwh kilowatt_hour kilowatt_hours",
    "MWh": "mwh megawatt_hour megawatt_hours",
    "W": "watt watts",
    "kW": "kw kilowatt kilowatts",
    "MW": "mw megawatt megawatts",
    "V": "volt volts",
    "A": "ampere amperes amp amps",
    "Hz": "hz hertz",
    "MHz": "mhz megahertz",
    "GHz": "ghz gigahertz",
    "Pa": "pa pascal",
    "kPa": "kpa kilopascal",
    "bar": "bar bars",
    "GB": "gb gigabyte gigabytes",
    "MB": "mb megabyte megabytes",
    "m²": "m² m2 sqm square_metre square_metres square_meter square_meters",
    "m³": "m³ m3 cubic_metre cubic_metres cubic_meter cubic_meters",
    "ha": "ha hectare hectares",
    "km/h": "km/h kmh kph",
    "pcs": "pcs pc piece pieces stk stück",
}
CURRENCIES = frozenset(("EUR", "USD", "GBP", "CHF", "JPY"))
_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]{1,24}?)\s*[)\]]")
_ALONE = re.compile(r"(?:\bin\s+|[,/]\s*)([^\s,/]{1,14})$", re.IGNORECASE)


@cache
def _units() -> dict[str, str]:
    names: dict[str, str] = {}
    for unit, words in _NAMES.items():
        for word in (unit, *words.split()):
            names.setdefault(word.casefold().replace("_", " "), unit)
    return names


def named_unit(text: str) -> str:
    """Return the unit that a text names in full, ``kg`` for "Kilograms"; empty for any other."""
    return _units().get(case_folded(text).strip("."), "")


def header_unit(header: str) -> tuple[str, str]:
    """Split a header into its name and its unit: ``Weight (kg)``, ``Price in EUR``, ``Load, %``.

    What stands in brackets is a unit where it is one or begins with one (``EUR excl. VAT``).
    """
    for match in _BRACKETS.finditer(header):
        unit = named_unit(match[1]) or named_unit(match[1].split()[0])
        if unit:
            rest = f"{header[: match.start()]} {header[match.end() :]}"
            return " ".join(rest.split()), unit
    match_end = _ALONE.search(header)
    if match_end and (unit := named_unit(match_end[1])) and match_end.start():
        return header[: match_end.start()].strip(), unit
    words = header.split()
    if len(words) > 1 and (unit := named_unit(words[-1])) and not words[-1].isalpha():
        return " ".join(words[:-1]), unit
    if len(words) > 1 and words[-1] in {"EUR", "USD", "GBP", "CHF", "JPY", "kg", "km", "kWh"}:
        return " ".join(words[:-1]), words[-1]
    return header, ""
