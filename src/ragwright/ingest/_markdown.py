"""Markdown: front matter to metadata, headings to sections, the text as it stands."""

from __future__ import annotations

import re
from typing import Any

from ..core import EmptySourceError, MalformedSourceError, RagwrightError
from ._extract import Extract, markdown_headings, sections_of
from ._language import guess_language
from ._normalise import clean_metadata, decode, iso_date, normalise
from ._options import SourceOptions

_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)(?<=\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_LIMIT = 65_536
_CREATED = ("created", "date", "published", "publish_date", "date_created")
_MODIFIED = ("modified", "updated", "lastmod", "last_modified", "ms_date")


def read_markdown(data: bytes, where: str, options: SourceOptions) -> Extract:
    """A Markdown file; broken front matter is a fault, the text after it is still read.

    Raises:
        EmptySourceError: Nothing but front matter and white space.
        UnsupportedSourceError: The bytes are no text.
    """
    raw, encoding = decode(data, where, options.encoding)
    text = normalise(raw)
    front, text, faults = _front_matter(text, where)
    if not text.strip():
        raise EmptySourceError(
            "the file holds no text below its front matter", where=where, hint="remove or fill it"
        )
    metadata = clean_metadata({**front, "encoding": "" if encoding == "utf-8" else encoding})
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
        faults=faults,
    )


def _date(metadata: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((d for name in names if (d := iso_date(metadata.get(name)))), "")


def _front_matter(text: str, where: str) -> tuple[dict[str, Any], str, tuple[RagwrightError, ...]]:
    match = _FRONT.match(text[:_FRONT_LIMIT])
    if not match:
        return {}, text, ()
    import yaml

    try:
        front = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 2
        fault = MalformedSourceError(
            f"the front matter is not YAML: {getattr(error, 'problem', None) or error}",
            where=f"{where}:{line}",
            hint="quote values that hold a colon; the text below was read without it",
        )
        return {}, text[match.end() :], (fault,)
    if not isinstance(front, dict):  # two rules around a sentence are no front matter
        return {}, text, ()
    return front, text[match.end() :], ()
