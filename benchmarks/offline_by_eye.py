"""One hundred answers without a model, read one by one, and the counts of the verdicts.

    python -m benchmarks.offline_by_eye > answers.txt          # draws and prints the answers
    python -m benchmarks.offline_by_eye --publish VERDICTS     # counts them; writes docs/results/

Sample (seed 2311): 25 questions about codes of the held-out half of Microsoft's C++ reference (four
forms by turns), 20 about Prusa's codes, 20 of SQuAD 2 and 15 of PIAF from the reported articles,
each article one Markdown file of a project, and the 20 questions below about this documentation's
guide, 3 of which the guide does not answer. They were written before any answer was seen.

VERDICTS holds one JSON object a line: ``number``, ``digest`` (both as printed), ``verdict``
(``right``, ``partly``, ``wrong``, ``refused rightly``, ``refused wrongly``), ``complete``,
``readable``, and for the worst ``reason`` and ``worst``, their place from 1. An answer whose digest
changed since it was read counts as ``unread``.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data_sets import DATA
from benchmarks.extractive import Paragraph, Question, develops, load
from benchmarks.offline_answers import FORMS, held_out, msvc, pages, prusa
from benchmarks.publish import Row, Section, Table, publish
from ragwright.core import Answer, text_hash
from ragwright.workbench import Workbench

SEED = 2311
VERDICTS = ("right", "partly", "wrong", "refused rightly", "refused wrongly")
GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guide"
GUIDE_QUESTIONS = (
    "How do I resume an evaluation after a crash?",
    "What is reciprocal rank fusion?",
    "When does ragwright abstain?",
    "How can I limit the cost of a run?",
    "What does exit code 101 mean?",
    "How do I add a persona?",
    "What is a chunk?",
    "When is a reply reused from the cache?",
    "How are scanned PDF files read?",
    "What does the gate command compare?",
    "How do I ingest a web page?",
    "What is stored in the folder .ragwright/data?",
    "How do I filter hits by metadata?",
    "When should I use LanceDB?",
    "What is nDCG?",
    "How do I fine-tune an embedding model?",
    "What happens if a judge's reply cannot be parsed?",
    "Who won the world cup in 1998?",
    "How tall is the Eiffel Tower?",
    "When was the Battle of Hastings fought?",
)
GUIDE_UNANSWERABLE = frozenset(GUIDE_QUESTIONS[-3:])


@dataclass(frozen=True)
class Asked:
    """A question with what answers it; ``gold`` is empty where nothing does."""

    group: str
    text: str
    gold: str


def codes(folder: Path) -> Iterator[tuple[Path, list[Asked]]]:
    """Questions about codes: two projects."""
    draw = random.Random(SEED)
    root, entries = msvc()
    chosen = draw.sample([entry for entry in entries if held_out(entry)], 25)
    yield (
        root,
        [
            Asked("msvc", FORMS[i % len(FORMS)].format(entry.subject), entry.message)
            for i, entry in enumerate(chosen)
        ],
    )
    every = prusa()
    yield (
        pages(every, folder / "prusa"),
        [Asked("prusa", FORMS[0].format(e.subject), e.message) for e in draw.sample(every, 20)],
    )


def reading(folder: Path) -> Iterator[tuple[Path, list[Asked]]]:
    """Questions of reading tests: two projects, an article a file."""
    draw = random.Random(SEED)
    for name, path, size in (
        ("squad2", "squad2_subset/dev-v2.0.json", 20),
        ("piaf", "piaf/piaf-v1.0.json", 15),
    ):

        def reported(title: str, name: str = name) -> bool:
            return not develops(name, title)

        paragraphs, questions = load(DATA / path, reported)
        asked = [
            Asked(name, question.text, _gold(question, paragraphs))
            for question in draw.sample(questions, size)
        ]
        yield articles(paragraphs, folder / name), asked


def _gold(question: Question, paragraphs: Sequence[Paragraph]) -> str:
    text = paragraphs[question.paragraph].text
    return " / ".join(dict.fromkeys(text[start:end] for start, end in question.answers))


def articles(paragraphs: Sequence[Paragraph], folder: Path) -> Path:
    """One Markdown file for each article."""
    folder.mkdir()
    texts: dict[str, list[str]] = {}
    for paragraph in paragraphs:
        texts.setdefault(paragraph.title, []).append(paragraph.text)
    for number, (title, held) in enumerate(texts.items()):
        text = "\n\n".join([f"# {title}", *held])
        (folder / f"{number:03}.md").write_text(f"{text}\n", "utf-8")
    return folder


def drawn(folder: Path) -> Iterator[tuple[Path, list[Asked]]]:
    """All projects' sources with the questions asked of them."""
    yield from codes(folder)
    yield from reading(folder)
    asked = [Asked("guide", q, "" if q in GUIDE_UNANSWERABLE else "-") for q in GUIDE_QUESTIONS]
    yield GUIDE, asked


def answered() -> list[tuple[Asked, Answer]]:
    """The answers of projects with default settings, in the order of the sample."""
    answers = []
    with tempfile.TemporaryDirectory() as name:
        for number, (source, asked) in enumerate(drawn(Path(name))):
            project = Path(name) / f"project-{number}"
            project.mkdir()
            (project / "ragwright.yaml").write_text(f"sources: [{source}]\n", "utf-8")
            with Workbench.open(project) as bench:
                bench.ingest()
                answers += [(question, bench.ask(question.text)) for question in asked]
    return answers


def digest(answer: Answer) -> str:
    """What a verdict is bound to: the answer's text."""
    return text_hash(answer.text)[:8]


def counted(
    answers: Sequence[tuple[Asked, Answer]], verdicts: Sequence[dict[str, object]]
) -> Table:
    """The counts of every group, and of all."""
    read = {(v["number"], v["digest"]): v for v in verdicts}
    counts: dict[str, Counter[str]] = {}
    for number, (asked, answer) in enumerate(answers, 1):
        verdict = read.get((number, digest(answer)), {"verdict": "unread"})
        marks = [mark for mark in ("complete", "readable") if verdict.get(mark)]
        for group in (asked.group, "all"):
            counts.setdefault(group, Counter()).update(
                ["read", str(verdict["verdict"]), *marks, *(["answered"] * (not answer.abstained))]
            )
    columns = ("read", "answered", *VERDICTS, "complete", "readable")
    names = [*(group for group in counts if group != "all"), "all"]
    rows: list[Row] = []
    for group in names:
        unread = {"unread": counts[group]["unread"]} if counts["all"]["unread"] else {}
        rows.append({"questions": group, **{c: counts[group][c] for c in columns}, **unread})
    return Table(rows, "Verdicts")


def worst(answers: Sequence[tuple[Asked, Answer]], verdicts: Sequence[dict[str, object]]) -> Table:
    """The worst answers with the reader's reasons."""
    rows: list[Row] = []
    for verdict in sorted(
        (v for v in verdicts if "worst" in v), key=lambda v: int(str(v["worst"]))
    ):
        asked, answer = answers[int(str(verdict["number"])) - 1]
        same = digest(answer) == verdict["digest"]
        rows.append(
            {
                "question": asked.text,
                "verdict": str(verdict["verdict"]) if same else "unread",
                "reason": str(verdict["reason"]),
            }
        )
    return Table(rows, "The ten worst")


NOTES = (
    "The sample was drawn with seed 2311; the 20 questions about the guide were written by hand "
    "before any answer was seen, 3 of them without an answer there. A language model read every "
    "answer once, beside the message or the gold answer, or beside the guide. No second reader "
    "checked it.",
    "*Partly*: something right, with a part missing or a sentence that does not belong to it. "
    "*Complete*: holds most of the message or all of the gold answer. *Readable*: no fragment, "
    "broken table or sentence that points at a missing one; counted for answers only. Questions "
    "of SQuAD 2 and PIAF are asked of whole articles, not of the gold paragraph.",
    "The 3 questions without an answer in the guide were refused since the index holds none of "
    "their words, so that they say little about the score.",
    "On the guide, most wrong answers share words with the question and are about something else: "
    "*how do I* and *when does* are weaker than questions for a definition.",
)
"""Notes on the tables; the last two are about the verdicts of 23 November 2026."""


def main() -> None:
    """Print the answers, or count the verdicts and publish them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publish", type=Path, metavar="VERDICTS", help="JSON lines of verdicts")
    given = parser.parse_args()
    answers = answered()
    if not given.publish:
        for number, (asked, answer) in enumerate(answers, 1):
            state = "abstained" if answer.abstained else "answered"
            print(f"\n#{number} {digest(answer)} [{asked.group}] {state}\nQ {asked.text}")
            print(f"G {asked.gold or '(nothing answers it)'}\nA {answer.text}\nN {answer.notes[0]}")
        return
    verdicts = [json.loads(line) for line in given.publish.read_text("utf-8").splitlines()]
    tables = [counted(answers, verdicts), worst(answers, verdicts)]
    command = "python -m benchmarks.offline_by_eye --publish VERDICTS"
    section = Section(
        "Read by eye", tables, NOTES, command, page="offline", order=15, data=verdicts
    )
    print(publish("offline-by-eye", section))


if __name__ == "__main__":
    main()
