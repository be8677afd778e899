"""Questions about planted spreadsheets with exact answers: right, abstained or wrong.

    python -m benchmarks.sheets [--half development|test] [--show] [--size] [--publish]

Each half has 100 questions about five files: 74 can be answered, 26 cannot (they name a column,
value, row or unit that is not there, or have several meanings). No model is used. Right: the
number to two digits, or exactly the names. A question without an answer is right if the system
abstains. ``--size`` measures a large sheet against a smaller one. ``--publish`` writes the results
into docs/results/.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.publish import Row, Section, Table, publish
from benchmarks.sheet_plants import HALVES, Question, plants, questions, write_plants
from ragwright.core import Answer
from ragwright.workbench import Workbench

SEED = 28
VERDICTS = ("right", "abstained", "wrong")
NOTES = (
    "The rules were written on the development half. The tables, names and wordings of the test "
    "half are others; they were written before the first run on them. {read}",
    "Tables have notes above the header, merged header cells, totals, a second table beside the "
    "first, hidden sheets, errors, decimal commas, units in headers or cells, and dates as "
    "2024-05-01, 01.05.2024 and 05/01/2024. One table of each half is real: senders, parties and "
    "hours of 100 political mails.",
    "A question that can be answered is *abstained* where a word of it is not understood. The gold "
    "is computed in Python from the rows before they are written into the files.",
)
READ = (
    "It was run five times, and only totals were read, in all and by kind: when the development "
    "half had no wrong answer left, for this page, after a fault that a test of the repository "
    "showed, after rules for columns of currencies and for several tables on one sheet, and after "
    "rules for signs in questions and values."
)


def verdict(question: Question, answer: Answer) -> str:
    """``right``, ``abstained`` or ``wrong``; without an answer, abstaining is right."""
    if answer.abstained:
        return "right" if question.gold is None else "abstained"
    if question.gold is None:
        return "wrong"
    text = " ".join(answer.text.split())
    if isinstance(question.gold, frozenset):
        listed = re.search(r"^(?:[^:]+: )?(.*?)(?: \(\d+ rows?|: the )", text)
        names = {name.strip() for name in listed[1].split(",")} if listed else set()
        return "right" if names == question.gold else "wrong"
    number = re.match(r"(-?\d+)", text) or re.search(r"(?: is|:) (-?\d+(?:\.\d+)?)", text)
    close = number is not None and abs(float(number[1]) - question.gold) < 0.006
    return "right" if close else "wrong"


def measured(half: str, *, show: bool = False) -> list[tuple[Question, str]]:
    """Ask every question of a half."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = plants(half, SEED)
        write_plants(folder / "docs", tables)
        (folder / "ragwright.yaml").write_text("sources: [docs]\n")
        verdicts = []
        with Workbench.open(folder) as workbench:
            workbench.ingest()
            for question in questions(half, tables, SEED):
                answer = workbench.ask(question.text)
                verdicts.append((question, verdict(question, answer)))
                if show and verdicts[-1][1] != "right":
                    gold = sorted(question.gold) if isinstance(question.gold, frozenset) else (
                        question.gold)  # fmt: skip
                    print(f"{verdicts[-1][1]}: {question.text}\n    gold {gold}")
                    print(f"    {answer.text[:200]!r}\n    {answer.notes[:2]}")
        return verdicts


def summary(half: str, verdicts: Sequence[tuple[Question, str]]) -> list[Row]:
    """Counts of a half: with an answer, and without."""
    rows: list[Row] = []
    for name, answerable in (("with an answer", True), ("without one", False)):
        counts = Counter(v for q, v in verdicts if (q.gold is not None) == answerable)
        verdicts_of_half = {key: counts[key] for key in VERDICTS}
        total = sum(counts.values())
        rows.append({"half": half, "questions": name, "n": total, **verdicts_of_half})
    return rows


def kinds(verdicts: Sequence[tuple[Question, str]]) -> list[Row]:
    """Counts by kind of question."""
    counts: dict[str, Counter[str]] = {}
    for question, judged in verdicts:
        counts.setdefault(question.kind, Counter())[judged] += 1
    return [{"kind": kind} | {v: held[v] for v in VERDICTS} for kind, held in counts.items()]


def large_sheet(rows: int) -> tuple[dict[str, str | int | float], float]:
    """Facts of the ingest of a CSV file of so many rows, and its processor time in seconds."""
    draw = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        with (folder / "docs" / "sales.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["Sale", "Region", "Product", "Units", "Amount (EUR)", "Day"])
            for number in range(rows):
                writer.writerow(
                    (number, draw.choice("NSEW"), f"Product {draw.randint(1, 500)}",
                     draw.randint(1, 9), round(draw.uniform(1, 900), 2),
                     f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}")
                )  # fmt: skip
        (folder / "ragwright.yaml").write_text("sources: [docs]\n")
        with Workbench.open(folder) as workbench:
            begin = time.process_time()
            workbench.ingest()
            ingested = time.process_time() - begin
            begin = time.process_time()
            workbench.project.folder.sheets.unlink()
            workbench.project.keep_views()
            kept = time.process_time() - begin
            answer = workbench.ask("What is the total amount of Product 17?")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        facts: dict[str, str | int | float] = {
            "rows": rows,
            "of it tables": f"{kept / ingested:.0%}",
            "peak memory, GiB": round(peak, 2),
            "answered": "no" if answer.abstained else "yes",
        }
        return facts, ingested


def sizes(rows: Sequence[int]) -> list[Row]:
    """Ingest of sheets of these sizes, with the time per row as a ratio to the first."""
    pairs = [large_sheet(count) for count in rows]
    first = pairs[0][1] / rows[0]
    return [
        facts | {"time per row, ratio": f"{seconds / count / first:.2f}"}
        for (facts, seconds), count in zip(pairs, rows, strict=True)
    ]


def main() -> None:
    """Measure, print and publish."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--size", action="store_true")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    if options.size:
        rows = sizes((10_000, 100_000))
        print(*rows, sep="\n")
        if options.publish:
            section = Section(
                "Sheets by size",
                [Table(rows)],
                [
                    "Six columns, keyword search only, one process. The index holds the rows as "
                    "text too; the tables are the share in the second column."
                ],
                "python -m benchmarks.sheets --size --publish",
                "sheets",
                20,
            )
            publish("sheets-size", section)
        return
    halves = (options.half,) if options.half else HALVES
    judged = {half: measured(half, show=options.show) for half in halves}
    rows = [row for half in halves for row in summary(half, judged[half])]
    for row in (*rows, *(row for half in halves for row in kinds(judged[half]))):
        print(row)
    if options.publish and len(halves) == len(HALVES):
        tables = [Table(rows), Table(kinds(judged["test"]), "Test half, by kind of question")]
        notes = [note.format(read=READ) for note in NOTES]
        section = Section(
            "Questions about sheets, without a model",
            tables,
            notes,
            "python -m benchmarks.sheets --publish",
            "sheets",
            10,
        )
        publish("sheets", section)


if __name__ == "__main__":
    main()
