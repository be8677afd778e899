"""Measures of `benchmarks.parsing`: what a parser's Markdown keeps of a known document.

- words: F1 of the words as multisets; running heads and feet count as words too many.
- order: of the words that both have, the share in the longest common subsequence; footnotes are
  left out, for which parsers have different places.
- headings: F1; a heading that is kept counts a half, and whole where its level has the right rank
  among the levels of its document.
- tables: TEDS (Zhong et al. 2020), one minus the edit distance of the trees of rows and cells over
  the size of the larger tree; cells differ by the edit distance of their texts. Markdown has no
  merged cells, so text in each place or in the first place that a cell covers are both right; the
  better one counts. A table too few or too many counts 0.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser

from .parsing_content import Known

Grid = list[list[str]]

_WORD = re.compile(r"\w+")
_RULE = re.compile(r"^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")


@dataclass(frozen=True)
class Parsed:
    """Markdown of a parser, taken apart: text without tables, headings, tables, all words."""

    words: list[str]
    headings: list[tuple[int, str]]
    tables: list[Grid]
    text: str


def words_of(text: str) -> list[str]:
    """Words, letters folded, in order."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def take_apart(markdown: str) -> Parsed:
    """Read Markdown with pipe tables and HTML tables."""
    tables: list[Grid] = []

    def keep(match: re.Match[str]) -> str:
        tables.append(_html_grid(match[0]))
        return "\n" + "\n".join(" ".join(row) for row in tables[-1]) + "\n"

    plain = re.sub(r"(?is)<table.*?</table>", keep, markdown)
    lines: list[str] = []
    headings: list[tuple[int, str]] = []
    rows: Grid = []
    for line in [*plain.split("\n"), ""]:
        bare = line.strip()
        if bare.startswith("|") and bare.count("|") > 1:
            if not _RULE.match(bare):
                rows.append(_cells(bare))
                lines.append(" ".join(rows[-1]))
            continue
        if rows:
            tables.append(rows)
            rows = []
        match = _HEADING.match(bare)
        if match:
            headings.append((len(match[1]), _plain(match[2])))
        lines.append(_plain(match[2] if match else bare))
    text = "\n".join(lines)
    return Parsed(words_of(text), headings, [grid for grid in tables if grid], text)


def _cells(line: str) -> list[str]:
    inner = re.split(r"(?<!\\)\|", line.strip().strip("|") if not line.endswith("\\|") else line)
    return [_plain(cell.replace("\\|", "|").replace("<br>", " ")) for cell in inner]


def _plain(text: str) -> str:
    text = re.sub(
        r"!\[[^\]]*\]\([^)]*\)|<!--.*?-->|</?(?:sup|sub|b|i|u|span|div|p)\b[^>]*>", " ", text
    )
    text = re.sub(r"(\*\*|__|~~)", "", text)
    text = re.sub(r"(?<!\w)[*_](\S.*?)[*_](?!\w)", r"\1", text)
    text = re.sub(r"\\([\\`*_{}\[\]()#+.!|<>-])", r"\1", text)
    return " ".join(html.unescape(text).split())


class _Grid(HTMLParser):
    """Rows of an HTML table, merged cells in the first place that they cover."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, int, int]]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            sizes = dict(attrs)
            if not self.rows:
                self.rows.append([])
            across, down = (int(sizes.get(key) or 1) for key in ("colspan", "rowspan"))
            self.rows[-1].append(("", across, down))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            text, across, down = self.rows[-1][-1]
            self.rows[-1][-1] = (f"{text} {data}".strip(), across, down)


def _html_grid(markup: str) -> Grid:
    reader = _Grid()
    reader.feed(markup)
    return spread(reader.rows, repeat=False)


def spread(rows: Sequence[Sequence[tuple[str, int, int]]], *, repeat: bool) -> Grid:
    """Lay out (text, columns, rows) cells; ``repeat`` writes text in each place it covers."""
    places: dict[tuple[int, int], str] = {}
    for y, row in enumerate(rows):
        x = 0
        for text, across, down in row:
            while (y, x) in places:
                x += 1
            for dy in range(down):
                for dx in range(across):
                    places[y + dy, x + dx] = text if repeat or not (dx or dy) else ""
            x += across
    width = max((x for _, x in places), default=-1) + 1
    return [[places.get((y, x), "") for x in range(width)] for y in range(len(rows))]


def scores(known: Known, markdown: str) -> dict[str, float | None]:
    """All measures of a document; None where it has nothing of the kind."""
    parsed = take_apart(markdown)
    blocks = [_texts(known, kind) for kind in ("all", "ordered")]
    truth, ordered = (words_of(" ".join(texts)) for texts in blocks)
    both = (Counter(truth) & Counter(parsed.words)).total()
    return {
        "words": 2 * both / max(1, len(truth) + len(parsed.words)),
        "order": _order(ordered, parsed.words),
        "headings": _headings(known, parsed),
        "tables": _tables(known, parsed.tables),
        **_kept(known, parsed),
    }


def _texts(known: Known, kind: str) -> list[str]:
    texts = []
    for block in known.blocks:
        if block.kind == "note" and kind == "ordered":
            continue
        mark = f" {block.note}" if block.note and block.kind == "note" else ""
        cells = [cell.text for row in block.rows for cell in row]
        texts.append(" ".join([mark, block.text, *block.items, *cells]))
    return texts


def _order(truth: Sequence[str], read: Sequence[str]) -> float:
    """Share of common words in a longest common subsequence."""
    both = (Counter(truth) & Counter(read)).total()
    return common_length(truth, read) / both if both else 0.0


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, by bits (Hyyrö 2004)."""
    masks: dict[str, int] = {}
    for place, word in enumerate(first):
        masks[word] = masks.get(word, 0) | 1 << place
    full = (1 << len(first)) - 1
    state = full
    for word in second:
        hits = state & masks.get(word, 0)
        state = ((state + hits) | (state - hits)) & full
    return len(first) - state.bit_count()


def _headings(known: Known, parsed: Parsed) -> float | None:
    truth = [(block.level, block.text) for block in known.blocks if block.kind == "heading"]
    if not truth:
        return None if not parsed.headings else 0.0
    ranks = [sorted({level for level, _ in headings}) for headings in (truth, parsed.headings)]
    rest = list(parsed.headings)
    credit = 0.0
    for level, text in truth:
        near = [entry for entry in rest if _like(entry[1], text) > 0.85]
        right = [e for e in near if ranks[1].index(e[0]) == ranks[0].index(level)]
        if near:
            rest.remove((right or near)[0])
            credit += 1.0 if right else 0.5
    return 2 * credit / (len(truth) + len(parsed.headings))


@lru_cache(maxsize=200_000)
def _like(first: str, second: str) -> float:
    if first == second:
        return 1.0
    left, right = (" ".join(words_of(text)) for text in (first, second))
    longest = max(len(left), len(right))
    return 1.0 - edits(left, right) / longest if longest else 1.0


def edits(first: str, second: str) -> int:
    """Levenshtein distance."""
    if first == second:
        return 0
    before = list(range(len(second) + 1))
    for y, letter in enumerate(first, 1):
        row = [y]
        for x, other in enumerate(second, 1):
            row.append(min(before[x] + 1, row[-1] + 1, before[x - 1] + (letter != other)))
        before = row
    return before[-1]


def _tables(known: Known, tables: Sequence[Grid]) -> float | None:
    truth = [block.rows for block in known.blocks if block.kind == "table"]
    if not truth:
        return None if not tables else 0.0
    pairs = []
    for number, rows in enumerate(truth):
        spans = [[(cell.text, cell.across, cell.down) for cell in row] for row in rows]
        grids = [spread(spans, repeat=repeat) for repeat in (False, True)]
        for other, table in enumerate(tables):
            if _shares(grids[0], table):
                pairs.append((max(teds(grid, table) for grid in grids), number, other))
    total, used = 0.0, (set[int](), set[int]())
    for score, number, other in sorted(pairs, reverse=True):
        if number not in used[0] and other not in used[1]:
            used[0].add(number)
            used[1].add(other)
            total += score
    return total / max(len(truth), len(tables))


def _shares(first: Grid, second: Grid) -> bool:
    left, right = (set(words_of(" ".join(map(" ".join, grid)))) for grid in (first, second))
    return len(left & right) > 0.2 * len(left)


def teds(first: Grid, second: Grid) -> float:
    """Tree edit distance similarity of two tables.

    Both trees have three levels (table, rows, cells), and an edit of one level is never cheaper
    for changing places with another, so rows are aligned by the cost of aligning their cells.
    """
    sizes = [1 + sum(1 + len(row) for row in grid) for grid in (first, second)]
    costs = [[_align(row, other) for other in second] for row in first]
    before = [0.0]
    for row in second:
        before.append(before[-1] + 1 + len(row))
    for y, row in enumerate(first):
        line = [before[0] + 1 + len(row)]
        for x, other in enumerate(second):
            line.append(
                min(
                    before[x + 1] + 1 + len(row),
                    line[-1] + 1 + len(other),
                    before[x] + costs[y][x],
                )
            )
        before = line
    return 1.0 - before[-1] / max(sizes)


def _align(row: Sequence[str], other: Sequence[str]) -> float:
    before = [float(x) for x in range(len(other) + 1)]
    for cell in row:
        line = [before[0] + 1]
        for x, second in enumerate(other):
            line.append(min(before[x + 1] + 1, line[-1] + 1, before[x] + 1 - _like(cell, second)))
        before = line
    return before[-1]


def _kept(known: Known, parsed: Parsed) -> dict[str, float | None]:
    """Shares of running lines that stayed, captions whole in a block, notes apart from others."""
    blocks = [" ".join(words_of(part)) for part in re.split(r"\n\s*\n", parsed.text)]
    captions = [" ".join(words_of(b.text)) for b in known.blocks if b.kind == "caption"]
    notes = [" ".join(words_of(b.text)) for b in known.blocks if b.kind == "note"]
    return {
        "captions": _share([any(block == text for block in blocks) for text in captions]),
        "notes": _share([any(_is_note(block, text) for block in blocks) for text in notes]),
    }


def _is_note(block: str, text: str) -> bool:
    return block.endswith(text) and len(block) < len(text) + 6


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
