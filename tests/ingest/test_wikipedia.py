"""Wikipedia: articles through the API's own reply shapes, served from this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from local_site import Answer, Site, fetch_bytes, running_site

from ragwright.core import Document, FetchError, MalformedSourceError
from ragwright.ingest import Failure, WikipediaReader, catch_failures

EXTRACT = """A bicycle pump is a type of positive-displacement air pump made for inflating tires.
It has a connection for use with several valve types.


== History ==
The first bicycle pump was devised in England in 1887 and was soon popular with cyclists everywhere.


=== Valves ===
Presta
Schrader


== See also ==
Gas cylinder"""

PAGES: dict[str, dict[str, object]] = {
    "Bicycle pump": {
        "pageid": 1133741, "ns": 0, "title": "Bicycle pump", "extract": EXTRACT,
        "contentmodel": "wikitext", "pagelanguage": "en", "touched": "2024-05-02T06:12:31Z",
        "lastrevid": 1221846172, "length": 9310,
        "fullurl": "https://en.wikipedia.org/wiki/Bicycle_pump",
        "revisions": [{"revid": 1221846172, "parentid": 1, "timestamp": "2024-05-01T21:40:05Z"}],
    },
    "Mercury": {
        "pageid": 19007, "ns": 0, "title": "Mercury",
        "extract": "Mercury may refer to:\n\nMercury (planet), closest to the Sun\n"
                   "Mercury (element), a metallic chemical element",
        "pageprops": {"disambiguation": ""},
    },
    "Blank": {"pageid": 5, "ns": 0, "title": "Blank", "extract": ""},
    "A|B": {"title": "A|B", "invalid": True, "invalidreason": 'The title contains "|".'},
}  # fmt: skip


def api(query: dict[str, str]) -> Answer:
    assert query["action"] == "query"
    assert query["format"] == "json"
    assert query["explaintext"] == "1"
    title = query["titles"]
    inner: dict[str, object] = {}
    if title in {"bike pump", "Bike pump"}:
        inner["redirects"] = [{"from": "Bike pump", "to": "Bicycle pump"}]
        title = "Bicycle pump"
    inner["pages"] = [PAGES.get(title, {"ns": 0, "title": title, "missing": True})]
    body = {"batchcomplete": True, "query": inner}
    return Answer(json.dumps(body), headers={"Content-Type": "application/json; charset=utf-8"})


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        made.routes["/en/w/api.php"] = made.routes["/fr/w/api.php"] = api
        yield made


def read(site: Site, source: str) -> Document | Failure:
    reader = WikipediaReader(base=f"{site.base}/{{language}}")
    (found,) = catch_failures(reader.read(source, fetch_bytes), source, reader)
    return found


def article(site: Site, source: str) -> Document:
    found = read(site, source)
    assert isinstance(found, Document), found.error
    return found


def test_an_article_with_its_sections_and_address(site: Site) -> None:
    found = article(site, "wikipedia:Bicycle pump")
    assert (found.id, found.title, found.language) == (
        "wikipedia:en:Bicycle pump",
        "Bicycle pump",
        "en",
    )
    assert found.source == "https://en.wikipedia.org/wiki/Bicycle_pump"
    assert found.modified.startswith("2024-05-01")
    assert found.metadata["revision"] == 1221846172
    assert [(s.title, s.level) for s in found.sections] == [
        ("History", 1),
        ("Valves", 2),
        ("See also", 1),
    ]
    assert found.headings_at(found.text.index("Schrader")) == ("History", "Valves")
    assert found.headings_at(found.text.index("positive-displacement")) == ()


@pytest.mark.parametrize(
    "source",
    [
        "https://en.wikipedia.org/wiki/Bicycle_pump",
        "https://en.m.wikipedia.org/wiki/Bicycle%20pump#History",
        "wikipedia:en:Bicycle pump",
    ],
)
def test_the_same_article_by_its_address(site: Site, source: str) -> None:
    assert WikipediaReader().accepts(source)
    assert article(site, source).id == "wikipedia:en:Bicycle pump"


def test_a_language_names_its_wikipedia(site: Site) -> None:
    found = article(site, "wikipedia:fr:Bicycle pump")
    assert site.asked[-1].path == "/fr/w/api.php"
    assert found.language == "fr"


def test_a_colon_in_a_title_is_no_language(site: Site) -> None:
    read(site, "wikipedia:Star Trek: Picard")
    assert site.asked[-1].query["titles"] == "Star Trek: Picard"
    assert site.asked[-1].path.startswith("/en/")


def test_a_redirect_is_followed_and_named(site: Site) -> None:
    found = article(site, "wikipedia:Bike pump")
    assert found.title == "Bicycle pump"
    assert found.metadata["redirected_from"] == "Bike pump"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("wikipedia:No such page at all", "Wikipedia has no page"),
        ("wikipedia:Mercury", "meanings"),
        ("wikipedia:Blank", "no text"),
        ("wikipedia:A|B", "contains"),
        ("wikipedia:", "no title"),
        ("wikipedia:fr:", "no title"),
    ],
)
def test_pages_without_an_article_say_so(site: Site, source: str, said: str) -> None:
    found = read(site, source)
    assert isinstance(found, Failure)
    assert said in str(found.error)


def test_a_disambiguation_names_its_meanings(site: Site) -> None:
    found = read(site, "wikipedia:Mercury")
    assert isinstance(found, Failure)
    assert "Mercury (planet)" in (found.error.hint or "")


@pytest.mark.parametrize("body", ["<html>log in</html>", "[]", "{}", '{"query": {"pages": []}}'])
def test_a_reply_of_something_else_is_malformed(site: Site, body: str) -> None:
    site.routes["/en/w/api.php"] = Answer(body)
    found = read(site, "wikipedia:Pump")
    assert isinstance(found, Failure)
    assert isinstance(found.error, MalformedSourceError)


def test_an_error_of_the_api_or_the_server_is_said(site: Site) -> None:
    body = {"error": {"code": "maxlag", "info": "Waiting for a database server: 7 s lagged"}}
    site.routes["/en/w/api.php"] = Answer(json.dumps(body))
    found = read(site, "wikipedia:Pump")
    assert isinstance(found, Failure)
    assert "lagged" in str(found.error)
    site.routes["/en/w/api.php"] = Answer("", 503)
    found = read(site, "wikipedia:Pump")
    assert isinstance(found, Failure)
    assert isinstance(found.error, FetchError)
    assert found.error.retryable
