"""PDF pages put right: columns, tables without rules, running lines, headings."""

from __future__ import annotations

from collections.abc import Sequence

from made_files import lines, pdf

from ragwright.ingest import Extract, SourceOptions, extract_bytes

LONG = "words that fill the whole width of a line of running text"


def shown(x: int, y: int, text: str, size: int = 12) -> str:
    return f"BT /F {size} Tf {x} {y} Td ({text}) Tj ET\n"


def read(*pages: str) -> Extract:
    return extract_bytes("made.pdf", pdf(pages), SourceOptions(ocr="never"))


def column(x: int, words: Sequence[str], top: int = 700) -> str:
    return "".join(shown(x, top - 15 * n, word) for n, word in enumerate(words))


def test_a_table_without_rules_is_a_table_and_its_cells_may_have_two_lines() -> None:
    rows = [("Code", "Meaning", "Days"), ("E1", "Oil is low", "3"), ("E2", "Belt is worn", "10")]
    page = shown(50, 740, LONG)
    for n, row in enumerate(rows):
        for x, cell in zip((50, 150, 300), row, strict=True):
            page += shown(x, 700 - 24 * n, cell)
    page += shown(150, 700 - 48 - 14, "or missing") + shown(50, 600, LONG)
    text = read(page).text
    assert "| Code | Meaning | Days |\n| - | - | - |\n| E1 | Oil is low | 3 |\n" in text
    assert "| E2 | Belt is worn or missing | 10 |" in text
    assert text.startswith(LONG)
    assert text.endswith(LONG)


def test_words_of_stretched_lines_and_of_lists_are_no_table() -> None:
    stretched = "".join(
        shown(x + 3 * n, 700 - 15 * n, word)
        for n, words in enumerate(("some plain words", "that were drawn", "wide apart here"))
        for x, word in zip((50, 130, 210), words.split(), strict=True)
    )
    listed = "".join(shown(50, 500 - 15 * n, f"{n}.") + shown(80, 500 - 15 * n, "a thing")
                     for n in range(1, 5))  # fmt: skip
    assert "|" not in read(stretched + listed).text


def test_columns_that_were_drawn_crosswise_are_read_in_order() -> None:
    left = column(50, [f"left {n} and more words" for n in range(6)])
    right = column(320, [f"right {n} and more words" for n in range(6)])
    for drawn in (left + right, right + left):
        text = read(shown(50, 740, LONG) + drawn).text
        places = [text.index(word) for word in ("fill", "left 0", "left 5", "right 0", "right 5")]
        assert places == sorted(places)


def test_running_lines_and_page_numbers_are_metadata_once_not_text() -> None:
    pages = [
        shown(50, 780, "Handbook of pumps")
        + lines(f"Page text number {n}: {LONG}")
        + shown(280, 20, f"Page {n} of 3")
        for n in (1, 2, 3)
    ]
    extract = read(*pages)
    assert "Handbook" not in extract.text
    assert "of 3" not in extract.text
    assert extract.text.count(LONG) == 3
    assert extract.metadata["running_lines"] == ("Handbook of pumps",)
    assert len(extract.pages) == 3


def test_a_line_at_the_top_that_does_not_repeat_stays() -> None:
    extract = read(*(shown(50, 780, f"{word} opens") + lines(LONG) for word in ("One", "Two")))
    assert "One opens" in extract.text
    assert "Two opens" in extract.text
    assert "running_lines" not in extract.metadata


def test_a_caption_of_the_same_letters_stands_apart_after_a_gap() -> None:
    page = lines(LONG, LONG, "ends here.", top=700) + shown(50, 635, "Figure 3: The pump")
    page += shown(50, 600, "Text goes on below it.")
    assert "\n\nFigure 3: The pump\n\n" in read(page).text


def test_headings_rank_by_size() -> None:
    page = shown(50, 740, "The handbook", 24) + lines(LONG, LONG, top=700)
    page += shown(50, 640, "The pump", 18) + lines(LONG, LONG, top=610)
    sections = [(s.title, s.level) for s in read(page).sections]
    assert sections == [("The handbook", 1), ("The pump", 2)]


def test_the_rest_of_a_table_on_the_next_page_has_its_head_again() -> None:
    rows = [
        [("Code", "Meaning", "Days"), ("E1", "Oil low", "3")],
        [("E2", "Worn", "4"), ("E3", "Wet", "5")],
    ]
    pages = []
    for part in rows:
        page = ""
        for n, row in enumerate(part):
            for x, cell in zip((50, 150, 300), row, strict=True):
                page += shown(x, 500 - 24 * n, cell)
        pages.append(page)
    assert "| Code | Meaning | Days |\n| - | - | - |\n| E2 | Worn | 4 |" in read(*pages).text
