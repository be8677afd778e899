"""Web pages over a real connection: main text, charsets, other types, failures."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from local_site import Answer, Site, fetch_bytes, running_site

from ragwright.core import Document, EmptySourceError, FetchError, Interrupted
from ragwright.ingest import Failure, Fetched, WebReader, catch_failures

PAGE = """<!doctype html><html lang="fr"><head><title>Les pompes</title>
<meta name="author" content="A. Martin"></head><body>
<nav><a href="/">Accueil</a> <a href="/b">Boutique</a></nav>
<main><h1>Les pompes</h1><p>Une pompe déplace l'eau d'un lieu à un autre, et cela depuis
longtemps déjà.</p><h2>Entretien</h2><p>Il faut graisser le joint chaque été, sinon il sèche.</p>
<table><tr><th>Pièce</th><th>Prix</th></tr><tr><td>Joint</td><td>3 €</td></tr></table></main>
<div class="cookie-banner">Nous utilisons des cookies.</div><footer>© 2024</footer></body></html>"""


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        yield made


def html(body: bytes | str = PAGE, charset: str = "; charset=utf-8", **headers: str) -> Answer:
    return Answer(body, headers={"Content-Type": f"text/html{charset}", **headers})


def read(url: str) -> Document:
    reader = WebReader()
    found, *_ = catch_failures(reader.read(url, fetch_bytes), url, reader)
    assert isinstance(found, Document), found.error
    return found


def failure(url: str) -> Failure:
    reader = WebReader()
    found, *_ = catch_failures(reader.read(url, fetch_bytes), url, reader)
    assert isinstance(found, Failure)
    return found


def test_the_main_part_of_a_page_with_title_address_and_sections(site: Site) -> None:
    site.routes["/old"] = Answer(status=301, headers={"Location": "/pumps"})
    site.routes["/pumps"] = html()
    found = read(f"{site.base}/old#joint")
    assert found.id == f"{site.base}/old"
    assert found.source == f"{site.base}/pumps"
    assert (found.title, found.language) == ("Les pompes", "fr")
    assert found.metadata["author"] == "A. Martin"
    assert [s.title for s in found.sections] == ["Les pompes", "Entretien"]
    assert "Joint" in found.text
    for furniture in ("Boutique", "cookies", "©"):
        assert furniture not in found.text
    for section in found.sections:
        assert section.title in found.text[section.span.start : section.span.end].split("\n")[0]


META = '<head><meta charset="windows-1252">'


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (PAGE.encode(), "; charset=utf-8"),
        (PAGE.encode(), ""),
        (PAGE.encode(), "; charset=iso-8859-1"),
        (PAGE.encode(), "; charset=no-such-thing"),
        (PAGE.encode("cp1252"), "; charset=iso-8859-1"),
        (PAGE.encode("cp1252"), "; charset=utf-8"),
        (PAGE.replace("<head>", META).encode("cp1252"), ""),
        (PAGE.encode("utf-16"), "; charset=utf-16"),
    ],
)
def test_text_is_right_whatever_the_server_says_of_it(
    site: Site, body: bytes, charset: str
) -> None:
    site.routes["/p"] = html(body, charset)
    assert "déplace l'eau d'un lieu à" in " ".join(read(f"{site.base}/p").text.split())


def test_packed_pages_are_unpacked(site: Site) -> None:
    site.routes["/p"] = html(gzip.compress(PAGE.encode()), **{"Content-Encoding": "gzip"})
    assert "joint" in read(f"{site.base}/p").text


def test_other_types_are_read_as_files(site: Site) -> None:
    site.routes["/export"] = Answer("a;b\n1;é\n".encode("cp1252"), headers={
        "Content-Type": "text/csv; charset=windows-1252"
    })  # fmt: skip
    site.routes["/notes.md"] = Answer("# Title\n\nSome text.", headers={"Content-Type": ""})
    table = read(f"{site.base}/export?year=2024")
    assert "é" in table.text
    assert "|" in table.text
    assert table.id.endswith("?year=2024")
    notes = read(f"{site.base}/notes.md")
    assert [s.title for s in notes.sections] == ["Title"]


def test_a_page_without_a_type_is_known_by_its_bytes(site: Site) -> None:
    site.routes["/p"] = Answer(PAGE, headers={"Content-Type": ""})
    assert read(f"{site.base}/p").title == "Les pompes"


@pytest.mark.slow
def test_what_cannot_be_read_is_a_failure(site: Site) -> None:
    site.routes["/empty"] = html("<html><body><script>x()</script></body></html>")
    site.routes["/picture"] = Answer(b"\x89PNG\r\n\x1a\n123", headers={"Content-Type": "image/png"})
    site.routes["/broken"] = Answer("oops", 500)
    assert isinstance(failure(f"{site.base}/empty").error, EmptySourceError)
    assert "image" in str(failure(f"{site.base}/picture").error)
    missing = failure(f"{site.base}/none").error
    assert isinstance(missing, FetchError)
    assert missing.status == 404
    assert f"{site.base}/none" in str(missing)
    assert isinstance(failure(f"{site.base}/broken").error, FetchError)
    assert isinstance(failure("http://[bad").error, FetchError)


def test_a_page_of_links_alone_is_still_read(site: Site) -> None:
    site.routes["/p"] = html("<body><nav><a href='/a'>Only</a> <a href='/b'>links</a></nav></body>")
    assert "links" in read(f"{site.base}/p").text


def test_a_stop_is_not_a_failure() -> None:
    def stopped(url: str) -> Fetched:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        list(WebReader().read("https://example.org/", stopped))


def test_it_accepts_addresses_only() -> None:
    reader = WebReader()
    assert reader.accepts("https://example.org/a.pdf")
    assert reader.accepts("HTTP://example.org")
    assert not reader.accepts("manual.html")
    assert not reader.accepts("wikipedia:Pump")
