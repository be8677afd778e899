from ._loader import LoaderReader as LoaderReader
from ._remote import RemoteReader as RemoteReader
