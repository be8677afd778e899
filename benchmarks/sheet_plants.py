"""Spreadsheets whose every answer is known, and questions about them with their gold.

Two halves with other sheets, other names, other layouts and other wordings. The development half
was used to write the rules of :mod:`ragwright.retrieve.sheets`; the wordings of the test half were
written before they were run and not changed after.
"""

from __future__ import annotations

import calendar
import csv
import io
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xlsxwriter

from benchmarks.data_sets import DATA

Row = Mapping[str, Any]
HALVES = ("development", "test")


@dataclass(frozen=True)
class Question:
    """A question with its gold: a number, names, or None where it cannot be answered."""

    text: str
    kind: str
    gold: float | frozenset[str] | None


@dataclass(frozen=True)
class Plant:
    """A table, and how it is named.

    Attributes:
        file: Name of the file.
        sheet: Name of the sheet; empty for CSV.
        noun: Plural of what a row is.
        key: Column that names rows.
        category: Column of few values, and a second one.
        number: Column of numbers, and a second one.
        units: Unit of each, as the header writes it and as a question says it.
        date: Column of dates.
        layout: ``plain``, ``notes``, ``merged``, ``beside``, ``comma``, ``cells``, ``month first``.
        rows: The rows.
    """

    file: str
    sheet: str
    noun: str
    key: str
    category: tuple[str, str]
    number: tuple[str, str]
    units: Mapping[str, tuple[str, str]]
    date: str
    layout: str
    rows: Sequence[Row] = field(default=())

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in order."""
        return (self.key, *self.category, *self.number, self.date)


def plants(half: str, seed: int) -> list[Plant]:
    """The tables of a half, with seeded rows."""
    draw = random.Random(f"{half} {seed}")
    return [_filled(plant, values, draw) for plant, values in _PLANTS[half]]


def _filled(plant: Plant, values: tuple[str, Sequence[str], Sequence[str]], draw: Any) -> Plant:
    prefix, first, second = values
    rows = []
    for number in range(draw.randint(40, 120)):
        day = f"{draw.choice((2023, 2024))}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        rows.append(
            {
                plant.key: f"{prefix}{101 + number}",
                plant.category[0]: draw.choice(first),
                plant.category[1]: draw.choice(second),
                plant.number[0]: round(draw.uniform(3, 2400), 2),
                plant.number[1]: draw.randint(1, 60),
                plant.date: day,
            }
        )
    draw.shuffle(rows)
    return Plant(**{**vars(plant), "rows": tuple(rows)})


_PLANTS = {
    "development": [
        (
            Plant("orders.xlsx", "Orders", "orders", "Order", ("Region", "Status"),
                  ("Amount", "Units"), {"Amount": ("EUR", "EUR")}, "Order date", "notes"),
            ("A-", ["North", "South", "East", "West"], ["paid", "open", "cancelled"]),
        ),
        (
            Plant("staff.csv", "", "employees", "Employee", ("Department", "Office"),
                  ("Salary", "Days off"), {"Salary": ("EUR", "euros")}, "Start date", "comma"),
            ("Person ", ["Sales", "IT", "HR", "Legal"], ["Berlin", "Lyon", "Madrid"]),
        ),
        (
            Plant("sensors.xlsx", "Readings", "readings", "Reading", ("Room", "Device"),
                  ("Temperature", "Errors"), {"Temperature": ("°C", "°C")}, "Taken on", "merged"),
            ("R", ["Cellar", "Attic", "Kitchen"], ["Alpha", "Beta"]),
        ),
        (
            Plant("inventory.csv", "", "items", "Item", ("Warehouse", "Supplier"),
                  ("Weight", "Stock"), {"Weight": ("kg", "kg")}, "Checked", "cells"),
            ("bolt ", ["Hall A", "Hall B", "Yard"], ["Acme", "Globex", "Initech"]),
        ),
    ],
    "test": [
        (
            Plant("freight.xlsx", "Shipments", "shipments", "Shipment", ("Harbour", "Carrier"),
                  ("Load", "Containers"), {"Load": ("t", "tonnes")}, "Departure", "beside"),
            ("SH", ["Rotterdam", "Antwerp", "Hamburg", "Le Havre"], ["Maru", "Nordline", "Hansa"]),
        ),
        (
            Plant("library_loans.csv", "", "loans", "Loan", ("Branch", "Genre"),
                  ("Fine", "Days"), {"Fine": ("USD", "dollars")}, "Returned", "month first"),
            ("L", ["Central", "Riverside", "Hilltop"], ["Crime", "History", "Poetry", "Travel"]),
        ),
        (
            Plant("energy.xlsx", "Meters", "meters", "Meter", ("Building", "Tariff"),
                  ("Consumption", "Alarms"), {"Consumption": ("kWh", "kWh")}, "Read on", "merged"),
            ("M", ["School", "Town hall", "Pool"], ["day", "night", "flat rate"]),
        ),
        (
            Plant("projects.csv", "", "projects", "Project", ("Country", "Phase"),
                  ("Budget", "Partners"), {"Budget": ("CHF", "CHF")}, "Approved", "comma"),
            ("P", ["Kenya", "Peru", "Nepal"], ["design", "build", "closed"]),
        ),
    ],
}  # fmt: skip


# -- writing them -----------------------------------------------------------------------------


def write_plants(folder: Path, tables: Sequence[Plant]) -> None:
    """Write the tables as workbooks and CSV files, with notes, totals, errors and hidden sheets."""
    folder.mkdir(parents=True, exist_ok=True)
    for plant in tables:
        if plant.file.endswith(".csv"):
            (folder / plant.file).write_text(_csv_text(plant), encoding="utf-8")
        else:
            _write_workbook(folder / plant.file, plant)
    _write_mails(folder / "mails.csv")


def _write_mails(path: Path) -> None:
    """Real mails of the data set, without their texts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Mail", "Sender domain", "Party", "Hour"])
        writer.writerows(
            (row["id"], row["domain"], row["party"], row["hour"]) for row in mail_rows()
        )


def mail_rows() -> list[dict[str, str]]:
    """Rows of the political mails, numbered; empty without the data set."""
    source = DATA / "political_emails" / "tests.csv"
    if not source.is_file():
        return []
    csv.field_size_limit(10_000_000)
    with source.open(encoding="utf-8", newline="") as file:
        return [
            {"id": f"mail {number}", **row} for number, row in enumerate(csv.DictReader(file), 1)
        ]


def _header(plant: Plant, name: str) -> str:
    unit = plant.units.get(name, ("", ""))[0]
    return name if not unit or plant.layout == "cells" else f"{name} ({unit})"


def _csv_text(plant: Plant) -> str:
    comma = plant.layout == "comma"
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";" if comma else ",")
    writer.writerow([_header(plant, name) for name in plant.columns])
    first = plant.number[0]
    for row in plant.rows:
        cells = dict(row)
        amount = f"{row[first]:,.2f}"
        if comma:
            amount = amount.replace(",", "x").replace(".", ",").replace("x", ".")
        cells[first] = f"{amount} {plant.units[first][0]}" if plant.layout == "cells" else amount
        year, month, day = row[plant.date].split("-")
        dates = {"comma": f"{day}.{month}.{year}", "month first": f"{month}/{day}/{year}"}
        cells[plant.date] = dates.get(plant.layout, row[plant.date])
        writer.writerow([cells[name] for name in plant.columns])
    total = sum(row[first] for row in plant.rows)
    shown = f"{total:.2f}".replace(".", ",") if comma else f"{total:.2f}"
    writer.writerow(["Total", "", "", shown, sum(r[plant.number[1]] for r in plant.rows), ""])
    return out.getvalue()


def _write_workbook(path: Path, plant: Plant) -> None:
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet(plant.sheet)
    line = 0
    if plant.layout in {"notes", "beside"}:
        sheet.write(0, 0, "Made by the back office; draft.")
        line = 2
    names = plant.columns
    if plant.layout == "merged":
        sheet.merge_range(line, 1, line, 2, "Place")
        sheet.merge_range(line, 3, line, 4, "Measured")
        line += 1
    for column, name in enumerate(names):
        sheet.write(line, column, _header(plant, name))
    for row in plant.rows:
        line += 1
        for column, name in enumerate(names):
            sheet.write(line, column, row[name])
    line += 1
    sheet.write(line, 0, "Grand total" if plant.layout == "merged" else "Total")
    for column in (3, 4):
        sheet.write_formula(
            line, column, "=SUM(A1:A2)", None, round(sum(r[names[column]] for r in plant.rows), 2)
        )
    if plant.layout == "beside":
        for at, cells in enumerate((("Code", "Meaning"), ("x1", "late"), ("x2", "lost"))):
            sheet.write_row(2 + at, 8, cells)
    hidden = book.add_worksheet("Old")
    hidden.write_row(0, 0, names)
    hidden.write_row(1, 0, [plant.rows[0][name] for name in names])
    hidden.hide()
    faulty = book.add_worksheet("Rates")
    faulty.write_row(0, 0, ["Year", "Discount"])
    faulty.write_row(1, 0, [2023, 4])
    faulty.write(2, 0, 2024)
    faulty.write_formula(2, 1, "=1/0", None, "#DIV/0!")
    book.close()


# -- asking about them ------------------------------------------------------------------------


def questions(half: str, tables: Sequence[Plant], seed: int) -> list[Question]:
    """A hundred questions of a half: 74 with an answer, 26 without; fewer without the mails."""
    draw = random.Random(f"questions {half} {seed}")
    answerable: list[Question] = []
    unanswerable: list[Question] = []
    while len(answerable) < 69 or len(unanswerable) < 25:
        for plant in tables:
            for make in _KINDS:
                question = make(half, plant, draw)
                pool = unanswerable if question.gold is None else answerable
                if question.text not in {other.text for other in pool}:
                    pool.append(question)
    return [*_spread(answerable, 69), *_mail_questions(half), *_spread(unanswerable, 25)]


def _spread(pool: Sequence[Question], most: int) -> list[Question]:
    """As many of every kind as possible."""
    kinds: dict[str, list[Question]] = {}
    for question in pool:
        kinds.setdefault(question.kind, []).append(question)
    kept: list[Question] = []
    while len(kept) < most:
        for group in kinds.values():
            if group and len(kept) < most:
                kept.append(group.pop(0))
    return kept


def _mail_questions(half: str) -> Iterator[Question]:
    rows = mail_rows()
    if not rows:
        return
    count = {p: sum(r["party"] == p for r in rows) for p in ("R", "D")}
    late = sum(int(row["hour"]) > 20 for row in rows)
    domains = len({row["domain"] for row in rows})
    if half == "development":
        asked = (("How many mails have the party D?", count["D"]),
                 ("How many mails have an hour over 20?", late),
                 ("How many different sender domains are there?", domains),
                 ("What is the average hour of the mails with party R?",
                  statistics.mean(int(r["hour"]) for r in rows if r["party"] == "R")),
                 ("How many mails are not from party R?", None),
                 ("What is the highest hour?", max(int(r["hour"]) for r in rows)))  # fmt: skip
    else:
        asked = (("Number of mails whose party is R?", count["R"]),
                 ("In how many mails does the hour exceed 20?", late),
                 ("How many unique sender domains occur in the mails?", domains),
                 ("What is the median hour across party D mails?",
                  statistics.median(int(r["hour"]) for r in rows if r["party"] == "D")),
                 ("How many mails lack a party?", None),
                 ("What is the smallest hour in the mails?",
                  min(int(r["hour"]) for r in rows)))  # fmt: skip
    for text, gold in asked:
        yield Question(text, "real table" if gold is not None else "real table, unclear",
                       None if gold is None else float(gold))  # fmt: skip


Wording = Callable[[str, Plant, random.Random], Question]


def _pick(draw: random.Random, half: str, development: Sequence[str], test: Sequence[str]) -> str:
    return draw.choice(development if half == "development" else test)


def _a_value(plant: Plant, draw: random.Random, which: int = 0) -> tuple[str, str, list[Row]]:
    column = plant.category[which]
    value = draw.choice(sorted({row[column] for row in plant.rows}))
    return column.lower(), value, [row for row in plant.rows if row[column] == value]


def _count(half: str, plant: Plant, draw: random.Random) -> Question:
    column, value, rows = _a_value(plant, draw)
    text = _pick(
        draw, half,
        ["How many {n} have the {c} {v}?", "How many {n} are in {v}?"],
        ["What is the number of {n} with {c} {v}?", "Count the {n} from {v}.",
         "In total, how many {n} belong to {c} {v}?"],
    )  # fmt: skip
    return Question(text.format(n=plant.noun, c=column, v=value), "count", len(rows))


def _count_number(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0]
    bound, unit = draw.randint(200, 2000), plant.units[name][1]
    if half == "development":
        rows = [row for row in plant.rows if row[name] > bound]
        text = f"How many {plant.noun} have a {name.lower()} over {bound} {unit}?"
    elif draw.random() < 0.5:
        rows = [row for row in plant.rows if row[name] >= bound]
        text = f"For how many {plant.noun} is the {name.lower()} at least {bound} {unit}?"
    else:
        rows = [row for row in plant.rows if row[name] < bound]
        text = f"How many {plant.noun} stay below {bound} {unit} in {name.lower()}?"
    return Question(text, "count by number", len(rows))


def _count_date(half: str, plant: Plant, draw: random.Random) -> Question:
    month = draw.randint(2, 11)
    names = calendar.month_name[1:]
    date = plant.date
    if half == "development":
        rows = [row for row in plant.rows if row[date] > f"2024-{month:02}-15"]
        text = f"How many {plant.noun} have a {date.lower()} after 2024-{month:02}-15?"
    elif draw.random() < 0.5:
        rows = [row for row in plant.rows if row[date].startswith(f"2024-{month:02}")]
        text = f"How many {plant.noun} show a {date.lower()} in {names[month - 1]} 2024?"
    else:
        rows = [row for row in plant.rows if row[date] < f"2024-{month:02}-05"]
        text = f"How many {plant.noun} were there before 5 {names[month - 1]} 2024?"
    return Question(text, "count by date", len(rows))


def _total(half: str, plant: Plant, draw: random.Random) -> Question:
    column, value, rows = _a_value(plant, draw, draw.randint(0, 1))
    name = draw.choice(plant.number)
    text = _pick(
        draw, half,
        ["What is the total {x} for {v}?", "What is the sum of {x} for {c} {v}?"],
        ["Add up the {x} of {v}.", "How much {x} do the {v} {n} come to altogether?",
         "What does the {x} of all {n} with {c} {v} sum up to?"],
    )  # fmt: skip
    text = text.format(x=name.lower(), v=value, c=column, n=plant.noun)
    return Question(text, "sum", round(sum(row[name] for row in rows), 2))


def _mean(half: str, plant: Plant, draw: random.Random) -> Question:
    column, value, rows = _a_value(plant, draw)
    name = draw.choice(plant.number)
    text = _pick(
        draw, half,
        ["What is the average {x} for {v}?", "What is the average {x} of {n} in {v}?"],
        ["On average, what {x} do {n} in {v} have?", "What's the mean {x} across {c} {v}?"],
    )  # fmt: skip
    text = text.format(x=name.lower(), v=value, c=column, n=plant.noun)
    return Question(text, "average", statistics.mean(row[name] for row in rows))


def _middle(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0]
    text = _pick(draw, half, ["What is the median {x} of all {n}?"], ["Median {x} of the {n}?"])
    gold = statistics.median(row[name] for row in plant.rows)
    return Question(text.format(x=name.lower(), n=plant.noun), "median", gold)


def _best_value(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0]
    _, value, rows = _a_value(plant, draw)
    if half == "development":
        text = f"What is the highest {name.lower()} in {value}?"
        return Question(text, "highest", max(row[name] for row in rows))
    text = f"How low does the {name.lower()} get: what is the minimum for {value}?"
    if draw.random() < 0.7:
        text = f"What is the smallest {name.lower()} among {plant.noun} in {value}?"
    return Question(text, "highest", min(row[name] for row in rows))


def _best_row(half: str, plant: Plant, draw: random.Random) -> Question:
    name, key = plant.number[0], plant.key
    best = max if half == "development" else min
    row = best(plant.rows, key=lambda row: row[name])
    text = _pick(
        draw, half,
        ["Which {k} has the highest {x}?"],
        ["Name the {k} with the lowest {x}.", "What {k} shows the minimum {x}?"],
    )  # fmt: skip
    text = text.format(k=key.lower(), x=name.lower())
    return Question(text, "row with the highest", frozenset([row[key]]))


def _look_up(half: str, plant: Plant, draw: random.Random) -> Question:
    row, name = draw.choice(plant.rows), draw.choice(plant.number)
    text = _pick(
        draw, half,
        ["What is the {x} of {k}?"],
        ["Tell me the {x} for {k}.", "{k}: what is its {x}?", "What {x} does {k} have?"],
    )  # fmt: skip
    return Question(text.format(x=name.lower(), k=row[plant.key]), "look-up", row[name])


def _which(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0]
    ranked = sorted((row[name] for row in plant.rows), reverse=half == "development")
    bound = round(ranked[draw.randint(2, 6)])
    if half == "development":
        rows = [row for row in plant.rows if row[name] > bound]
        text = f"Which {plant.noun} have a {name.lower()} over {bound}?"
    else:
        rows = [row for row in plant.rows if row[name] < bound]
        text = _pick(draw, half, [], [
            f"List all {plant.noun} whose {name.lower()} is below {bound}.",
            f"Show me every {plant.key.lower()} with a {name.lower()} under {bound}.",
        ])  # fmt: skip
    return Question(text, "which rows", frozenset(row[plant.key] for row in rows))


def _different(half: str, plant: Plant, draw: random.Random) -> Question:
    column = plant.category[draw.randint(0, 1)]
    text = _pick(
        draw, half,
        ["How many different values of {c} are there among the {n}?"],
        ["What is the number of distinct {c} values of the {n}?",
         "How many unique {c} entries do the {n} have?"],
    )  # fmt: skip
    gold = len({row[column] for row in plant.rows})
    return Question(text.format(c=column.lower(), n=plant.noun), "different values", gold)


def _both(half: str, plant: Plant, draw: random.Random) -> Question:
    _, first, rows = _a_value(plant, draw)
    column, second, _ = _a_value(plant, draw, 1)
    text = _pick(
        draw, half,
        ["How many {b} {n} are in {a}?", "How many {n} in {a} have the {c} {b}?"],
        ["Of the {n} in {a}, how many are {b}?", "How many {n} are both {a} and {b}?"],
    )  # fmt: skip
    text = text.format(a=first, b=second, n=plant.noun, c=column)
    gold = sum(row[plant.category[1]] == second for row in rows)
    return Question(text, "two conditions", gold)


def _best_group(half: str, plant: Plant, draw: random.Random) -> Question:
    column, name = plant.category[0], plant.number[0]
    groups: dict[str, list[float]] = {}
    for row in plant.rows:
        groups.setdefault(row[column], []).append(row[name])
    if half == "development":
        best = max(groups, key=lambda group: sum(groups[group]))
        text = f"Which {column.lower()} has the highest total {name.lower()}?"
    else:
        best = max(groups, key=lambda group: statistics.mean(groups[group]))
        text = f"Which {column.lower()} comes out with the largest average {name.lower()}?"
    return Question(text, "best group", frozenset([best]))


def _without(half: str, plant: Plant, draw: random.Random) -> Question:
    _, value, rows = _a_value(plant, draw)
    text = _pick(
        draw, half,
        ["How many {n} are not in {v}?"],
        ["Excluding {v}, how many {n} are there?", "How many {n} are outside {v}?"],
    )  # fmt: skip
    gold = len(plant.rows) - len(rows)
    return Question(text.format(n=plant.noun, v=value), "negation", gold)


def _no_column(half: str, plant: Plant, draw: random.Random) -> Question:
    _, value, _ = _a_value(plant, draw)
    if half == "development":
        name = draw.choice(["profit", "margin", "discount rate"])
        return Question(f"What is the average {name} for {value}?", "no such column", None)
    name = draw.choice(["insurance premium", "satisfaction", "tax", "distance"])
    return Question(f"How much {name} do the {value} {plant.noun} have?", "no such column", None)


def _no_value(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0].lower()
    if half == "development":
        value = draw.choice(["Tokyo", "Atlantis", "Finance"])
        return Question(f"What is the total {name} for {value}?", "no such value", None)
    value = draw.choice(["Zanzibar", "Wakanda", "Operations"])
    return Question(f"How many {plant.noun} from {value} are there?", "no such value", None)


def _no_row(half: str, plant: Plant, draw: random.Random) -> Question:
    key = plant.rows[0][plant.key].rstrip("0123456789") + str(draw.randint(900, 990))
    name = plant.number[0].lower()
    if half == "development":
        return Question(f"What is the {name} of {key}?", "no such row", None)
    return Question(f"Which {name} was recorded for {key}?", "no such row", None)


def _wrong_unit(half: str, plant: Plant, draw: random.Random) -> Question:
    name = plant.number[0]
    unit = draw.choice(["pounds sterling", "miles", "litres"])
    if half == "development":
        return Question(f"What is the total {name.lower()} in {unit}?", "other unit", None)
    bound = draw.randint(10, 90)
    text = f"How many {plant.noun} have a {name.lower()} of more than {bound} {unit}?"
    return Question(text, "other unit", None)


def _unclear(half: str, plant: Plant, draw: random.Random) -> Question:
    value = draw.randint(5, 50)
    if half == "development":
        return Question(f"How many {plant.noun} are over {value}?", "ambiguous", None)
    text = f"Which {plant.category[0].lower()} is the best among the {plant.noun}?"
    return Question(text, "ambiguous", None)


def _elsewhere(half: str, plant: Plant, draw: random.Random) -> Question:
    if half == "development":
        text = f"What will the average {plant.number[0].lower()} be in 2031?"
        return Question(text, "not in the data", None)
    text = f"Why did the total {plant.number[0].lower()} change so much?"
    return Question(text, "not in the data", None)


_KINDS: Sequence[Wording] = (
    _count, _count_number, _count_date, _total, _mean, _middle, _best_value, _best_row, _look_up,
    _which, _different, _both, _best_group, _without,
    _no_column, _no_value, _no_row, _wrong_unit, _unclear, _elsewhere,
)  # fmt: skip
