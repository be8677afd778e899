"""arXiv papers, by id or by query: metadata from the Atom API, text from the PDF."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode
from xml.etree import ElementTree

from ..core import (
    Document,
    FetchError,
    MalformedSourceError,
    MetaValue,
    RagwrightError,
    SourceError,
    StoppedError,
)
from ._apart import extract_bytes
from ._archive import safe_tree
from ._options import SourceOptions
from ._seams import Failure, FetchBytes, Reader
from ._sniff import sniff
from .ocr import with_text

_ID = re.compile(r"^(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(v\d+)?$")
_PAGE = re.compile(r"^https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/([^?#]+)", re.I)
_WITHDRAWN = re.compile(
    r"^\W*withdrawn\b|\b(?:paper|article|manuscript|submission|preprint|work|it)\b"
    r"[^.]{0,30}\b(?:been|is|was) withdrawn\b",
    re.IGNORECASE,
)
_NAMES = {"a": "http://www.w3.org/2005/Atom", "x": "http://arxiv.org/schemas/atom"}
_FIELD = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all):")
_MOST = 100


@dataclass(frozen=True, slots=True)
class _Paper:
    """One entry of the API's feed."""

    identity: str
    version: str
    title: str
    summary: str
    comment: str
    published: str
    updated: str
    doi: str
    authors: tuple[str, ...]
    categories: tuple[str, ...]


class ArxivReader(Reader):
    """Reads ``arxiv:2401.01234``, ``arxiv:hep-th/9901001v2``, ``arxiv:query words?max=5``.

    A query finds papers with all its words (fields like ``ti:`` and ``au:`` are passed on),
    most relevant first. Text and pages come from the PDF; title, authors, categories, DOI
    and dates from the API. A paper that is missing or withdrawn is a failure.

    Args:
        options: For reading the PDF.
        api: Address of the Atom API.
        site: Address under which ``/pdf/ID`` and ``/abs/ID`` lie.
    """

    name = "arxiv"

    def __init__(
        self,
        options: SourceOptions | None = None,
        api: str = "https://export.arxiv.org/api/query",
        site: str = "https://arxiv.org",
    ) -> None:
        self.options = options or SourceOptions()
        self.api = api
        self.site = site.rstrip("/")

    def accepts(self, source: str) -> bool:
        """True for ``arxiv:`` and for addresses of papers."""
        return source.lower().startswith("arxiv:") or bool(_PAGE.match(source.strip()))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the papers, each only when the caller gets to it."""
        try:
            query, identity = _question(source.strip())
            feed = fetch(f"{self.api}?{urlencode(query)}").body
            papers = _papers(feed, source)
            if not papers:
                raise SourceError(
                    f"arXiv has no paper {identity!r}"
                    if identity
                    else "arXiv finds no paper for this query",
                    where=source,
                    hint="check the id" if identity else "use fewer or other words",
                )
        except StoppedError:
            raise
        except RagwrightError as error:
            yield Failure(source, _explained(error, source))
            return
        for paper in papers:
            try:
                yield from self._paper(paper, source, identity, fetch)
            except StoppedError:
                raise
            except RagwrightError as error:
                yield Failure(source if identity else f"arxiv:{paper.identity}", error)

    def _paper(
        self, paper: _Paper, source: str, identity: str, fetch: FetchBytes
    ) -> Iterator[Document | Failure]:
        where = f"arxiv:{paper.identity}{paper.version}"
        if _WITHDRAWN.search(paper.comment) or _WITHDRAWN.search(paper.summary[:300]):
            raise SourceError(
                f"{paper.title!r} was withdrawn",
                where=where,
                hint=f"an earlier version may exist: see {self.site}/abs/{paper.identity}",
            )
        asked_version = identity.partition("v")[2] if _ID.match(identity) else ""
        name = f"{paper.identity}{paper.version}"
        try:
            fetched = fetch(f"{self.site}/pdf/{name}")
        except FetchError as error:
            if error.status == 404:
                raise SourceError(
                    f"arXiv has no PDF of {paper.title!r}",
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
        extract = with_text(extract_bytes(file, fetched.body, self.options), file)
        metadata: dict[str, MetaValue] = {
            **extract.metadata,
            "authors": paper.authors,
            "categories": paper.categories,
            "doi": paper.doi,
            "version": paper.version,
        }
        extract = replace(
            extract,
            created=paper.published,
            modified=paper.updated,
            metadata={key: value for key, value in metadata.items() if value},
        )
        shown = f"arxiv:{name}" if asked_version else f"arxiv:{paper.identity}"
        address = f"{self.site}/abs/{name}"
        yield extract.document(shown, address, paper.title or extract.title or address)
        for fault in extract.faults:
            yield Failure(source, fault)


def _question(source: str) -> tuple[dict[str, str], str]:
    """Return the API's parameters, and the id if the source names one."""
    page = _PAGE.match(source)
    text = page[1].removesuffix(".pdf").strip("/") if page else source.partition(":")[2].strip()
    if _ID.match(text):
        return {"id_list": text, "max_results": "1"}, text
    words, _, settings = text.partition("?")
    values = parse_qs(settings)
    most = values.get("max", ["5"])[0]
    if (
        not words.strip()
        or set(values) - {"max"}
        or not most.isdigit()
        or not 1 <= int(most) <= _MOST
    ):
        raise SourceError(
            f"{source!r} names neither a paper nor a query",
            where=source,
            hint=f"write arxiv:2401.01234, or arxiv:query words?max=5 (at most {_MOST})",
        )
    query = words if _FIELD.search(words) else " AND ".join(f"all:{w}" for w in words.split())
    return {
        "search_query": query,
        "sortBy": "relevance",
        "sortOrder": "descending",
        "max_results": most,
    }, ""


def _papers(feed: bytes, source: str) -> list[_Paper]:
    """Parse the entries of a feed; those without a paper (errors, unknown ids) raise."""
    root = safe_tree(feed, source)
    if root.tag != f"{{{_NAMES['a']}}}feed":
        raise MalformedSourceError(
            "the reply does not come from arXiv's API",
            where=source,
            hint="a proxy or login page may have answered instead",
        )
    papers = []
    for entry in root.findall("a:entry", _NAMES):
        address = _text(entry, "a:id")
        if "/api/errors" in address:
            raise SourceError(f"arXiv answered: {_text(entry, 'a:summary')}", where=source)
        name = address.partition("/abs/")[2]
        match = _ID.match(name)
        if not match or not _text(entry, "a:title"):
            continue
        authors = [_text(author, "a:name") for author in entry.findall("a:author", _NAMES)]
        terms = [c.get("term", "") for c in entry.findall("a:category", _NAMES)]
        papers.append(
            _Paper(
                identity=match[1],
                version=match[2] or "",
                title=_text(entry, "a:title"),
                summary=_text(entry, "a:summary"),
                comment=_text(entry, "x:comment"),
                published=_text(entry, "a:published"),
                updated=_text(entry, "a:updated"),
                doi=_text(entry, "x:doi"),
                authors=tuple(a for a in authors if a),
                categories=tuple(t for t in terms if t),
            )
        )
    return papers


def _text(element: ElementTree.Element, path: str) -> str:
    return " ".join((element.findtext(path, "", _NAMES) or "").split())


def _explained(error: RagwrightError, source: str) -> RagwrightError:
    """Return the error for a refused query: arXiv answers 400 to an impossible id."""
    if isinstance(error, FetchError) and error.status == 400:
        return SourceError(
            "arXiv cannot read this id or query", where=source, hint="check its spelling"
        )
    return error
