"""Answers without a model: "What does CODE mean?" should quote the message of the code's page.

    python -m benchmarks.offline_answers                # the development half; prints
    python -m benchmarks.offline_answers --held-out     # the other half and Prusa; prints
    python -m benchmarks.offline_answers --publish      # the same, and writes docs/results/
    python -m benchmarks.offline_answers --show 20      # also prints so many answers, to be read
    python -m benchmarks.offline_answers --against SRC  # time beside another copy of the sources

``msvc``: all pages of Microsoft's C++ error reference are ingested as they are, with the defaults
of a project. 80 pages (seed 16) are asked about, of those that explain one code and open with a
message. Their file names are split by hash: rules were written on the development half only.
``prusa``: error codes of 3D printers, one Markdown page an entry; no rule was written on them.
The message is an entry's text, and the printer is named where a code means several things.

An answer counts as *most of the message* if it holds 60 % of the message's content words (stems,
without stop words). *Plain words* is a second rule of counting: lower-case words of three letters
or more. The development half is also laid out as one page of sections, as a table and as a list.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import yaml

from benchmarks.data_sets import DATA
from benchmarks.publish import Row, Section, Table, publish
from ragwright.core import Answer, text_hash
from ragwright.models import Analyzer, AnalyzerOptions, words
from ragwright.workbench import Workbench

SAMPLE, SEED = 80, 16
SHARE = 0.6
_ANALYZER = Analyzer(AnalyzerOptions(language="en"))


@dataclass(frozen=True)
class Entry:
    """A code with its title, its message, the rest of its page, and the file that explains it."""

    code: str
    title: str
    message: str
    rest: str
    path: str
    asked: str = ""

    @property
    def subject(self) -> str:
        """What a question names."""
        return self.asked or self.code


@dataclass(frozen=True)
class Setting:
    """A folder of documents, and the questions asked about them with the entries they are about."""

    name: str
    folder: Path
    asked: Sequence[tuple[str, Entry]]


@dataclass(frozen=True)
class Outcome:
    """An answer to a question about an entry, judged by its words."""

    entry: Entry
    answer: Answer

    @property
    def first(self) -> bool:
        """The entry's own document was found first."""
        return bool(self.answer.hits) and self.answer.hits[0].source.endswith(self.entry.path)

    def most(self) -> bool:
        """The answer holds 60 % of the content words of the message."""
        return not self.answer.abstained and _share(stems, self.entry.message, self.answer.text)

    def plainly(self) -> bool:
        """The same by plain words of three letters or more."""
        return not self.answer.abstained and _share(plain, self.entry.message, self.answer.text)


def stems(text: str) -> set[str]:
    """Content words of a text: stems, without stop words."""
    return set(_ANALYZER.query_tokens(text))


def plain(text: str) -> set[str]:
    """Lower-case words of three letters or more."""
    return {word for word in map(str.casefold, words(text)) if len(word) > 2}


def _share(cut: object, message: str, text: str) -> bool:
    assert callable(cut)
    wanted = cut(message)
    return len(wanted & cut(text)) >= SHARE * len(wanted)


def msvc(data: Path = DATA) -> tuple[Path, list[Entry]]:
    """The folder of the reference, and its pages that explain one code and open with a message."""
    root = data / "msvc_error_reference" / "docs" / "error-messages"
    entries = []
    for path in sorted(root.glob("*/*.md")):
        text = path.read_text("utf-8", errors="replace").lstrip("\ufeff")
        key = re.search(r"^f1_keywords:\s*(\[.*?\])", text, re.MULTILINE | re.DOTALL)
        codes = re.findall(r"[A-Z]{1,6}\d{1,6}", key[1]) if key else []
        match = re.search(r"^# (.*)\n+((?:>.*\n?)+)", text, re.MULTILINE)
        if len(codes) != 1 or match is None:
            continue
        message = " ".join(line.lstrip("> ").rstrip("\\ ") for line in match[2].splitlines())
        if stems(message):
            name = str(path.relative_to(root))
            entries.append(Entry(codes[0], match[1], message, text[match.end() :], name))
    if not entries:
        raise FileNotFoundError(f"the data set msvc_error_reference is not there: no {root}")
    return root, entries


def held_out(entry: Entry) -> bool:
    """True for the half of the pages that no rule was written on, by hash of the file name."""
    return int(text_hash(Path(entry.path).name)[0], 16) % 2 == 1


def prusa(data: Path = DATA) -> list[Entry]:
    """The printers' entries; where a code means several things, a printer is named."""
    entries: list[Entry] = []
    for path in sorted((data / "prusa_error_codes").glob("*.yaml")):
        kind = path.stem.partition("-")[0]
        for number, entry in enumerate(yaml.safe_load(path.read_text("utf-8"))["Errors"]):
            printers = entry.get("printers") or (["MMU"] if kind == "mmu" else [])
            rest = f"Printers: {', '.join(printers)}" if printers else "All printers"
            code, text = str(entry["code"]), " ".join(str(entry["text"]).split())
            asked = f"{code} on the {printers[0]}" if printers else code
            title = f"{code} {' '.join(str(entry['title']).split())}"
            if stems(text):
                entries.append(Entry(code, title, text, rest, f"{kind}-{number:03}.md", asked))
    if not entries:
        raise FileNotFoundError(f"the data set prusa_error_codes is not there: no {data}")
    once = {e.code for e in entries if sum(o.code == e.code for o in entries) == 1}
    return [
        Entry(e.code, e.title, e.message, e.rest, e.path) if e.code in once else e for e in entries
    ]


FORMS = (
    "What does {} mean?",
    "What is {}?",
    "I see error {}. What does it mean?",
    "Explain error {}.",
)


def _asked(entries: Sequence[Entry], form: str = FORMS[0]) -> list[tuple[str, Entry]]:
    chosen = random.Random(SEED).sample(list(entries), min(SAMPLE, len(entries)))
    return [(form.format(entry.subject), entry) for entry in chosen]


def _whole(folder: Path, name: str, text: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries, explained in one file."""
    folder.mkdir()
    (folder / name).write_text(text, "utf-8")
    return [replace(entry, path=name) for entry in entries]


def layouts(entries: Sequence[Entry], folder: Path) -> Iterator[Setting]:
    """The entries as sections of one page, as rows of a table and as items of a list."""
    texts = {
        "sections": "\n\n".join(f"## {e.title}\n\n{e.message}\n{e.rest}" for e in entries),
        "table": "| Code | Message |\n|---|---|\n"
        + "\n".join(f"| {e.code} | {e.message.replace('|', '/')} |" for e in entries),
        "list": "The compiler reports these errors:\n\n"
        + "\n".join(f"- `{e.code}`: {e.message}" for e in entries),
    }
    for name, text in texts.items():
        own = _whole(folder / name, f"{name}.md", f"# Errors\n\n{text}\n", entries)
        yield Setting(f"msvc as {name}", folder / name, _asked(own))


def pages(entries: Sequence[Entry], folder: Path) -> Path:
    """One Markdown page for each entry."""
    folder.mkdir()
    for entry in entries:
        text = f"# {entry.title}\n\n{entry.message}\n\n{entry.rest}\n"
        (folder / entry.path).write_text(text, "utf-8")
    return folder


def settings(unseen: bool, folder: Path) -> Iterator[Setting]:
    """What is asked: the development half, or the held-out half and Prusa."""
    root, every = msvc()
    mine = [entry for entry in every if held_out(entry) == unseen]
    for form in FORMS:
        yield Setting(f"msvc, {form.format('CODE')}", root, _asked(mine, form))
    if unseen:
        entries = prusa()
        yield Setting("prusa", pages(entries, folder / "prusa"), _asked(entries))
    else:
        yield from layouts(mine, folder)


def outcomes(setting: Setting, folder: Path) -> list[Outcome]:
    """The answers of a project with default settings."""
    folder.mkdir(exist_ok=True)
    (folder / "ragwright.yaml").write_text(f"sources: [{setting.folder}]\n", "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        return [Outcome(entry, bench.ask(question)) for question, entry in setting.asked]


def figures(name: str, results: Sequence[Outcome]) -> Row:
    """The counts of a setting."""
    given = [outcome for outcome in results if not outcome.answer.abstained]
    size = sum(len(words(outcome.answer.text)) for outcome in given) / max(1, len(given))
    return {
        "questions about": name,
        "asked": len(results),
        "right page first": sum(outcome.first for outcome in results),
        "answered": len(given),
        "most of the message": sum(outcome.most() for outcome in results),
        "by plain words": sum(outcome.plainly() for outcome in results),
        "words": f"{size:.0f}",
    }


def measured(unseen: bool, show: int) -> list[Row]:
    """The figures of every setting, printed as they come."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for setting in settings(unseen, folder):
            project = folder / f"project-{text_hash(str(setting.folder))[:8]}"
            results = outcomes(setting, project)
            rows.append(figures(setting.name, results))
            print(rows[-1], flush=True)
            for outcome in islice(results, show):
                answer = outcome.answer
                mark = "abstained" if answer.abstained else "most" if outcome.most() else "little"
                print(f"\n[{mark}] {answer.question}\n  message: {outcome.entry.message}")
                print(f"  answer: {answer.text}\n  notes: {answer.notes}")
    return rows


def clock(folder: Path) -> float:
    """Milliseconds of processor time an answer takes, the fastest of three, over 40 questions."""
    root, every = msvc()
    folder.mkdir(exist_ok=True)
    (folder / "ragwright.yaml").write_text(f"sources: [{root}]\n", "utf-8")
    asked = [question for question, _ in _asked([e for e in every if not held_out(e)])][:40]
    guide = Path(__file__).resolve().parents[1] / "docs" / "guide"
    total = 0.0
    with Workbench.open(folder) as bench:
        bench.ingest(root, guide)
        titles = [d.title for d in bench.documents() if "guide" in d.id]
        asked += [f"How does {title} work?" for title in sorted(titles)][:40]
        for question in asked:
            took = []
            for _ in range(3):
                begun = time.process_time()
                bench.ask(question)
                took.append(time.process_time() - begun)
            total += min(took)
    return 1000 * total / len(asked)


def against(sources: Path, rounds: int = 7) -> Row:
    """Ours and another copy of the sources by turns, each in a process of its own."""
    here = Path(__file__).resolve().parents[1]
    times: dict[str, list[float]] = {"other": [], "ours": []}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds):
            for who, path in (("other", sources), ("ours", here / "src")):
                command = [sys.executable, "-m", "benchmarks.offline_answers", "--clock"]
                environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{here}"}
                done = subprocess.run(
                    [*command, f"{name}/{who}"],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                    cwd=here,
                )
                times[who].append(float(done.stdout))
    ratios = [ours / other for ours, other in zip(times["ours"], times["other"], strict=True)]
    return {
        "rounds": rounds,
        "other, ms": statistics.median(times["other"]),
        "ours, ms": statistics.median(times["ours"]),
        "ours : other, median": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


NOTES = (
    "*Most of the message*: 60 % of its content words (stems, without stop words); *by plain "
    "words*: of its words of three letters or more.",
    "Rules were written on the development half of Microsoft's pages (split by hash of the file "
    "name). Prusa's entries were seen by no rule. Three of its questions name a code that another "
    "printer uses as well, and no printer.",
    "Before units were quoted, *What does CODE mean?* was answered 28 times, 6 times with most of "
    "the message; on Prusa 21 and 0 times (the same 160 questions, commit d7667db).",
    "100 answers of the unseen pages and entries were read: all 80 to *What does CODE mean?* on "
    "Microsoft's pages, and the first 20 on Prusa's entries. 96 were right, 3 partly (the message, "
    "and a sentence that does not belong to it), 1 wrong (another printer's code), 0 abstained.",
)


def main() -> None:
    """Measure, and publish where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--held-out", action="store_true", help="the unseen half, and Prusa")
    parser.add_argument("--publish", action="store_true", help="write docs/results/ (held out)")
    parser.add_argument("--show", type=int, default=0, help="answers of each setting to print")
    parser.add_argument("--against", type=Path, help="another copy of src/, to compare times")
    parser.add_argument("--clock", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.clock:
        print(clock(given.clock))
        return
    if given.against:
        row = against(given.against)
        print(row)
        if given.publish:
            note = "Processor time of one `ask` in Python, by turns with the sources without units."
            command = "python -m benchmarks.offline_answers --against SRC --publish"
            section = Section("Time", [Table([row])], (note,), command, page="offline", order=30)
            print(publish("offline-time", section))
        return
    rows = measured(given.held_out or given.publish, given.show)
    if given.publish:
        command = "python -m benchmarks.offline_answers --publish"
        section = Section("Codes", [Table(rows)], NOTES, command, page="offline", order=10)
        print(publish("offline-codes", section))


if __name__ == "__main__":
    main()
