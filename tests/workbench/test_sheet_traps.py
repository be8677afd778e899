"""Sheets and questions with two readings: the answer is right, or there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from ragwright import Session, Workbench

MADE = [datetime(2024, 1, 2, tzinfo=UTC), datetime(2023, 3, 4, tzinfo=UTC)]
FILES = {
    "orders.csv": """Order,Customer,Region,Paid,Amount (EUR),Date
1001,Ann,North,yes,10,2023-05-01
1002,Bo,South,no,20,2024-05-02
1003,Ann,North,no,30,2024-06-03
1004,Cy,East,yes,40,2025-01-04
""",
    "ledger.csv": """Entry,Account,Worth (USD),Tax rate,Status
E1,Rent,"(1,200.00)",19%,Open
E2,Sales,"3,450.50",7%,Completed
E3,Sales,"1,000.00",19%,Completed
E4,Travel,(310.25),0%,Open
Max,,"3,450.50",19%,
Min,,"(1,200.00)",0%,
Sum total,,"2,940.25",,
""",
    "lager.csv": """Artikel;Lager;Menge;Preis;Gewicht (kg)
Bolzen;Halle 1;1.200;0,15;0,012
Mutter;Halle 1;2.500,5;0,08;0,004
Welle;Halle 2;12;1.250,00;34,5
Summe;;3.712,5;1.250,23;
""",
    "visits.csv": """Visitor,Site,Visits
Ann,Dam,3
"Bob
Long",Weir,4

Cid,Dam,5

Room,Seats,
Aula,40,
Lab,12,
""",
    "racers.csv": "Racer,Points\nAnn,12\nBo,15\nMax,17\n",
    "rivers.csv": "Depth (m),Sensor,Temp (°C)\n1,a,4.5\n2,b,5.5\n4,a,7.0\n",
}
SHEETS: dict[str, dict[str, Sequence[Sequence[Any]]]] = {
    "sales.xlsx": {
        "Revenues": [
            ("Market", "Seller", "Revenue (EUR)"),
            ("Delta", "Ada", 100),
            ("Delta", "Bea", 150),
            ("Delta Total", None, 250),
            ("Gamma", "Cyd", 80),
            ("Gamma", "Dee", 70),
            ("Gamma Total", None, 150),
            ("Grand Total", None, 400),
            (),
            (),
            (),
            ("Office", "Desks", "Rent (EUR)"),
            ("Paris", 12, 3000),
            ("Lyon", 5, 1200),
        ],
        "Pivot": [
            ("Country", "Plant", "Output (t)"),
            ("Chile", "Arica", 10),
            (None, "Iquique", 20),
            ("Peru", "Lima", 5),
            (None, "Cusco", 7),
        ],
    },
    "staff.xlsx": {
        "Staff": [
            ("Employee", "Age", "Salary (EUR)", "Bonus", "Bonus", "Comment"),
            ("Ada Long", 41, "52,000", 500, 50, "on leave"),
            ("Bo Marsh", 29, "41,500", 300, 20, None),
            ("Cy Noor", 23, "980", None, 10, "part time"),
        ],
    },
    "shop.xlsx": {
        "Shop": [
            ("Product", "Price (EUR)", "Price (USD)", "In stock", None, "Tool", "Place"),
            ("Kettle", 20, 22, True, None, "Saw", "Hall"),
            ("Mixer", 35, 38.5, False, None, "Axe", "Yard"),
            (),
            ("Oven", 250, 275, True, None, "Rasp", "Hall"),
        ],
        "Crates": [("Crate", "Load"), ("C1", "1.234"), ("C2", "2.500")],
        "Loss": [
            ("Claim", "Kind of loss", "Insured"),
            ("C1", "Total", 100),
            ("C2", "Partial", 300),
            ("C3", "Total", 200),
        ],
    },
    "tests.xlsx": {
        "Probes": [
            ("Probe", "Mass", "Made"),
            (None, "kg", None),
            ("S1", 1.5, MADE[0]),
            ("S2", 2.25, MADE[1]),
        ],
        "Fuel": [
            ("Truck", "Driver", "Litres"),
            ("T1", "Ann", 10),
            ("T2", "Ann", 20),
            ("T3", "Bo", 30),
            (None, None, 60),
            ("Average", None, 20),
        ],
        "Ships": [
            ("Captain", "Ship"),
            ("Ahab", "Pequod"),
            ("Nemo", "Nautilus"),
            (),
            ("Hook", "Roger"),
            ("Cook", "Endeavour"),
        ],
    },
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("traps")
    docs = root / "docs"
    docs.mkdir()
    for name, text in FILES.items():
        (docs / name).write_text(text)
    for name, sheets in SHEETS.items():
        book = xlsxwriter.Workbook(
            str(docs / name), {"default_date_format": "yyyy-mm-dd", "remove_timezone": True}
        )
        for title, rows in sheets.items():
            sheet = book.add_worksheet(title)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
        book.close()
    (root / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(root) as opened:
        opened.ingest()
        yield opened


@pytest.mark.parametrize(
    ("question", "beginning"),
    [
        # subtotals, totals, averages and summaries are no rows of data
        ("What is the total revenue?", "The sum of Revenue is 400 EUR, over 4 rows"),
        ("Which market has the highest total revenue?", "Delta: the highest sum of Revenue is 250"),
        ("Which seller has the lowest revenue?", "Dee: the lowest Revenue is 70"),
        ("How many entries are there?", "4 rows"),
        ("What is the total worth?", "The sum of Worth is 2940.25 USD, over 4 rows"),
        ("Which entry has the highest worth?", "E2: the highest Worth is 3450.5"),
        ("What is the total menge?", "The sum of Menge is 3712.5, over 3 rows"),
        ("What is the total litres?", "The sum of Litres is 60, over 3 rows"),
        ("What is the total insured?", "The sum of Insured is 600, over 3 rows"),
        ("Which racer has the highest points?", "Max: the highest Points is 17"),
        # a second table below or beside, empty rows, a row of units
        ("What is the total rent?", "The sum of Rent is 4200 EUR, over 2 rows"),
        ("What is the total visits?", "The sum of Visits is 12, over 3 rows"),
        ("How many seats are in the Lab?", "The sum of Seats is 12, over 1 row"),
        ("What is the total price in USD?", "The sum of Price (2) is 335.5 USD, over 3 rows"),
        ("How many tools are in the Hall?", "2 rows"),
        ("What is the total mass?", "The sum of Mass is 3.75 kg, over 2 rows"),
        ("How many probes are there?", "2 rows"),
        # yes and no
        ("How many products are in stock?", "2 rows"),
        ("How many orders are not paid?", "2 rows"),
        ("How many products are out of stock?", "1 row"),
        ("What is the total amount paid?", "The sum of Amount is 50 EUR, over 2 rows"),
        # text that is a number, brackets, percent
        ("What is the total salary?", "The sum of Salary is 94480 EUR"),
        ("What is the worth of E4?", "Worth: -310.25 USD"),
        ("What is the highest tax rate?", "The highest Tax rate is 19%"),
        # spans of time, numbers that name rows
        ("How many orders are from 2024?", "2 rows"),
        ("How many orders are from 2023 to 2024?", "3 rows"),
        ("What is the amount of order 1003?", "Amount: 30 EUR"),
        ("How many orders are over 15 EUR?", "3 rows"),
        ("What is the average depth?", "The average of Depth is 2.3333 m"),
        ("What is the average amount of orders in the North?", "The average of Amount is 20 EUR"),
    ],
)
def test_it_answers(bench: Workbench, question: str, beginning: str) -> None:
    answer = bench.ask(question)
    assert answer.text.startswith(beginning), answer.notes


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which market has the highest revenue?", "one row or their sum"),
        ("What market has the highest revenue?", "one row or their sum"),
        ("What is the total output in Chile?", "may stand for the value above"),
        ("What is the total bonus?", "Bonus, Bonus (2)"),
        ("What is the total price?", "Price, Price (2)"),
        ("What is the total load?", "may separate thousands"),
        ("What is the age of the oldest employee?", "no date is named"),
        ("What is the amount of the last order?", "no date is named"),
        ("What is the amount of the largest order?", "which column's highest value"),
        ("What is the comment of Bo Marsh?", "matches where Employee"),
        ("How many employees have a comment?", "which rows are counted"),
        ("How many complete entries are there?", "'complete'"),
        ("How many kinds of entries are there?", "of which kinds"),
        ("How many captains are there?", "table of their own"),
        ("How many orders are not in the North or South?", "which values of Region"),
        ("How many orders are from 2024 on?", "'on'"),
        ("How many orders are from 2 May 2024?", "days after that one"),
        ("How many orders were over 2024?", "names of rows"),
        ("How many entries are over 2024?", ""),
        ("How many customers have more than 1 order?", "is counted"),
        ("What is the total of orders?", "names of rows"),
        ("What is the highest order?", "names of rows"),
        ("How many orders are larger than 20?", "names of rows"),
        ("What percentage of orders are paid?", ""),
        ("How many percent of orders are paid?", "a share"),
    ],
)
def test_it_abstains(bench: Workbench, question: str, reason: str) -> None:
    answer = bench.ask(question)
    assert answer.abstained, answer.text
    assert any(reason in note for note in answer.notes), answer.notes


def test_rows_of_csv_are_numbered_as_a_spreadsheet_shows_them(bench: Workbench) -> None:
    answer = bench.ask("How many visitors are at the Dam?")
    assert "Rows 2, 5." in answer.text


PARSER = """
from ragwright.ingest import Parser


class Other(Parser):
    kinds = frozenset({"sheet"})

    def parse(self, data, name, kind):
        return ["# Elsewhere"]
"""


def test_tables_follow_the_parser_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_sheets.py").write_text(PARSER)
    monkeypatch.syspath_prepend(tmp_path)
    book = xlsxwriter.Workbook(str(tmp_path / "crates.xlsx"))
    sheet = book.add_worksheet("Crates")
    for number, row in enumerate([("Crate", "Load (kg)"), ("C1", 3), ("C2", 4)]):
        sheet.write_row(number, 0, row)
    book.close()
    (tmp_path / "ragwright.yaml").write_text("sources: [crates.xlsx]\n")
    with Workbench.open(tmp_path) as opened:
        opened.ingest()
    with Workbench.open(tmp_path, Session(("ingest.parser=own_sheets:Other",))) as other:
        assert other.ingest().failures == ()
        assert other.ask("What is the total load?").abstained
    with Workbench.open(tmp_path) as opened:
        opened.project.folder.sheets.unlink(missing_ok=True)
        opened.ingest()
        assert opened.ask("What is the total load?").text.startswith("The sum of Load is 7 kg")
