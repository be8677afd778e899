"""Signs, ranges, hidden totals and lists in cells: the answer is right, or there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragwright import Workbench

FILES = {
    "staff.csv": """Employee,Dept,Salary (EUR),Hired,Level
Ann,Sales,3000,2020-01-15,A
Bo,Sales,5000,2015-06-01,A+
Cy,IT,4000,2023-09-30,B
Di,IT,6000,2010-02-02,B
Eve,HR,3500,2021-11-11,B-
""",
    "projects.csv": "Project,Language,Size (MB)\nP1,C,10\nP2,C++,20\nP3,C#,31\nP4,C,5\n",
    "markets.csv": "Market,Revenue\nNorth,10\nSouth,20\nAll markets,30\n",
    "months.csv": "Month,Hours\nJan,10\nFeb,25\nMar,30\nYTD,65\n",
    "quarters.csv": "Quarter,Cost (USD)\nQ1,10\nQ2,20\nQ3,30\nQ4,45\n",
    "sums.csv": "Plant,Output,Waste\nLyon,10,1\nOslo,25,2\nRome,31,4\nEurope,66,7\n",
    "things.csv": """Thing,State,Colour
T1,Open,red
T2,open,"red, blue"
T3,shut,blue
T4,shut,tan
""",
    "goods.csv": "Good,Sold\nPen,5\nInk,6\nReturned goods,Returned\nPen,1\nInk,2\n",
    "texts.csv": "Article,Letters\nA1,3\nA2,4\n",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("signs")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "ragwright.yaml").write_text(f"sources: [{', '.join(FILES)}]\n")
    with Workbench.open(folder) as opened:
        opened.ingest()
        yield opened


@pytest.mark.parametrize(
    ("question", "beginning"),
    [
        ("How many employees have a salary > 3500?", "3 rows"),
        ("How many employees have a salary >= 3500 EUR?", "4 rows"),
        ("How many employees have a salary <3500?", "1 row"),
        ("How many employees have a salary = 3500?", "1 row"),
        ("How many employees have dept != Sales?", "3 rows"),
        # signs that make another value
        ("How many A employees are there?", "1 row of staff.csv where Level is A."),
        ("How many A+ employees are there?", "1 row of staff.csv where Level is A+."),
        ("How many employees have level B?", "2 rows"),
        ("How many employees are level B-?", "1 row of staff.csv where Level is B-."),
        ("How many projects have the language C?", "2 rows"),
        ("How many projects have the language C++?", "1 row of projects.csv where Language is C++"),
        # totals with other names
        ("What is the total revenue?", "The sum of Revenue is 30, over 2 rows"),
        ("Which market has the highest revenue?", "South: the highest Revenue is 20"),
        ("What is the average hours?", "The average of Hours is 21.6667, over 3 rows"),
        ("What is the total cost?", "The sum of Cost is 105 USD, over 4 rows"),
        ("How many things are open?", "2 rows"),
        ("How many things are tan?", "1 row"),
    ],
)
def test_it_answers(bench: Workbench, question: str, beginning: str) -> None:
    answer = bench.ask(question)
    assert answer.text.startswith(beginning), answer.notes


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("How many employees have a salary of 4000+ EUR?", "'+'"),
        ("How many employees have a salary ~ 4000?", "'~'"),
        ("How many employees have a salary of 3000 - 4000 EUR?", "'-'"),
        ("How many employees were hired in 2015–2020?", "'–'"),
        ("How many employees have a salary of 3.500 EUR?", "the point in 3.500"),
        ("How many employees have a salary of 4000 minimum?", "what the lowest"),
        ("What is the average of the highest salary per dept?", "what the highest"),
        ("How many projects have the language C*?", "'*'"),
        ("What is the total output?", "row 5 ('Europe') may be a total"),
        ("How many different states are there?", "capitals or spaces only (Open, open)"),
        ("How many things are red?", "'red' together with other values"),
        ("How many goods are there?", "header of another table"),
        ("How many articles are there?", "whether documents or rows of texts.csv"),
    ],
)
def test_it_abstains(bench: Workbench, question: str, reason: str) -> None:
    answer = bench.ask(question)
    assert answer.abstained, answer.text
    assert any(reason in note for note in answer.notes), answer.notes
