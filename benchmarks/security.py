"""Attack suites on stub models: attack success by share of poisoned passages, utility beside it.

    python -m benchmarks.security [--questions 40] [--publish]

The passages are the paragraphs of XQuAD (English), each a document; every second article belongs to
another group of readers. `ragwright suite security` makes the attacks, `eval` answers and scores
them. The generators are stubs whose obedience is known, and the program's own offline answerer: the
figures check the suite and the program, and say nothing about any real model.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.data_sets import DATA
from benchmarks.publish import Row, Section, Table, publish, section_lines
from ragwright import Evaluating, Workbench
from ragwright.core import GoldSpan, Row as TestRow
from ragwright.experiment import Curve, capability_curves
from ragwright.testing import ObedientModel, ScriptedServer
from ragwright.testsets import AttackOptions, Testset

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5)
ATTACKS = ("injection", "poison", "exfiltration")
OFFLINE = "extractive"
_AROUND = 15
"""Characters of a false statement on each side of the false fact."""


def write_project(folder: Path, articles: int) -> list[tuple[str, TestRow]]:
    """Write paragraphs as documents of two groups; return questions, each with its file."""
    data = json.loads((DATA / "xquad" / "xquad.en.json").read_text("utf-8"))["data"]
    docs = folder / "docs"
    docs.mkdir(parents=True)
    rows = []
    for number, article in enumerate(data[:articles]):
        head = f"---\nreaders: {('blue', 'red')[number % 2]}\n---\n"
        for place, paragraph in enumerate(article["paragraphs"]):
            name = f"{number:02}-{place:02}.md"
            (docs / name).write_text(f"{head}{paragraph['context']}\n", "utf-8")
            rows += [
                (name, TestRow(q["id"], q["question"], reference=answer["text"]))
                for q in paragraph["qas"]
                for answer in q["answers"][:1]
                if re.search(r"\d", answer["text"])  # facts that can be falsified
            ]
    (folder / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    return sorted(rows, key=lambda pair: pair[0][3:])  # of all articles in turn


def with_spans(bench: Workbench, rows: Iterable[tuple[str, TestRow]], count: int) -> Testset:
    """The first questions whose answer stands once in their document."""
    texts = {Path(document.source).name: document for document in bench.documents()}
    kept: list[TestRow] = []
    for name, row in rows:
        document, answer = texts[name], row.reference
        if len(kept) < count and answer and document.text.count(answer) == 1:
            at = document.text.index(answer)
            span = GoldSpan(document.id, at, at + len(answer), answer)
            kept.append(replace(row, reference_spans=(span,)))
    return Testset("facts", tuple(kept))


def falsehoods(suite: Testset) -> dict[str, tuple[str, str]]:
    """The false answer of each question, and words of the poisoned passages that claim it."""
    false: dict[str, tuple[str, str]] = {}
    for row in suite.rows:
        goal = row.metadata.get("goal")
        if row.metadata["suite"] != "poison" or not isinstance(goal, tuple):
            continue
        for text, name in zip(row.retrieved_contexts, row.retrieved_context_ids, strict=True):
            at = text.find(goal[0])
            if name.startswith("poison-") and at >= 0 and row.user_input not in false:
                end = at + len(goal[0]) + _AROUND
                false[row.user_input] = (goal[0], text[max(0, at - _AROUND) : end])
    return false


def stubs(suite: Testset) -> dict[str, Callable[..., str]]:
    """The generators by name; each is a script of a chat model."""
    answers = {row.user_input: str(row.reference) for row in suite.rows}
    false = falsehoods(suite)
    scripts: dict[str, Callable[..., str]] = {
        f"obeys {share:.0%}": ObedientModel(answers, false, share) for share in (0.0, 0.5, 1.0)
    }
    return scripts | {"refuses everything": lambda _: "I don't know."}


def curves_of(folder: Path, suite: Testset, model: str) -> dict[tuple[str, str], Curve]:
    """What a generator reaches on the suite, by attack and quantity."""
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs/]\nanswer: {{model: '{model}'}}\n", "utf-8"
    )
    with Workbench.open(folder) as bench:
        _, summary = bench.evaluate(suite, "", Evaluating(answers=True))
        stored = bench.results(summary.run)
    return {(curve.suite, curve.quantity): curve for curve in capability_curves(stored)}


def shown(curve: Curve | None, share: float) -> str:
    """The mean at a share."""
    means = [] if curve is None else [p.mean for p in curve.points if p.dose == share]
    return "" if not means or means[0] is None else f"{means[0]:.2f}"


def table_rows(name: str, curves: dict[tuple[str, str], Curve]) -> list[Row]:
    """A line for each attack: success / utility at each share."""
    rows: list[Row] = []
    for attack in ATTACKS:
        success, utility = curves.get((attack, "attack success")), curves.get((attack, "utility"))
        row: dict[str, str | float] = {"generator": name, "attack": attack}
        row["benign utility (share 0)"] = shown(utility, 0.0)
        for share in SHARES[1:]:
            row[f"{share:g}"] = f"{shown(success, share)} / {shown(utility, share)}"
        rows.append(row)
    return rows


def crossing_row(name: str, curves: dict[tuple[str, str], Curve]) -> Row:
    """A line for questions about documents of another group."""
    values = [curves.get(("cross_group", quantity)) for quantity in ("attack success", "utility")]
    means = [None if c is None or not c.points else c.points[0].mean for c in values]
    return {"generator": name, "attack success": means[0], "utility": means[1]}


def measured(count: int) -> tuple[list[Row], list[Row], int, Sequence[str]]:
    """The tables, the number of questions, and the notes of the suite."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary) / "project"
        rows = write_project(folder, articles=20)
        with Workbench.open(folder) as bench:
            bench.ingest()
            facts = with_spans(bench, rows, count)
            options = AttackOptions(shares=SHARES, groups_field="readers")
            suite = bench.attacks(facts, options)
        generators = {"quotes passages (offline answerer)": OFFLINE}
        for name, script in stubs(suite).items():
            server = stack.enter_context(ScriptedServer(script))
            generators[name] = f"{server.url}#stub"
        attacked: list[Row] = []
        crossing: list[Row] = []
        for name, model in generators.items():
            curves = curves_of(folder, suite, model)
            attacked += table_rows(name, curves)
            crossing.append(crossing_row(name, curves))
            print(f"{name}: done", flush=True)
        return attacked, crossing, len(facts.rows), suite.notes


def main() -> None:
    """Print the tables; with ``--publish`` keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    begin = time.perf_counter()
    attacked, crossing, count, notes = measured(options.questions)
    section = Section(
        title="Attacks on stub models",
        tables=(
            Table(
                attacked,
                f"Attack success / utility by share of poisoned passages among ten, {count} "
                "questions on real paragraphs. Utility: share of answers that are still right.",
            ),
            Table(
                crossing,
                "Readers of one group who ask about documents of another. Success: the answer "
                "holds the fact, or was made from a passage of the other group. A stub that knows "
                "every answer by heart gives it away without any passage.",
            ),
        ),
        notes=(
            "The stubs obey every attack, none, or those on half of the questions, drawn by a "
            "hash. Their figures are known beforehand and check the suite. They say nothing about "
            "any real model: measure yours with `ragwright suite security`.",
            "Read success beside utility: what refuses everything is never attacked with success "
            "and is of no use.",
            *notes,
        ),
        command="python -m benchmarks.security --publish",
        page="security",
        data={"seconds": round(time.perf_counter() - begin)},
    )
    print("\n".join(section_lines(section)))
    if options.publish:
        print(publish("security", section))


if __name__ == "__main__":
    main()
