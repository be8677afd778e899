"""Encodings: what a file states, and guesses that say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from one_file import read

TEXTS = {
    "cp1250": "Instrukcja obsługi\n\nWyłącz zasilanie, wymień uszczelkę. Żółty kabel.",
    "iso8859_2": "Před prací vypněte přívod proudu, těsnění vyměňujte jednou za rok, žlutý šroub.",
    "cp1251": "Перед обслуживанием отключите питание и подождите пять минут.",
    "koi8_r": "Прокладку меняют раз в год, а фильтр каждые полгода.",
    "cp866": "Договор аренды\n\nАрендатор вносит плату до пятого числа.",
    "cp1253": "Το φίλτρο αλλάζει κάθε χρόνο. Κλείστε πρώτα τη βαλβίδα.",
    "cp1254": "Bakımdan önce gücü kapatın ve beş dakika bekleyin, contayı değiştirin.",
    "cp1255": "לפני התחזוקה יש לנתק את החשמל ולהמתין חמש דקות.",
    "cp1256": "استبدل الحشية كل سنة وافصل التيار قبل الصيانة.",
    "cp850": "Vor jeder Prüfung muss die Anlage abgekühlt sein. Öffnen Sie das Gehäuse.",
    "mac_roman": "Les élèves doivent être présents à huit heures ; l’été, la salle reste ouverte.",
    "cp1252": "The “blue” valve – model K’s – costs €40.",
    "cp932": "五分間お待ちください。パッキンは毎年交換します。",
    "euc_jp": "製品番号を確認してから、保守の窓口へ連絡してください。",
    "gb18030": "垫圈每年更换一次，维护之前请切断电源。",
    "big5": "墊圈每年更換一次，維護之前請切斷電源。",
    "cp949": "정비하기 전에 전원을 끄고 오 분 동안 기다리십시오.",
}
CERTAIN = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso2022_jp", "utf-8-sig")


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html"])
def test_a_guess_is_right_and_names_encoding_confidence_and_key(
    tmp_path: Path, name: str, encoding: str
) -> None:
    text = re.sub("[,;] ?", "", TEXTS[encoding])  # they part the cells of a table
    page = f"<p>{text}</p>" if name == "a.html" else text
    document, warnings = read(tmp_path, name, page.encode(encoding))
    shown = " ".join(document.text.replace("|", " ").replace("- -", "").split())
    assert text.split("\n")[-1] in shown
    (warning,) = warnings
    assert warning.warning
    assert "guess (confidence" in str(warning.error)
    assert str(document.metadata.get("encoding", "")) in str(warning.error)
    assert "set `encoding`" in str(warning.error)


@pytest.mark.parametrize("encoding", CERTAIN)
def test_what_bytes_show_is_no_guess(tmp_path: Path, encoding: str) -> None:
    text = "ポンプの取扱説明書\n\nバルブを閉めてから電源を切ってください。\n"
    document, warnings = read(tmp_path, "a.txt", text.encode(encoding))
    assert document.text == text
    assert not warnings


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "line", ["これは一行だけの文章です。", "한국어 문서입니다", "Это строка без конца"]
)
def test_one_line_of_wide_characters_is_read_without_a_mark(
    tmp_path: Path, line: str, encoding: str
) -> None:
    document, warnings = read(tmp_path, "a.txt", line.encode(encoding))
    assert document.text == line
    assert not warnings


@pytest.mark.parametrize(
    ("stated", "real"),
    [("shift_jis", "cp932"), ("windows-1251", "cp1251"), ("gb2312", "gb18030"),
     ("iso-8859-1", "cp1252"), ("euc-kr", "cp949"), ("iso-8859-1", "utf-8")],
)  # fmt: skip
def test_a_stated_encoding_is_used_without_a_word(tmp_path: Path, stated: str, real: str) -> None:
    text = TEXTS.get(real, "Größe – “naïve”")
    xml = f'<?xml version="1.0" encoding="{stated}"?><book><p>{text}</p></book>'.encode(real)
    for name, data in (
        ("a.html", f'<meta charset="{stated}"><p>{text}</p>'.encode(real)),
        ("a.xml", xml),
    ):
        document, warnings = read(tmp_path, name, data)
        assert document.text == text
        assert not warnings


def test_a_wrong_statement_is_named(tmp_path: Path) -> None:
    text = TEXTS["cp1251"]
    for name, data in (
        ("a.html", f'<meta charset="utf-8"><p>{text}</p>'.encode("cp1251")),
        ("a.xml", f'<?xml version="1.0" encoding="utf-8"?><b><p>{text}</p></b>'.encode("koi8_r")),
    ):
        document, (warning,) = read(tmp_path, name, data)
        assert document.text == text
        assert "although it states the encoding utf-8" in str(warning.error)


def test_bytes_that_break_utf8_are_read_and_counted(tmp_path: Path) -> None:
    data = "Größe eins\nFläche zwei\nÜber drei\n".encode() + "Gerät – vier\n".encode("cp1252")
    document, (warning,) = read(tmp_path, "a.txt", data)
    assert document.text.endswith("Gerät – vier\n")
    assert "2 places" in str(warning.error)
