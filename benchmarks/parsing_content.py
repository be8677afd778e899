"""Documents whose content is known, for `benchmarks.parsing`: blocks in reading order.

Text, headings, captions, list items and cells come from data sets beside the checkout: XQuAD in
English and German, PIAF in French, error codes of Prusa. The development half and the test half
share no article and no error code.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

Half: TypeAlias = Literal["development", "test"]
"""Settings are chosen on the first, figures are published from the second."""

Layout: TypeAlias = Literal["flow", "columns", "crossed", "office", "office-columns"]
"""One or two columns by Chromium; two columns drawn right before left; LibreOffice."""

LAYOUTS: tuple[Layout, ...] = ("flow", "columns", "crossed", "office", "office-columns")
LANGUAGES = ("en", "de", "fr")

_WORDS = {
    "en": {"table": "Table", "figure": "Figure", "page": "Page", "of": "of", "no": "No."},
    "de": {"table": "Tabelle", "figure": "Abbildung", "page": "Seite", "of": "von", "no": "Nr."},
    "fr": {"table": "Tableau", "figure": "Figure", "page": "Page", "of": "sur", "no": "N°"},
}
_COLUMNS = {
    "en": ("Code", "Title", "Cause and remedy", "Year", "Spring", "Autumn", "Total", "Unit"),
    "de": (
        "Code",
        "Titel",
        "Ursache und Abhilfe",
        "Jahr",
        "Frühling",
        "Herbst",
        "Summe",
        "Einheit",
    ),
    "fr": ("Code", "Titre", "Cause et remède", "Année", "Printemps", "Automne", "Total", "Unité"),
}
_FORMULAS = (
    ("<mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup>", "E=mc2"),
    (
        "<mi>y</mi><mo>=</mo><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>n</mi></mfrac>",
        "y=a+bn",
    ),
    (
        "<msub><mi>σ</mi><mi>x</mi></msub><mo>=</mo><msqrt><mrow><msup><mi>x</mi><mn>2</mn></msup>"
        "<mo>−</mo><msup><mi>μ</mi><mn>2</mn></msup></mrow></msqrt>",
        "σx=x2−μ2",
    ),
    (
        "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>"
        "<msub><mi>w</mi><mi>i</mi></msub><mo>≤</mo><mi>λ</mi>",
        "∑i=1nwi≤λ",
    ),
)


@dataclass(frozen=True)
class Cell:
    """A cell and how many columns and rows it covers."""

    text: str
    across: int = 1
    down: int = 1


@dataclass(frozen=True)
class Block:
    """One block of a document.

    Attributes:
        kind: heading, paragraph, list, table, caption, figure, note or formula.
        text: Its text; of a formula, its letters; a note's text without its number.
        level: Of a heading, from 1.
        items: Of a list.
        rows: Of a table.
        rules: How a table is drawn: grid, rows, shaded or none.
        note: Number of the footnote whose mark ends this paragraph, or of this note; 0 for none.
        markup: MathML of a formula.
    """

    kind: str
    text: str = ""
    level: int = 0
    items: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    rules: str = ""
    note: int = 0
    markup: str = ""


@dataclass(frozen=True)
class Style:
    """How a document is set: sizes in points."""

    family: str
    size: float
    steps: tuple[float, float, float]
    bold: bool
    justified: bool


@dataclass(frozen=True)
class Known:
    """A document whose content is known, in reading order, with its running lines."""

    name: str
    language: str
    layout: Layout
    blocks: tuple[Block, ...]
    head: str
    foot: str
    style: Style
    outline: bool = False
    removed: tuple[int, ...] = field(default=())

    @property
    def two_columns(self) -> bool:
        """True for a layout of two columns."""
        return self.layout in ("columns", "crossed", "office-columns")


def known_documents(half: Half, data: Path, each: int) -> list[Known]:
    """Documents of a half: ``each`` of every layout, languages in turn.

    Raises:
        FileNotFoundError: A data set does not lie beside the checkout.
    """
    articles = {language: _articles(language, data, half) for language in LANGUAGES}
    codes = _codes(data, half)
    documents = []
    for place, layout in enumerate(LAYOUTS):
        for number in range(each):
            language = LANGUAGES[(number + place) % len(LANGUAGES)]
            rng = random.Random(f"{half} {layout} {number}")
            documents.append(_document(layout, number, language, rng, (articles[language], codes)))
    return documents


Article: TypeAlias = Mapping[str, Sequence[str]]
"""Title, paragraphs, answers and questions."""


def _articles(language: str, data: Path, half: Half) -> list[Article]:
    french = data / "piaf" / "piaf-v1.0.json"
    path = french if language == "fr" else data / "xquad" / f"xquad.{language}.json"
    rest = 0 if half == "development" else 1
    articles: list[Article] = []
    for entry in json.loads(path.read_text("utf-8"))["data"][rest::2]:
        pairs = [qa for paragraph in entry["paragraphs"] for qa in paragraph["qas"]]
        answers = [" ".join(qa["answers"][0]["text"].split()) for qa in pairs if qa["answers"]]
        articles.append(
            {
                "title": [re.sub(r"<[^>]*>", "", entry["title"]).replace("_", " ")],
                "paragraphs": [_clean(p["context"]) for p in entry["paragraphs"]],
                "answers": [_clean(a) for a in answers if 1 < len(a.split()) < 9 and len(a) < 60],
                "questions": [_clean(qa["question"]) for qa in pairs],
            }
        )
    return articles


def _clean(text: str) -> str:
    return " ".join(text.replace("\ufeff", "").split())


def _codes(data: Path, half: Half) -> list[tuple[str, str, str]]:
    path = data / "prusa_error_codes" / "buddy-error-codes.yaml"
    entries = yaml.safe_load(path.read_text("utf-8"))["Errors"]
    rest = 0 if half == "development" else 1
    return [
        (entry["code"].replace("XX", "12"), _clean(entry["title"]), _clean(entry["text"])[:160])
        for entry in entries
        if entry.get("text")
    ][rest::2]


def _document(
    layout: Layout,
    number: int,
    language: str,
    rng: random.Random,
    sources: tuple[list[Article], list[tuple[str, str, str]]],
) -> Known:
    articles, codes = sources
    words = _WORDS[language]
    article = rng.choice(articles)
    title = article["title"][0].strip().capitalize() or "—"
    blocks = [Block("heading", title, level=1)]
    counts = {"table": 0, "figure": 0, "note": 0}
    pool = [a for other in rng.sample(articles, 8) for a in other["answers"]] or [title]
    texts = [p for other in rng.sample(articles, 20) for p in other["paragraphs"]]
    rng.shuffle(texts)
    questions = [q for other in rng.sample(articles, 4) for q in other["questions"]]
    numbered = rng.random() < 0.4
    taken = {title.casefold()}
    section = part = 0
    length = 0
    while length < 7500:
        level = 2 if section == 0 or rng.random() < 0.5 else 3
        section, part = (section + 1, 0) if level == 2 else (section, part + 1)
        label = f"{section} " if level == 2 else f"{section}.{part} "
        name = _heading(pool, taken, rng)
        blocks.append(Block("heading", (label if numbered else "") + name, level=level))
        parts = _section(rng, texts, (pool, questions, codes), (language, words), counts)
        blocks += parts
        length += sum(_weight(block) for block in parts)
    if layout in ("flow", "columns"):  # these have no footnotes: their pages flow freely
        blocks = [_without_note(b) for b in blocks if b.kind != "note"]
    if layout.startswith("office"):
        blocks = [b for b in blocks if b.kind != "formula"]
    return Known(
        name=f"{layout}-{number:02}",
        language=language,
        layout=layout,
        blocks=tuple(blocks),
        head=rng.choice(("{title}", "{title} · {no} 12-{n}", "")).format(
            title=title, no=words["no"], n=number
        ),
        foot=rng.choice(("{page} # {of} ##", "– # –", "#", "{title} | #")).format(
            title=title, **words
        ),
        style=Style(
            rng.choice(("Liberation Serif", "Liberation Sans", "DejaVu Serif")),
            rng.choice((9.0, 10.0, 11.0, 12.0)),
            rng.choice(((1.9, 1.45, 1.2), (1.6, 1.3, 1.0), (2.2, 1.5, 1.15), (1.5, 1.2, 1.0))),
            bold=rng.random() < 0.75,
            justified=rng.random() < 0.5,
        ),
        outline=rng.random() < 0.34,
    )


def _heading(pool: Sequence[str], taken: set[str], rng: random.Random) -> str:
    """A heading that the document has not yet; counted up where the answers are used up."""
    for _ in range(30):
        text = rng.choice(pool).strip(" .,;:«»\"'()")
        text = text[:1].upper() + text[1:]
        if len(text) > 4 and text.casefold() not in taken and text[0].isalpha():
            taken.add(text.casefold())
            return text
    text = f"{text} {len(taken)}"
    taken.add(text.casefold())
    return text


def _without_note(block: Block) -> Block:
    return Block("paragraph", block.text) if block.note else block


def _weight(block: Block) -> int:
    cells = sum(len(cell.text) + 25 for row in block.rows for cell in row)
    return len(block.text) + sum(map(len, block.items)) + cells + 500 * (block.kind == "figure")


def _section(
    rng: random.Random,
    texts: list[str],
    sources: tuple[Sequence[str], Sequence[str], list[tuple[str, str, str]]],
    wording: tuple[str, Mapping[str, str]],
    counts: dict[str, int],
) -> list[Block]:
    """One to three paragraphs and, mostly, one thing of another kind between or after them."""
    pool, questions, codes = sources
    language, words = wording
    blocks = list(_paragraphs(rng, texts, counts))
    kind = rng.choice(("table", "table", "table", "list", "figure", "formula", "", "list"))
    if kind == "list":
        items = [i[:1].upper() + i[1:] for i in rng.sample(pool, min(len(pool), rng.randint(3, 6)))]
        if rng.random() < 0.3:
            items = [rng.choice(questions) for _ in items]
        blocks.append(Block("list", items=tuple(items), rules=rng.choice(("disc", "decimal"))))
    elif kind == "formula":
        markup, letters = rng.choice(_FORMULAS)
        blocks.insert(1, Block("formula", letters, markup=markup))
    elif kind:
        counts[kind] += 1
        caption = f"{words[kind]} {counts[kind]}: {rng.choice(questions)}"
        if kind == "table":
            rows = rng.choice((_code_table, _number_table, _merged_table))(rng, codes, language)
            rules = rng.choice(("grid", "grid", "rows", "shaded", "none"))
            blocks += [Block("caption", caption), Block("table", rows=rows, rules=rules)]
            blocks.append(Block("paragraph", texts.pop()))
        else:
            blocks += [Block("figure"), Block("caption", caption)]
            blocks.append(Block("paragraph", texts.pop()))
    return blocks


def _paragraphs(rng: random.Random, texts: list[str], counts: dict[str, int]) -> Iterator[Block]:
    for _ in range(rng.randint(1, 2)):
        text = texts.pop()
        if rng.random() < 0.3 and len(text) < 1500:
            counts["note"] += 1
            yield Block("paragraph", text, note=counts["note"])
            note = rng.choice(texts).split(". ")[0][:140].rstrip(" .") + "."
            yield Block("note", note, note=counts["note"])
        else:
            yield Block("paragraph", text)


Rows: TypeAlias = tuple[tuple[Cell, ...], ...]
Codes: TypeAlias = list[tuple[str, str, str]]


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)


def _code_table(rng: random.Random, codes: Codes, language: str) -> Rows:
    chosen = rng.sample(codes, rng.randint(3, 6))
    return (_cells(*_COLUMNS[language][:3]), *(_cells(*code) for code in chosen))


def _number_table(rng: random.Random, codes: Codes, language: str) -> Rows:
    _, _, _, year, spring, autumn, total, unit = _COLUMNS[language]
    width = rng.randint(3, 5)
    head = (year, spring, autumn, total, unit)[:width]
    rows = [_cells(*head)]
    for number in range(rng.randint(4, 8)):
        figures = [f"{rng.uniform(1, 900):.1f}" for _ in range(3)]
        if rng.random() < 0.25:
            figures[rng.randrange(3)] = ""
        rows.append(_cells(*(str(2010 + number), *figures, rng.choice(("mm", "kg", "s")))[:width]))
    return tuple(rows)


def _merged_table(rng: random.Random, codes: Codes, language: str) -> Rows:
    _, title, _, year, spring, autumn, total, _ = _COLUMNS[language]
    rows: list[tuple[Cell, ...]] = [
        (
            Cell(title, down=2),
            Cell(f"{year} {rng.randint(2001, 2020)}", across=2),
            Cell(total, down=2),
        ),
        _cells(spring, autumn),
    ]
    for _ in range(rng.randint(2, 4)):
        name = rng.choice(codes)[1].capitalize()
        figures = [str(rng.randint(10, 9999)) for _ in range(5)]
        if rng.random() < 0.4:
            rows.append((Cell(name, down=2), *_cells(*figures[:3])))
            rows.append(_cells(*figures[2:]))
        else:
            rows.append(_cells(name, *figures[:3]))
    return tuple(rows)
