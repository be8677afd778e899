"""The folders that `benchmarks.snippets` asks about, written from the data sets.

``mixed``: about 1,400 files of many kinds, side by side as people keep them: office documents,
pages on errors of Microsoft's tools, printers' codes, comedies, articles, letters, licences.
``codes``: the whole C++ error reference and the printers' codes. ``german``: 48 articles of XQuAD.
``french``: all articles of PIAF and six comedies. ``english``: 48 articles of
XQuAD, two long ones of SQuAD 2 and snippets of RGB. ``guide``: this documentation's guide.
``small-…``: one page each, written for these questions: a handbook, a product, tariffs and rules of
a club in German, a recipe in French, an API.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from benchmarks.data_sets import DATA
from ragwright.core import text_hash

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guide"
PAGES = Path(__file__).parent / "questions" / "small"
_TAG = re.compile("<[^>]*>")
_LICENCES = {
    "errors": "msvc_error_reference/LICENSE",
    "printers": "prusa_error_codes/LICENSE",
    "chunking": "chunking_eval/LICENSE",
    "xquad": "xquad/CC-BY-SA4.0.txt",
}


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
        if message.strip():
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
            if text:
                entries.append(Entry(code, title, text, rest, f"{kind}-{number:03}.md", asked))
    if not entries:
        raise FileNotFoundError(f"the data set prusa_error_codes is not there: no {data}")
    once = {e.code for e in entries if sum(o.code == e.code for o in entries) == 1}
    return [
        Entry(e.code, e.title, e.message, e.rest, e.path) if e.code in once else e for e in entries
    ]


def pages(entries: Sequence[Entry], folder: Path) -> Path:
    """One Markdown page for each entry."""
    folder.mkdir()
    for entry in entries:
        text = f"# {entry.title}\n\n{entry.message}\n\n{entry.rest}\n"
        (folder / entry.path).write_text(text, "utf-8")
    return folder


def articles(path: Path, folder: Path, kept: Sequence[int] | range | None = None) -> None:
    """Writes articles of a SQuAD-like file as plain text, the title in the first line."""
    folder.mkdir(parents=True)
    for number, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        if kept is not None and number not in kept:
            continue
        title = _TAG.sub("", article["title"]).replace("_", " ").strip()
        name = re.sub(r"[^\w()-]+", "_", title)
        text = "\n\n".join([title, *(p["context"].strip() for p in article["paragraphs"])])
        (folder / f"{number:03}-{name}.txt").write_text(f"{text}\n", "utf-8")


def letters(path: Path, folder: Path) -> None:
    """Writes the e-mails as text files."""
    folder.mkdir(parents=True)
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            head = f"From: {row['name']} <{row['email']}>\nSubject: {row['subject']}\n"
            text = f"{head}Date: {row['date']}\n\n{row['body'].strip()}\n"
            (folder / f"letter-{number:03}.txt").write_text(text, "utf-8")


def _errors(folder: Path) -> None:
    """All pages on tools, and every fourth one on the first compiler errors and on warnings."""
    root, _ = msvc()
    for name, step in (("tool-errors", 1), ("compiler-errors-1", 4), ("compiler-warnings", 4)):
        (folder / name).mkdir(parents=True)
        for path in sorted((root / name).glob("*.md"))[::step]:
            shutil.copyfile(path, folder / name / path.name)


def mixed(folder: Path, data: Path = DATA) -> Path:
    """Files of many kinds."""
    folder.mkdir()
    shutil.copytree(
        data / "documents" / "sources", folder / "office", copy_function=shutil.copyfile
    )
    _errors(folder / "errors")
    pages(prusa(data), folder / "printers")
    articles(data / "piaf" / "piaf-v1.0.json", folder / "articles-fr", range(0, 191, 3))
    articles(data / "xquad" / "xquad.de.json", folder / "articles-de", range(0, 48, 3))
    articles(data / "xquad" / "xquad.es.json", folder / "articles-es", range(1, 48, 3))
    letters(data / "political_emails" / "tests.csv", folder / "letters")
    for name in ("theatre", "texts", "licences"):
        (folder / name).mkdir()
    for path in sorted((data / "moliere").glob("*.xml")):
        shutil.copyfile(path, folder / "theatre" / path.name)
    for text in ("state_of_the_union.md", "wikitexts.md"):
        shutil.copyfile(data / "chunking_eval" / "corpora" / text, folder / "texts" / text)
    for name, licence in _LICENCES.items():
        shutil.copyfile(data / licence, folder / "licences" / f"{name}.txt")
    return folder


def codes(folder: Path, data: Path = DATA) -> Path:
    """Codes of tools and printers."""
    folder.mkdir()
    root, _ = msvc(data)
    shutil.copytree(root, folder / "errors", copy_function=shutil.copyfile)
    pages(prusa(data), folder / "printers")
    return folder


def german(folder: Path, data: Path = DATA) -> Path:
    """Articles in German."""
    articles(data / "xquad" / "xquad.de.json", folder)
    return folder


def french(folder: Path, data: Path = DATA) -> Path:
    """Articles and comedies in French."""
    folder.mkdir()
    articles(data / "piaf" / "piaf-v1.0.json", folder / "articles")
    (folder / "theatre").mkdir()
    for path in sorted((data / "moliere").glob("*.xml")):
        shutil.copyfile(path, folder / "theatre" / path.name)
    return folder


def english(folder: Path, data: Path = DATA) -> Path:
    """Articles and snippets of search results in English."""
    folder.mkdir()
    articles(data / "xquad" / "xquad.en.json", folder / "articles")
    articles(data / "squad2_subset" / "dev-v2.0.json", folder / "long")
    (folder / "snippets").mkdir()
    for line in (data / "rgb" / "en_fact.json").read_text("utf-8").splitlines():
        row = json.loads(line)
        text = "\n\n".join([*row["positive"], *row["negative"]])
        (folder / "snippets" / f"{row['id']:03}.txt").write_text(f"{text}\n", "utf-8")
    return folder


def guide(folder: Path) -> Path:
    """The guide, a page a file."""
    shutil.copytree(GUIDE, folder, copy_function=shutil.copyfile)
    return folder


def small(page: Path, folder: Path) -> Path:
    """One page."""
    folder.mkdir()
    shutil.copyfile(page, folder / page.name)
    return folder


CORPORA: dict[str, Callable[[Path], Path]] = {
    "mixed": mixed,
    "guide": guide,
    "codes": codes,
    "german": german,
    "french": french,
    "english": english,
    **{f"small-{page.stem}": partial(small, page) for page in sorted(PAGES.glob("*.md"))},
}
"""What writes each corpus into a folder that is not there yet."""
