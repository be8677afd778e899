from ._engines import (
    Docling as Docling,
    EdgeParse as EdgeParse,
    Kreuzberg as Kreuzberg,
    MarkItDown as MarkItDown,
)
from ._reading import (
    check_parser as check_parser,
    parse_by as parse_by,
    parser_of as parser_of,
    parser_version as parser_version,
)
from ._seam import Parser as Parser
