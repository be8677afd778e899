from ._addresses import Resolve as Resolve, refusal as refusal, resolve as resolve
from ._apart import extract_bytes as extract_bytes
from ._arxiv import ArxivReader as ArxivReader
from ._beir import BeirReader as BeirReader
from ._chunkers import HeadedChunker as HeadedChunker, make_chunker as make_chunker
from ._chunks import check_spans as check_spans
from ._extract import (
    Attachment as Attachment,
    Extract as Extract,
    markdown_headings as markdown_headings,
)
from ._fetch import FetchHandler as FetchHandler
from ._files import FileReader as FileReader, shortened as shortened
from ._group_options import GroupOptions as GroupOptions, GroupRule as GroupRule
from ._html import parse_html as parse_html
from ._language import guess_language as guess_language
from ._normalise import (
    clean_metadata as clean_metadata,
    iso_date as iso_date,
    normalise as normalise,
)
from ._options import (
    OURS as OURS,
    ChunkOptions as ChunkOptions,
    FetchOptions as FetchOptions,
    HeadOptions as HeadOptions,
    IngestOptions as IngestOptions,
    LoaderOptions as LoaderOptions,
    SourceOptions as SourceOptions,
    TableOptions as TableOptions,
    check_parser_name as check_parser_name,
)
from ._seams import (
    Chunker as Chunker,
    Failure as Failure,
    FetchBytes as FetchBytes,
    Fetched as Fetched,
    Reader as Reader,
    RemoteFile as RemoteFile,
    SourceFile as SourceFile,
    SuffixReader as SuffixReader,
)
from ._sources import (
    default_readers as default_readers,
    files_of as files_of,
    guarded as guarded,
    load_reader as load_reader,
    pick_reader as pick_reader,
)
from ._walk import read_bytes as read_bytes
from ._web import WebReader as WebReader
from ._wikipedia import WikipediaReader as WikipediaReader
from .ocr import ScanProgress as ScanProgress, engine_name as engine_name
from .parsers import Parser as Parser, parser_version as parser_version
from .services import (
    LoaderReader as LoaderReader,
    RemoteReader as RemoteReader,
    TableReader as TableReader,
)
