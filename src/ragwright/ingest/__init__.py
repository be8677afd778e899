"""Readers that turn sources into documents, and chunkers that cut them."""

from ._apart import ScanProgress, extract_bytes
from ._chunkers import HeadedChunker, make_chunker
from ._encoding import decode
from ._extract import Attachment, Extract, markdown_headings
from ._fetch import FetchHandler, Resolve, refusal, resolve
from ._files import FileReader, RemoteReader
from ._html import parse_html
from ._normalise import clean_metadata, guess_language, iso_date, normalise
from ._ocr import engine_name
from ._options import (
    OURS,
    ChunkOptions,
    FetchOptions,
    HeadOptions,
    IngestOptions,
    SourceOptions,
    check_parser_name,
)
from ._seams import (
    Chunker,
    Failure,
    FetchBytes,
    Fetched,
    Reader,
    RemoteFile,
    SourceFile,
    SuffixReader,
    catch_failures,
    check_spans,
    failure_lines,
)
from ._sources import (
    GroupOptions,
    GroupRule,
    default_readers,
    files_of,
    load_reader,
    pick_reader,
)
from ._tabular import BeirReader
from ._web import ArxivReader, WebReader, WikipediaReader
from .parsers import Parser, parser_version

__all__ = [
    "OURS",
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
    "GroupOptions",
    "GroupRule",
    "HeadOptions",
    "HeadedChunker",
    "IngestOptions",
    "Parser",
    "Reader",
    "RemoteFile",
    "RemoteReader",
    "Resolve",
    "ScanProgress",
    "SourceFile",
    "SourceOptions",
    "SuffixReader",
    "WebReader",
    "WikipediaReader",
    "catch_failures",
    "check_parser_name",
    "check_spans",
    "clean_metadata",
    "decode",
    "default_readers",
    "engine_name",
    "extract_bytes",
    "failure_lines",
    "files_of",
    "guess_language",
    "iso_date",
    "load_reader",
    "make_chunker",
    "markdown_headings",
    "normalise",
    "parse_html",
    "parser_version",
    "pick_reader",
    "refusal",
    "resolve",
]
