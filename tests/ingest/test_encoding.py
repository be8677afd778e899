"""Encodings that are stated, shown or guessed; one normal form of text, dates and metadata."""

from __future__ import annotations

import datetime
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, strategies as st
from one_file import read, refused

from ragwright.core import UnsupportedSourceError
from ragwright.ingest import clean_metadata, guess_language, iso_date, normalise

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
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_guess_is_right_and_names_encoding_confidence_and_key(encoding: str) -> None:
    text = re.sub("[,;] ?", "", TEXTS[encoding])  # they part the cells of a table
    for name in ("a.txt", "a.md", "a.csv", "a.html"):
        found = read(name, (f"<p>{text}</p>" if name == "a.html" else text).encode(encoding))
        shown = " ".join(found.text.replace("|", " ").replace("- -", "").split())
        assert text.split("\n")[-1] in shown
        (fault,) = found.faults
        assert "guess (confidence" in str(fault)
        assert str(found.metadata.get("encoding", "")) in str(fault)
        assert "set `encoding`" in str(fault)


@pytest.mark.parametrize(
    ("line", "encodings"),
    [
        ("ポンプの取扱説明書\n\nバルブを閉めてから電源を切ってください。\n", CERTAIN),
        ("これは一行だけの文章です。", WIDE),
        ("한국어 문서입니다", WIDE),
        ("Это строка без конца", WIDE),
    ],
)
def test_what_bytes_show_is_no_guess(line: str, encodings: tuple[str, ...]) -> None:
    for encoding in encodings:
        found = read("a.txt", line.encode(encoding))
        assert (found.text, found.faults) == (line, ())


@pytest.mark.parametrize(
    ("stated", "real"),
    [("shift_jis", "cp932"), ("windows-1251", "cp1251"), ("gb2312", "gb18030"),
     ("iso-8859-1", "cp1252"), ("euc-kr", "cp949"), ("iso-8859-1", "utf-8"),
     ("utf-16", "utf-16")],
)  # fmt: skip
def test_a_stated_encoding_is_used_without_a_word(stated: str, real: str) -> None:
    text = TEXTS.get(real, "Größe – “naïve”")
    xml = f'<?xml version="1.0" encoding="{stated}"?><book><p>{text}</p></book>'
    for name, page in (("a.html", f'<meta charset="{stated}"><p>{text}</p>'), ("a.xml", xml)):
        found = read(name, page.encode(real))
        assert (found.text, found.faults) == (text, ())


def test_a_wrong_statement_is_named_and_a_setting_wins() -> None:
    text = TEXTS["cp1251"]
    for name, data in (
        ("a.html", f'<meta charset="utf-8"><p>{text}</p>'.encode("cp1251")),
        ("a.xml", f'<?xml version="1.0" encoding="utf-8"?><b><p>{text}</p></b>'.encode("koi8_r")),
    ):
        found = read(name, data)
        assert found.text == text
        assert "although it states the encoding utf-8" in str(found.faults[0])
    assert read("a.xml", data, encoding="koi8_r").text == text
    assert read("a.txt", "日本".encode("shift_jis"), encoding="shift_jis").text == "日本"
    refused(UnsupportedSourceError, "a.txt", b"\xff\xff", encoding="utf-8")


def test_bytes_that_break_utf8_are_read_and_counted() -> None:
    data = "Größe eins\nFläche zwei\nÜber drei\n".encode() + "Gerät – vier\n".encode("cp1252")
    found = read("a.txt", data)
    assert found.text.endswith("Gerät – vier\n")
    assert "2 places" in str(found.faults[0])
    assert "invalid" in str(found.metadata["encoding"])
    old = read("a.txt", "Café – “naïve” garçon".encode("cp1252"))
    assert (old.text, old.metadata["encoding"]) == ("Café – “naïve” garçon", "cp1252")


@given(st.text(st.characters()))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in once)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\r\nb\rc\x0bd\u2028e", "a\nb\nc\nd\ne"),
        ("\ufeffcafe\u0301 in\u00adter\x00national\u200e", "café international"),
        ("tab\there\u00a0there क्\u200dष", "tab\there\u00a0there क्\u200dष"),
        ("x\ud800y", "x\ufffdy"),
    ],
)
def test_what_is_kept_and_what_goes(text: str, kept: str) -> None:
    assert normalise(text) == kept


LEAVES = st.none() | st.text() | st.floats() | st.booleans()


@given(st.dictionaries(st.text(), st.recursive(LEAVES, st.lists, max_leaves=8), max_size=4))
def test_metadata_is_flat_and_never_empty(values: dict[str, object]) -> None:
    for key, value in clean_metadata(values).items():
        assert key == key.lower()
        assert isinstance(value, str | int | float | bool | tuple)
        assert value not in ("", ())


def test_metadata_by_example() -> None:
    given: dict[str, Any] = {"Last Author": " A \n B ", "Topics": ["x", "", 2], "flag": False}
    given |= {"none": None, "deep": {"a": 1}, "day": datetime.date(2024, 1, 2)}
    kept = {"last_author": "A B", "topics": ("x", "2"), "day": "2024-01-02", "flag": False}
    assert clean_metadata(given) == kept


@pytest.mark.parametrize(
    ("spelt", "expected"),
    [
        ("D:20240131120000+02'00'", "2024-01-31T12:00:00+02:00"),
        ("D:20240131120000Z00'00'", "2024-01-31T12:00:00+00:00"),
        ("D:2024", "2024"),
        ("D:20241399", ""),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00+00:00"),
        ("20240131", "2024-01-31T00:00:00"),
        ("2024", "2024"),
        ("Mon, 05 Feb 2024 10:00:00 +0100", "2024-02-05T10:00:00+01:00"),
        ("yesterday", ""),
        ("", ""),
        (None, ""),
        (datetime.date(2024, 1, 2), "2024-01-02"),
    ],
)
def test_dates(spelt: object, expected: str) -> None:
    assert iso_date(spelt) == expected


LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut "
    "labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco "
    "laboris nisi ut aliquip ex ea commodo consequat. Duis aute irure dolor in reprehenderit in "
    "voluptate velit esse cillum dolore eu fugiat nulla pariatur. Excepteur sint occaecat "
    "cupidatat non proident, sunt in culpa qui officia deserunt mollit anim id est laborum. "
)
TEMPUS = (
    "Pellentesque habitant morbi tristique senectus et netus et malesuada fames ac turpis egestas. "
    "Est ante in nibh mauris cursus mattis molestie. Nunc sed augue lacus viverra vitae congue. "
    "Et malesuada fames ac turpis egestas sed tempus. Est ullamcorper eget nulla facilisi etiam."
)
CODE = """
static int load_le(struct buf *la, const uint8_t *un) { return la->des[0] | un[1] << 8; }
for (i = 0; i < n; i++) { le[i] = des[i] + un[i]; if (la[i] == des[i]) { qui(le, la, des); } }
#define EST(x) ((x) & 0xff)
"""


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The committee has decided that the proposal will be sent to all members."),
        ("fr", "Le comité a décidé que la proposition sera envoyée à tous les membres."),
        ("de", "Der Ausschuss hat beschlossen, dass der Vorschlag an alle gesendet wird."),
        ("es", "El comité ha decidido que la propuesta se enviará a todos los miembros."),
        ("it", "Il comitato ha deciso che la proposta sarà inviata a tutti i membri della camera."),
        ("pt", "O comitê decidiu que a proposta não será enviada a todos os membros da câmara."),
        ("nl", "De commissie heeft besloten dat het voorstel naar alle leden wordt gestuurd."),
        ("zh", "委员会决定将提案发送给众议院的所有成员。"),
        ("ja", "委員会はその提案を議会の全議員に送ることを決定しました。"),
        ("ko", "위원회는 제안을 모든 의원에게 보내기로 결정했다."),
        ("ru", "Комитет решил, что предложение будет отправлено всем членам палаты."),
        ("ar", "قررت اللجنة إرسال الاقتراح إلى جميع أعضاء المجلس."),
        ("he", "הוועדה החליטה שההצעה תישלח לכל חברי הבית."),
        ("el", "Η επιτροπή αποφάσισε ότι η πρόταση θα σταλεί σε όλα τα μέλη."),
        *[("", text) for text in ("", "12345 67890", "OK", "a b c d e f g h", "SELECT x FROM y")],
        *[("", text) for text in ("Комітет вирішив, що її", "| a | , | c | d |", LOREM[:90])],
        *[("", text) for text in (LOREM, LOREM * 40, TEMPUS, LOREM + TEMPUS, CODE)],
    ],
)
def test_the_language_of_a_text_where_it_is_sure(language: str, text: str) -> None:
    assert guess_language(text) == language


def test_bytes_of_no_text_are_refused() -> None:
    data = bytes(range(32)) * 8
    message = refused(UnsupportedSourceError, "a.txt", data)
    assert "it is binary data of no known kind" in message
