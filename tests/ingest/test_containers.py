"""Notebooks, JSON, tables of text, marked-up text and front matter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from one_file import read, read_all

PICTURE = "iVBORw0KGgo" * 40


def cell(kind: str, source: str, *outputs: object) -> dict[str, object]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": list(outputs)}


def test_a_notebook_is_its_cells_and_what_they_print(tmp_path: Path) -> None:
    shown = {"text/html": "<style>x</style><table><tr><th>lot</th></tr><tr><td>7</td></tr></table>"}
    notebook = {
        "cells": [
            cell("markdown", "# Größe\n\nThe flow is 12."),
            cell("code", "print(1)", {"output_type": "stream", "text": ["one\n", "two\n"]}),
            cell("code", "df", {"data": shown | {"text/plain": ["lot"]}}),
            cell("code", "plot()", {"data": {"image/png": PICTURE}}),
            cell("code", "1/0", {"ename": "ZeroDivisionError", "evalue": "\x1b[31mzero\x1b[0m"}),
            cell("raw", "A raw note."),
        ],
        "metadata": {"language_info": {"name": "python"}},
    }
    notebook["cells"][1]["outputs"][0] = {"data": {"text/plain": "one\ntwo\n"}}  # type: ignore[index]
    document, (warning,) = read(tmp_path, "a.ipynb", json.dumps(notebook))
    for words in (
        "# Größe",
        "```python\nprint(1)\n```",
        "one\ntwo",
        "| 7 |",
        "ZeroDivisionError: zero",
    ):
        assert words in document.text
    for noise in ("cell_type", "iVBOR", "<table", "\\u00f6", "[31m"):
        assert noise not in document.text
    assert [section.title for section in document.sections] == ["Größe"]
    assert "1 image" in str(warning.error)


@pytest.mark.parametrize("data", ['{"worksheets": [{"cells": []}], "nbformat": 3}', "{", "[]"])
def test_a_notebook_of_version_3_or_a_damaged_one_says_what_to_do(
    data: str, tmp_path: Path
) -> None:
    documents, (failure,) = read_all(tmp_path, "b.ipynb", data)
    assert not documents
    assert "not a notebook of version 4" in str(failure.error)
    assert "Jupyter" in str(failure.error.hint)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson", "a.geojson"])
def test_codes_of_json_become_characters(tmp_path: Path, name: str) -> None:
    value = {"titre": "Pompe à chaleur", "朝": "漏れ\nligne", "s": 'C:\\dir "x" 😀', "p": "a/b"}
    text = read(tmp_path, name, json.dumps(value).replace("/", "\\/"))[0].text
    for words in ("Pompe à chaleur", '"朝": "漏れ', "ligne", 'C:\\\\dir \\"x\\" 😀', "a/b"):
        assert words in text
    assert "\\u" not in text
    assert "nligne" not in text
    by_line = name in ("a.jsonl", "a.ndjson")
    assert len(text.splitlines()) == 1 + (not by_line)


@pytest.mark.parametrize(
    ("name", "text", "heads"),
    [
        (
            "a.rst",
            "======\nManual\n======\n\nIntro\n-----\n\nText\n\n.. note\n   ----\n\n"
            "Oil\n~~~\n\nLast\n----\n",
            [("Manual", 1), ("Intro", 2), ("Oil", 3), ("Last", 2)],
        ),
        (
            "a.adoc",
            "= Manual\n:toc:\n\n== Oil ==\n\n----\n== no\n----\n\n=== ISO 46\n",
            [("Manual", 1), ("Oil", 2), ("ISO 46", 3)],
        ),
        (
            "a.org",
            "#+TITLE: Manual\n* TODO [#A] Oil  :ops:\n#+BEGIN_SRC c\n* no\n#+END_SRC\n** ISO 46\n",
            [("Oil", 1), ("ISO 46", 2)],
        ),
        ("a.wiki", "== Oil ==\ntext\n=== ISO 46 ===\n", [("Oil", 2), ("ISO 46", 3)]),
        ("a.tex", "\\section{Oil}\ntext\n\\subsection*{ISO 46}\n", [("Oil", 2), ("ISO 46", 3)]),
        ("a.txt", "Oil\n===\n\n= no =\n", []),
    ],
)
def test_headings_of_marked_up_text(
    tmp_path: Path, name: str, text: str, heads: list[tuple[str, int]]
) -> None:
    document, _ = read(tmp_path, name, text)
    assert [(section.title, section.level) for section in document.sections] == heads
    assert document.text == text


@pytest.mark.parametrize(
    ("text", "shown", "warned"),
    [
        ("sep=;\nA;B\n1,5;2\n", "| A | B |\n| - | - |\n| 1,5 | 2 |", False),
        ("SEP=\t\r\nA\tB\r\n1\t2\r\n", "| A | B |\n| - | - |\n| 1 | 2 |", False),
        ("From X\nMade;9 May\n\nA;B;C\n1;2;3\n", "From X\nMade 9 May\n\n| A | B | C |", False),
        ("From X;;\nA;B;C\n1;2;3\n", "From X\n\n| A | B | C |", False),
        ("From X\nA,B\n1,2\n3,4\n", "From X\n\n| A | B |", False),
        ("A,B\n1,2\n3,4\n", "| A | B |\n| - | - |\n| 1 | 2 |", False),
        ("A,B\nx\n1,2\n3,4\n", "| A | B |\n| - | - |\n| x |  |", True),
        ("Name\nAnn\nBob\n", "| Name |\n| - |\n| Ann |", False),
    ],
)
def test_lines_above_a_table(tmp_path: Path, text: str, shown: str, warned: bool) -> None:
    document, warnings = read(tmp_path, "a.csv", text)
    assert document.text.startswith(shown)
    assert bool(warnings) == warned


def test_a_row_below_a_preamble_is_named_by_its_line(tmp_path: Path) -> None:
    _, (warning,) = read(tmp_path, "a.csv", "sep=;\nMade by X\n\nA;B\n1;2\n3;4\n5\n")
    assert warning.error.where == "a.csv:7"


def test_front_matter_keeps_what_is_written(tmp_path: Path) -> None:
    yaml = "---\nversion: 1.10\ncode: 007\ntime: 12:30\nprice: 2.5\nyear: 2026\n---\nText\n"
    toml = (
        '+++\nversion = 1.10\ncode = "007"\ntime = 12:30:00\nprice = 2.5\nyear = 2026\n+++\nText\n'
    )
    for front in (yaml, toml):
        document, _ = read(tmp_path, "a.md", front)
        assert document.text == "Text\n"
        found = {name: document.metadata[name] for name in ("version", "code", "price", "year")}
        assert found == {"version": "1.10", "code": "007", "price": 2.5, "year": 2026}
        assert str(document.metadata["time"]).startswith("12:30")


@pytest.mark.parametrize("front", ["a = ", "groups = 3", "a = 1"])
def test_toml_that_cannot_be_read_is_refused(tmp_path: Path, front: str) -> None:
    end = "" if front == "a = 1" else "+++\n"
    documents, (failure,) = read_all(tmp_path, "a.md", f"+++\n{front}\n{end}Text\n")
    assert not documents
    assert "front matter" in str(failure.error)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "![x](data:image/png;base64,{0})"),
        ("a.txt", "url(data:font/woff2;charset=utf-8;base64,{0}) end"),
        ("a.csv", 'a,b\n1,"data:image/png;base64,{0}"\n'),
        ("a.json", '{{"icon": "data:image/png;base64,{0}"}}'),
        ("a.xml", "<doc><p>icon data:image/svg+xml;utf8,{0}</p></doc>"),
        ("a.eml", "Subject: x\n\nSee data:image/png;base64,{0} here\n"),
        ("a.txt", "data:image/png;base64,{0}\n{0}\nQUJD=="),
    ],
)
def test_a_file_in_a_data_address_is_left_out_and_counted(
    tmp_path: Path, name: str, text: str
) -> None:
    document, (warning,) = read(tmp_path, name, text.format("iVBORw0KGgoAAAANSUhEUgAA" * 90))
    assert "iVBOR" not in document.text
    assert "data:" in document.text
    assert "1 file in data: addresses" in str(warning.error)
    short = "data:image/png;base64,iVBORw0KGgo="
    assert short in read(tmp_path, "b.txt", f"An example: {short}")[0].text
