from ._apart import extract_bytes
from ._arxiv import ArxivReader
from ._beir import BeirReader
from ._chunkers import make_chunker
from ._chunks import check_spans
from ._extract import Attachment, Extract
from ._fetch import FetchHandler
from ._files import FileReader
from ._html import html_to_text, parse_html
from ._language import guess_language
from ._normalise import clean_metadata, iso_date, normalise
from ._options import ChunkOptions, FetchOptions, SourceOptions
from ._seams import Chunker, Failure, FetchBytes, Fetched, Reader
from ._sources import (
    default_readers,
    files_of,
    guarded,
    load_reader,
    pick_reader,
    read_sources,
)
from ._web import WebReader
from ._wikipedia import WikipediaReader

__all__ = [
    "ArxivReader",
    "Attachment",
    "BeirReader",
    "ChunkOptions",
    "Chunker",
    "Extract",
    "Failure",
    "FetchBytes",
    "FetchHandler",
    "FetchOptions",
    "Fetched",
    "FileReader",
    "Reader",
    "SourceOptions",
    "WebReader",
    "WikipediaReader",
    "check_spans",
    "clean_metadata",
    "default_readers",
    "extract_bytes",
    "files_of",
    "guarded",
    "guess_language",
    "html_to_text",
    "iso_date",
    "load_reader",
    "make_chunker",
    "normalise",
    "parse_html",
    "pick_reader",
    "read_sources",
]
