from ._loader import LoaderReader as LoaderReader
from ._remote import RemoteReader as RemoteReader
from ._table import TableReader as TableReader
