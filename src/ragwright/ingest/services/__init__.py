"""Sources of other packages: file systems of fsspec, loaders of LangChain and LlamaIndex."""

from ._loader import LoaderReader
from ._remote import RemoteReader
from ._table import TableReader

__all__ = [
    "LoaderReader",
    "RemoteReader",
    "TableReader",
]
