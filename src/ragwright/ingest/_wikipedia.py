"""Wikipedia articles, by title and language, through the site's own API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlencode

from ..core import Document, MalformedSourceError, RagwrightError, SourceError, StoppedError
from ._extract import TextBuilder
from ._seams import Failure, FetchBytes, Reader

_LANGUAGE = re.compile(r"^(?:[a-z]{2,3}(?:-[a-z]{2,10})*|simple)$")
_PAGE = re.compile(r"^https?://([a-z-]+)\.(?:m\.)?wikipedia\.org/wiki/([^?#]+)", re.IGNORECASE)
_HEADING = re.compile(r"^(={2,6})\s*(.+?)\s*\1\s*$")
_LONG = 80
"""Length from which a line is a paragraph rather than an item of a list."""


class WikipediaReader(Reader):
    """Reads ``wikipedia:Title``, ``wikipedia:fr:Titre`` and addresses of article pages.

    Text comes as the API's plain extract: headings become sections; tables, boxes and
    references are not part of it. Redirects are followed and named in the metadata; a page
    that does not exist, or is a disambiguation page, is a failure that says so.

    Args:
        language: Wikipedia to ask where the source names none.
        base: Address of a Wikipedia, ``{language}`` in it replaced.
    """

    name = "wikipedia"

    def __init__(
        self, language: str = "en", base: str = "https://{language}.wikipedia.org"
    ) -> None:
        self.language = language
        self.base = base.rstrip("/")

    def accepts(self, source: str) -> bool:
        """True for ``wikipedia:`` and for addresses of articles."""
        return source.lower().startswith("wikipedia:") or bool(_PAGE.match(source.strip()))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the article, or say why there is none."""
        try:
            language, title = self._parse(source.strip())
            base = self.base.replace("{language}", language)
            reply = fetch(f"{base}/w/api.php?{urlencode(_query(title))}")
            yield _document(_page(reply.body, source), language, base)
        except StoppedError:
            raise
        except RagwrightError as error:
            yield Failure(source, error)

    def _parse(self, source: str) -> tuple[str, str]:
        page = _PAGE.match(source)
        if page:
            return page[1].lower(), unquote(page[2]).replace("_", " ")
        title = source.partition(":")[2].strip()
        head, colon, rest = title.partition(":")
        language = self.language
        if colon and _LANGUAGE.match(head):
            language, title = head, rest.strip()
        if not title:
            raise SourceError(
                "no title is named",
                where=source,
                hint="write wikipedia:Title or wikipedia:fr:Titre",
            )
        return language, title


def _query(title: str) -> dict[str, str]:
    return {
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
        "titles": title,
    }


def _page(body: bytes, source: str) -> dict[str, Any]:
    """Return the only page of a reply, with the title it was redirected from.

    Raises:
        MalformedSourceError: The reply is not the API's.
        SourceError: The page is missing, cannot exist, or only lists meanings.
    """
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
        why = page.get("invalidreason") or "Wikipedia has no page with this title"
        raise SourceError(
            f"{title!r}: {why}",
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
    sources = [r.get("from", "") for r in query.get("redirects", []) if isinstance(r, dict)]
    page["redirected_from"] = sources[0] if sources else ""
    return page


def _document(page: dict[str, Any], language: str, base: str) -> Document:
    title = str(page["title"])
    builder = TextBuilder()
    for line in str(page["extract"]).split("\n"):
        heading = _HEADING.match(line.strip())
        if heading:
            builder.heading(heading[2], len(heading[1]) - 1)
        else:
            builder.add(line, "\n\n" if len(line) > _LONG else "\n")
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
