"""Markdown: front matter to metadata, headings to sections, the text as it stands."""

from __future__ import annotations

from typing import Any

from ..core import EmptySourceError
from ._extract import Extract, markdown_headings, sections_of
from ._front_matter import front_matter
from ._language import guess_language
from ._normalise import clean_metadata, decode, iso_date, normalise
from ._options import SourceOptions

_CREATED = ("created", "date", "published", "publish_date", "date_created")
_MODIFIED = ("modified", "updated", "lastmod", "last_modified", "ms_date")


def read_markdown(data: bytes, where: str, options: SourceOptions) -> Extract:
    """A Markdown file; one whose front matter cannot be read whole is not read.

    Raises:
        MalformedSourceError: The front matter cannot be read whole.
        EmptySourceError: Nothing but front matter and white space.
        UnsupportedSourceError: The bytes are no text.
    """
    raw, encoding = decode(data, where, options.encoding)
    text = normalise(raw)
    front, text = front_matter(text, where)
    if not text.strip():
        raise EmptySourceError(
            "the file holds no text below its front matter", where=where, hint="remove or fill it"
        )
    metadata = clean_metadata({"encoding": "" if encoding == "utf-8" else encoding, **front})
    headings = markdown_headings(text)
    title = str(metadata.pop("title", ""))
    language = str(metadata.pop("lang", metadata.pop("language", "")))[:2].lower()
    return Extract(
        text=text,
        title=title or (headings[0][0] if headings else ""),
        language=language or guess_language(text),
        created=_date(metadata, _CREATED),
        modified=_date(metadata, _MODIFIED),
        media_type="text/markdown",
        sections=sections_of(headings, len(text)),
        metadata=metadata,
    )


def _date(metadata: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((d for name in names if (d := iso_date(metadata.get(name)))), "")
