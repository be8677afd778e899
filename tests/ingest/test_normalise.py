"""One normal form for text, dates and metadata; a light guess of the language."""

from __future__ import annotations

import datetime
import unicodedata

import pytest
from benchmarks.data_sets import DATA
from hypothesis import HealthCheck, given, settings, strategies as st

from ragwright.ingest import clean_metadata, guess_language, iso_date, normalise


@given(st.text(st.characters()))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in once)


def test_what_is_kept_and_what_goes() -> None:
    assert normalise("a\r\nb\rc\x0bd\u2028e") == "a\nb\nc\nd\ne"
    assert normalise("\ufeffcafe\u0301 in\u00adter\x00national\u200e") == "café international"
    assert normalise("tab\there\u00a0there क्\u200dष") == "tab\there\u00a0there क्\u200dष"
    assert normalise("x\ud800y") == "x\ufffdy"


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.floats() | st.booleans(),
                                               st.lists)))  # fmt: skip
def test_metadata_is_flat_and_never_empty(values: dict[str, object]) -> None:
    for key, value in clean_metadata(values).items():
        assert key == key.lower()
        assert isinstance(value, str | int | float | bool | tuple)
        assert value not in ("", ())


def test_metadata_by_example() -> None:
    assert clean_metadata(
        {
            "Last Author": " A \n B ",
            "Topics": ["x", "", 2],
            "none": None,
            "deep": {"a": 1},
            "day": datetime.date(2024, 1, 2),
            "flag": False,
        }
    ) == {"last_author": "A B", "topics": ("x", "2"), "day": "2024-01-02", "flag": False}


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


SENTENCES = {
    "en": "The committee has decided that the proposal will be sent to all members of the house.",
    "fr": "Le comité a décidé que la proposition sera envoyée à tous les membres de la chambre.",
    "de": "Der Ausschuss hat beschlossen, dass der Vorschlag an alle Mitglieder gesendet wird.",
    "es": "El comité ha decidido que la propuesta se enviará a todos los miembros de la cámara.",
    "it": "Il comitato ha deciso che la proposta sarà inviata a tutti i membri della camera.",
    "pt": "O comitê decidiu que a proposta não será enviada a todos os membros da câmara.",
    "nl": "De commissie heeft besloten dat het voorstel naar alle leden wordt gestuurd.",
    "zh": "委员会决定将提案发送给众议院的所有成员。",
    "ja": "委員会はその提案を議会の全議員に送ることを決定しました。",
    "ko": "위원회는 제안을 모든 의원에게 보내기로 결정했다.",
    "ru": "Комитет решил, что предложение будет отправлено всем членам палаты.",
    "ar": "قررت اللجنة إرسال الاقتراح إلى جميع أعضاء المجلس.",
    "he": "הוועדה החליטה שההצעה תישלח לכל חברי הבית.",
    "el": "Η επιτροπή αποφάσισε ότι η πρόταση θα σταλεί σε όλα τα μέλη.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_languages_of_one_sentence(language: str) -> None:
    assert guess_language(SENTENCES[language]) == language


@pytest.mark.parametrize(
    "text",
    ["", "12345 67890", "OK", "a b c d e f g h", "SELECT x FROM y", "Комітет вирішив, що її",
     "| a | , | c | d |", "Lorem ipsum dolor sit amet consetetur sadipscing elitr sed diam"],
)  # fmt: skip
def test_unsure_is_said(text: str) -> None:
    assert guess_language(text) == ""


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


@pytest.mark.parametrize("text", [LOREM, LOREM * 40, TEMPUS, LOREM + TEMPUS, CODE])
def test_placeholder_text_and_code_are_in_no_language(text: str) -> None:
    assert guess_language(text) == ""


@pytest.mark.needs_data
@pytest.mark.parametrize("language", ["en", "de", "es", "zh"])
def test_languages_of_encyclopaedia_paragraphs(language: str) -> None:
    import json

    articles = json.loads((DATA / "xquad" / f"xquad.{language}.json").read_text("utf-8"))["data"]
    found = [guess_language(p["context"]) for a in articles for p in a["paragraphs"]]
    right = sum(guess == language for guess in found)
    wrong = sum(guess not in (language, "") for guess in found)
    assert right >= 0.97 * len(found)
    assert wrong <= 0.01 * len(found)
