"""Sources by name: web pages, Wikipedia articles, arXiv papers, collections of BEIR."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import Message
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree

from ..core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    FetchError,
    MalformedSourceError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
)
from ..flow import FetchReply
from ._apart import extract_bytes, main_part
from ._archive import parse_xml
from ._encoding import clean_metadata, decodes, guess_language, normalise, sniff
from ._extract import Extract, TextBuilder
from ._html import decode_html
from ._ocr import require_text
from ._options import Failure, FetchBytes, Reader, SourceFile, SourceOptions, catch_failures

_SUFFIX = {
    "application/epub+zip": ".epub",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/tei+xml": ".xml",
    "application/xml": ".xml",
    "image/svg+xml": ".svg",
    "message/rfc822": ".eml",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/tab-separated-values": ".tsv",
    "text/xml": ".xml",
}


@dataclass(eq=False)
class WebReader(Reader):
    """Reads ``http://`` and ``https://`` addresses.

    Of an HTML page the main part is kept: no navigation, header, footer or cookie notice.
    Other content (PDF, DOCX, CSV, …) is read as a file of that type. The
    document's id is the address as given, without fragment; its source is the address after
    redirects.
    """

    name = "web"
    options: SourceOptions = SourceOptions()

    def accepts(self, source: str) -> bool:
        """True for http and https addresses."""
        return source.strip().lower().startswith(("http://", "https://"))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the document at an address, or say why there is none."""
        address = source.strip().partition("#")[0]
        fetched = fetch(address)
        extract = extract_page(fetched, self.options)
        yield extract.document(address, fetched.url, extract.title or fetched.url)
        yield from (Failure(source, fault, warning=True) for fault in extract.faults)


def extract_page(fetched: FetchReply, options: SourceOptions) -> Extract:
    """Extract text and structure of a fetched page.

    Raises:
        EmptySourceError: Nothing to read on the page.
        SourceError: As the reader of the type says.
    """
    kind, charset = content_type(fetched.headers.get("content-type", ""))
    unclear = kind in ("", "text/plain") and sniff(fetched.body) == "html"
    if unclear or kind in ("text/html", "application/xhtml+xml"):
        decoded = decode_html(fetched.body, fetched.url, options.encoding, charset)
        extract = main_part(decoded.text, fetched.url, options)
        return replace(extract, faults=(*decoded.faults, *extract.faults))
    text = kind.startswith("text/") or kind == "application/json"
    if text and charset and not options.encoding and decodes(fetched.body, charset):
        options = replace(options, encoding=charset)
    name = _name(fetched.url, kind)
    return require_text(extract_bytes(name, fetched.body, options), name)


def _name(url: str, kind: str) -> str:
    """Return an address as a file name with the suffix of its media type."""
    name, suffix = unquote(url.partition("?")[0]), _SUFFIX.get(kind, "")
    return name if name.lower().endswith(suffix) else name + suffix


def content_type(header: str) -> tuple[str, str]:
    """Parse media type and charset of a Content-Type header, in lower case; empty if missing."""
    message = Message()
    message["Content-Type"] = header or "unknown/unknown"
    kind = message.get_content_type() if "/" in header else ""
    return kind.lower(), str(message.get_param("charset") or "").strip("'\" ").lower()


_ARTICLE = re.compile(r"https?://([a-z-]+)\.(?:m\.)?wikipedia\.org/wiki/([^?#]+)", re.IGNORECASE)
_TITLE = re.compile(r"(?i:wikipedia):\s*(?:([a-z]{2,3}(?:-[a-z]{2,10})*|simple):)?(.*)")


@dataclass(eq=False)
class WikipediaReader(Reader):
    """Reads ``wikipedia:Title``, ``wikipedia:fr:Titre`` and addresses of article pages.

    Text comes as the API's plain extract: headings become sections; tables, boxes and
    references are not part of it. Redirects are followed and named in the metadata; a page
    that does not exist, or is a disambiguation page, is a failure that says so.

    Args:
        base: Address of a Wikipedia, ``{language}`` in it replaced.
    """

    name = "wikipedia"
    base: str = "https://{language}.wikipedia.org"

    def accepts(self, source: str) -> bool:
        """True for ``wikipedia:`` and for addresses of articles."""
        return bool(_ARTICLE.match(source.strip()) or _TITLE.match(source.strip()))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the article, or say why there is none."""
        named = _ARTICLE.match(source.strip()) or _TITLE.match(source.strip())
        assert named is not None
        language, title = (named[1] or "en").lower(), unquote(named[2]).replace("_", " ").strip()
        if not title:
            raise SourceError(
                "no title is named",
                where=source,
                hint="write wikipedia:Title or wikipedia:fr:Titre",
            )
        base = self.base.replace("{language}", language)
        reply = fetch(f"{base}/w/api.php?{urlencode({**_QUERY, 'titles': title})}")
        yield _article(_page(reply.body, source), language, base)


_QUERY = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "prop": "extracts|info|pageprops|revisions",
    "explaintext": "1",
    "exsectionformat": "wiki",
    "inprop": "url",
    "ppprop": "disambiguation",
    "rvprop": "ids|timestamp",
    "redirects": "1",
}


def _page(body: bytes, source: str) -> dict[str, Any]:
    """Return the only page of a reply, with the title it was redirected from."""
    try:
        reply = json.loads(body)
        if "error" in reply:
            raise SourceError(
                f"Wikipedia answered: {reply['error'].get('info') or reply['error']}", where=source
            )
        query = reply["query"]
        page: dict[str, Any] = dict(query["pages"][0])
        title = str(page["title"])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise MalformedSourceError(
            "the reply does not come from Wikipedia's API",
            where=source,
            hint="a proxy or login page may have answered instead",
        ) from error
    if page.get("missing") or page.get("invalid"):
        raise SourceError(
            f"{title!r}: {page.get('invalidreason') or 'Wikipedia has no page with this title'}",
            where=source,
            hint="titles must match exactly: copy the page's title",
        )
    extract = str(page.get("extract") or "").strip()
    if "disambiguation" in (page.get("pageprops") or {}):
        lines = [line.strip() for line in extract.split("\n")[1:] if "," in line][:5]
        raise SourceError(
            f"{title!r} only lists the meanings of a name",
            where=source,
            hint="name one of them: " + "; ".join(lines) if lines else "name the article itself",
        )
    if not extract:
        raise SourceError(f"the page {title!r} has no text", where=source)
    sources = (r.get("from", "") for r in query.get("redirects", []) if isinstance(r, dict))
    return {**page, "redirected_from": next(sources, "")}


def _article(page: dict[str, Any], language: str, base: str) -> Document:
    title = str(page["title"])
    builder = TextBuilder()
    for line in str(page["extract"]).split("\n"):
        if heading := re.match(r"(={2,6})\s*(.+?)\s*\1$", line.strip()):
            builder.heading(heading[2], len(heading[1]) - 1)
        else:
            builder.add(line, "\n\n" if len(line) > 80 else "\n")  # a shorter one may be an item
    revision = (page.get("revisions") or [{}])[0]
    metadata = {"revision": revision.get("revid"), "redirected_from": page["redirected_from"]}
    return Document(
        id=f"wikipedia:{language}:{title}",
        source=str(page.get("fullurl") or f"{base}/wiki/{title.replace(' ', '_')}"),
        text=builder.text(),
        title=title,
        language=language.partition("-")[0] if language != "simple" else "en",
        modified=str(revision.get("timestamp") or page.get("touched") or ""),
        media_type="text/x-wiki",
        sections=builder.sections(),
        metadata={name: value for name, value in metadata.items() if value},
    )


_ID = re.compile(r"^(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(v\d+)?$")
_PAPER = re.compile(r"^https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/([^?#]+)", re.I)
_NAMES = {"a": "http://www.w3.org/2005/Atom", "x": "http://arxiv.org/schemas/atom"}


@dataclass(eq=False)
class ArxivReader(Reader):
    """Reads ``arxiv:2401.01234``, ``arxiv:hep-th/9901001v2``, ``arxiv:query words?max=5``.

    A query finds papers with all its words (fields like ``ti:`` and ``au:`` are passed on),
    most relevant first. Text and pages come from the PDF; title, authors, categories, DOI
    and dates from the API. A paper that is missing, or has no PDF, is a failure.

    Args:
        options: For reading the PDF.
        api: Address of the Atom API.
        site: Address under which ``/pdf/ID`` and ``/abs/ID`` lie.
    """

    name = "arxiv"
    options: SourceOptions = SourceOptions()
    api: str = "https://export.arxiv.org/api/query"
    site: str = "https://arxiv.org"

    def accepts(self, source: str) -> bool:
        """True for ``arxiv:`` and for addresses of papers."""
        return source.lower().startswith("arxiv:") or bool(_PAPER.match(source.strip()))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the papers, each only when the caller gets to it."""
        query, identity = _question(source.strip())
        papers = _papers(fetch(f"{self.api}?{urlencode(query)}").body, source)
        if not papers:
            raise SourceError(
                f"arXiv has no paper {identity!r}"
                if identity
                else "arXiv finds no paper for this query",
                where=source,
                hint="check the id" if identity else "use fewer or other words",
            )
        for paper in papers:
            name = source if identity else f"arxiv:{_paper_id(paper)[0]}"
            yield from catch_failures(self._paper(paper, source, identity, fetch), name, self)

    def _paper(
        self, paper: ElementTree.Element, source: str, identity: str, fetch: FetchBytes
    ) -> Iterator[Document | Failure]:
        bare, version = _paper_id(paper)
        name, title = f"{bare}{version}", _text(paper, "a:title")
        where = f"arxiv:{name}"
        try:
            fetched = fetch(f"{self.site}/pdf/{name}")
        except FetchError as error:
            if error.status == 404:
                raise SourceError(
                    f"arXiv has no PDF of {title!r}",
                    where=where,
                    hint="withdrawn papers and some old ones have none",
                ) from error
            raise
        if sniff(fetched.body) != "pdf":  # a page that asks to wait is not a paper
            raise MalformedSourceError(
                "arXiv did not send a PDF",
                where=fetched.url,
                hint="it may ask for a pause: try again later, with fewer papers",
            )
        file = f"{self.site}/pdf/{name}.pdf"
        extract = require_text(extract_bytes(file, fetched.body, self.options), file)
        authors = [_text(author, "a:name") for author in paper.findall("a:author", _NAMES)]
        metadata = {
            **extract.metadata,
            "authors": tuple(filter(None, authors)),
            "categories": tuple(c.get("term", "") for c in paper.findall("a:category", _NAMES)),
            "doi": _text(paper, "x:doi"),
            "version": version,
        }
        extract = replace(
            extract,
            created=_text(paper, "a:published"),
            modified=_text(paper, "a:updated"),
            metadata={key: value for key, value in metadata.items() if value},
        )
        address = f"{self.site}/abs/{name}"
        yield extract.document(
            where if identity.endswith(version) else f"arxiv:{bare}", address, title
        )
        yield from (Failure(source, fault, warning=True) for fault in extract.faults)


def _question(source: str) -> tuple[dict[str, str], str]:
    """Return the API's parameters, and the id if the source names one."""
    page = _PAPER.match(source)
    text = page[1].removesuffix(".pdf").strip("/") if page else source.partition(":")[2].strip()
    if _ID.match(text):
        return {"id_list": text, "max_results": "1"}, text
    question = re.fullmatch(r"([^?]*[^?\s][^?]*)(?:\?max=([1-9]\d?|100))?", text)
    if question is None:
        raise SourceError(
            f"{source!r} names neither a paper nor a query",
            where=source,
            hint="write arxiv:2401.01234, or arxiv:query words?max=5 (at most 100)",
        )
    words = question[1]
    fields = re.search(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all):", words)
    return {
        "search_query": words if fields else " AND ".join(f"all:{w}" for w in words.split()),
        "sortBy": "relevance",
        "sortOrder": "descending",
        "max_results": question[2] or "5",
    }, ""


def _papers(feed: bytes, source: str) -> list[ElementTree.Element]:
    """Parse the entries of a feed; those without a paper (errors, unknown ids) raise."""
    root = parse_xml(feed, source)
    if root.tag != f"{{{_NAMES['a']}}}feed":
        raise MalformedSourceError(
            "the reply does not come from arXiv's API",
            where=source,
            hint="a proxy or login page may have answered instead",
        )
    entries = root.findall("a:entry", _NAMES)
    for entry in entries:
        if "/api/errors" in _text(entry, "a:id"):
            raise SourceError(f"arXiv answered: {_text(entry, 'a:summary')}", where=source)
    return [entry for entry in entries if _paper_id(entry)[0] and _text(entry, "a:title")]


def _paper_id(entry: ElementTree.Element) -> tuple[str, str]:
    """Return the id of a paper and its version; empty where it is not one of arXiv's."""
    match = _ID.match(_text(entry, "a:id").partition("/abs/")[2])
    return (match[1], match[2] or "") if match else ("", "")


def _text(element: ElementTree.Element, path: str) -> str:
    return " ".join((element.findtext(path, "", _NAMES) or "").split())


@dataclass(eq=False)
class BeirReader(Reader):
    """Reads ``beir:DIR``: lines ``{"_id", "title", "text", "metadata"}`` of ``corpus.jsonl``.

    A document's id is its ``_id``; a text that is empty is replaced by the title. A line that is
    not a document, or repeats an id, is a failure that names it, and reading continues. Memory is
    constant except for the ids. The language is detected once for the collection, unless metadata
    names it.

    Args:
        base: Folder that relative paths start from.
    """

    name = "beir"
    base: Path = Path()

    def accepts(self, source: str) -> bool:
        """True for ``beir:``."""
        return source.lower().startswith("beir:")

    def files(self, source: str) -> Iterator[Path | Failure]:
        """Return the corpus file of the folder."""
        folder = self.base / Path(source.partition(":")[2]).expanduser()
        path = folder / "corpus.jsonl"
        if path.is_file():
            yield path
            return
        error = UnsupportedSourceError(
            "the folder contains no corpus.jsonl",
            where=str(folder),
            hint="give the folder to which a BEIR data set was unpacked",
        )
        yield Failure(source, error)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of a corpus file, in its order."""
        assert isinstance(path, Path)
        items = _read_lines(path, f"beir:{path.parent}")
        first = list(islice(items, 50))
        if not first:
            error = EmptySourceError(
                "the corpus contains no document",
                where=str(path),
                hint="write one object per line, or download the data set again",
            )
            yield Failure(f"beir:{path.parent}", error)
        texts = (item.text[:400] for item in first if isinstance(item, Document))
        language = guess_language("\n".join(texts))
        for item in chain(first, items):
            if isinstance(item, Document):
                yield replace(item, language=str(item.metadata.get("language") or language))
            else:
                yield item


def _read_lines(path: Path, source: str) -> Iterator[Document | Failure]:
    """Yield the document of each line, or its failure."""
    lines: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                document = _document(line, f"{path}:{number}") if line.strip() else None
                if document and lines.setdefault(document.id, number) != number:
                    raise DuplicateIdError(
                        f"the id {document.id!r} is on line {lines[document.id]} and again on "
                        f"line {number}",
                        where=f"{path}:{number}",
                        hint="make the ids unique; the first document was kept",
                    )
            except RagwrightError as error:
                yield Failure(source, error)
            else:
                yield from [document] if document else []


def _document(line: bytes, where: str) -> Document:
    """Read a line."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
        values = (record["_id"], *(record.get(name) for name in ("title", "text", "metadata")))
        expected = (str | int, str | None, str | None, dict | None)
        named = not isinstance(values[0], bool) and str(values[0]).strip()
        if not named or not all(map(isinstance, values, expected)):
            raise TypeError("_id, title and text must be strings, metadata an object")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise MalformedSourceError(
            f"the line is not a document: {type(error).__name__}: {error}",
            where=where,
            hint='write one object per line, in UTF-8: {"_id": "1", "title": "…", "text": "…"}',
        ) from error
    title = " ".join(normalise(values[1] or "").split())
    text = normalise(values[2] or "")
    if not title and not text.strip():
        raise EmptySourceError(f"document {values[0]!r} has neither title nor text", where=where)
    return Document(
        id=str(values[0]),
        source=where,
        text=text if text.strip() else title,
        title=title,
        metadata=clean_metadata(values[3] or {}),
    )
