"""Web pages: the main part of HTML; other types by the file readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ..core import Document, RagwrightError, StoppedError
from ._apart import extract_bytes, main_part
from ._extract import Extract
from ._html import decode_html
from ._options import SourceOptions
from ._seams import Failure, FetchBytes, Fetched, Reader
from ._sniff import sniff
from .ocr import with_text

_HTML = frozenset({"text/html", "application/xhtml+xml"})
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


class WebReader(Reader):
    """Reads ``http://`` and ``https://`` addresses.

    Of an HTML page the main part is kept: no navigation, header, footer or cookie notice.
    Other content (PDF, DOCX, CSV, …) is read as a file of that type. The
    document's id is the address as given, without fragment; its source is the address after
    redirects.
    """

    name = "web"

    def __init__(self, options: SourceOptions | None = None) -> None:
        self.options = options or SourceOptions()

    def accepts(self, source: str) -> bool:
        """True for http and https addresses."""
        return source.strip().lower().startswith(("http://", "https://"))

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the document at an address, or say why there is none."""
        address = source.strip().partition("#")[0]
        try:
            fetched = fetch(address)
            extract = extract_page(fetched, self.options)
        except StoppedError:
            raise
        except RagwrightError as error:
            yield Failure(source, error)
            return
        yield extract.document(address, fetched.url, extract.title or fetched.url)
        for fault in extract.faults:
            yield Failure(source, fault, warning=True)


def extract_page(fetched: Fetched, options: SourceOptions) -> Extract:
    """Extract text and structure of a fetched page.

    Raises:
        EmptySourceError: Nothing to read on the page.
        SourceError: As the reader of the type says.
    """
    kind, charset = content_type(fetched.content_type)
    if kind in _HTML or (kind in {"", "text/plain"} and sniff(fetched.body) == "html"):
        decoded = decode_html(fetched.body, fetched.url, options.encoding, charset)
        extract = main_part(decoded.text, fetched.url, options)
        return replace(extract, faults=(*decoded.faults, *extract.faults))
    text = kind.startswith("text/") or kind == "application/json"
    chosen = options
    if text and charset and not options.encoding and _decodes(fetched.body, charset):
        chosen = replace(options, encoding=charset)
    name = _name(fetched.url, kind)
    return with_text(extract_bytes(name, fetched.body, chosen), name)


def _name(url: str, kind: str) -> str:
    """Return an address as a file name with the suffix of its media type."""
    parts = urlsplit(url)
    path = PurePosixPath(unquote(parts.path))
    suffix = _SUFFIX.get(kind, "")
    name = f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
    return name if not suffix or path.suffix.lower() == suffix else name + suffix


def content_type(header: str) -> tuple[str, str]:
    """Parse media type and charset of a Content-Type header, in lower case; empty if missing."""
    message = Message()
    message["Content-Type"] = header or "unknown/unknown"
    kind = message.get_content_type() if "/" in header else ""
    return kind.lower(), str(message.get_param("charset") or "").strip("'\" ").lower()


def _decodes(body: bytes, charset: str) -> bool:
    try:
        body.decode(charset)
    except (LookupError, UnicodeDecodeError):
        return False
    return True
