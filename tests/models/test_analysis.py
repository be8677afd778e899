"""Words for the keyword index: codes whole and in pieces, languages, spans."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from ragwright.core import ConfigError, Span
from ragwright.models import (
    Analyzer,
    AnalyzerOptions,
    WordTokenizer,
    detect_language,
    is_code,
    make_analyzer,
    words,
)


def analyzer(language: str) -> Analyzer:
    return Analyzer(AnalyzerOptions(language=language))


@pytest.mark.parametrize(
    ("text", "whole", "pieces"),
    [
        ("Fault APP_w304.", "app_w304", "app w304 304"),
        ("(LNK2019)", "lnk2019", "lnk 2019"),
        ("error C2065, undeclared", "c2065", "2065"),
        ("error C2065.", "c2065", "2065"),
        ("the “C2065”: one", "c2065", "2065"),
        ('"C2065"', "c2065", "2065"),
        ("[C2065]?", "c2065", "2065"),
        ("C2065;", "c2065", "2065"),
        ("C2065…", "c2065", "2065"),
        ("E0308's cause", "e0308", "0308"),
        ("error:C2065", "error:c2065", "c2065 2065"),
        ("at 0x80070005", "0x80070005", "80070005"),
        ("CVE-2021-44228!", "cve-2021-44228", "cve 2021 44228"),
        ("file.cpp(12): C2065", "file.cpp", "file cpp 12 c2065"),
        ("see XX-31201!", "xx-31201", "xx 31201"),
        ("since v2.3.1.", "v2.3.1", "2.3.1"),
        ("call std::move(x)", "std::move", "std move"),
        ("the snake_case name", "snake_case", "snake case"),
        ("the camelCase name", "camelcas", "camel case"),
        ("an HTTPServer", "httpserver", "http server"),
        ("mail john.doe@example.com.", "john.doe@example.com", "john doe example.com"),
        ("at https://example.org/a/b?x=1.", "example.org/a/b?x=1", "example.org"),
        ("open report_final.pdf", "report_final.pdf", "report final pdf"),
        ("a 230V supply", "230v", "230 v"),
        ("3.5mm", "3.5mm", "3.5 mm"),
        ("in C++ code", "c++", ""),
        ("in C# code", "c#", ""),
        ("on .NET 8", ".net", "net"),
        ("ASP.NET pages", "asp.net", "asp net"),
        ("R&D budget", "r&d", ""),
    ],
)
def test_codes_stay_whole_and_are_found_by_their_pieces(text: str, whole: str, pieces: str) -> None:
    assert {whole, *pieces.split()} <= {*analyzer("en").tokens(text)}


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("what does app_w304 mean", "APP_w304: replace the pump"),
        ("w304", "APP_w304: replace the pump"),
        ("camel case", "camelCase"),
        ("1000000", "1,000,000"),
        ("USA", "the U.S.A. today"),
        ("élèves", "Eleve"),
        ("eau", "L’eau"),
        ("l'eau", "de l'eau"),
        ("Straße", "STRASSE"),
        ("œuvre", "oeuvres"),
        ("John", "John's house"),
        ("ＡＢＣ", "abc"),
        ("北京", "我住在北京市"),
        ("running", "runs"),
    ],
)
def test_query_and_document_meet(query: str, document: str) -> None:
    assert {*Analyzer().tokens(query)} & {*Analyzer().tokens(document)}


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("fr", "L'état d'urgence qu’il a déclaré", ["etat", "urgenc", "declar"]),
        ("fr", "dans les avec pour qui", []),
        ("fr", "l'erreur C2065", ["erreur", "c2065", "2065"]),
        ("fr", "l’erreur «C2065»", ["erreur", "c2065", "2065"]),
        ("fr", "d'erreur, c2065.", ["erreur", "c2065", "2065"]),
        ("fr", "nationales", analyzer("fr").tokens("national")),
        ("de", "Häuser", analyzer("de").tokens("Hauses")),
        ("none", "The cafés", ["the", "cafes"]),
        ("auto", "don't isn't they're", []),
        ("auto", "IT and WHO, it and Who", ["it", "who"]),  # in capitals it is a name
        ("auto", "m²", Analyzer().tokens("m2")),
    ],
)
def test_languages_have_stop_words_and_stems(language: str, text: str, tokens: list[str]) -> None:
    assert analyzer(language).tokens(text) == tokens


def test_raised_numbers_are_no_digits_of_the_number_before_them() -> None:
    assert {*Analyzer().tokens("10^6")} <= {*Analyzer().tokens("10⁶")} - {"106"}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("APP_w304", ["app_w304", "w304"]),
        ("LNK2019", ["lnk2019", "2019"]),
        ("std::move", ["std::move"]),
        ("snake_case", ["snake_case"]),
        ("v2.3.1", ["v2.3.1", "2.3.1"]),
        ("error 31201", ["31201"]),
        ("chapter 12 of 300", []),
        ("a well-known camelCase word in l'été", []),
        ("東京都", []),
    ],
)
def test_codes_are_told_from_words(text: str, codes: list[str]) -> None:
    assert [token for token in Analyzer().tokens(text) if is_code(token)] == codes


def test_a_written_word_is_a_code_by_stricter_rules() -> None:
    """Numbers in a text mostly count or date; among tokens of the index they are rare."""
    codes = ("E42", "app_w304", "std::move", "camelCase", "00412", "H2O")
    others = ("2025", "31201", "10mm", "1990s", "3-fold", "3.5", "U.S.", "pump", "x" * 41 + "1")
    assert [word for word in (*codes, *others) if is_code(word, written=True)] == list(codes)
    assert is_code("2025")
    assert is_code("1990s")


def test_a_word_becomes_the_same_whatever_stands_around_it() -> None:
    """Short and long texts take different roads through the code; tokens must agree."""
    text = "In C++ and .NET, APP_w304 (see https://a.example/x_y) costs 1,000.50 € à l'été. 東京都 "
    assert Analyzer().tokens(text * 40) == Analyzer().tokens(text) * 40


def test_spec_names_every_setting_and_an_unknown_language_is_refused() -> None:
    assert Analyzer().spec == Analyzer().spec
    changes: Any = ({}, {"language": "fr"}, {"language": "none"}, {"title_weight": 0})
    assert len({Analyzer(AnalyzerOptions(**change)).spec for change in changes}) == 4
    with pytest.raises(ConfigError, match="klingon"):
        AnalyzerOptions(language="klingon")


def test_analyzer_may_be_shared_between_threads() -> None:
    shared = Analyzer()
    texts = [f"running{i} stations nationalities {i}" for i in range(300)]
    results: list[list[list[str]]] = []

    def work() -> None:
        results.append([shared.tokens(text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[Analyzer().tokens(text) for text in texts]] * 4


def test_language_of_a_corpus_is_read_off_a_sample() -> None:
    english = "The pump is replaced when the lamp on the panel is red and it does not go out. " * 4
    french = "La pompe est remplacée quand le voyant du tableau est rouge et ne s'éteint pas. " * 4
    found = [detect_language([text]) for text in (english, french, "APP_w304")]
    assert found == ["en", "fr", "auto"]
    assert make_analyzer(language="fr").options.language == "fr"
    assert make_analyzer(AnalyzerOptions(language="en"), language="fr").options.language == "en"


# -- spans ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "   ", "\n", "...", "a", "é", "😀", "\ud800", "東", "a\u0301"]
)
def test_spans_of_odd_texts_point_at_their_words(text: str) -> None:
    spans = WordTokenizer().spans(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    assert WordTokenizer().count(text) == len(spans)
    assert isinstance(Analyzer().tokens(text), list)


def test_spans_are_the_words_as_written_of_random_text_too() -> None:
    rng = random.Random(7)
    pieces = [*"aB1é_-.,:/#+@&'’ \n\"()[]`!?…", " https://a.b/c ", "C++", ".NET", "::", "1,000"]
    fixed = "Use std::move, C++ or .NET (v2.3.1) at https://a.example/b. L'été à 1,000 €."
    for text in (fixed, *("".join(rng.choices(pieces, k=rng.randint(0, 25))) for _ in range(1000))):
        assert WordTokenizer().pieces(text) == words(text), repr(text)
    assert WordTokenizer().spans("ab cd") == [Span(0, 2), Span(3, 5)]
    assert WordTokenizer().pieces("東京 AI") == ["東", "京", "AI"]
