"""arXiv: the Atom API's reply shapes and PDFs, served from this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_site import Answer, Site, fetch_bytes, running_site

from ragwright.core import Document, MalformedSourceError
from ragwright.ingest import ArxivReader, Failure, catch_failures

FEED = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <link href="http://arxiv.org/api/query?search_query%3D" rel="self" type="application/atom+xml"/>
  <title type="html">ArXiv Query: search_query=&amp;id_list=</title>
  <id>http://arxiv.org/api/cHxbiOdZaP56ODnBPIenZhzg5f8</id>
  <updated>2024-05-04T00:00:00-04:00</updated>
  <opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">1\
</opensearch:totalResults>
  {entries}
</feed>"""

ENTRY = """<entry>
    <id>http://arxiv.org/abs/{name}</id>
    <updated>2024-02-01T10:00:00Z</updated>
    <published>2024-01-02T09:30:00Z</published>
    <title>Pumps that learn:
  a study</title>
    <summary>  {summary}
</summary>
    <author><name>Ada Martin</name></author>
    <author><name>Ben Okafor</name></author>
    <arxiv:doi xmlns:arxiv="http://arxiv.org/schemas/atom">10.1000/xyz</arxiv:doi>
    <arxiv:comment xmlns:arxiv="http://arxiv.org/schemas/atom">{comment}</arxiv:comment>
    <link href="http://arxiv.org/abs/{name}" rel="alternate" type="text/html"/>
    <link title="pdf" href="http://arxiv.org/pdf/{name}" rel="related" type="application/pdf"/>
    <arxiv:primary_category xmlns:arxiv="http://arxiv.org/schemas/atom" term="cs.CL"/>
    <category term="cs.CL" scheme="http://arxiv.org/schemas/atom"/>
    <category term="cs.IR" scheme="http://arxiv.org/schemas/atom"/>
  </entry>"""

ERROR = """<entry>
    <id>http://arxiv.org/api/errors#incorrect_id_format_for_1234</id>
    <title>Error</title>
    <summary>incorrect id format for 1234</summary>
  </entry>"""


def entry(name: str, summary: str = "We study pumps.", comment: str = "12 pages") -> str:
    return ENTRY.format(name=name, summary=summary, comment=comment)


def feed(*entries: str, status: int = 200) -> Answer:
    body = FEED.replace("{entries}", "".join(entries))
    return Answer(body, status, {"Content-Type": "application/atom+xml; charset=UTF-8"})


def pdf(*pages: str) -> bytes:
    """A small PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * n} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    made = "%PDF-1.4\n"
    offsets = []
    for number, inner in enumerate(objects, 1):
        offsets.append(len(made))
        made += f"{number} 0 obj\n{inner}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    made += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end = len(made) - len(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}")
    made += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{end}\n%%EOF\n"
    return made.encode("ascii")


PDF = Answer(
    pdf("A pump moves water.", "Grease the seal every summer."),
    headers={"Content-Type": "application/pdf"},
)


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        made.routes["/api/query"] = feed(entry("2401.01234v2"))
        made.routes["/pdf/2401.01234v2"] = PDF
        yield made


def read(site: Site, source: str) -> list[Document | Failure]:
    reader = ArxivReader(api=f"{site.base}/api/query", site=site.base)
    assert reader.accepts(source)
    return list(catch_failures(reader.read(source, fetch_bytes), source, reader))


def failure(site: Site, source: str = "arxiv:2401.01234") -> Failure:
    (found,) = read(site, source)
    assert isinstance(found, Failure)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "arxiv:2401.01234",
        "https://arxiv.org/abs/2401.01234",
        "http://www.arxiv.org/pdf/2401.01234.pdf",
    ],
)
def test_a_paper_by_id_has_pages_and_metadata(site: Site, source: str) -> None:
    (found,) = read(site, source)
    assert isinstance(found, Document)
    assert site.asked[0].query["id_list"] == "2401.01234"
    assert found.id == "arxiv:2401.01234"
    assert found.title == "Pumps that learn: a study"
    assert found.source == f"{site.base}/abs/2401.01234v2"
    assert found.created.startswith("2024-01-02")
    assert found.metadata["authors"] == ("Ada Martin", "Ben Okafor")
    assert found.metadata["categories"] == ("cs.CL", "cs.IR")
    assert found.metadata["doi"] == "10.1000/xyz"
    assert found.metadata["version"] == "v2"
    assert found.page_at(found.text.index("Grease")) == 2


def test_a_version_that_is_asked_for_stays_in_the_id(site: Site) -> None:
    (found,) = read(site, "arxiv:2401.01234v2")
    assert isinstance(found, Document)
    assert found.id == "arxiv:2401.01234v2"


def test_old_ids_are_ids(site: Site) -> None:
    site.routes["/api/query"] = feed(entry("hep-th/9901001v1"))
    site.routes["/pdf/hep-th/9901001v1"] = PDF
    (found,) = read(site, "arxiv:hep-th/9901001")
    assert isinstance(found, Document)
    assert found.id == "arxiv:hep-th/9901001"


def test_a_query_gives_several_papers_and_one_bad_one_costs_no_other(site: Site) -> None:
    names = ("2401.00001v1", "2401.00002v1", "2401.00003v1")
    site.routes["/api/query"] = feed(*map(entry, names))
    for name in (names[0], names[2]):
        site.routes[f"/pdf/{name}"] = PDF
    found = read(site, "arxiv:learning pumps?max=3")
    assert site.asked[0].query["search_query"] == "all:learning AND all:pumps"
    assert site.asked[0].query["max_results"] == "3"
    assert [isinstance(item, Document) for item in found] == [True, False, True]
    assert isinstance(found[1], Failure)
    assert found[1].source == "arxiv:2401.00002"


def test_fields_of_a_query_are_passed_on(site: Site) -> None:
    read(site, "arxiv:au:martin AND ti:pump")
    assert site.asked[0].query["search_query"] == "au:martin AND ti:pump"


def test_papers_are_fetched_only_when_asked_for(site: Site) -> None:
    names = ("2401.00001v1", "2401.00002v1")
    site.routes["/api/query"] = feed(*map(entry, names))
    for name in names:
        site.routes[f"/pdf/{name}"] = PDF
    reader = ArxivReader(api=f"{site.base}/api/query", site=site.base)
    next(reader.read("arxiv:pumps", fetch_bytes))
    assert [asked.path for asked in site.asked] == ["/api/query", "/pdf/2401.00001v1"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (feed(), "has no paper"),
        (feed(ERROR), "incorrect id format"),
        (feed(ERROR, status=400), "400"),
        (feed(entry("2401.09999v1")), "no PDF"),
    ],
)
def test_missing_papers_say_so(site: Site, answer: Answer, said: str) -> None:
    site.routes["/api/query"] = answer
    assert said in str(failure(site).error)


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>log in</body></html>",
        "not xml",
        '<!DOCTYPE x [<!ENTITY a "b">]><feed xmlns="http://www.w3.org/2005/Atom">&a;</feed>',
    ],
)
def test_a_reply_of_something_else_is_malformed(site: Site, body: str) -> None:
    site.routes["/api/query"] = Answer(body)
    assert isinstance(failure(site).error, MalformedSourceError)


@pytest.mark.parametrize("source", ["arxiv:", "arxiv:x?max=0", "arxiv:x?max=many", "arxiv:x?n=2"])
def test_a_source_that_names_nothing_is_refused_unasked(site: Site, source: str) -> None:
    assert failure(site, source).error.hint
    assert not site.asked


def test_a_pdf_that_is_none_is_a_failure(site: Site) -> None:
    site.routes["/pdf/2401.01234v2"] = Answer("<html>come back later</html>")
    assert isinstance(failure(site).error, MalformedSourceError)
