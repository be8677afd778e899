"""Web pages, Wikipedia, arXiv and BEIR: replies in their shapes, served from this machine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_site import Answer, Site, fetch_bytes, running_site
from made_files import pdf_of

from ragwright.core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    FetchError,
    Interrupted,
    MalformedSourceError,
    SourceError,
)
from ragwright.flow import FetchReply
from ragwright.ingest import (
    ArxivReader,
    BeirReader,
    Failure,
    FileReader,
    Reader,
    WebReader,
    WikipediaReader,
    catch_failures,
)
from ragwright.testing import ReaderSuite

EXTRACT = """A bicycle pump is a type of positive-displacement air pump made for inflating tires.
It has a connection for use with several valve types.


== History ==
The first bicycle pump was devised in England in 1887 and was soon popular with cyclists everywhere.


=== Valves ===
Presta
Schrader


== See also ==
Gas cylinder"""
MEANINGS = (
    "Mercury may refer to:\n\nMercury (planet), closest to the Sun\nMercury (element), a metal"
)
PAGES: dict[str, dict[str, object]] = {
    "Bicycle pump": {
        "pageid": 1133741, "ns": 0, "extract": EXTRACT, "contentmodel": "wikitext",
        "pagelanguage": "en", "touched": "2024-05-02T06:12:31Z", "lastrevid": 1221846172,
        "fullurl": "https://en.wikipedia.org/wiki/Bicycle_pump", "length": 9310,
        "revisions": [{"revid": 1221846172, "parentid": 1, "timestamp": "2024-05-01T21:40:05Z"}],
    },
    "Mercury": {"pageid": 19007, "extract": MEANINGS, "pageprops": {"disambiguation": ""}},
    "Blank": {"pageid": 5, "ns": 0, "extract": ""},
    "A|B": {"invalid": True, "invalidreason": 'The title contains "|".'},
}  # fmt: skip


def wiki_api(query: dict[str, str]) -> Answer:
    assert (query["action"], query["format"], query["explaintext"]) == ("query", "json", "1")
    title = query["titles"]
    inner: dict[str, object] = {}
    if title == "Bike pump":
        inner["redirects"] = [{"from": "Bike pump", "to": "Bicycle pump"}]
        title = "Bicycle pump"
    inner["pages"] = [{"title": title, **PAGES.get(title, {"ns": 0, "missing": True})}]
    body = json.dumps({"batchcomplete": True, "query": inner})
    return Answer(body, headers={"Content-Type": "application/json; charset=utf-8"})


ENTRY = """<entry>
<id>http://arxiv.org/abs/{0}</id><updated>2024-02-01T10:00:00Z</updated>
<published>2024-01-02T09:30:00Z</published><title>Pumps that learn:
  a study</title><summary>  We study pumps.
</summary><author><name>Ada Martin</name></author><author><name>Ben Okafor</name></author>
<arxiv:doi xmlns:arxiv="http://arxiv.org/schemas/atom">10.1000/xyz</arxiv:doi>
<link href="http://arxiv.org/abs/{0}" rel="alternate" type="text/html"/>
<link title="pdf" href="http://arxiv.org/pdf/{0}" rel="related" type="application/pdf"/>
<category term="cs.CL" scheme="http://arxiv.org/schemas/atom"/>
<category term="cs.IR" scheme="http://arxiv.org/schemas/atom"/></entry>"""
ERROR = """<entry><id>http://arxiv.org/api/errors#incorrect_id_format_for_1234</id>
<title>Error</title><summary>incorrect id format for 1234</summary></entry>"""
PDF = Answer(
    pdf_of("We study pumps and more pumps.", "Grease the seal every summer."),
    headers={"Content-Type": "application/pdf"},
)


def feed(*entries: str, status: int = 200) -> Answer:
    """The reply of arXiv's API: these entries, or those of papers with these ids."""
    inner = "".join(e if e.startswith("<") else ENTRY.format(e) for e in entries)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
        '<title type="html">ArXiv Query: search_query=&amp;id_list=</title>'
        f"<id>http://arxiv.org/api/cHxbiOdZaP56ODnBPIenZhzg5f8</id>{inner}</feed>"
    )
    return Answer(body, status, {"Content-Type": "application/atom+xml; charset=UTF-8"})


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    with running_site() as made:
        yield made


@pytest.fixture
def site(running: Site) -> Site:
    """Wikipedia in two languages, and arXiv with one paper."""
    running.asked.clear()
    running.routes.clear()
    running.routes["/en/w/api.php"] = running.routes["/fr/w/api.php"] = wiki_api
    running.routes["/api/query"] = lambda query: (
        feed() if query.get("id_list") == "2401.99999" else feed("2401.01234v2")
    )
    running.routes["/pdf/2401.01234v2"] = PDF
    return running


def reader_of(site: Site, source: str) -> Reader:
    if source.startswith("arxiv:"):
        return ArxivReader(api=f"{site.base}/api/query", site=site.base)
    if "wikipedia" in source:
        return WikipediaReader(base=f"{site.base}/{{language}}")
    return WebReader() if source.startswith("http") else BeirReader()


def read(site: Site, source: str) -> list[Document | Failure]:
    source = site.base + source if source.startswith("/") else source
    reader = reader_of(site, source)
    assert reader.accepts(source)
    return list(catch_failures(reader.read(source, fetch_bytes), source, reader))


def article(site: Site, source: str) -> Document:
    found, *_ = read(site, source)
    assert isinstance(found, Document), found.error
    return found


def failure(site: Site, source: str) -> Failure:
    (found,) = read(site, source)
    assert isinstance(found, Failure)
    return found


class TestReaders(ReaderSuite):
    @pytest.fixture(params=["beir", "files", "web"])
    def given(self, request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Any:
        """A reader, what it can read, and what does not exist."""
        site.routes["/p"] = html("<h1>Cafe\u0301</h1>\r\n<p>Some text\u2028of a page.</p>")
        (tmp_path / "a.md").write_text("# A\r\n\r\nCafe\u0301\u00ad.\n\n## B\n\nMore.", "utf-8")
        (tmp_path / "b.txt").write_text("first page\fsecond page", "utf-8")
        row = {"title": "T", "text": "Cafe\u0301\r\n\u00adx \ud800", "metadata": {"k": [1, 2]}}
        write(tmp_path / "set", {"_id": "a", **row}, {"_id": "b", **row})
        return {
            "web": (WebReader(), f"{site.base}/p", f"{site.base}/none"),
            "beir": (BeirReader(), f"beir:{tmp_path}/set", f"beir:{tmp_path}/none"),
            "files": (FileReader(base=tmp_path), ".", "none.txt"),
        }[request.param]

    @pytest.fixture
    def reader(self, given: Any) -> Reader:
        return given[0]  # type: ignore[no-any-return]

    @pytest.fixture
    def source(self, given: Any) -> str:
        return given[1]  # type: ignore[no-any-return]

    @pytest.fixture
    def missing(self, given: Any) -> str:
        return given[2]  # type: ignore[no-any-return]

    @pytest.fixture
    def fetch(self) -> Any:
        return fetch_bytes


# Web pages.

PAGE = """<!doctype html><html lang="fr"><head><title>Les pompes</title>
<meta name="author" content="A. Martin"></head><body>
<nav><a href="/">Accueil</a> <a href="/b">Boutique</a></nav>
<main><h1>Les pompes</h1><p>Une pompe déplace l'eau d'un lieu à un autre, et cela depuis
longtemps déjà.</p><h2>Entretien</h2><p>Il faut graisser le joint chaque été, sinon il sèche.</p>
<table><tr><th>Pièce</th><th>Prix</th></tr><tr><td>Joint</td><td>3 €</td></tr></table></main>
<div class="cookie-banner">Nous utilisons des cookies.</div><footer>© 2024</footer></body></html>"""
META = PAGE.replace("<head>", '<head><meta charset="windows-1252">')


def html(body: bytes | str = PAGE, charset: str = "; charset=utf-8", **headers: str) -> Answer:
    return Answer(body, headers={"Content-Type": f"text/html{charset}", **headers})


def test_the_main_part_of_a_page_with_title_address_and_sections(site: Site) -> None:
    site.routes["/old"] = Answer(status=301, headers={"Location": "/pumps"})
    site.routes["/pumps"] = html()
    found = article(site, "/old#joint")
    assert (found.id, found.source) == (f"{site.base}/old", f"{site.base}/pumps")
    assert (found.title, found.language) == ("Les pompes", "fr")
    assert found.metadata["author"] == "A. Martin"
    assert [s.title for s in found.sections] == ["Les pompes", "Entretien"]
    assert "Joint" in found.text
    for furniture in ("Boutique", "cookies", "©"):
        assert furniture not in found.text
    for section in found.sections:
        assert section.title in found.text[section.span.start : section.span.end].split("\n")[0]


@pytest.mark.parametrize(
    "answer",
    [
        html(),
        html(PAGE, ""),
        html(PAGE, "; charset=iso-8859-1"),
        html(PAGE, "; charset=no-such-thing"),
        html(PAGE.encode("cp1252"), "; charset=iso-8859-1"),
        html(PAGE.encode("cp1252")),
        html(META.encode("cp1252"), ""),
        html(PAGE.encode("utf-16"), "; charset=utf-16"),
        html(gzip.compress(PAGE.encode()), **{"Content-Encoding": "gzip"}),
        Answer(PAGE, headers={"Content-Type": ""}),
    ],
)
def test_text_is_right_whatever_the_server_says_of_it(site: Site, answer: Answer) -> None:
    site.routes["/p"] = answer
    found = article(site, "/p")
    assert "déplace l'eau d'un lieu à" in " ".join(found.text.split())
    assert found.title == "Les pompes"


def test_other_types_are_read_as_files_and_links_alone_as_text(site: Site) -> None:
    kind = {"Content-Type": "text/csv; charset=windows-1252"}
    site.routes["/export"] = Answer("a;b\n1;é\n".encode("cp1252"), headers=kind)
    site.routes["/notes.md"] = Answer("# Title\n\nSome text.", headers={"Content-Type": ""})
    table = article(site, "/export?year=2024")
    assert table.text == "| a | b |\n| - | - |\n| 1 | é |"
    assert table.id.endswith("?year=2024")
    assert [s.title for s in article(site, "/notes.md").sections] == ["Title"]
    site.routes["/p"] = html("<body><nav><a href='/a'>Only</a> <a href='/b'>links</a></nav></body>")
    assert "links" in article(site, "/p").text


def test_a_stop_is_no_failure() -> None:
    def stopped(url: str) -> FetchReply:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        list(WebReader().read("https://example.org/", stopped))


# Wikipedia.


def test_an_article_with_its_sections_and_address(site: Site) -> None:
    found = article(site, "wikipedia:Bicycle pump")
    assert (found.title, found.language) == ("Bicycle pump", "en")
    assert found.source == "https://en.wikipedia.org/wiki/Bicycle_pump"
    assert found.modified.startswith("2024-05-01")
    assert found.metadata["revision"] == 1221846172
    heads = [("History", 1), ("Valves", 2), ("See also", 1)]
    assert [(s.title, s.level) for s in found.sections] == heads
    assert found.headings_at(found.text.index("Schrader")) == ("History", "Valves")
    assert found.headings_at(found.text.index("positive-displacement")) == ()
    redirected = article(site, "wikipedia:Bike pump")
    assert (redirected.title, redirected.metadata["redirected_from"]) == (found.title, "Bike pump")


@pytest.mark.parametrize(
    ("source", "path", "title"),
    [
        ("wikipedia:Bicycle pump", "en", "Bicycle pump"),
        ("wikipedia:en:Bicycle pump", "en", "Bicycle pump"),
        ("wikipedia:fr:Bicycle pump", "fr", "Bicycle pump"),
        ("https://en.wikipedia.org/wiki/Bicycle_pump", "en", "Bicycle pump"),
        ("https://en.m.wikipedia.org/wiki/Bicycle%20pump#History", "en", "Bicycle pump"),
        ("wikipedia:Star Trek: Picard", "en", "Star Trek: Picard"),
    ],
)
def test_an_article_by_its_name_language_or_address(
    site: Site, source: str, path: str, title: str
) -> None:
    (found,) = read(site, source)
    assert site.asked[-1].path == f"/{path}/w/api.php"
    assert site.asked[-1].query["titles"] == title
    known = f"wikipedia:{path}:{title}", path
    assert not isinstance(found, Document) or (found.id, found.language) == known


# arXiv.


@pytest.mark.slow
def test_a_paper_with_its_metadata_and_pages(site: Site) -> None:
    found = article(site, "arxiv:2401.01234")
    assert site.asked[0].query["id_list"] == "2401.01234"
    assert (found.id, found.title) == ("arxiv:2401.01234", "Pumps that learn: a study")
    assert found.source == f"{site.base}/abs/2401.01234v2"
    assert found.created.startswith("2024-01-02")
    assert found.metadata["authors"] == ("Ada Martin", "Ben Okafor")
    assert found.metadata["categories"] == ("cs.CL", "cs.IR")
    assert (found.metadata["doi"], found.metadata["version"]) == ("10.1000/xyz", "v2")
    assert found.page_at(found.text.index("Grease")) == 2
    assert article(site, "arxiv:2401.01234v2").id == "arxiv:2401.01234v2"
    site.routes["/api/query"] = feed("hep-th/9901001v1")
    site.routes["/pdf/hep-th/9901001v1"] = PDF
    assert article(site, "arxiv:hep-th/9901001").id == "arxiv:hep-th/9901001"


def test_a_query_gives_several_papers_one_by_one_and_a_bad_one_costs_no_other(site: Site) -> None:
    names = ("2401.00001v1", "2401.00002v1", "2401.00003v1")
    site.routes["/api/query"] = feed(*names)
    for name in (names[0], names[2]):
        site.routes[f"/pdf/{name}"] = PDF
    papers = reader_of(site, "arxiv:").read("arxiv:learning pumps?max=3", fetch_bytes)
    found = [next(papers)]
    assert [asked.path for asked in site.asked] == ["/api/query", "/pdf/2401.00001v1"]
    found += papers
    assert site.asked[0].query["search_query"] == "all:learning AND all:pumps"
    assert site.asked[0].query["max_results"] == "3"
    assert [isinstance(item, Document) for item in found] == [True, False, True]
    assert found[1].source == "arxiv:2401.00002"
    read(site, "arxiv:au:martin AND ti:pump")
    queries = [asked.query for asked in site.asked if asked.path == "/api/query"]
    assert queries[-1]["search_query"] == "au:martin AND ti:pump"


# What cannot be read.

WIKI, ARXIV = "wikipedia:Pump", "arxiv:2401.01234"
LAGGED = '{"error": {"code": "maxlag", "info": "Waiting for a database server: 7 s lagged"}}'
DTD = '<!DOCTYPE x [<!ENTITY a "b">]><feed xmlns="http://www.w3.org/2005/Atom">&a;</feed>'
PICTURE = Answer(b"\x89PNG\r\n\x1a\n123", headers={"Content-Type": "image/png"})


@pytest.mark.parametrize(
    ("source", "answer", "kind", "said"),
    [
        ("/p", html("<body><script>x()</script></body>"), EmptySourceError, "no text"),
        ("/p", PICTURE, SourceError, "image"),
        ("/p", Answer("oops", 500), FetchError, "500"),
        ("/p", Answer("none", 404), FetchError, "/p"),
        ("http://[bad", None, FetchError, ""),
        ("wikipedia:No such page at all", None, SourceError, "Wikipedia has no page"),
        ("wikipedia:Mercury", None, SourceError, "Mercury (planet)"),
        ("wikipedia:Blank", None, SourceError, "no text"),
        ("wikipedia:A|B", None, SourceError, "contains"),
        ("wikipedia:", None, SourceError, "no title"),
        ("wikipedia:fr:", None, SourceError, "no title"),
        *[(WIKI, Answer(body), MalformedSourceError, "") for body in
          ("<html>log in</html>", "[]", "{}", '{"query": {"pages": []}}')],
        (WIKI, Answer(LAGGED), SourceError, "lagged"),
        (WIKI, Answer("", 503), FetchError, "503"),
        (ARXIV, feed(), SourceError, "has no paper"),
        (ARXIV, feed(ERROR), SourceError, "incorrect id format"),
        (ARXIV, feed(ERROR, status=400), SourceError, "400"),
        (ARXIV, feed("2401.09999v1"), SourceError, "no PDF"),
        *[(ARXIV, Answer(body), MalformedSourceError, "") for body in
          ("<html><body>log in</body></html>", "not xml", DTD)],
        *[(f"arxiv:{query}", None, SourceError, "do:") for query in
          ("", "x?max=0", "x?max=many", "x?n=2")],
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_failure_that_says_why(
    site: Site, source: str, answer: Answer | None, kind: type[SourceError], said: str
) -> None:
    if answer is not None:
        site.routes["/p"] = site.routes["/en/w/api.php"] = site.routes["/api/query"] = answer
    error = failure(site, source).error
    assert isinstance(error, kind)
    assert said in str(error)
    status = getattr(answer, "status", 200)
    assert not isinstance(error, FetchError) or error.retryable == (status >= 500)
    if source.startswith("arxiv:") and answer is None:
        assert not site.asked, "refused unasked"


def test_a_paper_that_is_no_pdf_is_malformed(site: Site) -> None:
    site.routes["/pdf/2401.01234v2"] = Answer("<html>come back later</html>")
    assert isinstance(failure(site, ARXIV).error, MalformedSourceError)


# BEIR.

GOOD = {"_id": "1", "title": "Pumps", "text": "A pump moves water.", "metadata": {"topic": "m"}}


def write(folder: Path, *lines: object) -> str:
    folder.mkdir(exist_ok=True)
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    (folder / "corpus.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    return f"beir:{folder}"


def test_a_line_is_a_document_and_a_repeated_id_names_both_lines(
    tmp_path: Path, site: Site
) -> None:
    titled = {"_id": 7, "title": "Only a title", "text": " "}
    source = write(tmp_path, GOOD, "", {**GOOD, "text": "b"}, titled)
    first, twice, last = read(site, source)
    assert isinstance(first, Document)
    assert (first.id, first.title, first.text) == ("1", "Pumps", "A pump moves water.")
    assert first.metadata == {"topic": "m"}
    assert first.source.endswith("corpus.jsonl:1")
    assert isinstance(twice, Failure)
    assert isinstance(twice.error, DuplicateIdError)
    assert "line 1 and again on line 3" in str(twice.error)
    assert isinstance(last, Document)
    assert (last.id, last.text) == ("7", "Only a title")
    (found, *_) = BeirReader(tmp_path.parent).read(f"beir:{tmp_path.name}", fetch_bytes)
    assert isinstance(found, Document), "paths start from the base"


@pytest.mark.parametrize(
    "bad",
    [
        "{not json",
        "[1, 2]",
        '{"title": "no id", "text": "x"}',
        '{"_id": "", "text": "x"}',
        '{"_id": "9", "text": 5}',
        '{"_id": "9", "text": "", "title": ""}',
        '{"_id": "9", "text": "x", "metadata": [1]}',
        '{"_id": "0", "text": "\udcff\udcfe"}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_named_and_costs_nothing_else(tmp_path: Path, bad: str, site: Site) -> None:
    found = read(site, write(tmp_path, GOOD, bad, {**GOOD, "_id": "2"}))
    assert [d.id for d in found if isinstance(d, Document)] == ["1", "2"]
    (failure,) = [f for f in found if isinstance(f, Failure)]
    assert (failure.error.where or "").endswith("corpus.jsonl:2")


def test_a_corpus_that_is_missing_or_empty_is_a_failure(tmp_path: Path, site: Site) -> None:
    assert failure(site, f"beir:{tmp_path}/none").error.hint
    for lines in ((), (" ",)):
        assert isinstance(failure(site, write(tmp_path, *lines)).error, EmptySourceError)
